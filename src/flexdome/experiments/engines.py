"""Where work is done: here, in local processes, or on a Dask cluster. One seam for all three.

An engine takes calls of a function and gives futures. Because the function is pure and every result is stored by the
one process that asked, an engine cannot change what comes out; a worker that dies costs the calls it had in hand, which
are made again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from flexdome.errors import FlexDOMEError, ValidationError

__all__ = ["Cluster", "Engine", "Processes", "Serial", "make_engine"]


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

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Serial:
    """In this process, one call after the other."""

    slots = 1
    lost: tuple[type[BaseException], ...] = ()

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Processes:
    """Worker processes on this machine."""

    lost = (BrokenExecutor,)

    def __init__(self, workers: int) -> None:
        self.slots = workers
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


class Cluster:
    """A Dask cluster: the address of its scheduler, or a ready client, which stays the caller's.

    Dask itself makes the calls of a lost worker again elsewhere, three times at most.
    """

    def __init__(self, client: Any) -> None:
        try:
            from distributed import Client
            from distributed.scheduler import KilledWorker
        except ImportError:
            raise FlexDOMEError("a cluster needs Dask; install the extra: pip install 'flexdome[dask]'") from None
        self._owned = isinstance(client, str)
        if self._owned:
            try:
                client = Client(client, timeout="10s")  # type: ignore[no-untyped-call]
            except (OSError, ValueError) as error:
                raise FlexDOMEError(f"no Dask scheduler answers at {client!r}: {error}") from None
        elif not isinstance(client, Client):
            raise ValidationError(f"client is {client!r}; it must be a distributed.Client or an address")
        self._client = client
        self._executor: Executor = client.get_executor(pure=False, retries=3)
        self.slots = max(1, sum(client.nthreads().values()))
        self.lost: tuple[type[BaseException], ...] = (KilledWorker,)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Hand the call to the scheduler."""
        return self._executor.submit(function, *arguments)

    def recover(self) -> bool:
        """The scheduler has done so."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=False)  # calls in hand are cancelled
        if self._owned:
            self._client.close()


def make_engine(workers: int | None = None, cluster: Any = None) -> Engine:
    """The engine for ``workers`` processes (0: none but this one; None: one for each core), or for a cluster."""
    if cluster is not None:
        if workers is not None:
            raise ValidationError(f"workers is {workers}; a cluster has its own")
        return Cluster(cluster)
    count = _cores() if workers is None else workers
    if count < 0:
        raise ValidationError(f"workers is {count}; it must be at least 0")
    return Serial() if count == 0 else Processes(count)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
