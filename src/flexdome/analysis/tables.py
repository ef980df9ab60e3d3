"""The paper's Table 1, with what was measured beside what is claimed.

The claims of a learner are those of its registry entry, so that a learner that joins the registry joins the table;
rows of the paper whose learner is not registered come from the table itself (Zuo, Wang and He 2026, Table 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from flexdome.analysis.aggregation import Results
from flexdome.errors import ValidationError
from flexdome.learners import LEARNERS, Entry

__all__ = ["PAPER_ROWS", "PaperRow", "table1"]


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's Table 1, in the words of the registry."""

    id: str
    algorithm: str
    citation: str
    regret: str
    violation: str
    last_iterate: bool
    unknown_safe_policy: bool
    stochastic_threshold: bool


PAPER_ROWS = (
    PaperRow("optaug", "OPTAUG-CMDP", "Müller et al. 2023", "sqrt(T), strong", "sqrt(T), strong", False, False, False),
    PaperRow("cpd-po", "CPD-PO", "Stradi et al. 2025", "sqrt(T), strong", "sqrt(T), strong", False, True, False),
    PaperRow("omdpd", "OMDPD", "Zhu et al. 2025", "sqrt(T), strong", "sqrt(T), strong", False, True, False),
    PaperRow("rpd-oe", "RPD-OE", "Müller et al. 2024", "T^0.93, strong", "T^0.93, strong", True, True, False),
    PaperRow(
        "uopt-rpgpd", "UOpt-RPGPD", "Kitamura et al. 2024", "T^(6/7), strong", "T^(6/7), strong", True, True, False
    ),
    PaperRow("flexdome", "FlexDOME", "Zuo et al. 2026", "T^(5/6), strong", "near-constant, strong", True, True, True),
)
SCHEMA = {
    "part": pl.String,
    "algorithm": pl.String,
    "id": pl.String,
    "citation": pl.String,
    "claimed_regret": pl.String,
    "claimed_violation": pl.String,
    "last_iterate": pl.Boolean,
    "unknown_safe_policy": pl.Boolean,
    "stochastic_threshold": pl.Boolean,
    "status": pl.String,
    "setting": pl.String,
    "tuning": pl.String,
    "environment": pl.String,
    "episodes": pl.Int64,
    "n": pl.Int64,
    "regret_exponent": pl.Float64,
    "regret_low": pl.Float64,
    "regret_high": pl.Float64,
    "violation_exponent": pl.Float64,
    "violation_low": pl.Float64,
    "violation_high": pl.Float64,
}


def table1(
    results: Results | Iterable[Results] = (),
    environments: Sequence[str] | None = None,
    registry: Mapping[str, Entry] = LEARNERS,
) -> pl.DataFrame:
    """Table 1 with measured growth exponents and their intervals.

    A learner that was run has one row for every setting (its label in the experiment) and environment; one that was not
    has one row with the status ``"not run"``. A measured exponent is null where the series has none (it is zero).

    Parameters
    ----------
    results : one experiment's, or several
    environments : which to show, None for all

    Returns
    -------
    part ("paper" or "more"), algorithm, id, citation, claimed_regret, claimed_violation, last_iterate,
    unknown_safe_policy, stochastic_threshold, status ("measured" or "not run"), setting, tuning (null where it is
    the learner's default), environment, episodes, n, and for regret and violation ``_exponent``, ``_low``, ``_high``
    """
    if isinstance(results, Results):
        results = (results,)
    measured = [row for result in results for row in _measured(result)]
    if environments is not None:
        known = {row["environment"] for row in measured}
        for name in environments:
            if measured and name not in known:
                raise ValidationError(f"environment {name!r} was not measured; these were: {', '.join(sorted(known))}")
        measured = [row for row in measured if row["environment"] in environments]
    rows: list[dict[str, Any]] = []
    for claim in [*(_claim(row, registry) for row in PAPER_ROWS), *_others(registry)]:
        found = [{**claim, **row} for row in _distinct(measured) if row["id"] == claim["id"]]
        rows += found or [{**claim, "status": "not run"}]
    return pl.DataFrame(rows, schema=SCHEMA)


def _claim(row: PaperRow, registry: Mapping[str, Entry]) -> dict[str, Any]:
    if row.id in registry:
        return {**_entry(registry[row.id], "paper"), "algorithm": row.algorithm}
    return {
        "part": "paper",
        "algorithm": row.algorithm,
        "id": row.id,
        "citation": row.citation,
        "claimed_regret": row.regret,
        "claimed_violation": row.violation,
        "last_iterate": row.last_iterate,
        "unknown_safe_policy": row.unknown_safe_policy,
        "stochastic_threshold": row.stochastic_threshold,
    }


def _others(registry: Mapping[str, Entry]) -> list[dict[str, Any]]:
    paper = {row.id for row in PAPER_ROWS}
    return [_entry(entry, "more") for id, entry in registry.items() if id not in paper]


def _entry(entry: Entry, part: str) -> dict[str, Any]:
    return {
        "part": part,
        "algorithm": entry.id,
        "id": entry.id,
        "citation": entry.citation,
        "claimed_regret": entry.regret,
        "claimed_violation": entry.violation,
        "last_iterate": entry.last_iterate,
        "unknown_safe_policy": "safe policy" not in entry.needs,
        "stochastic_threshold": "known thresholds" not in entry.needs,
    }


def _measured(result: Results) -> list[dict[str, Any]]:
    rows = []
    options = {learner.name: learner.options for learner in result.experiment.learners}
    for (environment, learner), group in result.exponents.group_by(["environment", "learner"], maintain_order=True):
        row: dict[str, Any] = {
            "id": result.learner_id(str(learner)),
            "status": "measured",
            "setting": learner,
            "tuning": options[str(learner)].get("tuning"),
            "environment": environment,
            "episodes": result.experiment.episodes,
            "n": group["n"][0],
        }
        for metric, prefix in (("strong_regret", "regret"), ("strong_violation", "violation")):
            found = group.filter(pl.col("metric") == metric).row(0, named=True)
            row |= {f"{prefix}_{name}": found[name] for name in ("exponent", "low", "high")}
        rows.append(row)
    return rows


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same setting in several experiments is one row."""
    return [row for k, row in enumerate(rows) if row not in rows[:k]]
