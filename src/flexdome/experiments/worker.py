"""What a worker does: take a run some way further. It shares no state and leaves no files.

``advance`` is a pure function of the run and of where it stands, whatever process or machine it runs in; the time it is
given decides how far it gets, never what comes out. It never touches the store: a learner comes and goes as the bytes
of its file, which is in a temporary directory for as long as it is read or written. A model that a run names by its
file is read from there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.errors import FlexDOMEError
from flexdome.experiments.specs import EnvironmentSpec, RunSpec
from flexdome.learners import Learner, load_learner
from flexdome.simulation import History, simulate

__all__ = ["Progress", "advance", "columns_of"]

FIRST = 16  # episodes tried before the pace is known
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Progress:
    """The next episodes of a run.

    Attributes
    ----------
    columns : the table, one row an episode
    learner : the learner's file after them; None when the run is complete
    seconds : time in this call
    origin : versions and machine that computed them
    """

    columns: Columns
    learner: bytes | None
    seconds: float
    origin: dict[str, Any]

    @property
    def last(self) -> int:
        """The last episode done."""
        return int(self.columns["episode"][-1])


def advance(run: Mapping[str, Any], id: str, learner: bytes | None, seconds: float) -> Progress:
    """Take a run further, for about ``seconds``: from the start, or from a learner's file.

    ``run`` is a :class:`RunSpec` as plain data, so that any process can take it. ``id`` is what the one who asks takes
    it for: a model file that has changed since, or a worker with another version of the learner, would give the result
    of another run.
    """
    began = time.perf_counter()
    spec = RunSpec(**run)
    if spec.id != id:
        raise FlexDOMEError(
            f"run {id} is {spec.id} where it should be computed: its model file has changed, or another version of "
            f"{spec.learner.id} is installed there"
        )
    cmdp = _instance(json.dumps(run["environment"], sort_keys=True), spec.environment.digest, spec.instance)
    current = spec.make_learner(cmdp) if learner is None else _from_bytes(learner)
    history: History | None = None
    step = FIRST
    while current.episode < spec.episodes:
        step = min(step, spec.episodes - current.episode)
        mark = time.perf_counter()
        piece = simulate(current, cmdp, episodes=step, seed=spec.seed)
        history = piece if history is None else history + piece
        now = time.perf_counter()
        left = seconds - (now - began)
        if left <= 0.0:
            break
        pace = max(now - mark, 1e-6) / step
        step = max(1, min(16 * step, int(left / pace)))
    if history is None:
        raise FlexDOMEError(f"run {spec.id} is at episode {current.episode}; it has {spec.episodes}")
    done = current.episode >= spec.episodes
    saved = None if done else _as_bytes(current)
    return Progress(columns_of(history), saved, time.perf_counter() - began, _origin())


@lru_cache(maxsize=16)
def _instance(environment: str, digest: str | None, seed: int) -> CMDP:
    """The instance; ``digest`` tells a model file from what it was before."""
    return EnvironmentSpec(**json.loads(environment)).make(seed)


@cache
def _origin() -> dict[str, Any]:
    packages = ("flexdome", "numpy", "scipy", "numba", "highspy", "polars")
    versions = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
    machine = {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
    return {"versions": versions, "machine": machine}


def columns_of(history: History) -> Columns:
    """A history as named columns, one for each constraint where there are several."""
    columns: Columns = {"episode": history.episodes, "reward_gap": history.reward_gap}
    for name, table in (("violation", history.violation), ("multiplier", history.multipliers)):
        columns |= {f"{name}_{i}": np.ascontiguousarray(row) for i, row in enumerate(table)}
    return columns


def _as_bytes(learner: Learner) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        learner.save(path)
        return path.read_bytes()


def _from_bytes(data: bytes) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        path.write_bytes(data)
        return load_learner(path)
