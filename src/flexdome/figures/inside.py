"""What ProxDOME knew, and what was true: one run from the inside."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from flexdome.cmdp.validation import as_int, instance_of
from flexdome.errors import ValidationError
from flexdome.figures.style import TWO_COLUMNS, as_width, drawing, legend_above, new_figure
from flexdome.simulation import History

__all__ = ["inside_figure"]

NEEDED = ("utilities", "errors", "margin", "thresholds", "untried")
TRUE, PLUG_IN, SURE = "#DC143C", "#4169E1", "0.55"


def inside_figure(history: History, constraint: int = 0, width: float = TWO_COLUMNS) -> Figure:
    """Three panels over episodes on a logarithmic axis, for one constraint of a run of ``proxdome``.

    Slack: the true one (utility less threshold), the plug-in estimate, and what is left of it after the margin, which
    is held at zero once a policy can be shown safe. Then the margin beside the error that was really made, and the
    (step, state, action) never tried in states that were visited.
    """
    missing = [name for name in NEEDED if name not in instance_of("history", history, History).diagnostics]
    if missing:
        raise ValidationError(f"the history has no {missing[0]}; it must be of a run of proxdome")
    m = history.violation.shape[0]
    constraint, width = as_int("constraint", constraint, 0, m - 1), as_width(width)
    if history.last == history.first or history.episodes.size != history.multipliers.shape[1]:
        raise ValidationError(
            f"the history has {history.episodes.size} evaluated episodes of {history.multipliers.shape[1]}; "
            "it must have all of two or more"
        )
    t = np.arange(history.first, history.last + 1)
    at = np.unique(np.geomspace(1, t.size, 600).astype(np.int64)) - 1
    series = {name: np.atleast_2d(history.diagnostics[name])[:, at] for name in NEEDED}
    guess = series["utilities"][constraint] - series["thresholds"][constraint]
    true = -history.violation[constraint, at]
    margin = series["margin"][constraint]
    with drawing():
        figure = new_figure(width, 2.0)
        slack, error, never = figure.subplots(1, 3)
        slack.axhline(0.0, color="0.75", lw=0.5, zorder=0.5)
        for values, colour in ((guess, PLUG_IN), (guess - margin, SURE), (true, TRUE)):
            slack.plot(t[at], values, color=colour, lw=1.0)
        slack.set_ylabel("Utility less threshold")
        spread = max(float(np.abs(true).max()), 1e-3)
        slack.set_ylim(-1.5 * spread, 1.5 * spread)
        error.plot(t[at], margin, color=SURE, lw=1.0)
        error.plot(t[at], np.abs(guess - true), color=PLUG_IN, lw=0.6, alpha=0.8)
        error.set_yscale("log")
        error.set_ylabel("Margin, and error made")
        never.plot(t[at], series["untried"][0], color="0.2", lw=1.0)
        never.set_ylim(bottom=0.0)
        never.set_ylabel("Actions never tried")
        for axes in (slack, error, never):
            axes.set_xscale("log")
            axes.set_xlim(t[0], t[-1])
            axes.set_xlabel("Episode")
        names = {"true slack": TRUE, "plug-in estimate": PLUG_IN, "less its margin": SURE}
        legend_above(figure, [Line2D([], [], color=colour) for colour in names.values()], list(names))
    return figure
