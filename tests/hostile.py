"""Values that no argument should have, and what must happen to them.

A call with one of them either works (it was a valid value after all) or raises a :class:`flexdome.FlexDOMEError` that
names the argument. It never raises anything else, never warns, and never asks for more memory than there is.
"""

from __future__ import annotations

import datetime
import warnings
from collections import UserDict, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import flexdome as fd

Make = Callable[[], Any]


class Raises:
    """Every protocol that numbers, sequences and arrays have, all broken in the same way."""

    def __init__(self, error: type[Exception] = RuntimeError) -> None:
        self.error = error

    def _fail(self, *given: Any, **options: Any) -> Any:
        raise self.error("broken on purpose")

    __len__ = __iter__ = __getitem__ = __contains__ = _fail
    __float__ = __int__ = __index__ = __bool__ = __array__ = __fspath__ = _fail
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __repr__ = __str__ = __format__ = _fail  # type: ignore[assignment]


class Lies:
    """A number to some, a series to others, an array that is not one."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: Any) -> Any:
        raise IndexError(index)

    def __float__(self) -> float:
        return float("nan")

    def __index__(self) -> int:
        return 2**80

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([[object()]], dtype=object)


class Sparse:
    """What a sparse matrix looks like from outside: a shape, a dtype, no array."""

    shape = (3, 2, 3)
    ndim = 3
    dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        raise TypeError("sparse matrix length is ambiguous")

    def todense(self) -> Any:
        return np.zeros(self.shape)


class Path2:
    """A path of bytes."""

    def __fspath__(self) -> bytes:
        return b"somewhere"


class Text(str):
    """A string that says it is another one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def _nested(depth: int) -> Any:
    inner: Any = 0.5
    for _ in range(depth):
        inner = [inner]
    return inner


def _cyclic() -> Any:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def _generator() -> Iterator[Any]:
    yield 1
    yield object()


def _failing() -> Iterator[Any]:
    yield 1
    raise RuntimeError("broken on purpose")


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


