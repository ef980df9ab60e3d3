"""What a learner may know: never the CMDP itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flexdome.cmdp.validation import Float, as_array, as_distribution, as_float, as_int, check_range, frozen
from flexdome.errors import ValidationError

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Sizes, the initial distribution, the thresholds that are known, and a lower bound on the Slater gap.

    An engineer with a live system and no model writes one by hand::

        fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=0.5)

    Attributes
    ----------
    states, actions, horizon : int
    initial : (S,) probabilities of the first state (a state's index is taken too)
    thresholds : (m,) the known thresholds, NaN where a threshold must be estimated from its samples
    slater_gap : float
        A lower bound on ``max_pi min_i V_{d_i}^pi - alpha_i``.
    slater_gap_exact : bool
        Whether that bound is the exact gap of the true model: knowledge that only an oracle has.
    stationary : bool
        Whether rewards, utilities and transitions are the same at every step.
    rewards : (H, S, A), utilities : (m, H, S, A), transitions : (H, S, A, S), or None where not revealed.
    """

    states: int
    actions: int
    horizon: int
    initial: Float
    thresholds: Float
    slater_gap: float
    slater_gap_exact: bool = False
    stationary: bool = False
    rewards: Float | None = None
    utilities: Float | None = None
    transitions: Float | None = None

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        for name in ("states", "actions", "horizon"):
            put(name, as_int(name, getattr(self, name), 1))
        put("initial", frozen(as_distribution("initial", self.initial, self.states)))
        thresholds = np.array(self.thresholds, dtype=np.float64)
        if thresholds.ndim != 1 or thresholds.size == 0:
            raise ValidationError(f"thresholds has shape {thresholds.shape}; it must be (m,) with m at least 1")
        for i, alpha in enumerate(thresholds):
            if not np.isnan(alpha):
                as_float(f"thresholds[{i}]", alpha, 0.0, float(self.horizon))
        put("thresholds", frozen(thresholds))
        put("slater_gap", as_float("slater_gap", self.slater_gap))
        if self.slater_gap <= 0:
            raise ValidationError(f"slater_gap is {self.slater_gap:g}; it must be positive")
        step = (self.horizon, self.states, self.actions)
        shapes = {
            "rewards": step,
            "utilities": (thresholds.size, *step),
            "transitions": (*step, self.states),
        }
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is not None:
                array = value if not value.flags.writeable else frozen(as_array(name, value)[0])
                if array.shape != shape:
                    raise ValidationError(f"{name} has shape {array.shape}; it must be {shape}")
                check_range(name, array, 0.0, 1.0)
                put(name, array)

    @property
    def constraints(self) -> int:
        """m, the number of constraints."""
        return int(self.thresholds.size)

    @property
    def thresholds_known(self) -> bool:
        """Whether no threshold has to be estimated."""
        return not bool(np.isnan(self.thresholds).any())
