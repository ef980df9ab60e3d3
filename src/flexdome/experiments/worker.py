"""What a worker does: take a run some way further. It shares no state and leaves no files.

``advance`` is a pure function of the run and of where it stands, whatever process or machine it runs in; the time it is
given decides how far it gets, never what comes out. It never touches the store: a learner comes and goes as the bytes
of its file, which is in a temporary directory for as long as it is read or written, and so does the model of a run
that names a file: a worker on another machine needs no directory of this one.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.errors import FlexDOMEError
from flexdome.experiments.code import known_learners, said_code
from flexdome.experiments.specs import EnvironmentSpec, RunSpec
from flexdome.learners import Learner
from flexdome.learners.files import read_learner
from flexdome.simulation import History, simulate

__all__ = ["Failed", "Progress", "advance", "attempt", "columns_of", "reason_of"]

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


@dataclass(frozen=True)
class Failed:
    """A call that raised: a sentence, and the traceback as text, which any process can read."""

    reason: str
    traceback: str


def attempt(*arguments: Any) -> Progress | Failed:
    """:func:`advance`, or what it raised: the exception of a stranger's learner may not survive the way back."""
    try:
        return advance(*arguments)
    except Exception as error:  # noqa: BLE001 (of any learner: the run fails, the others go on)
        return Failed(reason_of(error), traceback.format_exc())


def reason_of(error: BaseException) -> str:
    """Our own errors as they are, others by their kind and first line."""
    if isinstance(error, FlexDOMEError):
        return str(error)
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def advance(
    run: Mapping[str, Any], id: str, learner: bytes | None, seconds: float, model: bytes | None = None
) -> Progress:
    """Take a run further, for about ``seconds``: from the start, or from a learner's file.

    ``run`` is a :class:`RunSpec` as plain data, so that any process can take it; ``model`` is its model file, if it has
    one. ``id`` is what the one who asks takes it for: another model, or a worker with another version of the learner,
    would give the result of another run.
    """
    began = time.perf_counter()
    spec = RunSpec(**run)
    if spec.id != id:
        raise FlexDOMEError(
            f"run {id} is {spec.id} where it should be computed: its model file has changed, or "
            f"{spec.learner.id} is {said_code(spec.learner.code)} there"
        )
    cmdp = _instance(_Model(model), json.dumps(run["environment"], sort_keys=True), spec.instance)
    current = spec.make_learner(cmdp) if learner is None else _from_bytes(learner, spec.learner.id)
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


class _Model:
    """The bytes of a model file; for the cache of instances all are equal, since the environment has the checksum."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Model)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=16)
def _instance(model: _Model, environment: str, seed: int) -> CMDP:
    place = EnvironmentSpec(**json.loads(environment))
    if model.data is None:
        return place.make(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        path.write_bytes(model.data)
        return EnvironmentSpec(file=path, sha256=place.digest).make(seed)


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


def _from_bytes(data: bytes, id: str) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        path.write_bytes(data)
        return read_learner(path, known_learners(id))
