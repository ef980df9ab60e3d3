"""Practical constants: one sweep over development instances, for every learner alike.

    python -m benchmarks.tune                 about eight minutes on two cores; prints the table of docs/tuning.md

T = 20,000 on instances 100 and 101 of four families; results elsewhere are reported on other instances. A setting's
score is the geometric mean, over the eight instances, of strong regret plus strong violation. Learners that solve a
program plan with ``replan=1.1``; those that need a safe policy get one with half the Slater gap; OMDPD, the slowest, is
tuned at S = 5, A = 3, H = 5.

    python -m benchmarks.tune programs        only the learners that solve a program
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np

import flexdome as fd

EPISODES = 20_000
FAMILIES = ("paper-v1", "independent-v1", "conflict-v1", "multi-v1")
SEEDS = (100, 101)
BOTH = ("paper", "optimistic")
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "flexdome": {
        "bonus_scale": (0.0, 1e-4),
        "margin_scale": (1e-6, 2e-6, 5e-6),  # above zero: without its margin it is another algorithm
        "step_scale": (1.0, 5.0, 10.0, 30.0),
        "regularisation_scale": (0.05, 0.1, 0.2, 0.5),
        "unvisited": ("optimistic",),  # the best five had it in every grid with both
    },
    "optprimaldual": {
        "bonus_scale": (0.0, 1e-5, 1e-4),
        "policy_step": (0.01, 0.03, 0.1, 0.3),
        "dual_step": (3.0, 10.0, 30.0, 100.0, 1000.0),
        "unvisited": ("optimistic",),
    },
    "uopt-rpgpd": {
        "bonus_scale": (1e-3, 3e-3, 1e-2),
        "exponent_eta": (0.4, 0.53, 0.7),
        "exponent_tau": (0.2, 0.3, 0.4, 0.5),
    },
    "rpd-oe": {
        "bonus_scale": (0.0, 1e-4, 1e-3),
        "exponent_eta": (0.2, 0.3, 0.4),
        "exponent_tau": (0.2, 0.3, 0.4),
        "unvisited": BOTH,
    },
    "optpess-pd": {
        "bonus_scale": (0.0, 1e-4, 1e-3),
        "margin_scale": (0.0, 1e-6, 1e-5, 1e-4),
        "weight_scale": (0.3, 1.0, 3.0),
        "unvisited": BOTH,
    },
}
PROGRAMS: dict[str, dict[str, tuple[Any, ...]]] = {
    "optcmdp-bonus": {"bonus_scale": (0.0, 1e-6, 1e-5, 1e-4, 1e-3), "unvisited": BOTH},
    "optpess-lp": {"bonus_scale": (0.0, 1e-5, 1e-4, 1e-3, 1e-2)},
    "optdual": {"bonus_scale": (1e-3, 1e-2), "dual_step": (0.01, 0.1, 1.0), "unvisited": ("optimistic",)},
    "optcmdp": {"bonus_scale": (0.0, 1e-4, 1e-3, 1e-2, 1e-1), "unvisited": BOTH},
    "dope": {"bonus_scale": (0.0, 1e-6, 1e-5, 1e-4, 1e-3)},
    "optaug": {"bonus_scale": (1e-4, 1e-3, 1e-2), "penalty": (0.3, 1.0, 3.0, 10.0), "unvisited": ("optimistic",)},
    "sv-ops": {"bonus_scale": (1e-3, 1e-2), "step_size": (1e-3, 1e-2), "exploration": (1e-2, 1e-1)},
    "s-ops": {"bonus_scale": (1e-3, 1e-2), "step_size": (1e-3, 1e-2), "exploration": (1e-2, 1e-1)},
    "cpd-po": {"bonus_scale": (1e-3, 1e-2), "step_size": (1e-3, 1e-2, 1e-1), "exploration": (1e-2, 1e-1)},
    "omdpd": {"bonus_scale": (1e-3, 1e-2), "scale": (0.1, 1.0), "growth": (1e-3, 1e-2)},
}
SMALL: dict[str, dict[str, Any]] = {"omdpd": {"states": 5, "actions": 3, "horizon": 5}}


def settings(learner: str) -> Iterator[dict[str, Any]]:
    """Every point of a learner's grid."""
    grid = (GRIDS | PROGRAMS)[learner]
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def measure(job: tuple[str, dict[str, Any]]) -> list[tuple[float, float]]:
    """Strong regret and strong violation on every development instance."""
    learner, options = job
    results = []
    for family, seed in product(FAMILIES, SEEDS):
        cmdp = fd.make_cmdp(family, seed=seed, **SMALL.get(learner, {}))
        more: dict[str, Any] = {}
        if learner in PROGRAMS:
            more = {"replan": 1.1, "tuning": "practical"}
        if "safe policy" in fd.LEARNERS[learner].needs:
            more["safe_policy"] = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
        made = fd.make_learner(learner, cmdp.problem(), episodes=EPISODES, **options, **more)
        history = fd.simulate(made, cmdp, seed=seed)
        results.append((float(history.strong_regret[-1]), float(history.strong_violation[-1])))
    return results


def main() -> None:
    """Print the best five settings of each learner, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learners", nargs="*", default=list(GRIDS), help="which learners")
    named = parser.parse_args().learners
    names = [name for word in named for name in (PROGRAMS if word == "programs" else [word])]
    jobs = [(name, options) for name in names for options in settings(name)]
    measure(("flexdome", {}))  # compiles before the workers start
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(measure, jobs, chunksize=1 if len(jobs) < 50 else 4))
    print("| learner | setting | score | mean strong regret | mean strong violation |\n|---|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in jobs):
        rows = []
        for (learner, options), pairs in zip(jobs, results, strict=True):
            if learner == name:
                regret, violation = np.array(pairs).T
                score = float(np.exp(np.log(regret + violation + 1.0).mean()))
                rows.append((score, options, regret.mean(), violation.mean()))
        for score, options, regret, violation in sorted(rows, key=lambda row: row[0])[:5]:
            text = ", ".join(f"{k}={v}" for k, v in options.items())
            print(f"| `{name}` | {text} | {score:,.0f} | {regret:,.0f} | {violation:,.0f} |")


if __name__ == "__main__":
    main()
