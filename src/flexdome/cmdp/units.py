"""What is measured, in the user's own units: a quantity has a name, a range for one step, and perhaps a bound.

Learners and kernels know numbers in [0, 1] alone. A quantity x with the range [low, high] enters as

    u = (x - low) / (high - low),      or, where it has a limit and is to be small,      d = 1 - u

so that the total X of an episode of H steps and a value V are one another's

    X = low H + (high - low) V,        or        X = low H + (high - low) (H - V).

The same maps take thresholds and limits in and everything that is reported out; nothing else knows of units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from flexdome.cmdp.validation import LARGEST, Float, as_array, as_float, as_items, as_text, instance_of, shown
from flexdome.errors import ValidationError

__all__ = ["Quantity", "Units", "as_quantities"]

MOST = 1000  # constraints
DIGITS = 10  # numbers that are the same to so many are


@dataclass(frozen=True)
class Quantity:
    """What is measured at every step.

    As the reward of a problem it is to be large. Among the constraints it has a ``limit`` or a ``threshold`` on its
    total over an episode, on average over episodes::

        fd.Quantity("yield", 0, 12, "mg")
        fd.Quantity("overdose", 0, 3, "mg/l", limit=4.0)
        fd.Quantity("flow", 0, 20, "ml", threshold=150)

    Attributes
    ----------
    name : what it is called in reports
    low, high : what it can be in one step
    unit : what it is measured in, or empty
    limit : the total must be at most this; NaN where each episode brings a sample of it
    threshold : the total must be at least this; NaN likewise
    room : by how much some policy is known to do better than that, in the same units. Only learners that need a lower
        bound on the Slater gap ask for it
    after : what a step gives that did not happen, because the episode had ended; 0, or what is nearest to it in the
        range
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    limit: float | None = None
    threshold: float | None = None
    room: float | None = None
    after: float | None = None

    def __post_init__(self) -> None:
        for field in ("name", "unit"):
            self._put(field, as_text(field, getattr(self, field)))
        if not self.name:
            raise ValidationError("name is ''; a quantity must be called something")
        for field in ("low", "high"):
            self._put(field, as_float(f"{self.name}: {field}", getattr(self, field), -LARGEST, LARGEST))
        if not self.low < self.high:
            raise ValidationError(f"{self.name}: low is {self.low!r} and high is {self.high!r}; low must be less")
        if self.limit is not None and self.threshold is not None:
            raise ValidationError(f"{self.name}: limit and threshold are given; a quantity has one of them at most")
        for field in ("limit", "threshold"):
            given = getattr(self, field)
            if given is not None and not (isinstance(given, (float, np.floating)) and math.isnan(given)):
                self._put(field, as_float(f"{self.name}: {field}", given, -LARGEST, LARGEST))
        if self.room is not None:
            room = as_float(f"{self.name}: room", self.room, 0.0, LARGEST)
            if room == 0.0 or not self.is_bounded:
                rule = "it must be positive" if room == 0.0 else "it must be None where there is no limit or threshold"
                raise ValidationError(f"{self.name}: room is {room!r}; {rule}")
            self._put("room", room)
        after = min(max(0.0, self.low), self.high) if self.after is None else self.after
        self._put("after", as_float(f"{self.name}: after", after, self.low, self.high))

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def is_bounded(self) -> bool:
        """Whether it has a limit or a threshold."""
        return self.limit is not None or self.threshold is not None

    @property
    def bound(self) -> float:
        """The limit or the threshold."""
        given = self.threshold if self.limit is None else self.limit
        if given is None:
            raise ValidationError(f"{self.name}: limit and threshold are missing; one of them must be given")
        return given

    @property
    def kind(self) -> str:
        """``"limit"`` or ``"threshold"``."""
        return "threshold" if self.limit is None else "limit"

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def scaled(self, x: Any) -> Any:
        """What was measured in one step, as learners take it: in [0, 1], and large where it is good."""
        share = (x - self.low) / self.width
        return share if self.limit is None else 1.0 - share

    def measured(self, d: Any) -> Any:
        """The reverse of :meth:`scaled`."""
        return self.low + self.width * (d if self.limit is None else 1.0 - d)

    def total(self, value: Any, horizon: int) -> Any:
        """The total of an episode that has the value V."""
        return self.low * horizon + self.width * (value if self.limit is None else horizon - value)

    def value(self, total: Any, horizon: int) -> Any:
        """The reverse of :meth:`total`."""
        share = (total - self.low * horizon) / self.width
        return share if self.limit is None else horizon - share

    def said(self, number: float) -> str:
        """A number with its unit."""
        return f"{number:.4g} {self.unit}".rstrip()

    def bounded_by(self, value: float, horizon: int) -> Self:
        """The same quantity with another bound, given as a value V."""
        return self.with_bound(float(self.total(value, horizon)))

    def with_bound(self, bound: float) -> Self:
        """The same quantity with another limit or threshold."""
        return replace(self, threshold=bound) if self.limit is None else replace(self, limit=bound)

    def stored(self) -> dict[str, Any]:
        """As JSON, which has no NaN."""
        return {
            field.name: "sampled" if isinstance(value, float) and math.isnan(value) else value
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }

    @classmethod
    def from_stored(cls, stored: Any) -> Self:
        """What :meth:`stored` gave."""
        if not isinstance(stored, dict) or not set(stored) <= {field.name for field in fields(cls)}:
            raise ValidationError(f"a quantity is {shown(stored)}; it must be an object with the fields of one")
        given: dict[str, Any] = {name: math.nan if value == "sampled" else value for name, value in stored.items()}
        return cls(**given)


