"""Figure 2 of the paper: what the scale of the bonus and of the margin do to regret and violation."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flexdome.analysis.frames import as_table, check_column
from flexdome.cmdp.validation import LARGEST, as_float, as_text, shown
from flexdome.errors import ValidationError
from flexdome.figures.axes import label_with_factor, symlog
from flexdome.figures.style import TWO_COLUMNS, as_width, drawing, legend_above, new_figure, readable, styles_for

__all__ = ["sensitivity_figure"]

SCHEMA = {
    **dict.fromkeys(("environment", "metric"), pl.String),
    **dict.fromkeys(("scale", "mean", "se"), pl.Float64),
}
CHOSEN = {"bonus": 1e-3, "margin": 1e-5}  # the paper's
METRICS = {"strong_regret": "Strong regret", "strong_violation": "Strong violation"}
TITLES = {"bonus": "(a) Exploration bonus", "margin": "(b) Safety margin"}
LABELS = {"bonus": "Bonus scale $c_b$", "margin": "Margin scale $c_\\epsilon$"}


def sensitivity_figure(
    bonus: pl.DataFrame,
    margin: pl.DataFrame,
    chosen: Mapping[str, float] = CHOSEN,
    width: float = 0.8 * TWO_COLUMNS,
    note: str = "",
) -> Figure:
    """Final strong regret (above) and strong violation (below) against the scale of (a) the bonus, (b) the margin.

    Mean and standard error over runs; a vertical line marks the chosen scale; scale 0 has a slot of its own on the
    logarithmic axis. Where there are several environments each has its line.

    Parameters
    ----------
    bonus, margin : as ``analysis.sensitivity`` makes them: environment, scale, metric, mean, se, n
    chosen : scales to mark, under ``"bonus"`` and ``"margin"``
    note : a line below the panels
    """
    given = {"bonus": bonus, "margin": margin}
    frames = {name: as_table(name, frame, SCHEMA, nullable=("se",)) for name, frame in given.items()}
    if not isinstance(chosen, Mapping):
        raise ValidationError(f"chosen is {shown(chosen)}; it must be a dictionary of scales")
    marked = {name: as_float(f"chosen[{name!r}]", chosen[name], 0.0, LARGEST) for name in frames if name in chosen}
    width, note = as_width(width), as_text("note", note)
    for name, frame in frames.items():
        for values in (frame["scale"], frame["se"]):
            check_column(name, values, (values >= 0.0).fill_null(True), "it must be at least 0")
        for metric in METRICS:
            if metric not in frame["metric"]:
                raise ValidationError(f"the table of the {name}'s scale has no {metric}")
    names = list(dict.fromkeys(name for frame in frames.values() for name in frame["environment"]))
    styles = styles_for(["FlexDOME"] if len(names) == 1 else names)
    with drawing():
        figure = new_figure(width, 0.62 * width)
        panels = figure.subplots(2, 2, sharex="col")
        for column, (name, frame) in enumerate(frames.items()):
            for axes, (metric, label) in zip(panels[:, column], METRICS.items(), strict=True):
                rows = frame.filter(pl.col("metric") == metric)
                symlog(axes, "x", rows["scale"].to_numpy())
                axes.axhline(0.0, color="0.75", lw=0.5, zorder=0.5)
                for environment, style in zip(names, styles.values(), strict=True):
                    line = rows.filter(pl.col("environment") == environment).sort("scale")
                    x, mean = line["scale"].to_numpy(), line["mean"].to_numpy()
                    error = line["se"].fill_null(0.0).to_numpy()
                    axes.fill_between(x, mean - error, mean + error, color=style.colour, alpha=0.18, lw=0)
                    axes.errorbar(
                        x,
                        mean,
                        yerr=error,
                        color=style.colour,
                        ls=style.pattern,
                        lw=style.width,
                        marker=style.marker,
                        markersize=3.5,
                        elinewidth=0.8,
                        capsize=2.0,
                    )
                if name in marked:
                    axes.axvline(marked[name], color="0.35", lw=0.8, ls=(0, (4.0, 2.0)), zorder=1.0)
                low, high = axes.get_ylim()
                axes.set_ylim(min(low, -0.03 * high), high)
                label_with_factor(axes.yaxis, label)
            panels[0, column].set_title(TITLES[name], loc="left", fontweight="bold")
            panels[1, column].set_xlabel(LABELS[name])
        handles = [Line2D([], [], color="0.35", lw=0.8, ls=(0, (4.0, 2.0)))]
        legend = ["selected scale"]
        if len(names) > 1:
            handles = [
                *(Line2D([], [], color=s.colour, ls=s.pattern, lw=s.width, marker=s.marker) for s in styles.values()),
                *handles,
            ]
            legend = [*names, *legend]
        if marked or len(names) > 1:
            legend_above(figure, handles, legend)
        if note:
            figure.supxlabel(readable(note), x=0.01, ha="left", fontsize=6.5, color="0.3")
        figure.align_ylabels()
    return figure
