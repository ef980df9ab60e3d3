"""The arrays of a learner's file, as they are taken back: each once, its shape and range checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float, as_array, check_range, shown
from flexdome.errors import ValidationError

__all__ = ["EXACT", "LARGEST_SUM", "ROUNDING", "Arrays", "Index", "StateReader", "as_state"]

Arrays = dict[str, npt.NDArray[Any]]
Index = npt.NDArray[np.int64]
EXACT = 2.0**53  # up to here a float64 counts
LARGEST_SUM = 1e300
ROUNDING = 1e-9


def as_state(given: Any) -> Arrays:
    """``state``, a dict of arrays by name."""
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise ValidationError(f"state is {shown(given)}; it must be a dict of arrays by name")
    for name, array in given.items():
        if not isinstance(array, np.ndarray):
            raise ValidationError(f"state.{name} is {shown(array)}; it must be an array")
    return given


class StateReader:
    """The arrays of a file, each taken once, with shape and range checked."""

    def __init__(self, state: Arrays) -> None:
        self._left = dict(as_state(state))

    def take(self, name: str, shape: tuple[int, ...], low: float, high: float, *, whole: bool = False) -> Float:
        """The array ``name`` as float64, with that shape and every entry in [low, high]."""
        if name not in self._left:
            raise ValidationError(f"state.{name} is missing")
        array, _ = as_array(f"state.{name}", self._left.pop(name))
        if array.shape != shape:
            raise ValidationError(f"state.{name} has shape {array.shape}; it must be {shape}")
        check_range(f"state.{name}", array, low, high)
        if whole and (array != np.floor(array)).any():
            raise ValidationError(f"state.{name} holds a number that is not whole")
        return array

    def count(self, name: str, shape: tuple[int, ...], low: float, high: float) -> Index:
        """The whole numbers ``name``."""
        array = self.take(name, shape, low, min(high, EXACT))
        whole = array.astype(np.int64)
        self.agree(name, whole == array, "must hold whole numbers")
        return whole

    def agree(self, name: str, good: npt.NDArray[np.bool_], rule: str) -> None:
        """Refuse ``name`` where ``good`` is not true, with the place and the rule."""
        if not good.all():
            where = ", ".join(str(k) for k in np.argwhere(~good)[0])
            raise ValidationError(f"state.{name}[{where}] {rule}")

    def has(self, name: str) -> bool:
        """Whether ``name`` is there."""
        return name in self._left

    def length(self, name: str) -> int:
        """How many entries the first axis of ``name`` has."""
        if name not in self._left or self._left[name].ndim == 0:
            raise ValidationError(f"state.{name} is missing or has no axis")
        return int(self._left[name].shape[0])

    def rows(self, name: str, shape: tuple[int, ...]) -> Float:
        """An array whose last axis holds distributions."""
        array = self.take(name, shape, 0.0, 1.0 + ROUNDING)
        if (np.abs(array.sum(axis=-1) - 1.0) > ROUNDING).any():
            raise ValidationError(f"state.{name} has a row that does not sum to one")
        return array

    def finish(self) -> None:
        """Nothing is left over."""
        if self._left:
            raise ValidationError(f"state has {sorted(self._left)[0]!r}, which is not known here")
