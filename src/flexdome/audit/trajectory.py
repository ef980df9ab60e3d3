"""The known-model iteration, looked at in pairs of neighbouring episodes.

At each t of a grid: the iterates before and after step t, the saddle points of t and of t + 1, and from them Phi_t, the
potential after the step against the *same* saddle point, and Phi_{t+1}, against the next one. The last less the second
is the drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import Float
from flexdome.planning.saddle import SaddlePoint
from flexdome.simulation import iterate
from flexdome.simulation.history import Snapshot
from flexdome.simulation.known_model import Iterates
from flexdome.theory import potential, saddle_path
from flexdome.theory.convergence import dual_side
from flexdome.theory.schedules import Schedules

__all__ = ["Steps", "grid_of", "known_steps"]


@dataclass(frozen=True)
class Steps:
    """One trajectory at the episodes ``t`` (n,).

    Attributes
    ----------
    phi, held, moved : (n,) Phi_t, Phi after the step against saddle t, and Phi_{t+1}
    eta, tau : (n,), margin : (n, m) schedules at t; next_tau, next_margin : at t + 1
    points, next_points : saddle points of t and of t + 1
    before, after : the iterates of t and of t + 1
    """

    cmdp: CMDP
    problem: Problem
    label: str
    schedules: Schedules
    run: Iterates
    t: npt.NDArray[np.int64]
    phi: Float
    held: Float
    moved: Float
    eta: Float
    tau: Float
    margin: Float
    next_tau: Float
    next_margin: Float
    points: tuple[SaddlePoint, ...]
    next_points: tuple[SaddlePoint, ...]
    before: tuple[Snapshot, ...]
    after: tuple[Snapshot, ...]

    @property
    def drift(self) -> Float:
        """(n,) what the saddle point's move adds to the potential."""
        return self.moved - self.held


def grid_of(episodes: int, points: int) -> npt.NDArray[np.int64]:
    """At most ``points`` episodes, log-spaced from 1 to ``episodes``."""
    grid: npt.NDArray[np.int64] = np.unique(np.rint(np.geomspace(1, episodes, points)).astype(np.int64))
    return grid


def known_steps(
    cmdp: CMDP, problem: Problem, schedules: Schedules, episodes: int, points: int = 200, label: str = ""
) -> Steps:
    """Iterate on the true model and look at ``points`` pairs of neighbours; the dual box is that of ``problem``."""
    bound = dual_side(problem)
    t = grid_of(episodes, points)
    both = np.union1d(t, t + 1)
    run = iterate(cmdp, schedules, episodes, bound, snapshots=both)
    points_of = dict(zip(both.tolist(), saddle_path(cmdp, schedules, both, bound), strict=True))
    before, after = (tuple(run.snapshots[k] for k in at.tolist()) for at in (t, t + 1))
    here, there = (tuple(points_of[k] for k in at.tolist()) for at in (t, t + 1))

    def phis(pairs: tuple[Snapshot, ...], against: tuple[SaddlePoint, ...]) -> Float:
        found = [potential(cmdp, p.policy, p.multipliers, q).total for p, q in zip(pairs, against, strict=True)]
        return np.array(found)

    tables = [schedules.table(int(k), 2, cmdp.constraints) for k in t]
    eta, tau, next_tau = (np.array([table[j][i] for table in tables]) for j, i in ((0, 0), (1, 0), (1, 1)))
    margin, next_margin = (np.array([table[2][i] for table in tables]) for i in (0, 1))
    return Steps(
        cmdp, problem, label, schedules, run, t, phis(before, here), phis(after, here), phis(after, there), eta, tau,
        margin, next_tau, next_margin, here, there, before, after,
    )  # fmt: skip
