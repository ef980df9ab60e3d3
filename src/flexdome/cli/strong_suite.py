"""The strong suite: every learner on every family, as a table, a figure, and targets that are met or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from flexdome.analysis import Results, dominance_table, suite_table, suite_targets, summary
from flexdome.analysis.verdicts import number
from flexdome.cmdp.archive import write_whole
from flexdome.figures import pareto_figure, save

__all__ = ["OPPONENT", "OURS", "write_suite"]

OURS, OPPONENT = "ProxDOME", "FlexDOME"
DIAL = "ProxDOME, caution "
COLUMNS = 6  # of a table, beside ours


def write_suite(stem: Path, results: Sequence[Results], long: Sequence[Results] = ()) -> list[str]:
    """Write the figure, its data and the page; the lines for the terminal come back.

    Parameters
    ----------
    stem : of the files
    results : the parts of the suite; those with both learners are held to the targets, as one table
    long : parts with more episodes, reported apart
    """
    table = _summary(_finals(results))
    save(pareto_figure(table, curve=_dial(table)), stem, data=table)
    lines, said = _section("# The strong suite", results, table)
    if long:
        more, also = _section("## For long", long, _summary(_finals(long)), level="###")
        lines, said = lines + more, said + also
    page = stem.with_name(f"{stem.name}.md")
    write_whole(page, "\n".join(lines).encode())
    return [*said, f"  every number: {page}"]


def _dial(table: pl.DataFrame) -> list[str]:
    """ProxDOME from bold to cautious, which is how it is by itself."""
    names = table["learner"].unique().to_list()
    turned = sorted((name for name in names if name.startswith(DIAL)), key=lambda name: float(name[len(DIAL) :]))
    return [*turned, *([OURS] if OURS in names else [])] if turned else []


def _finals(results: Sequence[Results]) -> pl.DataFrame:
    return pl.concat(result.finals for result in results)


def _summary(finals: pl.DataFrame) -> pl.DataFrame:
    return summary(finals, metrics=("strong_regret", "strong_violation", "late_violation"))


def _section(
    title: str, results: Sequence[Results], table: pl.DataFrame, level: str = "##"
) -> tuple[list[str], list[str]]:
    """The page's lines about some parts, and the terminal's."""
    title = f"{title}, T = {results[0].experiment.episodes:,}"
    lines, said = [title, "", *(_part(result) for result in results), "", *_numbers(table), ""], [title.lstrip("# ")]
    both = [r for r in results if {OURS, OPPONENT} <= {learner.name for learner in r.experiment.learners}]
    if both:
        against = pl.concat(suite_table(result, OURS, OPPONENT) for result in both)
        targets = [f"{'met' if target.met else 'missed'}: {target.text}" for target in suite_targets(against)]
        lines += [f"{level} {OURS} against {OPPONENT}", "", *_against(against), ""]
        lines += [*(f"- {line}" for line in targets), ""]
        said += [f"  {line}" for line in targets]
        lines += [f"{level} {OURS} against every learner", "", *_dominance(dominance_table(_finals(results), OURS)), ""]
    return lines, said


def _part(result: Results) -> str:
    """What was run: families, learners and seeds."""
    spec = result.experiment
    environments, learners = (result.finals[name].n_unique() for name in ("environment", "learner"))
    what = f"{environments} of {len(spec.environments)} families, {learners} of {len(spec.learners)} learners"
    if result.missing:
        what += f", {result.finals.height:,} of {result.finals.height + len(result.missing):,} runs"
    first, last = spec.seeds[0], spec.seeds[-1]
    row = len(spec.seeds) > 2 and list(spec.seeds) == list(range(first, last + 1))
    return f"- `{spec.name}`: {what}, seeds {f'{first} to {last}' if row else ', '.join(map(str, spec.seeds))}"


def _numbers(table: pl.DataFrame) -> list[str]:
    """Strong regret / strong violation of every learner on every environment, in tables that fit a page.

    Ours is the first column of each.
    """
    names = table["learner"].unique(maintain_order=True).to_list()
    ours, others = [n for n in names if n == OURS], [n for n in names if n != OURS]
    lines: list[str] = []
    for k in range(0, max(len(others), 1), COLUMNS):
        some = [*ours, *others[k : k + COLUMNS]]
        lines += [
            *([""] if lines else []),
            f"| strong regret / violation | {' | '.join(some)} |",
            "|---|" + "---|" * len(some),
        ]
        for (environment,), group in table.group_by(["environment"], maintain_order=True):
            means = {(row["learner"], row["metric"]): row["mean"] for row in group.iter_rows(named=True)}
            cells = [
                f"{number(means[name, 'strong_regret'])} / {number(means[name, 'strong_violation'])}"
                if (name, "strong_regret") in means
                else "-"
                for name in some
            ]
            if set(cells[len(ours) :]) != {"-"}:
                lines.append(f"| `{environment}` | {' | '.join(cells)} |")
    return lines


def _against(table: pl.DataFrame) -> list[str]:
    head = (
        "environment",
        "regret",
        "opponent's",
        "ratio",
        "violation",
        "opponent's",
        "late, worst run",
        "exponent",
        "gap/H",
    )
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    columns = (
        *("regret", "opponent_regret", "ratio", "violation", "opponent_violation"),
        *("worst_late", "exponent", "gap_share"),
    )
    for row in table.iter_rows(named=True):
        cells = (
            f"{row[name]:.2%}" if name == "gap_share" else "-" if row[name] is None else number(row[name])
            for name in columns
        )
        lines.append(f"| `{row['environment']}` | {' | '.join(cells)} |")
    return lines


def _dominance(table: pl.DataFrame) -> list[str]:
    head = ("", "families", "less of both", "less violation, more regret", "less regret, more violation", "neither")
    rows = (" | ".join(str(cell) for cell in row) for row in table.iter_rows())
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {row} |" for row in rows)]
