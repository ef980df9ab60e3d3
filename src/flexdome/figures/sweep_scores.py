"""What every option of a sweep does to the score: all settings as points, and the best of each value as a line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from flexdome.analysis.frames import as_table
from flexdome.cmdp.validation import as_text, shown
from flexdome.errors import ValidationError
from flexdome.figures.axes import symlog
from flexdome.figures.style import COLOURS, TWO_COLUMNS, as_width, drawing, new_figure, readable

__all__ = ["sweep_figure"]

SCHEMA = {"learner": pl.String, "score": pl.Float64}
HEIGHT = 2.0  # inches
MOST = 100  # options
WRAP = 24  # characters of a line beside an axis of this height


def sweep_figure(
    table: pl.DataFrame,
    options: Mapping[str, Mapping[str, Any]],
    label: str = "Score",
    width: float = TWO_COLUMNS,
) -> Figure:
    """A panel for each option.

    Numbers lie on a logarithmic axis with a place for zero, if none is negative; words stand side by side. The score's
    axis is logarithmic too where no score is negative.

    Parameters
    ----------
    table : learner and score, as ``analysis.ranked_settings`` makes it
    options : the options of every learner of the table
    """
    table = as_table("table", table, SCHEMA)
    if not table.height:
        raise ValidationError("table has no rows; it must have one for each setting")
    if not isinstance(options, Mapping) or not all(isinstance(row, Mapping) for row in options.values()):
        raise ValidationError(f"options is {shown(options)}; it must have a dictionary of options for every learner")
    label, width = as_text("label", label), as_width(width)
    for k, name in enumerate(table["learner"]):
        if name not in options:
            raise ValidationError(f"table.learner[{k}] is {shown(name)}; options has {', '.join(map(str, options))}")
    rows = [options[name] for name in table["learner"]]
    names = list(dict.fromkeys(as_text("an option", key) for row in rows for key in row))
    if not names or len(names) > MOST:
        raise ValidationError(f"options has {len(names)} options; there must be from 1 to {MOST}")
    scores = table["score"].to_numpy()
    with drawing():
        figure = new_figure(width * max(len(names) / 3.0, 1.0), HEIGHT)
        panels = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
        for axes, name in zip(panels, names, strict=True):
            values = [row.get(name) for row in rows]
            places, words = _places(values)
            if words is None:
                symlog(axes, "x", places) if (places >= 0.0).all() else None
            else:
                axes.set_xticks(range(len(words)), [readable(word) for word in words])
                axes.set_xlim(-0.5, len(words) - 0.5)
            best = [float(scores[places == place].min()) for place in np.unique(places)]
            axes.plot(places, scores, ls="", marker="o", markersize=3, color=COLOURS["darkgrey"])
            axes.plot(np.unique(places), best, color=COLOURS["royalblue"], marker="o", markersize=3, lw=1.2)
            axes.set_xlabel(readable(name))
        if (scores >= 0.0).all():
            symlog(panels[0], "y", scores)
        panels[0].set_ylabel(readable(textwrap.fill(label, WRAP)))
        panels[0].set_title("Every setting, and the best of each value", loc="left", fontweight="bold")
    return figure


def _places(values: list[Any]) -> tuple[Any, list[str] | None]:
    """Where values lie on an axis, and the words of its places, where they are not all numbers."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.float64), None
    words = list(dict.fromkeys("default" if value is None else str(value) for value in values))
    at = {word: k for k, word in enumerate(words)}
    return np.array([float(at["default" if value is None else str(value)]) for value in values]), words
