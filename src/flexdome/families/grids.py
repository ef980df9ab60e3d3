"""Grid worlds, in cost form.

States are cells, row by row from the top left corner; actions 0 to 3 move up, right, down and left, and a
move into a wall stays. What a cell pays or costs is earned on entering it: r(s, a) and c(s, a) are
expectations over the next state. The maps are fixed, so every seed gives the same instance.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_float

__all__ = ["grid", "rover"]

PITS = ((2, 3), (2, 6), (5, 1), (5, 2), (6, 1), (6, 4), (6, 6), (7, 3))
HAZARDS = ((1, 2), (2, 1), (2, 2), (2, 3), (3, 2))


def _moves(side: int) -> Float:
    """(S, 4, S): where each move leads when nothing goes wrong."""
    row, column = np.divmod(np.arange(side * side), side)
    steps = ((-1, 0), (0, 1), (1, 0), (0, -1))
    reached = [np.clip(row + i, 0, side - 1) * side + np.clip(column + j, 0, side - 1) for i, j in steps]
    moved: Float = np.eye(side * side)[np.stack(reached, axis=1)]
    return moved


def _cells(side: int, cells: Iterable[tuple[int, int]]) -> Float:
    """(S,) 1 in the cells named and 0 elsewhere."""
    marked = np.zeros((side, side))
    for cell in cells:
        marked[cell] = 1.0
    return marked.ravel()


def _absorb(p: Float, cells: npt.NDArray[np.bool_]) -> None:
    """Make ``cells`` absorbing, in place."""
    p[cells] = np.eye(len(p))[cells][:, None]


def _expected(p: Float, paid: Float) -> Float:
    """(S, A) expectation of what the next state pays; the sum of a row may round to just above one."""
    mean: Float = np.minimum(p @ paid, 1.0)
    return mean


def rover(seed: int) -> CMDP:
    """Mars rover on an 8x8 grid with pits (after Brantley et al. 2020); the seed does not matter.

    S = 64, A = 4, H = 30, m = 1. Start (0, 0), goal (7, 7), pits at (2, 3), (2, 6), (5, 1), (5, 2), (6, 1),
    (6, 4), (6, 6) and (7, 3). With probability 0.1 a uniformly random move is made instead. Entering the goal
    or a pit earns 1, and both are absorbing and earn 1/H at every further step: pits are tempting, being
    nearer. Entering a pit costs 1 and every further step in it 1/H; the limit is 0.3.

    Value 1.5363 at the optimum, which randomises, and 1.8168 without the limit, with a pit as good as
    certain. The multiplier is 0.1930 and the Slater gap 0.3000.

    Versions
    --------
    v1 : first
    """
    side, H = 8, 30
    intended = _moves(side)
    p = 0.9 * intended + 0.1 * intended.mean(axis=1, keepdims=True)
    pit = _cells(side, PITS)
    end = pit + _cells(side, [(7, 7)])
    over = end > 0.0
    _absorb(p, over)
    later = np.where(over, 1.0 / H, 1.0)[:, None]
    reward, cost = later * _expected(p, end), later * _expected(p, pit)
    return CMDP.from_costs(p, reward, cost[None], 0.3, 0, horizon=H, name="rover-v1")


def grid(seed: int, *, slip: float = 0.1) -> CMDP:
    """Slippery 5x5 grid with tempting hazards; the seed does not matter.

    S = 25, A = 4, H = 12, m = 1. Start (0, 0), goal (4, 4), eight moves away. With probability ``slip`` a
    move goes sideways, half of the time to either side. Being in the goal after a step earns 1, and there is
    no way out of it. Hazards form a cross in the middle, (1, 2), (2, 1), (2, 2), (2, 3) and (3, 2): stepping
    into one earns 0.5 and costs 1; the limit is 0.5. The way around is as short, but the one across pays.

    Value 4.4014 at the optimum, which randomises, and 5.7969 without the limit at a cost of 3.3888. The
    multiplier is 0.5983 and the Slater gap 0.5000.

    Parameters
    ----------
    slip : the probability that a move goes sideways

    Versions
    --------
    v1 : first
    """
    side, slip = 5, as_float("slip", slip, 0.0, 1.0)
    intended = _moves(side)
    sideways = 0.5 * (np.roll(intended, 1, axis=1) + np.roll(intended, -1, axis=1))
    p = (1.0 - slip) * intended + slip * sideways
    goal, hazard = _cells(side, [(4, 4)]), _cells(side, HAZARDS)
    _absorb(p, goal > 0.0)
    reward, cost = _expected(p, goal + 0.5 * hazard), _expected(p, hazard)
    return CMDP.from_costs(p, reward, cost[None], 0.5, 0, horizon=12, name="grid-v1")