EVERYWHERE: dict[str, Make] = {
    "None": lambda: None,
    "True": lambda: True,
    "numpy True": lambda: np.True_,
    "zero": lambda: 0,
    "one": lambda: 1,
    "minus one": lambda: -1,
    "half": lambda: 0.5,
    "minus zero": lambda: -0.0,
    "two and a half": lambda: 2.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "minus inf": lambda: float("-inf"),
    "numpy nan": lambda: np.float64("nan"),
    "smallest": lambda: 5e-324,
    "tiny": lambda: 1e-300,
    "huge": lambda: 1.7e308,
    "minus huge": lambda: -1.7e308,
    "large": lambda: 1e100,
    "beyond large": lambda: 1e160,
    "float32 huge": lambda: np.float32(3e38),
    "float16": lambda: np.float16(0.5),
    "longdouble": lambda: np.longdouble("1e4000"),
    "int32 and more": lambda: 2**31,
    "billion": lambda: 10**9,
    "trillion": lambda: 10**12,
    "2**53 and more": lambda: 2**53 + 1,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "2**70": lambda: 2**70,
    "-2**70": lambda: -(2**70),
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "int8": lambda: np.int8(-7),
    "uint64": lambda: np.uint64(2**63 + 3),
    "complex": lambda: 1 + 2j,
    "Decimal": lambda: Decimal("0.1"),
    "Decimal nan": lambda: Decimal("sNaN"),
    "Fraction": lambda: Fraction(1, 3),
    "huge Fraction": lambda: Fraction(10**400, 3),
    "empty text": lambda: "",
    "text": lambda: "nonsense",
    "text number": lambda: "0.5",
    "text with nul": lambda: "a\0b",
    "text with escape": lambda: "\x1b[31m$\\frac{$\u202e",
    "lone surrogate": lambda: "\ud800",
    "long text": lambda: "x" * 100_000,
    "lying text": lambda: Text("nonsense"),
    "bytes": lambda: b"abc",
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abc"),
    "path": lambda: Path("/dev/null/folder/file"),
    "bytes path": lambda: Path2(),
    "datetime": lambda: datetime.datetime(2020, 1, 1),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64": lambda: np.timedelta64(3, "s"),
    "empty tuple": lambda: (),
    "empty list": list,
    "list": lambda: [0.5],
    "bad list": lambda: [1, None, "x"],
    "ragged": lambda: [[0.5, 0.5], [1.0]],
    "deep": lambda: _nested(100),
    "cyclic": _cyclic,
    "list of 2**70": lambda: [2**70],
    "list of 10**400": lambda: [10**400, 1],
    "range": lambda: range(3),
    "long range": lambda: range(10**12),
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({"a"}),
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {1: 2, None: 3},
    "UserDict": lambda: UserDict(a=1),
    "deque": lambda: deque([1, 2]),
    "generator": _generator,
    "failing generator": _failing,
    "function": lambda: lambda *a, **k: None,
    "failing function": lambda: lambda t: 1 / 0,
    "class": lambda: int,
    "instance": object,
    "exception": lambda: ValueError("x"),
    "module": lambda: np,
    "ellipsis": lambda: ...,
    "slice": lambda: slice(None),
    "0-d array": lambda: np.array(0.5),
    "0-d int array": lambda: np.array(1),
    "0-d nan": lambda: np.array(np.nan),
    "0-d object": lambda: np.array(None, dtype=object),
    "empty array": lambda: np.array([]),
    "empty rows": lambda: np.zeros((0, 3)),
    "empty columns": lambda: np.zeros((3, 0)),
    "array": lambda: np.array([0.5, 0.5, 0.0]),
    "six axes": lambda: np.zeros((1,) * 6),
    "zero strides": lambda: np.broadcast_to(0.5, (3, 3, 2)),
    "object array": lambda: np.array([1.0, None, "x"], dtype=object),
    "objects of floats": lambda: np.array([0.5, 0.5], dtype=object),
    "nested objects": lambda: np.array([np.zeros(2), np.zeros(3)], dtype=object),
    "complex array": lambda: np.array([0.5 + 0j]),
    "bool array": lambda: np.array([True, False]),
    "text array": lambda: np.array(["0.5", "0.5"]),
    "bytes array": lambda: np.array([b"a"]),
    "date array": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "record array": lambda: np.zeros(2, dtype=[("x", "f8"), ("y", "i4")]),
    "masked": lambda: np.ma.masked_array([0.5, 0.5], mask=[True, False]),
    "masked constant": lambda: np.ma.masked,
    "uint64 array": lambda: np.array([2**63 + 1, 1], dtype=np.uint64),
    "int8 array": lambda: np.array([-7, 100], dtype=np.int8),
    "huge array": lambda: np.array([1.7e308, -1.7e308]),
    "longdouble array": lambda: np.array(["1e4000", "1"], dtype=np.longdouble),
    "read-only": lambda: _read_only(np.zeros(3)),
    "matrix": lambda: np.array([[0.5, 0.5], [0.5, 0.5]])[::-1, ::-1],
    "sparse": Sparse,
    "raises RuntimeError": Raises,
    "raises TypeError": lambda: Raises(TypeError),
    "raises ValueError": lambda: Raises(ValueError),
    "raises OverflowError": lambda: Raises(OverflowError),
    "raises AttributeError": lambda: Raises(AttributeError),
    "raises RecursionError": lambda: Raises(RecursionError),
    "lies": Lies,
}

SCALARS = (np.nan, np.inf, -np.inf, -1.0, -1e-300, 1.0 + 1e-6, 2.0, 1.7e308, 5e-324, 0.0, 2.0**31, 2.0**63)


