"""Step size eta_t, regularisation tau_t and safety margin eps_t, as functions of the episode t = 1, 2, ...

Theorem 1: eta_t = t^(-5/6), tau_t = t^(-1/6) and a margin of the order t^(-1/6), for strong regret and violation.
Theorem 2 (last iterate): constants eta = Theta(epsilon^3), tau = Theta(epsilon), margin = Theta(epsilon).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import (
    LARGEST,
    Float,
    as_array,
    as_float,
    as_int,
    as_raw,
    check_room,
    frozen,
    shown,
)
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.theory.constants import LONGEST, as_confidence, margin_coefficient

__all__ = ["LARGEST", "LARGEST_SCALE", "Margin", "Power", "Schedules", "theorem1", "theorem2"]

Function = Callable[[Any], Any]
MOST_CONSTRAINTS = 10**6
LARGEST_SCALE = 1e95  # of an option that multiplies one of the following, so that the error names the option


@dataclass(frozen=True)
class Power:
    """``coefficient * (t + shift) ** exponent``."""

    vectorised: ClassVar[bool] = True
    coefficient: float
    exponent: float = 0.0
    shift: float = 0.0

    def __call__(self, t: Any) -> Any:
        """The value at t, a number or an array."""
        return self.coefficient * (np.asarray(t, dtype=np.float64) + self.shift) ** self.exponent


@dataclass(frozen=True)
class Margin:
    """``coefficient * t ** (-1/6) * log(size * t) ** (1/4)``: Theorem 1's margin, size = 4 S A H / delta."""

    vectorised: ClassVar[bool] = True
    coefficient: float
    size: float

    def __call__(self, t: Any) -> Any:
        """The value at t, a number or an array."""
        t = np.asarray(t, dtype=np.float64)
        return self.coefficient * t ** (-1.0 / 6.0) * np.log(self.size * t) ** 0.25


@dataclass(frozen=True)
class Schedules:
    """eta, tau and margin: functions of t, or numbers.

    A function is called once for each episode; its margin is a number, or one for each constraint.

    >>> import flexdome as fd
    >>> slow = fd.Schedules(eta=lambda t: 0.1 / t**0.5, tau=0.01, margin=0.0)
    >>> slow.table(1, 3, 1)[0].round(4).tolist()
    [0.1, 0.0707, 0.0577]
    """

    eta: Function | float
    tau: Function | float
    margin: Function | float = 0.0

    def table(self, first: int, count: int, constraints: int) -> tuple[Float, Float, Float]:
        """eta (n,), tau (n,) and margin (n, m) at the episodes ``first``, ..., ``first + count - 1``."""
        first, count = as_int("first", first, 1, LONGEST), as_int("count", count, 0, LONGEST)
        constraints = as_int("constraints", constraints, 1, MOST_CONSTRAINTS)
        check_room(f"count is {count}; a schedule for {constraints} constraints", count * (3 + constraints))
        t = np.arange(first, first + count, dtype=np.float64)
        eta, tau = (_values(name, getattr(self, name), t, ())[:, 0] for name in ("eta", "tau"))
        eps = _values("margin", self.margin, t, (constraints,))
        for name, values in (("eta", eta), ("tau", tau), ("margin", eps)):
            low = -LARGEST if name == "margin" else 0.0
            bad = ~((values >= low) & (values <= LARGEST))
            if bad.any():
                where = tuple(np.argwhere(bad)[0])
                raise ValidationError(
                    f"{name} at episode {first + where[0]} is {shown(values[where])}; "
                    f"it must lie in [{low:g}, {LARGEST:g}]"
                )
        bad = eta * tau > 1.0 + 1e-12
        if bad.any():
            k = int(np.argmax(bad))
            raise ValidationError(f"eta * tau at episode {first + k} is {eta[k] * tau[k]:g}; it must not exceed 1")
        return frozen(eta), frozen(tau), frozen(eps)


