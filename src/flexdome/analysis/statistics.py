"""How sure the numbers are: errors, bootstrap intervals, growth exponents.

Intervals are percentile intervals of a bootstrap with its own seed: the same data give the same interval. They are
written out here because ``scipy.stats.bootstrap`` knows no strata, and its bias-corrected default divides by zero on a
handful of runs that agree. With five seeds they are short of their nominal level, as every bootstrap is; the number of
runs stands beside each of them, and below six :func:`of_few_runs` says what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from flexdome.cmdp.validation import (
    LARGEST,
    Float,
    as_array,
    as_float,
    as_int,
    as_items,
    check_range,
    check_room,
    shown,
)
from flexdome.errors import FlexDOMEError, ValidationError

__all__ = [
    "ENOUGH",
    "Exponent",
    "Interval",
    "bootstrap_interval",
    "exponent_episodes",
    "exponent_of_samples",
    "growth_exponent",
    "iqm",
    "mean_and_error",
    "of_few_runs",
]

RESAMPLES, MOST_RESAMPLES = 2_000, 10**8
LEVEL = 0.95
ENOUGH = 6  # runs: from the least to the largest of fewer, a median is covered in less than 95 % of cases
POINTS = 50  # of an exponent's fit
FEWEST = 10  # of them that must be positive


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Exponent:
    """The slope of log cumulative over log t, its interval, and how many of the 50 points were positive.

    ``low`` and ``high`` are None where there is one seed only.
    """

    value: float
    low: float | None
    high: float | None
    points: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def mean_and_error(values: npt.ArrayLike, axis: int = 0) -> tuple[Float, Float]:
    """Mean and standard error (sample standard deviation over root n); the error of one value is NaN: unknown.

    >>> mean, error = mean_and_error([1.0, 2.0, 3.0])
    >>> round(float(mean), 3), round(float(error), 3)
    (2.0, 0.577)
    """
    array, axis = _samples(values, axis)
    count = array.shape[axis]
    mean: Float = np.asarray(array.mean(axis=axis))
    if count == 1:
        return mean, np.full_like(mean, np.nan)
    return mean, np.asarray(array.std(axis=axis, ddof=1) / np.sqrt(count))


def iqm(values: npt.ArrayLike, axis: int = 0) -> Float:
    """Interquartile mean: the mean without the lowest and the highest quarter (rounded down).

    >>> float(iqm([0.0, 1.0, 2.0, 3.0, 1000.0]))
    2.0
    """
    array, axis = _samples(values, axis)
    result: Float = np.asarray(stats.trim_mean(array, 0.25, axis=axis))
    return result


def bootstrap_interval(
    values: npt.ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    strata: Sequence[Any] | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Percentile bootstrap of ``statistic(values, axis=-1)``; None for a single value.

    Parameters
    ----------
    values : (n,)
    strata : n labels; each stratum is resampled by itself, so that every resample has as many of each as the data
    level, resamples, seed : coverage, size and seed of the bootstrap

    >>> bootstrap_interval([1.0, 1.0, 1.0])
    Interval(low=1.0, high=1.0)
    """
    data = _numbers("values", values)
    if data.ndim != 1 or data.size == 0:
        raise ValidationError(f"values has shape {data.shape}; it must be (n,) with n > 0")
    level = _as_level(level)
    picked = _resampled(data.size, strata, resamples, seed)
    if data.size == 1:
        return None
    try:
        replicates = statistic(data[picked], axis=-1)
    except FlexDOMEError:
        raise
    except Exception as error:  # whatever a foreign function raises
        raise ValidationError(f"statistic fails on an array {picked.shape}: {type(error).__name__}: {error}") from error
    found = _numbers("statistic", replicates)
    if found.shape != picked.shape[:1]:
        raise ValidationError(f"statistic gives the shape {found.shape}; it must be {picked.shape[:1]}")
    return _percentiles(found, level)


def of_few_runs(counts: Iterable[int]) -> str:
    """What intervals over so few runs are worth, in a sentence; empty where no count lies between 2 and 5.

    No percentile bootstrap of a mean goes beyond the least and the largest of n values, and n values miss a median on
    one side with probability 2^(1-n).

    >>> of_few_runs([3, 20])[:61]
    'With 3 runs an interval goes at most from the least to the la'
    """
    given = as_items("counts", counts, "it must be numbers of runs")
    counted = {as_int(f"counts[{k}]", count, 0) for k, count in enumerate(given)}
    few = sorted(count for count in counted if 1 < count < ENOUGH)
    if not few:
        return ""
    reached = 1.0 - 2.0 ** (1 - few[0])
    return (
        f"With {few[0]} runs an interval goes at most from the least to the largest, which covers a median in "
        f"{100.0 * reached:.0f} % of cases at most, not in 95 %: below {ENOUGH} runs it shows their spread and no more."
    )


