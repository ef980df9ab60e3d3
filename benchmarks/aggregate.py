"""Time and memory to aggregate 1,000 runs of 80,000 episodes.

    python -m benchmarks.aggregate [runs [episodes]]

Every run has a file of its own (links to copies of a few, so that making them is cheap), read and decoded each time.
Goal: under a minute and under 2 GB.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import machine, peak_memory
from flexdome.analysis import aggregate
from flexdome.experiments import ExperimentSpec, Store

ENVIRONMENTS = ("paper-v1", "paper-stochastic-v1", "independent-v1", "conflict-v1")
LEARNERS = ("flexdome", "uopt-rpgpd", "optprimaldual", "rpd-oe", "optpess-pd")


def fill(store: Store, experiment: ExperimentSpec) -> None:
    """Noise that looks like a run in place of every run; one in a hundred is made, the others are links to it."""
    t = np.arange(1, experiment.episodes + 1)
    made: Path | None = None
    for k, run in enumerate(experiment.runs()):
        if made is None or k % 100 == 0:
            noise = np.random.default_rng(k).normal(size=(3, t.size)) / np.sqrt(t)
            names = ("reward_gap", "violation_0", "multiplier_0")
            store.finish(run, {"episode": t, **dict(zip(names, noise, strict=True))}, {})
            made = store.folder(run)
        else:
            store.folder(run).mkdir(parents=True)
            for path in made.iterdir():
                (store.folder(run) / path.name).hardlink_to(path)


def main(runs: int = 1_000, episodes: int = 80_000) -> None:
    """Print time and peak memory."""
    experiment = ExperimentSpec(
        name="many",
        episodes=episodes,
        seeds=range(max(runs // (len(ENVIRONMENTS) * len(LEARNERS)), 1)),
        environments=[{"id": id} for id in ENVIRONMENTS],
        learners=[{"id": id} for id in LEARNERS],
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        fill(store, experiment)
        before = peak_memory()
        start = time.perf_counter()
        results = aggregate(store, experiment)
        took = time.perf_counter() - start
        peak = peak_memory()
    print(machine())
    print(f"{results.finals.height} runs of {episodes} episodes: {took:.1f} s, peak {peak / 2**10:.2f} GB of memory")
    print(f"({before / 2**10:.2f} GB of it before the first run is read); curves {results.curves.height} rows")


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:]))
