"""Theorem 2's bounds on the last iterate of a known model, term by term, as numbers (Zuo et al. 2026, appendix F).

With constant eta, tau and margin eps, after t steps from the uniform policy and lam = 0,

    gap        <=  (a) + (b) + tau H log A + (H / Xi) eps
    violation  <= [(a) + (b) + tau 4 H / Xi - eps]_+

(a) H^(3/2) sqrt(2 Phi_1) exp(-t eta tau / 2) is where it started, (b) H^(3/2) sqrt((H C + D) R) what the steps add,
R being the recursive sum. So the theorem says *zero* where the margin is at least (a) + (b) + tau 4 H / Xi, and it
speaks while that margin is at most half the Slater gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_float, as_int
from flexdome.theory.constants import LONGEST
from flexdome.theory.convergence import OVERFLOW, dual_side, initial_potential_bound
from flexdome.theory.rates import recursive_sum
from flexdome.theory.schedules import LARGEST
from flexdome.theory.theorem import coefficients

__all__ = ["LastIterateTerms", "last_iterate_terms", "zero_violation_margin"]


class LastIterateTerms(NamedTuple):
    """The terms (a), (b), (c) of the gap, (d), and (c') of the violation."""

    initial: float
    optimisation: float
    regularisation: float
    margin: float
    box: float

    @property
    def gap(self) -> float:
        """The bound on the gap."""
        return self.initial + self.optimisation + self.regularisation + self.margin

    def violation(self, margin: float) -> float:
        """The bound on the violation with ``margin``: 0 where the theorem says zero."""
        return max(self.initial + self.optimisation + self.box - margin, 0.0)


def last_iterate_terms(problem: Problem, eta: float, tau: float, margin: float, steps: int) -> LastIterateTerms:
    """Both bounds after ``steps`` steps; (b) is infinite where no float64 holds C."""
    H = as_problem(problem).horizon
    eta, tau = as_float("eta", eta, 0.0, LARGEST), as_float("tau", tau, 0.0, LARGEST)
    margin, steps = as_float("margin", margin, 0.0, LARGEST), as_int("steps", steps, 1, LONGEST)
    total = recursive_sum(eta, tau, steps)
    log_b = coefficients(problem, eta, tau).optimisation + (0.5 * math.log(total) if total > 0.0 else -math.inf)
    return LastIterateTerms(
        initial=H**1.5 * math.sqrt(2.0 * initial_potential_bound(problem)) * math.exp(-0.5 * eta * tau * steps),
        optimisation=math.exp(log_b) if log_b < OVERFLOW else math.inf,
        regularisation=tau * H * math.log(problem.actions),
        margin=H / problem.slater_gap * margin,
        box=tau * dual_side(problem),
    )


def zero_violation_margin(problem: Problem, eta: float, tau: float, steps: int) -> float:
    """(a) + (b) + tau 4 H / Xi: the least margin for which the theorem says that the last violation is zero."""
    terms = last_iterate_terms(problem, eta, tau, 0.0, steps)
    return terms.initial + terms.optimisation + terms.box