def growth_exponent(
    cumulative: npt.ArrayLike, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Exponent | None:
    """How fast a cumulative series grows: the slope of log cumulative over log t, late.

    Least squares on the mean over seeds, at 50 log-spaced t in [T/16, T]; the interval is a bootstrap over seeds.

    A series that is zero has no exponent: None. One that is zero for a part of the window is fitted where it is
    positive, at 10 of the 50 points at least, else None; the exponent is then that of the growth after it began, which
    is steep, and ``points`` says how much was used. In the bootstrap a resample of zero runs only counts as 0: it does
    not grow.

    Parameters
    ----------
    cumulative : (n_seeds, T) or (T,), not negative

    >>> import numpy as np
    >>> str(growth_exponent(np.sqrt(np.arange(1.0, 1001.0))))
    '0.50'
    """
    array = np.atleast_2d(_numbers("cumulative", cumulative))
    if array.ndim != 2 or array.size == 0:
        raise ValidationError(f"cumulative has shape {array.shape}; it must be (n_seeds, T)")
    t = exponent_episodes(array.shape[1])
    return exponent_of_samples(array[:, t - 1], t, level, resamples, seed)


def exponent_episodes(episodes: int) -> npt.NDArray[np.int64]:
    """The episodes of the fit: at most 50, log-spaced in [T/16, T]."""
    return np.unique(np.rint(np.geomspace(max(episodes / 16, 1.0), episodes, POINTS)).astype(np.int64))


def exponent_of_samples(
    samples: Float, t: npt.NDArray[np.int64], level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Exponent | None:
    """:func:`growth_exponent` from the values (n_seeds, k) at the episodes ``t`` (k,) alone."""
    if not (samples >= 0.0).all():
        raise ValidationError(f"the cumulative series has the value {samples.min()}; exponents need values >= 0")
    level = _as_level(level)
    picked = _resampled(samples.shape[0], None, resamples, seed)
    log_t = np.log(t)
    mean = samples.mean(axis=0)
    points = int(np.count_nonzero(mean))
    if points < min(FEWEST, t.size) or points < 2:
        return None
    value = float(_slopes(mean[np.newaxis], log_t)[0])
    if samples.shape[0] == 1:
        return Exponent(value, None, None, points)
    counts = np.stack([np.bincount(row, minlength=samples.shape[0]) for row in picked])
    interval = _percentiles(_slopes(counts @ samples, log_t), level)  # of sums: a scale has no slope
    return Exponent(value, interval.low, interval.high, points)


def _numbers(name: str, values: npt.ArrayLike) -> Float:
    array, _ = as_array(name, values)
    check_range(name, array, -LARGEST, LARGEST)
    return array


def _samples(values: npt.ArrayLike, axis: int) -> tuple[Float, int]:
    """The values, and which axis of them is averaged over."""
    array = _numbers("values", values)
    if array.ndim == 0:
        raise ValidationError(f"values is {shown(values)}; it must have an axis to average over")
    axis = as_int("axis", axis, -array.ndim, array.ndim - 1)
    if array.shape[axis] == 0:
        raise ValidationError("there are no values to average")
    return array, axis


def _as_level(level: float) -> float:
    number = as_float("level", level)
    if not 0.0 < number < 1.0:
        raise ValidationError(f"level is {shown(number)}; it must lie in (0, 1)")
    return number


def _slopes(rows: Float, log_t: Float) -> Float:
    """Slope of log row over log t at the positive points of each row; 0 where there are fewer than two."""
    positive = rows > 0.0
    logs = np.log(np.where(positive, rows, 1.0))
    count = np.maximum(positive.sum(axis=1, keepdims=True), 1)
    x = np.where(positive, log_t - (positive * log_t).sum(axis=1, keepdims=True) / count, 0.0)
    square = (x * x).sum(axis=1)
    slopes: Float = (x * logs).sum(axis=1) / np.where(square > 0.0, square, 1.0)  # 0 over 1 where no point is left
    return np.where(np.abs(slopes) < 1e-12, 0.0, slopes)  # rounding: a constant series has exponent 0, not -1e-15


def _resampled(size: int, strata: Sequence[Any] | None, resamples: int, seed: int) -> npt.NDArray[np.int64]:
    """(resamples, size) indices, drawn with replacement within each stratum."""
    resamples = as_int("resamples", resamples, 1, MOST_RESAMPLES)
    check_room(f"resamples is {resamples}; the resamples", 4 * resamples * size)
    rng = np.random.default_rng(as_int("seed", seed, 0))
    if strata is None:
        return rng.integers(size, size=(resamples, size))
    labels = as_items("strata", strata, "it must be a label for each value", max(size, POINTS))
    if len(labels) != size:
        raise ValidationError(f"strata has {len(labels)} labels; values has {size}")
    groups: dict[Any, list[int]] = {}
    for k, label in enumerate(labels):
        try:
            groups.setdefault(label, []).append(k)
        except Exception as error:  # of a foreign __hash__ or __eq__
            raise ValidationError(f"strata[{k}] is {shown(label)}; a label must be hashable") from error
    parts = [np.array(group)[rng.integers(len(group), size=(resamples, len(group)))] for group in groups.values()]
    return np.concatenate(parts, axis=1)


def _percentiles(found: Float, level: float) -> Interval:
    low, high = np.quantile(found, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(low), float(high))
