"""Checks on arrays. Each says which field, at which index, has which value, and which rule that breaks."""

from __future__ import annotations

import math
import operator
import os
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from itertools import islice
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from flexdome.errors import ValidationError

__all__ = [
    "LARGEST",
    "LARGEST_SIZE",
    "Float",
    "Int",
    "as_array",
    "as_count",
    "as_distribution",
    "as_float",
    "as_int",
    "as_items",
    "as_positive",
    "as_raw",
    "as_series",
    "as_text",
    "check_range",
    "check_room",
    "check_rows",
    "clipped",
    "frozen",
    "instance_of",
    "is_frozen",
    "one_of",
    "shown",
    "switch",
]

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int32]
Kind = TypeVar("Kind")

ROW_TOLERANCE = 1e-9
ROW_TOLERANCE_FLOAT32 = 1e-5
RANGE_TOLERANCE = 1e-9  # of the width of a range
LARGEST = 1e100  # of a number that is given, so that nothing made of a few of them overflows
LARGEST_SIZE = 2**31 - 1  # of S, A and H: states are kept as int32
TECHNICAL = 1e50  # a bound above this is there against overflow: nobody who gave -1 wants to hear of it
LONGEST_TEXT = 10_000  # characters of what somebody is to read
LONGEST_SERIES = 2**28  # entries of what is no array yet: a range of 10**12 must not become one


def _at(name: str, index: tuple[Any, ...]) -> str:
    return f"{name}[{', '.join(str(int(k)) for k in index)}]" if index else name


def _first(bad: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
    return tuple(np.argwhere(bad)[0])


def shown(value: Any) -> str:
    """A value as an error message shows it: a number in full, anything else cut to a reasonable length."""
    try:
        return repr(float(value)) if isinstance(value, (float, np.floating)) else reprlib.repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return f"a very large {type(value).__name__}"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def as_raw(name: str, value: Any) -> npt.NDArray[Any]:
    """``value`` as an array of whatever it holds; ragged nests and masked entries are refused."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        where = _first(np.ma.getmaskarray(value))
        raise ValidationError(f"{_at(name, where)} is masked; every entry must be a number")
    try:
        if isinstance(value, Sized) and not isinstance(value, np.ndarray) and len(value) > LONGEST_SERIES:
            raise ValidationError(f"{name} has {len(value)} entries; at most {LONGEST_SERIES} are made an array")
        return np.asarray(value)
    except ValidationError:
        raise
    except Exception as error:  # whatever the methods of a foreign object raise
        raise ValidationError(f"{name} is not a rectangular array: {_said(error)}") from error


def as_array(name: str, value: npt.ArrayLike, *, finite: bool = True) -> tuple[Float, bool]:
    """A fresh C-contiguous float64 copy of a real array, and whether it came in single precision.

    Every entry is finite (unless the caller allows otherwise). Integers and booleans are taken as numbers;
    objects, strings, complex numbers and masked entries are refused.
    """
    raw = as_raw(name, value)
    if raw.dtype.kind == "O":
        for where, entry in np.ndenumerate(raw):
            if not isinstance(entry, Real):
                raise ValidationError(f"{_at(name, where)} is {shown(entry)}; it must be a real number")
    if raw.dtype.kind not in "buif":
        raise ValidationError(f"{name} has dtype {raw.dtype}; it must hold real numbers")
    with np.errstate(over="ignore"):  # an extended-precision number may become infinite, and is refused below
        array = np.array(raw, dtype=np.float64, order="C", copy=True)
    if finite:
        bad = ~np.isfinite(array)
        if bad.any():
            where = _first(bad)
            raise ValidationError(f"{_at(name, where)} is {shown(array[where])}; it must be finite")
    return array, raw.dtype.kind == "f" and raw.dtype.itemsize < 8


def as_float(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number in [low, high]."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or as_raw(name, value).ndim != 0:
        raise ValidationError(f"{name} is {shown(value)}; it must be a single number")
    number = float(as_array(name, value)[0])
    if not low <= number <= high:
        rule = (
            f"at least {low:g}" if high == math.inf or number < low <= TECHNICAL < high else f"in [{low:g}, {high:g}]"
        )
        raise ValidationError(f"{name} is {shown(number)}; it must be {rule}")
    return number


def as_int(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number in [low, high]."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except Exception as error:  # TypeError, or whatever a foreign __index__ raises
        raise ValidationError(f"{name} is {shown(value)}; it must be a whole number") from error
    if number < low or (high is not None and number > high):
        rule = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValidationError(f"{name} is {shown(number)}; it must be {rule}")
    return number


def as_count(name: str, value: Any) -> int:
    """A whole number of float64 that fit in memory."""
    number = as_int(name, value, 0)
    check_room(f"{name} is {number}; so many numbers", number)
    return number


def as_positive(name: str, value: Any, high: float = math.inf) -> float:
    """A number in (0, high]."""
    number = as_float(name, value, 0.0, high)
    if number == 0.0:
        raise ValidationError(f"{name} is {shown(number)}; it must be positive")
    return number


def switch(name: str, value: Any) -> bool:
    """``value``, True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValidationError(f"{name} is {shown(value)}; it must be True or False")
    return bool(value)


def one_of(name: str, value: Any, names: Collection[str], rule: str = "") -> str:
    """``value``, one of ``names``; ``rule`` ends the sentence "it must be"."""
    text = str.__str__(value) if isinstance(value, str) else None
    if text is None or text not in names:
        raise ValidationError(f"{name} is {shown(value)}; it must be {rule or ' or '.join(repr(n) for n in names)}")
    return text


def as_text(name: str, value: Any) -> str:
    """``value``, a string that can be read: every character is printed, or ends a line."""
    if not isinstance(value, str):
        raise ValidationError(f"{name} is {shown(value)}; it must be a string")
    text = str.__str__(value)
    if len(text) > LONGEST_TEXT:
        raise ValidationError(f"{name} has {len(text)} characters; it must have at most {LONGEST_TEXT}")
    for k, character in enumerate(text):
        if not character.isprintable() and character != "\n":
            raise ValidationError(f"{name}[{k}] is {character!a}; it must be a character that can be printed")
    return text


def instance_of(name: str, value: Any, kind: type[Kind]) -> Kind:
    """``value``, of the class ``kind``."""
    if not isinstance(value, kind):
        raise ValidationError(f"{name} is {shown(value)}; it must be of the class {kind.__name__}")
    return value


def as_items(name: str, value: Any, rule: str, most: int = 2**24) -> list[Any]:
    """The entries of a series, which is no text and no mapping; ``rule`` says what it must be."""
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping, type)) or not isinstance(value, Iterable):
        raise ValidationError(f"{name} is {shown(value)}; {rule}")
    try:
        items = list(islice(value, most + 1))
    except Exception as error:  # whatever a foreign iterator raises
        raise ValidationError(f"{name} cannot be read ({_said(error)}); {rule}") from error
    if len(items) > most:
        raise ValidationError(f"{name} has more than {most} entries; {rule}")
    return items


