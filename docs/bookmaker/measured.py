"""What the package itself measured of a learner: its rows of the published ranking."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

import flexdome as fd
from flexdome.errors import FlexDOMEError
from flexdome.ranking import family_table, overall_table, published, suite_experiments

__all__ = ["measured", "numbers", "theory_alone"]


def numbers() -> pl.DataFrame | None:
    """The published numbers, if they come with this package."""
    try:
        return published()
    except FlexDOMEError:
        return None


def measured(id: str, frame: pl.DataFrame | None) -> list[str]:
    """The lines of a page; a learner may be ranked in more than one setting."""
    if frame is None:
        return ["No numbers of [the ranking](../ranking.md) come with this package."]
    names = frame.filter(pl.col("id") == id)["learner"].unique(maintain_order=True).to_list()
    if not names:
        return ["No run of it is among the published ones of [the ranking](../ranking.md)."]
    overall = overall_table(frame)
    families = len({one.name for spec in suite_experiments() for one in spec.environments})
    lines: list[str] = []
    for name in names:
        rows = frame.filter(pl.col("learner") == name)
        own = overall.filter(pl.col("learner") == name).row(0, named=True)
        seeds = sorted(rows["seed"].unique().to_list())
        lines += [f"### {name}", ""] if len(names) > 1 else []
        lines += [
            f"Published for [the ranking](../ranking.md): {own['families']} of its {families} families, on which "
            f"its score is {own['score']:+.2f}. {rows['episodes'][0]:,} episodes, seeds {', '.join(map(str, seeds))}"
            + (f"; failed runs: {own['failed']}." if own["failed"] else ".")
            + settings(rows),
            "",
            *voided(id, rows),
            "| family | runs | strong regret | strong violation | late violation, worst run |",
            "|---|---:|---:|---:|---:|",
        ]
        for row in family_table(frame, name).iter_rows(named=True):
            cells = (shown(row[column]) for column in ("regret", "violation", "late"))
            lines += [f"| `{row['family']}` | {row['n']} | {' | '.join(cells)} |"]
        lines += [""]
    return lines[:-1]


def settings(rows: pl.DataFrame) -> str:
    """The options and what it was told, where they are not the defaults."""
    options, told = (json.loads(rows[column][0]) for column in ("options", "told"))
    said = [f"{name} = {value!r}" for name, value in {**options, **told}.items()]
    return f" With `{', '.join(said)}`." if said else ""


def voided(id: str, rows: pl.DataFrame) -> list[str]:
    """That a guarantee is of another tuning than the one that was measured."""
    tuning = theory_alone(id, json.loads(rows["options"][0]))
    if tuning is None:
        return []
    return [
        f"**This is {tuning} tuning, which voids the guarantee.** What is claimed above is claimed of "
        '`tuning="theory"`, and says nothing of these numbers.',
        "",
    ]


def theory_alone(id: str, options: Mapping[str, Any]) -> str | None:
    """The tuning of these options, where the learner's theorem holds in another; None where it does not say."""
    entry = fd.LEARNERS.get(id)
    if entry is None or not entry.claims:
        return None
    known = inspect.signature(entry.load()).parameters
    if "tuning" not in known:
        return None
    tuning = str(options.get("tuning", known["tuning"].default))
    return None if tuning == "theory" else tuning


def shown(value: float | None) -> str:
    """A number of a table; a run that failed has none."""
    if value is None:
        return "failed"
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.2g}" if value else "0"
