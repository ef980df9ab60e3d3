"""The smallest margin that keeps the saddle points safe.

At the saddle point V_d = alpha + eps_t - tau_t lambda*_t: it is safe where the margin covers tau_t lambda*_t. lambda*_t
itself depends on the margin, so the least coefficient is found by bisection over saddle points on a grid of episodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flexdome.audit.trajectory import grid_of
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import as_float, as_int
from flexdome.planning import saddle_point, solve
from flexdome.planning.evaluation import as_cmdp
from flexdome.planning.saddle import SaddlePoint
from flexdome.theory import margin_coefficient, theorem1
from flexdome.theory.constants import LONGEST
from flexdome.theory.convergence import dual_side
from flexdome.theory.schedules import LARGEST_SCALE

__all__ = ["Cover", "margin_cover"]

TOLERANCE = 1e-7  # of a violation that counts as none
POINTS, HALVINGS = 16, 26


@dataclass(frozen=True)
class Cover:
    """What it takes to keep every saddle point up to T safe.

    Attributes
    ----------
    multiplier : lambda*, the largest multiplier of the constrained optimum
    margin_scale : the least c_e; None where not even c_e = 1 does
    coefficient : eps_T T^(1/6) at that scale: what tau's coefficient, 1, times lambda* needs
    last_violation, first_violation : the largest alpha - V_d of the saddle points at T and at 1 with ``stated``
    stated : the scale it was compared with
    """

    multiplier: float
    margin_scale: float | None
    coefficient: float | None
    stated: float
    first_violation: float
    last_violation: float


def margin_cover(
    cmdp: CMDP, problem: Problem, episodes: int = 80_000, delta: float = 0.1, stated: float = 1e-5, first: int = 1
) -> Cover:
    """The least ``margin_scale`` whose saddle points from ``first`` to ``episodes`` are all safe."""
    T, begin = as_int("episodes", episodes, 1, LONGEST), as_int("first", first, 1, LONGEST)
    as_cmdp(cmdp)
    stated = as_float("stated", stated, 0.0, LARGEST_SCALE)
    t = np.unique(np.clip(grid_of(T, POINTS), begin, T))
    bound = dual_side(problem)

    def points(scale: float) -> Iterator[SaddlePoint]:
        schedules, start = theorem1(problem, delta, scale), None
        for k in t.tolist():
            _, tau, eps = schedules.table(k, 1, cmdp.constraints)
            point = saddle_point(cmdp, float(tau[0]), eps[0], bound, start=start)
            start = point.multipliers
            yield point

    def short(point: SaddlePoint) -> float:
        return float((cmdp.alpha - point.utilities).max())

    def safe(scale: float) -> bool:
        return all(short(point) <= TOLERANCE for point in points(scale))

    now = list(points(stated))
    multiplier = float(solve(cmdp).multipliers.max())
    scale: float | None = None
    if safe(0.0):
        scale = 0.0
    elif safe(1.0):
        low, high = -math.log(margin_coefficient(problem)) - 20.0, 0.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if safe(math.exp(middle)) else (middle, high)
        scale = math.exp(high)
    size = 4.0 * cmdp.states * cmdp.actions * cmdp.horizon * T / delta
    coefficient = None if scale is None else scale * margin_coefficient(problem) * math.log(size) ** 0.25
    return Cover(multiplier, scale, coefficient, stated, short(now[0]), short(now[-1]))
