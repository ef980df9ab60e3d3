"""A learner out of its journal: the last snapshot, and what follows it in the log learned again.

::

    DIR/journal.log                     a record for each thing that the learner was told, in order
    DIR/snapshot-<number>-<byte>.npz    the learner after so many of them, and where in the log that is
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from flexdome.cmdp.archive import as_path
from flexdome.cmdp.lock import lock_folder
from flexdome.errors import FileFormatError, ValidationError
from flexdome.learners import Learner, load_learner
from flexdome.live.entries import entries, replay
from flexdome.live.journal_records import Torn

__all__ = ["FIRST", "LOG", "SNAPSHOT", "recover", "recovered", "require_journal", "say_torn", "snapshots"]

LOG = "journal.log"
SNAPSHOT = "snapshot-{:012d}-{:016d}.npz"
SNAPSHOTS = re.compile(r"snapshot-([0-9]{12})-([0-9]{16})\.npz")
FIRST = b"flexdome journal 1\n"

log = logging.getLogger(__name__)


def recover(path: str | os.PathLike[str]) -> Learner:
    """The learner of a journal as after the last acknowledged episode, bit for bit; the journal is not changed.

    A last record that is torn was never acknowledged: it is left out, and the log of the program says so. A record
    that is damaged in the middle, or a snapshot that is, is a :class:`FileFormatError`; while a process writes,
    nothing is read.
    """
    folder = as_path("path", path)
    require_journal(folder)
    lock = lock_folder(folder)
    try:
        learner, _, _, torn = recovered(folder)
    finally:
        lock.release()
    say_torn(folder, torn)
    return learner


def require_journal(folder: Path) -> None:
    """An error where a directory holds no journal."""
    if not folder.is_dir() or not (folder / LOG).is_file():
        raise FileFormatError(f"{folder} holds no journal; fd.Journal(path, learner) begins one")


def say_torn(folder: Path, torn: Torn | None) -> str | None:
    """Tell the log of the program that a record was dropped; what it was told comes back."""
    if torn is None:
        return None
    text = f"{folder / LOG}: the last record, {torn.size} bytes from byte {torn.at} on, is torn and was dropped"
    log.warning("flexdome: %s", text)
    return text


def snapshots(folder: Path) -> list[tuple[int, int, Path]]:
    """Number, byte and path of every snapshot, the latest last."""
    named = ((SNAPSHOTS.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), int(match[2]), path) for match, path in named if match)


def recovered(folder: Path) -> tuple[Learner, int, int, Torn | None]:
    """The learner, how many records it has been told, the byte where they end, and what is torn."""
    found = snapshots(folder)
    if not found:
        raise FileFormatError(f"{folder} holds no snapshot; the journal was never begun")
    number, end, path = found[-1]
    learner = load_learner(path)
    torn: Torn | None = None
    refused: ValidationError | None = None
    try:
        with open(folder / LOG, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if end > size:
                raise FileFormatError(f"{folder / LOG} is damaged: it has {size} bytes; {path.name} was taken at {end}")
            if file.read(len(FIRST)) != FIRST:
                raise FileFormatError(f"{folder / LOG} is not a journal, or of another version")
            for entry in entries(folder / LOG, file, end, number):
                if isinstance(entry, Torn):
                    torn = entry
                    break
                if refused is not None:  # the last one may be what the learner refused, and was never acknowledged
                    raise refused
                last, episode, kind, body = entry
                if episode != learner.episode:
                    raise FileFormatError(
                        f"{folder / LOG} is damaged: record {number} is of episode {episode}, not {learner.episode}"
                    )
                try:
                    replay(learner, kind, body)
                except ValidationError as error:
                    refused, torn = error, Torn(end, last - end)
                    continue
                end, number = last, number + 1
    except OSError as error:
        raise FileFormatError(f"{folder / LOG} cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        raise FileFormatError(f"{folder / LOG} is damaged: record {number}: {error}") from None
    return learner, number, end, torn
