"""Theorem 2, measured: where the known-model iteration ends for a range of epsilon.

eta = c_eta epsilon^3, tau = c_tau epsilon, margin = c_margin epsilon, and epsilon^(-4) log(1 / epsilon) steps, or some
multiple of it. The theorem says: a gap of the order of epsilon, and no violation at all once c_margin is large enough.
Large enough is, at the saddle point, c_margin > c_tau lambda*; the proof wants c_margin above a sum of constants with C
in it (:func:`flexdome.theory.zero_violation_margin`), which at the sizes one can run is beyond the Slater gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flexdome.audit.findings import Finding, Word
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.validation import Float, as_items, as_positive
from flexdome.errors import ValidationError
from flexdome.planning import solve
from flexdome.planning.evaluation import as_cmdp
from flexdome.simulation import iterate
from flexdome.simulation.known_model import MOST
from flexdome.theory import dual_side, last_iterate_terms, theorem2, zero_violation_margin

__all__ = ["EPSILONS", "LastIterates", "last_iterate_findings", "last_iterates", "steps_needed"]

EPSILONS = (0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1)


@dataclass(frozen=True)
class LastIterates:
    """The last iterate for each epsilon, on one instance.

    Attributes
    ----------
    epsilon, steps, gap, violation : (n,) the signed gap and the largest signed violation of the last policy
    late_violation : (n,) the largest violation in the second half of the steps
    gap_bound : (n,) tau H log A + (H / Xi) margin, the part of the theorem's bound that more steps do not change
    zero_margin : (n,) the least margin for which the theorem says that the violation is zero
    half_gap : half the Slater gap, up to which the theorem speaks
    multiplier : lambda*, the largest multiplier of the unregularised optimum
    order, order_low, order_high : the fitted order of the gap, with two standard errors of the fit
    """

    label: str
    epsilon: Float
    steps: Float
    gap: Float
    violation: Float
    late_violation: Float
    gap_bound: Float
    zero_margin: Float
    half_gap: float
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
    steps = as_positive("multiple", multiple, 1e6) * epsilon**-4 * math.log(1.0 / epsilon) if epsilon > 1e-4 else 1e99
    if steps > MOST:
        raise ValidationError(f"epsilon is {epsilon:g} with multiple {multiple:g}; at most {MOST:,} steps are made")
    return math.ceil(steps)


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
    problem, rows = as_cmdp(cmdp).problem(), []
    given = as_items("epsilons", epsilons, "it must be a series of numbers")
    if not given:
        raise ValidationError("epsilons is empty; it must have at least one number")
    for one in given:
        n, schedules = steps_needed(one, multiple), theorem2(one, c_eta, c_tau, c_margin)
        run = iterate(cmdp, schedules, n, dual_side(problem))
        (eta,), (tau,), ((margin, *_),) = (x.tolist() for x in schedules.table(1, 1, cmdp.constraints))
        terms = last_iterate_terms(problem, eta, tau, margin, n)
        wanted = zero_violation_margin(problem, eta, tau, n)
        found = (run.final_gap, run.final_violation.max(), run.violation[:, n // 2 :].max())
        rows.append((one, n, *found, terms.regularisation + terms.margin, wanted))
    multiplier = float(solve(cmdp).multipliers.max())
    epsilon, steps, gap, short, late, bound, zero = np.array(rows).T
    half = 0.5 * problem.slater_gap
    return LastIterates(label, epsilon, steps, gap, short, late, bound, zero, half, c_tau, c_margin, multiplier)


def last_iterate_findings(runs: Sequence[LastIterates], setting: str) -> list[Finding]:
    """The gap is within the terms that stay; the violation is zero; and where the theorem itself says zero."""
    orders = [run.order for run in runs if not math.isnan(run.order[0])]
    fitted = "no positive gap to fit"
    if orders:
        values = [order[0] for order in orders]
        ends = f"{min(values):.2f} to {max(values):.2f}, {len(orders)} instances"
        fitted = f"fitted order {np.mean(values):.2f} ({ends}; two standard errors of a fit {_error(orders):.2f})"
    over = max(float((run.gap - run.gap_bound).max()) for run in runs)
    used = max(float((run.gap / run.gap_bound).max()) for run in runs)
    worst = max(float(run.violation.max()) for run in runs)
    late = max(float(run.late_violation.max()) for run in runs)
    covered = all(run.c_margin > run.c_tau * run.multiplier for run in runs)
    reading = "c_margin exceeds c_tau lambda*" if covered else "c_margin does not exceed c_tau lambda*"
    least = min(float((run.zero_margin / run.half_gap).min()) for run in runs)
    said = [(run.zero_margin <= run.half_gap) & (run.c_margin * run.epsilon >= run.zero_margin) for run in runs]
    broken = any(bool((run.violation[zero] > 0.0).any()) for run, zero in zip(runs, said, strict=True))
    zero_word: Word = "fails" if broken else "holds" if any(bool(zero.any()) for zero in said) else "vacuous"
    checked = sum(run.epsilon.size for run in runs)
    place = "Theorem 2"
    return [
        Finding("theorem-2-gap", "Theorem 2: the last gap is of order epsilon, at most (c) + (d)", place, setting,
                "fails" if over > 0.0 else "holds", checked, over,
                note=f"at most {used:.2g} of it; {fitted}, over epsilon {_range(runs)}"),
        Finding("theorem-2-violation", "Theorem 2: the last violation is zero", place, setting,
                "fails" if worst > 0.0 else "holds", checked, worst,
                note=f"{reading}; largest violation in the second half of a run {late:.3g}"),
        Finding("theorem-2-zero", "Theorem 2: zero violation where its own constants say zero", place, setting,
                zero_word, checked, worst,
                note=f"the margin it wants is at least {least:.3g} times half the Slater gap, where it ends"),
    ]  # fmt: skip


def _range(runs: Sequence[LastIterates]) -> str:
    return f"{min(run.epsilon.min() for run in runs):g} to {max(run.epsilon.max() for run in runs):g}"


def _error(orders: Sequence[tuple[float, float, float]]) -> float:
    return float(np.mean([order[0] - order[1] for order in orders]))
