"""Estimates and confidence sets of the transitions.

With n = max(N, 1) visits of a cell, p^ the empirical transitions and L a logarithm (Efroni, Mannor and Pirotta 2020):

* Bernstein: a box, |q(s') - p^(s')| <= 2 sqrt(p^ (1 - p^) L / n) + (14/3) L / n for every s';
* L1: a ball, |q - p^|_1 <= sqrt(14 S L / n) (Jaksch, Ortner and Auer 2010).

Where N = 0 every distribution is possible. What the problem reveals (rewards, utilities, transitions) is not estimated
and has width 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.learners.seen.dense import Dense

__all__ = ["Estimates", "TransitionSet", "around", "bernstein", "estimates", "l1_ball"]

NO_RADIUS: Float = np.zeros(0)


@dataclass(frozen=True)
class Estimates:
    """Empirical means: ``p`` (H, S, A, S) with rows of zeros where N = 0, ``f`` (1 + m, H, S, A), n = max(N, 1).

    ``samples`` (1 + m, H, S, A) is N less the samples that were missing, and ``n_f`` at least 1. ``costs`` is (m, H, S,
    A), the empirical mean of 1 - d: 0, not 1, where there is no sample. ``seen`` says where something is known of the
    transitions; ``known_f`` (1 + m,) and ``known_p`` what the problem reveals.
    """

    visits: Float
    samples: Float
    n: Float
    n_f: Float
    p: Float
    f: Float
    costs: Float
    seen: npt.NDArray[np.bool_]
    known_f: npt.NDArray[np.bool_]
    known_p: bool

    @property
    def unsampled(self) -> npt.NDArray[np.bool_]:
        """(1 + m, H, S, A): where nothing is known of a mean."""
        where: npt.NDArray[np.bool_] = ~self.known_f[:, None, None, None] & (self.samples == 0.0)
        return where

    def width(self, width: Float) -> Float:
        """(1 + m, H, S, A): the width of each mean, 0 for those that are known."""
        return np.where(self.known_f[:, None, None, None], 0.0, width)


def estimates(problem: Problem, counted: Dense) -> Estimates:
    """What the counts say, with shares of what followed."""
    visits, sums = counted.visits, counted.sums
    n = np.maximum(visits, 1.0)
    seen = visits > 0.0
    samples = counted.samples
    n_f = np.maximum(samples, 1.0)
    f = sums / n_f
    costs = np.maximum(samples[1:] - sums[1:], 0.0) / n_f[1:]
    known = np.zeros(f.shape[0], dtype=bool)
    if problem.rewards is not None:
        f[0], known[0] = problem.rewards, True
    if problem.utilities is not None:
        f[1:], known[1:], costs = problem.utilities, True, 1.0 - problem.utilities
    if problem.transitions is not None:
        p = np.array(problem.transitions, order="C")
        return Estimates(visits, samples, n, n_f, p, f, costs, np.ones_like(seen), known, True)
    return Estimates(visits, samples, n, n_f, counted.following, f, costs, seen, known, False)


def bernstein(est: Estimates, log: float, *, factor: float = 2.0, rest: float = 14.0 / 3.0) -> Float:
    """(H, S, A, S): ``factor`` sqrt(p^ (1 - p^) L / n) + ``rest`` L / n, 0 where the transitions are known."""
    if est.known_p:
        return np.zeros_like(est.p)
    n = est.n[..., None]
    beta: Float = factor * np.sqrt(est.p * (1.0 - est.p) * log / n) + rest * log / n
    return beta


@dataclass(frozen=True)
class TransitionSet:
    """For each of the H S A rows a box ``lo <= q <= up``, or where ``radius`` has a size the L1 ball around ``lo``."""

    lo: Float
    up: Float
    spare: Float
    radius: Float

    @property
    def arrays(self) -> tuple[Float, Float, Float, Float]:
        """As the kernels take them."""
        return self.lo, self.up, self.spare, self.radius


def around(est: Estimates, beta: Float) -> TransitionSet:
    """The box of half-width ``beta`` (H, S, A, S) around the estimate; everything where a cell was never seen."""
    S = est.p.shape[3]
    seen = est.seen[..., None]
    lo = np.where(seen, np.maximum(est.p - beta, 0.0), 0.0).reshape(-1, S)
    up = np.where(seen, np.minimum(est.p + beta, 1.0), 1.0).reshape(-1, S)
    return TransitionSet(lo, up, 1.0 - lo.sum(axis=1), NO_RADIUS)


def l1_ball(est: Estimates, log: float, scale: float = 1.0) -> TransitionSet:
    """The ball of radius ``scale`` sqrt(14 S L / n) around the estimate; everything where a cell was never seen."""
    S = est.p.shape[3]
    radius = np.zeros_like(est.n) if est.known_p else scale * np.sqrt(14.0 * S * log / est.n)
    centre = np.where(est.seen[..., None], est.p, 1.0 / S).reshape(-1, S)
    radius = np.minimum(np.where(est.seen, radius, 2.0), 2.0).ravel()
    return TransitionSet(centre, np.ones_like(centre), np.zeros(centre.shape[0]), radius)
