"""ProxDOME against FlexDOME, family by family: what each did in every run.

    python -m benchmarks.proxdome_study                              every family, seeds 0 to 4, T = 80,000
    python -m benchmarks.proxdome_study --families paper-v1 grid-v1 --learners proxdome
    python -m benchmarks.proxdome_study --seeds 100 101 --option bonus_scale=0.75

A seed is the instance's and the run's. Printed are means over seeds of strong regret, strong violation, violation after
the first tenth of the episodes (and its largest), the growth exponent of regret fitted to the second half of the run on
logarithmic axes, the mean gap of the last tenth and the time of an episode. FlexDOME is the one whose margin covers its
bias and which is optimistic about actions never tried: margin_scale=5e-5, unvisited="optimistic".
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import flexdome as fd

FAMILIES: dict[str, dict[str, Any]] = {
    "paper-v1": {},
    "paper-stochastic-v1": {},
    "independent-v1": {},
    "conflict-v1": {},
    "multi-v1": {},
    "small": {"id": "independent-v1", "states": 5, "actions": 3, "horizon": 5},
    "large": {"id": "independent-v1", "states": 50, "actions": 5, "horizon": 10},
    "bernoulli-v1": {},
    "river-v1": {},
    "grid-v1": {},
    "tight-v1": {},
    "kitamura-v1": {},
    "garnet-v1": {},
    "media-v1": {},
    "inventory-v1": {},
    "factored-v1": {},
    "oscillator-v1": {},
    "rover-v1": {},
}
LEARNERS: dict[str, dict[str, Any]] = {
    "proxdome": {},
    "flexdome": {"margin_scale": 5e-5, "unvisited": "optimistic"},
    "anchordome": {},
}


def build(family: str, seed: int) -> fd.CMDP:
    """The instance of a family."""
    options = dict(FAMILIES[family])
    return fd.make_cmdp(options.pop("id", family), seed=seed, **options)


def exponent(series: np.ndarray) -> float:
    """Slope of log(series) against log(t) over the second half, at points evenly spread in log t."""
    T = series.size
    at = np.unique(np.geomspace(T // 2, T, 50).astype(int)) - 1
    return float(np.polyfit(np.log(at + 1.0), np.log(np.maximum(series[at], 1e-12)), 1)[0])


def measure(job: tuple[str, str, int, int, dict[str, Any]]) -> list[float]:
    """Regret, violation, late violation, exponent, final gap and microseconds of one run."""
    family, name, seed, T, options = job
    cmdp = build(family, seed)
    fd.solve(cmdp)
    learner = fd.make_learner(name, cmdp.problem(), episodes=T, **{**LEARNERS[name], **options})
    start = time.perf_counter()
    history = fd.simulate(learner, cmdp, seed=seed)
    spent = (time.perf_counter() - start) / T * 1e6
    regret, violation = history.strong_regret, history.strong_violation
    late = np.maximum(history.violation[:, T // 10 :], 0.0).sum(axis=1).max()
    gap = float(history.reward_gap[-(T // 10) :].mean())
    return [float(regret[-1]), float(violation[-1]), float(late), exponent(regret), gap, spent]


def study(
    families: Iterable[str],
    learners: Iterable[str],
    seeds: list[int],
    T: int,
    options: dict[str, Any],
    workers: int = 1,
) -> None:
    """Print the table."""
    jobs = [(f, n, s, T, options if n == "proxdome" else {}) for f in families for n in learners for s in seeds]
    print(f"| family | learner | regret | violation | late | worst late | exponent | final gap | us |  T = {T:,}")
    print("|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        rows = []
        for job, row in zip(jobs, pool.map(measure, jobs), strict=True):
            rows.append(row)
            if len(rows) == len(seeds):
                table = np.array(rows)
                mean = table.mean(axis=0)
                print(
                    f"| {job[0]} | {job[1]} | {mean[0]:,.0f} | {mean[1]:,.1f} | {mean[2]:.3f} | "
                    f"{table[:, 2].max():.3f} | {mean[3]:.2f} | {mean[4]:.4f} | {mean[5]:.0f} |",
                    flush=True,
                )
                rows = []


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--learners", nargs="*", default=["proxdome", "flexdome"], choices=list(LEARNERS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--episodes", type=int, default=80_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--option", action="append", default=[], help="name=value, of proxdome")
    given = parser.parse_args()
    options: dict[str, Any] = {}
    for text in given.option:
        name, _, value = text.partition("=")
        try:
            options[name] = float(value)
        except ValueError:
            options[name] = {"True": True, "False": False}.get(value, value)
    study(given.families, given.learners, given.seeds, given.episodes, options, given.workers)


if __name__ == "__main__":
    main()
