"""The exact series of one run, from its stored table.

With g_t the signed reward gap and v_{i,t} the signed violation of constraint i in episode t (``simulation.History``)::

    gap               g_t
    violation         max_i v_{i,t}
    strong_regret     sum_{s <= t} [g_s]_+
    strong_violation  max_i sum_{s <= t} [v_{i,s}]_+
    weak_regret       sum_{s <= t} g_s
    weak_violation    max_i sum_{s <= t} v_{i,s}

    violation_<i>         v_{i,t}, where there are several constraints
    strong_violation_<i>  sum_{s <= t} [v_{i,s}]_+

The four without an index that are sums are, bit for bit, those of ``History``. The first tenth of a run are its first
``T // 10`` episodes; *late* means after them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from flexdome.analysis.frames import as_table
from flexdome.cmdp.validation import LARGEST, Float, as_array, as_int, as_text, check_range
from flexdome.errors import ValidationError, unknown_name

__all__ = ["CUMULATIVE", "METRICS", "Series", "constraint_metrics", "metric_label", "series_of"]

CUMULATIVE = ("strong_regret", "strong_violation", "weak_regret", "weak_violation")
METRICS = ("gap", "violation", *CUMULATIVE)
LABELS = {
    "gap": "Optimality gap",
    "violation": "Violation",
    "strong_regret": "Strong regret",
    "strong_violation": "Strong violation",
    "weak_regret": "Weak regret",
    "weak_violation": "Weak violation",
}
ONE = re.compile(r"(violation|strong_violation)_([0-9]{1,6})")


def constraint_metrics(constraints: int) -> tuple[str, ...]:
    """The metrics of single constraints.

    >>> constraint_metrics(2)
    ('violation_0', 'violation_1', 'strong_violation_0', 'strong_violation_1')
    """
    count = as_int("constraints", constraints, 1, 10**6)
    return tuple(f"{kind}_{i}" for kind in ("violation", "strong_violation") for i in range(count))


def metric_label(metric: str) -> str:
    """What figures call a metric.

    >>> metric_label("strong_violation_1")
    'Strong violation 1'
    """
    found = ONE.fullmatch(as_text("metric", metric))
    if found is None and metric not in LABELS:
        raise unknown_name("metric", metric, [*LABELS, "violation_0", "strong_violation_0"])
    return LABELS[metric] if found is None else f"{LABELS[found[1]]} {found[2]}"


@dataclass(frozen=True)
class Series:
    """The series of one run; index t - 1 is episode t.

    Attributes
    ----------
    gap : (T,) signed reward gaps
    violations : (m, T) signed violations
    """

    gap: Float
    violations: Float

    def __post_init__(self) -> None:
        for name, axes, rule in (("gap", 1, "(T,)"), ("violations", 2, "(m, T)")):
            array, _ = as_array(name, getattr(self, name))
            check_range(name, array, -LARGEST, LARGEST)
            if array.ndim != axes or array.size == 0:
                raise ValidationError(f"{name} has shape {array.shape}; it must be {rule}, and not empty")
            object.__setattr__(self, name, array)
        if self.violations.shape[1] != self.gap.size:
            raise ValidationError(f"violations has {self.violations.shape[1]} episodes; gap has {self.gap.size}")

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return int(self.gap.size)

    @cached_property
    def violation(self) -> Float:
        """(T,) the largest signed violation of each episode."""
        worst: Float = self.violations.max(axis=0)
        return worst

    @cached_property
    def strong_regret(self) -> Float:
        """(T,) cumulated positive gaps."""
        return np.cumsum(np.maximum(self.gap, 0.0))

    @cached_property
    def _strong(self) -> Float:
        return np.cumsum(np.maximum(self.violations, 0.0), axis=1)

    @cached_property
    def strong_violation(self) -> Float:
        """(T,) the largest of the cumulated positive violations."""
        worst: Float = self._strong.max(axis=0)
        return worst

    @cached_property
    def weak_regret(self) -> Float:
        """(T,) cumulated gaps."""
        return np.cumsum(self.gap)

    @cached_property
    def weak_violation(self) -> Float:
        """(T,) the largest of the cumulated violations."""
        worst: Float = np.cumsum(self.violations, axis=1).max(axis=0)
        return worst

    def of(self, metric: str) -> Float:
        """(T,) the series of a metric, of a single constraint too: ``"strong_violation_0"``."""
        metric_label(metric)
        found = ONE.fullmatch(metric)
        if found is None:
            values: Float = getattr(self, metric)
            return values
        i = int(found[2])
        if i >= len(self.violations):
            raise ValidationError(f"metric is {metric!r}; there are {len(self.violations)} constraints, from 0")
        one: Float = (self.violations if found[1] == "violation" else self._strong)[i]
        return one

    def finals(self) -> dict[str, float]:
        """One number of each kind, for the whole run.

        ``late_regret`` and ``late_violation`` are the strong metrics of the episodes after the first tenth alone;
        ``crossings`` is how often the run goes from safe to unsafe or back in those, and ``wobble`` the standard
        deviation of the violation there about its straight line, so that a steady drift does not count.
        """
        first = self.episodes // 10
        before = self._strong[:, first - 1] if first else 0.0
        regret_before = self.strong_regret[first - 1] if first else 0.0
        late = self.violation[first:]
        unsafe = late > 0.0
        return {
            **{name: float(getattr(self, name)[-1]) for name in CUMULATIVE},
            "late_regret": float(self.strong_regret[-1] - regret_before),
            "late_violation": float((self._strong[:, -1] - before).max()),
            "last_gap": float(self.gap[-1]),
            "last_violation": float(self.violation[-1]),
            "crossings": float(np.count_nonzero(unsafe[1:] != unsafe[:-1])),
            "wobble": _about_line(late),
        }


def series_of(frame: pl.DataFrame) -> Series:
    """The series of a stored run: a frame with ``reward_gap`` and ``violation_0``, ``violation_1``, ...

    >>> import polars as pl
    >>> series = series_of(pl.DataFrame({"reward_gap": [1.0, -1.0, 2.0], "violation_0": [0.5, -1.0, -1.0]}))
    >>> series.strong_regret.tolist(), series.weak_regret.tolist(), series.strong_violation.tolist()
    ([1.0, 1.0, 3.0], [1.0, 0.0, 2.0], [0.5, 0.5, 0.5])
    """
    as_table("frame", frame, {})
    count = sum(name.startswith("violation_") for name in frame.columns)
    names = [f"violation_{i}" for i in range(count)]
    missing = [name for name in ("reward_gap", *(names or ["violation_0"])) if name not in frame.columns]
    if missing:
        raise ValidationError(f"the table has no column {missing[0]}; its columns are {', '.join(frame.columns)}")
    if not frame.height:
        raise ValidationError("the table has no episodes")
    frame = as_table("frame", frame, dict.fromkeys(("reward_gap", *names), pl.Float64), finite=False)
    gap = frame["reward_gap"].to_numpy()
    violations = np.stack([frame[name].to_numpy() for name in names])
    for name, array in (("reward_gap", gap[np.newaxis]), ("violation", violations)):
        finite = np.isfinite(array)
        if not finite.all():
            i, t = (int(index) for index in np.argwhere(~finite)[0])
            raise ValidationError(f"{name} of episode {t + 1} is {array[i, t]}; it must be finite")
    return Series(gap, violations)


def _about_line(values: Float) -> float:
    if values.size < 3:
        return 0.0
    t = np.arange(values.size, dtype=np.float64)
    t -= t.mean()
    centred = values - values.mean()
    return float(np.std(centred - t * (t @ centred) / (t @ t)))
