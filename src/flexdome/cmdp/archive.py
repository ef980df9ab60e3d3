"""Arrays and a JSON header in one file, without pickle, written atomically and read with suspicion.

The file is an uncompressed ``.npz``: a header under the name ``header`` and one ``.npy`` for each array.
Because nothing is compressed, no member can be larger than the file itself; each array's declared size is
compared with the bytes that are there *before* anything is allocated, and the zip's checksums find damage.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from flexdome.errors import FileFormatError

__all__ = ["read_archive", "write_archive"]

HEADER = "header"


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write ``header`` and ``arrays`` to ``path``; an interruption at any byte leaves the previous file."""
    target = Path(path)
    text = np.frombuffer(json.dumps(header, allow_nan=False, sort_keys=True).encode(), dtype=np.uint8)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **{HEADER: text}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def read_archive(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`write_archive` wrote; ``header["format"]`` and ``header["version"]`` must match."""
    target = Path(path)
    try:
        size = target.stat().st_size
        with zipfile.ZipFile(target) as archive:
            arrays = {}
            members = archive.infolist()
            if sum(member.file_size for member in members) > size:
                raise FileFormatError(f"{target} declares more data than it holds; it is refused")
            for member in members:
                if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
                    raise FileFormatError(f"{target} has a member {member.filename!r} that is not a plain array")
                with archive.open(member) as stream:
                    arrays[member.filename[:-4]] = _read_array(stream, member, target)
        header = json.loads(arrays.pop(HEADER).tobytes().decode())
    except FileFormatError:
        raise
    except FileNotFoundError:
        raise FileFormatError(f"{target} does not exist") from None
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileFormatError(f"{target} is damaged or not a flexdome file: {error}") from None
    if not isinstance(header, dict) or header.get("format") != kind:
        raise FileFormatError(f"{target} is not a {kind} file")
    if header.get("version") != version:
        raise FileFormatError(
            f"{target} has version {header.get('version')!r} of {kind}; this program reads version {version}"
        )
    return header, arrays


def _read_array(stream: BinaryIO | Any, member: zipfile.ZipInfo, path: Path) -> npt.NDArray[Any]:
    magic = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(magic)
    if reader is None:
        raise FileFormatError(f"{path}: {member.filename} has an unknown array format {magic}")
    shape, fortran, dtype = reader(stream)
    if dtype.kind not in "buif" or fortran:
        raise FileFormatError(f"{path}: {member.filename} holds {dtype}; only plain numbers are read")
    data = stream.read()
    count = 1
    for length in shape:
        count *= length
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(data):
        raise FileFormatError(f"{path}: {member.filename} declares shape {shape} but holds {len(data)} bytes")
    return np.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
