"""One episode as a learner observes it, from a simulator or from a live system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.units import Quantity
from flexdome.cmdp.validation import (
    LARGEST,
    LARGEST_SIZE,
    RANGE_TOLERANCE,
    Float,
    as_array,
    as_float,
    as_int,
    as_raw,
    check_range,
    clipped,
    shown,
    switch,
)
from flexdome.errors import ValidationError, unknown_name

__all__ = ["Episode", "Made", "Scaled", "refuse_impossible"]

Index = npt.NDArray[np.int64]
LONGEST_FILLED = 2**26  # steps that an episode is filled up to


@dataclass(frozen=True, eq=False)
class Episode:
    """States, actions and what was observed at each of the H steps.

    Where a problem has names, states and actions may be names. Where it has quantities, rewards and utilities are these
    quantities in their units (costs too: a quantity with a limit is given as it was measured). Where it says where
    episodes end, one may have fewer steps than H.

    Attributes
    ----------
    states : (H + 1,) or (H,); the state after the last step is not needed
    actions : (H,)
    rewards : (H,), in [0, 1]
    utilities : (m, H), in [0, 1]; (H,) is taken when m = 1. NaN is a sample that is missing: it is not counted, and the
        rest of the episode is
    thresholds : (m, H) samples, any finite numbers; (m,) is one sample an episode; None where all are known, and NaN is
        as good as any number for one that is known while another is not
    """

    states: npt.ArrayLike
    actions: npt.ArrayLike
    rewards: npt.ArrayLike
    utilities: npt.ArrayLike
    thresholds: npt.ArrayLike | None = None
    begins_anywhere: ClassVar[bool] = False  # whether the problem's initial distribution is an estimate to this one

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
        r, d = as_array("rewards", rewards)[0], np.atleast_2d(as_array("utilities", utilities, finite=False)[0])
        _finite("utilities", d, np.isinf(d))
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

    def checked(self, problem: Problem, gaps: bool = False) -> tuple[Index, Index, Float, Float, Float]:
        """The arrays as the kernels take them, or an error that names field, index, value and rule.

        Names become numbers, units become numbers in [0, 1], and an episode that ended early is filled up in
        ``problem.end``. A number that is a rounding error out of range counts as the end of the range. Thresholds come
        back as (m, H), or of size 0 where the problem knows them all. With ``gaps`` a utility may be NaN: a sample that
        is missing.
        """
        H, m = as_problem(problem).horizon, problem.constraints
        gaps = switch("gaps", gaps)
        actions = _indices("actions", self.actions, problem.actions, problem.action_names)
        n = H if problem.end is None else actions.shape[0]
        if not 1 <= n <= H or actions.shape != (n,):
            wanted = f"({H},)" if problem.end is None else f"(n,) with n from 1 to {H}"
            raise ValidationError(f"actions has shape {actions.shape}; it must be {wanted}")
        states = _indices("states", self.states, problem.states, problem.state_names)
        if states.shape not in ((n + 1,), (n,)):
            raise ValidationError(f"states has shape {states.shape}; it must be ({n + 1},) or ({n},)")
        rewards, utilities = self._measured(problem, n, gaps)
        if states.shape == (n,):
            states = np.append(states, 0)
        if n < H:
            states, actions, rewards, utilities = _ended(problem, n, states, actions, rewards, utilities)
        if self.begins_anywhere:
            refuse_forbidden_actions(problem, states, actions)
        else:
            refuse_impossible(problem, states, actions)
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
        elif n < H and samples.shape == (m, n):
            samples = _filled("thresholds", samples, n, H - n)
        if samples.shape != (m, H):
            raise ValidationError(f"thresholds has shape {samples.shape}; it must be ({m}, {H}) or ({m},)")
        if self._in_units(problem) and problem.subject_to:
            samples = np.stack([one.value(row, H) for one, row in zip(problem.subject_to, samples, strict=True)])
        return states, actions, rewards, utilities, np.clip(samples, -LARGEST, LARGEST)

    def _in_units(self, problem: Problem) -> bool:
        return problem.in_units

    def _measured(self, problem: Problem, n: int, gaps: bool) -> tuple[Float, Float]:
        """Rewards (n,) and utilities (m, n) in [0, 1]."""
        m = problem.constraints
        rewards, _ = as_array("rewards", self.rewards)
        if rewards.shape != (n,):
            raise ValidationError(f"rewards has shape {rewards.shape}; it must be ({n},)")
        utilities, _ = as_array("utilities", self.utilities, finite=not gaps)
        if utilities.shape == (n,) and m == 1:
            utilities = utilities[None]
        if utilities.shape != (m, n):
            raise ValidationError(f"utilities has shape {utilities.shape}; it must be ({m}, {n})")
        if not self._in_units(problem):
            return clipped("rewards", rewards), clipped("utilities", utilities, gaps=gaps)
        reward, quantities = problem.reward, problem.subject_to
        r = clipped("rewards", rewards) if reward is None else _scaled("rewards", "", rewards, reward)
        if not quantities:
            return r, clipped("utilities", utilities, gaps=gaps)
        pairs = enumerate(zip(quantities, utilities, strict=True))
        return r, np.stack([_scaled("utilities", f"{i}, ", row, one) for i, (one, row) in pairs])


class Scaled(Episode):
    """An episode in numbers between 0 and 1, whatever the units of a problem are."""

    def _in_units(self, problem: Problem) -> bool:
        return False


class Made(Scaled):
    """An episode that a simulation made, in arrays that are nobody else's: kinds, sizes and ranges are right."""

    def checked(self, problem: Problem, gaps: bool = False) -> tuple[Any, Any, Any, Any, Float]:
        """The arrays themselves, where the problem allows what was done and knows all thresholds."""
        if not problem.thresholds_known:
            return super().checked(problem, gaps)
        states: Any = self.states
        actions: Any = self.actions
        refuse_impossible(problem, states, actions)
        return states, actions, self.rewards, self.utilities, np.zeros((0, 0))


