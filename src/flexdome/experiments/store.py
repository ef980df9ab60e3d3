"""Results on disk: a directory for each run, a marker written last.

::

    DIR/experiments/<name>-<id>.json    what was asked for
    DIR/runs/<id>/history.parquet       the exact gaps of every episode
    DIR/runs/<id>/run.json              the marker: a run without it is not complete

While a run is under way its directory holds ``part-*.parquet``, ``learner-*.npz`` and, written last at each step,
``checkpoint.json`` with their checksums. Every file appears under a temporary name first and is renamed when whole, so
that a process killed at any moment loses at most the chunk in progress. A file whose checksum is not the recorded one
is damaged: the run (or, under way, its start) is computed again.

Parquet files hold no times, paths or host names: the same run gives the same bytes wherever and however it was cut.
One process writes to a store at a time; a second one is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.cmdp.archive import write_whole
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError
from flexdome.experiments.specs import ExperimentSpec, RunSpec

__all__ = ["Checkpoint", "Store"]

FORMAT = 1
HISTORY, MARKER, CHECKPOINT = "history.parquet", "run.json", "checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where an interrupted run stands: episodes done, the learner's file, and the time it took."""

    episode: int
    learner: bytes
    seconds: float


class Store:
    """The results under one directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValidationError(f"{self.path} is a file; a store is a directory")

    # -- reading ---------------------------------------------------------------------------------------------------

    def folder(self, run: RunSpec) -> Path:
        """The directory of a run."""
        return self.path / "runs" / run.id

    def has(self, run: RunSpec) -> bool:
        """Whether the run is complete (its file is not looked into; :meth:`damage` does)."""
        return (self.folder(run) / MARKER).is_file()

    def marker(self, run: RunSpec) -> dict[str, Any]:
        """Options, versions, machine and wall time of a complete run."""
        path = self.folder(run) / MARKER
        content = _read_json(path)
        try:
            _files(content)
        except FileFormatError as error:
            raise FileFormatError(f"{path} is damaged: {error}") from None
        return content

    def damage(self, run: RunSpec) -> str | None:
        """What is wrong with the files of a complete run, or None."""
        folder = self.folder(run)
        try:
            files = _files(self.marker(run))
        except FileFormatError as error:
            return str(error)
        return next((text for name, digest in files.items() if (text := _differs(folder / name, digest))), None)

    def read(self, run: RunSpec, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The history of a complete run: ``episode``, ``reward_gap``, ``violation_<i>``, ``multiplier_<i>``, ...

        The file is compared with its checksum first.
        """
        if not self.has(run):
            raise FlexDOMEError(f"run {run.id} ({run.learner.name} on {run.environment.name}) is not in {self.path}")
        path = self.folder(run) / HISTORY
        anew = f"`flexdome resume {self.path}` computes the run again"
        try:
            data = path.read_bytes()
            digest = _files(self.marker(run)).get(HISTORY)
        except OSError as error:
            raise FileFormatError(f"{path} cannot be read: {error.strerror or error}; {anew}") from None
        except FileFormatError as error:
            raise FileFormatError(f"{error}; {anew}") from None
        if hashlib.sha256(data).hexdigest() != digest:  # polars would read many a damaged file without a word
            raise FileFormatError(f"{path} is damaged: its checksum is not the recorded one; {anew}")
        try:
            return pl.read_parquet(io.BytesIO(data), columns=None if columns is None else list(columns))
        except pl.exceptions.ColumnNotFoundError as error:
            raise ValidationError(f"{path} has no column {error}") from None

    def experiments(self, skipped: Callable[[str], None] | None = None) -> list[ExperimentSpec]:
        """What was asked for, by name, and of one name the latest last.

        A request that cannot be read (its file is damaged, its model file is gone or has changed) is an error, or, with
        ``skipped``, a sentence to that function.
        """
        found = []
        for path in sorted((self.path / "experiments").glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
            try:
                found.append(_experiment(path))
            except FlexDOMEError as error:
                if skipped is None:
                    raise
                skipped(str(error))
        return sorted(found, key=lambda spec: spec.name)

    # -- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write; another process that has it makes this an error."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise FlexDOMEError(
                    f"{self.path} is being written by another process; wait for it or stop it"
                ) from None
            yield

    def remember(self, experiment: ExperimentSpec) -> None:
        """Keep what was asked for, so that ``resume`` and ``status`` know it; another of the same name stays."""
        path = self.path / "experiments" / f"{experiment.name}-{experiment.id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        models = {row.name: row.digest for row in experiment.environments if row.digest is not None}
        content = {"format": FORMAT, "experiment": experiment.model_dump(mode="json", exclude_none=True)}
        _write(path, _as_json({**content, "models": models}))

    def checkpoint(self, run: RunSpec) -> tuple[Checkpoint | None, str | None]:
        """Where an incomplete run stands, and what was wrong with its files if it must start anew."""
        folder = self.folder(run)
        if not (folder / CHECKPOINT).is_file():
            return None, None
        try:
            content = _read_json(folder / CHECKPOINT)
            files = _files(content)
            wrong = next((text for name, digest in files.items() if (text := _differs(folder / name, digest))), None)
            if wrong is None:
                learner = (folder / content["learner"]).read_bytes()
                return Checkpoint(int(content["episode"]), learner, float(content["seconds"])), None
        except (FileFormatError, KeyError, TypeError, ValueError, OSError) as error:
            wrong = f"{folder / CHECKPOINT} is damaged: {error}"
        return None, wrong

    def discard(self, run: RunSpec) -> None:
        """Remove everything of a run, its marker first."""
        folder = self.folder(run)
        with suppress(FileNotFoundError):
            os.unlink(folder / MARKER)
        if folder.exists():
            shutil.rmtree(folder)

    def append(
        self, run: RunSpec, columns: Mapping[str, npt.NDArray[Any]], learner: bytes, seconds: float = 0.0
    ) -> None:
        """Add the next episodes of an incomplete run, the learner as it stands after them, and the time so far."""
        folder = self.folder(run)
        folder.mkdir(parents=True, exist_ok=True)
        last = int(columns["episode"][-1])
        earlier = _read_json(folder / CHECKPOINT) if (folder / CHECKPOINT).is_file() else {"files": {}}
        files = {name: digest for name, digest in earlier["files"].items() if name != earlier.get("learner")}
        part, saved = f"part-{last:012d}.parquet", f"learner-{last:012d}.npz"
        files[part] = _write(folder / part, _as_parquet(pl.DataFrame(columns)))
        files[saved] = _write(folder / saved, learner)
        content = {"episode": last, "learner": saved, "seconds": round(seconds, 3), "files": files}
        _write(folder / CHECKPOINT, _as_json(content))
        if "learner" in earlier:
            (folder / earlier["learner"]).unlink(missing_ok=True)

    def finish(self, run: RunSpec, columns: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Complete a run with its last episodes; ``facts`` (versions, machine, wall time) go into the marker."""
        folder = self.folder(run)
        folder.mkdir(parents=True, exist_ok=True)
        earlier = _read_json(folder / CHECKPOINT)["files"] if (folder / CHECKPOINT).is_file() else {}
        parts = [
            pl.read_parquet(folder / name, memory_map=False) for name in sorted(earlier) if name.startswith("part")
        ]
        whole = pl.concat([*parts, pl.DataFrame(columns)], rechunk=True)
        if not np.array_equal(whole["episode"].to_numpy(), np.arange(1, run.episodes + 1)):
            raise FlexDOMEError(f"run {run.id} has {whole.height} episodes that do not make up 1 to {run.episodes}")
        digest = _write(folder / HISTORY, _as_parquet(whole))
        spec = run.model_dump(mode="json", exclude_none=True)
        content = {"format": FORMAT, "id": run.id, "run": spec, "files": {HISTORY: digest}, **facts}
        _write(folder / MARKER, _as_json(content))
        self.tidy(run)

    def tidy(self, run: RunSpec) -> None:
        """Remove what a complete run no longer needs; a kill right after the marker leaves it behind."""
        for path in self.folder(run).iterdir():
            if path.name not in (HISTORY, MARKER):
                path.unlink()


def _as_parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False, row_group_size=1 << 20)
    return buffer.getvalue()


def _as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def _write(path: Path, data: bytes) -> str:
    """Put the whole of ``data`` at ``path`` or nothing; its checksum comes back."""
    write_whole(path, data)
    return hashlib.sha256(data).hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} is not an object")
    return content


def _experiment(path: Path) -> ExperimentSpec:
    request = _read_json(path)
    content = request.get("experiment")
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} holds no experiment; remove it, and run the experiment again")
    try:
        experiment = ExperimentSpec(**content)
    except ValidationError as error:
        raise FileFormatError(f"{path}: {error}") from None
    for row in experiment.environments:
        if row.digest is not None and row.digest != request.get("models", {}).get(row.name):
            raise FileFormatError(f"{path}: {row.file} is not the model that it was when {experiment.name} was run")
    return experiment


def _files(content: Mapping[str, Any]) -> dict[str, str]:
    files = content.get("files")
    plain = isinstance(files, dict) and all(
        isinstance(digest, str) and "/" not in name for name, digest in files.items()
    )
    if not plain or not files:
        raise FileFormatError("it lists no files")
    return dict(files)


def _differs(path: Path, digest: str) -> str | None:
    try:
        with open(path, "rb") as file:
            same = hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    return None if same else f"{path} is damaged: its checksum is not the recorded one"
