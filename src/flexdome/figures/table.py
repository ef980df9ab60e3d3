"""Table 1 with what was measured: typeset, and as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flexdome.analysis.frames import as_table, check_column
from flexdome.analysis.statistics import of_few_runs
from flexdome.analysis.table_1 import SCHEMA
from flexdome.analysis.verdicts import PAPER_EPISODES, PAPER_SEEDS
from flexdome.figures.style import drawing, extent, readable
from flexdome.learners import LEARNERS
from flexdome.learners.registry import UNCLAIMED

__all__ = ["table_cells", "table_figure", "table_markdown"]

LINE, FINE, GAP, PAD = 0.185, 0.14, 0.16, 0.08  # inches: a line, one of the note, between columns, around the table
HEAD = (
    "Algorithm",
    "Strong regret",
    "Strong violation",
    "Last\niterate",
    "Unknown\nsafe policy",
    "Stochastic\nthreshold",
)
MEASURED = ("Measured on", "Regret exponent", "Violation exponent")
SURE = ("part", "algorithm", "id", "claimed_regret", "claimed_violation", "status")  # never null
WHERE = ("setting", "environment", "episodes", "n")  # not null where something was measured
SMALL = 6.5
DASH = "\N{EN DASH}"
DECLARED = "Only where the range or the scale of the threshold's samples is declared."
SCALES, WORDS = re.compile(r"\bc_([be])\b"), {"b": "bonus", "e": "margin"}
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def table_cells(table: pl.DataFrame) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    """Heads, texts and notes of the table of ``analysis.table1``, for whoever sets them in type."""
    table = _checked(table)
    return (
        [text.replace("\n", " ") for text in (*HEAD, *MEASURED)],
        _cells(table, _plain_rate, ("✓", "✗")),
        _note(table),
    )


def table_markdown(table: pl.DataFrame) -> str:
    """The table of ``analysis.table1`` in Markdown, measured exponents with their 95 % intervals, and its note.

    >>> from flexdome.analysis import table1
    >>> print(table_markdown(table1()).splitlines()[2])
    | OPTAUG-CMDP | Õ(√T) | Õ(√T) | ✗ | ✗ | ✗ | not run | | |
    """
    head, rows, note = table_cells(table)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for cells in rows:
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    for sentence in note:
        lines += ["", sentence]
    return "\n".join(lines) + "\n"


def table_figure(table: pl.DataFrame) -> Figure:
    """The table of ``analysis.table1`` as a figure, as wide and as high as its text."""
    table = _checked(table)
    rows = _cells(table, _math_rate, ("$\\checkmark$", "$\\times$"))
    breaks = [k for k in range(1, table.height) if table["part"][k] != table["part"][k - 1]]
    head = (*HEAD, *MEASURED)
    with drawing():
        figure = Figure()
        FigureCanvasAgg(figure)
        columns = list(zip(head, *rows, strict=True))
        widths = [max(_width(figure, text, k == 0) for k, text in enumerate(column)) for column in columns]
        width = sum(widths) + GAP * (len(widths) - 1) + 2 * PAD
        note = _note(table)
        height = LINE * len(rows) + 0.06 * len(breaks) + FINE * len(note) + 0.67 + 2 * PAD
        figure.set_size_inches(width, height)
        y = height - PAD - 0.04
        left = [PAD + sum(widths[:k]) + GAP * k for k in range(len(widths))]

        def rule(y: float, weight: float, start: float = PAD, end: float = width - PAD) -> None:
            x = [start / width, end / width]
            figure.add_artist(Line2D(x, [y / height] * 2, lw=weight, color="black", transform=figure.transFigure))

        def put(k: int, y: float, text: str, **options: Any) -> None:
            first = k in (0, 6)
            x = left[k] if first else left[k] + widths[k] / 2
            figure.text(x / width, y / height, readable(text), ha="left" if first else "center", va="center", **options)

        rule(y, 0.9)
        y -= 0.13
        put_group = (left[1] + left[5] + widths[5]) / 2, (left[6] + left[8] + widths[8]) / 2
        for x, text, ends in zip(put_group, ("claimed", "measured"), ((1, 5), (6, 8)), strict=True):
            figure.text(x / width, y / height, text, ha="center", va="center", style="italic", fontsize=SMALL + 1)
            rule(y - 0.08, 0.4, left[ends[0]], left[ends[1]] + widths[ends[1]])
        y -= 0.25
        for k, text in enumerate(head):
            put(k, y, text, fontweight="bold", linespacing=1.0)
        y -= 0.19
        rule(y, 0.5)
        y -= LINE / 2 + 0.03
        for number, row in enumerate(rows):
            if number in breaks:
                rule(y + LINE / 2 - 0.02, 0.4)
                y -= 0.06
            ours = table["id"][number] == "flexdome" and table["part"][number] == "paper"
            for k, text in enumerate(row):
                quiet = text in ("not run", "none")
                put(k, y, text, color="0.5" if quiet else "black", fontweight="bold" if ours and k == 0 else "normal")
            y -= LINE
        rule(y + LINE / 2 - 0.03, 0.9)
        for k, sentence in enumerate(note):
            figure.text(PAD / width, (y - 0.05 - FINE * k) / height, sentence, ha="left", va="center", fontsize=SMALL)
    return figure


def _checked(table: pl.DataFrame) -> pl.DataFrame:
    table = as_table("table", table, SCHEMA, nullable=[name for name in SCHEMA if name not in SURE])
    status = table["status"]
    check_column("table", status, status.is_in(["measured", "not run"]), "it must be 'measured' or 'not run'")
    for name in WHERE:
        known = table[name].is_not_null() | (status != "measured")
        check_column("table", table[name], known, "it must be known where the status is 'measured'")
    return table


def _note(table: pl.DataFrame) -> list[str]:
    """How the exponents were measured, and what the signs mean: a sentence or two a line."""
    measured = table.filter(pl.col("status") == "measured")
    lines = []
    if measured.height:
        episodes, runs = (_range(measured[name].unique().sort().to_list()) for name in ("episodes", "n"))
        lines.append(
            "Exponent: slope of log mean cumulative series over log t for t in [T/16, T], with a 95 % bootstrap "
            f"interval over seeds; T = {episodes}, n = {runs}. None: the series is zero for nearly all of these t."
        )
        few = of_few_runs(measured["n"].to_list())
        lines += [few] if few else []
        short = (measured["episodes"] != PAPER_EPISODES) | (measured["n"] < PAPER_SEEDS)
        if short.any():
            lines.append(f"Not the paper's setting, which is T = {PAPER_EPISODES:,} and {PAPER_SEEDS} seeds.")
    if table["last_iterate"].has_nulls():
        lines.append(f"{DASH}: nothing is claimed.")
    return lines + [f"{mark} {sentence}" for sentence, mark in _marks(table).items()]


def _marks(table: pl.DataFrame) -> dict[str, str]:
    """What a tick presumes, and what a row was measured with that its paper does not say, with their raised numbers."""
    rows = list(table.iter_rows(named=True))
    found = [sentence for row in rows for sentence in (*_presumed(row), *_unlike_the_paper(row))]
    return {sentence: str(k).translate(RAISED) for k, sentence in enumerate(dict.fromkeys(found), 1)}


def _presumed(row: dict[str, Any]) -> list[str]:
    """What must be declared for the tick of stochastic thresholds to hold."""
    if not row["stochastic_threshold"] or row["id"] not in LEARNERS:
        return []
    told = inspect.signature(LEARNERS[row["id"]].load()).parameters
    return [DECLARED] if {"threshold_range", "threshold_scale"} <= set(told) else []


def _unlike_the_paper(row: dict[str, Any]) -> list[str]:
    sentences = []
    replan, slack = row["replan"], row["safe_slack"]
    if replan not in (None, "episode"):
        if replan == "doubling":
            rule = "when the visits of some cell have doubled"
        elif replan.isdecimal():
            rule = f"every {replan} episodes"
        else:
            rule = f"when the number of episodes has grown by the factor {replan}"
        sentences.append(f"Plans anew {rule}; its paper plans in every episode.")
    if slack is not None:
        sentences.append(f"Was given a safe policy whose slack is {slack:g} of the exact Slater gap.")
    return sentences


def _range(values: list[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _width(figure: Figure, text: str, bold: bool) -> float:
    """In inches."""
    if not text:
        return 0.0
    artist = figure.text(0.0, 0.0, readable(text), fontweight="bold" if bold else "normal")
    box = extent(figure, artist)
    artist.remove()
    return float(box.width / figure.dpi)


def _cells(table: pl.DataFrame, rate: Callable[[str], str], marks: tuple[str, str]) -> list[tuple[str, ...]]:
    """The texts; what is claimed of an algorithm stands once, in the first of its rows."""
    found, before, notes = [], None, _marks(table)
    for row in table.iter_rows(named=True):
        claims: tuple[str, ...] = ("",) * len(HEAD)
        if row["id"] != before:
            flags = ("last_iterate", "unknown_safe_policy", "stochastic_threshold")
            claims = (
                row["algorithm"],
                rate(row["claimed_regret"]),
                rate(row["claimed_violation"]),
                *(DASH if row[flag] is None else marks[not row[flag]] for flag in flags),
            )
            claims = (*claims[:-1], "".join([claims[-1], *(notes[sentence] for sentence in _presumed(row))]))
        before = row["id"]
        if row["status"] == "not run":
            found.append((*claims, "not run", "", ""))
            continue
        same = row["setting"].lower() in (row["algorithm"].lower(), row["id"])
        setting = SCALES.sub(lambda found: f"{WORDS[found[1]]} scale", row["setting"])
        tuning = f"{row['tuning']} tuning" if row["tuning"] else None
        where = ", ".join(text for text in (row["environment"], None if same else setting, tuning) if text)
        where = " ".join([where, *(notes[sentence] for sentence in _unlike_the_paper(row))])
        found.append((*claims, where, _exponent(row, "regret"), _exponent(row, "violation")))
    return found


def _exponent(row: dict[str, Any], prefix: str) -> str:
    value, low, high = (row[f"{prefix}_{name}"] for name in ("exponent", "low", "high"))
    if value is None:
        return "none"
    text = f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"
    return text.replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")


def _split(claim: str) -> tuple[str, str]:
    """``"T^(5/6), strong"`` to rate and kind."""
    rate, _, kind = claim.partition(", ")
    return rate, f" ({kind})" if kind and kind != "strong" else ""


def _plain_rate(claim: str) -> str:
    rate, kind = _split(claim)
    known = {"sqrt(T)": "Õ(√T)", "near-constant": "Õ(1)", "zero": "0", UNCLAIMED: DASH}
    return known.get(rate, f"Õ({rate})" if re.fullmatch(r"T\^\S+", rate) else rate) + kind


def _math_rate(claim: str) -> str:
    rate, kind = _split(claim)
    known = {
        "sqrt(T)": "$\\tilde{O}(\\sqrt{T})$",
        "near-constant": "$\\tilde{O}(1)$",
        "zero": "0",
        UNCLAIMED: DASH,
    }
    power = re.fullmatch(r"T\^\(?([^()\s]+)\)?", rate)
    return known.get(rate, f"$\\tilde{{O}}(T^{{{power[1]}}})$" if power else rate) + kind
