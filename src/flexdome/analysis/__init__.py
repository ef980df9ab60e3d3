"""What results say: aggregation over seeds, confidence intervals, growth exponents, paired differences."""

from flexdome.analysis.aggregation import FINALS, Reader, Results, aggregate, sensitivity, summary
from flexdome.analysis.comparison import PairedDifference, paired_difference
from flexdome.analysis.metrics import CUMULATIVE, METRICS, Series, constraint_metrics, metric_label, series_of
from flexdome.analysis.statistics import (
    Exponent,
    Interval,
    bootstrap_interval,
    growth_exponent,
    iqm,
    mean_and_error,
    of_few_runs,
)
from flexdome.analysis.sweeps import parse_score, ranked_settings
from flexdome.analysis.table_1 import PAPER, table1
from flexdome.analysis.targets import TARGETS, Target, dominance_table, suite_table, suite_targets
from flexdome.analysis.verdicts import CLAIMS, Roles, Verdict, near_constant, roles_of, unlike_the_paper, verdicts

__all__ = [
    "CLAIMS",
    "CUMULATIVE",
    "FINALS",
    "METRICS",
    "PAPER",
    "TARGETS",
    "Exponent",
    "Interval",
    "PairedDifference",
    "Reader",
    "Results",
    "Roles",
    "Series",
    "Target",
    "Verdict",
    "aggregate",
    "bootstrap_interval",
    "constraint_metrics",
    "dominance_table",
    "growth_exponent",
    "iqm",
    "mean_and_error",
    "metric_label",
    "near_constant",
    "of_few_runs",
    "paired_difference",
    "parse_score",
    "ranked_settings",
    "roles_of",
    "sensitivity",
    "series_of",
    "suite_table",
    "suite_targets",
    "summary",
    "table1",
    "unlike_the_paper",
    "verdicts",
]
