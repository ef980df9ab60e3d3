"""Results on disk: a directory for each run, a marker written last.

::

    DIR/experiments/<name>-<id>.json    what was asked for
    DIR/runs/<id>/history.parquet       the exact gaps of every episode
    DIR/runs/<id>/run.json              the marker: a run without it is not complete
    DIR/runs/<id>/failure.json          why a run failed when it was last tried
    DIR/models/<sha256>.npz             the model files of what was asked for

While a run is under way its directory holds ``part-*.parquet``, ``learner-*.npz`` and, written last at each step,
``checkpoint.json`` with their checksums. Every file appears under a temporary name first and is renamed when whole, so
that a process killed at any moment loses at most the chunk in progress. A file whose checksum is not the recorded one
is damaged: the run (or, under way, its start) is computed again.

Nothing in a store is believed for its name. Marker and checkpoint say whose they are (the run's id and what was run)
and carry a checksum of themselves; both are compared when they are read, so that a changed byte, or a directory that
lies where another belongs, is found. Only regular files are read: a link is not followed, a pipe or a device is not
waited for. Only names that the store itself gives are ever removed. A marker of format 1 has no checksum of itself; it
counts if it names the run, and its table has the recorded checksum and the run's episodes, which is all that results
depend on. A checkpoint of that format does not say whose it is: its run starts anew.

Parquet files hold no times, paths or host names: the same run gives the same bytes wherever and however it was cut.
One process writes to a store at a time; a second one is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.cmdp.archive import as_path
from flexdome.cmdp.lock import lock_folder
from flexdome.cmdp.validation import as_float, as_items, as_text, instance_of, shown
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError
from flexdome.experiments.labels import FORMAT, OURS, SHA256, check_label, label_of, listed_files, sealed
from flexdome.experiments.requests import MODELS, REQUESTS, Request, read_request, read_requests, write_request
from flexdome.experiments.run_tables import as_facts, as_frame, check_episodes, check_learner_file
from flexdome.experiments.specs import ExperimentSpec, RunSpec
from flexdome.experiments.store_files import (
    as_parquet,
    is_file,
    is_folder,
    make_folder,
    parsed_table,
    read_checked,
    read_json,
    remove,
    require_folder,
    write,
)

__all__ = ["Checkpoint", "Failure", "Store"]

HISTORY, MARKER, CHECKPOINT, FAILURE = "history.parquet", "run.json", "checkpoint.json", "failure.json"
PART, LEARNER = "part-{:012d}.parquet", "learner-{:012d}.npz"
MOST = 10_000  # columns


@dataclass(frozen=True)
class Checkpoint:
    """Where an interrupted run stands: episodes done, the learner's file, and the time it took."""

    episode: int
    learner: bytes
    seconds: float


@dataclass(frozen=True)
class Failure:
    """Why a run failed: after which episode at the earliest, one sentence, the traceback (empty: it says no more)."""

    episode: int
    reason: str
    traceback: str


