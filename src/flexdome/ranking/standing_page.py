"""A standing as text, as a figure, and as the first section of a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from flexdome.analysis import summary
from flexdome.analysis.verdicts import number
from flexdome.experiments import Store
from flexdome.figures import pareto_figure, save
from flexdome.ranking.entering import Standing
from flexdome.ranking.published import outdated, published
from flexdome.ranking.standing import LINEAR, MOST
from flexdome.report import write_report
from flexdome.report.markup import Markup, element, table

__all__ = ["Section", "sections_of", "sentences_of", "write_figure", "write_page"]

FAILED = "failed"
Section = tuple[str, tuple[str, ...], list[tuple[str, ...]]]  # caption, head, rows


def sentences_of(standing: Standing) -> list[str]:
    """What there is to say before the tables."""
    spec, entered = standing.experiment, standing.finals.filter(pl.col("learner") == standing.learner)
    runs, failed = entered.height, int(entered["failure"].is_not_null().sum())
    seeds = ", ".join(map(str, spec.seeds))
    said = [
        f"{standing.learner} is {standing.place} of {standing.field} on {standing.families.height} families, "
        f"{spec.episodes:,} episodes, seeds {seeds}: {runs} runs."
    ]
    if standing.quick:
        said.append(
            "This was the quick part of the suite: fewer families and one seed. It tells whether the learner works, "
            "and nothing else; for its place take the whole suite, without --quick."
        )
    said.append(
        "A learner beats another on a family if it has less of regret and violation in one and no more in the other. "
        f"Unsafe on a family is who has more than {100.0 * MOST:.0f} % of its violation in runs where it grows "
        f"linearly (exponent {LINEAR:g} or more); everyone with less violation who is not unsafe beats it there, "
        "whatever its regret."
    )
    if failed:
        where = entered.filter(pl.col("failure").is_not_null())
        reasons = "; ".join(sorted(set(where["failure"].to_list())))
        names = ", ".join(where["family"].unique(maintain_order=True).to_list())
        said.append(f"{failed} of its runs failed, on {names}, and count as beaten there: {reasons}")
    if standing.same:
        said.append(f"Published as {', '.join(standing.same)}, which is left out of the tables.")
    older = outdated(published().filter(pl.col("learner").is_in(standing.overall["learner"].to_list())))
    if older:
        said.append(f"Published with another version than the present one: {', '.join(older)}.")
    part = standing.overall.filter(pl.col("families") < standing.families.height)
    if part.height:
        rows = "; ".join(f"{row['learner']} ({row['families']})" for row in part.iter_rows(named=True))
        said.append(f"Published on fewer of these families, and without a place: {rows}.")
    return said


def sections_of(standing: Standing) -> list[Section]:
    """The three tables as text."""
    overall = [
        (
            row["learner"],
            f"{row['score']:+.2f}",
            str(row["families"]),
            str(row["runs"]),
            str(row["failed"]),
            f"{row['beats']:.1f}",
            f"{row['beaten']:.1f}",
            str(row["front"]),
            str(row["unsafe"]),
            f"{row['safe']:.0%}",
            *(_exponent(row[f"{name}_exponent"]) for name in ("regret", "violation")),
        )
        for row in standing.overall.iter_rows(named=True)
    ]
    heads = ("learner", "score", "families", "runs", "failed", "beats", "beaten by", "unbeaten on", "unsafe on")
    families = [
        (
            row["family"],
            *(_number(row[name]) for name in ("regret", "violation", "late")),
            _exponent(row["regret_exponent"]),
            _exponent(row["violation_exponent"]) + " unsafe" * row["unsafe"],
            row["beats"] or "-",
            row["beaten"] or "-",
        )
        for row in standing.families.iter_rows(named=True)
    ]
    versus = [tuple(str(cell) for cell in row) for row in standing.versus.iter_rows()]
    return [
        (
            "Overall: the part of the others that a learner beats less the part that beats it, as a mean over families",
            (*heads, "safe late", "regret exponent", "violation exponent"),
            overall,
        ),
        (
            f"{standing.learner} on every family: means over seeds, the late violation of the worst run",
            ("family", "regret", "violation", "late", "regret exp.", "violation exp.", "beats", "beaten by"),
            families,
        ),
        (
            f"{standing.learner} against every other learner: on how many families it beats the other, and is beaten",
            ("learner", "families", "beats", "is beaten"),
            versus,
        ),
    ]


def write_figure(standing: Standing, stem: str | os.PathLike[str]) -> list[Path]:
    """Regret against violation on every family, with everybody in it, and the numbers of the runs behind it."""
    finals = standing.finals.rename({"family": "environment"}).filter(pl.col("strong_regret").is_not_null())
    means = summary(finals, metrics=("strong_regret", "strong_violation"))
    return list(save(pareto_figure(means), stem, data=standing.finals))


def write_page(
    standing: Standing, store: Store, path: Path | None = None, skipped: Callable[[str], None] | None = None
) -> Path:
    """Write the report of ``store`` with the standing before everything else."""
    parts: list[object] = [element("h1", f"Where {standing.learner} stands", id="rank")]
    parts += [element("p", text, class_="lead") for text in sentences_of(standing)]
    for caption, head, rows in sections_of(standing):
        words = [k for k in range(1, len(head)) if any(row[k][:1].isalpha() and row[k] != FAILED for row in rows)]
        parts.append(table(f"{caption}.", head, rows, words=words))
    first: Sequence[Markup] = [element("section", *parts, aria_labelledby="rank")]
    return write_report(store, path, skipped, first=first, rates=False)


def _number(value: float | None) -> str:
    return FAILED if value is None else number(value)


def _exponent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
