"""Checks on arrays. Each says which field, at which index, has which value, and which rule that breaks."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.errors import ValidationError

__all__ = [
    "Float",
    "Int",
    "as_array",
    "as_distribution",
    "as_float",
    "as_int",
    "check_range",
    "check_rows",
    "frozen",
]

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int32]

ROW_TOLERANCE = 1e-9
ROW_TOLERANCE_FLOAT32 = 1e-5


def _at(name: str, index: tuple[Any, ...]) -> str:
    return f"{name}[{', '.join(str(int(k)) for k in index)}]" if index else name


def as_array(name: str, value: npt.ArrayLike) -> tuple[Float, bool]:
    """A fresh C-contiguous float64 copy of a real array, and whether it came in single precision.

    Every entry is finite. Integers and booleans are taken as numbers; objects, strings, complex numbers and
    masked entries are refused.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        where = tuple(np.argwhere(np.ma.getmaskarray(value))[0])
        raise ValidationError(f"{_at(name, where)} is masked; every entry must be a number")
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise ValidationError(f"{name} is not a rectangular array: {error}") from None
    if raw.dtype.kind not in "buif":
        raise ValidationError(f"{name} has dtype {raw.dtype}; it must hold real numbers")
    array = np.array(raw, dtype=np.float64, order="C", copy=True)
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(np.argwhere(~finite)[0])
        raise ValidationError(f"{_at(name, where)} is {array[where]}; every entry must be finite")
    return array, raw.dtype.kind == "f" and raw.dtype.itemsize < 8


def as_float(name: str, value: Any, low: float = -np.inf, high: float = np.inf) -> float:
    """A finite number in [low, high]."""
    if isinstance(value, (str, bytes)) or np.ndim(value) != 0:
        raise ValidationError(f"{name} is {value!r}; it must be a single number")
    array, _ = as_array(name, value)
    number = float(array)
    if not low <= number <= high:
        raise ValidationError(f"{name} is {number:g}; it must lie in [{low:g}, {high:g}]")
    return number


def as_int(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number in [low, high]."""
    if isinstance(value, (bool, np.bool_)):
        raise ValidationError(f"{name} is {value!r}; it must be a whole number")
    try:
        number = operator.index(value)
    except TypeError:
        raise ValidationError(f"{name} is {value!r}; it must be a whole number") from None
    if number < low or (high is not None and number > high):
        rule = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValidationError(f"{name} is {number}; it must be {rule}")
    return number


def check_range(name: str, array: Float, low: float, high: float) -> None:
    """Every entry lies in [low, high]."""
    bad = (array < low) | (array > high)
    if bad.any():
        where = tuple(np.argwhere(bad)[0])
        raise ValidationError(
            f"{_at(name, where)} is {array[where]:.17g}; every entry must lie in [{low:g}, {high:g}]"
        )


def check_rows(name: str, array: Float, single: bool) -> Float:
    """Rows along the last axis are probabilities; those that came in single precision are renormalised."""
    negative = array < 0
    if negative.any():
        where = tuple(np.argwhere(negative)[0])
        raise ValidationError(f"{_at(name, where)} is {array[where]:.17g}; probabilities must not be negative")
    total = array.sum(axis=-1)
    tolerance = ROW_TOLERANCE_FLOAT32 if single else ROW_TOLERANCE
    bad = np.abs(total - 1.0) > tolerance
    if np.any(bad):
        where = tuple(np.argwhere(bad)[0])
        raise ValidationError(
            f"{_at(name, where)} sums to {float(total[where]):.17g}; it must sum to one within {tolerance:g}"
        )
    if single:
        array /= total[..., None]
    return array


def as_distribution(name: str, value: Any, size: int) -> Float:
    """A state's index, or probabilities over ``size`` states (zeros allowed), as probabilities."""
    if np.ndim(value) == 0:
        state = as_int(name, value, 0, size - 1)
        point = np.zeros(size)
        point[state] = 1.0
        return point
    array, single = as_array(name, value)
    if array.shape != (size,):
        raise ValidationError(f"{name} has shape {array.shape}; it must be a state or have shape ({size},)")
    return check_rows(name, array, single)


def frozen(array: npt.NDArray[Any]) -> Any:
    """The same array, read-only."""
    array.flags.writeable = False
    return array
