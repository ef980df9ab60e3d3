"""Compile ahead: every kernel that the registered learners use, side by side, into the cache that all processes share.

Whoever needs a kernel first compiles it, and two processes that need it at once both do. What is compiled depends on
the kinds of a learner's arrays and not on their sizes, so a CMDP of two states will do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path

from flexdome.cmdp import Episode
from flexdome.experiments.compiling import mark_compiled
from flexdome.experiments.engines import Processes
from flexdome.experiments.specs import LearnerSpec, ProblemSpec
from flexdome.families import make_cmdp
from flexdome.learners import LEARNERS, load_learner
from flexdome.simulation import simulate

__all__ = ["compile_learner", "warm_up"]

SLOWEST = "proxdome"  # begun first, so that nobody waits for it in the end


def compile_learner(id: str) -> float:
    """Simulate, observe, save and load once with everything small; the seconds it took come back."""
    begun = time.perf_counter()
    cmdp = make_cmdp("paper-v1", seed=0, states=2, actions=2, horizon=2)
    told = ProblemSpec(safe_slack=0.5 if "safe policy" in LEARNERS[id].needs else None)
    learner = LearnerSpec(id=id, problem=told).make(cmdp, 4, 0)
    simulate(learner, cmdp, 2, seed=0)
    first = int(cmdp.initial.argmax())
    learner.observe(Episode(states=[first, 0, 0], actions=[0, 0], rewards=[0.5, 0.5], utilities=[[0.5, 0.5]]))
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "learner.npz")
        simulate(load_learner(Path(folder) / "learner.npz"), cmdp, 1, seed=0)
    took = time.perf_counter() - begun
    mark_compiled(id, took)
    return took


def warm_up(ids: Sequence[str] | None = None, workers: int = 2) -> Iterator[tuple[str, float]]:
    """Compile for ``ids`` (all) in ``workers`` processes; each as it is done, with the seconds it took."""
    wanted = sorted(LEARNERS if ids is None else ids, key=lambda id: id != SLOWEST)
    with Processes(workers) as engine:
        futures = {engine.submit(compile_learner, id): id for id in wanted}
        for future in as_completed(futures):
            yield futures[future], future.result()
