"""A learner whose every episode is on disk before it is acknowledged.

::

    DIR/journal.log                     a record for each thing that the learner was told, in order
    DIR/snapshot-<number>-<byte>.npz    the learner after so many of them, and where in the log that is
    DIR/.lock                           one process writes at a time

``journal.observe(episode)`` checks the episode, appends it to the log in one write, and lets the learner learn. A
process that is killed at any instant leaves every acknowledged episode in the log; :func:`flexdome.recover` reads the
last snapshot and lets the learner learn again from what follows it, which gives the same bits. An episode whose write
was complete but whose acknowledgement was never seen counts as observed.

**What survives what.** Without ``fsync`` an episode survives the death of the process, and with it that of the
machine. A snapshot is on disk when it gets its name, and so is then the log up to it.

**How long recovery takes.** A snapshot is taken when the learner has learned for ``snapshot_seconds`` since the last
one, so that to learn that much again takes about as long, however many episodes there were.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.archive import as_path
from flexdome.cmdp.episode import Scaled
from flexdome.cmdp.lock import lock_folder
from flexdome.cmdp.validation import as_float, as_series, shown, switch
from flexdome.errors import FlexDOMEError, OutputError, ValidationError
from flexdome.learners import Learner
from flexdome.live.entries import EPISODE, HEAD, LOGGED, THRESHOLDS, as_episode, entries, episode_bytes
from flexdome.live.journal_records import Torn, as_record
from flexdome.live.recovery import FIRST, LOG, SNAPSHOT, recovered, require_journal, say_torn, snapshots

__all__ = ["Journal"]

TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
NAMES = ("observe", "preload", "set_thresholds")
SECONDS = 0.25

log = logging.getLogger(__name__)


class Journal:
    """A learner and the log of everything that it is told.

    Parameters
    ----------
    path : a directory, made where it is missing
    learner : begins a journal with this learner, as it stands; None goes on with the one that is there
    fsync : whether every episode is on disk, and not with the operating system alone, before it is acknowledged
    snapshot_seconds : after how much time spent learning a snapshot is taken

    Attributes
    ----------
    learner : tell it things through the journal alone
    dropped : what was said of a torn last record, or None

    Examples
    --------
    >>> import tempfile, flexdome as fd
    >>> cmdp = fd.make_cmdp("inventory-v1")
    >>> folder = tempfile.TemporaryDirectory()
    >>> with fd.Journal(folder.name, fd.FlexDOME(cmdp.problem(), episodes=100)) as journal:
    ...     for episode in fd.sample_episodes(cmdp, journal.learner.policy, 3):
    ...         journal.observe(episode)
    >>> fd.recover(folder.name).episode
    3
    >>> folder.cleanup()
    """

    learner: Learner
    dropped: str | None
    _number: int  # of the next record
    _end: int  # byte at which it will begin

    def __init__(
        self,
        path: str | os.PathLike[str],
        learner: Learner | None = None,
        *,
        fsync: bool = False,
        snapshot_seconds: float = SECONDS,
    ) -> None:
        self.path = as_path("path", path)
        self._fsync = switch("fsync", fsync)
        self._patience = as_float("snapshot_seconds", snapshot_seconds, 0.0)
        if learner is not None and not isinstance(learner, Learner):
            raise ValidationError(f"learner is {shown(learner)}; it must be a learner, or None")
        self._open = False
        if learner is None:
            require_journal(self.path)
        else:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"{self.path} cannot be made: {error.strerror or error}") from None
        self._lock = lock_folder(self.path)
        try:
            self._sweep()
            if learner is None:
                self._go_on()
            else:
                self._begin(learner)
        except BaseException:
            self._lock.release()
            raise
        self._open, self._learned = True, 0.0
        self._told = self._state()

    # -- what a learner is told ----------------------------------------------------------------------------------

    def observe(self, episode: Episode) -> None:
        """Append ``episode`` to the log and let the learner learn from it; a bad one is refused, changing nothing."""
        self._check()
        known = _Known(self.learner.problem, self.learner.checked_episode(episode))
        self._tell(EPISODE, episode_bytes(known.data), lambda: self.learner.observe(known))

    def preload(self, episodes: Iterable[Episode]) -> None:
        """Append logged episodes, and let the learner take them as data: all of them or, if one is bad, none."""
        self._check()
        items: list[Episode] = []
        data = self.learner.checked_episodes(_kept(episodes, items))
        body = struct.pack("<Q", len(data)) + b"".join(episode_bytes(one) for one in data)
        self._tell(LOGGED, body, lambda: self.learner.preload(items))

    def set_thresholds(self, thresholds: npt.ArrayLike, slater_gap: float | None = None) -> None:
        """Change the known thresholds from the next episode on (:meth:`Learner.set_thresholds`)."""
        self._check()
        asked = self.learner.problem.as_thresholds(thresholds)
        gap = np.nan if slater_gap is None else as_float("slater_gap", slater_gap)
        alpha = self.learner.checked_thresholds(asked, slater_gap)  # refused before it is written
        body = np.append(alpha, gap).astype("<f8").tobytes()
        self._tell(THRESHOLDS, body, lambda: self.learner.take_thresholds(alpha, slater_gap))

    def snapshot(self) -> None:
        """Take a snapshot now; earlier ones are removed when it is on disk."""
        self._check()
        os.fsync(self._file.fileno())
        self.learner.save(self.path / SNAPSHOT.format(self._number, self._end))
        for number, _, path in snapshots(self.path):
            if number < self._number:
                path.unlink(missing_ok=True)
        self._learned = 0.0

    def episodes(self) -> Iterator[Episode]:
        """Every episode that was observed, from the first on, in numbers between 0 and 1."""
        self._check()
        problem = self.learner.problem
        with open(self.path / LOG, "rb") as file:
            for entry in entries(self.path / LOG, file, len(FIRST), 0):
                if not isinstance(entry, Torn) and entry[2] == EPISODE:
                    yield as_episode(entry[3], problem)[0]

    def close(self) -> None:
        """Give the right to write back. What was acknowledged is in the log already."""
        if self._open:
            self._open = False
            self._file.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r}, {self.learner!r})"

    # -- inside ----------------------------------------------------------------------------------------------------

    def _tell(self, kind: int, body: bytes, learn: Callable[[], None]) -> None:
        """Write a record and then let the learner learn; a second thread is refused."""
        self.learner.turn.change(NAMES[kind], self._write_and_learn, kind, body, learn)

    def _write_and_learn(self, kind: int, body: bytes, learn: Callable[[], None]) -> None:
        before = self._end
        record = as_record(HEAD.pack(self._number, self.learner.episode, kind) + body)
        if os.fstat(self._file.fileno()).st_size != before:  # an interrupt came between two lines of what follows
            self._take_back(before)
        try:
            if self._file.write(record) != len(record):
                raise OSError("there is no room for a whole record")
            if self._fsync:
                os.fsync(self._file.fileno())
            begun = time.perf_counter()
            learn()
        except BaseException as error:
            self._undo(kind, error, before, len(record))
            if isinstance(error, OSError):
                raise OutputError(f"{self.path / LOG} cannot be written: {error.strerror or error}") from error
            raise
        self._count(before + len(record))
        self._learned += time.perf_counter() - begun
        if self._learned >= self._patience:
            try:
                self.snapshot()
            except OutputError as error:  # the episode is in the log all the same
                self._learned = 0.0
                log.warning("flexdome: no snapshot was taken: %s", error)

    def _undo(self, kind: int, error: BaseException, before: int, size: int) -> None:
        """Take a record back that the learner did not learn from; what it did learn before an interrupt stays."""
        if self._state() != self._told:
            self._count(before + size)
            return
        self._take_back(before)
        if kind == LOGGED and not isinstance(error, FlexDOMEError):
            self.close()  # how many of them it took cannot be told

    def _count(self, end: int) -> None:
        self._end, self._number = end, self._number + 1
        self._told = self._state()

    def _take_back(self, end: int) -> None:
        self._file.truncate(end)
        self._file.seek(end)

    def _state(self) -> tuple[int, int]:
        return self.learner.episode, len(self.learner.threshold_changes)

    def _check(self) -> None:
        if not self._open:
            raise FlexDOMEError(f"the journal {self.path} is closed; fd.Journal({str(self.path)!r}) goes on with it")
        if self._state() != self._told:
            raise FlexDOMEError(
                f"the learner of {self.path} was told something that is not in its journal: it is at episode "
                f"{self.learner.episode}, the journal at {self._told[0]}; tell it through the journal alone"
            )

    def _sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for path in self.path.iterdir():
            if TEMPORARY.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                with suppress(OSError):
                    path.unlink()

    def _begin(self, learner: Learner) -> None:
        path = self.path / LOG
        if snapshots(self.path) or (os.path.lexists(path) and path.stat().st_size > len(FIRST)):
            raise ValidationError(
                f"{self.path} holds a journal already; fd.Journal({str(self.path)!r}) without a learner goes on with it"
            )
        try:
            self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 (until close)
            self._file.write(FIRST)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None
        self.learner, self.dropped, self._number, self._end = learner, None, 0, len(FIRST)
        os.fsync(self._file.fileno())
        learner.save(self.path / SNAPSHOT.format(0, len(FIRST)))

    def _go_on(self) -> None:
        self.learner, self._number, self._end, torn = recovered(self.path)
        self.dropped = say_torn(self.path, torn)
        try:
            self._file = open(self.path / LOG, "r+b", buffering=0)  # noqa: SIM115 (until close)
            self._take_back(self._end)
        except OSError as error:
            raise OutputError(f"{self.path / LOG} cannot be written: {error.strerror or error}") from None


def _kept(episodes: Iterable[Episode], items: list[Episode]) -> Iterator[Episode]:
    """The episodes one by one, each put into ``items`` too: a log is read once."""
    series = as_series("episodes", episodes, "it must be a series of Episodes")

    def put() -> Iterator[Episode]:
        for episode in series:
            items.append(episode)
            yield episode

    return put()


class _Known(Scaled):
    """An episode that was checked against a problem, and is not checked against the same one again."""

    def __init__(self, problem: Problem, data: tuple[Any, ...]) -> None:
        states, actions, rewards, utilities, thresholds = data
        super().__init__(states, actions, rewards, utilities, thresholds if thresholds.size else None)
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "data", data)

    problem: Problem
    data: tuple[Any, ...]

    def checked(self, problem: Problem, gaps: bool = False) -> tuple[Any, ...]:
        """The arrays as the kernels take them."""
        return self.data if problem is self.problem else super().checked(problem, gaps)
