"""How far the saddle point moves from one episode to the next: what the published recursion leaves out.

Lemma 1 bounds the distance of (pi_{t+1}, lam_{t+1}) to the saddle point of episode *t*; the potential Phi_{t+1} is the
distance to that of episode t + 1. With constant schedules the two are one. With decaying ones the recursion is

    Phi_{t+1} <= (1 - eta_t tau_t) Phi_t + (eta_t^2 / 2)(H C + D) + eta_t delta_t + drift_t,

drift_t = Phi(pi_{t+1}, lam_{t+1}; saddle t+1) - Phi(pi_{t+1}, lam_{t+1}; saddle t). Two bounds, our own:

*Multipliers.* lam* minimises a tau-strongly convex function whose gradient is V_d - eps - alpha + tau lam, so

    |lam*' - lam*| <= (|eps' - eps| + |tau' - tau| |lam*| + sqrt(m) H^3 (1 + |lam*|_1) |1/tau' - 1/tau|) / tau'

the last part because, at fixed lam, the soft optimum x of <c, x> / tau + entropy has
KL(x, x') + KL(x', x) = (1/tau - 1/tau') <c, x - x'>, and |<v, x - x'>| <= H^(3/2) sqrt(2 KL) for |v| <= 1.

*Potential.* The divergence is convex in the occupancy, so with |x' - x|_1 <= H^3 |c/tau - c'/tau'| and log ratios of
policies at most C_0 / tau' + log A,

    drift <= H^3 ((1 + |lam*|_1) |1/tau' - 1/tau| + |lam*' - lam*|_1 / tau') (C_0 / tau' + log A)
             + sqrt(m) (4 H / Xi) |lam*' - lam*|.

With Theorem 1's schedules the first is O(t^(-2/3)) and the second O(t^(-1/3)), where the recursion can absorb o(1/t):
these bounds do not repair the proof. What is measured falls much faster (:mod:`flexdome.audit`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import Float, as_array, check_range
from flexdome.errors import ValidationError
from flexdome.theory.constants import LEAST_DIVISOR
from flexdome.theory.convergence import composite_bound, dual_side
from flexdome.theory.schedules import LARGEST

__all__ = ["multiplier_drift_bound", "potential_drift_bound"]


def _taus(tau: tuple[float, float]) -> tuple[float, float]:
    both = as_array("tau", tau)[0]
    if both.shape != (2,):
        raise ValidationError(f"tau has shape {both.shape}; it must be two numbers, before and after")
    check_range("tau", both, LEAST_DIVISOR, LARGEST)
    return float(both[0]), float(both[1])


def _margins(margin: tuple[npt.ArrayLike, npt.ArrayLike], m: int) -> tuple[Float, Float]:
    given: Any = margin
    both = as_array("margin", given)[0]
    if both.shape not in ((2,), (2, m)):
        raise ValidationError(f"margin has shape {both.shape}; it must be (2,) or (2, {m}), before and after")
    check_range("margin", both, -LARGEST, LARGEST)
    old, new = (np.broadcast_to(eps, (m,)) for eps in both)
    return old, new


def _multipliers(multipliers: npt.ArrayLike, m: int) -> Float:
    lam = as_array("multipliers", multipliers)[0]
    if lam.shape != (m,):
        raise ValidationError(f"multipliers has shape {lam.shape}; it must be ({m},)")
    check_range("multipliers", lam, 0.0, LARGEST)
    return lam


def multiplier_drift_bound(
    problem: Problem,
    tau: tuple[float, float],
    margin: tuple[npt.ArrayLike, npt.ArrayLike],
    multipliers: npt.ArrayLike,
) -> float:
    """The bound on |lam*' - lam*|; ``tau`` and ``margin`` before and after, ``multipliers`` lam* before."""
    H, m = as_problem(problem).horizon, problem.constraints
    (before, after), (old, new), lam = _taus(tau), _margins(margin, m), _multipliers(multipliers, m)
    moved = float(np.linalg.norm(new - old)) + abs(after - before) * float(np.linalg.norm(lam))
    heat = math.sqrt(m) * H**3 * (1.0 + float(np.abs(lam).sum())) * abs(1.0 / after - 1.0 / before)
    return (moved + heat) / after


def potential_drift_bound(
    problem: Problem,
    tau: tuple[float, float],
    margin: tuple[npt.ArrayLike, npt.ArrayLike],
    multipliers: npt.ArrayLike,
) -> float:
    """The bound on drift_t for iterates whose log policies are at least -(C_0 / tau' + log A), as FlexDOME's are."""
    H, m = as_problem(problem).horizon, problem.constraints
    moved = multiplier_drift_bound(problem, tau, margin, multipliers)
    (before, after), total = _taus(tau), float(np.abs(_multipliers(multipliers, m)).sum())
    occupancy = H**3 * ((1.0 + total) * abs(1.0 / after - 1.0 / before) + math.sqrt(m) * moved / after)
    ratios = composite_bound(problem, after) / after + math.log(problem.actions)
    return occupancy * ratios + math.sqrt(m) * dual_side(problem) * moved