def as_quantities(given: Any) -> tuple[Quantity, ...]:
    """``subject_to``: at least one quantity, each with a limit or a threshold."""
    items = [given] if isinstance(given, Quantity) else as_items("subject_to", given, "it must hold Quantities", MOST)
    for i, one in enumerate(items):
        if not instance_of(f"subject_to[{i}]", one, Quantity).is_bounded:
            raise ValidationError(f"subject_to[{i}], {one.name}, has no limit and no threshold; it must have one")
    names = [one.name for one in items]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValidationError(f"subject_to[{i}] is called {name!r}, as another is; names must differ")
    return tuple(items)


@dataclass(frozen=True)
class Units:
    """How the numbers of a problem are told: in the units that were declared, or, without any, as they are."""

    reward: Quantity | None
    constraints: tuple[Quantity, ...]
    horizon: int

    def quantity(self, i: int) -> Quantity | None:
        """The quantity of constraint i, or None where none was declared."""
        return self.constraints[i] if self.constraints else None

    def name(self, i: int) -> str:
        """What constraint i is called."""
        one = self.quantity(i)
        return f"constraint {i}" if one is None else one.name

    def utility(self, i: int) -> str:
        """What its value is called: nothing, where the constraint has a name of its own."""
        return "utility " if self.quantity(i) is None else ""

    def threshold(self, i: int) -> str:
        """What its bound is called."""
        one = self.quantity(i)
        return "threshold" if one is None or one.limit is None else "limit"

    def least(self, i: int) -> str:
        """What a lower bound on the utility says of the quantity."""
        one = self.quantity(i)
        return "at least" if one is None or one.limit is None else "at most"

    def total(self, i: int, value: float) -> str:
        """A value V_d_i, told."""
        one = self.quantity(i)
        return f"{value:.4g}" if one is None else one.said(one.total(value, self.horizon))

    def apart(self, i: int, *values: float) -> list[str]:
        """Values V_d_i, told with as many digits as it takes to tell those apart that differ by more than rounding."""
        one = self.quantity(i)
        numbers = [float(v) if one is None else float(one.total(v, self.horizon)) for v in values]
        ways = [[f"{x:.{digits}g}" for x in numbers] for digits in range(4, DIGITS + 1)]
        told = next((way for way in ways if len(set(way)) == len(set(ways[-1]))), ways[0])
        return told if one is None else [f"{x} {one.unit}".rstrip() for x in told]

    def between(self, i: int, low: float, high: float) -> str:
        """An interval of values V_d_i, told."""
        one = self.quantity(i)
        if one is None:
            return f"[{low:.4g}, {high:.4g}]"
        ends = sorted(one.total(value, self.horizon) for value in (low, high))
        return f"[{ends[0]:.4g}, {ends[1]:.4g}] {one.unit}".rstrip()

    def amount(self, i: int, difference: float) -> str:
        """A difference between two values of constraint i, told."""
        one = self.quantity(i)
        return f"{difference:.3g}" if one is None else f"{one.width * difference:.3g} {one.unit}".rstrip()

    def earned(self, value: float) -> str:
        """A value V_r, told."""
        return f"{value:.4g}" if self.reward is None else self.reward.said(self.reward.total(value, self.horizon))

    def earned_between(self, low: float, high: float) -> str:
        """An interval of values V_r, told."""
        one = self.reward
        if one is None:
            return f"[{low:.4g}, {high:.4g}]"
        return f"[{one.total(low, self.horizon):.4g}, {one.total(high, self.horizon):.4g}] {one.unit}".rstrip()

    def price(self, i: int, multiplier: float) -> str:
        """What a unit of constraint i is worth, told."""
        one, paid = self.quantity(i), self.reward
        worth = multiplier * (1.0 if paid is None else paid.width) / (1.0 if one is None else one.width)
        unit = "units of reward" if paid is None else f"{paid.unit} of {paid.name}".lstrip() if paid.unit else paid.name
        return f"{worth:.3g} {unit}"

    def scaled(self, rewards: Float, utilities: Float) -> tuple[Float, Float]:
        """Rewards (..., H) and what the constraints measure (..., m, H), as learners take them."""
        r = rewards if self.reward is None else self.reward.scaled(rewards)
        if self.constraints:
            utilities = np.stack([one.scaled(utilities[..., i, :]) for i, one in enumerate(self.constraints)], axis=-2)
        return r, utilities

    def totals(self, values: Any) -> Float:
        """(..., m) values V_d of the constraints, as the totals that are measured; without units, as they are."""
        given = self._of_constraints("values", values)
        return self._each(given, [one.total for one in self.constraints])

    def values(self, totals: Any) -> Float:
        """The reverse of :meth:`totals`: what is known in units, as learners take it (a safe policy's utilities)."""
        given = self._of_constraints("totals", totals)
        return self._each(given, [one.value for one in self.constraints])

    def earning(self, value: float) -> float:
        """A value V_r as the total of the reward that is measured."""
        given = as_float("value", value, -LARGEST, LARGEST)
        return given if self.reward is None else float(self.reward.total(given, self.horizon))

    def _of_constraints(self, name: str, given: Any) -> Float:
        array, _ = as_array(name, given)
        if self.constraints and array.shape[-1:] != (len(self.constraints),):
            rule = f"it must end in {len(self.constraints)}, one for each constraint"
            raise ValidationError(f"{name} has shape {array.shape}; {rule}")
        return array

    def _each(self, given: Float, maps: list[Any]) -> Float:
        scaled = [one(given[..., i], self.horizon) for i, one in enumerate(maps)]
        return np.stack(scaled, axis=-1) if maps else given.copy()

    def stored(self) -> dict[str, Any]:
        """As JSON."""
        reward = None if self.reward is None else self.reward.stored()
        return {"reward": reward, "subject_to": [one.stored() for one in self.constraints], "horizon": self.horizon}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """What :meth:`stored` gave."""
        reward = None if stored["reward"] is None else Quantity.from_stored(stored["reward"])
        return cls(reward, tuple(Quantity.from_stored(one) for one in stored["subject_to"]), stored["horizon"])
