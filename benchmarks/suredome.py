"""What certainty costs: SureDOME beside ProxDOME from the same safe policy and S-OPS, as a table for docs/suredome.md.

``python -m benchmarks.suredome`` takes about ten minutes; --episodes and --seeds make it shorter or longer.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import flexdome as fd

FAMILIES = ("paper-v1", "independent-v1", "conflict-v1", "multi-v1", "river-v1", "opposed-v1")
LEARNERS: dict[str, dict[str, Any]] = {
    "suredome": {},
    "proxdome": {},
    "s-ops": {"tuning": "practical", "replan": 1.1},
}


def measured(family: str, seed: int, name: str, episodes: int, **options: Any) -> tuple[float, float, float]:
    """Strong regret, strong violation and the gap of the last mixture, in % of H."""
    cmdp = fd.make_cmdp(family, seed=seed)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner = fd.make_learner(name, cmdp.problem(), episodes=episodes, seed=seed, safe_policy=safe, **options)
    history = fd.simulate(learner, cmdp, seed=seed)
    last = 100.0 * float(history.reward_gap[-1]) / cmdp.horizon
    return float(history.strong_regret[-1]), float(history.strong_violation[-1]), last


def main() -> None:
    """Print the table, a row when it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[300, 301])
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    given = parser.parse_args()
    print("| family | " + " | ".join(LEARNERS) + " | the safe policy alone |")
    print("|---" * (len(LEARNERS) + 2) + "|")
    for family in given.families:
        cells = []
        for name, options in LEARNERS.items():
            rows = np.array([measured(family, seed, name, given.episodes, **options) for seed in given.seeds])
            regret, violation, last = rows.mean(axis=0)
            cells.append(f"{regret:,.0f} / {violation:.3g} / {last:.1f} %")
        alone = []
        for seed in given.seeds:
            cmdp = fd.make_cmdp(family, seed=seed)
            safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
            alone.append(given.episodes * (fd.solve(cmdp).value - fd.evaluate(cmdp, safe.policy).value))
        print(f"| {family} | " + " | ".join(cells) + f" | {np.mean(alone):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
