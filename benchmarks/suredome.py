"""What certainty costs: SureDOME beside the learners that promise the same, as a table for docs/suredome.md.

    python -m benchmarks.suredome --store rows.jsonl        runs what the file does not have yet, and prints the table

On the thirteen families of ``strong-programs``, all from a safe policy with half of the Slater gap: SureDOME, S-OPS in
practical tuning, and DOPE, OptPess-LP and S-OPS with the constants of their own theory. SureDOME takes about a second
for 80,000 episodes, S-OPS five to ten; --learners, --families, --seeds and --episodes choose.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import flexdome as fd
from flexdome.experiments import named_experiment

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SureDOME": ("suredome", {}),
    "S-OPS": ("s-ops", {"tuning": "practical", "replan": 1.1}),
    "S-OPS, theory": ("s-ops", {"tuning": "theory", "replan": 1.1}),
    "DOPE, theory": ("dope", {"tuning": "theory", "replan": 1.1}),
    "OptPess-LP, theory": ("optpess-lp", {"tuning": "theory", "replan": 1.1}),
}
FAMILIES = {spec.name: (spec.id, dict(spec.options)) for spec in named_experiment("strong-programs").environments}


def measured(family: str, seed: int, learner: str, episodes: int) -> dict[str, Any]:
    """One run: strong regret and violation, the gap of the last mixture, and what the safe policy alone would lose."""
    id, more = FAMILIES[family]
    name, options = LEARNERS[learner]
    cmdp = fd.make_cmdp(id, seed=seed, **more)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    if name == "suredome" and not cmdp.thresholds[0].is_fixed:  # it has to be told what law samples have: normal
        options = options | {"threshold_scale": [law.parameters[1] for law in cmdp.thresholds]}
    made = fd.make_learner(name, cmdp.problem(), episodes=episodes, seed=seed, safe_policy=safe, **options)
    history = fd.simulate(made, cmdp, seed=seed)
    return {
        "family": family,
        "seed": seed,
        "learner": learner,
        "episodes": episodes,
        "regret": float(history.strong_regret[-1]),
        "violation": float(history.strong_violation[-1]),
        "last": 100.0 * float(history.reward_gap[-1]) / cmdp.horizon,
        "alone": episodes * (fd.solve(cmdp).value - fd.evaluate(cmdp, safe.policy).value),
    }


def table(rows: list[dict[str, Any]], learners: list[str]) -> list[str]:
    """Means with their range, and the worst violation, over the seeds that there are."""
    lines = [f"| family | {' | '.join(learners)} | the safe policy alone |", "|---" * (len(learners) + 2) + "|"]
    for family in FAMILIES:
        cells = []
        for learner in learners:
            some = [row for row in rows if row["family"] == family and row["learner"] == learner]
            worst = max((row["violation"] for row in some), default=0.0)
            regret, last = ([row[name] for row in some] for name in ("regret", "last"))
            cells.append(
                f"{np.mean(regret):,.0f} ({min(regret):,.0f} to {max(regret):,.0f}) / {worst:.3g} / "
                f"{np.mean(last):.2f} % ({len(some)})"
                if some
                else "-"
            )
        alone = [row["alone"] for row in rows if row["family"] == family]
        if alone:
            lines.append(f"| {family} | {' | '.join(cells)} | {np.mean(alone):,.0f} |")
    return lines


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=80_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(820, 840)))
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--store", type=Path, default=Path("suredome.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table alone")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.store.read_text().splitlines()] if given.store.is_file() else []
    done = {(row["family"], row["seed"], row["learner"], row["episodes"]) for row in rows}
    for seed in () if given.table else given.seeds:
        for learner in given.learners:
            for family in given.families:
                if (family, seed, learner, given.episodes) not in done:
                    rows.append(measured(family, seed, learner, given.episodes))
                    with given.store.open("a") as file:
                        print(json.dumps(rows[-1]), file=file, flush=True)
    print("regret (range) / worst violation / last gap in % of H (runs)\n")
    print(*table([row for row in rows if row["episodes"] == given.episodes], given.learners), sep="\n")


if __name__ == "__main__":
    main()
