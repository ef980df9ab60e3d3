"""A figure for each statement: both sides over episodes, and the level above which a bound says nothing."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from flexdome.audit.exponents import ExponentRow
from flexdome.audit.findings import Finding, Series
from flexdome.audit.theorem_2 import LastIterates
from flexdome.errors import ValidationError
from flexdome.figures.style import ONE_COLUMN, TWO_COLUMNS, as_width, drawing, legend_above, new_figure

__all__ = ["counts_figure", "exponents_figure", "finding_figure", "last_iterate_figure", "statements_figure"]

LEFT, RIGHT, LEVEL = "#DC143C", "#4169E1", "0.55"
MOST = 5  # runs drawn
NAMES = {"measured": LEFT, "bound": RIGHT, "says nothing above": LEVEL}


def finding_figure(finding: Finding, width: float = ONE_COLUMN) -> Figure:
    """Left-hand side and bound of one statement, over episodes."""
    if not finding.series:
        raise ValidationError(f"{finding.key} has no series to draw")
    with drawing():
        figure = new_figure(as_width(width), 2.4)
        axes = figure.subplots()
        _draw(axes, finding)
        _legend(figure, finding.trivial is not None)
    return figure


def statements_figure(findings: Sequence[Finding], width: float = TWO_COLUMNS) -> Figure:
    """Several statements side by side, three in a row."""
    drawn = [finding for finding in findings if finding.series]
    if not drawn:
        raise ValidationError("there is no statement with a series to draw")
    rows = -(-len(drawn) // 3)
    with drawing():
        figure = new_figure(as_width(width), 0.25 + 2.1 * rows)
        grid = np.atleast_1d(figure.subplots(rows, min(3, len(drawn)))).ravel()
        for axes, finding in zip(grid, drawn, strict=False):
            _draw(axes, finding)
        for axes in grid[len(drawn) :]:
            axes.set_visible(False)
        _legend(figure, any(finding.trivial is not None for finding in drawn))
    return figure


def _legend(figure: Figure, level: bool) -> None:
    names = list(NAMES) if level else list(NAMES)[:2]
    dashes = {"measured": "-", "bound": "--", "says nothing above": ":"}
    handles = [Line2D([], [], color=NAMES[name], ls=dashes[name], lw=1.2) for name in names]
    legend_above(figure, handles, names)


def _draw(axes: Axes, finding: Finding) -> None:
    shown = finding.series[:MOST]
    positive = all(bool((one.right > 0.0).all()) for one in shown)
    logarithmic = positive and any(bool((one.left > 0.0).any()) for one in shown)
    for one in shown:
        marker = "o" if one.t.size == 1 else ""
        left = np.where(one.left > 0.0, one.left, np.nan) if logarithmic else one.left
        axes.plot(one.t, left, color=LEFT, lw=0.9, alpha=0.8, marker=marker, ms=3)
        axes.plot(one.t, one.right, color=RIGHT, lw=0.9, ls="--", alpha=0.8, marker=marker, ms=3)
    if finding.trivial is not None:
        axes.axhline(finding.trivial, color=LEVEL, lw=0.8, ls=":", zorder=0.5)
    if max(one.t[-1] for one in shown) > 1:
        axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
    elif (span := _signed_span(shown)) is not None:
        axes.set_yscale("symlog", linthresh=span)
        high = math.floor(math.log10(max(float(np.abs(side).max()) for one in shown for side in (one.left, one.right))))
        middle = (high + math.ceil(math.log10(span))) // 2
        axes.set_yticks([-(10.0**high), -(10.0**middle), 0.0, 10.0**middle, 10.0**high])
        axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Episode")
    axes.set_ylabel(finding.axis[:1].upper() + finding.axis[1:])
    text = "\n".join(textwrap.wrap(finding.statement, 48)[:3] + textwrap.wrap(finding.verdict, 48)[:2])
    axes.set_title(text.replace("$", ""), fontsize=6, loc="left")


def _signed_span(series: Sequence[Series]) -> float | None:
    """Where a signed axis becomes logarithmic: None for values of much the same size."""
    sizes = np.abs(np.concatenate([side for one in series for side in (one.left, one.right)]))
    sizes = sizes[sizes > 0.0]
    if sizes.size < 10 or sizes.max() < 1e3 * np.median(sizes):
        return None
    return float(np.quantile(sizes, 0.1))


def counts_figure(findings: Sequence[Finding], width: float = TWO_COLUMNS) -> Figure:
    """In which share of the runs each statement of probability failed, beside what is claimed."""
    rows = [finding for finding in findings if finding.share is not None]
    if not rows:
        raise ValidationError("there is no statement of probability to draw")
    with drawing():
        figure = new_figure(as_width(width), 0.6 + 0.19 * len(rows))
        axes = figure.subplots()
        y = np.arange(len(rows))[::-1]
        axes.plot([f.share or 0.0 for f in rows], y, "o", color=LEFT, ms=4, label="failed")
        axes.plot([f.allowed or 0.0 for f in rows], y, "|", color=RIGHT, ms=9, mew=1.4, label="claimed at most")
        axes.set_yticks(y, [f"{f.statement}, {f.setting}" for f in rows])
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xlabel("Share of runs")
        axes.grid(axis="y", color="0.93", lw=0.5)
        handles = [
            Line2D([], [], color=LEFT, marker="o", ls="", ms=4),
            Line2D([], [], color=RIGHT, marker="|", ls="", ms=9),
        ]
        legend_above(figure, handles, ["failed", "claimed at most"])
    return figure


def last_iterate_figure(runs: Sequence[LastIterates], width: float = TWO_COLUMNS) -> Figure:
    """Gap and violation of the last iterate against epsilon, with the line epsilon^1 and the fitted order."""
    if not runs:
        raise ValidationError("there is no run to draw")
    with drawing():
        figure = new_figure(as_width(width), 2.3)
        gap, short = figure.subplots(1, 2)
        for run in runs[:20]:
            gap.plot(
                run.epsilon, np.where(run.gap > 0, run.gap, np.nan), color=LEFT, lw=0.7, marker="o", ms=2, alpha=0.7
            )
            short.plot(run.epsilon, run.violation, color=LEFT, lw=0.7, marker="o", ms=2, alpha=0.7)
            short.plot(run.epsilon, run.late_violation, color=RIGHT, lw=0.7, ls="--", alpha=0.7)
        epsilon = runs[0].epsilon
        level = float(np.nanmedian([run.gap / run.epsilon for run in runs]))
        gap.plot(epsilon, level * epsilon, color=LEVEL, lw=0.9, ls=":")
        orders = [run.order[0] for run in runs]
        gap.set_title(
            f"Fitted order {np.mean(orders):.2f} ({min(orders):.2f} to {max(orders):.2f})", fontsize=7.5, loc="left"
        )
        gap.set_xscale("log")
        gap.set_yscale("log")
        short.set_xscale("log")
        short.axhline(0.0, color=LEVEL, lw=0.8, ls=":")
        short.set_title("Zero or less is safe", fontsize=7.5, loc="left")
        gap.set_ylabel("Gap of the last policy")
        short.set_ylabel("Signed violation")
        ticks = [x for x in (0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5) if epsilon.min() * 0.99 <= x <= epsilon.max() * 1.01]
        for axes in (gap, short):
            axes.set_xlabel("$\\varepsilon$")
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
            axes.set_xticks([], minor=True)
        names = ["last policy", "largest in the second half", "$\\propto \\varepsilon$, zero"]
        handles = [Line2D([], [], color=c, ls=d) for c, d in ((LEFT, "-"), (RIGHT, "--"), (LEVEL, ":"))]
        legend_above(figure, handles, names)
    return figure


def exponents_figure(rows: Sequence[ExponentRow], width: float = TWO_COLUMNS) -> Figure:
    """Median strong regret and strong violation of every pair of exponents; the paper's pair is ringed."""
    if not rows:
        raise ValidationError("there is no pair of exponents to draw")
    taus = sorted({row.tau for row in rows})
    with drawing():
        figure = new_figure(as_width(width), 2.4)
        regret, violation = figure.subplots(1, 2)
        etas = sorted({row.eta for row in rows})
        shades = [str(0.75 - 0.75 * k / max(len(etas) - 1, 1)) for k in range(len(etas))]
        for eta, shade in zip(etas, shades, strict=True):
            some = sorted((row for row in rows if row.eta == eta), key=lambda row: row.tau)
            x = [float(row.tau) for row in some]
            for axes, name in ((regret, "regret"), (violation, "violation")):
                axes.plot(x, [getattr(row, f"{name}_median") for row in some], color=shade, lw=1.0, marker="o", ms=2.5)
        ours = [row for row in rows if (str(row.eta), str(row.tau)) == ("5/6", "1/6")]
        for row in ours:
            regret.plot(float(row.tau), row.regret_median, "o", mfc="none", color=LEFT, ms=8)
            violation.plot(float(row.tau), row.violation_median, "o", mfc="none", color=LEFT, ms=8)
        violation.set_yscale("symlog", linthresh=1.0)
        violation.set_ylim(bottom=-0.3)
        regret.set_ylim(bottom=0.0)
        for axes, label in ((regret, "Strong regret, median"), (violation, "Strong violation, median")):
            axes.set_xticks([float(x) for x in taus], [str(x) for x in taus])
            axes.set_xlabel("Exponent of $\\tau_t$ and $\\epsilon_t$")
            axes.set_ylabel(label)
        handles = [Line2D([], [], color=shade, marker="o", ms=2.5) for shade in shades]
        handles.append(Line2D([], [], color=LEFT, marker="o", mfc="none", ls="", ms=7))
        legend_above(figure, handles, [f"$\\eta_t = t^{{-{eta}}}$" for eta in etas] + ["the paper's"])
    return figure
