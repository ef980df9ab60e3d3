"""Results on disk: a directory for each run, a marker written last.

::

    DIR/experiments/<name>-<id>.json    what was asked for
    DIR/runs/<id>/history.parquet       the exact gaps of every episode
    DIR/runs/<id>/run.json              the marker: a run without it is not complete

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

import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.cmdp.archive import as_path, read_archive, write_whole
from flexdome.cmdp.lock import lock_folder
from flexdome.cmdp.validation import as_float, as_items, as_raw, as_text, instance_of, shown
from flexdome.errors import FileFormatError, FlexDOMEError, OutputError, ValidationError
from flexdome.experiments.specs import ExperimentSpec, RunSpec
from flexdome.learners.files import FORMAT as KIND
from flexdome.learners.files import VERSION

__all__ = ["Checkpoint", "Store"]

FORMAT = 2  # of marker and checkpoint; 1 had no checksum of itself
HISTORY, MARKER, CHECKPOINT = "history.parquet", "run.json", "checkpoint.json"
PART, LEARNER = "part-{:012d}.parquet", "learner-{:012d}.npz"
OURS = re.compile(
    r"history\.parquet|run\.json|checkpoint\.json|part-[0-9]{12}\.parquet|learner-[0-9]{12}\.npz|\.[0-9a-f]{16}\.tmp"
)
SHA256 = re.compile(r"[0-9a-f]{64}")
COLUMN = re.compile(r"reward_gap|(violation|multiplier)_[0-9]+")
LARGEST_JSON = 1 << 26  # bytes of JSON
MOST = 10_000  # columns


@dataclass(frozen=True)
class Checkpoint:
    """Where an interrupted run stands: episodes done, the learner's file, and the time it took."""

    episode: int
    learner: bytes
    seconds: float


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
        _require_folder(folder.parent)
        _require_folder(folder)
        return folder

    def has(self, run: RunSpec) -> bool:
        """Whether the run is complete (its files are not looked into; :meth:`damage` does)."""
        folder = self.folder(run)
        places, files = (folder.parent, folder), (folder / MARKER, folder / HISTORY)
        return all(map(_is_folder, places)) and all(map(_is_file, files))

    def marker(self, run: RunSpec) -> dict[str, Any]:
        """Options, versions, machine and wall time of a complete run; one that is damaged or another's is refused."""
        path = self._own_folder(run) / MARKER
        content = _read_json(path)
        try:
            _check_label(content, run, formats=(1, FORMAT))
            if set(_files(content)) != {HISTORY}:
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
        frame = _parquet(path, _checked(path, self.marker(run)["files"][HISTORY]))
        _check_episodes(path, frame, 1, run.episodes)
        try:
            return frame if columns is None else frame.select(columns)
        except pl.exceptions.ColumnNotFoundError as error:
            raise ValidationError(f"{path} has no column {error}") from None

    def experiments(self, skipped: Callable[[str], None] | None = None) -> list[ExperimentSpec]:
        """What was asked for, by name, and of one name the latest last.

        A request that cannot be read (its file is damaged, its model file is gone or has changed) is an error, or, with
        ``skipped``, a sentence to that function.
        """
        if skipped is not None and not callable(skipped):
            raise ValidationError(f"skipped is {shown(skipped)}; it must be a function or None")
        found = []
        folder = self.path / "experiments"
        if os.path.lexists(folder):
            _require_folder(folder)
        for path in sorted(folder.glob("*.json"), key=lambda path: path.lstat().st_mtime_ns):
            try:
                found.append(_experiment(path))
            except FlexDOMEError as error:
                if skipped is None:
                    raise
                skipped(str(error))
        return sorted(found, key=lambda spec: spec.name)

    def checkpoint(self, run: RunSpec) -> tuple[Checkpoint | None, str | None]:
        """Where an incomplete run stands, and what was wrong with its files if it must start anew."""
        folder = self.folder(run)
        if not os.path.lexists(folder / CHECKPOINT):
            return None, None
        try:
            episode, seconds, files = self._progress(run)
            *parts, learner = sorted(files, key=lambda name: name.startswith("learner"))
            data = _checked(folder / learner, files[learner])
            _check_learner(folder / learner, run, episode)
            first = 1
            for name in parts:
                frame = _parquet(folder / name, _checked(folder / name, files[name]))
                _check_episodes(folder / name, frame, first, _number(name))
                first = _number(name) + 1
            return Checkpoint(episode, data, seconds), None
        except FileFormatError as error:
            return None, str(error)

    def _progress(self, run: RunSpec) -> tuple[int, float, dict[str, str]]:
        """Episode, time and files, parts in order, of a checkpoint whose every word is this run's."""
        path = self._own_folder(run) / CHECKPOINT
        content = _read_json(path)
        try:
            _check_label(content, run, formats=(FORMAT,))
            episode, seconds, files = content.get("episode"), content.get("seconds"), _files(content)
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
            for name in ("runs", "experiments"):
                _make(self.path / name)
            yield
        finally:
            lock.release()

    def remember(self, experiment: ExperimentSpec) -> None:
        """Keep what was asked for, so that ``resume`` and ``status`` know it; another of the same name stays."""
        instance_of("experiment", experiment, ExperimentSpec)
        path = self.path / "experiments" / f"{experiment.name}-{experiment.id}.json"
        _make(path.parent)
        models = {row.name: row.digest for row in experiment.environments if row.digest is not None}
        content = {"format": FORMAT, "experiment": experiment.model_dump(mode="json", exclude_none=True)}
        _write(path, _sealed({**content, "models": models}))

    def discard(self, run: RunSpec) -> None:
        """Remove everything that the store wrote of a run, its marker first."""
        if os.path.lexists(self.folder(run)):
            folder = self._own_folder(run)
            _remove(folder / MARKER)
            self._clear(folder)
            with suppress(OSError):  # what is not ours stays, and so does its directory
                folder.rmdir()

    def append(
        self, run: RunSpec, columns: Mapping[str, npt.NDArray[Any]], learner: bytes, seconds: float = 0.0
    ) -> None:
        """Add the next episodes of an incomplete run, the learner as it stands after them, and the time so far."""
        folder, frame = self.folder(run), _as_frame(columns)
        instance_of("learner", learner, bytes)
        seconds = as_float("seconds", seconds, 0.0)
        first, last = int(frame["episode"][0]), int(frame["episode"][-1])
        if not 1 <= first <= last <= run.episodes or last - first + 1 != frame.height:
            raise ValidationError(f"columns has the episodes {first} to {last}; they must be among 1 to {run.episodes}")
        _make(folder)
        files: dict[str, str] = {}
        if os.path.lexists(folder / CHECKPOINT):
            episode, _, files = self._progress(run)
            del files[LEARNER.format(episode)]
        part, saved = PART.format(last), LEARNER.format(last)
        files[part] = _write(folder / part, _as_parquet(frame))
        files[saved] = _write(folder / saved, learner)
        content = {**_label(run), "episode": last, "seconds": round(seconds, 3), "files": files}
        earlier = [path for path in folder.glob("learner-*") if path.name != saved and OURS.fullmatch(path.name)]
        _write(folder / CHECKPOINT, _sealed(content))
        for path in earlier:
            _remove(path)

    def finish(self, run: RunSpec, columns: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Complete a run with its last episodes; ``facts`` (versions, machine, wall time) go into the marker.

        Parts that were damaged since they were written are a :class:`FileFormatError`.
        """
        folder, frame = self.folder(run), _as_frame(columns)
        facts = _as_facts(facts)
        _make(folder)
        parts = []
        if os.path.lexists(folder / CHECKPOINT):
            episode, _, files = self._progress(run)
            names = sorted(name for name in files if name != LEARNER.format(episode))
            parts = [_parquet(folder / name, _checked(folder / name, files[name])) for name in names]
        whole = pl.concat([*parts, frame], rechunk=True)
        if not np.array_equal(whole["episode"].to_numpy(), np.arange(1, run.episodes + 1)):
            raise FlexDOMEError(f"run {run.id} has {whole.height} episodes that do not make up 1 to {run.episodes}")
        digest = _write(folder / HISTORY, _as_parquet(whole))
        _write(folder / MARKER, _sealed({**facts, **_label(run), "files": {HISTORY: digest}}))
        self.tidy(run)

    def tidy(self, run: RunSpec) -> None:
        """Remove what a complete run no longer needs; a kill right after the marker leaves it behind."""
        self._clear(self._own_folder(run), HISTORY, MARKER)

    def _clear(self, folder: Path, *kept: str) -> None:
        for name in os.listdir(folder):
            if OURS.fullmatch(name) and name not in kept:
                _remove(folder / name)


# -- what is to be stored ------------------------------------------------------------------------------------------


def _as_frame(columns: Mapping[str, npt.NDArray[Any]]) -> pl.DataFrame:
    """The next episodes of a run, as a table."""
    if not isinstance(columns, Mapping):
        raise ValidationError(f"columns is {shown(columns)}; it must be arrays by name")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, value in columns.items():
        kind = np.dtype(np.int64 if name == "episode" else np.float64)
        if not isinstance(name, str) or not (name == "episode" or COLUMN.fullmatch(name)):
            raise ValidationError(f"columns has {shown(name)}, which is no column of a run")
        array = as_raw(f"columns[{name!r}]", value)
        if array.dtype != kind or array.ndim != 1 or array.size == 0:
            raise ValidationError(
                f"columns[{name!r}] has shape {array.shape} of {array.dtype}; it must be (n,) of {kind}"
            )
        arrays[name] = array
    for name in ("episode", "reward_gap"):
        if name not in arrays:
            raise ValidationError(f"columns has no {name!r}; it has {', '.join(arrays)}")
    sizes = {name: array.size for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise ValidationError(f"columns has arrays of different lengths: {sizes}")
    return pl.DataFrame(arrays)


def _as_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a marker says besides, which must be data that JSON has."""
    if not isinstance(facts, Mapping) or not all(isinstance(name, str) for name in facts):
        raise ValidationError(f"facts is {shown(facts)}; it must be values by name")
    try:
        _as_json(dict(facts))
    except Exception as error:  # of values that are no JSON, and of whatever their methods raise
        raise ValidationError(f"facts cannot be written as JSON: {error}") from error
    return dict(facts)


# -- whose a file is -----------------------------------------------------------------------------------------------


def _label(run: RunSpec) -> dict[str, Any]:
    return {"format": FORMAT, "id": run.id, "run": run.model_dump(mode="json", exclude_none=True)}


def _check_label(content: Mapping[str, Any], run: RunSpec, formats: tuple[int, ...]) -> None:
    """Refuse what does not say that it is of ``run``, or (from format 2 on) is not what it was when it said so."""
    kind = content.get("format")
    if type(kind) is not int or kind not in formats:
        raise FileFormatError(f"its format is {kind!r}; it must be {' or '.join(map(str, formats))}")
    if kind == 1 and "sha256" in content:
        raise FileFormatError("it is of format 1 and has a checksum, which that format had not")
    if kind > 1:
        _check_seal(content)
    if content.get("id") != run.id:
        raise FileFormatError(f"it is of run {content.get('id')!r}, not of {run.id}")
    if _essence(content.get("run")) != _essence(_label(run)["run"]):
        raise FileFormatError("what it says was run is not this run")


def _essence(spec: Any) -> Any:
    """What was run, without what is not part of the id: labels, and the place of a model file."""
    if not isinstance(spec, dict):
        return None
    without = {"environment": ("label", "file"), "learner": ("label",)}
    return {
        key: {name: item for name, item in value.items() if name not in without.get(key, ())}
        if isinstance(value, dict)
        else value
        for key, value in spec.items()
    }


def _sealed(content: Mapping[str, Any]) -> bytes:
    """The content as JSON, with a checksum of it."""
    return _as_json({**content, "sha256": hashlib.sha256(_as_json(content)).hexdigest()})


def _check_seal(content: Mapping[str, Any]) -> None:
    rest = {name: value for name, value in content.items() if name != "sha256"}
    if content.get("format") != FORMAT or hashlib.sha256(_as_json(rest)).hexdigest() != content.get("sha256"):
        raise FileFormatError("its checksum of itself does not match")


def _files(content: Mapping[str, Any]) -> dict[str, str]:
    """The files that a marker or a checkpoint lists; names are the store's own, so none leads out of the directory."""
    files = content.get("files")
    if not isinstance(files, dict) or not files:
        raise FileFormatError("it lists no files")
    for name, digest in files.items():
        if not OURS.fullmatch(name):
            raise FileFormatError(f"it lists {name!r}, which is no name of this store")
        if not isinstance(digest, str) or not SHA256.fullmatch(digest):
            raise FileFormatError(f"it lists {name} without a checksum")
    return dict(files)


def _number(name: str) -> int:
    return int(name.partition("-")[2].partition(".")[0] or 0)


# -- files ---------------------------------------------------------------------------------------------------------


def _is_file(path: Path) -> bool:
    """Whether there is a regular file itself, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    """Whether there is a directory itself, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _require_folder(path: Path) -> None:
    if path.is_symlink():
        raise FileFormatError(f"{path} is a link; inside a store none is followed: put the directory in its place")
    if not _is_folder(path):
        raise FileFormatError(f"{path} is not a directory")


def _make(folder: Path) -> None:
    with suppress(FileExistsError):  # whatever has that name: the next line looks at it
        folder.mkdir(parents=True)
    _require_folder(folder)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)  # a link goes; what it points to stays
    except OSError as error:
        raise OutputError(f"{path} cannot be removed: {error.strerror or error}") from None


