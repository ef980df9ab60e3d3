"""Records in a file that only grows: whole, torn at the end, or damaged.

A record is 16 bytes and a body::

    "FDJ1"  length of the body  CRC-32 of the body  CRC-32 of these twelve bytes

Each is written in one call. A process that is killed leaves the file with whole records and at most one that is not,
the last: it is *torn*, and was never acknowledged. Where something is wrong and a whole record follows, the file was
*damaged* later.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from flexdome.errors import FileFormatError, ValidationError

__all__ = ["Torn", "as_record", "read_records"]

MAGIC = b"FDJ1"
HEAD = struct.Struct("<4sIII")
LARGEST_RECORD = 2**32 - 1
PIECE = 2**20  # bytes read at once


class Torn(NamedTuple):
    """Where the last record, which is not whole, begins, and of how many bytes it is."""

    at: int
    size: int


def as_record(body: bytes) -> bytes:
    """The bytes of a record."""
    if len(body) > LARGEST_RECORD:
        raise ValidationError(f"a record of {len(body)} bytes is too large; at most {LARGEST_RECORD} are taken")
    head = HEAD.pack(MAGIC, len(body), zlib.crc32(body), 0)[:12]
    return head + zlib.crc32(head).to_bytes(4, "little") + body


def read_records(file: BinaryIO, at: int) -> Iterator[tuple[int, bytes] | Torn]:
    """The records from byte ``at`` on, each with the byte that it ends before; last, where there is one, what is torn.

    A record in the middle that is damaged is a :class:`FileFormatError`, which says where it is.
    """
    file.seek(0, 2)
    size = file.tell()
    file.seek(at)
    while at < size:
        head = file.read(HEAD.size)
        length = _length(head)
        body = b"" if length is None else file.read(length)
        if length is None or len(body) != length or zlib.crc32(body) != int.from_bytes(head[8:12], "little"):
            _refuse_damage(file, at, size)
            yield Torn(at, size - at)
            return
        at += HEAD.size + length
        yield at, body


def _length(head: bytes) -> int | None:
    """The length that a record's first bytes declare, or None where they are not those of one."""
    if len(head) != HEAD.size:
        return None
    magic, length, _, check = HEAD.unpack(head)
    return int(length) if magic == MAGIC and zlib.crc32(head[:12]) == check else None


def _refuse_damage(file: BinaryIO, at: int, size: int) -> None:
    """An error where a record begins after byte ``at``, so that what is wrong there is not the end of the file."""
    place = at + 1
    while place < size:
        file.seek(place)
        piece = file.read(PIECE + HEAD.size)
        k = piece.find(MAGIC)
        while 0 <= k < PIECE:
            if _length(piece[k : k + HEAD.size]) is not None:
                raise FileFormatError(f"is damaged at byte {at}: that record is not whole, and another follows")
            k = piece.find(MAGIC, k + 1)
        place += PIECE
