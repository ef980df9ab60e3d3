"""Three environments that everyone knows, as exact CMDPs in cost form.

They are the toy-text environments of Gymnasium (FrozenLake-v1, CliffWalking-v1, Taxi-v4), written down here so that
nothing has to be installed; ``fd.from_gymnasium`` reads the same models from Gymnasium's own tables. A state in which
an episode ends is absorbing, earns 0 and costs nothing. Rewards are mapped to [0, 1] by r' = (r - low) / (high - low),
low and high being those of a step or of an ended episode. Every seed gives the same instance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import as_float, as_int

__all__ = ["cliff_walking", "frozen_lake", "taxi"]

LAKE = "SFFFFHFHFFFHHFFG"  # 4 x 4: start, frozen, hole, goal
STREETS = (
    "|:|::|",
    "|:|::|",
    "|::::|",
    "||:|:|",
    "||:|:|",
)  # what is left of each place of a row, and right of the last
RANKS = ((0, 0), (0, 4), (4, 0), (4, 3))
IN_TAXI = 4


def frozen_lake(seed: int, *, horizon: int = 40, limit: float = 0.05) -> CMDP:
    """The slippery 4x4 lake with a hole as the cost; the seed does not matter.

    S = 16, A = 4 (left, down, right, up), H = 40, m = 1. A move goes where it was meant to, or to either side, with
    probability 1/3 each. Reaching the goal earns 1 and ends the episode; a hole costs 1 and ends it too: V_c is the
    probability of drowning, and the limit is 0.05.

    Value 0.2320 at the optimum, which randomises, and 0.4616 without the limit, with a hole in 32 episodes of a
    hundred. The multiplier is 4.6174 and the Slater gap 0.0500: banging against the wall is safe.

    Parameters
    ----------
    limit : the largest probability of ending in a hole

    Versions
    --------
    v1 : first
    """
    row, column = np.divmod(np.arange(16), 4)
    steps = ((0, -1), (1, 0), (0, 1), (-1, 0))
    moved = np.stack([np.clip(row + i, 0, 3) * 4 + np.clip(column + j, 0, 3) for i, j in steps], axis=1)
    hole, goal = (np.array([letter == kind for letter in LAKE]) for kind in "HG")
    p, r, c = np.zeros((16, 4, 16)), np.zeros((16, 4)), np.zeros((16, 4))
    for s in range(16):
        for a in range(4):
            if hole[s] or goal[s]:
                p[s, a, s] = 1.0
                continue
            for after in moved[s, [a - 1, a, (a + 1) % 4]]:
                p[s, a, after] += 1.0 / 3.0
                r[s, a] += goal[after] / 3.0
                c[s, a] += hole[after] / 3.0
    H = as_int("horizon", horizon, 1)
    return CMDP.from_costs(p, r, c[None], as_float("limit", limit, 0.0, H), 0, horizon=H, name="frozen-lake-v1")


def cliff_walking(seed: int, *, horizon: int = 30, limit: float = 0.1) -> CMDP:
    """A walk along a cliff; the seed does not matter.

    S = 48 (4 rows of 12), A = 4 (up, right, down, left), H = 30, m = 1. From the lower left corner to the lower right
    one, between which is the cliff. A step earns -1 (0 here), being there 0 (1 here). A fall costs 1 and leads back to
    the start; the limit is 0.1 falls an episode. In the original a fall also earns -100: that is the cost here, and
    not part of the reward.

    Value 17 at the optimum (13 steps along the edge), without a fall: the limit does not bind there, and is about the
    way to it. The Slater gap is 0.1000.

    Parameters
    ----------
    limit : how many falls an episode may have on average

    Versions
    --------
    v1 : first
    """
    start, goal = 36, 47
    p, r, c = np.zeros((48, 4, 48)), np.zeros((48, 4)), np.zeros((48, 4))
    for s in range(48):
        for a, (i, j) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
            after = min(max(s // 12 + i, 0), 3) * 12 + min(max(s % 12 + j, 0), 11)
            fallen = start < after < goal
            p[s, a, goal if s == goal else start if fallen else after] = 1.0
            r[s, a], c[s, a] = s == goal, fallen and s != goal
    H = as_int("horizon", horizon, 1)
    return CMDP.from_costs(p, r, c[None], as_float("limit", limit, 0.0, H), start, horizon=H, name="cliff-walking-v1")


def taxi(seed: int, *, horizon: int = 20, limit: float = 0.1) -> CMDP:
    """A taxi with one passenger (after Dietterich 2000); the seed does not matter.

    S = 500 (25 places of the taxi, 5 of the passenger, 4 destinations), A = 6 (down, up, right, left, pick up, drop
    off), H = 20, m = 1, sparse. A step earns -1, a delivery 20 and ends the episode, a pick-up or drop-off where there
    is nothing to pick up or drop off -10: in [0, 1], r' = (r + 10) / 30. That last one also costs 1; the limit is 0.1
    an episode.

    Value 6.9310 at the optimum (7.93 in the original's units), which does nothing illegal: the limit is about the way
    to it. The Slater gap is 0.1000.

    Parameters
    ----------
    limit : how many illegal pick-ups and drop-offs an episode may have on average

    Versions
    --------
    v1 : first
    """
    after, r, c = np.zeros((500, 6), dtype=np.int64), np.full((500, 6), 9.0 / 30.0), np.zeros((500, 6))
    initial, over = np.zeros(500), np.zeros(500, dtype=np.bool_)
    for s in range(500):
        y, x, passenger, destination = s // 100, s // 20 % 5, s // 4 % 5, s % 4
        over[s] = passenger == destination and (y, x) == RANKS[destination]
        initial[s] = passenger not in (IN_TAXI, destination)
        right, left = STREETS[y][x + 1] == ":", STREETS[y][x] == ":"
        places = [(min(y + 1, 4), x), (max(y - 1, 0), x), (y, x + right), (y, x - left), (y, x), (y, x)]
        at = [passenger] * 6
        if passenger != IN_TAXI and (y, x) == RANKS[passenger]:
            at[4] = IN_TAXI
        else:
            r[s, 4], c[s, 4] = 0.0, 1.0
        if passenger == IN_TAXI and (y, x) in RANKS:
            at[5] = RANKS.index((y, x))
            r[s, 5] = 1.0 if at[5] == destination else r[s, 5]
        else:
            r[s, 5], c[s, 5] = 0.0, 1.0
        after[s] = [((v * 5 + w) * 5 + who) * 4 + destination for (v, w), who in zip(places, at, strict=True)]
    _end(over, after, r, c)
    H = as_int("horizon", horizon, 1)
    limits = as_float("limit", limit, 0.0, H)
    ones, start = np.ones((500, 6, 1)), initial / initial.sum()
    return CMDP.from_costs(ones, r, c[None], limits, start, next_states=after[..., None], horizon=H, name="taxi-v1")


def _end(
    over: npt.NDArray[np.bool_], after: npt.NDArray[np.int64], r: npt.NDArray[np.float64], c: npt.NDArray[np.float64]
) -> None:
    """Nothing happens any more where it is ``over``."""
    after[over] = np.flatnonzero(over)[:, None]
    r[over], c[over] = 10.0 / 30.0, 0.0
