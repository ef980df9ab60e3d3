"""What certainty costs each learner: by itself and inside a guard, as a table and a figure for docs/suredome.md.

    python -m benchmarks.guarding            some minutes; writes docs/figures/guarding.png

Six instances of three families, a safe policy with half of the Slater gap, delta = 0.05. SureDOME is beside them.
"""

from __future__ import annotations

import argparse
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


def runs(family: str, seed: int, episodes: int) -> list[dict[str, Any]]:
    """Every learner on one instance, bare and guarded, and SureDOME."""
    cmdp = fd.make_cmdp(family, seed=seed)
    problem, safe = cmdp.problem(), fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    made: dict[str, fd.Learner] = {
        "SureDOME": fd.SureDOME(problem, episodes=episodes, seed=seed, safe_policy=safe),
    }
    for name, (id, options) in LEARNERS.items():
        made[name] = fd.make_learner(id, problem, episodes=episodes, **options)
        inside = fd.make_learner(id, problem, episodes=episodes, **options)
        made[f"{name}, guarded"] = fd.Guard(inside, safe, 0.05)
    rows = []
    for name, learner in made.items():
        history = fd.simulate(learner, cmdp, seed=seed)
        rows.append(
            {
                "environment": family,
                "learner": name,
                "seed": seed,
                "strong_regret": float(history.strong_regret[-1]),
                "strong_violation": float(history.strong_violation[-1]),
                "alone": episodes * (fd.solve(cmdp).value - fd.evaluate(cmdp, safe.policy).value),
            }
        )
    return rows


def main() -> None:
    """Run, draw, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[840, 841])
    parser.add_argument("--out", type=Path, default=Path("docs/figures/guarding.png"))
    given = parser.parse_args()
    finals = pl.DataFrame([row for f in FAMILIES for seed in given.seeds for row in runs(f, seed, given.episodes)])
    long = finals.unpivot(
        ["strong_regret", "strong_violation"], index=["environment", "learner"], variable_name="metric"
    )
    several = pl.col("value").std() / np.sqrt(len(given.seeds))
    means = long.group_by("environment", "learner", "metric", maintain_order=True).agg(
        pl.col("value").mean().alias("mean"), several.alias("se")
    )
    pareto_figure(means).savefig(given.out)
    print(f"T = {given.episodes:,}, seeds {given.seeds}: strong regret / worst strong violation\n")
    print(f"| learner | {' | '.join(FAMILIES)} |\n|---|{'---|' * len(FAMILIES)}")
    for name in finals["learner"].unique(maintain_order=True):
        cells = []
        for family in FAMILIES:
            part = finals.filter((pl.col("learner") == name) & (pl.col("environment") == family))
            cells.append(f"{part['strong_regret'].mean():,.0f} / {part['strong_violation'].max():,.3g}")
        print(f"| {name} | {' | '.join(cells)} |")
    alone = [finals.filter(pl.col("environment") == family)["alone"].mean() for family in FAMILIES]
    print(f"| the safe policy alone | {' | '.join(f'{regret:,.0f} / 0' for regret in alone)} |")


if __name__ == "__main__":
    main()
