"""Learners against each other on common random numbers.

Runs with the same environment, instance and seed meet the same initial states, transitions, noise and thresholds, so
that differences between learners are taken run by run: most of what varies from seed to seed cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from flexdome.analysis.frames import as_table
from flexdome.analysis.statistics import Interval, bootstrap_interval, mean_and_error
from flexdome.cmdp.validation import as_text
from flexdome.errors import ValidationError, unknown_name

__all__ = ["KEYS", "PairedDifference", "paired_difference"]

KEYS = {"environment": pl.String, "instance": pl.Int64, "seed": pl.Int64}


@dataclass(frozen=True)
class PairedDifference:
    """a - b over the runs that both have.

    Attributes
    ----------
    mean, error, interval : of the difference; error and interval are None where there is one pair only
    lower, equal, higher : in how many pairs a is below, at and above b
    """

    metric: str
    a: str
    b: str
    mean: float
    error: float | None
    interval: Interval | None
    lower: int
    equal: int
    higher: int

    @property
    def n(self) -> int:
        """How many pairs there are."""
        return self.lower + self.equal + self.higher


def paired_difference(
    finals: pl.DataFrame, metric: str, a: str, b: str, environment: str | None = None, seed: int = 0
) -> PairedDifference:
    """``metric`` of learner ``a`` less that of ``b``, paired by environment, instance and seed.

    The interval is a bootstrap over pairs, within environments where there are several.
    """
    finals = as_table("finals", finals, {"learner": pl.String, **KEYS})
    metric = as_text("metric", metric)
    metrics = [name for name in finals.columns if name not in ("learner", *KEYS)]
    if metric not in metrics:
        raise unknown_name("metric", metric, metrics)
    finals = as_table("finals", finals, {metric: pl.Float64})
    a, b = as_text("a", a), as_text("b", b)
    for name in (a, b):
        if name not in finals["learner"]:
            raise unknown_name("learner", name, finals["learner"].unique())
    if environment is not None:
        finals = finals.filter(pl.col("environment") == as_text("environment", environment))
    keys = list(KEYS)
    first, second = (finals.filter(pl.col("learner") == name).select(*keys, metric) for name in (a, b))
    pairs = first.join(second, on=keys, suffix="_b").sort(keys)
    if not pairs.height:
        raise ValidationError(f"{a} and {b} have no environment, instance and seed in common")
    difference = (pairs[metric] - pairs[f"{metric}_b"]).to_numpy()
    mean, error = mean_and_error(difference)
    return PairedDifference(
        metric=metric,
        a=a,
        b=b,
        mean=float(mean),
        error=None if np.isnan(error) else float(error),
        interval=bootstrap_interval(difference, np.mean, pairs["environment"].to_list(), seed=seed),
        lower=int(np.count_nonzero(difference < 0.0)),
        equal=int(np.count_nonzero(difference == 0.0)),
        higher=int(np.count_nonzero(difference > 0.0)),
    )