class Store:
    """The results under one directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path("path", path)
        if self.path.exists() and not self.path.is_dir():
            raise ValidationError(f"{self.path} is a file; a store is a directory")

    # -- reading ---------------------------------------------------------------------------------------------------

    def folder(self, run: RunSpec) -> Path:
        """The directory of a run."""
        return self.path / "runs" / instance_of("run", run, RunSpec).id

    def _own_folder(self, run: RunSpec) -> Path:
        """The directory of a run, which must be one, and no link to one."""
        folder = self.folder(run)
        require_folder(folder.parent)
        require_folder(folder)
        return folder

    def has(self, run: RunSpec) -> bool:
        """Whether the run is complete (its files are not looked into; :meth:`damage` does)."""
        folder = self.folder(run)
        places, files = (folder.parent, folder), (folder / MARKER, folder / HISTORY)
        return all(map(is_folder, places)) and all(map(is_file, files))

    def marker(self, run: RunSpec) -> dict[str, Any]:
        """Options, versions, machine and wall time of a complete run; one that is damaged or another's is refused."""
        path = self._own_folder(run) / MARKER
        content = read_json(path)
        try:
            check_label(content, run, formats=(1, FORMAT))
            if set(listed_files(content)) != {HISTORY}:
                raise FileFormatError(f"it lists {sorted(content['files'])}; a complete run has {HISTORY} alone")
        except FileFormatError as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None
        return content

    def damage(self, run: RunSpec) -> str | None:
        """What is wrong with the files of a run that has a marker, or with its directory, or None."""
        if not os.path.lexists(self.folder(run)):
            return None
        try:
            if os.path.lexists(self._own_folder(run) / MARKER):
                self._table(run, None)
        except FileFormatError as error:
            return str(error)
        return None

    def read(self, run: RunSpec, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The history of a complete run: ``episode``, ``reward_gap``, ``violation_<i>``, ``multiplier_<i>``, ...

        The file is compared with its checksum first.
        """
        if not self.has(run):
            raise FlexDOMEError(f"run {run.id} ({run.learner.name} on {run.environment.name}) is not in {self.path}")
        if columns is not None:
            items = as_items("columns", columns, "it must be names of columns", MOST)
            columns = list(dict.fromkeys(as_text(f"columns[{k}]", name) for k, name in enumerate(items)))
        try:
            return self._table(run, columns)
        except FileFormatError as error:
            raise FileFormatError(f"{error}; `flexdome resume {self.path}` computes the run again") from None

    def _table(self, run: RunSpec, columns: Sequence[str] | None) -> pl.DataFrame:
        path = self.folder(run) / HISTORY
        frame = parsed_table(path, read_checked(path, self.marker(run)["files"][HISTORY]))
        check_episodes(path, frame, 1, run.episodes)
        try:
            return frame if columns is None else frame.select(columns)
        except pl.exceptions.ColumnNotFoundError as error:
            raise ValidationError(f"{path} has no column {error}") from None

    def experiments(self, skipped: Callable[[str], None] | None = None) -> list[ExperimentSpec]:
        """What was asked for, by name, and of one name the latest last.

        A request that cannot be read is an error, or, with ``skipped``, a sentence to that function.
        """
        if skipped is not None and not callable(skipped):
            raise ValidationError(f"skipped is {shown(skipped)}; it must be a function or None")
        found: dict[tuple[str, str], ExperimentSpec] = {}
        for request in self.requests(skipped):
            key = request.experiment.name, request.experiment.id
            found.pop(key, None)  # one that was asked for again counts from then
            found[key] = request.experiment
        return sorted(found.values(), key=lambda spec: spec.name)

    def requests(self, skipped: Callable[[str], None] | None = None) -> list[Request]:
        """The same with what is known of the code that learners were then; also what was asked for twice."""
        if skipped is not None and not callable(skipped):
            raise ValidationError(f"skipped is {shown(skipped)}; it must be a function or None")
        found = []
        for path in read_requests(self.path):
            try:
                found.append(read_request(path))
            except FlexDOMEError as error:
                if skipped is None:
                    raise
                skipped(str(error))
        return found

    def stale(self, request: Request) -> list[RunSpec]:
        """The runs of a request that are here as another code of their learner made them."""
        experiment = instance_of("request", request, Request).experiment
        return [run for run in experiment.runs() if self.former(request, run) is not None]

    def former(self, request: Request, run: RunSpec) -> str | None:
        """The id under which a run of a request is here as another code of its learner made it; None: it is not."""
        code = instance_of("request", request, Request).code.get(run.learner.name)
        if code is None or code == run.learner.code:
            return None
        id = run.id_by(code)
        folder = self.path / "runs" / id
        return id if is_folder(folder) and is_file(folder / MARKER) else None

    def failure(self, run: RunSpec) -> Failure | None:
        """Why the run failed when it was last tried; None if it did not, or if the file that says so is damaged."""
        folder = self.folder(run)
        if not is_folder(folder.parent) or not is_folder(folder) or not is_file(folder / FAILURE):
            return None
        try:
            content = read_json(folder / FAILURE)
            check_label(content, run, formats=(FORMAT,))
        except FileFormatError:
            return None
        return Failure(*(content.get(name, "") for name in ("episode", "reason", "traceback")))

    def model(self, digest: str) -> bytes:
        """The store's copy of the model file with this SHA-256."""
        if not isinstance(digest, str) or not SHA256.fullmatch(digest):
            raise ValidationError(f"digest is {shown(digest)}; it must be 64 hexadecimal digits")
        return read_checked(self.path / MODELS / f"{digest}.npz", digest)

    def checkpoint(self, run: RunSpec) -> tuple[Checkpoint | None, str | None]:
        """Where an incomplete run stands, and what was wrong with its files if it must start anew."""
        folder = self.folder(run)
        if not os.path.lexists(folder / CHECKPOINT):
            return None, None
        try:
            episode, seconds, files = self._progress(run)
            *parts, learner = sorted(files, key=lambda name: name.startswith("learner"))
            data = read_checked(folder / learner, files[learner])
            check_learner_file(folder / learner, run, episode)
            first = 1
            for name in parts:
                frame = parsed_table(folder / name, read_checked(folder / name, files[name]))
                check_episodes(folder / name, frame, first, _number(name))
                first = _number(name) + 1
            return Checkpoint(episode, data, seconds), None
        except FileFormatError as error:
            return None, str(error)

    def _progress(self, run: RunSpec) -> tuple[int, float, dict[str, str]]:
        """Episode, time and files, parts in order, of a checkpoint whose every word is this run's."""
        path = self._own_folder(run) / CHECKPOINT
        content = read_json(path)
        try:
            check_label(content, run, formats=(FORMAT,))
            episode, seconds, files = content.get("episode"), content.get("seconds"), listed_files(content)
            if type(episode) is not int or not 1 <= episode < run.episodes:
                raise FileFormatError(f"episode is {episode!r}; it must be from 1 to {run.episodes - 1}")
            if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0.0 <= seconds < np.inf:
                raise FileFormatError(f"seconds is {seconds!r}; it must be a time")
            parts = sorted(name for name in files if name != LEARNER.format(episode))
            if len(parts) == len(files) or any(name != PART.format(_number(name)) for name in parts):
                raise FileFormatError(f"it lists {sorted(files)}; it must be parts and {LEARNER.format(episode)}")
            if not parts or parts[-1] != PART.format(episode):
                raise FileFormatError(f"its parts end with {parts[-1:]}; they must end at episode {episode}")
        except FileFormatError as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None
        return episode, float(seconds), files

    # -- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write; another process that has it makes this an error."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(self.path)
        try:
            for name in ("runs", REQUESTS, MODELS):
                make_folder(self.path / name)
            yield
        finally:
            lock.release()

    def remember(self, experiment: ExperimentSpec) -> None:
        """Keep what was asked for, so that ``resume`` and ``status`` know it; another of the same name stays."""
        write_request(self.path, instance_of("experiment", experiment, ExperimentSpec))

    def fail(self, run: RunSpec, failure: Failure) -> None:
        """Keep why a run failed, beside what there is of it."""
        folder = self.folder(run)
        instance_of("failure", failure, Failure)
        make_folder(folder)
        what = {"episode": failure.episode, "reason": failure.reason, "traceback": failure.traceback}
        write(folder / FAILURE, sealed({**label_of(run), **what}))

    def forgive(self, run: RunSpec) -> None:
        """Forget that a run failed: it is tried again."""
        if self.failure(run) is not None:
            remove(self.folder(run) / FAILURE)

    def discard(self, run: RunSpec) -> None:
        """Remove everything that the store wrote of a run, its marker first."""
        if os.path.lexists(self.folder(run)):
            self._discard(self._own_folder(run))

    def discard_stale(self) -> int:
        """Remove what another code of a learner made and the present one has made anew; of how many runs.

        A stale run that is not there anew stays, and so does one that is some experiment's as it is.
        """
        with self.writing():
            requests = self.requests(lambda text: None)
            present = {run.id for request in requests for run in request.experiment.runs()}
            old = {self.former(request, run) for request in requests for run in self.stale(request) if self.has(run)}
            for id in (gone := old - present - {None}):
                folder = self.path / "runs" / str(id)
                require_folder(folder)
                self._discard(folder)
        return len(gone)

    def _discard(self, folder: Path) -> None:
        remove(folder / MARKER)
        self._clear(folder)
        with suppress(OSError):  # what is not ours stays, and so does its directory
            folder.rmdir()

    def append(
        self, run: RunSpec, columns: Mapping[str, npt.NDArray[Any]], learner: bytes, seconds: float = 0.0
    ) -> None:
        """Add the next episodes of an incomplete run, the learner as it stands after them, and the time so far."""
        folder, frame = self.folder(run), as_frame(columns)
        instance_of("learner", learner, bytes)
        seconds = as_float("seconds", seconds, 0.0)
        first, last = int(frame["episode"][0]), int(frame["episode"][-1])
        if not 1 <= first <= last <= run.episodes or last - first + 1 != frame.height:
            raise ValidationError(f"columns has the episodes {first} to {last}; they must be among 1 to {run.episodes}")
        make_folder(folder)
        files: dict[str, str] = {}
        if os.path.lexists(folder / CHECKPOINT):
            episode, _, files = self._progress(run)
            del files[LEARNER.format(episode)]
        part, saved = PART.format(last), LEARNER.format(last)
        files[part] = write(folder / part, as_parquet(frame))
        files[saved] = write(folder / saved, learner)
        content = {**label_of(run), "episode": last, "seconds": round(seconds, 3), "files": files}
        earlier = [path for path in folder.glob("learner-*") if path.name != saved and OURS.fullmatch(path.name)]
        write(folder / CHECKPOINT, sealed(content))
        for path in earlier:
            remove(path)

    def finish(self, run: RunSpec, columns: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Complete a run with its last episodes; ``facts`` (versions, machine, wall time) go into the marker.

        Parts that were damaged since they were written are a :class:`FileFormatError`.
        """
        folder, frame = self.folder(run), as_frame(columns)
        facts = as_facts(facts)
        make_folder(folder)
        parts = []
        if os.path.lexists(folder / CHECKPOINT):
            episode, _, files = self._progress(run)
            names = sorted(name for name in files if name != LEARNER.format(episode))
            parts = [parsed_table(folder / name, read_checked(folder / name, files[name])) for name in names]
        whole = pl.concat([*parts, frame], rechunk=True)
        if not np.array_equal(whole["episode"].to_numpy(), np.arange(1, run.episodes + 1)):
            raise FlexDOMEError(f"run {run.id} has {whole.height} episodes that do not make up 1 to {run.episodes}")
        digest = write(folder / HISTORY, as_parquet(whole))
        write(folder / MARKER, sealed({**facts, **label_of(run), "files": {HISTORY: digest}}))
        self.tidy(run)

    def tidy(self, run: RunSpec) -> None:
        """Remove what a complete run no longer needs; a kill right after the marker leaves it behind."""
        self._clear(self._own_folder(run), HISTORY, MARKER)

    def _clear(self, folder: Path, *kept: str) -> None:
        for name in os.listdir(folder):
            if OURS.fullmatch(name) and name not in kept:
                remove(folder / name)


def _number(name: str) -> int:
    return int(name.partition("-")[2].partition(".")[0] or 0)
