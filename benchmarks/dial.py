"""ProxDOME's dial on the families of the ranking: the curve that ``caution`` draws, and who is below and left of it.

    python -m benchmarks.dial
    python -m benchmarks.dial --suite results/figures/suite-strong.parquet

Five settings from bold (0) to cautious (1, whose numbers are the published ones) on the ranking's three instances of
each family, T = 20,000. A published learner lies below and left of the curve if it has less regret and less violation
than some point of it, both over the instances that the learner was run on; between two settings the curve is straight
in logarithms. Numbers below a thousandth count as one. With ``--suite`` nothing is run: the numbers are those behind
the figure of the strong suite (``flexdome reproduce --suite strong``), T = 80,000.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

import flexdome as fd
from flexdome.ranking import published, suite_experiments

TURNS = (0.0, 0.15, 0.3, 0.6)
OURS = ("ProxDOME", "AnchorDOME", "SureDOME")  # and guards; the others are the literature's
NAMES = ["strong_regret", "strong_violation", "late_violation"]
LATE, LEAST, BETWEEN = 0.01, 1e-3, 200


def run(family: str, id: str, options: dict[str, object], caution: float, seed: int) -> np.ndarray:
    """Strong regret, strong violation, and that after the first tenth, of one run."""
    cmdp = fd.make_cmdp(id, seed=seed, **options)
    history = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=20_000, seed=seed, caution=caution), cmdp, seed=seed)
    late = np.maximum(history.violation[:, 2_000:], 0.0).sum(axis=1).max()
    return np.array([history.strong_regret[-1], history.strong_violation[-1], late])


def below(curve: list[np.ndarray], point: np.ndarray) -> bool:
    """Whether a point has less of both than some point of the curve."""
    corners, one = np.log(np.maximum(curve, LEAST)), np.log(np.maximum(point, LEAST))
    share = np.linspace(0.0, 1.0, BETWEEN)[:, None]
    ways = [(1.0 - share) * a + share * b for a, b in itertools.pairwise(corners)]
    return bool((np.concatenate(ways) > one).all(axis=1).any())


def short(value: float) -> str:
    """A number for the table."""
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}" if value else "0"


def of_suite(path: Path) -> None:
    """Print the table of the strong suite, from the data of its figure."""
    table = pl.read_parquet(path).pivot(on="metric", index=["environment", "learner"], values="mean")
    turns = [*(f"ProxDOME, caution {turn:g}" for turn in TURNS), "ProxDOME"]
    print(f"| environment | {' | '.join(f'{turn:g}' for turn in (*TURNS, 1.0))} | below and left of the curve |")
    print("|---|" + "---:|" * len(turns) + "---|")
    free = families = 0
    for (name,), group in table.group_by(["environment"], maintain_order=True):
        points = {row[0]: np.array(row[1:]) for row in group.select("learner", *NAMES[:2]).iter_rows()}
        if not set(turns) <= set(points):
            continue
        curve = [points[turn] for turn in turns]
        found = [one for one in points if not one.startswith((*OURS, "Guard")) and below(curve, points[one])]
        families, free = families + 1, free + (not found)
        cells = " | ".join(f"{short(regret)} / {short(violation)}" for regret, violation in curve)
        print(f"| `{name}` | {cells} | {'; '.join(found) or '-'} |")
    print(f"\nnobody on {free} of {families}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--suite", type=Path, help="the data of the suite's figure")
    given = parser.parse_args()
    if given.suite is not None:
        of_suite(given.suite)
        return
    suite = suite_experiments()[0]
    tasks = [
        (environment.name, environment.id, dict(environment.options), caution, seed)
        for environment in suite.environments
        for caution in TURNS
        for seed in suite.seeds
    ]
    rows: dict[tuple[str, float, int], np.ndarray] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for done, (task, future) in enumerate([(task, pool.submit(run, *task)) for task in tasks], start=1):
            rows[task[0], task[3], task[4]] = future.result()
            print(f"\r{done} of {len(tasks)}", end="", file=sys.stderr, flush=True)
    others = published().filter(pl.col("failure").is_null())
    for row in others.filter(pl.col("learner") == "ProxDOME").iter_rows(named=True):
        rows[row["family"], 1.0, row["seed"]] = np.array([row[name] for name in NAMES])
    print(f"\n| environment | {' | '.join(f'{turn:g}' for turn in (*TURNS, 1.0))} | below and left of the curve |")
    print("|---|" + "---:|" * (len(TURNS) + 1) + "---|")
    free = 0
    for environment in sorted(suite.environments, key=lambda one: one.name):
        name = environment.name

        def curve(seeds: list[int], name: str = name) -> list[np.ndarray]:
            return [np.mean([rows[name, turn, k][:2] for k in seeds], axis=0) for turn in (*TURNS, 1.0)]

        found = []
        for (learner,), group in (
            others.filter(pl.col("family") == name).sort("learner").group_by(["learner"], maintain_order=True)
        ):
            if not str(learner).startswith((*OURS, "Guard")):
                point = group.select(NAMES[:2]).to_numpy().mean(axis=0)
                if below(curve(group["seed"].to_list()), point):
                    found.append(f"{learner}{' (one run)' * (group.height == 1)}")
        free += not found
        cells = " | ".join(f"{short(regret)} / {short(violation)}" for regret, violation in curve(list(suite.seeds)))
        print(f"| `{name}` | {cells} | {', '.join(found) or '-'} |")
    late = [
        f"{sum(x[2] > LATE for (_, t, _), x in rows.items() if t == turn)}" for turn in (*TURNS, 1.0)
    ]  # fmt: skip
    print(f"\nnobody on {free} of {len(suite.environments)}; runs with late violation: {', '.join(late)}")


if __name__ == "__main__":
    main()