def _values(name: str, function: Function | float, t: Float, shape: tuple[int, ...]) -> Float:
    """The schedule at every t, as (n, 1) or (n, m)."""
    width = shape[0] if shape else 1
    if not callable(function):
        constant, _ = as_array(name, function)
        if constant.shape not in ((), shape):
            rule = f"a number or have shape {shape}" if shape else "a number"
            raise ValidationError(f"{name} has shape {constant.shape}; it must be {rule}")
        return np.broadcast_to(constant, (t.size, width)).copy()
    if getattr(function, "vectorised", False):
        return np.repeat(function(t)[:, None], width, axis=1)
    values = np.empty((t.size, width))
    for k, row in zip(t, values, strict=True):
        value = _called(name, function, float(k))
        if not isinstance(value, float):
            at = f"{name} at episode {int(k)}"
            if as_raw(at, value).shape not in ((), shape):
                rule = f"a number or have shape {shape}" if shape else "a number"
                raise ValidationError(f"{at} has shape {np.shape(value)}; it must be {rule}")
            value, _ = as_array(at, value, finite=False)
        row[:] = value
    return values


def _called(name: str, function: Function, t: float) -> Any:
    try:
        return function(t)
    except FlexDOMEError:  # says what it has to say
        raise
    except Exception as error:
        raise ValidationError(f"{name} at episode {int(t)} raised {type(error).__name__}: {error}") from error


def theorem1(
    problem: Problem,
    delta: float = 0.1,
    margin_scale: float = 1.0,
    step_scale: float = 1.0,
    regularisation_scale: float = 1.0,
) -> Schedules:
    """Theorem 1: eta_t = t^(-5/6), tau_t = t^(-1/6) and the margin, each times its scale.

    eps_t = margin_scale (18/5) sqrt(H^3 C_B) t^(-1/6) log(4 S A H t / delta)^(1/4). Where the scales' product c exceeds
    1, eta_t is delayed, step_scale (t + c^(6/5) - 1)^(-5/6), so that eta_t tau_t never does.
    """
    as_problem(problem)
    delta = as_confidence(delta)
    margin_scale = as_float("margin_scale", margin_scale, low=0.0, high=LARGEST_SCALE)
    step_scale = as_float("step_scale", step_scale, low=0.0, high=LARGEST)
    regularisation_scale = as_float("regularisation_scale", regularisation_scale, low=0.0, high=LARGEST)
    delay = max(step_scale * regularisation_scale, 1.0) ** 1.2 - 1.0
    size = 4.0 * problem.states * problem.actions * problem.horizon / delta
    return Schedules(
        eta=Power(step_scale, -5.0 / 6.0, shift=delay),
        tau=Power(regularisation_scale, -1.0 / 6.0),
        margin=Margin(margin_scale * margin_coefficient(problem), size),
    )


def theorem2(epsilon: float, c_eta: float = 1.0, c_tau: float = 1.0, c_margin: float = 1.0) -> Schedules:
    """Theorem 2: eta = c_eta epsilon^3, tau = c_tau epsilon, margin = c_margin epsilon, all constant.

    The regularised saddle point sits at V_d = alpha + margin - tau lam*: it is safe when c_margin exceeds
    c_tau lam*.
    """
    epsilon = as_float("epsilon", epsilon, low=0.0, high=LARGEST)
    if epsilon == 0.0:
        raise ValidationError("epsilon is 0; it must be positive")
    given = {"c_eta": c_eta, "c_tau": c_tau, "c_margin": c_margin}
    coefficients = [as_float(name, value, 0.0, LARGEST) for name, value in given.items()]
    eta, tau, margin = coefficients[0] * epsilon**3, coefficients[1] * epsilon, coefficients[2] * epsilon
    if max(eta, tau, margin) > LARGEST or eta * tau > 1.0:
        raise ValidationError(
            f"epsilon is {epsilon:g} with c_eta {coefficients[0]:g}, c_tau {coefficients[1]:g} and c_margin "
            f"{coefficients[2]:g}; eta = {eta:g}, tau = {tau:g} and margin = {margin:g} must be at most {LARGEST:g}, "
            "and eta * tau at most 1"
        )
    return Schedules(eta=Power(eta), tau=Power(tau), margin=Power(margin))
