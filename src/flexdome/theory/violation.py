"""Theorem 1's bound on the strong violation, term by term, as numbers (Zuo et al. 2026, appendix E).

    R_T(d) <= (C'' - 1) H + (a') + (b') + (c') + (d')

Each of the four is a sum over t = C'', ..., T of [error_t - eps^(k)_t]_+, and the proof shows of each that it is a
constant. Here are the constants, as natural logarithms; -inf is a term that is zero. A difference A t^(-p) - B t^(-1/6)
with p > 1/6 falls where it is positive, so its sum is at most its first term and its integral up to where it ends.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_float, as_int
from flexdome.theory.constants import as_confidence, error_constant
from flexdome.theory.rates import OPTIMISATION_CONSTANT, dominance_start
from flexdome.theory.theorem import (
    DIGITS,
    LONGEST_LOG,
    LONGEST_START,
    burn_in_episode,
    coefficients,
    dominance_episodes,
    margin_parts,
    statistical_dominance_episode,
)

__all__ = ["ViolationTerms", "statistical_decay", "violation_bound_start", "violation_terms"]


class ViolationTerms(NamedTuple):
    """Natural logarithms of the burn-in's (C'' - 1) H and of (a') to (d'), and of their sum."""

    burn_in: float
    initial: float
    optimisation: float
    statistical: float
    regularisation: float
    total: float


def statistical_decay(problem: Problem, log_t: float, log_planned: float, delta: float) -> float:
    """The logarithm of sqrt(2 C_B) t^(-1/6) log(S A H T / delta')^(1/4), which bounds sqrt(|Y_t|) to leading order.

    Y_t = sum_{j <= t} eta_j delta_j exp(-sum_{k > j} eta_k tau_k) (Lemma "bound b and c"; |Y_t| <= 2 eta_t B(t)). The
    lemma adds O~(S^(3/4) A^(1/2) H) t^(-5/12), which it does not spell out.
    """
    size = math.log(4.0 * as_problem(problem).states * problem.actions * problem.horizon)
    log_size = size - math.log(as_confidence(delta)) + as_float("log_planned", log_planned, 0.0, LONGEST_LOG)
    root = 0.5 * math.log(2.0 * error_constant(problem))
    return root - as_float("log_t", log_t, 0.0, LONGEST_LOG) / 6.0 + 0.25 * math.log(log_size)


def violation_terms(problem: Problem, log_planned: float, delta: float, burn_in: int | None = None) -> ViolationTerms:
    """Bounds on the terms of the strong violation at T = exp(``log_planned``), beside those of the regret.

        (a') sum [H^(3/2) C' (t + 1)^(-1/2) - eps^(1)_t]_+
        (b') sum [H^(3/2) sqrt((H C + D) K_X) t^(-1/3) - eps^(2)_t]_+
        (c') sum [sqrt(2 H^3) sqrt(|Y_t|) - eps^(3)_t]_+, |Y_t| as in :func:`statistical_decay`
        (d') sum [(4 H / Xi) t^(-1/6) - eps^(4)_t]_+ = 0

    with the parts of the margin of :func:`~flexdome.theory.theorem.margin_parts`. In (c') the margin's log t is taken
    at C'', its least. C and D are those of the first step, as in the proof: it makes (b') a constant of 10^67 at the
    paper's size.
    """
    H, log_T = as_problem(problem).horizon, as_float("log_planned", log_planned, 0.0, LONGEST_LOG)
    start = burn_in_episode(problem, delta) if burn_in is None else as_int("burn_in", burn_in, 1, LONGEST_START)
    c, parts = coefficients(problem), margin_parts(problem)
    ends = [min(end, log_T) for end in dominance_episodes(problem)]
    steps = c.optimisation + 0.5 * math.log(OPTIMISATION_CONSTANT)
    size = math.log(4.0 * problem.states * problem.actions * H) - math.log(as_confidence(delta))
    error = c.statistical + statistical_decay(problem, 0.0, log_T, delta)
    covered = math.log(parts.statistical) + 0.25 * math.log(size + math.log(start))
    end = min(statistical_dominance_episode(problem, log_T, delta), log_T)
    terms = (
        math.log(start - 1) + math.log(H) if start > 1 else -math.inf,
        _summed(c.initial, Decimal(1), 2, parts.initial, start, ends[0]),
        _summed(steps, Decimal(0), 3, parts.optimisation, start, ends[1]),
        _summed(error, Decimal(0), 6, math.exp(covered), start, end),
        -math.inf,
    )
    return ViolationTerms(*terms, total=float(np.logaddexp.reduce(terms)))


def _summed(log_a: float, shift: Decimal, root: int, b: float, first: int, log_last: float) -> float:
    """The logarithm of a bound on sum_{t = first}^{last} [A (t + shift)^(-1/root) - b t^(-1/6)]_+."""
    with localcontext() as context:
        context.prec = DIGITS
        A, B, p = Decimal(log_a).exp(), Decimal(b), 1 / Decimal(root)
        begin, last = Decimal(first), max(Decimal(log_last).exp(), Decimal(first))
        if Decimal(log_last) < begin.ln():
            return -math.inf
        at_once = A * (begin + shift) ** -p - B * begin ** (-1 / Decimal(6))
        if at_once <= 0:
            return -math.inf

        def integral(t: Decimal) -> Decimal:
            return A * (t + shift) ** (1 - p) / (1 - p) - B * t ** (5 / Decimal(6)) * 6 / 5

        return float((at_once + integral(last) - integral(begin)).ln())


def violation_bound_start(problem: Problem, delta: float) -> float:
    """log T from which the bound of :func:`violation_terms` is below T H, what is true of every learner anyway."""
    start, log_h = burn_in_episode(problem, delta), math.log(problem.horizon)
    return dominance_start(
        lambda x: violation_terms(problem, x, delta, start).total, lambda x: x + log_h, log_end=LONGEST_LOG
    )
