"""One learner against another over many families: the targets of the strong suite, measured.

For every environment: strong regret and violation of both, their ratio, the largest violation after the first tenth of
the episodes in any run, the regret's growth exponent, and the last gap as a part of the horizon. The targets say what
the table must show; whether it does is computed, never assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from flexdome.analysis.aggregation import Results
from flexdome.analysis.comparison import KEYS
from flexdome.analysis.frames import as_table
from flexdome.analysis.verdicts import number
from flexdome.cmdp.validation import as_text, instance_of
from flexdome.errors import unknown_name

__all__ = ["TARGETS", "Target", "dominance_table", "suite_table", "suite_targets"]

LATE = 0.01
QUARTER, TENTH = 0.25, 0.1
SLOW = 0.55
CLOSE = 0.006
MOST = 0.75
COLUMNS = (
    "regret",
    "opponent_regret",
    "ratio",
    "violation",
    "opponent_violation",
    "worst_late",
    "exponent",
    "gap_share",
)
SCHEMA = {"environment": pl.String, "n": pl.Int64, **dict.fromkeys(COLUMNS, pl.Float64)}
TARGETS = {
    1: f"strong violation after the first tenth of the episodes below {LATE} in every run",
    2: "strong regret at most a quarter of the opponent's on every family",
    3: "strong regret at most a tenth of the opponent's on the median family",
    4: f"fitted regret exponent at most {SLOW} on every family",
    5: f"last gap under {CLOSE:.1%} of the horizon on every family",
    6: "total violation no larger than the opponent's on at least three quarters of the families",
}


@dataclass(frozen=True)
class Target:
    """One target: its number in ``TARGETS``, whether it is met, and one sentence with the numbers."""

    target: int
    met: bool
    text: str


def suite_table(results: Results, ours: str, opponent: str) -> pl.DataFrame:
    """A row for every environment.

    Returns
    -------
    environment, n, regret, opponent_regret, ratio, violation, opponent_violation, worst_late (largest late violation of
    a run), exponent (of the strong regret; null where it is zero), gap_share (mean last gap over the horizon)
    """
    names = [learner.name for learner in instance_of("results", results, Results).experiment.learners]
    ours, opponent = as_text("ours", ours), as_text("opponent", opponent)
    for name in (ours, opponent):
        if name not in names:
            raise unknown_name("learner", name, names)
    rows: list[dict[str, Any]] = []
    for environment in results.experiment.environments:
        here = results.finals.filter(pl.col("environment") == environment.name)
        mine, theirs = (here.filter(pl.col("learner") == name) for name in (ours, opponent))
        if not mine.height or not theirs.height:
            continue
        means = {
            f"{prefix}{metric}": float(frame[f"strong_{metric}"].to_numpy().mean())
            for prefix, frame in (("", mine), ("opponent_", theirs))
            for metric in ("regret", "violation")
        }
        exponent = results.exponents.filter(
            pl.col("environment") == environment.name,
            pl.col("learner") == ours,
            pl.col("metric") == "strong_regret",
        )["exponent"]
        instance, *_ = mine["instance"]
        horizon = environment.make(instance).horizon
        rows.append(
            {
                "environment": environment.name,
                "n": mine.height,
                **means,
                "ratio": means["regret"] / means["opponent_regret"] if means["opponent_regret"] > 0.0 else None,
                "worst_late": float(mine["late_violation"].to_numpy().max()),
                "exponent": next(iter(exponent), None),
                "gap_share": float(mine["last_gap"].to_numpy().mean()) / horizon,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def suite_targets(table: pl.DataFrame) -> tuple[Target, ...]:
    """The targets, each with the family that decides it."""
    table = as_table("table", table, SCHEMA, nullable=("ratio", "exponent"))
    ratio = table.filter(pl.col("ratio").is_not_null())
    grown = table.filter(pl.col("exponent").is_not_null())
    no_more = int((table["violation"] <= table["opponent_violation"]).sum())
    median = float(np.median(ratio["ratio"].to_numpy())) if ratio.height else 0.0
    return (
        _largest(1, table, "worst_late", LATE, "in one run", below=True),
        _largest(2, ratio, "ratio", QUARTER, "times the opponent's regret"),
        Target(3, median <= TENTH, f"{TARGETS[3]}: {number(median)} times"),
        _largest(4, grown, "exponent", SLOW, "as the exponent"),
        _largest(5, table, "gap_share", CLOSE, "of the horizon", below=True),
        Target(6, no_more >= MOST * table.height, f"{TARGETS[6]}: on {no_more} of {table.height}"),
    )


def _largest(target: int, table: pl.DataFrame, column: str, bound: float, unit: str, below: bool = False) -> Target:
    """Met if the largest value is at most (or below) ``bound``; the sentence names it and how many families miss it."""
    if not table.height:
        return Target(target, True, f"{TARGETS[target]}: there is nothing to exceed it")
    worst = table.sort(column, descending=True).row(0, named=True)
    over = int((table[column] >= bound if below else table[column] > bound).sum())
    where = f" ({worst['environment']})" if worst[column] > 0.0 else ""
    text = f"{TARGETS[target]}: at most {number(worst[column])} {unit}{where}"
    if over:
        text += f", exceeded on {over} of {table.height} families"
    return Target(target, over == 0, text)


def dominance_table(finals: pl.DataFrame, ours: str) -> pl.DataFrame:
    """On how many environments a learner does better than each other one, by the means of strong regret and violation.

    Means are over the runs (instance and seed) that both have.

    Parameters
    ----------
    finals : as ``Results.finals``; of several experiments, concatenated

    Returns
    -------
    learner, environments (where both ran), both (ours has less of both, or less of one and as much of the other),
    violation (ours has less violation and more regret), regret (the reverse), neither
    """
    metrics, same = ["strong_regret", "strong_violation"], list(KEYS)
    finals = as_table("finals", finals, {"learner": pl.String, **KEYS, **dict.fromkeys(metrics, pl.Float64)})
    ours = as_text("ours", ours)
    if ours not in finals["learner"]:
        raise unknown_name("learner", ours, finals["learner"].unique(maintain_order=True).to_list())
    mine = finals.filter(pl.col("learner") == ours).select(*same, *metrics)
    pairs = (
        finals.filter(pl.col("learner") != ours)
        .join(mine, on=same, suffix="_ours", maintain_order="left")
        .group_by("environment", "learner", maintain_order=True)
        .agg(pl.col(metrics + [f"{name}_ours" for name in metrics]).mean())
    )
    regret, violation = ((pl.col(f"{name}_ours") - pl.col(name)).sign() for name in metrics)
    kinds = {
        "both": regret + violation < 0,  # of signs
        "violation": (violation < 0) & (regret > 0),
        "regret": (regret < 0) & (violation > 0),
        "neither": (regret >= 0) & (violation >= 0),
    }
    counts = [kind.cast(pl.Int64).sum().alias(name) for name, kind in kinds.items()]
    return pairs.group_by("learner", maintain_order=True).agg(pl.len().cast(pl.Int64).alias("environments"), *counts)
