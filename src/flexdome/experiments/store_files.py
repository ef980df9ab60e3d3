"""Files of a store, read with suspicion and written whole.

Only regular files are read: a link is not followed, a pipe or a device is not waited for, and a file that is larger
than it can be is not taken into memory. Every file appears under a temporary name first and is renamed when whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from flexdome.cmdp.archive import write_whole
from flexdome.errors import FileFormatError, OutputError

__all__ = [
    "as_json",
    "as_parquet",
    "is_file",
    "is_folder",
    "make_folder",
    "parsed_table",
    "read_bytes",
    "read_checked",
    "read_json",
    "remove",
    "require_folder",
    "write",
]

LARGEST_JSON = 1 << 26  # bytes of JSON


def is_file(path: Path) -> bool:
    """Whether there is a regular file itself, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a directory itself, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def require_folder(path: Path) -> None:
    """Refuse what is not a directory itself."""
    if path.is_symlink():
        raise FileFormatError(f"{path} is a link; inside a store none is followed: put the directory in its place")
    if not is_folder(path):
        raise FileFormatError(f"{path} is not a directory")


def make_folder(folder: Path) -> None:
    """Make a directory, unless it is there."""
    with suppress(FileExistsError):  # whatever has that name: the next line looks at it
        folder.mkdir(parents=True)
    require_folder(folder)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)  # a link goes; what it points to stays
    except OSError as error:
        raise OutputError(f"{path} cannot be removed: {error.strerror or error}") from None


def as_parquet(frame: pl.DataFrame) -> bytes:
    """A table as a file: the same bytes for the same table."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False, row_group_size=1 << 20)
    return buffer.getvalue()


def as_json(content: Mapping[str, Any]) -> bytes:
    """An object as a file: the same bytes for the same object."""
    return (json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def write(path: Path, data: bytes) -> str:
    """Put the whole of ``data`` at ``path`` or nothing; its checksum comes back."""
    if path.is_symlink():
        remove(path)  # in its place, not through it
    write_whole(path, data)
    return hashlib.sha256(data).hexdigest()


def read_bytes(path: Path, largest: int | None = None) -> bytes:
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


def read_checked(path: Path, digest: str) -> bytes:
    """The bytes of a file whose checksum is ``digest``."""
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != digest:  # polars would read many a damaged file without a word
        raise FileFormatError(f"{path} is damaged: its checksum is not the recorded one")
    return data


def parsed_table(path: Path, data: bytes) -> pl.DataFrame:
    """A table that comes from ``path``; polars panics, which is no ``Exception``, where it does not raise."""
    try:
        return pl.read_parquet(io.BytesIO(data), glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{path} is damaged: it is not a table: {reason}") from None


def read_json(path: Path) -> dict[str, Any]:
    """An object in a file; from format 2 on every byte is as :func:`as_json` writes it."""
    data = read_bytes(path, LARGEST_JSON)
    try:
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        plain = as_json(content) == data
    except (ValueError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from None
    if "sha256" in content and not plain:
        raise FileFormatError(f"{path} is damaged: it is not written as this program writes it")
    return content
