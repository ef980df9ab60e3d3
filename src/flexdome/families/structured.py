"""Small problems with a story: a video buffer, a shop, a ring, a switch, a river.

All are stationary and in cost form: the expected cost of an episode must not exceed a limit. Nothing in them
is random but the transitions themselves, so every seed gives the same instance.
"""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_int

__all__ = ["factored", "inventory", "media", "oscillator", "river"]


def _line(states: int, down: Float, up: Float) -> Float:
    """(S, A, S) moves along a line, one state down or up with the given (S, A) probabilities, else staying.

    At either end a move beyond it stays.
    """
    s = np.arange(states)
    below, above = np.eye(states)[np.maximum(s - 1, 0)], np.eye(states)[np.minimum(s + 1, states - 1)]
    stay = (1.0 - down - up)[..., None] * np.eye(states)[:, None]
    return down[..., None] * below[:, None] + up[..., None] * above[:, None] + stay


def media(seed: int) -> CMDP:
    """Media streaming over a fast or a slow link (Bura et al. 2022); the seed does not matter.

    S = 10 (0 to 9 packets in the buffer), A = 2, H = 10, m = 1, starting empty. In a step a packet arrives
    with probability 0.9 over the fast link (action 0) or 0.1 over the slow one (action 1), and one leaves
    with probability 0.8: the buffer grows when one only arrives, shrinks when one only leaves, and stays at 0
    or 9 where it would go beyond. An empty buffer is a stall and earns 0, every other level 1. The fast link
    costs 1; the limit is 5.

    Expected stalls (H minus the value): 6.7467 at the optimum, 5.3931 without the limit, 8.9835 with a limit
    of 1. The multiplier is 0.4952 and the Slater gap 5.

    Versions
    --------
    v1 : first
    """
    arrives, leaves = np.tile([0.9, 0.1], (10, 1)), 0.8
    p = _line(10, down=(1.0 - arrives) * leaves, up=arrives * (1.0 - leaves))
    reward = np.ones((10, 2))
    reward[0] = 0.0
    cost = np.tile([1.0, 0.0], (10, 1))
    return CMDP.from_costs(p, reward, cost[None], 5.0, 0, horizon=10, name="media-v1")


def inventory(seed: int) -> CMDP:
    """Stock control (Bura et al. 2022); the seed does not matter.

    S = 6 (0 to 5 units in stock), A = 6 (units ordered, there at once), H = 7, m = 1, starting empty. Demand
    D is 0 to 5 with probabilities .3, .2, .2, .2, .05, .05, and s' = max(s + a - D, 0). An order that the
    shelf has no room for, a > 5 - s, acts as the largest legal one, a = 5 - s. The reward is the expected
    revenue

        R(s, a) = sum_{d <= s + a} P(s' = s + a - d | s, a) 0.08 d,   divided by its largest value, 0.132,

    and the cost of ordering and holding is (4 + 2 a if a > 0) + (s + a), divided by its largest value, 19;
    the limit is 3.5.

    Value 6.6653 at the optimum, 7 without the limit at a cost of 4.5053, 1.5557 with a limit of 0.7. The
    multiplier is 0.9212 and the Slater gap 3.5.

    Notes
    -----
    Revenue goes by the probability of the next state, and every demand of at least s + a leads to s' = 0. So
    the term of an emptied shelf counts all of them at s + a units, not only the demand for exactly s + a:
    more than if a demand that cannot be met in full bought nothing. The sum is 0.08 E min(D, s + a), the
    units that are sold.

    Versions
    --------
    v1 : first
    """
    demand = np.array([0.3, 0.2, 0.2, 0.2, 0.05, 0.05])
    s, a = np.ogrid[:6, :6]
    order = np.minimum(a, 5 - s)
    stock = s + order
    sold = np.minimum(np.arange(6), stock[..., None])  # [s, a, D]
    p = np.zeros((6, 6, 6))
    np.add.at(p, (s[..., None], a[..., None], stock[..., None] - sold), demand)
    revenue = 0.08 * (sold @ demand)
    cost = np.where(order > 0, 4.0 + 2.0 * order, 0.0) + stock
    return CMDP.from_costs(p, revenue / revenue.max(), cost[None] / cost.max(), 3.5, 0, horizon=7, name="inventory-v1")


def factored(seed: int) -> CMDP:
    """Three states in a ring (Zheng and Ratliff 2020; Bura et al. 2022); the seed does not matter.

    S = 3, A = 2, H = 6, m = 1, starting in state 0. Action 0 stays; action 1 moves from s to s + 1 mod 3,
    earns (s + 1)/3 and costs 1; the limit is 3. Value 2 at the optimum, 4 without the limit at a cost of 6,
    0.4 with a limit of 0.6. The multiplier is 2/3 and the Slater gap 3.

    Versions
    --------
    v1 : first
    """
    s = np.arange(3)
    p = np.stack([np.eye(3), np.eye(3)[(s + 1) % 3]], axis=1)
    reward = np.stack([np.zeros(3), (s + 1) / 3.0], axis=1)
    cost = np.tile([0.0, 1.0], (3, 1))
    return CMDP.from_costs(p, reward, cost[None], 3.0, 0, horizon=6, name="factored-v1")


def oscillator(seed: int, *, horizon: int = 10) -> CMDP:
    """Two states, and the value to be maximised is the one that is limited (Moskovitz et al. 2023).

    S = A = 2, H = 10, m = 1, starting in state 0; the seed does not matter. From either state action 0 leads
    to state 1 and earns 1, action 1 leads to state 0 and earns 0; the reward is also the cost, the limit H/2.
    Optimum and Slater gap are H/2 and the multiplier is 1, where every policy maximises the Lagrangian: plain
    primal-dual iterates go round and round.

    Versions
    --------
    v1 : first
    """
    H = as_int("horizon", horizon, 1, 10**7)
    p = np.tile(np.eye(2)[[1, 0]], (2, 1, 1))
    reward = np.tile([1.0, 0.0], (2, 1))
    return CMDP.from_costs(p, reward, reward[None], 0.5 * H, 0, horizon=H, name="oscillator-v1")


def river(seed: int) -> CMDP:
    """River swim with a costly sprint; the seed does not matter.

    S = 6 from the left bank to the right, A = 3, H = 12, m = 1, starting at the left bank. Action 0 drifts
    one state to the left for sure. Action 1 swims: to the right with probability 0.35 and to the left with
    0.05; from the left bank to the right with 0.6; washed off the right bank with 0.4. Action 2 sprints: to
    the right with probability 0.85, never back, and costs 1. Drifting at the left bank earns 0.005, swimming
    or sprinting at the right bank 1. The limit is 3 sprints an episode.

    Value 2.6274 at the optimum, which randomises, and 6.1177 without the limit at a cost of 11.00. The
    multiplier is 0.5558 and the Slater gap 3.

    Versions
    --------
    v1 : first
    """
    down = np.tile([1.0, 0.05, 0.0], (6, 1))
    up = np.tile([0.0, 0.35, 0.85], (6, 1))
    down[0, 1], up[0, 1] = 0.0, 0.6
    down[5, 1], up[5, 1] = 0.4, 0.0
    reward = np.zeros((6, 3))
    reward[0, 0], reward[5, 1:] = 0.005, 1.0
    cost = np.tile([0.0, 0.0, 1.0], (6, 1))
    return CMDP.from_costs(_line(6, down, up), reward, cost[None], 3.0, 0, horizon=12, name="river-v1")
