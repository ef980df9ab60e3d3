"""What certainty costs each learner: by itself and inside a guard, as a table and a figure for docs/suredome.md.

    python -m benchmarks.guarding --store rows.jsonl    runs what the file lacks, draws docs/figures/guarding.png

Twenty instances of three families, a safe policy with half of the Slater gap, delta = 0.05. SureDOME is beside them. A
guarded learner takes some seconds for 3,000 episodes.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import flexdome as fd
from flexdome.figures import pareto_figure

FAMILIES = ("paper-v1", "independent-v1", "river-v1")
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


def main() -> None:
    """Run, draw, and print the table."""
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
    long = finals.unpivot(
        ["strong_regret", "strong_violation"], index=["environment", "learner"], variable_name="metric"
    )
    several = pl.col("value").std() / np.sqrt(len(given.seeds))
    means = long.group_by("environment", "learner", "metric", maintain_order=True).agg(
        pl.col("value").mean().alias("mean"), several.alias("se")
    )
    pareto_figure(means).savefig(given.out)
    print(f"T = {given.episodes:,}, seeds {given.seeds}: median strong regret (range) / worst strong violation\n")
    print(f"| learner | {' | '.join(FAMILIES)} |\n|---|{'---|' * len(FAMILIES)}")
    for name in NAMES:
        cells = []
        for family in FAMILIES:
            part = finals.filter((pl.col("learner") == name) & (pl.col("environment") == family))
            low, median, high = np.quantile(part["strong_regret"].to_numpy(), (0.0, 0.5, 1.0))
            cells.append(
                f"{median:,.0f} ({low:,.0f} to {high:,.0f}) / {part['strong_violation'].to_numpy().max():,.3g}"
            )
        print(f"| {name} | {' | '.join(cells)} |")
    alone = [np.median(finals.filter(pl.col("environment") == family)["alone"].to_numpy()) for family in FAMILIES]
    print(f"| the safe policy alone | {' | '.join(f'{regret:,.0f} / 0' for regret in alone)} |")


if __name__ == "__main__":
    main()
