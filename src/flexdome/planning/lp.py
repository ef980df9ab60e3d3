"""The occupancy-measure linear program, through HiGHS: the textbook method and the decomposition's referee.

Over x_h(s, a) >= 0:   maximise sum x r   subject to   sum x d_i >= alpha_i,

    sum_a x_1(s, a) = mu(s),   sum_a x_{h+1}(s', a) = sum_{s, a} p_h(s' | s, a) x_h(s, a)

(Altman 1999). With ``slack=True`` the objective is t with ``sum x d_i >= alpha_i + t``: the Slater gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack

from flexdome.cmdp.model import Model
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError

__all__ = ["OccupancyProgram", "flow_matrix", "occupancy_program"]


@dataclass(frozen=True)
class OccupancyProgram:
    """The optimum of the program: its value, occupancy (H, S, A), multipliers (m,), feasibility."""

    feasible: bool
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


def occupancy_program(model: Model, alpha: Float, slack: bool = False) -> OccupancyProgram:
    """Solve the occupancy-measure program (``slack``: the one whose value is the Slater gap)."""
    n_f, H, S, A = model.f.shape
    n, m = H * S * A, n_f - 1
    flow = flow_matrix(model)
    start = np.concatenate([model.mu, np.zeros((H - 1) * S)])
    utilities = csr_array(-model.f[1:].reshape(m, n))
    cost = -model.f[0].ravel()
    bounds: list[tuple[float | None, float | None]] = [(0.0, None)] * n
    if slack:
        utilities = hstack([utilities, csr_array(np.ones((m, 1)))], format="csr")
        flow = hstack([flow, csr_array((H * S, 1))], format="csr")
        cost = np.append(np.zeros(n), -1.0)
        bounds.append((None, None))
    answer = linprog(
        cost, A_ub=utilities, b_ub=-alpha, A_eq=flow, b_eq=start, bounds=bounds, method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    if answer.status == 2:
        return OccupancyProgram(False, -np.inf, np.zeros((H, S, A)), np.zeros(m))
    if answer.status != 0:
        raise ConvergenceError(f"HiGHS ended with status {answer.status}: {answer.message}")
    x = np.maximum(answer.x[:n], 0.0).reshape(H, S, A)
    return OccupancyProgram(True, float(-answer.fun), x, np.maximum(-answer.ineqlin.marginals, 0.0))
