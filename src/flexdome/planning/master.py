"""The small linear program of column generation: the best mixture of the policies found so far.

Each column is a policy k with values F_k = (V_r, V_{d_1}, ..., V_{d_m}). Over mixture weights w >= 0 with
sum w = 1 the program is one of

* optimum: maximise  sum_k w_k V_r,k - penalty * sum_i s_i   s.t.  sum_k w_k (V_{d_i},k - alpha_i) + s_i >= 0
* slack:   maximise  t                                       s.t.  sum_k w_k (V_{d_i},k - alpha_i) - t   >= 0

Its dual is the piecewise linear model of the Lagrangian dual function; HiGHS keeps its basis between calls,
so that one more column costs about 0.1 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import highspy
import numpy as np

from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError

__all__ = ["Master"]


class Master:
    """A warm-started restricted master program with m rows and one convexity row."""

    def __init__(self, kind: Literal["optimum", "slack"], alpha: Float, penalty: float = 0.0) -> None:
        self.alpha = alpha
        self.reward_weight = 1.0 if kind == "optimum" else 0.0
        m = alpha.size
        self._rows = np.arange(m + 1, dtype=np.int32)
        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("simplex_strategy", 4),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            solver.setOptionValue(option, value)
        infinity = highspy.kHighsInf
        none = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(m):
            solver.addRow(0.0, infinity, 0, *none)
        solver.addRow(1.0, 1.0, 0, *none)
        solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        if kind == "optimum":
            for i in range(m):
                solver.addCol(-penalty, 0.0, infinity, 1, self._rows[i : i + 1], np.ones(1))
        else:
            solver.addCol(1.0, -infinity, infinity, m, self._rows[:m], -np.ones(m))
        self._known = 0
        self._extra = m if kind == "optimum" else 1
        self._solver = solver

    def solve(self, columns: Sequence[Float]) -> tuple[float, Float]:
        """The best value of a mixture of ``columns`` (a list that only grows), and the multipliers (m,)."""
        for values in columns[self._known :]:
            entries = np.append(values[1:] - self.alpha, 1.0)
            cost = self.reward_weight * float(values[0])
            self._solver.addCol(cost, 0.0, highspy.kHighsInf, entries.size, self._rows, entries)
        self._known = len(columns)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise ConvergenceError(f"the master program ended with status {self._solver.getModelStatus()}")
        duals = np.array(self._solver.getSolution().row_dual[:-1])
        return self._solver.getObjectiveValue(), np.maximum(-duals, 0.0)

    def raise_penalty(self, penalty: float) -> None:
        """Charge ``penalty`` for a unit of shortfall from now on."""
        for i in range(self._extra):
            self._solver.changeColCost(i, -penalty)

    def shortfall(self) -> float:
        """How far the last mixture is from meeting the thresholds."""
        return float(max(self._solver.getSolution().col_value[: self._extra]))

    def weights(self) -> Float:
        """The weights of the columns in the last solution."""
        w: Float = np.maximum(np.array(self._solver.getSolution().col_value[self._extra :]), 0.0)
        w /= w.sum()
        return w
