"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from flexdome.cmdp import CMDP
from flexdome.planning import Evaluation, baselines, solve

__all__ = ["fitted", "lines", "plain_table", "say", "show", "truth_table"]

BETWEEN = 3  # spaces between two columns; one before the first, one behind the last


def plain_table(title: str, *columns: str) -> Table:
    """An empty table in our style; a word too long for a narrow terminal is folded, never cut."""
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    return table


def show(table: Table, keys: int = 1) -> None:
    """Print a table whole: a pipe or a file gets the width it needs, a terminal what :func:`fitted` makes of it."""
    console = Console(markup=False, emoji=False)  # a label is shown as it was written
    if console.is_terminal:
        for part in fitted(table, console.width, keys):
            console.print(part)
        return
    width = max(console.measure(table, options=console.options.update(width=1000)).maximum, 20)
    Console(width=width, markup=False, emoji=False).print(table)


def say(text: str) -> None:
    """Print a sentence: a terminal wraps it between words, a pipe or a file gets one line."""
    console = Console(markup=False, emoji=False, highlight=False)
    if console.is_terminal:
        console.print(text)
    else:
        print(text)


def fitted(table: Table, width: int, keys: int = 1) -> list[Table]:
    """A table of texts for a terminal: no word is split, and columns that do not fit go below the others.

    What is below has the first ``keys`` columns again.
    """
    cells = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    least = [max(_least(text) for text in column) for column in cells]
    most = [max(cell_len(text) for text in column) for column in cells]
    parts = [list(range(min(keys, len(cells))))]
    for k in range(keys, len(cells)):
        if len(parts[-1]) > keys and sum(least[j] + BETWEEN for j in (*parts[-1], k)) > width + 1:
            parts.append(parts[0][:keys])
        parts[-1].append(k)
    found = []
    for number, part in enumerate(parts):
        piece = plain_table(str(table.title or "") if number == 0 else "", *(cells[k][0] for k in part))
        room = width + 1 - sum(least[k] + BETWEEN for k in part)
        for left, k in zip(range(len(part), 0, -1), sorted(part, key=lambda k: most[k] - least[k]), strict=True):
            more = max(min(most[k] - least[k], room // left), 0)
            room -= more
            if room >= 0:
                piece.columns[part.index(k)].width = least[k] + more
        for row in zip(*(cells[k][1:] for k in part), strict=True):
            piece.add_row(*row)
        found.append(piece)
    return found


def _least(text: str) -> int:
    """The width below which a text would lose more than its spaces; a number stays with its error."""
    words = [text] if "±" in text else text.split()
    return max(map(cell_len, words), default=0)


def lines(page: Iterable[tuple[str, str]]) -> None:
    """Print words and what they stand for, side by side; a word that is the one before is not said again."""
    rows = list(page)
    rows = [("" if k and word == rows[k - 1][0] else word, text) for k, (word, text) in enumerate(rows)]
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        wide = max((len(word) for word, _ in rows), default=0)
        print("\n".join(f"{word:<{wide}}  {text}" for word, text in rows))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    console.print(table)


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
