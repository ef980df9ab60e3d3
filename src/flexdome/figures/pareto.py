"""Strong regret against strong violation: who is beaten in both, and who is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flexdome.analysis.frames import as_table, check_column
from flexdome.cmdp.validation import Float, as_array, as_items, as_text
from flexdome.errors import ValidationError
from flexdome.figures.axes import symlog
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

__all__ = ["pareto_figure", "pareto_front"]

Points = dict[str, tuple[float, float]]  # regret and violation of a learner

SCHEMA = {
    **dict.fromkeys(("environment", "learner", "metric"), pl.String),
    **dict.fromkeys(("mean", "se"), pl.Float64),
}
PER_ROW, FEW = 3, 9
MOST = 100  # points of a curve
MANY_PER_ROW, PAGE = 5, 10.0  # inches, where there are more than a few environments
LEAST = 0.1  # of the mean: a bar that ends lower does not stretch the axis
ROUNDING = 1e-6  # of a sum of gaps


def pareto_front(points: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Indices of the points (n, 2) that no other point beats in both numbers (smaller is better), from left to right.

    >>> pareto_front([[0.0, 5.0], [1.0, 6.0], [2.0, 1.0]]).tolist()
    [0, 2]
    """
    array, _ = as_array("points", points)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValidationError(f"points has shape {array.shape}; it must be (n, 2)")
    order = np.lexsort((array[:, 1], array[:, 0]))
    front, best = [], np.inf
    for k in order:
        if array[k, 1] < best:
            front.append(int(k))
            best = array[k, 1]
    return np.array(front, dtype=np.int64)


def pareto_figure(summary: pl.DataFrame, width: float | None = None, curve: Sequence[str] = ()) -> Figure:
    """A panel for each environment, a point with standard errors for each learner, and the front of the means.

    Both axes are logarithmic with a slot for zero, where also means below a millionth are: so much rounding leaves of
    sums over tens of thousands of episodes.

    Parameters
    ----------
    summary : as ``analysis.summary`` makes it
    width : in inches; None: two columns, or a page where there are more than nine environments
    curve : learners that are one learner with its dial turned, in that order: their points are joined, small, in the
        colour of the last
    """
    curve = [as_text(f"curve[{k}]", name) for k, name in enumerate(as_items("curve", curve, "it must be names", MOST))]
    wide = as_table("summary", summary, SCHEMA, nullable=("se",))
    wide = wide.filter(pl.col("metric").is_in(["strong_regret", "strong_violation"]))
    if not wide.height:
        raise ValidationError("the summary has neither strong_regret nor strong_violation")
    for column in (wide["mean"], wide["se"]):
        check_column("summary", column, (column >= 0.0).fill_null(True), "it must be at least 0")
    keys = ["environment", "learner"]
    for row in wide.group_by(keys, maintain_order=True).agg(pl.col("metric").sort()).iter_rows():
        if row[2] != ["strong_regret", "strong_violation"]:
            raise ValidationError(
                f"the summary has {', '.join(row[2])} of {row[1]} on {row[0]}; it must have strong_regret and "
                "strong_violation once each"
            )
    table = wide.pivot("metric", index=keys, values=["mean", "se"])
    environments = table["environment"].unique(maintain_order=True).to_list()
    names = table["learner"].unique(maintain_order=True).to_list()
    styles = styles_for(names)
    few = len(environments) <= FEW
    width = (TWO_COLUMNS if few else PAGE) if width is None else as_width(width)
    columns = min(PER_ROW if few else MANY_PER_ROW, len(environments))
    rows = -(-len(environments) // columns)
    side = width / max(columns, 2)
    with drawing():
        figure = new_figure(side * columns, 0.82 * side * rows)
        panels = figure.subplots(rows, columns, squeeze=False)
        for axes in panels.flat[len(environments) :]:
            axes.remove()
        for k, (axes, environment) in enumerate(zip(panels.flat, environments, strict=False)):
            part = table.filter(pl.col("environment") == environment)
            means = (part[f"mean_strong_{name}"].to_numpy() for name in ("regret", "violation"))
            x, y = (np.where(values < ROUNDING, 0.0, values) for values in means)
            for which, values, name in (("x", x, "regret"), ("y", y, "violation")):
                error = part[f"se_strong_{name}"].fill_null(0.0).to_numpy()
                low = (values - error)[values - error > LEAST * values]
                symlog(axes, which, np.concatenate([values, values + error, low]))
            _front(axes, np.column_stack([x, y]))
            _dial(axes, dict(zip(part["learner"], zip(x, y, strict=True), strict=True)), curve, styles)
            for i, name in enumerate(part["learner"]):
                if name in curve[:-1]:
                    continue
                style = styles[name]
                axes.errorbar(
                    x[i],
                    y[i],
                    xerr=part["se_strong_regret"][i],
                    yerr=part["se_strong_violation"][i],
                    color=style.colour,
                    marker=style.marker,
                    markersize=5,
                    markeredgecolor="white",
                    markeredgewidth=0.5,
                    elinewidth=0.8,
                    ls="",
                    zorder=3,
                )
            axes.set_title(readable(environment), loc="left", fontweight="bold")
            if k >= len(environments) - columns:
                axes.set_xlabel("Strong regret")
            if k % columns == 0:
                axes.set_ylabel("Strong violation")
        shown = [name for name in names if name not in curve[:-1]]
        marks = [Line2D([], [], color=styles[n].colour, marker=styles[n].marker, ls="", markersize=5) for n in shown]
        front = Line2D([], [], color="0.2", lw=0.8, ls=":")
        lines, said = [*marks, front], [*shown, "Pareto front"]
        if len(curve) > 1 and curve[-1] in styles:
            lines.append(Line2D([], [], color=styles[curve[-1]].colour, lw=1.0, marker=".", markersize=4))
            said.append(f"{curve[-1]}, its dial turned")
        legend_above(figure, lines, said)
    return figure


def _dial(axes: Axes, points: Points, curve: Sequence[str], styles: dict[str, LineStyle]) -> None:
    """The points of ``curve``, joined."""
    known = [points[name] for name in curve if name in points]
    if len(known) > 1:
        x, y = zip(*known, strict=True)
        colour = styles[curve[-1]].colour if curve[-1] in styles else "0.2"
        axes.plot(x, y, color=colour, lw=1.0, marker=".", ms=4, zorder=2)


def _front(axes: Axes, points: Float) -> None:
    """The border of what is not beaten: a staircase through the points of the front."""
    corner = points[pareto_front(points)]
    left, bottom = corner[0, 0], corner[-1, 1]
    high, right = axes.get_ylim()[1], axes.get_xlim()[1]
    x = np.concatenate([[left], corner[:, 0], [right]])
    y = np.concatenate([[high], corner[:, 1], [bottom]])
    axes.plot(x, y, drawstyle="steps-post", color="0.2", lw=0.8, ls=":", zorder=1)
