"""Theorem 2, measured: where the known-model iteration ends for a range of epsilon.

eta = c_eta epsilon^3, tau = c_tau epsilon, margin = c_margin epsilon, and epsilon^(-4) log(1 / epsilon) steps, or some
multiple of it. The theorem says: a gap of the order of epsilon, and no violation at all once c_margin is large enough.
Large enough is, at the saddle point, c_margin > c_tau lambda*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flexdome.audit.verdicts import Finding, Word
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.validation import Float, as_positive
from flexdome.errors import ValidationError
from flexdome.planning import slater_gap, solve
from flexdome.simulation import iterate
from flexdome.theory import theorem2

__all__ = ["EPSILONS", "LastIterates", "last_iterate_findings", "last_iterates", "steps_needed"]

EPSILONS = (0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1)


@dataclass(frozen=True)
class LastIterates:
    """The last iterate for each epsilon, on one instance.

    Attributes
    ----------
    epsilon, steps, gap, violation : (n,) the signed gap and the largest signed violation of the last policy
    late_violation : (n,) the largest violation in the second half of the steps
    multiplier : lambda*, the largest multiplier of the unregularised optimum
    order, order_low, order_high : the fitted order of the gap, with two standard errors of the fit
    """

    label: str
    epsilon: Float
    steps: Float
    gap: Float
    violation: Float
    late_violation: Float
    c_tau: float
    c_margin: float
    multiplier: float

    @property
    def order(self) -> tuple[float, float, float]:
        """Slope of log gap over log epsilon, and two standard errors below and above it."""
        good = self.gap > 0.0
        if good.sum() < 3:
            return math.nan, math.nan, math.nan
        x, y = np.log(self.epsilon[good]), np.log(self.gap[good])
        slope, offset = np.polyfit(x, y, 1)
        rest = y - (slope * x + offset)
        error = math.sqrt(float(rest @ rest) / max(x.size - 2, 1) / float(((x - x.mean()) ** 2).sum()))
        return float(slope), float(slope - 2.0 * error), float(slope + 2.0 * error)


def steps_needed(epsilon: float, multiple: float = 2.0) -> int:
    """ceil(multiple epsilon^(-4) log(1 / epsilon)): Theorem 2's Omega, with a constant."""
    epsilon = as_positive("epsilon", epsilon)
    if epsilon >= 1.0:
        raise ValidationError(f"epsilon is {epsilon:g}; it must be below 1")
    return math.ceil(as_positive("multiple", multiple) * epsilon**-4 * math.log(1.0 / epsilon))


def last_iterates(
    cmdp: CMDP,
    epsilons: Sequence[float] = EPSILONS,
    c_eta: float = 1.0,
    c_tau: float = 1.0,
    c_margin: float = 2.0,
    multiple: float = 2.0,
    label: str = "",
) -> LastIterates:
    """Iterate for each epsilon until Theorem 2 speaks."""
    gap = slater_gap(cmdp)
    rows = []
    for epsilon in epsilons:
        n = steps_needed(epsilon, multiple)
        run = iterate(cmdp, theorem2(epsilon, c_eta, c_tau, c_margin), n, 4.0 * cmdp.horizon / gap)
        rows.append((epsilon, n, run.final_gap, run.final_violation.max(), run.violation[:, n // 2 :].max()))
    epsilon, steps, gaps, short, late = np.array(rows).T
    multiplier = float(solve(cmdp).multipliers.max())
    return LastIterates(label, epsilon, steps, gaps, short, late, c_tau, c_margin, multiplier)


def last_iterate_findings(runs: Sequence[LastIterates], setting: str) -> list[Finding]:
    """The order of the gap is 1, within the interval of most fits; the violation is zero."""
    orders = [run.order for run in runs if not math.isnan(run.order[0])]
    slow = [order for order in orders if order[2] < 1.0]
    if orders:
        values = [order[0] for order in orders]
        ends = f"{min(values):.2f} to {max(values):.2f}, {len(orders)} instances"
        fitted = f"fitted order {np.mean(values):.2f} ({ends}; two standard errors of a fit {_error(orders):.2f})"
    else:
        fitted = "no positive gap to fit"
    worst = max(float(run.violation.max()) for run in runs)
    late = max(float(run.late_violation.max()) for run in runs)
    covered = all(run.c_margin > run.c_tau * run.multiplier for run in runs)
    word: Word = "fails" if worst > 0.0 else "holds"
    reading = "c_margin exceeds c_tau lambda*" if covered else "c_margin does not exceed c_tau lambda*"
    checked = sum(run.epsilon.size for run in runs)
    return [
        Finding("theorem-2-gap", "Theorem 2: the last gap is Theta(epsilon)", "Theorem 2", setting,
                "fails" if 2 * len(slow) > len(runs) else "holds", checked,
                1.0 - min((order[0] for order in orders), default=1.0), note=fitted),
        Finding("theorem-2-violation", "Theorem 2: the last violation is zero", "Theorem 2", setting, word, checked,
                worst, note=f"{reading}; largest violation in the second half of a run {late:.3g}"),
    ]  # fmt: skip


def _error(orders: Sequence[tuple[float, float, float]]) -> float:
    return float(np.mean([order[0] - order[1] for order in orders]))
