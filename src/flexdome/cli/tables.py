"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from flexdome.cmdp import CMDP
from flexdome.planning import Evaluation, baselines, solve

__all__ = ["lines", "plain_table", "show", "truth_table"]


def plain_table(title: str, *columns: str) -> Table:
    """An empty table in our style; a name too long for a narrow terminal is folded, never cut."""
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    return table


def show(table: Table) -> None:
    """Print a table whole: a pipe or a file gets the width it needs, a terminal wraps."""
    console = Console(markup=False, emoji=False)  # a label is shown as it was written
    if not console.is_terminal:
        width = max(console.measure(table, options=console.options.update(width=1000)).maximum, 20)
        console = Console(width=width, markup=False, emoji=False)
    console.print(table)


def lines(page: Iterable[tuple[str, str]]) -> None:
    """Print words and what they stand for, side by side; a word that is the one before is not said again."""
    table, before = Table(box=None, show_header=False, pad_edge=False), ""
    for word, text in page:
        table.add_row("" if word == before else word, text)
        before = word
    show(table)


def _numbers(values: Any) -> str:
    return ", ".join(f"{float(v):.6f}" for v in values)


def truth_rows(cmdp: CMDP, method: Any = "decomposition") -> list[tuple[str, str]]:
    """Label and text of every exact fact about one CMDP."""
    best = solve(cmdp, method)
    ends = baselines(cmdp)
    rows = [
        ("states, actions, horizon", f"{cmdp.states}, {cmdp.actions}, {cmdp.horizon}"),
        ("thresholds", _numbers(cmdp.alpha)),
        ("optimum: reward", _numbers([best.value])),
        ("         utilities", _numbers(best.utilities)),
        ("         multipliers", _numbers(best.multipliers)),
        ("         duality gap", f"{best.duality_gap:.1e}"),
        ("Slater gap", _numbers([best.slater_gap])),
    ]

    def add(label: str, evaluation: Evaluation) -> None:
        rows.append((f"{label}: reward", _numbers([evaluation.value])))
        rows.append((" " * len(label) + "  utilities", _numbers(evaluation.utilities)))

    add("best", ends.best[1])
    add("worst", ends.worst[1])
    add("uniform", ends.uniform[1])
    for i, (_, evaluation) in enumerate(ends.safest):
        add("safest" if cmdp.constraints == 1 else f"safest for {i}", evaluation)
    return rows


def truth_table(title: str, cmdps: Mapping[str, CMDP], method: Any = "decomposition") -> None:
    """Print the exact facts, one column a CMDP."""
    columns = {label: truth_rows(cmdp, method) for label, cmdp in cmdps.items()}
    table = plain_table(title, "", *columns)
    for rows in zip(*columns.values(), strict=True):
        table.add_row(rows[0][0], *(text for _, text in rows))
    show(table)
