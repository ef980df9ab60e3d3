"""Constants of Zuo et al. 2026, as numbers.

At the size of the paper's experiment (S = 20, A = H = 5, m = 1, Slater gap 2.5) they are far outside anything usable:
C_B is about 1.4e5, the unscaled margin starts near 26,000 where H = 5, and the burn-in after which the theory speaks is
of the order of 1e27 episodes. The experiments scale the margin by 1e-5 and the bonuses by 1e-3.
"""

from __future__ import annotations

import math

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_float, as_int, shown
from flexdome.errors import ValidationError

__all__ = ["LEAST_DIVISOR", "LONGEST", "as_confidence", "bonus_logs", "burn_in", "error_constant", "margin_coefficient"]

LONGEST = 2**53  # episodes: up to here a float64 counts them
LEAST_DIVISOR = 1e-100  # delta is no less: what is divided by it stays far from the largest float64


def as_confidence(delta: float) -> float:
    """``delta`` in (0, 1], and not so small that the logarithms of 1 / delta are infinite."""
    delta = as_float("delta", delta, low=0.0, high=1.0)
    if delta < LEAST_DIVISOR:
        raise ValidationError(f"delta is {shown(delta)}; it must be positive, and at least {LEAST_DIVISOR:g}")
    return delta


def bonus_logs(problem: Problem, episodes: int, delta: float) -> tuple[float, float]:
    """L_r = (1/2) log(2 S A H (m+1) T / delta') and L_p = 2 S + 2 log(S A H T / delta'), delta' = delta / 4.

    The bonuses are phi_r = sqrt(L_r / N) and phi_p = H sqrt(L_p / N) (Lemma "Bound on the estimation error").
    """
    as_problem(problem)
    T, delta = as_int("episodes", episodes, 1, LONGEST), as_confidence(delta)
    size = 4.0 * problem.states * problem.actions * problem.horizon * T / delta  # delta / 4 may be 0 where delta is not
    return 0.5 * math.log(2.0 * (problem.constraints + 1) * size), 2.0 * problem.states + 2.0 * math.log(size)


def error_constant(problem: Problem) -> float:
    """C_B = (1 + 8 m H / Xi) 4 H sqrt(2 S A) (H sqrt(S) + H + 1) + (4 m H / Xi) sqrt(2 H)."""
    S, A, H, m = as_problem(problem).states, problem.actions, problem.horizon, problem.constraints
    ratio = m * H / problem.slater_gap
    return (1.0 + 8.0 * ratio) * 4.0 * H * math.sqrt(2.0 * S * A) * (
        H * math.sqrt(S) + H + 1.0
    ) + 4.0 * ratio * math.sqrt(2.0 * H)


def margin_coefficient(problem: Problem) -> float:
    """(18/5) sqrt(H^3 C_B): the margin is this times t^(-1/6) log(4 S A H t / delta)^(1/4)."""
    return 3.6 * math.sqrt(float(as_problem(problem).horizon) ** 3 * error_constant(problem))


def burn_in(problem: Problem, delta: float, margin_scale: float = 1.0) -> float:
    """C'': the first t from which the margin is at most half the Slater gap (a real number; inf if beyond 1e300)."""
    size = 4.0 * as_problem(problem).states * problem.actions * problem.horizon / as_confidence(delta)
    coefficient = as_float("margin_scale", margin_scale, low=0.0) * margin_coefficient(problem)

    def excess(log_t: float) -> float:
        margin: float = coefficient * math.exp(-log_t / 6.0) * (math.log(size) + log_t) ** 0.25
        return margin - 0.5 * problem.slater_gap

    low, high = 0.0, math.log(1e300)
    if excess(low) <= 0.0:
        return 1.0
    if excess(high) > 0.0:
        return math.inf
    while high - low > 1e-12 * high:  # the margin decreases in t wherever it exceeds half the gap
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return math.exp(high)
