"""A Dask cluster as an engine: strangers that are asked what they compute with before they are given anything."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from flexdome.cmdp.validation import as_float, shown
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.experiments import installation

__all__ = ["GONE", "Cluster", "as_timeout"]

LONGEST_TIMEOUT = 1e9  # seconds
TIMEOUT = 60.0  # seconds for a cluster to answer, and to have a worker that fits
ANSWER = 5.0  # seconds after which the scheduler is asked again
GONE = "the cluster is gone; what it had finished is stored, and the same command goes on from it"
PROBE = f"(lambda scope: (exec({inspect.getsource(installation)!r}, scope), scope['installed']())[1])({{}})"

log = logging.getLogger(__name__)


@dataclass
class _Call:
    """A call in hand: what it is, its future on the cluster, and the workers that may take it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    inner: Future[Any] | None = None
    key: str = ""
    workers: frozenset[str] = frozenset()


class Cluster:
    """A Dask cluster: the address of its scheduler, or a ready client, which stays the caller's.

    A worker is used if it has this process's versions of Python and of all that results depend on, and the same sources
    of flexdome. Others, also those that join later, get a line in the log and no work. Dask itself makes the calls of a
    lost worker again elsewhere, three times at most; where no worker is left that may take a call, it waits here.

    Parameters
    ----------
    client : an address, or a ``distributed.Client``
    timeout : seconds for the scheduler to answer, and for a worker that fits to be there; then it is an error
    """

    def __init__(self, client: Any, timeout: float = TIMEOUT) -> None:
        try:
            from distributed import Client
            from distributed.scheduler import KilledWorker
        except ImportError:
            raise FlexDOMEError("a cluster needs Dask; install the extra: pip install 'flexdome[dask]'") from None
        self._timeout = as_timeout(timeout)
        self._owned = isinstance(client, str)
        if self._owned:
            client = _connected(client, self._timeout)
        elif not isinstance(client, Client):
            raise ValidationError(f"client is {shown(client)}; it must be a distributed.Client or an address")
        self._client = client
        self.lost: tuple[type[BaseException], ...] = (KilledWorker,)
        self._own = installation.installed() | {"sources": installation.LOADED}
        self._threads: dict[str, int] = {}  # by address, of all workers
        self._asked: dict[str, Any] = {}  # by address, what they say is installed, when it comes
        self._fit: set[str] = set()
        self._refused: dict[str, str] = {}  # by address, why
        self._calls: dict[Future[Any], _Call] = {}
        self._lock = threading.Lock()
        self._looked = -float("inf")
        self._since = time.monotonic()  # when there last was a worker that fits
        try:
            while not self._fit:
                self._meet()
                if self._refused and set(self._refused) == set(self._threads):
                    raise FlexDOMEError(f"no worker of the cluster can be used: {'; '.join(self._refused.values())}")
                self._check_patience()
                time.sleep(0.02)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def slots(self) -> int:
        """One for each thread of the workers that fit."""
        return max(1, sum(self._threads.get(address, 0) for address in self._fit))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Hand the call to the scheduler, for the workers that fit."""
        future: Future[Any] = Future()
        self._calls[future] = _Call(function, arguments)
        self._send(future)
        return future

    def _send(self, future: Future[Any]) -> None:
        call = self._calls[future]
        if not self._fit:
            return
        with self._lock:
            before, call.workers = call.inner, frozenset(self._fit)
            executor = self._client.get_executor(pure=False, retries=3, workers=sorted(self._fit))
            call.key = f"flexdome-{uuid.uuid4().hex}"
            call.inner = executor.submit(call.function, *call.arguments, key=call.key)
        if before is not None:
            before.cancel()
        call.inner.add_done_callback(partial(self._take, future, call))

    def _take(self, future: Future[Any], call: _Call, inner: Future[Any]) -> None:
        """Pass on what came of a call, unless it was given to others since."""
        with self._lock:
            if call.inner is not inner or future.done():
                return
            if inner.cancelled():
                future.cancel()
                future.set_running_or_notify_cancel()
            elif (error := inner.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(inner.result())

    def recover(self) -> bool:
        """The scheduler has done so."""
        return False

    def drop(self, future: Future[Any]) -> bool:
        """Give up a call that does not end; its worker, whose thread cannot be stopped, gets no more work."""
        call = self._calls.pop(future, None)
        if call is None or call.inner is None:
            return False
        busy = [address for address, keys in self._processing().items() if call.key in keys]
        call.inner.cancel()
        for address in busy:
            self._fit.discard(address)
            self._refused[address] = f"worker {address} has a call that does not end"
            log.warning("flexdome: %s; it gets no more work", self._refused[address])
        return False

    def _processing(self) -> dict[str, list[str]]:
        """The calls that each worker has, as the scheduler says; none where it does not answer."""
        try:
            return {address: list(keys) for address, keys in self._client.processing().items()}
        except (OSError, RuntimeError, TimeoutError):
            return {}

    def tend(self) -> None:
        """Ask workers that came what they have; give the calls of those that went to others."""
        for future in [future for future in self._calls if future.done()]:
            del self._calls[future]
        if time.monotonic() - self._looked < 0.5:
            return
        self._meet()
        for future, call in self._calls.items():
            if not call.workers & self._fit:
                self._send(future)
        self._check_patience()

    def _meet(self) -> None:
        """See which workers are there, and judge those that have said what they have."""
        self._threads = self._all_threads()
        for address in sorted(self._fit - set(self._threads)):
            log.warning("flexdome: worker %s is gone; what it had in hand is computed again", address)
        for known in (self._asked, self._refused):
            for address in set(known) - set(self._threads):
                del known[address]
        self._fit &= set(self._threads)
        for address in set(self._threads) - self._fit - set(self._refused) - set(self._asked):
            self._asked[address] = self._client.submit(
                eval, PROBE, workers=[address], allow_other_workers=False, pure=False, priority=1000
            )
        for address in [address for address, future in self._asked.items() if future.done()]:
            self._judge(address, self._asked.pop(address))
        if self._fit:
            self._since = time.monotonic()

    def _all_threads(self) -> dict[str, int]:
        """How many threads each worker has, as the scheduler says."""
        self._looked = began = time.monotonic()
        while self._client.status == "running":  # a client that connects again has lost its calls
            left = self._timeout - (time.monotonic() - began)
            if left <= 0.0:
                raise FlexDOMEError(
                    f"the scheduler has not answered for {self._timeout:g} s; what was finished is stored, and the "
                    "same command goes on from it"
                )
            try:
                return dict(self._client.nthreads(callback_timeout=min(left, ANSWER)))
            except TimeoutError:
                continue
            except (OSError, RuntimeError):  # a connection, or the client, that is being closed
                break
        raise FlexDOMEError(GONE)

    def _judge(self, address: str, answer: Any) -> None:
        from distributed import CancelledError

        try:
            said = answer.result(timeout=self._timeout)
        except (CancelledError, TimeoutError):  # it went away, and is asked again if it comes back
            return
        except Exception as error:  # noqa: BLE001 (of another machine: whatever it is, it is one more reason)
            said = {"answer": f"{type(error).__name__}: {_first_line(error)}"}
        if said == self._own:
            self._fit.add(address)
            return
        said = said if isinstance(said, dict) else {}
        names = [name for name in {**self._own, **said} if said.get(name) != self._own.get(name)]
        pairs = (
            f"{name} is {said.get(name, 'unknown')} there and {self._own.get(name, 'none')} here" for name in names
        )
        self._refused[address] = f"worker {address} differs from this process: {', '.join(pairs)}"
        log.warning("flexdome: %s; it gets no work", self._refused[address])

    def _check_patience(self) -> None:
        waited = time.monotonic() - self._since
        if self._fit or waited < self._timeout:
            return
        if self._refused:
            why = "; ".join(self._refused.values())
        elif self._threads:
            why = f"{', '.join(sorted(self._threads))} did not say what is installed there"
        else:
            why = "it has none"
        raise FlexDOMEError(f"the cluster has had no worker that can be used for {self._timeout:g} s: {why}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for call in self._calls.values():
            if call.inner is not None:
                call.inner.cancel()
        self._calls.clear()
        self._asked.clear()
        if self._owned:
            self._client.close()


def _connected(address: str, timeout: float) -> Any:
    """A client of the scheduler at ``address``, which is asked for its name first.

    A client that is made at once waits without end for a port that takes the connection and says nothing.
    """
    from distributed import Client
    from distributed.core import rpc
    from distributed.security import Security

    async def ask() -> Any:
        secured = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        async with rpc(address, timeout=timeout, connection_args=secured) as scheduler:  # type: ignore[no-untyped-call]
            return await scheduler.identity()

    try:
        with ThreadPoolExecutor(1) as thread:  # there may be a loop in this one
            said = thread.submit(asyncio.run, asyncio.wait_for(ask(), timeout)).result()
        if not isinstance(said, dict) or said.get("type") != "Scheduler":
            raise ValueError("what answers there is not a scheduler")
        return Client(address, timeout=timeout)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 (bytes from a stranger make the protocol raise anything)
        reason = _first_line(error) or f"nothing came within {timeout:g} s"
        raise FlexDOMEError(f"no Dask scheduler answers at {address!r}: {reason}") from None


def as_timeout(seconds: float) -> float:
    """Seconds for a cluster to answer."""
    return as_float("timeout", seconds, 0.1, LONGEST_TIMEOUT)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]
