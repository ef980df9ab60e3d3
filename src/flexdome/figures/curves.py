"""Columns over episodes: what a learner does in each episode, and what that adds up to.

Figure 1 of the paper is three rows of it: stochastic thresholds, fixed thresholds, ablations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flexdome.analysis import Results
from flexdome.analysis.aggregation import CURVE_SCHEMA
from flexdome.analysis.frames import as_table, check_column
from flexdome.analysis.metrics import metric_label
from flexdome.cmdp.validation import Float, as_items, as_text, instance_of, one_of, shown, switch
from flexdome.errors import ValidationError
from flexdome.figures.axes import label_with_factor, robust_limits, symlog
from flexdome.figures.style import (
    TWO_COLUMNS,
    LineStyle,
    as_width,
    drawing,
    legend_above,
    new_figure,
    readable,
    styles_for,
)

__all__ = ["COLUMNS", "Row", "comparison_figure", "curves_figure"]

COLUMNS = ("gap", "violation", "strong_regret", "strong_violation")
LOGS = ("none", "x", "y", "both")
MOST_METRICS = 1000
SCHEMA = {name: kind for name, kind in CURVE_SCHEMA.items() if name != "n"}
MOST_ROWS = 1000
HEIGHT = 1.36  # of a row, in inches


@dataclass(frozen=True)
class Row:
    """One row of panels: its title, and the curves (of ``analysis.curves``) of one environment."""

    title: str
    curves: pl.DataFrame


def curves_figure(
    rows: Sequence[Row],
    width: float = TWO_COLUMNS,
    styles: dict[str, LineStyle] | None = None,
    share_y: bool = False,
    note: str = "",
    metrics: Sequence[str] = COLUMNS,
    log: str = "none",
) -> Figure:
    """Rows times metrics: mean over runs and a band of one standard error, one legend above all.

    Instantaneous values are those of single episodes, unsmoothed. Where an early spike would flatten everything else
    the panel is cut, and says above its right corner how far the values go.

    Parameters
    ----------
    styles : name of a learner to its line; None takes :func:`styles_for`
    share_y : the same limits in all rows of a column
    note : a line below the panels, such as which tuning the learners have
    metrics : a column for each; those of single constraints (``"violation_0"``) are in curves that were aggregated with
        ``constraints=True``, and a row whose environment has fewer constraints has an empty panel there. ``width`` is
        that of four, and is stretched for more
    log : which axes are logarithmic: ``"none"``, ``"x"``, ``"y"`` (with a place for zero; values below it are drawn as
        zero) or ``"both"``
    """
    items = as_items("rows", rows, "it must be a series of Row", MOST_ROWS)
    if not items:
        raise ValidationError("there are no rows to draw")
    named = as_items("metrics", metrics, "it must be names of metrics", MOST_METRICS)
    labels = dict(_labelled(f"metrics[{k}]", metric) for k, metric in enumerate(named))
    if not labels:
        raise ValidationError("metrics is empty; it must name what to draw")
    log = one_of("log", log, LOGS, "the axes that are logarithmic")
    rows = [_checked(f"rows[{k}]", row, labels) for k, row in enumerate(items)]
    width, share_y, note = as_width(width), switch("share_y", share_y), as_text("note", note)
    if styles is not None and not isinstance(styles, Mapping):
        raise ValidationError(f"styles is {shown(styles)}; it must be a dictionary of LineStyle by name")
    for name, style in (styles or {}).items():
        instance_of(f"styles[{shown(name)}]", style, LineStyle)
    names = list(dict.fromkeys(name for row in rows for name in row.curves["learner"].unique(maintain_order=True)))
    styles = {**styles_for(names), **(styles or {})}
    with drawing():
        figure = new_figure(width * max(len(labels) / len(COLUMNS), 1.0), HEIGHT * len(rows) + 0.25)
        panels = figure.subplots(len(rows), len(labels), squeeze=False, sharex=_same_episodes(rows))
        limits = {
            metric: {k: _limits(row, metric) for k, row in enumerate(rows) if _has(row, metric)} for metric in labels
        }
        lowest = {metric: max(found, default=-1) for metric, found in limits.items()}
        for k, row in enumerate(rows):
            for axes, (metric, label) in zip(panels[k], labels.items(), strict=True):
                curves = row.curves.filter(pl.col("metric") == metric)
                if not curves.height:
                    axes.set_axis_off()
                    continue
                low, high, clipped = limits[metric][k]
                if share_y:
                    both = limits[metric].values()
                    low, high = min(limit[0] for limit in both), max(limit[1] for limit in both)
                _panel(axes, curves, styles, 0.75 if _instantaneous(metric) else 1.0, log in ("y", "both"))
                last = "Episode" if k == lowest[metric] or not _same_episodes(rows) else ""
                if log in ("x", "both"):
                    axes.set_xlabel(last)
                else:
                    axes.set_xlim(0, _last(row))
                    label_with_factor(axes.xaxis, last)
                if log in ("y", "both"):
                    axes.set_ylabel(label)
                    _say_below_zero(axes, curves)
                else:
                    axes.set_ylim(low, high)
                    label_with_factor(axes.yaxis, label)
                    if clipped:
                        _say_clipped(axes, curves)
            for axes in panels[k] if log in ("x", "both") else ():
                axes.set_xlim(1, max(_last(row), 2))
                axes.set_xscale("log")
            above = 11.0 if panels[k][0].texts else None  # the note on what was cut stays readable
            panels[k][0].set_title(readable(row.title), loc="left", fontweight="bold", pad=above)
        if _same_episodes(rows):
            for column, below in enumerate(lowest.values()):
                for k, axes in enumerate(panels[:, column]):
                    axes.tick_params(labelbottom=k == below)
                    if k != below:
                        axes.set_xlabel("")
        handles = [Line2D([], [], color=styles[n].colour, ls=styles[n].pattern, lw=styles[n].width) for n in names]
        legend_above(figure, handles, names)
        if note:
            figure.supxlabel(readable(note), x=0.01, ha="left", fontsize=6.5, color="0.3")
        figure.align_ylabels()
    return figure


def comparison_figure(
    results: Results, width: float = TWO_COLUMNS, metrics: Sequence[str] = COLUMNS, log: str = "none"
) -> Figure:
    """A row for every environment of an experiment; ``metrics`` and ``log`` as in :func:`curves_figure`."""
    environments = instance_of("results", results, Results).curves["environment"].unique(maintain_order=True)
    rows = [Row(name, results.curves.filter(pl.col("environment") == name)) for name in environments]
    return curves_figure(rows, width, metrics=metrics, log=log)


def _instantaneous(metric: str) -> bool:
    return metric == "gap" or metric.startswith("violation")


def _labelled(where: str, metric: str) -> tuple[str, str]:
    """A metric and its label; the error says where it stands."""
    name = as_text(where, metric)
    try:
        return name, metric_label(name)
    except ValidationError as error:
        raise ValidationError(f"{where}: {error}") from None


def _checked(where: str, row: Row, metrics: Iterable[str]) -> Row:
    title = as_text(f"{where}.title", instance_of(where, row, Row).title)
    curves = as_table(f"{where}.curves", row.curves, SCHEMA, nullable=("se",))
    check_column(f"{where}.curves", curves["episode"], curves["episode"] >= 1, "it must be at least 1")
    row = Row(title, curves)
    if not row.curves.height:
        raise ValidationError(f"row {row.title!r} has no curves")
    environments = row.curves["environment"].unique(maintain_order=True).to_list()
    if len(environments) > 1:
        raise ValidationError(f"row {row.title!r} has curves of {', '.join(environments)}; a row shows one environment")
    known = set(row.curves["metric"])
    missing = [metric for metric in metrics if metric not in known and not _beyond(metric, known)]
    if missing:
        raise ValidationError(f"row {row.title!r} has no curves of {missing[0]}")
    return row


def _beyond(metric: str, known: Collection[str]) -> bool:
    """Whether ``metric`` is of a single constraint that an environment with the metrics ``known`` does not have."""
    whole, _, number = metric.rpartition("_")
    return number.isdigit() and whole in known


def _has(row: Row, metric: str) -> bool:
    return metric in row.curves["metric"]


def _last(row: Row) -> int:
    return int(row.curves["episode"].to_numpy().max())


def _same_episodes(rows: Sequence[Row]) -> bool:
    return len({_last(row) for row in rows}) == 1


def _bands(curves: pl.DataFrame) -> dict[str, tuple[Float, Float, Float, Float]]:
    """Of each learner: episodes, mean, mean less and plus one standard error (none where it is unknown)."""
    found = {}
    for (name,), group in curves.group_by(["learner"], maintain_order=True):
        group = group.sort("episode")
        mean, error = group["mean"].to_numpy(), group["se"].fill_null(0.0).to_numpy()
        found[str(name)] = group["episode"].to_numpy(), mean, mean - error, mean + error
    return found


def _limits(row: Row, metric: str) -> tuple[float, float, bool]:
    bands = _bands(row.curves.filter(pl.col("metric") == metric))
    edges = [(low, high) for _, _, low, high in bands.values()]
    if _instantaneous(metric) or metric.startswith("weak"):
        return robust_limits(edges)
    high = max(float(edge[1].max()) for edge in edges)
    return (-0.03 * high, 1.05 * high, False) if high > 0.0 else (-0.05, 1.0, False)


def _panel(axes: Axes, curves: pl.DataFrame, styles: dict[str, LineStyle], width: float, log: bool = False) -> None:
    bands = _bands(curves)
    if log:
        symlog(axes, "y", np.maximum(np.concatenate([mean for _, mean, _, _ in bands.values()]), 0.0))
    else:
        axes.axhline(0.0, color="0.75", lw=0.5, zorder=0.5)
    for k, (name, (t, mean, low, high)) in enumerate(bands.items()):
        style = styles[name]
        over = 3.0 + bool(style.dashes) - k / 100.0  # dashes over solid lines, so that equal curves are both seen
        if log:
            mean, low, high = (np.maximum(part, 0.0) for part in (mean, low, high))
        axes.fill_between(t, low, high, color=style.colour, alpha=0.2, lw=0, zorder=2.0)
        axes.plot(t, mean, color=style.colour, ls=style.pattern, lw=width * style.width, zorder=over, label=name)


def _say_below_zero(axes: Axes, curves: pl.DataFrame) -> None:
    if (curves["mean"] < 0.0).any():
        said = "values below 0 are drawn as 0"
        axes.text(1.0, 1.01, said, transform=axes.transAxes, ha="right", va="bottom", fontsize=6, color="0.35")


def _say_clipped(axes: Axes, curves: pl.DataFrame) -> None:
    low, high = axes.get_ylim()
    bands = _bands(curves).values()
    bottom, top = min(float(band[2].min()) for band in bands), max(float(band[3].max()) for band in bands)
    parts = [f"up to {top:.2g}"] if top > high else []
    parts += [f"down to {bottom:.2g}"] if bottom < low else []
    if parts:
        text = f"cut: {', '.join(parts)}".replace("-", "\N{MINUS SIGN}")
        axes.text(1.0, 1.01, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=6, color="0.35")
