"""The KL projection onto the occupancies of a confidence set, with or without constraints.

    argmin  KL(x p || x~ p~)   over x p with p_h(. | s, a) in a box, flow conserved, and sum x u_i >= alpha_i

(unnormalised KL). The dual of :mod:`flexdome.kernels.projection` has only H S + m unknowns. A few sweeps balance the
flow of each state, as in matrix balancing; then Newton's method: the Hessian is exact, steps are halved until they
descend, and multipliers that rest at zero are left out of the system (Bertsekas 1982). About ten steps are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError
from flexdome.kernels.projection import kl_dual
from flexdome.learners.confidence import TransitionSet

__all__ = ["Occupancy", "first_occupancy", "project"]

STEPS = 200
BALANCES = 4
TOLERANCE = 1e-11  # of the flow's residual
ENOUGH = 1e-6
RIDGE = 1e-10
LONGEST = 10.0  # by which a potential changes in one step: masses by a factor of 22,000
SHORTEST = 1e-10


@dataclass(frozen=True)
class Occupancy:
    """x (H, S, A) and p (H, S, A, S); the last step's p does not matter. ``multipliers`` (m,) of the constraints."""

    x: Float
    p: Float
    multipliers: Float


def first_occupancy(H: int, S: int, A: int, mu: Float) -> Occupancy:
    """Uniform: every next state alike (the first state as it is drawn), every action alike."""
    x = np.full((H, S, A), 1.0 / (S * A))
    x[0] = np.maximum(mu, 1e-12)[:, None] / A
    return Occupancy(x, np.full((H, S, A, S), 1.0 / S), np.zeros(0))


class _Dual:
    """F of :mod:`flexdome.kernels.projection` for one projection, with the primal point of its last evaluation."""

    def __init__(self, transitions: TransitionSet, log_x: Float, p: Float, mu: Float, u: Float, alpha: Float) -> None:
        H, S, A = log_x.shape
        self.steps, self.states, self.m, self.n = H, S, alpha.size, H * S
        self.x, self.rows = np.zeros((H, S, A)), np.full((H, S, A, S), 1.0 / S)
        self._free = np.zeros((H, S, A, S), dtype=bool)
        self._given = log_x, p.reshape(-1, S), transitions.lo, transitions.up, u, mu, alpha
        self.mu, self.u = mu, u
        self.gradient = np.zeros(self.n + self.m)

    def value(self, theta: Float) -> float:
        """F at ``theta``; gradient and primal point are left behind."""
        return float(kl_dual(theta, *self._given, self.gradient, self.x, self.rows, self._free))

    def hessian(self) -> Float:
        """Of F, at the last point: a sum over cells of x g g' and the curvature of -phi.

        g is 1 at (h, s), -p at the states of h + 1, and u at the multipliers; phi curves where p is free of its bounds,
        by diag(p) - p p' / sum p over those.
        """
        H, S, n, m = self.steps, self.states, self.n, self.m
        out = np.zeros((n + m, n + m))
        for h in range(H):
            x, rows, u = self.x[h], self.rows[h], self.u[:, h]
            here, after = slice(h * S, h * S + S), slice(h * S + S, h * S + 2 * S)
            out[here, here] += np.diag(x.sum(axis=1))
            out[here, n:] += (x * u).sum(axis=2).T
            out[n:, n:] += np.einsum("sa,isa,ksa->ik", x, u, u)
            if h + 1 < H:
                flow = x[..., None] * rows
                free = np.where(self._free[h], rows, 0.0)
                total = np.maximum(free.sum(axis=-1), 1e-300)
                flat, loose = rows.reshape(-1, S), free.reshape(-1, S)
                out[here, after] -= flow.sum(axis=1)
                out[after, n:] -= np.einsum("sak,isa->ki", flow, u)
                out[after, after] += flow.reshape(-1, S).T @ flat
                out[after, after] -= ((x / total).reshape(-1, 1) * loose).T @ loose
                out[after, after] += np.diag((x[..., None] * free).sum(axis=(0, 1)))
        upper = np.triu(out, 1)
        # The blocks on the diagonal are symmetric already; those beside it were written above it only.
        whole: Float = np.diag(np.diag(out)) + upper + upper.T
        return whole

    def moving(self, theta: Float) -> np.ndarray:
        """Which unknowns are not multipliers at rest at zero."""
        n = self.n
        return np.append(np.ones(n, dtype=bool), (theta[n:] > 0.0) | (self.gradient[n:] < 0.0))

    def residual(self, theta: Float) -> float:
        """The largest slope."""
        return float(np.abs(np.where(self.moving(theta), self.gradient, 0.0)).max())

    def balance(self, theta: Float) -> Float:
        """Balance what flows into each state with what flows out, for every second step, then for the others.

        Raising V_h(s) by v multiplies the outflow by exp(v) and, without a box, the inflow by exp(-v): the best v is
        half the logarithm of their ratio (all of it at the first step, whose inflow is given).
        """
        theta = theta.copy()
        V = theta[: self.n].reshape(self.steps, self.states)
        for turn in (0, 1):
            self.value(theta)
            inflow = np.empty_like(V)
            inflow[0] = self.mu
            inflow[1:] = np.einsum("hsa,hsak->hk", self.x[:-1], self.rows[:-1])
            v = 0.5 * np.log(np.maximum(inflow, 1e-300) / np.maximum(self.x.sum(axis=2), 1e-300))
            v[0] *= 2.0
            V[turn::2] += np.clip(v[turn::2], -50.0, 50.0)
        return theta


