"""Malformed episodes, by the thousand: each is refused with a sentence, and nothing of the learner changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flexdome as fd

H, S, A, M = 4, 3, 2, 2
MASK = np.array([[True, True], [True, False], [True, True]])
FIELDS: dict[str, Any] = {
    "states": [0, 1, 2, 0, 1],
    "actions": [1, 0, 0, 1],
    "rewards": [0.0, 0.25, 0.5, 1.0],
    "utilities": [[0.5, 0.5, 0.0, 1.0], [1.0, 0.0, 0.5, 0.25]],
}
PLAIN = fd.Problem(S, A, H, 0, [1.0, 1.5], 0.5, allowed=MASK)
UNITS = fd.Problem(
    ["low", "normal", "high"], ["off", "on"], H, "low", allowed=MASK, end="high", slater_gap=0.5,
    reward=fd.Quantity("yield", -1, 3, "mg"),
    subject_to=[fd.Quantity("over", 0, 2, "mg/l", limit=4.0), fd.Quantity("flow", 0, 1, "l", threshold=1.0)],
)  # fmt: skip
BAD_NUMBERS = (math.inf, -math.inf, -1.5, 4.5, 1e300, "0.5", None, 1j)  # outside of every range above
BAD_INDICES = (-1, 3, 2**40, 0.5, None, "nowhere", 1j)


def _entry(values: Any, where: tuple[int, ...], entry: Any) -> Any:
    rows = [list(row) if isinstance(row, list) else row for row in values]
    target = rows
    for k in where[:-1]:
        target = target[k]
    target[where[-1]] = entry
    return rows


def malformed(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """An episode that is wrong in one place, and what is wrong with it."""
    field = str(rng.choice(["states", "actions", "rewards", "utilities", "shape", "start", "mask", "type"]))
    made = dict(FIELDS)
    if field in ("states", "actions"):
        bad = BAD_INDICES[rng.integers(len(BAD_INDICES))]
        at = int(rng.integers(4))
        made[field] = _entry(FIELDS[field], (at,), bad)
        return f"{field}[{at}] = {bad!r}", made
    if field in ("rewards", "utilities"):
        bad = BAD_NUMBERS[rng.integers(len(BAD_NUMBERS))]
        where = (int(rng.integers(4)),) if field == "rewards" else (int(rng.integers(M)), int(rng.integers(4)))
        made[field] = _entry(FIELDS[field], where, bad)
        return f"{field}{list(where)} = {bad!r}", made
    if field == "start":
        made["states"] = [int(rng.integers(1, S)), *FIELDS["states"][1:]]
        return "a start that is impossible", made
    if field == "mask":
        at = int(rng.integers(1, 4))
        made["states"], made["actions"] = _entry(FIELDS["states"], (at,), 1), _entry(FIELDS["actions"], (at,), 1)
        return "a forbidden action", made
    name = str(rng.choice(["states", "actions", "rewards", "utilities"]))
    if field == "shape":
        changes: list[Callable[[Any], Any]] = [
            lambda x: x[:1] if name == "utilities" else x[:-2], lambda x: [*x, x[0]] if name != "states" else [*x, 0],
            lambda x: [x], lambda x: [],
        ]  # fmt: skip
        made[name] = changes[rng.integers(len(changes))](FIELDS[name])
    else:
        made[name] = ({"a": 1}, object(), "text", 3, math.nan, {1, 2}, lambda: 0)[rng.integers(7)]
    return f"{name} = {made[name]!r}", made


def held(learner: Any) -> Any:
    return {name: array.tobytes() for name, array in learner.state().items()}, learner.episode, learner.policy.tobytes()


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_malformed_episodes_change_nothing(count: int) -> None:
    rng = np.random.default_rng(count)
    learners = [
        fd.make_learner("optcmdp", PLAIN, episodes=50, replan="doubling"),
        fd.make_learner("optcmdp-bonus", UNITS, episodes=50, replan="doubling"),
    ]
    for learner in learners:
        learner.observe(fd.Episode(**FIELDS))
    before = [held(learner) for learner in learners]
    for k in range(count):
        what, made = malformed(rng)
        learner = learners[k % 2]
        try:
            learner.observe(fd.Episode(**made)) if k % 4 < 2 else learner.preload([fd.Episode(**made)])
        except fd.ValidationError:
            continue
        raise AssertionError(f"{what} was accepted")
    assert [held(one) for one in learners] == before
    with pytest.raises(fd.ValidationError, match="states has shape"):
        learners[1].observe(fd.Episode(**{**FIELDS, "actions": [1, 0]}))