def changed(valid: Any, rng: np.random.Generator) -> dict[str, Make]:
    """``valid``, an array, with something wrong (or only unusual) about it: what is wrong depends on the seed."""
    array = np.array(valid)
    if array.ndim == 0 or array.size == 0 or array.dtype.kind not in "buif":
        return {}
    made: dict[str, Make] = {}
    for scalar in SCALARS:
        where = tuple(int(rng.integers(n)) for n in array.shape)

        def put(scalar: float = scalar, where: tuple[int, ...] = where) -> Any:
            copy = array.astype(np.float64)
            copy[where] = scalar
            return copy

        made[f"{scalar:g} at {where}"] = put
    axis = int(rng.integers(array.ndim))
    made |= {
        "reversed axes": lambda: array.T,
        f"without an entry of axis {axis}": lambda: np.delete(array, -1, axis=axis),
        f"axis {axis} twice": lambda: np.concatenate([array, array], axis=axis),
        "one axis more": lambda: array[None],
        "first entry alone": lambda: array[0],
        "flat": lambda: array.ravel(),
        "complex": lambda: array.astype(np.complex128),
        "single": lambda: array.astype(np.float32),
        "half": lambda: array.astype(np.float16),
        "text": lambda: array.astype(str),
        "objects": lambda: array.astype(object),
        "whole": lambda: array.astype(np.int8),
        "unsigned": lambda: array.astype(np.uint64),
        "boolean": lambda: array.astype(bool),
        "other byte order": lambda: array.astype(array.dtype.newbyteorder()),
        "Fortran order": lambda: np.asfortranarray(array),
        "every other": lambda: np.repeat(array, 2, axis=-1)[..., ::2],
        "masked": lambda: np.ma.masked_array(array, mask=np.ones(array.shape, dtype=bool)),
        "unmasked": lambda: np.ma.masked_array(array),
        "empty": lambda: array[:0],
        "list": lambda: array.tolist(),
        "tuple": lambda: tuple(array.tolist()),
        "negative": lambda: -array.astype(np.float64),
        "read-only": lambda: _read_only(array.copy()),
        "dictionary": lambda: dict(enumerate(array.tolist())),
        "iterator": lambda: iter(array.tolist()),
    }
    return made


ENTRIES = (None, float("nan"), float("inf"), -1.0, 0.0, 0.5, 5e-324, 1.7e308, -1.7e308, 1e100, 2**62, "", "x", b"x")
TYPES = (pl.String, pl.Categorical, pl.Int8, pl.UInt64, pl.Int128, pl.Float32, pl.Decimal(20, 2), pl.Boolean, pl.Date,
         pl.Binary, pl.Null)  # fmt: skip


def reframed(frame: pl.DataFrame, rng: np.random.Generator, each: int) -> dict[str, Make]:
    """``frame`` with something wrong (or only unusual) about it; of every column ``each`` entries and types change."""
    first = frame.columns[0]
    made: dict[str, Make] = {
        "no frame but its rows": frame.rows,
        "a dictionary of its columns": lambda: frame.to_dict(as_series=False),
        "a lazy frame": frame.lazy,
        "an array": frame.to_numpy,
        "its first column": lambda: frame[first],
        "a frame of nothing": pl.DataFrame,
        "a frame without rows": frame.clear,
        "one row": lambda: frame.head(1),
        "every row twice": lambda: pl.concat([frame, frame]),
        "rows in reverse": frame.reverse,
        "columns in reverse": lambda: frame.select(frame.columns[::-1]),
        "one column of structs": lambda: frame.select(pl.struct(pl.all()).alias(first)),
        "nulls only": lambda: pl.DataFrame({column: [None] for column in frame.columns}),
    }
    for column in frame.columns:
        made[f"no {column}"] = lambda column=column: frame.drop(column)
        made[f"{column} a list"] = lambda column=column: frame.with_columns(pl.concat_list(column).alias(column))
        for k in rng.choice(len(ENTRIES), each, replace=False):
            row = int(rng.integers(frame.height))

            def put(column: str = column, entry: Any = ENTRIES[k], row: int = row) -> Any:
                values = frame[column].to_list()
                values[row] = entry
                return frame.with_columns(pl.Series(column, values, strict=False))

            made[f"{column}[{row}] {ENTRIES[k]!r}"] = put
        for k in rng.choice(len(TYPES), each, replace=False):

            def turn(column: str = column, kind: Any = TYPES[k]) -> Any:
                try:
                    return frame.with_columns(frame[column].cast(kind, strict=False))
                except pl.exceptions.PolarsError:
                    return frame.with_columns(pl.Series(column, [object()] * frame.height, dtype=pl.Object))

            made[f"{column} as {TYPES[k]}"] = turn
    return made


def complaint(call: Callable[[Any], Any], make: Make, names: tuple[str, ...]) -> str | None:
    """What is wrong with how ``call`` takes the value, or None."""
    value = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call(value)
        except fd.FlexDOMEError as error:
            if any(name in str(error) for name in names):
                return None
            return f"does not name {' or '.join(names)}: {type(error).__name__}: {str(error)[:150]}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 (a panic of a library is no Exception)
            return f"raised {type(error).__name__}: {str(error)[:150]}"
    return None