def as_series(name: str, value: Any, rule: str) -> Iterator[Any]:
    """The entries of a series one by one, none of them read yet; what a log raises while it is read comes through."""
    try:
        return iter(value)
    except Exception as error:  # whatever a foreign object raises instead
        raise ValidationError(f"{name} is {shown(value)}; {rule}") from error


def check_range(name: str, array: Float, low: float, high: float, *, below: bool = False) -> None:
    """Every entry lies in [low, high], or in [low, high) where it must be ``below``; NaN does not."""
    bad = ~((array >= low) & (array < high if below else array <= high))
    if bad.any():
        where = _first(bad)
        rule = f"[{low:g}, {high:g}{')' if below else ']'}"
        raise ValidationError(f"{_at(name, where)} is {shown(array[where])}; it must lie in {rule}")


def clipped(name: str, array: Float, low: float = 0.0, high: float = 1.0, *, gaps: bool = False) -> Float:
    """``array`` with what is a rounding error outside of [low, high] put on its end; more than that is an error.

    NaN is too, unless there may be ``gaps``.
    """
    slack = RANGE_TOLERANCE * (high - low)
    bad = ~((array >= low - slack) & (array <= high + slack))
    if gaps:
        bad &= ~np.isnan(array)
    if bad.any():
        check_range(name, np.where(bad, array, low), low, high)
    return np.clip(array, low, high)


def check_rows(name: str, array: Float, single: bool) -> Float:
    """Rows along the last axis are probabilities; those that came in single precision are renormalised."""
    negative = array < 0
    if negative.any():
        where = _first(negative)
        raise ValidationError(f"{_at(name, where)} is {shown(array[where])}; a probability must not be negative")
    with np.errstate(over="ignore"):
        total = array.sum(axis=-1)
    tolerance = ROW_TOLERANCE_FLOAT32 if single else ROW_TOLERANCE
    bad = np.asarray(~(np.abs(total - 1.0) <= tolerance))
    if bad.any():
        where = _first(bad)
        raise ValidationError(
            f"{_at(name, where)} sums to {shown(total[where])}; it must sum to one within {tolerance:g}"
        )
    if single:
        array /= total[..., None]
    return array


def check_room(what: str, numbers: int) -> None:
    """So many float64 fit in this machine: what is promised but not there would end the process when touched."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 8 * numbers > memory:
        raise ValidationError(f"{what} must fit in memory: {8 * numbers} bytes, and there are {memory}")


def as_distribution(name: str, value: Any, size: int) -> Float:
    """A state's index, or probabilities over ``size`` states (zeros allowed), as probabilities."""
    if as_raw(name, value).ndim == 0:
        state = as_int(name, value, 0, size - 1)
        check_room(f"{name} is {state}; the probabilities of {size} states", size)
        point = np.zeros(size)
        point[state] = 1.0
        return point
    array, single = as_array(name, value)
    if array.shape != (size,):
        raise ValidationError(f"{name} has shape {array.shape}; it must be a state or have shape ({size},)")
    return check_rows(name, array, single)


def frozen(array: npt.NDArray[Any]) -> Any:
    """A read-only view of ``array``, which becomes read-only too; the view cannot be made writeable again."""
    array.flags.writeable = False
    return array.view()


def is_frozen(array: npt.NDArray[Any]) -> bool:
    """Whether neither ``array`` nor any array it looks into can be written."""
    link: Any = array
    while isinstance(link, np.ndarray):
        if link.flags.writeable:
            return False
        link = link.base
    return link is None
