"""Confidence sets as the loop-free family has them (Stradi, Castiglioni, Marchesi and Gatti).

A state of theirs is a pair (h, s), so |X| = H S and L = H. With n = max(N, 1), n' = max(N - 1, 1) and
u = log(8 m |X|^2 A T / delta):

    xi(s, a)      = min{1, sqrt(4 u / n)}                                    width of rewards and costs
    eps(s, a, s') = min{1, 2 sqrt(p^ u / n') + 14 u / (3 n')}                half-width of the box of transitions

g^ is a sum of costs over n, hence 0 where N = 0, and the optimistic cost g^ - xi is -1 there: nothing is clipped at the
natural range. In utility form that is a utility of 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.learners.programs.extended_kernels import extended_values, upper_occupancy
from flexdome.learners.programs.transition_sets import Estimates, TransitionSet, around

__all__ = ["LoopFreeSet", "check_constants", "occupancy_bound", "optimistic_value"]

LEAST_CONSTANT, LARGEST_CONSTANT = 1e-30, 1e30  # of a constant: products of three and their squares are still numbers


def check_constants(numbers: Mapping[str, float], positive: tuple[str, ...]) -> None:
    """Each of ``numbers`` is at most LARGEST_CONSTANT, and those called ``positive`` are at least LEAST_CONSTANT."""
    for name, value in numbers.items():
        if name in positive and value < LEAST_CONSTANT:
            raise ValidationError(f"{name} is {value!r}; it must be positive, and at least {LEAST_CONSTANT:g}")
        if value > LARGEST_CONSTANT:
            raise ValidationError(f"{name} is {value!r}; it must be at most {LARGEST_CONSTANT:g}")


class LoopFreeSet:
    """Widths for a problem, ``scale`` times the theory's where a cell was seen; elsewhere anything is possible."""

    def __init__(self, problem: Problem, episodes: int, delta: float, scale: float) -> None:
        X = problem.horizon * problem.states
        self.scale = scale
        self.log = math.log(8.0 * problem.constraints * X**2 * problem.actions * episodes / delta)

    def xi(self, est: Estimates) -> Float:
        """(1 + m, H, S, A)."""
        width = np.minimum(self.scale * np.sqrt(4.0 * self.log / est.n_f), 1.0)
        return est.width(np.where(est.samples > 0.0, width, 1.0))

    def optimistic(self, est: Estimates) -> Float:
        """(1 + m, H, S, A): r^ + xi, and the utilities 1 - (g^ - xi)."""
        xi = self.xi(est)
        return np.concatenate([est.f[:1] + xi[:1], 1.0 - (est.costs - xi[1:])])

    def transitions(self, est: Estimates) -> TransitionSet:
        """The box."""
        return around(est, self._eps(est))

    def _eps(self, est: Estimates) -> Float:
        if est.known_p:
            return np.zeros_like(est.p)
        fewer = np.maximum(est.n - 1.0, 1.0)[..., None]
        eps = 2.0 * np.sqrt(est.p * self.log / fewer) + 14.0 * self.log / (3.0 * fewer)
        return np.minimum(self.scale * eps, 1.0)

    def width(self, est: Estimates) -> Float:
        """(H, S, A): how far a mean, and with it H times the transitions, may be off."""
        H = est.n.shape[0]
        width: Float = self.xi(est).max(axis=0) + H * np.minimum(self._eps(est).sum(axis=-1), 2.0)
        return width


def occupancy_bound(transitions: TransitionSet, mu: Float, pi: Float, sign: float = 1.0) -> Float:
    """(H, S, A): the most (``sign`` 1) or least (-1) probability of each cell under ``pi`` in any model of the set."""
    out = np.zeros_like(pi)
    upper_occupancy(*transitions.arrays, mu, pi, sign, out)
    return out


def optimistic_value(transitions: TransitionSet, mu: Float, pi: Float, g: Float) -> float:
    """The largest value of ``g`` (H, S, A) under ``pi`` in any model of the set."""
    H, S, _ = g.shape
    q, v = np.zeros_like(g), np.zeros((H + 1, S))
    extended_values(*transitions.arrays, g, pi, 1.0, 1.0, q, v)
    return float(mu @ v[0])