def project(
    transitions: TransitionSet, log_x: Float, p: Float, mu: Float, u: Float | None = None, alpha: Float | None = None
) -> Occupancy:
    """Project exp(``log_x``) times ``p``; constraints sum x u_i >= alpha_i (m, H, S, A), which must be feasible."""
    H, S, A = log_x.shape
    u = np.zeros((0, H, S, A)) if u is None else u
    dual = _Dual(transitions, log_x, p, mu, u, np.zeros(0) if alpha is None else alpha)
    n = dual.n
    theta = np.zeros(n + dual.m)
    for _ in range(BALANCES):
        theta = dual.balance(theta)
    value = dual.value(theta)
    for _ in range(STEPS):
        left, gradient = dual.residual(theta), dual.gradient.copy()
        if left <= TOLERANCE:
            break
        direction = _newton(gradient, dual.hessian(), dual.moving(theta))
        step, found = 1.0, False
        while step > SHORTEST and not found:
            trial = theta + step * direction
            trial[n:] = np.maximum(trial[n:], 0.0)
            new = dual.value(trial)
            # Near the end the value is exact to its last digits only, but the residual still falls.
            found = new <= value + 1e-4 * float(gradient @ (trial - theta)) or (
                left <= 1e-7 and dual.residual(trial) < left
            )
            step *= 0.5
        if step < 0.05:  # far away Newton's model is poor where a state's mass must change by orders of magnitude
            other = dual.balance(trial if found else theta)
            if dual.value(other) < (new if found else value):
                trial, found = other, True
        if not found:
            break
        theta = trial
        value = dual.value(theta)
    dual.value(theta)
    if not dual.residual(theta) <= ENOUGH:
        raise ConvergenceError(f"the KL projection stopped with a residual of {dual.residual(theta):.3g}")
    return Occupancy(dual.x, dual.rows, theta[n:].copy())


def _newton(gradient: Float, hessian: Float, moving: np.ndarray) -> Float:
    """The Newton direction, 0 for multipliers that rest; rows are scaled first: rare states have tiny ones."""
    at = np.flatnonzero(moving)
    scale = 1.0 / np.sqrt(np.maximum(hessian[at, at], 1e-280))
    system = hessian[np.ix_(at, at)] * scale[:, None] * scale
    direction = np.zeros_like(gradient)
    ridge = RIDGE
    while True:
        try:
            factor = cho_factor(system + ridge * np.eye(at.size), lower=True, check_finite=False)
            break
        except LinAlgError:
            ridge *= 100.0
            if ridge > 1.0:
                raise ConvergenceError("the KL projection met a system that cannot be solved") from None
    direction[at] = -scale * cho_solve(factor, scale * gradient[at], check_finite=False)
    return direction * min(1.0, LONGEST / max(float(np.abs(direction).max()), LONGEST))
