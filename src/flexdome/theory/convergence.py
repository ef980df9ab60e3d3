"""Lemma 1: how the potential contracts (Zuo et al. 2026, Section 4.3, appendices D to F).

    Phi_{t+1} <= (1 - eta_t tau_t) Phi_t + (eta_t^2 / 2)(H C_t + D_t) + eta_t delta_t

C_t bounds the primal step, D_t the dual one. C_t is an exponential: at the paper's size its exponent at t = 1 is about
53, and a Slater gap of 0.1 makes it 1,000, which no float64 holds; so there is its logarithm too.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import LARGEST_SIZE, Float, as_array, as_float, as_int, check_range
from flexdome.errors import ValidationError
from flexdome.theory.schedules import LARGEST

__all__ = [
    "composite_bound",
    "contraction",
    "convergence_bound",
    "dual_constant",
    "dual_side",
    "entropy_to_go_bound",
    "initial_potential_bound",
    "log_primal_constant",
    "primal_constant",
    "q_bound",
    "step_error",
]

OVERFLOW = 709.0  # exp of more is no float64


def dual_side(problem: Problem) -> float:
    """4 H / Xi: the side of the dual box C (Section 3.1)."""
    return 4.0 * as_problem(problem).horizon / problem.slater_gap


def composite_bound(problem: Problem, tau: float) -> float:
    """C_0 = H (1 + 4 m H / Xi + tau log A), the part of the Q-value bound that no policy changes."""
    H, m = as_problem(problem).horizon, problem.constraints
    return H * (1.0 + m * dual_side(problem) + as_float("tau", tau, 0.0, LARGEST) * math.log(problem.actions))


def entropy_to_go_bound(horizon: int, actions: int, probability: npt.ArrayLike) -> Float:
    """H log A - log pi_h(a | s), a bound on E[sum_{h' >= h} -log pi_h'(a_h' | s_h') | s, a] (Lemma of Mueller et al.).

    Shape of ``probability``; infinite where it is 0.
    """
    H, A = as_int("horizon", horizon, 1, LARGEST_SIZE), as_int("actions", actions, 1, LARGEST_SIZE)
    p, _ = as_array("probability", probability)
    check_range("probability", p, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        bound: Float = H * math.log(A) - np.log(p)
    return bound


def q_bound(problem: Problem, tau: float, probability: npt.ArrayLike) -> Float:
    """C_0 - tau log pi_h(a | s): Q of r + lam d + tau psi lies between 0 and this (Lemma "Q-value function bounds").

    The lemma after it says the same of the truncated estimate Q^.
    """
    p, _ = as_array("probability", probability)
    check_range("probability", p, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        bound: Float = composite_bound(problem, tau) - xlogy(tau, p)
    return bound


def log_primal_constant(problem: Problem, eta: float, tau: float) -> float:
    """The logarithm of C.

        C = exp(eta C_0) (2 A^(eta tau) C_0^2 + 128 tau^2 sqrt(A) / e^2)

    which bounds sum_a pi(a | s) exp(eta Q) Q^2 (Lemma "Q-value function bounds"). Its proof needs eta tau <= 1/2.
    """
    A = as_problem(problem).actions
    eta, tau = as_float("eta", eta, 0.0, LARGEST), as_float("tau", tau, 0.0, LARGEST)
    base = composite_bound(problem, tau)
    first = math.log(2.0) + eta * tau * math.log(A) + 2.0 * math.log(base)
    second = 128.0 * tau**2 * math.sqrt(A) / math.e**2
    return eta * base + (float(np.logaddexp(first, math.log(second))) if second > 0.0 else first)


def primal_constant(problem: Problem, eta: float, tau: float) -> float:
    """C of :func:`log_primal_constant`; infinite where no float64 holds it."""
    log = log_primal_constant(problem, eta, tau)
    return math.exp(log) if log < OVERFLOW else math.inf


def dual_constant(problem: Problem, tau: float, margin: float | None = None) -> float:
    """D = m (H + 4 tau H / Xi)^2, which bounds |V_d - eps - alpha + tau lam|^2 (Lemma 1).

    It takes |V_d - eps - alpha| <= H, which is so while eps <= alpha + H - V_d at most: not with the theorem's own
    margin, thousands of H at first. ``margin`` given, the bound that is true of it: m (H + margin + 4 tau H / Xi)^2.
    """
    H, m = as_problem(problem).horizon, problem.constraints
    more = 0.0 if margin is None else as_float("margin", margin, 0.0, LARGEST)
    return float(m * (H + more + as_float("tau", tau, 0.0, LARGEST) * dual_side(problem)) ** 2)


def step_error(problem: Problem, eta: float, tau: float, margin: float | None = None) -> float:
    """(eta^2 / 2)(H C + D): what one step may add to the potential, the estimates being exact."""
    dual, eta = dual_constant(problem, tau, margin), as_float("eta", eta, 0.0, LARGEST)
    error = problem.horizon * primal_constant(problem, eta, tau) + dual
    return 0.5 * eta**2 * error


def initial_potential_bound(problem: Problem) -> float:
    """Phi_1 <= H log A + (m / 2)(4 H / Xi)^2, from the uniform policy and lam = 0; C' is sqrt(2 Phi_1)'s bound.

    Appendix F writes the square root of this for Phi_1 itself: a slip, the root belongs to sqrt(Phi_1).
    """
    H, m = as_problem(problem).horizon, problem.constraints
    return H * math.log(problem.actions) + 0.5 * m * dual_side(problem) ** 2


def contraction(phi: float, eta: float, tau: float, error: float, delta: float = 0.0) -> float:
    """(1 - eta tau) phi + error + eta delta: the one-step bound on the next potential (appendix E, before (12))."""
    phi, eta, tau = as_float("phi", phi), as_float("eta", eta, 0.0, LARGEST), as_float("tau", tau, 0.0, LARGEST)
    delta = as_float("delta", delta)
    if not (isinstance(error, float) and error == math.inf):  # where no float64 holds C
        error = as_float("error", error)
    return (1.0 - eta * tau) * phi + error + eta * delta


def convergence_bound(
    phi: float, eta: npt.ArrayLike, tau: npt.ArrayLike, error: npt.ArrayLike, delta: npt.ArrayLike | None = None
) -> Float:
    """Lemma 1's right-hand side for Phi_2, ..., Phi_{n+1}, with the exponentials it is stated with.

        exp(-sum_j eta_j tau_j) Phi_1 + sum_j (error_j + eta_j delta_j) exp(-sum_{k > j} eta_k tau_k).

    Parameters
    ----------
    phi : Phi_1
    eta, tau : (n,)
    error : (n,) the errors of the steps, each with its own C, infinite where no float64 holds it; the published lemma
        has C_n, the last and least, in all
    delta : (n,) the estimation errors, None for a known model
    """
    eta_, tau_, error_ = as_array("eta", eta)[0], as_array("tau", tau)[0], as_array("error", error, finite=False)[0]
    given = np.zeros_like(eta_) if delta is None else as_array("delta", delta)[0]
    shapes = {array.shape for array in (eta_, tau_, error_, given)}
    if len(shapes) != 1 or eta_.ndim != 1:
        raise ValidationError(f"eta, tau, error and delta have shapes {sorted(shapes)}; they must all be (n,)")
    decay, added = np.exp(-eta_ * tau_), error_ + eta_ * given
    bound, total = np.empty_like(eta_), as_float("phi", phi)
    for j in range(eta_.size):
        total = decay[j] * total + added[j]
        bound[j] = total
    return bound
