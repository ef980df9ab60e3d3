"""One episode as a learner observes it, from a simulator or from a live system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import Float, as_array, as_int, check_range, shown
from flexdome.errors import ValidationError

__all__ = ["Episode"]

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Episode:
    """States, actions and what was observed at each of the H steps.

    Attributes
    ----------
    states : (H + 1,) or (H,); the state after the last step is not needed
    actions : (H,)
    rewards : (H,), in [0, 1]
    utilities : (m, H), in [0, 1]; (H,) is taken when m = 1
    thresholds : (m, H) samples, any finite numbers; (m,) is one sample an episode; None where all are known
    """

    states: npt.ArrayLike
    actions: npt.ArrayLike
    rewards: npt.ArrayLike
    utilities: npt.ArrayLike
    thresholds: npt.ArrayLike | None = None

    @classmethod
    def padded(
        cls,
        horizon: int,
        absorbing: int,
        states: npt.ArrayLike,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        utilities: npt.ArrayLike,
        thresholds: npt.ArrayLike | None = None,
        *,
        reward: float = 0.0,
        utility: float = 0.0,
    ) -> Episode:
        """An episode that ended early, filled up to ``horizon`` in the state ``absorbing``.

        The steps that did not happen take action 0 in that state, earn ``reward`` and give every utility the value
        ``utility`` (1.0 where utilities are 1 - cost and an ended episode costs nothing). ``states`` holds the states
        in which an action was taken; a threshold sample of an early episode counts for all its steps.
        """
        n = len(np.atleast_1d(np.asarray(actions)))
        missing = as_int("horizon", horizon, 1) - n
        if missing < 0:
            raise ValidationError(f"actions has length {n}; it must not exceed the horizon, {horizon}")
        d = np.atleast_2d(np.asarray(utilities, dtype=np.float64))
        samples = None
        if thresholds is not None:
            samples = np.asarray(thresholds, dtype=np.float64)
            samples = samples if samples.ndim == 1 else samples.mean(axis=1)
        return cls(
            np.append(np.asarray(states)[:n], np.full(missing + 1, absorbing)),
            np.append(np.asarray(actions), np.zeros(missing, dtype=np.int64)),
            np.append(np.asarray(rewards, dtype=np.float64), np.full(missing, reward)),
            np.concatenate([d, np.full((d.shape[0], missing), utility)], axis=1),
            samples,
        )

    def checked(self, problem: Problem) -> tuple[Index, Index, Float, Float, Float]:
        """The arrays as the kernels take them, or an error that names field, index, value and rule.

        Thresholds come back as (m, H), or of size 0 where the problem knows them all.
        """
        H, m = problem.horizon, problem.constraints
        states = _indices("states", self.states, problem.states, (H + 1, H))
        actions = _indices("actions", self.actions, problem.actions, (H,))
        rewards, _ = as_array("rewards", self.rewards)
        if rewards.shape != (H,):
            raise ValidationError(f"rewards has shape {rewards.shape}; it must be ({H},)")
        check_range("rewards", rewards, 0.0, 1.0)
        utilities, _ = as_array("utilities", self.utilities)
        if utilities.shape == (H,) and m == 1:
            utilities = utilities[None]
        if utilities.shape != (m, H):
            raise ValidationError(f"utilities has shape {utilities.shape}; it must be ({m}, {H})")
        check_range("utilities", utilities, 0.0, 1.0)
        if problem.thresholds_known:
            return states, actions, rewards, utilities, np.zeros((0, 0))
        if self.thresholds is None:
            raise ValidationError("thresholds is missing; this problem has thresholds that must be estimated")
        samples, _ = as_array("thresholds", self.thresholds)
        if samples.shape == (m,):
            samples = np.repeat(samples[:, None], H, axis=1)
        if samples.shape != (m, H):
            raise ValidationError(f"thresholds has shape {samples.shape}; it must be ({m}, {H}) or ({m},)")
        return states, actions, rewards, utilities, samples


def _indices(name: str, given: Any, size: int, lengths: tuple[int, ...]) -> Index:
    array = np.asarray(given)
    if array.ndim != 1 or array.shape[0] not in lengths:
        wanted = " or ".join(f"({n},)" for n in lengths)
        raise ValidationError(f"{name} has shape {array.shape}; it must be {wanted}")
    if array.dtype.kind not in "iu":
        raise ValidationError(f"{name} has dtype {array.dtype}; it must hold whole numbers")
    bad = (array < 0) | (array >= size)
    if bad.any():
        where = int(np.argmax(bad))
        raise ValidationError(f"{name}[{where}] is {shown(array[where])}; it must lie in 0 to {size - 1}")
    out = array.astype(np.int64)
    return np.append(out, 0) if len(lengths) == 2 and array.shape[0] == lengths[1] else out
