"""The pictures of the book that are drawn from the library itself.

An environment's picture has two halves. On the left is what a policy can have: the set of all (V_d, V_r) is convex, and
each of its corners is the best policy for some direction, one dynamic program each. On the right is where the optimum
goes: a map for grids, and for all others the probability of each state at each step.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from contextlib import chdir
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Polygon, Rectangle
from matplotlib.ticker import MaxNLocator

import flexdome as fd
from flexdome.figures.style import drawing, new_figure
from flexdome.planning.decomposition import greedy

from .environments import truth

__all__ = ["PICTURES", "environment", "keep"]

INK, SAFE, HARM, GREY = "#333333", "#1B7F5C", "#DC143C", "#8A8A8A"
DIRECTIONS = 48
GRIDS = {  # columns, marked cells, what they are
    "rover-v1": (8, ((2, 3), (2, 6), (5, 1), (5, 2), (6, 1), (6, 4), (6, 6), (7, 3)), "pits"),
    "grid-v1": (5, ((1, 2), (2, 1), (2, 2), (2, 3), (3, 2)), "hazards"),
    "frozen-lake-v1": (4, ((1, 1), (1, 3), (2, 3), (3, 0)), "holes"),
    "cliff-walking-v1": (12, tuple((3, x) for x in range(1, 11)), "cliff"),
}


def keep(figure: Figure | bytes, path: Path) -> None:
    """Write a picture when it is whole."""
    if isinstance(figure, bytes):
        path.write_bytes(figure)
        return
    with drawing():
        buffer = BytesIO()
        figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    path.write_bytes(buffer.getvalue())


# -- environments ----------------------------------------------------------------------------------------


def environment(id: str) -> Figure:
    """What can be had, and where the optimum goes."""
    cmdp, best, _ = truth(id)
    m = min(cmdp.constraints, 3)
    with drawing():
        figure = new_figure(2.6 + 1.9 * m + 0.6, 2.5)
        panels = figure.subplots(1, m + 1, width_ratios=[1.0] * m + [1.25], squeeze=False)[0]
        for i in range(m):
            attainable(panels[i], cmdp, best, i)
        panels[0].set_ylabel("Reward $V_r$")
        if id in GRIDS:
            grid(panels[m], fd.occupancy(cmdp, best.policy), *GRIDS[id])
        else:
            where(figure, panels[m], fd.occupancy(cmdp, best.policy))
    return figure


def attainable(axes: Axes, cmdp: fd.CMDP, best: fd.planning.Solution, i: int) -> None:
    """The convex set of (V_d_i, V_r), the threshold, and three policies."""
    corners = []
    for angle in np.linspace(0.0, 2.0 * np.pi, DIRECTIONS, endpoint=False):
        w = np.zeros(1 + cmdp.constraints)
        w[0], w[1 + i] = np.sin(angle), np.cos(angle)
        values = greedy(cmdp.model, w)[1]
        corners.append((values[1 + i], values[0]))
    points = hull(np.array(corners))
    axes.add_patch(Polygon(points, closed=True, facecolor="0.9", edgecolor=GREY, linewidth=0.8))
    alpha = cmdp.alpha[i]
    axes.axvline(alpha, color=HARM, linestyle="--", linewidth=1.0)
    base = fd.baselines(cmdp)
    for (_, told), marker, colour in ((base.uniform, "o", INK), (base.best, "^", HARM)):
        axes.plot(told.utilities[i], told.value, marker, color=colour, markersize=5)
    axes.plot(best.utilities[i], best.value, "*", color=SAFE, markersize=9)
    low, high = points.min(axis=0), points.max(axis=0)
    low[0], high[0] = min(low[0], alpha), max(high[0], alpha)
    room = np.maximum(0.06 * (high - low), 1e-3)
    axes.set_xlim(low[0] - room[0], high[0] + room[0])
    axes.set_ylim(low[1] - room[1], high[1] + room[1])
    axes.set_xlabel("Utility $V_d$" if cmdp.constraints == 1 else f"Utility $V_{{d_{i + 1}}}$")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))


def hull(points: np.ndarray) -> np.ndarray:
    """The corners of the convex hull of points in the plane, in order (Andrew's monotone chain)."""
    ordered = sorted({(round(x, 12), round(y, 12)) for x, y in points})
    if len(ordered) < 3:
        return np.array(ordered)

    def half(sequence: list[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for x, y in sequence:
            while len(chain) > 1:
                (x1, y1), (x2, y2) = chain[-2:]
                if (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0.0:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))


def where(figure: Figure, axes: Axes, x: np.ndarray) -> None:
    """The probability of each state at each step; states that are never reached are left out where there are many."""
    shown = x.sum(axis=2).T
    visited = shown.max(axis=1) > 1e-9
    many = len(shown) > 60
    image = axes.imshow(
        shown[visited] if many else shown, aspect="auto", cmap="Greens", vmin=0.0, interpolation="nearest"
    )
    axes.set_xlabel("Step")
    axes.set_ylabel(f"State ({visited.sum()} of {len(shown)})" if many else "State")
    axes.set_yticks([] if many else axes.get_yticks())
    if not many:
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xticks(range(0, len(x), max(len(x) // 6, 1)), [str(h + 1) for h in range(0, len(x), max(len(x) // 6, 1))])
    figure.colorbar(image, ax=axes, label="Probability")


def grid(axes: Axes, x: np.ndarray, columns: int, marked: tuple[tuple[int, int], ...], name: str) -> None:
    """How often each cell of a map is visited in an episode, on a logarithmic scale."""
    rows = x.shape[1] // columns
    cells = x[:, : rows * columns].sum(axis=0)
    axes.imshow(np.log10(1e-4 + cells.sum(axis=1)).reshape(rows, columns), cmap="Greens", interpolation="nearest")
    for row, column in marked:
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1.0, 1.0, fill=False, hatch="////", edgecolor=HARM, linewidth=0.0))
    axes.set_title(f"Visits (log scale); hatched: {name}", fontsize="medium")
    axes.set_xticks([])
    axes.set_yticks([])


# -- the words -------------------------------------------------------------------------------------------


def loop() -> Figure:
    """A CMDP in one picture: three states, actions between them, and what each step brings."""
    with drawing():
        figure = new_figure(4.8, 2.1)
        axes = figure.subplots()
        axes.set_xlim(0.0, 6.2)
        axes.set_ylim(0.0, 2.5)
        axes.axis("off")
        places = {"calm": (0.9, 1.25), "busy": (3.1, 1.25), "broken": (5.3, 1.25)}
        colours = {"calm": SAFE, "busy": "#B8860B", "broken": HARM}
        for name, at in places.items():
            axes.add_patch(Circle(at, 0.42, facecolor="white", edgecolor=colours[name], linewidth=1.6))
            axes.text(*at, name, ha="center", va="center", fontsize=9)

        def arrow(start: str, end: str, bend: float, text: str, height: float, colour: str = INK) -> None:
            axes.add_patch(
                FancyArrowPatch(
                    places[start], places[end], connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=10,
                    shrinkA=25, shrinkB=25, color=colour, linewidth=1.1,
                )
            )  # fmt: skip
            middle = (places[start][0] + places[end][0]) / 2
            axes.text(middle, height, text, ha="center", va="center", fontsize=7.5, color=colour)

        arrow("calm", "busy", -0.35, "push: 90 %\nreward 1, utility 0.8", 2.05)
        arrow("busy", "calm", -0.35, "rest: 100 %\nreward 0.2, utility 1", 0.42)
        arrow("busy", "broken", -0.35, "push: 30 %\nreward 1, utility 0", 2.05, HARM)
        arrow("broken", "busy", -0.35, "rest: 50 %\nreward 0, utility 0", 0.42)
    return figure


def cancelling() -> Figure:
    """Why a mean hides harm: plain primal-dual steps, no regularisation, on a known CMDP of two states."""
    steps = fd.Schedules(eta=lambda t: 0.02, tau=lambda t: 0.0, margin=lambda t: 0.0)
    signed = fd.iterate(fd.make_cmdp("oscillator-v1"), steps, 1_500).violation[0]
    t = np.arange(1, len(signed) + 1)
    with drawing():
        figure = new_figure(6.2, 2.3)
        left, right = figure.subplots(1, 2)
        left.fill_between(t, 0.0, np.maximum(signed, 0.0), color=HARM, alpha=0.55, linewidth=0.0, label="unsafe")
        left.fill_between(t, np.minimum(signed, 0.0), 0.0, color=SAFE, alpha=0.45, linewidth=0.0, label="safe")
        left.axhline(0.0, color=INK, linewidth=0.6)
        left.set_xlabel("Episode")
        left.set_ylabel(r"Violation $\alpha - V_d$, signed")
        left.legend(loc="upper right")
        right.plot(t, np.cumsum(np.maximum(signed, 0.0)), color=HARM, label="strong: unsafe episodes add up")
        right.plot(t, np.cumsum(signed), color=GREY, label="weak: safe ones are taken off")
        right.axhline(0.0, color=INK, linewidth=0.6)
        right.set_xlabel("Episode")
        right.set_ylabel("Cumulative violation")
        right.legend(loc="upper left")
    return figure


def first() -> bytes:
    """The figure of the first chapter: what the lines on that page draw."""
    text = (Path(__file__).parents[1] / "start.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "comparison_figure" in block)
    with TemporaryDirectory() as folder, chdir(folder):
        Path("start.py").write_text(code, encoding="utf-8")
        runpy.run_path("start.py")
        return Path("first.png").read_bytes()


PICTURES: dict[str, Callable[[], Figure | bytes]] = {"cmdp": loop, "cancelling": cancelling, "first": first}
