"""Recorded episodes as arrays, checked once, and the plain file that holds them.

The file is an ``.npz`` that ``np.savez`` writes (uncompressed, no pickle), of n episodes:

    states      (n, H + 1) or (n, H)     whole numbers
    actions     (n, H)                   whole numbers
    rewards     (n, H)                   in [0, 1]
    utilities   (n, m, H), or (n, H)     in [0, 1], or NaN where a sample is missing
    thresholds  (n, m, H) or (n, m)      samples, where a threshold is not known
    played_by   (H, S, A) or (n, H, S, A), optional: the policy that played the episodes, or each of them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.archive import PathLike, read_arrays, replacing
from flexdome.cmdp.episode import refuse_impossible
from flexdome.cmdp.problem import as_problem
from flexdome.cmdp.validation import LARGEST, Float, as_array, as_raw, as_series, clipped, frozen, shown
from flexdome.errors import FileFormatError, ValidationError

__all__ = ["Recorded", "as_recorded", "load_episodes", "save_episodes"]

Index = npt.NDArray[np.int64]
FIELDS = ("states", "actions", "rewards", "utilities")


@dataclass(frozen=True, eq=False)
class Recorded:
    """n episodes of a problem, checked.

    Attributes
    ----------
    problem : whose episodes they are
    states : (n, H + 1), of which the last is 0 where it was not recorded
    actions : (n, H)
    observed : (n, 1 + m, H) rewards and utilities, NaN where a sample of a utility is missing
    thresholds : (n, m) the mean of an episode's samples, NaN where the threshold is known
    """

    problem: Problem
    states: Index
    actions: Index
    observed: Float
    thresholds: Float

    @classmethod
    def from_arrays(
        cls,
        problem: Problem,
        states: npt.ArrayLike,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        utilities: npt.ArrayLike,
        thresholds: npt.ArrayLike | None = None,
    ) -> Recorded:
        """Episodes in arrays, as the file has them."""
        H, m = as_problem(problem).horizon, problem.constraints
        a = _indices("actions", actions, problem.actions)
        n = len(a) if a.ndim else 0
        s = _indices("states", states, problem.states)
        r, d = as_array("rewards", rewards)[0], as_array("utilities", utilities, finite=False)[0]
        if d.shape == (n, H) and m == 1:
            d = d[:, None]
        if s.shape == (n, H):
            s = np.append(s, np.zeros((n, 1), dtype=np.int64), axis=1)
        for name, shape, wanted in (
            ("actions", a.shape, (n, H)),
            ("states", s.shape, (n, H + 1)),
            ("rewards", r.shape, (n, H)),
            ("utilities", d.shape, (n, m, H)),
        ):
            if shape != wanted:
                raise ValidationError(f"{name} has shape {shape}; it must be {wanted}, of {n} episodes")
        refuse_impossible(problem, s, a)
        r, d = clipped("rewards", r), clipped("utilities", d, gaps=True)
        observed = np.concatenate([r[:, None], d], axis=1)
        return cls(problem, frozen(s), frozen(a), frozen(observed), frozen(_samples(problem, thresholds, n)))

    @classmethod
    def from_episodes(cls, problem: Problem, episodes: Iterable[Episode]) -> Recorded:
        """Episodes one by one; a bad one names its place."""
        H, m = as_problem(problem).horizon, problem.constraints
        series = as_series("episodes", episodes, "it must be a series of Episodes")
        parts: list[tuple[Any, ...]] = []
        for episode in series:
            if not isinstance(episode, Episode):
                raise ValidationError(f"episodes[{len(parts)}] is {shown(episode)}; it must be an Episode")
            try:
                parts.append(episode.checked(problem, gaps=True))
            except ValidationError as error:
                raise ValidationError(f"episodes[{len(parts)}]: {error}") from None
        n = len(parts)
        observed = np.zeros((n, 1 + m, H))
        alpha = np.full((n, m), np.nan)
        for k, (_, _, r, d, samples) in enumerate(parts):
            observed[k, 0], observed[k, 1:] = r, d
            if samples.size:
                alpha[k] = samples.mean(axis=1)
        alpha[:, ~np.isnan(problem.thresholds)] = np.nan
        states = np.array([part[0] for part in parts], dtype=np.int64).reshape(n, H + 1)
        actions = np.array([part[1] for part in parts], dtype=np.int64).reshape(n, H)
        return cls(problem, frozen(states), frozen(actions), frozen(observed), frozen(alpha))

    def __len__(self) -> int:
        return int(self.actions.shape[0])

    def least_and_most(self) -> tuple[Float, Float]:
        """``observed`` with 0, and with 1, where a sample is missing; the same array twice where none is."""
        gone = np.isnan(self.observed)
        if not gone.any():
            return self.observed, self.observed
        return np.where(gone, 0.0, self.observed), np.where(gone, 1.0, self.observed)


def as_recorded(problem: Problem, episodes: Any) -> Recorded:
    """``episodes``, recorded or one by one, of ``problem``."""
    if not isinstance(episodes, Recorded):
        return Recorded.from_episodes(problem, episodes)
    same, given = as_problem(problem), episodes.problem
    mine = (same.states, same.actions, same.horizon, same.constraints)
    theirs = (given.states, given.actions, given.horizon, given.constraints)
    if mine != theirs:
        raise ValidationError(f"episodes are of a problem with (S, A, H, m) = {theirs}; this one has {mine}")
    missing = np.isnan(same.thresholds) & ~np.isnan(given.thresholds)
    if missing.any():
        raise ValidationError(f"episodes have no samples of thresholds[{int(np.argmax(missing))}], which is not known")
    return episodes


def _samples(problem: Problem, thresholds: Any, n: int) -> Float:
    """(n, m) the mean sample of an episode, NaN where the threshold is known."""
    H, m = problem.horizon, problem.constraints
    unknown = np.isnan(problem.thresholds)
    if not unknown.any():
        return np.full((n, m), np.nan)
    if thresholds is None:
        raise ValidationError("thresholds is missing; this problem has thresholds that must be estimated")
    samples, _ = as_array("thresholds", thresholds, finite=False)
    if samples.shape not in ((n, m), (n, m, H)):
        raise ValidationError(f"thresholds has shape {samples.shape}; it must be {(n, m)} or {(n, m, H)}")
    means = np.clip(samples, -LARGEST, LARGEST) if samples.ndim == 2 else _step_means(samples)
    bad = ~np.isfinite(samples).reshape(n, m, -1).all(axis=-1) & unknown
    if bad.any():
        k, i = (int(x) for x in np.argwhere(bad)[0])
        raise ValidationError(f"thresholds[{k}, {i}] is {shown(samples[k, i])}; it must be finite")
    means[:, ~unknown] = np.nan
    return means


def _step_means(samples: Float) -> Float:
    means: Float = np.clip(samples, -LARGEST, LARGEST).mean(axis=2)
    return means


def _indices(name: str, given: Any, size: int) -> Index:
    array = as_raw(name, given)
    if array.dtype.kind not in "iu":
        raise ValidationError(f"{name} has dtype {array.dtype}; it must hold whole numbers")
    bad = (array < 0) | (array >= size)
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ValidationError(f"{name}{list(where)} is {int(array[where])}; it must lie in 0 to {size - 1}")
    return array.astype(np.int64)


def save_episodes(
    path: PathLike,
    problem: Problem,
    episodes: Iterable[Episode] | Recorded,
    played_by: npt.ArrayLike | None = None,
) -> None:
    """Write episodes to ``path`` in the format above; an interruption at any byte leaves the previous file."""
    data = as_recorded(problem, episodes)
    arrays: dict[str, npt.NDArray[Any]] = {
        "states": data.states,
        "actions": data.actions,
        "rewards": data.observed[:, 0],
        "utilities": data.observed[:, 1:],
    }
    if not problem.thresholds_known:
        arrays["thresholds"] = data.thresholds
    if played_by is not None:
        arrays["played_by"] = as_array("played_by", played_by)[0]
    with replacing(path) as file:
        np.savez(file, **{name: np.ascontiguousarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]


def load_episodes(path: PathLike, problem: Problem) -> tuple[Recorded, Float | None]:
    """The episodes of a file, and the policy or policies that played them, if it says so."""
    arrays = read_arrays(path)
    missing = [name for name in FIELDS if name not in arrays]
    other = sorted(set(arrays) - {*FIELDS, "thresholds", "played_by"})
    if missing or other:
        has = f"lacks {', '.join(missing)}" if missing else f"has {shown(other)}, which is not known here"
        raise FileFormatError(f"{path} does not hold episodes: it {has}")
    try:
        states, actions, rewards, utilities = (arrays[name] for name in FIELDS)
        data = Recorded.from_arrays(problem, states, actions, rewards, utilities, arrays.get("thresholds"))
        played_by = arrays.get("played_by")
        return data, None if played_by is None else as_array("played_by", played_by)[0]
    except ValidationError as error:
        raise FileFormatError(f"{path} does not hold episodes of this problem: {error}") from None
