"""Run what is missing of some experiments, and store it.

The one loop that knows engines and store: hand out calls of :func:`~flexdome.experiments.worker.advance`, write what
comes back, hand out the next. All writing is done here, in one process.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from flexdome.cmdp.validation import as_float, as_items, instance_of, shown, switch
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError
from flexdome.experiments.cluster import GONE
from flexdome.experiments.compiling import is_compiled, kind_of, mark_compiled
from flexdome.experiments.engines import Engine, Processes, Serial
from flexdome.experiments.specs import ExperimentSpec, RunSpec
from flexdome.experiments.store import Failure, Store
from flexdome.experiments.worker import Failed, Progress, advance, attempt, reason_of

__all__ = ["Event", "Outcome", "run_experiments"]

CHUNK_SECONDS = 4.0  # between checkpoints of one run
LIMIT = 3600.0  # seconds for one call
LONGEST_LIMIT = 1e9
TEND_SECONDS = 1.0  # between two looks at the workers while nothing comes back
ENGINE = ("slots", "lost", "submit", "recover", "tend", "__enter__", "__exit__")  # what an engine has
MOST = 10_000  # experiments
ATTEMPTS = 3  # deaths of a worker under one call, alone in hand, before the run is given up


@dataclass(frozen=True)
class Event:
    """Something happened to a run.

    ``kind``: ``"stored"`` (it was complete before), ``"resumed"``, ``"damaged"``, ``"started"`` (a worker has it),
    ``"advanced"``, ``"finished"``, ``"retried"`` or ``"failed"``; ``episode`` is where the run now stands, ``text``
    what there is to say, ``columns`` what was computed since the run's last event: its episodes as arrays by name, as
    in a stored table (``"advanced"`` and ``"finished"``).
    """

    kind: str
    run: RunSpec
    episode: int = 0
    text: str = ""
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Outcome:
    """What :func:`run_experiments` did: runs computed, found complete, and failed (run to reason, and traceback)."""

    computed: int = 0
    stored: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    tracebacks: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass
class _Work:
    run: RunSpec
    learner: bytes | None
    episode: int
    seconds: float = 0.0
    attempts: int = 0
    again: bool = False  # its files were damaged under it, and it began anew
    suspect: bool = False  # in hand when a worker died: made again alone, to see whose fault it is
    began: float = 0.0  # when the call in hand was made


def run_experiments(
    experiments: Iterable[ExperimentSpec],
    store: Store,
    engine: Engine | None = None,
    watch: Callable[[Event], None] = lambda event: None,
    chunk_seconds: float = CHUNK_SECONDS,
    limit: float = LIMIT,
    force: bool = False,
    check: bool = True,
) -> Outcome:
    """Compute the runs that ``store`` does not have; a run in several experiments is computed once.

    Parameters
    ----------
    watch : called with every :class:`Event`; what it raises ends everything, and loses nothing that is stored
    chunk_seconds : how long a call of a worker takes, about; after each the run is stored as far as it is
    limit : seconds after which a call that has not ended is given up, and its run has failed (not in this process)
    force : compute runs that are complete again
    check : build every learner once first, so that a bad option is found before anything runs

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
    limit = as_float("limit", limit, 0.1, LONGEST_LIMIT)
    force, check = switch("force", force), switch("check", check)
    for experiment in experiments if check else ():
        experiment.check()
    for learner in (row for experiment in experiments for row in experiment.learners) if force else ():
        if learner.absent:
            raise ValidationError(f"force is true; {learner.name} cannot be computed again: {learner.absent}")
    with store.writing():
        for experiment in experiments:
            store.remember(experiment)
        runs = {run.id: run for experiment in experiments for run in experiment.runs()}
        for run in runs.values() if force else ():
            store.discard(run)
        waiting, stored = _missing(runs.values(), store, watch)
        with engine or Serial() as engine:
            _compile((work.run for work in waiting), store, engine, limit)
            failed = _work_off(waiting, store, engine, watch, chunk_seconds, limit)
    return Outcome(
        computed=len(runs) - stored - len(failed),
        stored=stored,
        failed={id: failure.reason for id, failure in failed.items()},
        tracebacks={id: failure.traceback for id, failure in failed.items() if failure.traceback},
    )


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
        store.forgive(run)
        if found is not None:
            watch(Event("resumed", run, found.episode))
        waiting.append(_Work(run, found.learner, found.episode, found.seconds) if found else _Work(run, None, 0))
    return waiting, stored


