"""A bandit that the published recursion does not hold on.

One state, one step, two actions: r = (1, 0), d = (0, 1), threshold alpha, so Xi = 1 - alpha. With p the probability of
the first action the saddle point has p = 1 / (1 + exp(-(1 - lam) / tau)) and (1 - p) - eps - alpha + tau lam = 0: one
root. Its multiplier moves by about c t^(-7/6) an episode. Stand at the saddle point's policy with a multiplier t times
that move behind; then what the drift adds, t^(-4/3), in the end exceeds what a step may add, (eta^2 / 2)(H C + D) ~
t^(-5/3), and

    Phi_{t+1} > (1 - eta_t tau_t) Phi_t + (eta_t^2 / 2)(H C + D).

The proof of Lemma 1 uses nothing about (pi_t, lam_t) but that they are a policy and a multiplier in the box.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import as_float
from flexdome.theory import contraction, step_error

__all__ = ["Witness", "drift_witness"]


class Witness(NamedTuple):
    """Phi_t, Phi_{t+1}, the published bound on it, and the part of that bound that is not contraction."""

    before: float
    after: float
    bound: float
    error: float

    @property
    def excess(self) -> float:
        """By how much the recursion fails; negative where it holds."""
        return self.after - self.bound


def _saddle(tau: float, eps: float, alpha: float) -> tuple[float, float]:
    """p and lam, to the last bit that bisection gives."""

    def slack(lam: float) -> float:
        return 1.0 / (1.0 + math.exp((1.0 - lam) / tau)) - eps - alpha + tau * lam

    low, high = 0.0, 4.0 / (1.0 - alpha)
    if slack(low) >= 0.0:
        return 1.0 / (1.0 + math.exp(-1.0 / tau)), 0.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return 1.0 / (1.0 + math.exp(-(1.0 - middle) / tau)), middle
        low, high = (low, middle) if slack(middle) > 0.0 else (middle, high)


def _kl(p: float, q: float) -> float:
    """KL of two coins; by series where they are close, so that nothing cancels."""
    x = q - p
    if abs(x) < 1e-4 * min(p, 1.0 - p):
        second, third = 1.0 / p + 1.0 / (1.0 - p), -1.0 / p**2 + 1.0 / (1.0 - p) ** 2
        fourth = 1.0 / p**3 + 1.0 / (1.0 - p) ** 3
        return x * x * (second / 2.0 + x * third / 3.0 + x * x * fourth / 4.0)
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


def drift_witness(t: float, alpha: float = 0.1, margin: float = 0.0) -> Witness:
    """One step of the iteration from the pair above, with Theorem 1's schedules and ``margin`` t^(-1/6).

    float64 is enough up to about t = 1e10.

    >>> drift_witness(1e6).excess < 0.0 < drift_witness(1e8).excess
    True
    """
    t, alpha = as_float("t", t, 1.0, 1e12), as_float("alpha", alpha, 0.001, 0.999)
    margin = as_float("margin", margin, 0.0, 1e6)
    problem = Problem(states=1, actions=2, horizon=1, initial=0, thresholds=[alpha], slater_gap=1.0 - alpha)  # type: ignore[arg-type]
    eta, tau, next_tau = t ** (-5.0 / 6.0), t ** (-1.0 / 6.0), (t + 1.0) ** (-1.0 / 6.0)
    eps = margin * tau
    p, star = _saddle(tau, eps, alpha)
    next_p, next_star = _saddle(next_tau, margin * next_tau, alpha)
    lam = min(max(star - t * (next_star - star), 0.0), 4.0 / (1.0 - alpha))
    before = 0.5 * (star - lam) ** 2
    gain = eta * ((1.0 - tau * math.log(p)) - (lam - tau * math.log1p(-p)))  # of log odds
    after_p = 1.0 / (1.0 + math.exp(-(math.log(p) - math.log1p(-p) + gain)))
    after_lam = min(max((1.0 - eta * tau) * lam - eta * ((1.0 - p) - eps - alpha), 0.0), 4.0 / (1.0 - alpha))
    after = _kl(next_p, after_p) + 0.5 * (next_star - after_lam) ** 2
    error = step_error(problem, eta, tau)
    return Witness(before, after, contraction(before, eta, tau, error), error)
