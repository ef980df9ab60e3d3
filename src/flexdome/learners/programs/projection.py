"""The KL projection onto the occupancies of a confidence set, with or without constraints.

    argmin  KL(x p || x~ p~)   over x p with p_h(. | s, a) in a box, flow conserved, and sum x u_i >= alpha_i

(unnormalised KL). The dual of :mod:`flexdome.learners.programs.projection_kernels` has only H S + m unknowns and is
minimised by Newton's method with the exact Hessian, damped as Levenberg and Marquardt do it: the damping grows until a
step descends and shrinks when one does. Multipliers that rest at zero are left out of the system (Bertsekas 1982).
States that no model of the set can reach are left out too, and have no mass. Five steps are usual in a run.

Where the logarithms of x~ and p~ lie far apart, as after a long step, they are divided by a temperature that falls to
one, each solution being where the next begins: the linear program at the end of that road is approached from within.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from flexdome.cmdp.mask import Bool, uniform_policy
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError
from flexdome.learners.programs.projection_kernels import kl_dual, kl_hessian
from flexdome.learners.programs.transition_sets import TransitionSet

__all__ = ["Occupancy", "first_occupancy", "mirror_step", "project"]

FLOOR = 1e-30  # what an occupancy or a probability that a step starts from counts as at least
STEEPEST_STEP = 1e4  # by which the slope of a step may differ

STEPS = 100  # at one temperature
TOLERANCE, ACCEPTED = 1e-11, 1e-6  # of the flow's residual: what is sought, and what is accepted
ROUNDING = 1e-14  # of the residual, for each unit of the exponents
ROUGH = 1e-3  # the tolerance at temperatures above one
GENTLE, COOLING, FARTHEST = 60.0, 4.0, 1e9  # exponents
LEAST_RIDGE, RIDGE, MOST_RIDGE = 1e-13, 1e-3, 1e12  # damping


@dataclass(frozen=True)
class Occupancy:
    """x (H, S, A) and p (H, S, A, S); the last step's p does not matter. ``multipliers`` (m,) of the constraints."""

    x: Float
    p: Float
    multipliers: Float


def first_occupancy(H: int, S: int, A: int, mu: Float, allowed: Bool | None = None) -> Occupancy:
    """Uniform: every next state alike (the first state as it is drawn), every allowed action alike."""
    x = np.full((H, S, A), 1.0 / (S * A))
    x[0] = mu[:, None] / A
    if allowed is not None:
        x = uniform_policy((H, S, A), allowed) / S
        x[0] *= S * mu[:, None]
    return Occupancy(x, np.full((H, S, A, S), 1.0 / S), np.zeros(0))


class _Dual:
    """F of :mod:`~flexdome.learners.programs.projection_kernels`, with the primal point of its last evaluation."""

    def __init__(
        self, transitions: TransitionSet, log_x: Float, log_p: Float, mu: Float, u: Float, alpha: Float
    ) -> None:
        H, S, A = log_x.shape
        self.m, self.n = alpha.size, H * S
        self.x, self.rows = np.zeros((H, S, A)), np.zeros((H, S, A, S))
        self._free = np.zeros((H, S, A, S), dtype=bool)
        self.reached = _reached(transitions.up.reshape(H, S, A, S), mu, log_x > -np.inf)
        self._given = log_x, log_p.reshape(-1, S), transitions.lo, transitions.up, u, mu, alpha, self.reached
        self.u = u
        self.gradient = np.zeros(self.n + self.m)

    def value(self, theta: Float) -> float:
        """F at ``theta``; gradient and primal point are left behind."""
        return float(kl_dual(theta, *self._given, self.gradient, self.x, self.rows, self._free))

    def hessian(self) -> Float:
        """At the last point."""
        out = np.empty((self.n + self.m, self.n + self.m))
        kl_hessian(self.x, self.rows, self._free, self.u, out)
        return out

    def moving(self, theta: Float) -> npt.NDArray[np.bool_]:
        """Which unknowns are neither potentials of states out of reach nor multipliers at rest at zero."""
        n = self.n
        return np.append(self.reached.ravel(), (theta[n:] > 0.0) | (self.gradient[n:] < 0.0))

    def residual(self, theta: Float) -> float:
        """The largest slope."""
        return float(np.abs(np.where(self.moving(theta), self.gradient, 0.0)).max())


def _reached(up: Float, mu: Float, possible: Bool) -> Bool:
    """(H, S): where some model of the set can be, by actions that are ``possible``."""
    reached = np.empty(up.shape[:2], dtype=bool)
    reached[0] = mu > 0.0
    for h in range(len(reached) - 1):
        reached[h + 1] = ((up[h][reached[h]] > 0.0) & possible[h][reached[h]][..., None]).any(axis=(0, 1))
    return reached


