"""One episode as a learner observes it, from a simulator or from a live system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import LARGEST_SIZE, Float, as_array, as_float, as_int, as_raw, check_range, shown
from flexdome.errors import ValidationError

__all__ = ["Episode", "refuse_forbidden_actions"]

Index = npt.NDArray[np.int64]
LONGEST_FILLED = 2**26  # steps that an episode is filled up to
LARGEST = 1e100  # a threshold sample beyond it counts as that much, so that no sum of samples overflows


@dataclass(frozen=True, eq=False)
class Episode:
    """States, actions and what was observed at each of the H steps.

    Attributes
    ----------
    states : (H + 1,) or (H,); the state after the last step is not needed
    actions : (H,)
    rewards : (H,), in [0, 1]
    utilities : (m, H), in [0, 1]; (H,) is taken when m = 1
    thresholds : (m, H) samples, any finite numbers; (m,) is one sample an episode; None where all are known, and NaN is
        as good as any number for one that is known while another is not
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
        utility: npt.ArrayLike = 0.0,
    ) -> Episode:
        """An episode that ended early, filled up to ``horizon`` in the state ``absorbing``.

        The steps that did not happen take action 0 in that state, earn ``reward`` and give the utilities ``utility``:
        a number for all, or one for each (1.0 where a utility is 1 - cost and an ended episode costs nothing).
        ``states`` holds the states in which an action was taken (one more is ignored). Thresholds are one sample an
        episode, (m,), or one for each step that happened, (m, n): their mean stands for the others, so that every
        episode weighs the same.
        """
        a, s = as_raw("actions", actions), as_raw("states", states)
        for name, array in (("actions", a), ("states", s)):
            if array.ndim != 1:
                raise ValidationError(f"{name} has shape {array.shape}; it must have one entry for each step")
            if array.size and array.dtype.kind not in "iu":
                raise ValidationError(f"{name} has dtype {array.dtype}; it must hold whole numbers")
        n = len(a)
        if n == 0:
            raise ValidationError("actions is empty; an episode has at least one step")
        if len(s) not in (n, n + 1):
            raise ValidationError(f"states has length {len(s)}; it must be {n}, as actions has, or {n + 1}")
        missing = as_int("horizon", horizon, 1, LONGEST_FILLED) - n
        if missing < 0:
            raise ValidationError(f"actions has length {n}; it must not exceed the horizon, {horizon}")
        r, d = as_array("rewards", rewards)[0], np.atleast_2d(as_array("utilities", utilities)[0])
        for name, shape in (("rewards", r.shape), ("utilities", d.shape[1:])):
            if shape != (n,):
                raise ValidationError(f"{name} does not have one entry for each of the {n} actions")
        end = as_int("absorbing", absorbing, 0, LARGEST_SIZE)
        rest, _ = as_array("utility", utility)
        if rest.shape not in ((), d.shape[:1]):
            raise ValidationError(f"utility has shape {rest.shape}; it must be a number or ({len(d)},)")
        check_range("utility", rest, 0.0, 1.0)
        return cls(
            np.append(s[:n], np.full(missing + 1, end)),
            np.append(a, np.zeros(missing, dtype=np.int64)),
            np.append(r, np.full(missing, as_float("reward", reward, 0.0, 1.0))),
            np.append(d, np.broadcast_to(rest.reshape(-1, 1), (d.shape[0], missing)), axis=1),
            None if thresholds is None else _filled("thresholds", thresholds, n, missing),
        )

    def checked(self, problem: Problem) -> tuple[Index, Index, Float, Float, Float]:
        """The arrays as the kernels take them, or an error that names field, index, value and rule.

        Thresholds come back as (m, H), or of size 0 where the problem knows them all.
        """
        H, m = as_problem(problem).horizon, problem.constraints
        states = _indices("states", self.states, problem.states, (H + 1, H))
        actions = _indices("actions", self.actions, problem.actions, (H,))
        refuse_forbidden_actions(problem, states, actions)
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
        samples, _ = as_array("thresholds", self.thresholds, finite=False)
        missing = np.isnan(samples)
        if samples.shape[:1] == (m,):  # one that is known needs no sample
            missing[~np.isnan(problem.thresholds)] = False
        _finite("thresholds", samples, missing | np.isinf(samples))
        if samples.shape == (m,):
            samples = np.repeat(samples[:, None], H, axis=1)
        if samples.shape != (m, H):
            raise ValidationError(f"thresholds has shape {samples.shape}; it must be ({m}, {H}) or ({m},)")
        return states, actions, rewards, utilities, np.clip(samples, -LARGEST, LARGEST)


def refuse_forbidden_actions(problem: Problem, states: Index, actions: Index) -> None:
    """An error where an action of (..., H) was not allowed in its state of (..., H + 1)."""
    if problem.allowed is None:
        return
    bad = ~problem.allowed[np.arange(problem.horizon), states[..., : problem.horizon], actions]
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ValidationError(
            f"actions[{', '.join(map(str, where))}] is {int(actions[where])}; that action is not allowed at step "
            f"{where[-1]} in state {int(states[where])}"
        )


def _finite(name: str, samples: Float, bad: npt.NDArray[np.bool_]) -> None:
    if bad.any():
        where = tuple(np.argwhere(bad)[0])
        place = f"[{', '.join(str(int(k)) for k in where)}]" if where else ""
        raise ValidationError(f"{name}{place} is {shown(samples[where])}; it must be finite")


def _filled(name: str, given: npt.ArrayLike, n: int, missing: int) -> Float:
    """Samples (m,), or (m, n) with the steps that did not happen filled by the mean of those that did."""
    samples, _ = as_array(name, given, finite=False)
    _finite(name, samples, np.isinf(samples))
    if samples.ndim == 2 and samples.shape[1] == n:
        return np.append(samples, np.repeat(samples.mean(axis=1, keepdims=True), missing, axis=1), axis=1)
    if samples.ndim != 1:
        raise ValidationError(f"{name} has shape {samples.shape}; it must be (m,) or (m, {n})")
    return samples


def _indices(name: str, given: Any, size: int, lengths: tuple[int, ...]) -> Index:
    array = np.array(as_raw(name, given))  # ours: what is checked is what is used
    if array.ndim != 1 or array.shape[0] not in lengths:
        wanted = " or ".join(f"({n},)" for n in lengths)
        raise ValidationError(f"{name} has shape {array.shape}; it must be {wanted}")
    if array.dtype.kind not in "iu":
        raise ValidationError(f"{name} has dtype {array.dtype}; it must hold whole numbers")
    bad = (array < 0) | (array >= size)
    if bad.any():
        where = int(np.argmax(bad))
        raise ValidationError(f"{name}[{where}] is {int(array[where])}; it must lie in 0 to {size - 1}")
    out = array.astype(np.int64, copy=False)
    return np.append(out, 0) if len(lengths) == 2 and array.shape[0] == lengths[1] else out