def _compile(runs: Iterable[RunSpec], store: Store, engine: Engine, limit: float) -> None:
    """Fill the cache of compiled code before the runs start, so that all workers read it and none compiles again.

    Learners that need different kernels are compiled side by side, in this machine's workers and here. What fails here,
    or has not ended in a worker after ``limit`` seconds, fails again, and is reported, when the run is made.
    """
    began = time.monotonic()
    first: dict[str, RunSpec] = {}
    for run in runs:
        if run.learner.id not in first and not is_compiled(run.learner.id):
            first[run.learner.id] = run.model_copy(update={"episodes": min(run.episodes, 2)})
    kinds: dict[Any, list[RunSpec]] = {}
    for run in first.values():
        kinds.setdefault(_kind(run), []).append(run)
    groups = list(kinds.values())
    elsewhere = groups[:-1] if isinstance(engine, Processes) else []
    sent = {}
    for group in elsewhere:
        with suppress(FileFormatError):
            sent[engine.submit(attempt, *_short(group[0], store))] = group[0]
    for run in [run for group in groups[len(elsewhere) :] for run in group]:
        _compile_here(run, store)
    gone: tuple[type[BaseException], ...] = (*engine.lost, TimeoutError)
    for future, run in sent.items():
        try:
            step = future.result(timeout=max(0.0, began + limit - time.monotonic()))
        except gone:
            engine.recover()
            return
        if isinstance(step, Progress):
            mark_compiled(run.learner.id, step.seconds)
    for run in [run for group in elsewhere for run in group[1:]]:
        _compile_here(run, store)


def _compile_here(run: RunSpec, store: Store) -> None:
    began = time.perf_counter()
    if Serial().submit(lambda: advance(*_short(run, store))).exception() is None:
        mark_compiled(run.learner.id, time.perf_counter() - began)


def _kind(run: RunSpec) -> Any:
    """Runs of one kind need the same kernels; one that cannot be made is of no other's kind."""
    try:
        return kind_of(run.make_learner(run.environment.make(run.instance)))
    except Exception:  # noqa: BLE001 (of any learner: it fails again when the run is made)
        return run.learner.id


def _plain(run: RunSpec, store: Store) -> tuple[dict[str, Any], bytes | None]:
    """A run as plain data, and its model, for a worker that shares no directory with this process."""
    plain, digest = run.model_dump(mode="json", exclude_none=True), run.environment.digest
    if digest is None:
        return plain, None
    plain["environment"] |= {"file": "model.npz", "sha256": digest}
    return plain, store.model(digest)


def _short(run: RunSpec, store: Store) -> tuple[Any, ...]:
    """What :func:`advance` takes to make the first episodes of a run."""
    plain, model = _plain(run, store)
    return plain, run.id, None, 0.0, model