def _as_parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False, row_group_size=1 << 20)
    return buffer.getvalue()


def _as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def _write(path: Path, data: bytes) -> str:
    """Put the whole of ``data`` at ``path`` or nothing; its checksum comes back."""
    if path.is_symlink():
        _remove(path)  # in its place, not through it
    write_whole(path, data)
    return hashlib.sha256(data).hexdigest()


def _read(path: Path, largest: int | None = None) -> bytes:
    """The bytes of a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise FileFormatError(f"{path} cannot be read: it is not a regular file")
            if largest is not None and about.st_size > largest:
                raise FileFormatError(f"{path} cannot be read: it has {about.st_size} bytes, more than {largest}")
            return file.read()
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else error.strerror or error
        raise FileFormatError(f"{path} cannot be read: {reason}") from None


def _checked(path: Path, digest: str) -> bytes:
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != digest:  # polars would read many a damaged file without a word
        raise FileFormatError(f"{path} is damaged: its checksum is not the recorded one")
    return data


def _parquet(path: Path, data: bytes) -> pl.DataFrame:
    """A table that comes from ``path``; polars panics, which is no ``Exception``, where it does not raise."""
    try:
        return pl.read_parquet(io.BytesIO(data), glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{path} is damaged: it is not a table: {reason}") from None


def _check_episodes(path: Path, frame: pl.DataFrame, first: int, last: int) -> None:
    """Refuse a table of other episodes or columns than the store's."""
    names = [name for name in frame.columns if name != "episode"]
    plain = all(COLUMN.fullmatch(name) and frame.schema[name] == pl.Float64 for name in names)
    if not plain or "reward_gap" not in names or frame.schema.get("episode") != pl.Int64:
        raise FileFormatError(f"{path} is damaged: its columns are not those of a run")
    if frame.null_count().row(0) != (0,) * frame.width or not np.array_equal(
        frame["episode"].to_numpy(), np.arange(first, last + 1)
    ):
        raise FileFormatError(f"{path} is damaged: its episodes are not {first} to {last}")


