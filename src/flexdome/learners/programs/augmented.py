"""One step of the augmented Lagrangian over the occupancies of a confidence set.

    maximise  V_f0(x) - (1 / 2 eta) sum_i [lam_i + eta (alpha_i - V_fi(x))]_+^2

is the dual function's proximal step: with D(w) = max_x V_f0(x) + w . (V_f(x) - alpha), its multipliers

    w* = [lam + eta (alpha - V_f(x*))]_+ = argmin_{w >= 0} D(w) + |w - lam|^2 / (2 eta)

(Rockafellar 1976). So columns are generated as for a linear program: extended value iteration evaluates D at w, and the
model of D by the columns so far gives the next w, from a quadratic program with m + 1 rows. When D(w) meets its model,
the mixture of columns is optimal. (HiGHS took some of these bounded programs for unbounded, hence the few lines of an
interior-point method below.)
"""

from __future__ import annotations

import math

import numpy as np

from flexdome.cmdp.mask import ALL, Bool
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError
from flexdome.learners.programs.oracle import Program, oracle_of
from flexdome.learners.programs.transition_sets import TransitionSet
from flexdome.planning.decomposition import scale_of

__all__ = ["augmented_program"]

COLUMNS = 300
TOLERANCE = 1e-9  # relative to the scale of the values
TURNS, PATIENCE = 100, 50
CENTRED = 0.2  # of the mean product
EXACT = 1e-11  # of the small program
ACCEPTED = 1e-5  # what may be left of its constraints


def augmented_program(
    transitions: TransitionSet | Float, f: Float, mu: Float, lam: Float, alpha: Float, eta: float, mask: Bool = ALL
) -> Program:
    """The best occupancy for the augmented Lagrangian; ``multipliers`` are w*, the next lam."""
    oracle = oracle_of(transitions, f, mu, mask)
    tolerance = TOLERANCE * scale_of(f)
    oracle.price(np.append(1.0, lam), cheap=False)
    for _ in range(COLUMNS):
        columns = np.array(oracle.values)
        bound, w, weights = _proximal_point(columns[:, 0], columns[:, 1:] - alpha, lam, eta)
        best, fresh = oracle.price(np.append(1.0, w), cheap=False)
        gap = float(best[0] + w @ (best[1:] - alpha)) - bound
        if gap <= tolerance or not fresh:  # a column that is known already: what is left is the program's rounding
            break
    else:
        raise ConvergenceError(f"the augmented Lagrangian stopped with a gap of {gap:.3g}")
    x = np.einsum("k,khsa->hsa", weights, np.array(oracle.occupancies[: weights.size]))
    return Program(x, weights @ columns, w, True, np.inf)


def _proximal_point(a: Float, b: Float, lam: Float, eta: float) -> tuple[float, Float, Float]:
    """argmin_{w >= 0} max_k (a_k + b_k . w) + |w - lam|^2 / (2 eta): that maximum, w, and the columns' weights.

    Its dual, over weights v of the columns and slacks, is

        minimise  -a . v + |t|^2 / 2   s.t.  b' v + t / sqrt(eta) - s = lam / eta,  sum v = 1,  (v, t, s) >= 0

    and w its multipliers. Mehrotra's (1992) predictor and corrector: systems of m + 1 unknowns, some twenty of them.
    """
    K, m = b.shape
    quadratic = np.concatenate([np.zeros(K), np.ones(m), np.zeros(m)])
    linear = np.concatenate([-a, np.zeros(2 * m)])
    matrix = np.zeros((m + 1, K + 2 * m))
    unit = min(1.0, math.sqrt(eta))  # of the first m rows
    matrix[:m, :K], matrix[m, :K] = unit * b.T, 1.0
    matrix[:m, K : K + m] = np.eye(m) * unit / math.sqrt(eta)
    matrix[:m, K + m :] = -np.eye(m)
    right = np.append(unit * lam / eta, 1.0)
    size, large = 1.0 + float(np.abs(linear).max()), 1.0 + float(np.abs(right).max())
    x, y, z = np.full(K + 2 * m, 1.0), np.zeros(m + 1), np.full(K + 2 * m, size)

    def move(target: Float) -> tuple[Float, Float, Float]:
        """The Newton direction towards x z = ``target``."""
        shrink = 1.0 / (quadratic + z / x)
        push = dual_left - target / x + z
        system = (matrix * shrink) @ matrix.T
        row = 1.0 / np.sqrt(np.diag(system))
        scaled = system * row[:, None] * row + 1e-15 * np.eye(m + 1)
        dy = row * np.linalg.solve(scaled, row * (-primal_left + (matrix * shrink) @ push))
        dx = shrink * (matrix.T @ dy - push)
        return dx, dy, (target - z * dx) / x - z

    def longest(values: Float, change: Float) -> float:
        """How far one can go before a value vanishes, at most 1."""
        falling = change < 0.0
        return float(min(1.0, (-values[falling] / change[falling]).min(initial=1.0)))

    for turn in range(TURNS):
        primal_left = matrix @ x - right
        dual_left = quadratic * x + linear - matrix.T @ y - z
        gap = float(x @ z) / x.size
        left = max(float(np.abs(dual_left).max()) / size, float(np.abs(primal_left).max()) / large)
        if gap <= EXACT * size and (left <= EXACT or gap <= 1e-6 * EXACT * size):  # rounding may be all that is left
            break
        if turn < PATIENCE:
            dx, _, dz = move(np.zeros_like(x))
            ahead = float((x + longest(x, dx) * dx) @ (z + longest(z, dz) * dz)) / x.size
            dx, dy, dz = move(gap * (ahead / gap) ** 3 - dx * dz)
        else:  # predictor and corrector may go round in circles; steps along the central path do not
            dx, dy, dz = move(np.full_like(x, CENTRED * gap))
        step = 0.995 * min(longest(x, dx), longest(z, dz))
        x, y, z = x + step * dx, y + step * dy, z + step * dz
    if not (gap <= EXACT * size and left <= ACCEPTED):
        raise ConvergenceError(f"the quadratic program stopped with a gap of {gap:.3g} and a residual of {left:.3g}")
    w = np.maximum(unit * y[:m], 0.0)
    return float((a + b @ w).max()), w, x[:K] / x[:K].sum()