def _work_off(
    waiting: deque[_Work],
    store: Store,
    engine: Engine,
    watch: Callable[[Event], None],
    chunk_seconds: float,
    limit: float,
) -> dict[str, Failure]:
    running: dict[Future[Progress | Failed], _Work] = {}
    failed: dict[str, Failure] = {}
    raises = getattr(engine, "raises", False)

    def fail(work: _Work, reason: str, trace: str = "") -> None:
        failed[work.run.id] = Failure(work.episode, reason, trace)
        store.fail(work.run, failed[work.run.id])
        watch(Event("failed", work.run, work.episode, reason))

    while waiting or running:
        engine.tend()
        while waiting and len(running) < engine.slots:
            if running and (waiting[0].suspect or any(work.suspect for work in running.values())):
                break
            work = waiting.popleft()
            if work.run.learner.absent:
                fail(work, work.run.learner.absent)
                continue
            watch(Event("started", work.run, work.episode))
            work.began = time.monotonic()
            try:
                plain, model = _plain(work.run, store)
            except FileFormatError as gone:
                fail(work, str(gone))
                continue
            function = advance if raises else attempt
            running[engine.submit(function, plain, work.run.id, work.learner, chunk_seconds, model)] = work
        done, _ = wait(running, timeout=TEND_SECONDS, return_when=FIRST_COMPLETED)
        alone = len(running) == 1
        for future in done:
            work = running.pop(future)
            error = _error(future)
            if error is None:
                step = future.result()
                if isinstance(step, Failed):
                    fail(work, step.reason, step.traceback)
                elif (wrong := _store(work, step, store, watch, waiting)) is not None:
                    fail(work, wrong)
            elif isinstance(error, engine.lost) and (not alone or work.attempts + 1 < ATTEMPTS):
                work.attempts += alone
                work.suspect = True
                watch(Event("retried", work.run, work.episode, "its worker died; a new one takes it up"))
                waiting.appendleft(work)
            elif isinstance(error, Exception):
                fail(work, reason_of(error), "".join(traceback.format_exception(error)))
                if raises:
                    raise error
            else:
                raise error
        if any(isinstance(_error(future), engine.lost) for future in done):
            _take_back(running, waiting, engine, engine.recover())
        for future in [one for one, work in running.items() if time.monotonic() - work.began > limit]:
            if future in running and not future.done():
                work = running.pop(future)
                fail(work, f"a call had not ended after {limit:g} s, at episode {work.episode} or later")
                _take_back(running, waiting, engine, engine.drop(future))
    return failed


def _take_back(
    running: dict[Future[Progress | Failed], _Work], waiting: deque[_Work], engine: Engine, gone: bool
) -> None:
    """Put the calls that were in hand when workers were lost back into ``waiting``."""
    for future, work in list(running.items()):
        if isinstance(_error(future), engine.lost) if future.done() else gone:
            del running[future]
            work.suspect = True
            waiting.appendleft(work)


def _error(future: Future[Progress | Failed]) -> BaseException | None:
    """What a call that is done raised; calls that are cancelled are those of a cluster that is gone."""
    if future.cancelled():
        raise FlexDOMEError(GONE)
    return future.exception()


def _store(
    work: _Work, step: Progress, store: Store, watch: Callable[[Event], None], waiting: deque[_Work]
) -> str | None:
    """Store what came back, and put what is left to do into ``waiting``; the reason comes back if that is impossible.

    Files of the run that were damaged since they were written cost the run its start, once.
    """
    seconds = work.seconds + step.seconds
    try:
        if step.learner is None:
            facts = {**step.origin, "code": work.run.learner.code, **_when(seconds)}
            store.finish(work.run, step.columns, facts)
        else:
            store.append(work.run, step.columns, step.learner, seconds)
    except FileFormatError as error:
        if work.again:
            return str(error)
        watch(Event("damaged", work.run, 0, f"{error}; the run is computed again"))
        store.discard(work.run)
        waiting.append(_Work(work.run, None, 0, again=True))
        return None
    work.seconds, work.episode, work.attempts, work.suspect = seconds, step.last, 0, False
    if step.learner is None:
        watch(Event("finished", work.run, work.episode, columns=step.columns))
        return None
    work.learner = step.learner
    watch(Event("advanced", work.run, work.episode, columns=step.columns))
    waiting.appendleft(work)
    return None


def _when(seconds: float) -> dict[str, Any]:
    return {"wall_seconds": round(seconds, 3), "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
