"""The tables and figures of docs/applications.md.

    python -m benchmarks.applications [STORE] [OUT]    the experiment `applications`, where STORE does not have it yet

Twenty run seeds on each of the three problems. Printed are medians and the worst of them; a figure for each problem
goes to OUT (docs/figures, unless said): above, what the optimum does with the limits and without; below, what the
policies of the learners do from episode to episode, in the problem's own units (median, and from the second best to
the second worst of the twenty, means of twenty episodes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import flexdome as fd
from flexdome.cmdp.validation import Float
from flexdome.experiments import ExperimentSpec, Store, named_experiment, run_experiments
from flexdome.families.applications import RATES, bispectral
from flexdome.figures import save
from flexdome.figures.style import TWO_COLUMNS, drawing, legend_above, new_figure, styles_for

BLOCK = 20  # episodes
LIMITED, FREE = "#4169E1", "#A9A9A9"


@dataclass(frozen=True)
class Panel:
    """One quantity of an episode: its label, how it follows from a value, and its limit."""

    label: str
    of: Callable[[Float], Float]
    at: int  # 0 the reward, i constraint i
    limit: float | None = None


@dataclass(frozen=True)
class Page:
    """What is drawn of one problem: two quantities of (h, s, a) along an episode, and three of an episode."""

    steps: str
    minutes: float
    along: tuple[tuple[str, Float], tuple[str, Float]]  # label, (S, A)
    band: tuple[float, float] | None
    learned: tuple[Panel, ...]
    last: bool = True  # whether what is done in the last step matters


def pages() -> dict[str, Page]:
    """The three problems in their units."""
    plasma, charge = np.repeat(np.arange(1.0, 8.0), 7), np.tile(np.arange(9.0), 5)
    return {
        "propofol-v1": Page(
            "Minutes of surgery",
            5.0,
            (
                ("BIS", np.tile(bispectral(plasma)[:, None], 5)),
                ("Infusion (mg/kg/h)", np.tile(RATES, (49, 1))),
            ),
            (40.0, 60.0),
            (
                Panel("Mean BIS", lambda v: 97.4 * (1.0 - v / 12.0), 0),
                Panel("BIS off the band, mean", lambda c: 20.0 * c / 12.0, 1, 20.0 / 12.0),
                Panel("Hypotension (min/h)", lambda c: 5.0 * c, 2, 10.0),
            ),
            last=False,
        ),
        "grid-storage-v1": Page(
            "Hours of the shift",
            0.25,
            (
                ("Charge (MWh)", np.tile(3.125 * charge[:, None], 5)),
                ("Within 0.1 Hz (share)", fd.make_cmdp("grid-storage-v1").utilities[0, 0]),
            ),
            None,
            (
                Panel("Through the battery (MWh)", lambda v: 6.25 * (16.0 - v), 0),
                Panel("Off by 0.1 Hz (min)", lambda c: 15.0 * c, 1, 45.0),
                Panel("Charge below 1/4 (min)", lambda c: 15.0 * c, 2, 15.0),
            ),
        ),
        "admission-v1": Page(
            "Minutes",
            1.0,
            (
                ("In the system", np.tile(np.arange(11.0)[:, None], 3)),
                ("Ordinary let in (share)", np.tile([0.0, 0.0, 1.0], (11, 1))),
            ),
            None,
            (
                Panel("Earned", lambda v: v, 0),
                Panel("Stay beyond 6 min (sum)", lambda c: 19.0 * (c - 15.0), 1, 0.0),
            ),
        ),
    }


def runs_of(spec: ExperimentSpec, store: Store, environment: str) -> dict[str, list[pl.DataFrame]]:
    """The stored runs on one environment by learner."""
    found: dict[str, list[pl.DataFrame]] = {}
    for run in spec.runs():
        if run.environment.name == environment:
            found.setdefault(run.learner.name, []).append(store.read(run))
    return found


def violations(frame: pl.DataFrame) -> Float:
    """(m, T) signed."""
    names = [name for name in frame.columns if name == "violation" or name.startswith("violation_")]
    return np.stack([frame[name].to_numpy() for name in names])


def table(spec: ExperimentSpec, store: Store) -> str:
    """Markdown: medians and the worst over seeds."""
    lines = [
        f"| T = {spec.episodes:,}, {len(spec.seeds)} seeds | strong regret | strong violation | unsafe episodes | "
        "last tenth: gap | last tenth: unsafe |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    tenth = spec.episodes // 10
    for environment in spec.environments:
        lines.append(f"| **`{environment.name}`** | | | | | |")
        for name, frames in runs_of(spec, store, environment.name).items():
            rows = []
            for frame in frames:
                gap, over = frame["reward_gap"].to_numpy(), np.maximum(violations(frame), 0.0)
                unsafe = over.max(axis=0) > 1e-9
                rows.append(
                    [
                        np.maximum(gap, 0.0).sum(),
                        over.sum(axis=1).max(),
                        unsafe.sum(),
                        gap[-tenth:].mean(),
                        unsafe[-tenth:].sum(),
                    ]
                )
            middle, worst = np.median(rows, axis=0), np.max(rows, axis=0)
            forms = ("{:,.0f}", "{:,.1f}", "{:,.0f}", "{:.2f}", "{:,.0f}")
            cells = [f"{f.format(m)} ({f.format(w)})" for f, m, w in zip(forms, middle, worst, strict=True)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def along(axes: Axes, cmdp: fd.CMDP, policy: Float, values: Float, page: Page, colour: str, steps: int) -> None:
    """Mean of a quantity at every step under a policy; where its middle eight tenths lie, unless it is a share."""
    mass = fd.occupancy(cmdp, policy)[:steps]
    t = page.minutes * np.arange(steps)
    mean = (mass * values).sum(axis=(1, 2))
    if np.unique(values).size > 2:
        order = np.argsort(values, axis=None)
        below = np.cumsum(mass.reshape(steps, -1)[:, order], axis=1)
        low, high = (values.ravel()[order][np.argmax(below >= q - 1e-12, axis=1)] for q in (0.1, 0.9))
        axes.fill_between(t, low, high, color=colour, alpha=0.15, linewidth=0.0, step="mid")
    axes.plot(t, mean, color=colour, marker=".", linewidth=1.2)


def figure_of(environment: str, frames: dict[str, list[pl.DataFrame]]) -> Figure:
    """The figure of one problem."""
    page, cmdp = pages()[environment], fd.make_cmdp(environment)
    best, free = fd.solve(cmdp), fd.baselines(cmdp).best[0]
    styles = styles_for(list(frames))
    with drawing():
        figure = new_figure(TWO_COLUMNS, 4.2)
        columns = 2 * len(page.learned)
        grid = figure.add_gridspec(2, columns)
        for k, (label, values) in enumerate(page.along):
            axes = figure.add_subplot(grid[0, k * columns // 2 : (k + 1) * columns // 2])
            if k == 0 and page.band:
                axes.axhspan(*page.band, color="#009E73", alpha=0.12, linewidth=0.0)
            for policy, colour in ((free, FREE), (best.policy, LIMITED)):
                along(axes, cmdp, policy, values, page, colour, cmdp.horizon - (k == 1 and not page.last))
            axes.set_xlabel(page.steps)
            axes.set_ylabel(label)
        for k, panel in enumerate(page.learned):
            axes = figure.add_subplot(grid[1, 2 * k : 2 * k + 2])
            for name, runs in frames.items():
                series = np.stack([shown(cmdp, best.value, panel, frame) for frame in runs])
                blocks = series[:, : series.shape[1] // BLOCK * BLOCK].reshape(len(runs), -1, BLOCK).mean(axis=2)
                t = BLOCK * (np.arange(blocks.shape[1]) + 0.5)
                ordered, style = np.sort(blocks, axis=0), styles[name]
                axes.fill_between(t, ordered[1], ordered[-2], color=style.colour, alpha=0.15, linewidth=0.0)
                axes.plot(t, np.median(blocks, axis=0), color=style.colour, linestyle=style.pattern, linewidth=1.1)
            level = float(panel.of(np.asarray(best.value))) if panel.limit is None else panel.limit
            axes.axhline(level, color=LIMITED if panel.limit is None else "black", linewidth=0.8, linestyle=(0, (4, 2)))
            axes.set_xlabel("Episode")
            axes.set_ylabel(panel.label)
        handles = [Line2D([], [], color=c, marker=".") for c in (LIMITED, FREE)]
        handles += [Line2D([], [], color=styles[n].colour, linestyle=styles[n].pattern) for n in frames]
        legend_above(figure, handles, ["safe optimum", "optimum without limits", *frames])
    return figure


def shown(cmdp: fd.CMDP, optimum: float, panel: Panel, frame: pl.DataFrame) -> Float:
    """A panel's quantity of every episode of a run."""
    if panel.at == 0:
        return panel.of(optimum - frame["reward_gap"].to_numpy())
    i = panel.at - 1
    return panel.of(cmdp.limits[i].mean + violations(frame)[i])


def main() -> None:
    """Run what is missing, print the table, draw the figures."""
    store = Store(sys.argv[1] if len(sys.argv) > 1 else "results")
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[1] / "docs" / "figures"
    spec = named_experiment("applications")
    run_experiments([spec], store)
    print(table(spec, store))
    for environment in spec.environments:
        figure = figure_of(environment.name, runs_of(spec, store, environment.name))
        save(figure, out / environment.name.removesuffix("-v1"), formats=("png",))


if __name__ == "__main__":
    main()
