"""Where work is done: here, in local processes, or on a Dask cluster. One seam for all three.

An engine takes calls of a function and gives futures. Because the function is pure and every result is stored by the
one process that asked, an engine cannot change what comes out; a worker that dies costs the calls it had in hand, which
are made again. That holds only where all compute with the same code: the workers of a cluster are asked what they have
before they are given anything, and those that differ from this process are given nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from flexdome.cmdp.validation import as_int, shown, switch
from flexdome.errors import ValidationError
from flexdome.experiments.cluster import TIMEOUT, Cluster, as_timeout

__all__ = ["Cluster", "Engine", "Processes", "Serial", "make_engine"]

MOST_WORKERS = 4096


class Engine(Protocol):
    """The seam.

    A call whose future raises one of ``lost`` died with its worker and can be made again after ``recover``.
    """

    @property
    def slots(self) -> int:
        """How many calls are in hand at once."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """What a future of a dead worker raises."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a call."""

    def recover(self) -> bool:
        """Replace dead workers; whether the calls of all others are gone with them."""

    def drop(self, future: Future[Any]) -> bool:
        """Give up a call that does not end; whether the calls of all others are gone with it."""

    def tend(self) -> None:
        """See to the workers, every second or so; an error where the calls in hand cannot end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Serial:
    """In this process, one call after the other.

    Parameters
    ----------
    raises : end with the error of a run that fails, with its traceback, instead of going on with the others
    """

    slots = 1
    lost: tuple[type[BaseException], ...] = ()

    def __init__(self, raises: bool = False) -> None:
        self.raises = switch("raises", raises)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Make the call now."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 (a future carries whatever the call raised)
            future.set_exception(error)
        return future

    def recover(self) -> bool:
        """Nothing can die alone."""
        return False

    def drop(self, future: Future[Any]) -> bool:
        """Every call has ended."""
        return False

    def tend(self) -> None:
        """Nothing to see to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Processes:
    """Worker processes on this machine."""

    lost = (BrokenExecutor,)

    def __init__(self, workers: int) -> None:
        self.slots = as_int("workers", workers, 1, MOST_WORKERS)
        self._pool: ProcessPoolExecutor | None = None

    def _started(self) -> ProcessPoolExecutor:
        # Spawned, not forked: threads of polars and numba do not survive a fork.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.slots, mp_context=context, initializer=_follow_the_parent)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return list(self._pool._processes or ()) if self._pool is not None else []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Hand the call to a free worker."""
        if self._pool is None:
            self._pool = self._started()
        # A worker starts here, and takes a second until it ignores Ctrl-C, which reaches the whole group. It inherits
        # the mask; a Ctrl-C that comes meanwhile waits for us.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(function, *arguments)
        except BrokenExecutor as error:  # a worker died since the last call: this one is lost like those in hand
            future: Future[Any] = Future()
            future.set_exception(error)
            return future
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def recover(self) -> bool:
        """Start new workers: the death of one ends the pool."""
        self._stop()
        return True

    def drop(self, future: Future[Any]) -> bool:
        """End all workers: which of them has the call is not known."""
        return self.recover()

    def tend(self) -> None:
        """The pool does: a worker that dies ends the calls in hand."""

    def _stop(self) -> None:
        if self._pool is None:
            return
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with suppress(OSError, ValueError):
                process.kill()
        for process in processes:
            process.join()
        self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def _follow_the_parent() -> None:
    """In a worker: leave Ctrl-C, which reaches the whole group, to the parent, and end when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def make_engine(workers: int | None = None, cluster: Any = None, timeout: float = TIMEOUT) -> Engine:
    """The engine for ``workers`` processes (0: none but this one; None: one for each core), or for a cluster.

    With ``workers=0`` a run that fails ends everything with its error.

    ``timeout`` is how many seconds a cluster is given to answer, and to have a worker that can be used.
    """
    timeout = as_timeout(timeout)
    if cluster is not None:
        if workers is not None:
            raise ValidationError(f"workers is {shown(workers)}; a cluster has its own")
        return Cluster(cluster, timeout)
    count = _cores() if workers is None else as_int("workers", workers, 0, MOST_WORKERS)
    return Serial(raises=True) if count == 0 else Processes(count)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
