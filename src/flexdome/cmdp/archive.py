"""Arrays and a JSON header in one file, without pickle, written atomically and read with suspicion.

The file is an uncompressed ``.npz``: a header under the name ``header`` and one ``.npy`` for each array.
Because nothing is compressed, no member can be larger than the file itself; each array's declared size is
compared with the bytes that are there *before* anything is made of them, and the zip's checksums find damage.
The descriptions of arrays are matched against the one form that NumPy writes, and never evaluated.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import shown
from flexdome.errors import FileFormatError, OutputError, ValidationError

__all__ = ["as_path", "read_archive", "read_arrays", "replacing", "write_archive", "write_whole"]

HEADER = "header"
LONGEST_PATH = 4096  # bytes
MAGIC = b"\x93NUMPY\x01\x00"
DESCRIPTION = re.compile(
    rb"\{'descr': '([<>|][ui][1248]|[<>]f[248]|\|b1)', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,18},|\d{1,18}(?:, \d{1,18}){1,15})?)\), \} *\n"
)

PathLike = str | os.PathLike[str]


def write_archive(path: PathLike, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write ``header`` and ``arrays`` to ``path``; an interruption at any byte leaves the previous file."""
    text = json.dumps(header, allow_nan=False, sort_keys=True).encode()
    members = {HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)


def write_whole(path: PathLike, data: bytes) -> None:
    """Put ``data`` at ``path``; an interruption at any byte leaves the previous file."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file under a temporary name that takes its place at ``path`` when it is whole and on disk."""
    target = Path(os.path.realpath(as_path("path", path)))  # a link stays a link: what it points to is replaced
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        # Not tempfile: its files are for one user, and this one becomes a file for whoever the umask lets in.
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # after the replacement it is gone already
            os.unlink(temporary)


def _sync_folder(folder: Path) -> None:
    """Put the new name of a file on disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_archive(path: PathLike, kind: str, version: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`write_archive` wrote; ``header["format"]`` and ``header["version"]`` must match.

    The arrays are read-only. Anything that is wrong with the file is a :class:`FileFormatError`.
    """
    target = as_path("path", path)
    with _suspicion(target):
        arrays = _read_members(target)
        header = _read_header(arrays.pop(HEADER, None))
    if header.get("format") != kind:
        raise FileFormatError(f"{target} has format {shown(header.get('format'))}; it must be {kind!r}")
    if type(header.get("version")) is not int or header["version"] != version:
        raise FileFormatError(
            f"{target} has version {shown(header.get('version'))} of {kind}; this program reads version {version}"
        )
    return header, arrays


def read_arrays(path: PathLike) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a plain uncompressed ``.npz`` by their names, or that of an ``.npy`` under the name ``array``.

    They are read-only. Anything that is wrong with the file is a :class:`FileFormatError`.
    """
    target = as_path("path", path)
    with _suspicion(target):
        if target.suffix == ".npy":
            return {"array": _as_plain_array(target.name, target.read_bytes())}
        return _read_members(target)


@contextmanager
def _suspicion(target: Path) -> Iterator[None]:
    """Whatever is wrong with a file while it is read is a :class:`FileFormatError` that names it."""
    try:
        if not target.is_file():
            raise FileFormatError("is not a regular file" if target.exists() else "does not exist")
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{target} {error}") from None
    except PermissionError as error:
        raise FileFormatError(f"{target} cannot be read: {error.strerror}") from None
    except MemoryError:
        raise FileFormatError(f"{target} does not fit in memory") from None
    except Exception as error:  # zipfile promises no closed list of what hostile bytes make it raise
        raise FileFormatError(f"{target} is damaged or not a flexdome file: {error}") from error


def as_path(name: str, path: PathLike) -> Path:
    """A path that a file or a directory can have."""
    try:
        text = os.fspath(path)
        if not isinstance(text, str) or not text or "\0" in text or len(os.fsencode(text)) > LONGEST_PATH:
            raise TypeError
    except Exception as error:  # a foreign __fspath__, or half of a surrogate pair
        raise ValidationError(f"{name} is {shown(path)}; it must be the path of a file") from error
    return Path(text)


def _read_members(target: Path) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    with zipfile.ZipFile(target) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > target.stat().st_size:
            raise FileFormatError("declares more data than it holds")
        for member in members:
            name, dot, suffix = member.filename.rpartition(".")
            if member.compress_type != zipfile.ZIP_STORED or (dot, suffix) != (".", "npy"):
                raise FileFormatError(f"has a member {shown(member.filename)} that is not a plain array")
            if name in arrays:
                raise FileFormatError(f"has two members {shown(member.filename)}")
            arrays[name] = _as_plain_array(member.filename, archive.read(member))
    return arrays


def _as_plain_array(name: str, data: bytes) -> npt.NDArray[Any]:
    start = len(MAGIC) + 2
    if len(data) < start or data[: len(MAGIC)] != MAGIC:
        raise FileFormatError(f"has a member {shown(name)} that is not a plain array")
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    described = DESCRIPTION.fullmatch(data, start, min(end, len(data)))
    if described is None:
        raise FileFormatError(f"has a member {shown(name)} that does not hold plain numbers in C order")
    dtype = np.dtype(described[1].decode())
    shape = tuple(int(length) for length in re.findall(rb"\d+", described[2]))
    if math.prod(shape) * dtype.itemsize != len(data) - end:
        raise FileFormatError(
            f"has a member {shown(name)} that declares shape {shape} of {dtype} but holds {len(data) - end} bytes"
        )
    return np.frombuffer(data, dtype=dtype, offset=end).reshape(shape)


def _read_header(stored: npt.NDArray[Any] | None) -> dict[str, Any]:
    if stored is None or stored.dtype != np.uint8:
        raise FileFormatError("has no header")
    header = json.loads(stored.tobytes().decode(), parse_constant=_refuse_constant)
    if not isinstance(header, dict):
        raise FileFormatError(f"has a header that is {shown(header)}, not an object")
    return header


def _refuse_constant(constant: str) -> NoReturn:
    raise FileFormatError(f"has {constant} in its header, where every number must be finite")
