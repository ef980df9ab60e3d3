"""The occupancy-measure linear program, through HiGHS: the textbook method and the decomposition's referee.

Over x_h(s, a) >= 0:   maximise sum x r   subject to   sum x d_i >= alpha_i,

    sum_a x_1(s, a) = mu(s),   sum_a x_{h+1}(s', a) = sum_{s, a} p_h(s' | s, a) x_h(s, a)

(Altman 1999). With ``slack=True`` the objective is t with ``sum x d_i >= alpha_i + t``: the Slater gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array, hstack, vstack

from flexdome.cmdp.mask import ALL, Bool
from flexdome.cmdp.model import Model
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError

__all__ = ["OccupancyProgram", "flow_matrix", "occupancy_program"]

# HiGHS drops matrix entries below small_matrix_value, 1e-9 unless told: Dirichlet(0.1) rows are full of them,
# and dropping them moved an optimum by 2e-8.
OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "small_matrix_value": 1e-12,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
# Where no policy has any slack, HiGHS sometimes gives up, or takes the program for infeasible.
RETRIES: tuple[dict[str, Any], ...] = (
    {"presolve": "off"},
    {"presolve": "off", "primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    {"solver": "ipm", "primal_feasibility_tolerance": 1e-7, "dual_feasibility_tolerance": 1e-7},
)


@dataclass(frozen=True, eq=False)
class OccupancyProgram:
    """The optimum of the program: its value, occupancy (H, S, A) and multipliers (m,)."""

    value: float
    occupancy: Float
    multipliers: Float


def flow_matrix(model: Model) -> csr_array:
    """(H S, H S A) matrix B with ``B x = (mu, 0, ..., 0)`` exactly for occupancies x."""
    p, nxt, f, _ = model
    _, H, S, A = f.shape
    n = H * S * A
    column = np.arange(n)
    outflow = coo_array((np.ones(n), (column // A, column)), shape=(H * S, n))
    if H == 1:
        return outflow.tocsr()
    K = p.shape[3]
    stage = np.broadcast_to(p, (H, S, A, K))[: H - 1]
    successor = np.broadcast_to(nxt, (H, S, A, K))[: H - 1] if nxt.shape[3] else np.arange(S)
    row = (np.arange(1, H)[:, None, None, None] * S + successor) + np.zeros((1, S, A, 1), dtype=np.int64)
    source = np.broadcast_to(column[: (H - 1) * S * A].reshape(H - 1, S, A, 1), stage.shape)
    row = np.broadcast_to(row, stage.shape)
    used = stage != 0.0
    inflow = coo_array((-stage[used], (row[used], source[used])), shape=(H * S, n))
    return (outflow + inflow).tocsr()


def occupancy_program(model: Model, alpha: Float, slack: bool = False, mask: Bool = ALL) -> OccupancyProgram:
    """Solve the occupancy-measure program (``slack``: the one whose value is the Slater gap).

    Callers make sure that it is feasible: HiGHS's word on that is not taken. Where ``mask`` (H, S, A) has a size,
    what it does not allow has occupancy 0.
    """
    n_f, H, S, A = model.f.shape
    n, m = H * S * A, n_f - 1
    matrix = vstack([flow_matrix(model), model.f[1:].reshape(m, n)], format="csc")
    start = np.concatenate([model.mu, np.zeros((H - 1) * S)])
    program = highspy.HighsLp()
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = model.f[0].ravel()
    program.col_lower_ = np.zeros(n)
    most = np.full(n, highspy.kHighsInf)
    if mask.size:
        most[~mask.ravel()] = 0.0
    program.col_upper_ = most
    if slack:
        shift = csc_array(np.append(np.zeros(H * S), -np.ones(m))[:, None])
        matrix = hstack([matrix, shift], format="csc")
        program.col_cost_ = np.append(np.zeros(n), 1.0)
        reach = 2.0 * H * float(np.abs(model.f).max()) + float(np.abs(alpha).max())  # t never gets there
        program.col_lower_ = np.append(np.zeros(n), -reach)
        program.col_upper_ = np.append(most, reach)
    program.num_row_, program.num_col_ = matrix.shape
    program.row_lower_ = np.concatenate([start, alpha])
    program.row_upper_ = np.concatenate([start, np.full(m, highspy.kHighsInf)])
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = matrix.indptr
    program.a_matrix_.index_ = matrix.indices
    program.a_matrix_.value_ = matrix.data
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for attempt in ({}, *RETRIES):
        for option, value in (OPTIONS | attempt).items():
            solver.setOptionValue(option, value)
        solver.passModel(program)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            break
    else:
        raise ConvergenceError(f"HiGHS ended with status {solver.modelStatusToString(status)}")
    answer = solver.getSolution()
    x = np.clip(np.array(answer.col_value)[:n], 0.0, most).reshape(H, S, A)
    multipliers = np.maximum(-np.array(answer.row_dual)[H * S :], 0.0)
    return OccupancyProgram(solver.getInfo().objective_function_value, x, multipliers)
