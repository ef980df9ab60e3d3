"""What a policy plays in every state at every step, and how often that was seen: two maps."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from flexdome.cmdp.validation import Float, instance_of
from flexdome.errors import ValidationError
from flexdome.figures.style import TWO_COLUMNS, as_width, drawing, legend_above, new_figure
from flexdome.policies import Policy

__all__ = ["policy_figure"]

COLOURS = ("#4169E1", "#E69F00", "#009E73", "#DC143C", "#9467BD", "#8C564B", "#17BECF", "#BCBD22")
UNSEEN = "0.92"
NAMED, LONGEST_NAME = 14, 24  # states whose names are written, and letters of a name


def policy_figure(policy: Policy, width: float = TWO_COLUMNS) -> Figure:
    """Steps across, states downwards. On the left the likeliest action, the paler the less likely; on the right the
    visits.

    A state that was never seen at a step is grey on both sides: nothing was learned of it. Without visits there is one
    map. Colours repeat from the ninth action on.
    """
    pi = instance_of("policy", policy, Policy).policy
    width = as_width(width)
    A = pi.shape[2]
    if A > len(COLOURS) * 4:
        raise ValidationError(f"policy has {A} actions; at most {len(COLOURS) * 4} can be told apart in a map")
    seen = None if policy.visits is None else policy.visits.sum(axis=-1).T
    with drawing():
        figure = new_figure(width, 2.6)
        panels = figure.subplots(1, 1 if seen is None else 2, sharey=True, squeeze=False)[0]
        panels[0].imshow(_coloured(pi, seen), aspect="auto", interpolation="nearest", origin="upper")
        panels[0].set_ylabel("State")
        panels[0].set_title("Likeliest action", fontsize="medium")
        if seen is not None and seen.max() > 0.0:
            shown = np.ma.masked_equal(seen, 0.0)
            panels[1].set_facecolor(UNSEEN)
            norm = LogNorm(1.0, max(float(seen.max()), 10.0))
            image = panels[1].imshow(shown, aspect="auto", interpolation="nearest", cmap="cividis", norm=norm)
            figure.colorbar(image, ax=panels[1], label="Visits")
        if seen is not None:
            panels[1].set_title("Visits", fontsize="medium")
        for axes in panels:
            axes.set_xlabel("Step")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(6, integer=True))
        if "state_names" in policy.provenance:
            names = [_shortened(name) for name in policy.state_names]
            panels[0].yaxis.set_major_locator(MaxNLocator(NAMED, integer=True))
            panels[0].yaxis.set_major_formatter(lambda s, _: names[int(s)] if 0 <= s < len(names) else "")
        handles = [Patch(color=COLOURS[a % len(COLOURS)]) for a in range(A)]
        legend_above(figure, handles, [_shortened(name) for name in policy.action_names])
    return figure


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _coloured(pi: Float, seen: Float | None) -> Float:
    """(S, H, 3): the colour of the likeliest action, mixed with white as far as it is not certain."""
    A = pi.shape[2]
    best = pi.argmax(axis=-1).T
    sure = (pi.max(axis=-1).T * A - 1.0) / max(A - 1, 1)  # 0 where all are alike, 1 where one is certain
    colours = np.array([to_rgb(COLOURS[a % len(COLOURS)]) for a in range(A)])
    weight = np.clip(0.12 + 0.88 * sure, 0.0, 1.0)[..., None]
    mixed: Float = weight * colours[best] + (1.0 - weight)
    if seen is not None:
        mixed[seen == 0.0] = float(UNSEEN)
    return mixed
