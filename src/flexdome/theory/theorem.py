"""Theorem 1 term by term, as numbers (Zuo et al. 2026, appendix E).

    R_T(r) <= (C'' - 1) H + (a) + (b) + (c) + (d) + (e)
    R_T(d) <= (C'' - 1) H + (a') + (b') + (c') + (d')

Many are beyond any float64, so everything here is a natural logarithm. -inf is a term that is zero.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_float, as_int
from flexdome.theory.constants import as_confidence, error_constant, margin_coefficient
from flexdome.theory.convergence import dual_constant, dual_side, initial_potential_bound, log_primal_constant
from flexdome.theory.rates import OPTIMISATION_CONSTANT, dominance_start, log_optimisation_coefficient

__all__ = [
    "Coefficients",
    "MarginParts",
    "RegretTerms",
    "burn_in_episode",
    "coefficients",
    "dominance_episodes",
    "margin_parts",
    "regret_bound_start",
    "regret_terms",
    "statistical_dominance_episode",
]

DIGITS = 120  # of the decimal arithmetic that finds C'' exactly
LONGEST_LOG = 1e6  # of a T that is given by its logarithm
LONGEST_START = 10**300  # of a C'' that is given


class Coefficients(NamedTuple):
    """log c_1, ..., log c_4 of Section 4.4."""

    initial: float
    optimisation: float
    statistical: float
    regularisation: float


class MarginParts(NamedTuple):
    """The four parts of the margin's coefficient: each times t^(-1/6), the third times log(4 S A H t / delta)^(1/4)."""

    initial: float
    optimisation: float
    statistical: float
    regularisation: float


class RegretTerms(NamedTuple):
    """Natural logarithms of the burn-in's (C'' - 1) H and of (a) to (e), and of their sum."""

    burn_in: float
    initial: float
    optimisation: float
    statistical: float
    regularisation: float
    margin: float
    total: float


def burn_in_episode(problem: Problem, delta: float, margin_scale: float = 1.0) -> int:
    """C'', exactly: the first episode from which eps_t <= Xi / 2 (Section 4.3, appendix C).

    A whole number, about 1.8e27 at the paper's size, where float64 tells only every 10^11th episode from the next. In
    decimal arithmetic, with coefficient k of the margin and x = 4 S A H / delta, eps_t <= Xi / 2 is

        (2 k / Xi)^12 log(x t)^3 <= t^2.
    """
    S, A, H, m = as_problem(problem).states, problem.actions, problem.horizon, problem.constraints
    confidence, scale = as_confidence(delta), as_float("margin_scale", margin_scale, low=0.0)
    with localcontext() as context:
        context.prec = DIGITS
        gap, size = Decimal(problem.slater_gap), Decimal(4 * S * A * H) / Decimal(confidence)
        ratio = m * H / gap
        constant = (1 + 8 * ratio) * 4 * H * Decimal(2 * S * A).sqrt() * (H * Decimal(S).sqrt() + H + 1)
        constant += 4 * ratio * Decimal(2 * H).sqrt()
        squared = (Decimal(scale) * 18 / 5) ** 2 * H**3 * constant
        factor = (4 * squared / gap**2) ** 6

        def safe(t: int) -> bool:
            return factor * (size * t).ln() ** 3 <= Decimal(t) ** 2

        high = 1
        while not safe(high):
            high *= 2
        low = high // 2  # not safe, or 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if safe(middle) else (middle, high)
    return high


def coefficients(problem: Problem, eta: float = 1.0, tau: float = 1.0) -> Coefficients:
    """c_1 = H^(3/2) sqrt(2 Phi_1), c_2 = H^(3/2) sqrt(H C + D), c_3 = sqrt(2 H^3), c_4 = 4 H / Xi, as logarithms.

    Phi_1 is bounded by :func:`~flexdome.theory.convergence.initial_potential_bound`, so that c_1 = H^(3/2) C'. C and D
    are those of ``eta`` and ``tau``: 1 and 1, the largest, is what the proof takes.
    """
    H = as_problem(problem).horizon
    root = 1.5 * math.log(H)
    log_hc = math.log(H) + log_primal_constant(problem, eta, tau)
    step = 0.5 * float(np.logaddexp(log_hc, math.log(dual_constant(problem, tau))))
    return Coefficients(
        initial=root + 0.5 * math.log(2.0 * initial_potential_bound(problem)),
        optimisation=root + step,
        statistical=root + 0.5 * math.log(2.0),
        regularisation=math.log(dual_side(problem)),
    )


def margin_parts(problem: Problem) -> MarginParts:
    """eps = eps^(1) + ... + eps^(4): (17/5) sqrt(H^3 C_B) log^(1/4) for (c'), 4 H / Xi for (d').

    The proof leaves "an arbitrarily small constant" to (a') and (b'): here half each of what (1/5) sqrt(H^3 C_B) has
    left after (d'). Negative where nothing is left, which is where the theorem's margin does not suffice.
    """
    H = as_problem(problem).horizon
    root = math.sqrt(float(H) ** 3 * error_constant(problem))
    spare = 0.5 * (0.2 * root - dual_side(problem))
    return MarginParts(spare, spare, 3.4 * root, dual_side(problem))


