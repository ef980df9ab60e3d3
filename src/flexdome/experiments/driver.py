"""Run what is missing of some experiments, and store it.

The one loop that knows engines and store: hand out calls of :func:`~flexdome.experiments.worker.advance`, write what
comes back, hand out the next. All writing is done here, in one process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from flexdome.cmdp.validation import as_float, as_items, instance_of, shown
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError
from flexdome.experiments.engines import GONE, Engine, Serial
from flexdome.experiments.specs import ExperimentSpec, RunSpec
from flexdome.experiments.store import Store
from flexdome.experiments.worker import Progress, advance

__all__ = ["Event", "Outcome", "run_experiments"]

CHUNK_SECONDS = 4.0  # between checkpoints of one run
TEND_SECONDS = 1.0  # between two looks at the workers while nothing comes back
ENGINE = ("slots", "lost", "submit", "recover", "tend", "__enter__", "__exit__")  # what an engine has
MOST = 10_000  # experiments
ATTEMPTS = 3  # deaths of a worker under one call, alone in hand, before the run is given up


@dataclass(frozen=True)
class Event:
    """Something happened to a run.

    ``kind``: ``"stored"`` (it was complete before), ``"resumed"``, ``"damaged"``, ``"started"`` (a worker has it),
    ``"advanced"``, ``"finished"``, ``"retried"`` or ``"failed"``; ``episode`` is where the run now stands, ``text``
    what there is to say.
    """

    kind: str
    run: RunSpec
    episode: int = 0
    text: str = ""


@dataclass(frozen=True)
class Outcome:
    """What :func:`run_experiments` did: runs computed, found complete, and failed (run to reason)."""

    computed: int = 0
    stored: int = 0
    failed: dict[str, str] = field(default_factory=dict)


@dataclass
class _Work:
    run: RunSpec
    learner: bytes | None
    episode: int
    seconds: float = 0.0
    attempts: int = 0
    again: bool = False  # its files were damaged under it, and it began anew
    suspect: bool = False  # in hand when a worker died: made again alone, to see whose fault it is


def run_experiments(
    experiments: Iterable[ExperimentSpec],
    store: Store,
    engine: Engine | None = None,
    watch: Callable[[Event], None] = lambda event: None,
    chunk_seconds: float = CHUNK_SECONDS,
) -> Outcome:
    """Compute the runs that ``store`` does not have; a run in several experiments is computed once.

    Examples
    --------
    >>> import tempfile
    >>> from flexdome.experiments import ExperimentSpec, Store, run_experiments
    >>> spec = ExperimentSpec(
    ...     name="tiny", episodes=50, seeds=[0, 1], environments=[{"id": "media-v1"}], learners=[{"id": "flexdome"}]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run_experiments([spec], Store(folder))
    ...     again = run_experiments([spec], Store(folder))
    >>> first.computed, again.computed, again.stored
    (2, 0, 2)
    """
    items = as_items("experiments", experiments, "it must be a series of ExperimentSpec", MOST)
    experiments = [instance_of(f"experiments[{k}]", item, ExperimentSpec) for k, item in enumerate(items)]
    instance_of("store", store, Store)
    if engine is not None and not all(hasattr(engine, name) for name in ENGINE):
        raise ValidationError(f"engine is {shown(engine)}; it must be an Engine, as make_engine makes")
    if not callable(watch):
        raise ValidationError(f"watch is {shown(watch)}; it must be a function of an Event")
    chunk_seconds = as_float("chunk_seconds", chunk_seconds, 0.0)
    for experiment in experiments:
        experiment.check()
    with store.writing():
        for experiment in experiments:
            store.remember(experiment)
        runs = {run.id: run for experiment in experiments for run in experiment.runs()}
        waiting, stored = _missing(runs.values(), store, watch)
        if waiting:
            _compile(work.run for work in waiting)
        with engine or Serial() as engine:
            failed = _work_off(waiting, store, engine, watch, chunk_seconds)
    return Outcome(computed=len(runs) - stored - len(failed), stored=stored, failed=failed)


def _missing(runs: Iterable[RunSpec], store: Store, watch: Callable[[Event], None]) -> tuple[deque[_Work], int]:
    """What is to be done, and how many runs are complete."""
    waiting: deque[_Work] = deque()
    stored = 0
    for run in runs:
        damage = store.damage(run)
        if damage is None and store.has(run):
            store.tidy(run)
            watch(Event("stored", run, run.episodes))
            stored += 1
            continue
        found = None
        if damage is None:
            found, damage = store.checkpoint(run)
        if damage is not None:
            watch(Event("damaged", run, 0, f"{damage}; the run is computed again"))
            store.discard(run)
        if found is not None:
            watch(Event("resumed", run, found.episode))
        waiting.append(_Work(run, found.learner, found.episode, found.seconds) if found else _Work(run, None, 0))
    return waiting, stored


def _compile(runs: Iterable[RunSpec]) -> None:
    """Fill the cache of compiled code before the workers start, so that they all read it and none compiles.

    What fails here fails again, and is reported, when the run is made.
    """
    seen = set()
    for run in runs:
        if run.learner.id not in seen:
            seen.add(run.learner.id)
            short = run.model_copy(update={"episodes": min(run.episodes, 2)})
            Serial().submit(advance, short.model_dump(mode="json", exclude_none=True), short.id, None, 0.0)


def _work_off(
    waiting: deque[_Work], store: Store, engine: Engine, watch: Callable[[Event], None], chunk_seconds: float
) -> dict[str, str]:
    running: dict[Future[Progress], _Work] = {}
    failed: dict[str, str] = {}
    while waiting or running:
        engine.tend()
        while waiting and len(running) < engine.slots:
            if running and (waiting[0].suspect or any(work.suspect for work in running.values())):
                break
            work = waiting.popleft()
            plain = work.run.model_dump(mode="json", exclude_none=True)
            watch(Event("started", work.run, work.episode))
            running[engine.submit(advance, plain, work.run.id, work.learner, chunk_seconds)] = work
        done, _ = wait(running, timeout=TEND_SECONDS, return_when=FIRST_COMPLETED)
        alone = len(running) == 1
        for future in done:
            work = running.pop(future)
            error = _error(future)
            if error is None:
                wrong = _store(work, future.result(), store, watch, waiting)
                if wrong is not None:
                    failed[work.run.id] = wrong
            elif isinstance(error, engine.lost) and (not alone or work.attempts + 1 < ATTEMPTS):
                work.attempts += alone
                work.suspect = True
                watch(Event("retried", work.run, work.episode, "its worker died; a new one takes it up"))
                waiting.appendleft(work)
            elif isinstance(error, Exception):
                failed[work.run.id] = _reason(error)
                watch(Event("failed", work.run, work.episode, failed[work.run.id]))
            else:
                raise error
        if any(isinstance(_error(future), engine.lost) for future in done):
            gone = engine.recover()
            for future, work in list(running.items()):  # in hand when the workers were lost
                if isinstance(_error(future), engine.lost) if future.done() else gone:
                    del running[future]
                    work.suspect = True
                    waiting.appendleft(work)
    return failed


def _error(future: Future[Progress]) -> BaseException | None:
    """What a call that is done raised; calls that are cancelled are those of a cluster that is gone."""
    if future.cancelled():
        raise FlexDOMEError(GONE)
    return future.exception()


def _reason(error: Exception) -> str:
    """Our own errors as they are, others by their first line: a worker's may be followed by its whole traceback."""
    if isinstance(error, FlexDOMEError):
        return str(error)
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _store(
    work: _Work, step: Progress, store: Store, watch: Callable[[Event], None], waiting: deque[_Work]
) -> str | None:
    """Store what came back, and put what is left to do into ``waiting``; the reason comes back if that is impossible.

    Files of the run that were damaged since they were written cost the run its start, once.
    """
    seconds = work.seconds + step.seconds
    try:
        if step.learner is None:
            store.finish(work.run, step.columns, {**step.origin, **_when(seconds)})
        else:
            store.append(work.run, step.columns, step.learner, seconds)
    except FileFormatError as error:
        if work.again:
            watch(Event("failed", work.run, 0, str(error)))
            return str(error)
        watch(Event("damaged", work.run, 0, f"{error}; the run is computed again"))
        store.discard(work.run)
        waiting.append(_Work(work.run, None, 0, again=True))
        return None
    work.seconds, work.episode, work.attempts, work.suspect = seconds, step.last, 0, False
    if step.learner is None:
        watch(Event("finished", work.run, work.episode))
        return None
    work.learner = step.learner
    watch(Event("advanced", work.run, work.episode))
    waiting.appendleft(work)
    return None


def _when(seconds: float) -> dict[str, Any]:
    return {"wall_seconds": round(seconds, 3), "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
