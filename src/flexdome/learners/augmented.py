"""One step of the augmented Lagrangian over the occupancies of a confidence set.

    maximise  V_f0(x) - (1 / 2 eta) sum_i [lam_i + eta (alpha_i - V_fi(x))]_+^2

is the dual function's proximal step: with D(w) = max_x V_f0(x) + w . (V_f(x) - alpha), its multipliers

    w* = [lam + eta (alpha - V_f(x*))]_+ = argmin_{w >= 0} D(w) + |w - lam|^2 / (2 eta)

(Rockafellar 1976). So columns are generated as for a linear program: extended value iteration evaluates D at w, and the
model of D by the columns so far gives the next w. That small problem, m + 1 unknowns and a row for each column, is a
convex quadratic program and goes to HiGHS. When D(w) meets its model, the mixture of columns is optimal.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError
from flexdome.learners.confidence import TransitionSet
from flexdome.learners.programs import Program, oracle_of
from flexdome.planning.decomposition import scale_of

__all__ = ["augmented_program", "augmented_value"]

COLUMNS = 300
TOLERANCE = 1e-9  # relative to the scale of the values


def augmented_value(values: Float, lam: Float, alpha: Float, eta: float) -> float:
    """The augmented Lagrangian at values (1 + m,)."""
    hinge = np.maximum(lam + eta * (alpha - values[1:]), 0.0)
    return float(values[0] - (hinge**2).sum() / (2.0 * eta))


def augmented_program(
    transitions: TransitionSet | Float, f: Float, mu: Float, lam: Float, alpha: Float, eta: float
) -> Program:
    """The best occupancy for the augmented Lagrangian; ``multipliers`` are w*, the next lam."""
    oracle = oracle_of(transitions, f, mu)
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
    """argmin_{w >= 0} max_k (a_k + b_k . w) + |w - lam|^2 / (2 eta): that maximum, w, and the columns' weights."""
    K, m = b.shape
    infinity = highspy.kHighsInf
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = 1 + m, K
    program.col_cost_ = np.append(1.0, -lam / eta)
    program.col_lower_ = np.append(-infinity, np.zeros(m))
    program.col_upper_ = np.full(1 + m, infinity)
    program.row_lower_, program.row_upper_ = a, np.full(K, infinity)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(0, K * (1 + m) + 1, 1 + m)
    program.a_matrix_.index_ = np.tile(np.arange(1 + m), K)
    program.a_matrix_.value_ = np.column_stack([np.ones(K), -b]).ravel()
    model = highspy.HighsModel()
    model.lp_ = program
    model.hessian_.dim_ = 1 + m
    model.hessian_.format_ = highspy.HessianFormat.kTriangular
    model.hessian_.start_ = np.append(0, np.arange(m + 1))
    model.hessian_.index_ = np.arange(1, 1 + m)
    model.hessian_.value_ = np.full(m, 1.0 / eta)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("qp_regularization_value", 0.0)):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ConvergenceError(f"the quadratic program ended with status {solver.getModelStatus()}")
    answer = solver.getSolution()
    w = np.maximum(np.array(answer.col_value)[1:], 0.0)
    weights = np.maximum(np.array(answer.row_dual), 0.0)
    total = float(weights.sum())
    if not abs(total - 1.0) < 1e-3:
        raise ConvergenceError(f"the quadratic program's weights sum to {total:.6g}, not to one")
    return float((a + b @ w).max()), w, weights / total