def dominance_episodes(problem: Problem, eta: float = 1.0, tau: float = 1.0) -> tuple[float, float]:
    """log t_0 of (a') and of (b'): from where on each error is below its part of the margin (limit comparison).

    c_1 (t + 1)^(-1/2) <= eps^(1) t^(-1/6) and c_2 sqrt(K_X) t^(-1/3) <= eps^(2) t^(-1/6). (d') is covered from the
    start, (c') has :func:`statistical_dominance_episode`. Infinite where the part is not positive.
    """
    c, parts = coefficients(problem, eta, tau), margin_parts(problem)
    if parts.initial <= 0.0:
        return math.inf, math.inf
    log_b = c.optimisation + 0.5 * math.log(OPTIMISATION_CONSTANT)
    spare = math.log(parts.initial)
    initial = dominance_start(
        lambda x: c.initial - 0.5 * float(np.logaddexp(x, 0.0)), lambda x: spare - x / 6.0, log_end=1e5
    )
    return initial, max(6.0 * (log_b - spare), 0.0)


def statistical_dominance_episode(problem: Problem, log_planned: float, delta: float) -> float:
    """log t_0 of (c'): the bound has log T where the margin has log t.

    2 sqrt(H^3 C_B) t^(-1/6) log(x T)^(1/4) <= (17/5) sqrt(H^3 C_B) t^(-1/6) log(x t)^(1/4), x = 4 S A H / delta, from
    x t = (x T)^((10/17)^4) on: t_0 grows as T^0.12, and so does the violation it allows, where the theorem has O~(1).
    It leaves the first episode when T = x^(7.35), about 10^31 at the paper's size.
    """
    size = math.log(4.0 * as_problem(problem).states * problem.actions * problem.horizon)
    log_size = size - math.log(as_confidence(delta))
    log_planned = as_float("log_planned", log_planned, 0.0, LONGEST_LOG)
    return max((10.0 / 17.0) ** 4 * (log_size + log_planned) - log_size, 0.0)


def regret_terms(problem: Problem, log_planned: float, delta: float, burn_in: int | None = None) -> RegretTerms:
    """The bounds of appendix E on the terms of the strong regret, at T = exp(``log_planned``).

        (C'' - 1) H
        (a) H^(3/2) C' 2 sqrt(2 T)
        (b) K T^(2/3)
        (c) (12/5) sqrt(2 H^3 C_B) log(S A H T / delta')^(1/4) T^(5/6)
        (d) (6/5) H log A T^(5/6)
        (e) (H / Xi) (6/5) eps_coefficient log(S A H T / delta')^(1/4) T^(5/6)

    (c) is its leading part; the O~ of the lemma is not spelt out in the paper. With T < C'' all of T is burn-in, and
    the bound says that the regret is at most T H.
    """
    H, A = as_problem(problem).horizon, problem.actions
    log_planned = as_float("log_planned", log_planned, 0.0, LONGEST_LOG)
    size = math.log(4.0 * problem.states * A * H) - math.log(as_confidence(delta)) + log_planned
    quarter, power = 0.25 * math.log(size), 5.0 / 6.0 * log_planned
    start = burn_in_episode(problem, delta) if burn_in is None else as_int("burn_in", burn_in, 1, LONGEST_START)
    log_b = 0.5 * math.log(2.0 * H**3 * error_constant(problem))
    skipped = math.log(start - 1) + math.log(H) if start > 1 else -math.inf
    terms = (
        skipped,
        coefficients(problem).initial + math.log(2.0) + 0.5 * (math.log(2.0) + log_planned),
        log_optimisation_coefficient(problem) + 2.0 / 3.0 * log_planned,
        math.log(2.4) + log_b + quarter + power,
        math.log(1.2 * H * math.log(A)) + power if A > 1 else -math.inf,
        math.log(1.2 * H / problem.slater_gap * margin_coefficient(problem)) + quarter + power,
    )
    return RegretTerms(*terms, total=float(np.logaddexp.reduce(terms)))


def regret_bound_start(problem: Problem, delta: float) -> float:
    """log T from which the bound of :func:`regret_terms` is below T H, what is true of every learner anyway.

    The burn-in is not the last word: at the paper's size it ends at 10^27, and the bound speaks from T = 10^45 on, term
    (b) with its C of the first step being the largest until then.
    """
    start, log_h = burn_in_episode(problem, delta), math.log(problem.horizon)
    return dominance_start(
        lambda x: regret_terms(problem, x, delta, start).total, lambda x: x + log_h, log_end=LONGEST_LOG
    )
