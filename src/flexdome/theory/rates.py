"""How fast the error terms of Theorem 1 decay (Zuo et al. 2026, Section 4.4 and appendix D), as numbers.

With eta_t = t^(-5/6) and tau_t = t^(-1/6), eta_t tau_t = 1/t, and exp(-sum_{k=j+1}^t 1/k) is a ratio of exponentials of
harmonic numbers: everything here can be had for t = 10^27 as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import Float, as_array, as_float, as_int, check_range, shown
from flexdome.errors import ValidationError
from flexdome.theory.constants import LONGEST
from flexdome.theory.convergence import dual_constant, log_primal_constant
from flexdome.theory.schedules import LARGEST

__all__ = [
    "OPTIMISATION_CONSTANT",
    "dominance_start",
    "harmonic",
    "initial_decay",
    "log_optimisation_coefficient",
    "optimisation_sums",
    "recursive_sum",
    "recursive_sum_limit",
    "step_weights",
]

OPTIMISATION_CONSTANT = 7.0 * 2.0 ** (2.0 / 3.0)
"""K_X: sum_{j <= t} eta_j^2 exp(-sum_{k > j} eta_k tau_k) <= K_X t^(-2/3) (Lemma "Bound on the optimisation error")."""


def harmonic(t: npt.ArrayLike) -> Float:
    """1 + 1/2 + ... + 1/t."""
    n, _ = as_array("t", t)
    total: Float = digamma(n + 1.0) + np.euler_gamma
    return total


def initial_decay(t: npt.ArrayLike) -> Float:
    """exp(-sum_{j <= t} eta_j tau_j / 2) = exp(-H_t / 2), Theta(t^(-1/2)) (Lemma "init decay").

    t^(1/2) times it rises from exp(-1/2) = 0.607 at t = 1 to exp(-gamma / 2) = 0.749.
    """
    decay: Float = np.exp(-0.5 * harmonic(t))
    return decay


def _schedules(eta: npt.ArrayLike, tau: npt.ArrayLike) -> tuple[Float, Float]:
    """Both as (n,), of numbers that a step and a weight may have."""
    eta_, tau_ = as_array("eta", eta)[0], as_array("tau", tau)[0]
    if eta_.ndim != 1 or eta_.shape != tau_.shape:
        raise ValidationError(f"eta and tau have shapes {eta_.shape} and {tau_.shape}; they must both be (n,)")
    check_range("eta", eta_, 0.0, LARGEST)
    check_range("tau", tau_, 0.0, LARGEST)
    return eta_, tau_


def optimisation_sums(eta: npt.ArrayLike, tau: npt.ArrayLike) -> Float:
    """X_t = sum_{j <= t} eta_j^2 exp(-sum_{k=j+1}^t eta_k tau_k) for t = 1, ..., n (Lemma "bound b and c").

    With Theorem 1's schedules t^(2/3) X_t tends to 3; the proof's constant is 7 2^(2/3) = 11.1.
    """
    eta_, tau_ = _schedules(eta, tau)
    decay, sums, total = np.exp(-eta_ * tau_), np.empty_like(eta_), 0.0
    for j in range(eta_.size):
        total = decay[j] * total + eta_[j] ** 2
        sums[j] = total
    return sums


def log_optimisation_coefficient(problem: Problem, eta: float = 1.0, tau: float = 1.0) -> float:
    """log K, K = 3 sqrt(7) 2^(-2/3) H^(3/2) sqrt(H C + D): term (b) of Theorem 1 is at most K T^(2/3).

    C and D at ``eta``, ``tau``: the proof takes both 1, the first episode's.
    """
    H = as_problem(problem).horizon
    log_hc = math.log(H) + log_primal_constant(problem, eta, tau)
    log_sum = float(np.logaddexp(log_hc, math.log(dual_constant(problem, tau))))
    return math.log(3.0 * math.sqrt(7.0) / 2.0 ** (2.0 / 3.0)) + 1.5 * math.log(H) + 0.5 * log_sum


def step_weights(eta: npt.ArrayLike, tau: npt.ArrayLike) -> Float:
    """f_{t,j} = eta_j exp(-sum_{k=j+1}^t eta_k tau_k) for j = 1, ..., t = n (Lemma "Bound on the statistical error").

    The proof sums by parts because "the ratio f_{t,j+1} / f_{t,j} is greater than 1 for all j"; with Theorem 1's
    schedules it is (j / (j+1))^(5/6) exp(1 / (j+1)), 0.925 at j = 1 and 0.995 at j = 2, and above 1 from j = 3 on.
    """
    eta_, tau_ = _schedules(eta, tau)
    product = eta_ * tau_
    after = np.append(np.cumsum(product[:0:-1])[::-1], 0.0)
    weights: Float = eta_ * np.exp(-after)
    return weights


def recursive_sum(eta: float, tau: float, t: int) -> float:
    """sum_{j <= t} eta^2 exp(-(t - j) eta tau) = eta^2 (1 - e^(-t eta tau)) / (1 - e^(-eta tau)).

    Lemma "Asymptotic bound on the recursive error sum", for constant schedules.
    """
    eta, tau = as_float("eta", eta, 0.0, LARGEST), as_float("tau", tau, 0.0, LARGEST)
    t = as_int("t", t, 1, LONGEST)
    product = eta * tau
    if product == 0.0:
        return t * eta**2
    return eta**2 * math.expm1(-t * product) / math.expm1(-product)


def recursive_sum_limit(eta: float, tau: float) -> float:
    """Its limit for t to infinity, eta^2 / (1 - e^(-eta tau)): eta / tau to first order, epsilon^2 in Theorem 2."""
    eta = as_float("eta", eta, 0.0, LARGEST)
    product = eta * as_float("tau", tau, 0.0, LARGEST)
    if product == 0.0:
        raise ValidationError(f"eta * tau is {product:g}; without contraction the sum grows for ever")
    return -(eta**2) / math.expm1(-product)


def dominance_start(error: Callable[[float], float], margin: Callable[[float], float], log_end: float = 690.0) -> float:
    """log t_0: from which t on ``error`` stays below ``margin`` (Lemma "limit comparison"), both as log of log t.

    Parameters
    ----------
    error, margin : log A and log B as functions of log t, A/B falling (so that one crossing is all there is)
    log_end : where the search ends; infinity comes back where the error is still above

    Returns
    -------
    0 where it is below from the first episode on
    """
    for name, function in (("error", error), ("margin", margin)):
        if not callable(function):
            raise ValidationError(f"{name} is {shown(function)}; it must be a function of log t")
    low, high = 0.0, as_float("log_end", log_end, 0.0)
    if error(low) <= margin(low):
        return 0.0
    if error(high) > margin(high):
        return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if error(middle) > margin(middle) else (low, middle)
    return high
