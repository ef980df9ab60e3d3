"""Thresholds that are sampled: an upper sequence for each, moved by one mean sample an episode.

What is declared of a law says which sequence: samples in [low, high] have an empirical Bernstein sequence
(:mod:`flexdome.certificates.kernels`) of high - x, samples that are sub-Gaussian Robbins' normal mixture.
"""

from typing import NamedTuple

import numpy as np

from flexdome.certificates.kernels import BOUND, COUNT, TOTAL, bernstein, mixture_width
from flexdome.kernels.jit import kernel

__all__ = ["Samples", "note_samples", "refused", "upper_bounds"]


class Samples(NamedTuple):
    """The m thresholds: what is known and declared of them, and the sequences of those that are sampled."""

    rows: np.ndarray  # (m, SIZE)
    known: np.ndarray  # (m,) NaN where sampled
    low: np.ndarray  # (m,) of a sample; not used where a scale is declared
    high: np.ndarray  # (m,)
    scale: np.ndarray  # (m,) NaN where samples lie in [low, high]
    level: float  # log(1 / a) of a sequence
    tuned: float  # rho of the normal mixture
    rounding: float  # of a mean sample, relative
    horizon: float  # H, the most that a threshold can be


@kernel
def refused(samples, means):
    """The threshold whose mean sample (m,) is outside of what was declared, or -1."""
    for i in range(means.size):
        low, high = samples.low[i], samples.high[i]
        slack = samples.rounding * max(abs(low), abs(high))
        inside = means[i] >= low - slack and means[i] <= high + slack
        if np.isnan(samples.known[i]) and np.isnan(samples.scale[i]) and not inside:
            return i
    return -1


@kernel
def note_samples(samples, means):
    """One more episode, whose samples have these means (m,), none of which is refused."""
    for i in range(means.size):
        if np.isnan(samples.known[i]):
            row = samples.rows[i]
            if np.isnan(samples.scale[i]):
                low, high = samples.low[i], samples.high[i]
                x = min(max(means[i], low), high)
                bernstein(row, 1.0 - (x - low) / (high - low), samples.level)
            else:
                row[COUNT] += 1.0
                row[TOTAL] += means[i]


@kernel
def upper_bounds(samples, alpha):
    """``alpha`` (m,): the thresholds that are known, and upper bounds on the others, H at first."""
    H = samples.horizon
    for i in range(alpha.size):
        alpha[i] = samples.known[i]
        if np.isnan(alpha[i]):
            row, alpha[i] = samples.rows[i], H
            if row[COUNT] > 0.0:
                if np.isnan(samples.scale[i]):
                    low, high = samples.low[i], samples.high[i]
                    alpha[i] = min(H, high - (high - low) * row[BOUND])
                else:
                    width = mixture_width(row[COUNT], samples.level, samples.scale[i], samples.tuned)
                    alpha[i] = min(H, row[TOTAL] / row[COUNT] + width)
