"""Confidence sequences: bounds on a mean that hold at every moment, so that one may look at any time.

The formulas are in :mod:`flexdome.certificates.kernels`; compiled loops call those on plain arrays. Here is the same
for Python: one side (:class:`LowerSequence`) and both (:class:`Sequence`).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from flexdome.certificates import kernels
from flexdome.cmdp.validation import LARGEST, Float, as_array, as_float, as_int, check_range, one_of
from flexdome.errors import ValidationError
from flexdome.theory.constants import as_confidence

__all__ = ["POINTS", "LowerSequence", "Sequence", "betting_grid", "betting_lower"]

Method = Literal["betting", "bernstein"]
POINTS = 512  # of a grid
NONE = np.zeros(0)
NOTHING = 1e-300  # the largest bet against a mean is finite above it


def betting_grid(points: int = POINTS, also: npt.ArrayLike = ()) -> Float:
    """(2, G) the means k / ``points`` and those of ``also`` that are within (0, 1); below them, the largest bets.

    A mean that is to be compared with a bound belongs in ``also``: it is then refuted as early as betting allows.
    """
    extra, _ = as_array("also", also)
    inner = np.arange(1, as_int("points", points, 2, 2**20)) / points
    means = np.union1d(inner, extra[(extra > NOTHING) & (extra < 1.0)])
    return np.array([means, kernels.CUT / means])


def betting_lower(xs: Float, delta: float) -> float:
    """The lower betting bound after all of ``xs``, unchecked, without a grid."""
    state = np.zeros(kernels.SIZE)
    return float(kernels.betting_bound(state, xs, -math.log(delta), math.nan, np.empty(xs.size))[0])


class LowerSequence:
    """A lower bound on the mean of x >= 0, right at all times with probability 1 - ``delta``.

    Parameters
    ----------
    delta : in (0, 1]
    method : ``"betting"`` (tighter; a fixed number of multiplications an observation) or ``"bernstein"`` (O(1))
    points, also : of the betting grid (:func:`betting_grid`)

    The mean is to lie in [0, 1]; an observation may lie above. A sequence of weighted observations needs no more.

    >>> x = np.tile([0.6, 0.8], 500)
    >>> s = LowerSequence(0.05)
    >>> s.extend(x)
    >>> s.count, s.bound > 0.65
    (1000, True)
    """

    def __init__(
        self, delta: float = 0.05, method: Method = "betting", points: int = POINTS, also: npt.ArrayLike = ()
    ) -> None:
        self.delta = as_float("delta", delta, 1e-300, 1.0)
        if self.delta == 1.0:
            raise ValidationError(
                "delta is 1.0; it must be less than 1: a sequence that may always be wrong says nothing"
            )
        self.method = one_of("method", method, ("betting", "bernstein"))
        self.log_level = -math.log(self.delta)
        self.grid = betting_grid(points, also)
        self.state, self.capital = np.zeros(kernels.SIZE), np.ones(self.grid.shape[1])

    @property
    def count(self) -> int:
        """Observations so far."""
        return int(self.state[kernels.COUNT])

    @property
    def bound(self) -> float:
        """The largest lower bound so far."""
        return float(self.state[kernels.BOUND])

    def update(self, x: float) -> float:
        """One observation; the bound comes back."""
        self.extend((as_float("x", x, 0.0),))
        return self.bound

    def extend(self, xs: npt.ArrayLike) -> None:
        """Observations in their order; all are taken or, if one is bad, none."""
        values = as_array("xs", xs)[0].ravel()
        check_range("xs", values, 0.0, math.inf)
        self._take(values, NONE)

    def path(self, xs: npt.ArrayLike) -> Float:
        """The bound after each of ``xs``, which are taken."""
        values = as_array("xs", xs)[0].ravel()
        check_range("xs", values, 0.0, math.inf)
        bounds = np.empty(values.size)
        self._take(values, bounds)
        return bounds

    def _take(self, values: Float, bounds: Float) -> None:
        if self.method == "betting":
            kernels.betting_all(self.state, self.capital, self.grid, values, self.log_level, bounds)
        else:
            kernels.bernstein_all(self.state, values, self.log_level, bounds)


class Sequence:
    """Lower and upper bounds on the mean of x in [low, high], right at all times with probability 1 - ``delta``.

    Each side has half of ``delta``. Once the two cross, which has probability ``delta`` at most if the mean is
    constant, they stay crossed.

    >>> s = Sequence(0.05, high=5.0)
    >>> s.extend(np.tile([2.0, 3.0], 2000))
    >>> bool(2.4 < s.lower < 2.5 < s.upper < 2.6)
    True
    """

    def __init__(
        self,
        delta: float = 0.05,
        low: float = 0.0,
        high: float = 1.0,
        method: Method = "betting",
        points: int = POINTS,
        also: npt.ArrayLike = (),
    ) -> None:
        self.low, self.high = as_float("low", low, -LARGEST, LARGEST), as_float("high", high, -LARGEST, LARGEST)
        if not self.high > self.low:
            raise ValidationError(f"high is {self.high!r}; it must exceed low, {self.low!r}")
        share = as_confidence(delta) / 2.0
        between = as_array("also", also)[0]
        unit = (np.clip(between, self.low, self.high) - self.low) / (self.high - self.low)
        self.below = LowerSequence(share, method, points, unit)
        self.above = LowerSequence(share, method, points, 1.0 - unit)

    @property
    def count(self) -> int:
        """Observations so far."""
        return self.below.count

    @property
    def lower(self) -> float:
        """The largest lower bound so far."""
        return self.low + (self.high - self.low) * self.below.bound

    @property
    def upper(self) -> float:
        """The smallest upper bound so far."""
        return self.high - (self.high - self.low) * self.above.bound

    def update(self, x: float) -> None:
        """One observation in [low, high]."""
        self.extend((x,))

    def extend(self, xs: npt.ArrayLike) -> None:
        """Observations in their order; all are taken or, if one is bad, none."""
        unit = self._unit(xs)
        self.below.extend(unit)
        self.above.extend(1.0 - unit)

    def path(self, xs: npt.ArrayLike) -> tuple[Float, Float]:
        """The bounds after each of ``xs``, which are taken: lower and upper."""
        unit, width = self._unit(xs), self.high - self.low
        return self.low + width * self.below.path(unit), self.high - width * self.above.path(1.0 - unit)

    def _unit(self, xs: npt.ArrayLike) -> Float:
        values = as_array("xs", xs)[0].ravel()
        check_range("xs", values, self.low, self.high)
        return (values - self.low) / (self.high - self.low)
