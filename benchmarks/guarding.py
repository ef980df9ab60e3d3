"""What certainty costs each learner: by itself and inside a guard, as a table and a figure for docs/suredome.md.

    python -m benchmarks.guarding --store rows.jsonl    runs what the file lacks, draws docs/figures/guarding.png

Twenty instances of six families, a safe policy with half of the Slater gap, delta = 0.05. SureDOME is beside them. A
run takes a second or less: ten minutes in all.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import flexdome as fd
from flexdome.figures.style import COLOURS, TWO_COLUMNS, drawing, legend_above, new_figure, save

FAMILIES = ("paper-v1", "independent-v1", "river-v1", "conflict-v1", "media-v1", "inventory-v1")
PER_ROW = 3  # families of a table, and of a row of panels
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ProxDOME": ("proxdome", {}),
    "FlexDOME": ("flexdome", {"tuning": "practical"}),
    "UOpt-RPGPD": ("uopt-rpgpd", {"tuning": "practical"}),
    "Vanilla PD": ("optprimaldual", {"tuning": "practical"}),
    "OptCMDP-bonus": ("optcmdp-bonus", {"tuning": "practical", "replan": 1.1}),
}


NAMES = ("SureDOME", *(name for bare in LEARNERS for name in (bare, f"{bare}, guarded")))


def measured(family: str, seed: int, name: str, episodes: int) -> dict[str, Any]:
    """One run, of a learner by itself or inside a guard."""
    cmdp = fd.make_cmdp(family, seed=seed)
    problem, safe = cmdp.problem(), fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner: fd.Learner
    if name == "SureDOME":
        learner = fd.SureDOME(problem, episodes=episodes, seed=seed, safe_policy=safe)
    else:
        id, options = LEARNERS[name.removesuffix(", guarded")]
        learner = fd.make_learner(id, problem, episodes=episodes, **options)
        if name.endswith(", guarded"):
            learner = fd.Guard(learner, safe, 0.05)
    history = fd.simulate(learner, cmdp, seed=seed)
    return {
        "environment": family,
        "learner": name,
        "seed": seed,
        "episodes": episodes,
        "strong_regret": float(history.strong_regret[-1]),
        "strong_violation": float(history.strong_violation[-1]),
        "alone": episodes * (fd.solve(cmdp).value - fd.evaluate(cmdp, safe.policy).value),
    }


def cells_of(finals: pl.DataFrame, name: str, family: str) -> tuple[Any, Any]:
    """Strong regret and strong violation of the runs of a learner on a family."""
    part = finals.filter((pl.col("learner") == name) & (pl.col("environment") == family))
    return part["strong_regret"].to_numpy(), part["strong_violation"].to_numpy()


def draw(finals: pl.DataFrame, path: Path) -> None:
    """A panel for each family: every learner's regret by itself and inside a guard, medians with ranges."""
    lines = (*LEARNERS, "SureDOME")
    places = {name: (k - 0.18, COLOURS["crimson"], "o") for k, name in enumerate(LEARNERS)}
    places |= {f"{name}, guarded": (k + 0.18, COLOURS["royalblue"], "D") for k, name in enumerate(LEARNERS)}
    places["SureDOME"] = (len(LEARNERS), COLOURS["royalblue"], "D")
    rows = -(-len(FAMILIES) // PER_ROW)
    with drawing():
        figure = new_figure(TWO_COLUMNS, 1.45 * rows)
        panels = figure.subplots(rows, PER_ROW, sharey=True)
        for k, (axes, family) in enumerate(zip(panels.flat, FAMILIES, strict=True)):
            marks = {}
            for name, (y, colour, marker) in places.items():
                low, median, high = np.quantile(cells_of(finals, name, family)[0], (0.0, 0.5, 1.0)).clip(1.0)
                axes.plot([low, high], [y, y], color=colour, lw=0.8)
                (marks[marker],) = axes.plot(median, y, marker, color=colour, ms=3.5)
            alone = float(np.median(finals.filter(pl.col("environment") == family)["alone"].to_numpy()))
            marks["alone"] = axes.axvline(alone, color="0.5", lw=0.8, ls=":")
            axes.set_xscale("log")
            left, right = axes.get_xlim()
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if right < 300.0 * left else (1.0,)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda regret, _: f"{regret:,.0f}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(family, loc="left", fontweight="bold")
            axes.set_yticks(range(len(lines)), lines)
            axes.set_ylim(len(lines) - 0.5, -0.5)
            if k >= len(FAMILIES) - PER_ROW:
                axes.set_xlabel("Strong regret (1 and less at 1)")
        names = ("by itself, unsafe", "with a proof: inside a guard, and SureDOME", "the safe policy alone")
        legend_above(figure, list(marks.values()), names)
    save(figure, path.with_suffix(""), ("png",))


def main() -> None:
    """Run, draw, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(840, 860)))
    parser.add_argument("--store", type=Path, default=Path("guarding.jsonl"))
    parser.add_argument("--out", type=Path, default=Path("docs/figures/guarding.png"))
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.is_file() else []
    done = {(row["environment"], row["seed"], row["learner"], row["episodes"]) for row in rows}
    for seed, family, name in product(given.seeds, FAMILIES, NAMES):
        if (family, seed, name, given.episodes) not in done:
            rows.append(measured(family, seed, name, given.episodes))
            with given.store.open("a") as file:
                print(json.dumps(rows[-1]), file=file, flush=True)
    wanted = (pl.col("episodes") == given.episodes) & pl.col("seed").is_in(given.seeds)
    finals = pl.DataFrame(rows).filter(wanted)
    draw(finals, given.out)
    print(f"T = {given.episodes:,}, seeds {given.seeds}: median strong regret (range) / worst strong violation")
    for begin in range(0, len(FAMILIES), PER_ROW):
        families = FAMILIES[begin : begin + PER_ROW]
        print(f"\n| learner | {' | '.join(families)} |\n|---|{'---|' * len(families)}")
        for name in NAMES:
            cells = []
            for family in families:
                regret, violation = cells_of(finals, name, family)
                low, median, high = np.quantile(regret, (0.0, 0.5, 1.0))
                worst = f"{violation.max():,.0f}" if violation.max() >= 1e3 else f"{violation.max():.3g}"
                cells.append(f"{median:,.0f} ({low:,.0f} to {high:,.0f}) / {worst}")
            print(f"| {name} | {' | '.join(cells)} |")
        alone = [finals.filter(pl.col("environment") == family)["alone"].to_numpy() for family in families]
        cells = [f"{np.median(one):,.0f} ({one.min():,.0f} to {one.max():,.0f}) / 0" for one in alone]
        print(f"| the safe policy alone | {' | '.join(cells)} |")
    proved = finals.filter(pl.col("learner").str.ends_with("guarded") | (pl.col("learner") == "SureDOME"))
    unsafe = proved.filter(pl.col("strong_violation") > 0.0)
    print(f"\nruns with a proof: {proved.height}, of which {unsafe.height} have violation")
    for row in unsafe.iter_rows(named=True):
        print(f"  {row['learner']} on {row['environment']}, {row['seed']}: {row['strong_violation']:.4g}")
    print("\nregret as a share of the safe policy's: median (range) over all instances; on how many it is less")
    for name in NAMES:
        if name == "SureDOME" or name.endswith("guarded"):
            part = proved.filter(pl.col("learner") == name)
            share = (part["strong_regret"] / part["alone"]).to_numpy()
            low, median, high = np.quantile(share, (0.0, 0.5, 1.0))
            print(f"{name}: {median:.2f} ({low:.2f} to {high:.2f}); {int((share < 1.0).sum())} of {share.size}")


if __name__ == "__main__":
    main()
