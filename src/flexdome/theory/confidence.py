"""How far estimates may be from the truth (Zuo et al. 2026, appendices A and D).

Each statement holds with probability 1 - delta over a whole run of T episodes; delta' = delta / 4. The bonuses
themselves, from L_r and L_p, are in :mod:`flexdome.theory.constants`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import LARGEST_SIZE, as_float, as_int
from flexdome.theory.constants import LONGEST, as_confidence, bonus_logs, error_constant
from flexdome.theory.schedules import LARGEST

__all__ = [
    "EstimationBounds",
    "corrected_error_constant",
    "discrepancy_bound",
    "discrepancy_bound_complete",
    "estimation_bounds",
    "threshold_width",
    "uniform_threshold_width",
    "visit_bound",
]


class EstimationBounds(NamedTuple):
    """Bounds on the sum over episodes of V^ - V, for the reward, one utility, and the entropy."""

    reward: float
    utility: float
    entropy: float


def threshold_width(horizon: int, episodes: int, delta: float) -> float:
    """zeta = sqrt(H log(2 / delta) / (2 t)): how far the mean of t H samples in [0, H] is from alpha.

    Lemma "Concentration of empirical thresholds", for one t; samples independent across steps. With one draw an
    episode, repeated H times, there are t samples in place of t H and the width is sqrt(H) times as large.
    """
    H, t = as_int("horizon", horizon, 1, LARGEST_SIZE), as_int("episodes", episodes, 1, LONGEST)
    return math.sqrt(H * math.log(2.0 / as_confidence(delta)) / (2.0 * t))


def uniform_threshold_width(problem: Problem, episodes: int, planned: int, delta: float) -> float:
    """zeta^{t+1} = sqrt(H log(2 m T / delta) / (2 t)), for all constraints and t <= T at once.

    Lemma "Union bound for empirical thresholds"; ``episodes`` is t, ``planned`` is T.
    """
    H, m = as_problem(problem).horizon, problem.constraints
    t, T = as_int("episodes", episodes, 1, LONGEST), as_int("planned", planned, 1, LONGEST)
    return math.sqrt(H * (math.log(2.0 * m * T) - math.log(as_confidence(delta))) / (2.0 * t))


def visit_bound(problem: Problem, episodes: int, delta: float) -> float:
    """6 H S A + 2 H sqrt(S A T') + 2 H S A log T' + 5 log(2 H T' / delta).

    Bounds the sum over T' episodes and H steps of E[1 / sqrt(max(N, 1))] (proof of Lemma "Bound on the estimation
    error", after Liu et al. 2021).
    """
    S, A, H = as_problem(problem).states, problem.actions, problem.horizon
    T = as_int("episodes", episodes, 1, LONGEST)
    last = 5.0 * (math.log(2.0 * H * T) - math.log(as_confidence(delta)))
    return 6.0 * H * S * A + 2.0 * H * math.sqrt(S * A * T) + 2.0 * H * S * A * math.log(T) + last


def estimation_bounds(problem: Problem, episodes: int, planned: int, delta: float) -> EstimationBounds:
    """Lemma "Bound on the estimation error", with G(T') the bound on visits of :func:`visit_bound`.

        reward, utility:  (2 sqrt(L_r) + 2 H sqrt(L_p)) G(T')
        entropy:          2 H log(A) sqrt(L_p) G(T')

    L_r and L_p have T, ``planned``; T' is ``episodes``.
    """
    L_r, L_p = bonus_logs(problem, as_int("planned", planned, 1, LONGEST), delta)
    visits, H = visit_bound(problem, episodes, delta), problem.horizon
    mean = (2.0 * math.sqrt(L_r) + 2.0 * H * math.sqrt(L_p)) * visits
    return EstimationBounds(mean, mean, 2.0 * H * math.log(problem.actions) * math.sqrt(L_p) * visits)


def corrected_error_constant(problem: Problem, tau: float = 1.0) -> float:
    """C_B with the entropy part of the estimation error, which the published constant leaves out.

    The proof of Lemma "Bound on cumulative estimation discrepancies" bounds reward (A), utilities (B), entropy (C) and
    thresholds (D), and adds up A, B and D alone. Lemma "Bound on the estimation error" gives for the entropy, with
    max_t tau_t = ``tau``,

        (C) <= tau 4 H^2 log(A) sqrt(2 S A) (sqrt(S) + 1) sqrt(T' log(S A H T / delta'))

    to leading order: with a factor log A, where the proof has none.
    """
    S, A, H = as_problem(problem).states, problem.actions, problem.horizon
    entropy = 4.0 * H**2 * math.log(A) * math.sqrt(2.0 * S * A) * (math.sqrt(S) + 1.0)
    return error_constant(problem) + as_float("tau", tau, 0.0, LARGEST) * entropy


def discrepancy_bound(problem: Problem, episodes: int, planned: int, delta: float) -> float:
    """C_B sqrt(T' log(S A H T / delta')): the leading term of Lemma "Bound on cumulative estimation discrepancies".

    The lemma adds O~(S^(3/2) A H^2), which it does not spell out; :func:`discrepancy_bound_complete` does.
    """
    size = as_problem(problem).states * problem.actions * problem.horizon
    T, planned = as_int("episodes", episodes, 1, LONGEST), as_int("planned", planned, 1, LONGEST)
    return error_constant(problem) * math.sqrt(T * (math.log(4.0 * size * planned) - math.log(as_confidence(delta))))


def discrepancy_bound_complete(problem: Problem, episodes: int, planned: int, delta: float, tau: float = 1.0) -> float:
    """The same sum with nothing hidden and nothing dropped.

    With E_r, E_d, E_psi of :func:`estimation_bounds`,

        sum_{t <= T'} delta_t <= E_r + (8 m H / Xi) E_d + tau E_psi + (4 m H / Xi) sqrt(2 H log(2 m T / delta) T').
    """
    bounds, tau = estimation_bounds(problem, episodes, planned, delta), as_float("tau", tau, 0.0, LARGEST)
    H, m, gap = problem.horizon, problem.constraints, problem.slater_gap
    thresholds = 2.0 * episodes * uniform_threshold_width(problem, episodes, planned, delta)  # sum of zeta_t
    ratio = 4.0 * m * H / gap
    return bounds.reward + 2.0 * ratio * bounds.utility + tau * bounds.entropy + ratio * thresholds
