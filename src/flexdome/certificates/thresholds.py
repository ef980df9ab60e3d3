"""Bounds on thresholds that are only sampled.

A threshold alpha_i is the mean of its samples' law, and lies in [0, H]; a single sample may be any number. Without a
word about that law no number of samples says anything about the mean, so one of two things must be declared:

- ``threshold_range``: every sample lies in [low, high]. The mean is bounded by betting, as utilities are;
- ``threshold_scale``: samples are sub-Gaussian of that scale (a normal law: its standard deviation). The mean is
  bounded by Robbins' normal mixture (:func:`flexdome.certificates.kernels.mixture_width`).

The samples of an episode count as one observation, their mean, so that it does not matter whether the steps of an
episode have a sample each or share one. Whatever policy is played, the samples have the same law: their bounds hold for
every policy at once, also for one that was chosen from the same episodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.certificates import kernels
from flexdome.certificates.sequences import betting_lower
from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import Float, as_array
from flexdome.errors import ValidationError

__all__ = ["ROUNDING", "TUNED", "Laws", "as_laws", "declared_numbers"]

ROUNDING = 1e-12  # relative: the mean of samples that are all the same is not quite the same
TUNED = 50.0  # rho of the normal mixture: widths are smallest after a few hundred episodes
HOW = "pass threshold_range=(low, high) if samples lie in an interval, or threshold_scale if they are sub-Gaussian"


@dataclass(frozen=True)
class Laws:
    """What is declared of the m thresholds.

    Attributes
    ----------
    known : (m,) NaN where sampled
    low, high : (m,) of the samples, NaN where not declared
    scale : (m,) NaN where not declared
    horizon : H, the most that a threshold can be
    """

    known: Float
    low: Float
    high: Float
    scale: Float
    horizon: float

    @property
    def sampled(self) -> npt.NDArray[np.bool_]:
        """(m,) which are sampled, and enough is declared of."""
        declared: npt.NDArray[np.bool_] = np.isnan(self.known) & ~(np.isnan(self.low) & np.isnan(self.scale))
        return declared

    @property
    def silent(self) -> npt.NDArray[np.bool_]:
        """(m,) which are sampled, and nothing is declared of."""
        return np.isnan(self.known) & ~self.sampled

    @property
    def shares(self) -> int:
        """How many one-sided bounds are needed."""
        return 2 * int(self.sampled.sum())

    def bounds(self, samples: Float, share: float) -> tuple[Float, Float]:
        """(m,) lower and (m,) upper bounds from ``samples`` (n, m), each wrong with probability ``share`` at most."""
        lower, upper = self._trivial()
        for i in np.flatnonzero(self.sampled):
            if np.isnan(self.scale[i]):
                low, high = self.low[i], self.high[i]
                unit = (self.checked(samples[:, i], int(i)) - low) / (high - low)
                below, above = (betting_lower(side, share) for side in (unit, 1.0 - unit))
                self._put(lower, upper, int(i), low + (high - low) * below, high - (high - low) * above)
            elif samples.shape[0]:
                self._sum(lower, upper, int(i), float(samples[:, i].sum()), samples.shape[0], self.scale[i], share)
        return lower, upper

    def bounds_from_sums(self, sums: Float, counts: Float, share: float) -> tuple[Float, Float]:
        """The same from (m,) sums over (m,) episodes: samples in [low, high] are sub-Gaussian of half that width."""
        lower, upper = self._trivial()
        for i in np.flatnonzero(self.sampled & (counts > 0.0)):
            scale = 0.5 * (self.high[i] - self.low[i]) if np.isnan(self.scale[i]) else self.scale[i]
            self._sum(lower, upper, int(i), float(sums[i]), float(counts[i]), scale, share)
        return lower, upper

    def checked(self, samples: Float, i: int) -> Float:
        """Samples of threshold i, which lie in the range that was declared, but for the rounding of their means."""
        low, high = self.low[i], self.high[i]
        slack = ROUNDING * max(abs(low), abs(high))
        bad = ~((samples >= low - slack) & (samples <= high + slack))
        if bad.any():
            k = int(np.argmax(bad))
            raise self.outside(float(samples[k]), k, i)
        return np.clip(samples, low, high)

    def outside(self, sample: float, k: int, i: int) -> ValidationError:
        """The error for the k-th sample of threshold i, which is not in the range that was declared."""
        return ValidationError(
            f"thresholds[{k}, {i}] is {sample!r}; threshold_range says that samples lie in "
            f"[{self.low[i]:g}, {self.high[i]:g}]"
        )

    def _trivial(self) -> tuple[Float, Float]:
        return np.where(np.isnan(self.known), 0.0, self.known), np.where(np.isnan(self.known), self.horizon, self.known)

    def _sum(self, lower: Float, upper: Float, i: int, total: float, n: float, scale: float, share: float) -> None:
        width = kernels.mixture_width(n, -math.log(2.0 * share), scale, TUNED)  # both sides at once
        self._put(lower, upper, i, total / n - width, total / n + width)

    def _put(self, lower: Float, upper: Float, i: int, low: float, high: float) -> None:
        lower[i], upper[i] = max(lower[i], low), min(upper[i], high)


def declared_numbers(given: Any) -> Any:
    """What is declared, with NaN for None: of that threshold, or of all, nothing is declared."""
    if not isinstance(given, (list, tuple)):
        return np.nan if given is None else given
    rows = [list(one) if isinstance(one, (list, tuple)) else one for one in given]
    nothing = [np.nan, np.nan] if any(isinstance(row, (list, np.ndarray)) for row in rows) else np.nan
    rows = [nothing if row is None else row for row in rows]
    return [[np.nan if one is None else one for one in row] if isinstance(row, list) else row for row in rows]


def as_laws(problem: Problem, threshold_range: Any, threshold_scale: Any) -> Laws:
    """What is declared of the thresholds, checked; an entry that is None, or NaN, declares nothing of its threshold."""
    m = as_problem(problem).constraints
    low, high, scale = (np.full(m, np.nan) for _ in range(3))
    unknown = np.isnan(problem.thresholds)
    if threshold_range is not None:
        pairs, _ = as_array("threshold_range", declared_numbers(threshold_range), finite=False)
        if pairs.shape not in ((2,), (m, 2)):
            raise ValidationError(f"threshold_range has shape {pairs.shape}; it must be (low, high), or (m, 2)")
        low[:], high[:] = pairs.T if pairs.ndim == 1 else (pairs[:, 0], pairs[:, 1])
        low[~unknown] = high[~unknown] = np.nan
        for i in np.flatnonzero(~np.isnan(low) | ~np.isnan(high)):
            if not (np.isfinite(low[i]) and np.isfinite(high[i]) and low[i] < high[i]):
                raise ValidationError(
                    f"threshold_range of threshold {i} is ({low[i]:g}, {high[i]:g}); low must be less than high"
                )
    if threshold_scale is not None:
        given, _ = as_array("threshold_scale", declared_numbers(threshold_scale), finite=False)
        if given.shape not in ((), (m,)):
            raise ValidationError(f"threshold_scale has shape {given.shape}; it must be a number, or (m,)")
        scale[:] = given
        scale[~unknown] = np.nan
        bad = ~np.isnan(scale) & ~((scale >= 0.0) & np.isfinite(scale))
        if bad.any():
            at = int(np.argmax(bad))
            raise ValidationError(
                f"threshold_scale of threshold {at} is {scale[at]:g}; it must be finite and not negative"
            )
    return Laws(np.array(problem.thresholds), low, high, scale, float(problem.horizon))
