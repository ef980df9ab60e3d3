"""Threshold laws: what a learner observes of alpha_i.

A threshold is a number, or a law from which samples are drawn, one for each step (the paper's model) or one
for each episode, repeated at every step (the paper's experiments). The alpha of every metric is the law's
*exact* mean, after clipping where there is any. Only that mean must lie in [0, H]; a single sample may be
any finite number. Samples come from uniforms through the inverse distribution function, so that a run's
random numbers never depend on what is drawn from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from flexdome.cmdp.validation import LARGEST, Float, as_array, as_float, as_items, check_range, one_of, shown
from flexdome.errors import ValidationError

__all__ = ["Threshold", "as_threshold"]

Per = Literal["episode", "step"]
LAWS = {
    "fixed": ("value",),
    "normal": ("mean", "std"),
    "uniform": ("low", "high"),
    "two-point": ("p", "low", "high"),
}


@dataclass(frozen=True)
class Threshold:
    """The law of one threshold. Make one with the constructors below.

    Attributes
    ----------
    law : ``"fixed"``, ``"normal"``, ``"uniform"`` or ``"two-point"``
    parameters : the law's numbers, in the order of ``LAWS[law]``
    per : ``"episode"`` (one draw, repeated at every step) or ``"step"``
    clip : samples are clipped to this interval, if there is one
    """

    law: str
    parameters: tuple[float, ...]
    per: Per = "episode"
    clip: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        law = one_of("threshold law", self.law, LAWS, f"one of {', '.join(LAWS)}")
        object.__setattr__(self, "law", law)
        names = LAWS[law]
        values = self._numbers("parameters", self.parameters, names)
        if self.law == "normal":
            as_float("threshold std", values[1], low=0.0)
        if self.law == "two-point":
            as_float("threshold p", values[0], 0.0, 1.0)
        if self.law in ("uniform", "two-point") and values[-2] > values[-1]:
            raise ValidationError(f"threshold low is {shown(values[-2])}; it must not exceed high, {shown(values[-1])}")
        object.__setattr__(self, "per", one_of("threshold per", self.per, ("episode", "step")))
        object.__setattr__(self, "parameters", values)
        if self.clip is not None:
            low, high = self._numbers("clip", self.clip, ("clip[0]", "clip[1]"))
            if low > high:
                raise ValidationError(f"threshold clip is ({low!r}, {high!r}); low must not exceed high")
            object.__setattr__(self, "clip", (low, high))

    @staticmethod
    def _numbers(field: str, given: Any, names: tuple[str, ...]) -> tuple[float, ...]:
        rule = f"it must be {len(names)} numbers: {', '.join(names)}"
        values = as_items(f"threshold {field}", given, rule, len(names))
        if len(values) != len(names):
            raise ValidationError(f"threshold {field} is {shown(given)}; {rule}")
        return tuple(
            as_float(f"threshold {name}", value, -LARGEST, LARGEST) for name, value in zip(names, values, strict=True)
        )

    @classmethod
    def fixed(cls, value: float) -> Threshold:
        """A constant."""
        return cls("fixed", (value,))

    @classmethod
    def normal(
        cls, mean: float, std: float, per: Per = "episode", clip: tuple[float, float] | None = None
    ) -> Threshold:
        """A normal law (``mean`` and ``std`` before clipping)."""
        return cls("normal", (mean, std), per, clip)

    @classmethod
    def uniform(
        cls, low: float, high: float, per: Per = "episode", clip: tuple[float, float] | None = None
    ) -> Threshold:
        """Uniform on [low, high]."""
        return cls("uniform", (low, high), per, clip)

    @classmethod
    def bernoulli(
        cls, p: float, scale: float, per: Per = "episode", clip: tuple[float, float] | None = None
    ) -> Threshold:
        """``scale`` with probability ``p``, otherwise 0."""
        scale = as_float("threshold scale", scale, 0.0, LARGEST)
        return cls("two-point", (p, 0.0, scale), per, clip)

    @property
    def is_fixed(self) -> bool:
        """Whether the law is ``"fixed"``: a learner then knows the threshold.

        A law of another kind that happens to have one value (``std`` 0, say) still counts as stochastic, so
        that a sweep over its parameters does not change what the learner knows on the way.
        """
        return self.law == "fixed"

    @property
    def support(self) -> tuple[float, float]:
        """The smallest interval that all samples lie in; that of a normal law without a clip is infinite."""
        ends = self.parameters[-2:]
        if self.law == "fixed":
            ends = self.parameters * 2
        elif self.law == "normal" and self.parameters[1] == 0.0:
            ends = self.parameters[:1] * 2
        elif self.law == "normal":
            ends = (-math.inf, math.inf)
        elif self.law == "two-point" and self.parameters[0] in (0.0, 1.0):
            ends = (self.parameters[1 + int(self.parameters[0])],) * 2
        return self._clipped(ends[0]), self._clipped(ends[1])

    @property
    def mean(self) -> float:
        """The exact mean of a sample, after clipping."""
        if self.law == "fixed":
            return self._clipped(self.parameters[0])
        if self.law == "two-point":
            p, low, high = self.parameters[0], *map(self._clipped, self.parameters[1:])
            return self._clipped(low + p * (high - low))
        if self.law == "normal":
            mean, std = self.parameters
            return self._mean(mean, lambda x: _normal_part(x - mean, std), lambda x: _normal_part(mean - x, std))
        low, high = self.parameters
        return self._mean(
            0.5 * (low + high),
            lambda x: _uniform_part(x - low, high - low),
            lambda x: _uniform_part(high - x, high - low),
        )

    def _mean(self, mean: float, under: Callable[[float], float], over: Callable[[float], float]) -> float:
        """E[clip(X)], from E[X], under(x) = E[(x - X)+] and over(x) = E[(X - x)+].

        The three forms are equal; the one that starts nearest to the result loses no digits.
        """
        if self.clip is None:
            return mean
        low, high = self.clip
        if mean > high:
            mean = high - under(high) + under(low)
        elif mean < low:
            mean = low + over(low) - over(high)
        else:
            mean = mean + under(low) - over(high)
        return self._clipped(mean)  # rounding must not leave the interval

    def _clipped(self, value: float) -> float:
        return value if self.clip is None else min(max(value, self.clip[0]), self.clip[1])

    def sample(self, uniforms: Float) -> Float:
        """Samples for ``uniforms`` of shape (episodes, H) in [0, 1); the same shape comes back.

        With ``per="episode"`` the first uniform of an episode decides, and the others are left unused.
        """
        u, _ = as_array("uniforms", uniforms)
        if u.ndim != 2 or u.shape[1] == 0:
            raise ValidationError(f"uniforms has shape {u.shape}; it must be (episodes, H)")
        check_range("uniforms", u, 0.0, 1.0, below=True)
        if self.per == "episode":
            u = np.broadcast_to(u[:, :1], u.shape)
        if self.law == "fixed":
            drawn = np.full(u.shape, self.parameters[0])
        elif self.law == "normal":
            mean, std = self.parameters
            drawn = mean + std * ndtri(np.maximum(u, 2.0**-54))  # u = 0 would be minus infinity
        elif self.law == "uniform":
            low, high = self.parameters
            drawn = low + (high - low) * u
        else:
            p, low, high = self.parameters
            drawn = np.where(u < p, high, low)
        return drawn if self.clip is None else np.clip(drawn, *self.clip)

    def reflected(self, total: float) -> Threshold:
        """The law of ``total`` minus a sample: a limit on cost becomes a threshold on utility, and back."""
        total = as_float("total", total, -LARGEST, LARGEST)
        if self.law == "fixed":
            parameters: tuple[float, ...] = (total - self.parameters[0],)
        elif self.law == "normal":
            parameters = (total - self.parameters[0], self.parameters[1])
        elif self.law == "uniform":
            parameters = (total - self.parameters[1], total - self.parameters[0])
        else:
            p, low, high = self.parameters
            parameters = (1.0 - p, total - high, total - low)
        clip = None if self.clip is None else (total - self.clip[1], total - self.clip[0])
        return Threshold(self.law, parameters, self.per, clip)


def _normal_part(x: float, std: float) -> float:
    """E[(x - std Z)+] for a standard normal Z."""
    if std == 0.0:
        return max(x, 0.0)
    z = x / std
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return x * 0.5 * math.erfc(-z / math.sqrt(2.0)) + std * density


def _uniform_part(x: float, width: float) -> float:
    """E[(x - width U)+] for U uniform on [0, 1]."""
    if x <= 0.0:
        return 0.0
    return 0.5 * x * (x / width) if x < width else x - 0.5 * width


def as_threshold(name: str, value: Any) -> Threshold:
    """A number or a law, as a law."""
    return value if isinstance(value, Threshold) else Threshold.fixed(as_float(name, value, -LARGEST, LARGEST))
