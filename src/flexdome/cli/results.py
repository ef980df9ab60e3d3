"""Tables and figures of results, for the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from flexdome.analysis import Results, paired_difference, summary
from flexdome.cli.tables import plain_table, show

__all__ = ["show_differences", "show_ranking", "show_summary", "write_comparison"]

COLUMNS = {
    "strong_regret": ("strong regret", 0),
    "strong_violation": ("strong violation", 1),
    "late_violation": ("after the first tenth", 1),
    "last_gap": ("last gap", 3),
    "last_violation": ("last violation", 3),
}


def text(mean: float, error: float | None, digits: int) -> str:
    """Mean ± standard error."""
    return f"{mean:,.{digits}f}" + ("" if error is None else f" ± {error:,.{digits}f}")


def show_summary(results: Results) -> None:
    """Print what became of each learner on each environment."""
    spec = results.experiment
    seeds = len(spec.seeds)
    title = (
        f"{spec.name}: {spec.episodes:,} episodes, {seeds} {'seed' if seeds == 1 else 'seeds'}, mean ± standard error"
    )
    table = plain_table(title, "environment", "learner", *(label for label, _ in COLUMNS.values()))
    rows = summary(results.finals, metrics=tuple(COLUMNS))
    for (environment, learner), group in rows.group_by("environment", "learner", maintain_order=True):
        by = {row["metric"]: row for row in group.iter_rows(named=True)}
        cells = (text(by[name]["mean"], by[name]["se"], digits) for name, (_, digits) in COLUMNS.items())
        table.add_row(str(environment), str(learner), *cells)
    show(table)


def show_differences(results: Results, baseline: str, metric: str) -> None:
    """Print each learner's metric less the baseline's, on common random numbers."""
    label, digits = COLUMNS[metric]
    title = f"{label}, less that of {baseline} in the same run: mean ± standard error and 95 % interval"
    table = plain_table(title, "environment", "learner", "difference", "interval", "lower", "equal", "higher")
    for environment in results.experiment.environments:
        for learner in results.experiment.learners:
            if learner.name == baseline:
                continue
            found = paired_difference(results.finals, metric, learner.name, baseline, environment.name)
            interval = found.interval
            span = "-" if interval is None else f"{interval.low:,.{digits}f} to {interval.high:,.{digits}f}"
            counts = (str(count) for count in (found.lower, found.equal, found.higher))
            table.add_row(environment.name, learner.name, text(found.mean, found.error, digits), span, *counts)
    show(table)


def show_ranking(results: Results) -> None:
    """Print the settings of a sweep, best first."""
    scored = results.finals.with_columns(
        (pl.col("strong_regret") + pl.col("strong_violation") + 1.0).log().alias("log_score")
    )
    best = scored.group_by("learner").agg(
        pl.col("log_score").mean(), pl.col("strong_regret").mean(), pl.col("strong_violation").mean()
    )
    table = plain_table("Settings, best first", "setting", "score", "mean strong regret", "mean strong violation")
    for row in best.sort("log_score", "learner").iter_rows(named=True):
        numbers = (float(np.exp(row["log_score"])), row["strong_regret"], row["strong_violation"])
        table.add_row(row["learner"], *(f"{number:,.1f}" for number in numbers))
    show(table)


def write_comparison(results: Results, stem: Path) -> None:
    """Write the figure of an experiment, rows are environments, and the data behind it; say where."""
    from flexdome.figures import comparison_figure, save

    for path in save(comparison_figure(results), stem, data=results.curves):
        print(path)