def _check_learner(path: Path, run: RunSpec, episode: int) -> None:
    """Refuse the file of another learner, or of this one at another episode."""
    header, _ = read_archive(path, KIND, VERSION)
    options = header.get("options")
    given = options if isinstance(options, dict) else {}
    expected = {"learner": run.learner.id, "episode": episode, "episodes": run.episodes, "seed": run.seed}
    for name, value in expected.items():
        found = header.get(name) if name in ("learner", "episode") else given.get(name, value)
        if found != value:
            raise FileFormatError(f"{path} is not of this run: its {name} is {found!r}, not {value!r}")


def _read_json(path: Path) -> dict[str, Any]:
    """An object in a file; from format 2 on every byte is as :func:`_as_json` writes it."""
    data = _read(path, LARGEST_JSON)
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        plain = _as_json(content) == data
    except (ValueError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from None
    if "sha256" in content and not plain:
        raise FileFormatError(f"{path} is damaged: it is not written as this program writes it")
    return content


def _experiment(path: Path) -> ExperimentSpec:
    request = _read_json(path)
    content = request.get("experiment")
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} holds no experiment; remove it, and run the experiment again")
    try:
        if request.get("format", 1) != 1 or "sha256" in request:
            _check_seal(request)
        experiment = ExperimentSpec(**content)
    except (FileFormatError, ValidationError) as error:
        raise FileFormatError(f"{path}: {error}") from None
    models = request.get("models")
    for row in experiment.environments:
        if row.digest is not None and row.digest != (models if isinstance(models, dict) else {}).get(row.name):
            raise FileFormatError(f"{path}: {row.file} is not the model that it was when {experiment.name} was run")
    return experiment
