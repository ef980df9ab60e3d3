"""The saddle point of the margin-regularised Lagrangian (Zuo et al. 2026, problem 4).

    L(pi, lam) = V_r + lam . (V_d - eps - alpha) + tau (H(pi) + |lam|^2 / 2)

over all policies and lam in the box [0, dual_bound]^m, H(pi) being the expected sum of -log pi_h(a_h | s_h).
For fixed lam soft dynamic programming finds the maximising policy exactly, so what remains is

    minimise  D(lam) = max_pi L(pi, lam)   over the box:

smooth, strongly convex, m numbers. Its gradient is V_d - eps - alpha + tau lam and its Hessian
(1/tau) sum x A_i A_j + tau 1[i = j], with x the occupancy and A_i the advantage of utility i: a projected
Newton method with back-tracking needs a handful of passes. Small tau is reached from a large one, a quarter at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear
from scipy.special import xlogy

from flexdome.cmdp.mask import Bool, kernel_mask
from flexdome.cmdp.model import CMDP, Model
from flexdome.cmdp.validation import LARGEST, Float, as_array, as_float, as_positive, check_range, frozen
from flexdome.errors import ConvergenceError, ValidationError
from flexdome.kernels import bellman
from flexdome.planning.decomposition import FEASIBILITY
from flexdome.planning.evaluation import as_cmdp
from flexdome.planning.optimum import slater_gap

__all__ = ["SaddlePoint", "saddle_point"]

TOLERANCE = 1e-10
LARGEST_RESIDUAL = 1e-8
MAX_NEWTON = 200


@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """The unique regularised optimum.

    Attributes
    ----------
    policy : (H, S, A)
    multipliers : (m,)
    value : the regularised Lagrangian at the saddle point
    reward, utilities : V_r and (m,) V_d of the policy
    entropy : H(pi)
    residual : largest violation of the first-order conditions, ``|lam - Proj(lam - grad D(lam))|``
    """

    policy: Float
    multipliers: Float
    value: float
    reward: float
    utilities: Float
    entropy: float
    residual: float


class _Dual:
    """D(lam), its gradient and its Hessian from one soft backward and one forward pass."""

    def __init__(self, model: Model, mask: Bool, target: Float, tau: float) -> None:
        n_f, H, S, A = model.f.shape
        self.model, self.mask, self.target, self.tau = model, mask, target, tau
        self.policy = np.empty((H, S, A))
        self._gain = np.empty((n_f - 1, H, S, A))
        self._u = np.empty((2, n_f, S))
        self._v = np.empty((2, S))
        self._x = np.empty((H, S, A))

    def __call__(self, lam: Float) -> tuple[float, Float]:
        p, nxt, f, mu = self.model
        w = np.append(1.0, lam)
        bellman.soft_backward(p, nxt, f, w, self.tau, self.mask, self.policy, self._gain, self._u, self._v)
        self.values = self._u[0] @ mu
        dual = self._v[0] @ mu - lam @ self.target + 0.5 * self.tau * (lam @ lam)
        return float(dual), self.values[1:] - self.target + self.tau * lam

    def entropy(self) -> float:
        p, nxt, _, mu = self.model
        bellman.occupancy_forward(p, nxt, mu, self.policy, self._x, self._v)
        return -float(xlogy(self._x, self.policy).sum())

    def hessian(self) -> Float:
        """At the lam of the last call."""
        m = self._gain.shape[0]
        p, nxt, _, mu = self.model
        bellman.occupancy_forward(p, nxt, mu, self.policy, self._x, self._v)
        curvature = np.empty((m, m))
        bellman.soft_curvature(self._x, self._gain, self.tau, curvature)
        return curvature + self.tau * np.eye(m)


def _residual(lam: Float, gradient: Float, bound: float) -> float:
    return float(np.abs(lam - np.clip(lam - gradient, 0.0, bound)).max())


def _newton(dual: _Dual, lam: Float, bound: float, tol: float) -> tuple[Float, float]:
    """Minimise D over the box from ``lam``; the minimiser and its residual.

    The step minimises the quadratic model over the box itself: a Newton step clipped afterwards need not descend.
    """
    value, gradient = dual(lam)
    for _ in range(MAX_NEWTON):
        residual = _residual(lam, gradient, bound)
        if residual <= tol or bound == 0.0:
            break
        root = np.linalg.cholesky(dual.hessian())
        target = root.T @ lam - np.linalg.solve(root, gradient)
        box = lsq_linear(root.T, target, bounds=(0.0, bound), method="bvls", tol=1e-15, max_iter=100)
        step = np.clip(box.x, 0.0, bound) - lam
        flat = 1e-13 * (1.0 + abs(value))  # near the minimum D is level to rounding: then the residual decides
        size = 1.0
        while True:
            trial = lam + size * step
            trial[trial < 1e-14 * bound] = 0.0  # rounding at the edge of the box
            trial_value, trial_gradient = dual(trial)
            if trial_value <= value + 1e-4 * size * (gradient @ step):
                break
            if trial_value <= value + flat and _residual(trial, trial_gradient, bound) < residual:
                break
            size *= 0.5
            if size < 1e-12:
                dual(lam)
                return lam, residual
        lam, value, gradient = trial, trial_value, trial_gradient
    return lam, _residual(lam, gradient, bound)


def saddle_point(
    cmdp: CMDP,
    tau: float,
    margin: npt.ArrayLike = 0.0,
    dual_bound: float | None = None,
    start: npt.ArrayLike | None = None,
) -> SaddlePoint:
    """The saddle point of the regularised problem with weight ``tau`` and safety margin ``margin``.

    Parameters
    ----------
    tau : the weight of both regularisers, positive
    margin : eps, a number or one for each constraint
    dual_bound : the side of the dual box; None means 4 H / Slater gap
    start : (m,) multipliers near the solution, those of a neighbouring problem say: the search begins there, at ``tau``
        itself, and anew as without it should that fail

    Examples
    --------
    >>> import flexdome as fd
    >>> point = fd.saddle_point(fd.make_cmdp("oscillator-v1"), tau=0.1)
    >>> point.residual < 1e-10
    True
    """
    as_cmdp(cmdp)
    tau = as_positive("tau", tau, LARGEST)
    eps, _ = as_array("margin", margin)
    check_range("margin", eps, -LARGEST, LARGEST)
    if eps.ndim > 1 or (eps.ndim == 1 and eps.size != cmdp.constraints):
        raise ValidationError(f"margin has shape {eps.shape}; it must be a number or ({cmdp.constraints},)")
    if dual_bound is None:
        gap = slater_gap(cmdp)
        if gap <= FEASIBILITY * cmdp.horizon:
            raise ValidationError(f"the Slater gap is {gap:g}; without a positive one dual_bound must be given")
        dual_bound = 4.0 * cmdp.horizon / gap
    dual_bound = as_float("dual_bound", dual_bound, 0.0, LARGEST)
    target, mask = cmdp.alpha + eps, kernel_mask(cmdp.allowed)
    # Rounding in V_d is amplified by the curvature 1/tau: for very small tau the last digits are out of reach.
    enough = max(TOLERANCE, min(1e-13 * cmdp.horizon**2 * (1.0 + dual_bound) / tau, LARGEST_RESIDUAL))
    dual, residual = _Dual(cmdp.model, mask, target, tau), np.inf
    if start is not None:
        lam = np.clip(_multipliers(cmdp, start), 0.0, dual_bound)
        lam, residual = _newton(dual, lam, dual_bound, TOLERANCE)
    if residual > enough:
        lam, stage = np.zeros(cmdp.constraints), max(tau, 1.0)
        while stage > tau:
            lam, _ = _newton(_Dual(cmdp.model, mask, target, stage), lam, dual_bound, 1e-3)
            stage = max(tau, 0.25 * stage)
        lam, residual = _newton(dual, lam, dual_bound, TOLERANCE)
    if residual > enough:
        raise ConvergenceError(
            f"the saddle point's first-order residual stayed at {residual:.3g}; tau = {tau:g} may be too small"
        )
    value, _ = dual(lam)
    reward, utilities = float(dual.values[0]), dual.values[1:]
    return SaddlePoint(
        policy=frozen(dual.policy),
        multipliers=frozen(lam),
        value=value,
        reward=reward,
        utilities=frozen(utilities),
        entropy=dual.entropy(),
        residual=residual,
    )


def _multipliers(cmdp: CMDP, start: npt.ArrayLike) -> Float:
    lam, _ = as_array("start", start)
    if lam.shape != (cmdp.constraints,):
        raise ValidationError(f"start has shape {lam.shape}; it must be ({cmdp.constraints},)")
    return lam
