"""Threshold laws: what a learner observes of alpha_i.

A threshold is a number, or a law from which samples are drawn, one for each step (the paper's model) or one
for each episode, repeated at every step (the paper's experiments). The alpha of every metric is the law's
*exact* mean, after clipping where there is any. Only that mean must lie in [0, H]; a single sample may be
any finite number. Samples come from uniforms through the inverse distribution function, so that a run's
random numbers never depend on what is drawn from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from flexdome.cmdp.validation import Float, as_float
from flexdome.errors import ValidationError

__all__ = ["Threshold", "as_threshold"]

Per = Literal["episode", "step"]
LAWS = {"fixed": ("value",), "normal": ("mean", "std"), "uniform": ("low", "high"), "two-point": ("p", "low", "high")}


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
        if self.law not in LAWS:
            raise ValidationError(f"threshold law is {self.law!r}; it must be one of {', '.join(LAWS)}")
        names = LAWS[self.law]
        if len(self.parameters) != len(names):
            raise ValidationError(f"a {self.law} threshold takes {names}, not {self.parameters!r}")
        values = tuple(as_float(f"threshold {n}", v) for n, v in zip(names, self.parameters, strict=True))
        object.__setattr__(self, "parameters", values)
        if self.law == "normal":
            as_float("threshold std", values[1], low=0.0)
        if self.law == "two-point":
            as_float("threshold p", values[0], 0.0, 1.0)
        if self.law in ("uniform", "two-point") and values[-2] > values[-1]:
            raise ValidationError(f"threshold low is {values[-2]:g}; it must not exceed high, {values[-1]:g}")
        if self.per not in ("episode", "step"):
            raise ValidationError(f"threshold per is {self.per!r}; it must be 'episode' or 'step'")
        if self.clip is not None:
            if np.shape(self.clip) != (2,):
                raise ValidationError(f"threshold clip is {self.clip!r}; it must be a pair (low, high)")
            low, high = (as_float("threshold clip", bound) for bound in self.clip)
            if low > high:
                raise ValidationError(f"threshold clip is ({low:g}, {high:g}); low must not exceed high")
            object.__setattr__(self, "clip", (low, high))

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
        scale = as_float("threshold scale", scale)
        if scale < 0:
            raise ValidationError(f"threshold scale is {scale:g}; it must not be negative")
        return cls("two-point", (p, 0.0, scale), per, clip)

    @property
    def is_fixed(self) -> bool:
        """Whether every sample is the same number (a learner then knows it)."""
        return self.law == "fixed"

    @property
    def mean(self) -> float:
        """The exact mean of a sample, after clipping."""
        if self.law == "fixed":
            return self._clipped(self.parameters[0])
        if self.law == "two-point":
            p, low, high = self.parameters
            return (1.0 - p) * self._clipped(low) + p * self._clipped(high)
        if self.law == "uniform":
            return self._uniform_mean(*self.parameters)
        return self._normal_mean(*self.parameters)

    def _clipped(self, value: float) -> float:
        return value if self.clip is None else min(max(value, self.clip[0]), self.clip[1])

    def _uniform_mean(self, low: float, high: float) -> float:
        if self.clip is None or low == high:
            return self._clipped(0.5 * (low + high))
        lo, hi = self._clipped(low), self._clipped(high)  # E = P(below) lo' + P(above) hi' + the middle
        below = max(self.clip[0] - low, 0.0) if lo < high else high - low
        above = max(high - self.clip[1], 0.0) if hi > low else high - low
        if lo == hi:
            return lo
        return (below * lo + above * hi + 0.5 * (hi - lo) * (hi + lo)) / (high - low)

    def _normal_mean(self, mean: float, std: float) -> float:
        if self.clip is None or std == 0.0:
            return self._clipped(mean)
        a, b = ((bound - mean) / std for bound in self.clip)
        cdf = lambda z: 0.5 * math.erfc(-z / math.sqrt(2.0))  # noqa: E731
        pdf = lambda z: math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)  # noqa: E731
        inside = mean * (cdf(b) - cdf(a)) + std * (pdf(a) - pdf(b))
        return self.clip[0] * cdf(a) + self.clip[1] * cdf(-b) + inside

    def sample(self, uniforms: Float) -> Float:
        """Samples for ``uniforms`` of shape (episodes, H) in [0, 1); the same shape comes back.

        With ``per="episode"`` the first uniform of an episode decides, and the others are left unused.
        """
        u = np.asarray(uniforms, dtype=np.float64)
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


def as_threshold(name: str, value: Any) -> Threshold:
    """A number or a law, as a law."""
    return value if isinstance(value, Threshold) else Threshold.fixed(as_float(name, value))