def mirror_step(
    transitions: TransitionSet,
    q: Occupancy,
    slope: Float,
    mu: Float,
    u: Float | None = None,
    alpha: Float | None = None,
    allowed: Bool | None = None,
) -> Occupancy:
    """argmin ``slope`` . x + KL(x p || q) over the set, in one projection whatever the length of ``slope`` (H, S, A).

    Entries of ``q`` count as at least FLOOR. That makes the divergence finite where a state comes into reach again, and
    lets a cell come back after 69 units of ``slope`` at most; it moves nothing that is ever seen. A slope that differs
    by more than STEEPEST_STEP within a step is scaled down to that: odds of exp(10,000) are a best response already.
    What is not ``allowed`` has no mass, and its slope must be 0.
    """
    longest = float((slope.max(axis=(1, 2)) - slope.min(axis=(1, 2))).max())
    log_x = np.log(np.maximum(q.x, FLOOR)) - slope * min(1.0, STEEPEST_STEP / max(longest, STEEPEST_STEP))
    if allowed is not None:
        log_x = np.where(allowed, log_x, -np.inf)
    return project(transitions, log_x, np.maximum(q.p, FLOOR), mu, u, alpha)


def project(
    transitions: TransitionSet, log_x: Float, p: Float, mu: Float, u: Float | None = None, alpha: Float | None = None
) -> Occupancy:
    """Project exp(``log_x``) times ``p``; constraints sum x u_i >= alpha_i (m, H, S, A), which must be feasible.

    A cell whose ``log_x`` is minus infinity has no mass.
    """
    H, S, A = log_x.shape
    u = np.zeros((0, H, S, A)) if u is None else u
    alpha = np.zeros(0) if alpha is None else alpha
    log_p = np.log(p)
    theta = np.zeros(H * S + alpha.size)
    least = log_x.min(axis=(1, 2), where=log_x > -np.inf, initial=np.inf)
    apart = float((log_x.max(axis=(1, 2)) - least).max() + np.ptp(log_p))
    if not apart <= FARTHEST:
        raise ConvergenceError(f"the KL projection has exponents {apart:.3g} apart; at most {FARTHEST:g} can be solved")
    heat = max(apart / GENTLE, 1.0)
    while True:
        dual = _Dual(transitions, log_x / heat, log_p / heat, mu, u, alpha)
        precise = max(TOLERANCE, ROUNDING * (apart / heat + float(np.abs(theta).max())))
        theta = _minimise(dual, theta, precise if heat == 1.0 else ROUGH)
        if heat == 1.0:
            break
        cooler = max(heat / COOLING, 1.0)
        theta, heat = theta * (heat / cooler), cooler
    if not dual.residual(theta) <= ACCEPTED:
        raise ConvergenceError(
            f"the KL projection of exponents {apart:.3g} apart stopped with a residual of {dual.residual(theta):.3g}"
        )
    rows = np.where(dual.reached[..., None, None], dual.rows, p)
    rows[-1] = p[-1]
    return Occupancy(dual.x, rows, theta[dual.n :].copy())


def _minimise(dual: _Dual, theta: Float, tolerance: float) -> Float:
    """Where the residual is at most ``tolerance``, or where it falls no further; ``dual`` is left there."""
    n = dual.n
    value = dual.value(theta)
    ridge, growth = RIDGE, 2.0
    for _ in range(STEPS):
        left, gradient, moving = dual.residual(theta), dual.gradient.copy(), dual.moving(theta)
        if left <= tolerance:
            break
        hessian, found = dual.hessian(), False
        while not found and ridge <= MOST_RIDGE:
            trial = theta + _newton(gradient, hessian, moving, ridge)
            trial[n:] = np.maximum(trial[n:], 0.0)
            step = trial - theta
            expected = -float(gradient @ step + 0.5 * step @ hessian @ step)
            new = dual.value(trial)
            gain = (value - new) / expected if expected > 0.0 else -1.0
            # Near the end the value is exact to its last digits only, but the residual still falls.
            found = gain > 1e-4 or (left <= 1e-5 and dual.residual(trial) < 0.9 * left)
            if found:  # Nielsen 1999
                ridge, growth = max(ridge * max(0.1, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3), LEAST_RIDGE), 2.0
            else:
                ridge, growth = ridge * growth, 2.0 * growth
        if not found:
            break
        theta, value = trial, new
    dual.value(theta)
    return theta


def _newton(gradient: Float, hessian: Float, moving: npt.NDArray[np.bool_], ridge: float) -> Float:
    """The damped Newton direction, 0 for what rests.

    Rows are scaled by the curvature or, where mass must still come or go, by how much: with a damping of one no
    potential then moves by more than one or so, whatever is rare.
    """
    at = np.flatnonzero(moving)
    scale = 1.0 / np.sqrt(np.maximum(np.maximum(hessian[at, at], np.abs(gradient[at])), 1e-280))
    system = hessian[np.ix_(at, at)] * scale[:, None] * scale
    direction = np.zeros_like(gradient)
    try:
        factor = cho_factor(system + ridge * np.eye(at.size), lower=True, check_finite=False)
    except LinAlgError:
        return np.full_like(gradient, np.nan)  # as a step that does not descend
    direction[at] = -scale * cho_solve(factor, scale * gradient[at], check_finite=False)
    return direction
