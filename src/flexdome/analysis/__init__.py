"""What results say: aggregation over seeds, confidence intervals, growth exponents, paired differences."""

from flexdome.analysis.aggregation import (
    FINALS,
    Reader,
    Results,
    aggregate,
    curves,
    exponents,
    finals,
    sensitivity,
    summary,
)
from flexdome.analysis.comparison import PairedDifference, paired_difference
from flexdome.analysis.metrics import CUMULATIVE, METRICS, Series, series_of
from flexdome.analysis.statistics import (
    Exponent,
    Interval,
    bootstrap_interval,
    growth_exponent,
    iqm,
    mean_and_error,
)

__all__ = [
    "CUMULATIVE",
    "FINALS",
    "METRICS",
    "Exponent",
    "Interval",
    "PairedDifference",
    "Reader",
    "Results",
    "Series",
    "aggregate",
    "bootstrap_interval",
    "curves",
    "exponents",
    "finals",
    "growth_exponent",
    "iqm",
    "mean_and_error",
    "paired_difference",
    "sensitivity",
    "series_of",
    "summary",
]
