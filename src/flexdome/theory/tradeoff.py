"""Lemma 2: what a potential, a weight and a margin allow (Zuo et al. 2026, Section 4.3, appendix E).

[V_r* - V_r]_+        <=  H^(3/2) sqrt(2 Phi) + tau H log A + (H / Xi) eps
max_i [alpha_i - V_i]_+ <= [ H^(3/2) sqrt(2 Phi) + tau 4 H / Xi - eps ]_+      for t >= C''
"""

from __future__ import annotations

import math

from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import LARGEST_SIZE, Float, as_float, as_int
from flexdome.errors import ValidationError
from flexdome.planning import mix, safe_policy, slater_gap, solve
from flexdome.theory.convergence import dual_side
from flexdome.theory.schedules import LARGEST

__all__ = ["dual_optimum_bound", "margin_mixture", "optimisation_part", "reward_bound", "violation_bound"]


def optimisation_part(horizon: int, phi: float) -> float:
    """H^(3/2) sqrt(2 Phi): how far the values of a policy are from those of the saddle point's.

    By the value-difference lemma, Pinsker's inequality and Cauchy-Schwarz (appendix E, eq. (15)); the KL part of the
    potential would do.
    """
    return float(
        as_int("horizon", horizon, 1, LARGEST_SIZE) ** 1.5 * math.sqrt(2.0 * as_float("phi", phi, 0.0, LARGEST))
    )


def reward_bound(problem: Problem, phi: float, tau: float, margin: float) -> float:
    """Lemma 2, first line. Needs eps <= Xi; from C'' on it is at most Xi / 2."""
    H, tau, margin = as_problem(problem).horizon, as_float("tau", tau, 0.0, LARGEST), as_float("margin", margin)
    return optimisation_part(H, phi) + tau * H * math.log(problem.actions) + H * margin / problem.slater_gap


def violation_bound(problem: Problem, phi: float, tau: float, margin: float) -> float:
    """Lemma 2, second line: 0 where the margin covers everything. Needs a multiplier inside the box."""
    tau, margin = as_float("tau", tau, 0.0, LARGEST), as_float("margin", margin)
    rest = optimisation_part(as_problem(problem).horizon, phi) + tau * dual_side(problem) - margin
    return max(rest, 0.0)


def dual_optimum_bound(problem: Problem, tau: float, margin: float) -> float:
    """The sum of the saddle point's multipliers is at most H (1 + tau log A) / (Xi - eps); infinite where eps >= Xi.

    From L(pi0, lam*) <= L(pi*, lam*) <= L(pi*, 0). With eps <= Xi / 2 it is 2 H (1 + tau log A) / Xi: inside the box of
    side 4 H / Xi, as the proof of Lemma 2 says, once tau log A < 1. At the paper's size that is t > (log 5)^6 = 17.4.
    """
    room = as_problem(problem).slater_gap - as_float("margin", margin)
    if room <= 0.0:
        return math.inf
    return problem.horizon * (1.0 + as_float("tau", tau, 0.0, LARGEST) * math.log(problem.actions)) / room


def margin_mixture(cmdp: CMDP, margin: float) -> Float:
    """pi_mix, the Markov policy of (1 - eps / Xi) pi* + (eps / Xi) pi0 (appendix E, with Altman's lemma).

    It is safe with ``margin`` to spare, and gives up at most (eps / Xi) H of the optimum.
    """
    gap = slater_gap(cmdp)
    margin = as_float("margin", margin, 0.0)
    if margin > gap:
        raise ValidationError(f"margin is {margin:g}; no policy has more to spare than the Slater gap, {gap:g}")
    weight = margin / gap
    slack = gap * (1.0 - 1e-9)  # as much as there is, but for rounding
    return mix(cmdp, [solve(cmdp).policy, safe_policy(cmdp, slack).policy], [1.0 - weight, weight])