def _scaled(name: str, place: str, row: Float, one: Quantity) -> Float:
    """What was measured of a quantity, in [0, 1]."""
    slack = RANGE_TOLERANCE * one.width
    bad = (row < one.low - slack) | (row > one.high + slack)  # what is NaN was looked at before
    if bad.any():
        h = int(np.argmax(bad))
        wide = f"[{one.low:g}, {one.high:g}] {one.unit}".rstrip()
        raise ValidationError(f"{name}[{place}{h}] is {shown(float(row[h]))}; {one.name} must lie in {wide}")
    scaled: Float = np.clip(one.scaled(row), 0.0, 1.0)
    return scaled


def _ended(problem: Problem, n: int, states: Index, actions: Index, rewards: Float, utilities: Float) -> Any:
    """The arrays of an episode of n steps with the others, which did not happen, in the state ``problem.end``."""
    H, end = problem.horizon, problem.end
    action = np.zeros(H - n, dtype=np.int64) if problem.allowed is None else problem.allowed[n:, end].argmax(axis=-1)
    reward = 0.0 if problem.reward is None else problem.reward.scaled(problem.reward.after)
    rest = [one.scaled(one.after) for one in problem.subject_to] or [0.0] * problem.constraints
    return (
        np.append(states[:n], np.full(H + 1 - n, end)),
        np.append(actions, action),
        np.append(rewards, np.full(H - n, reward)),
        np.append(utilities, np.repeat(np.array(rest)[:, None], H - n, axis=1), axis=1),
    )


def refuse_impossible(problem: Problem, states: Index, actions: Index) -> None:
    """An error where an episode of (..., H + 1) states begins where none can, or takes what is forbidden."""
    first = states[..., 0]
    if not problem.initial_estimated and not problem.initial[first].all():
        where = tuple(int(k) for k in np.argwhere(np.atleast_1d(problem.initial[first] == 0.0))[0])[: first.ndim]
        place = ", ".join(map(str, (*where, 0)))
        raise ValidationError(
            f"states[{place}] is {int(first[where])}; the problem says that no episode begins there: initial is 0"
        )
    refuse_forbidden_actions(problem, states, actions)


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


def _indices(name: str, given: Any, size: int, names: tuple[str, ...] | None = None) -> Index:
    array = np.array(as_raw(name, given))  # ours: what is checked is what is used
    if array.ndim != 1:
        raise ValidationError(f"{name} has shape {array.shape}; it must have one axis")
    if names is not None and array.dtype.kind == "U":
        array = np.array([_place(f"{name}[{k}]", one, names) for k, one in enumerate(array.tolist())], dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise ValidationError(f"{name} has dtype {array.dtype}; it must hold whole numbers{' or names' * bool(names)}")
    bad = (array < 0) | (array >= size)
    if bad.any():
        where = int(np.argmax(bad))
        raise ValidationError(f"{name}[{where}] is {int(array[where])}; it must lie in 0 to {size - 1}")
    return array.astype(np.int64, copy=False)


def _place(name: str, label: str, names: tuple[str, ...]) -> int:
    if label not in names:
        raise unknown_name(name, label, names)
    return names.index(label)
