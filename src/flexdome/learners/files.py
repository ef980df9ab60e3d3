"""Learners in files: options and problem in the header, everything learned as arrays. No pickle.

A schedule that is a number or one of the paper's formulas is stored as such. Any other function cannot be stored: its
values up to the episode after the last planned one are.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Problem, Quantity
from flexdome.cmdp.archive import read_archive, write_archive
from flexdome.cmdp.validation import Float, as_array, as_int, shown
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError
from flexdome.learners.base import Learner
from flexdome.learners.registry import Entry
from flexdome.theory import Schedules
from flexdome.theory.constants import LONGEST
from flexdome.theory.schedules import Margin, Power

__all__ = ["Tabulated", "read_learner", "rebuilt_learner", "stored_learner", "write_learner"]

FORMAT = "flexdome-learner"
VERSION = 1
Arrays = dict[str, npt.NDArray[Any]]
REVEALED = ("rewards", "utilities", "transitions", "allowed")
HEADER = ("format", "version", "learner", "options", "episode", "problem", "first", "schedules")
SIZES = ("states", "actions", "horizon")
GAP = ("slater_gap", "slater_gap_exact")
NAMES = ("state_names", "action_names")
PARTS = ("eta", "tau", "margin")
MANY = 10**6  # steps


class Tabulated:
    """A schedule given by its values at t = 1, 2, ..."""

    def __init__(self, name: str, values: Float) -> None:
        self.name, self.values = name, values

    def __call__(self, t: float) -> Any:
        """The value at t, or an error past the end of the table."""
        if t > len(self.values):
            raise ValidationError(
                f"{self.name} at episode {int(t)} is unknown; this learner comes from a file, which has the values of "
                f"its own schedule up to episode {len(self.values)}"
            )
        return self.values[int(t) - 1]


def write_learner(learner: Learner, path: str | os.PathLike[str]) -> None:
    """Write ``learner`` to ``path`` (one file, atomically)."""
    header, arrays = stored_learner(learner)
    write_archive(path, header, arrays)


def stored_learner(learner: Learner) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of ``learner``."""
    problem, first = learner.problem, learner.first_problem
    schedules, tables = _stored_schedules(learner)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "learner": learner.id,
        "options": learner.options(),
        "episode": learner.episode,
        "problem": {name: problem.__dict__.get(name) for name in (*SIZES, *GAP, "stationary")},
        "first": {name: first.__dict__.get(name) for name in GAP},
        "schedules": schedules,
    }
    told = _stored_told(first)
    if told:
        header["told"] = told
    changes = learner.threshold_changes
    arrays: Arrays = {
        "problem.initial": problem.initial,
        "problem.thresholds": problem.thresholds,
        "first.thresholds": first.thresholds,
        "changes.episode": np.array([t for t, _ in changes], dtype=np.int64),
        "changes.thresholds": np.array([a for _, a in changes]).reshape(len(changes), problem.constraints),
    }
    arrays |= {f"problem.{name}": getattr(problem, name) for name in REVEALED if getattr(problem, name) is not None}
    arrays |= tables
    arrays |= {f"state.{name}": array for name, array in learner.state().items()}
    return header, arrays


def _stored_schedules(learner: Learner) -> tuple[dict[str, Any] | None, Arrays]:
    """The user's own schedules, each as numbers with the name of their formula, and as a table where it has none."""
    if not getattr(learner, "own_schedules", False):
        return None, {}
    schedules: Schedules = learner.schedules  # type: ignore[attr-defined]
    stored: dict[str, Any] = {}
    tables: Arrays = {}
    for name in PARTS:
        function = getattr(schedules, name)
        if isinstance(function, Power):
            stored[name] = {"power": [float(function.coefficient), float(function.exponent), float(function.shift)]}
        elif isinstance(function, Margin):
            stored[name] = {"margin": [float(function.coefficient), float(function.size)]}
        elif not callable(function):
            stored[name] = {"constant": as_array(name, function)[0].tolist()}
        else:
            stored[name] = {"table": []}
            tables[f"schedule.{name}"] = _values(learner, schedules, name)
    return stored, tables


def _values(learner: Learner, schedules: Schedules, name: str) -> Float:
    function = getattr(schedules, name)
    if isinstance(function, Tabulated):
        return function.values
    known = max(learner.episodes, learner.episode) + 1  # one more: what it believes after the last episode
    return schedules.table(1, known, learner.problem.constraints)[PARTS.index(name)]


def read_learner(path: str | os.PathLike[str], learners: Mapping[str, Entry]) -> Learner:
    """Read a learner that :func:`write_learner` wrote; a file that is damaged or not to be trusted is refused."""
    header, arrays = read_archive(path, FORMAT, VERSION)
    try:
        return rebuilt_learner(header, arrays, learners)
    except (FlexDOMEError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{path} does not hold a valid learner: {error}") from None
    except MemoryError:
        raise FileFormatError(f"{path} holds a learner that does not fit in memory") from None


def _stored_told(problem: Problem) -> dict[str, Any]:
    """Names, quantities, the end, and that the first state is estimated: what was told of them, and no more."""
    told: dict[str, Any] = {name: list(getattr(problem, name)) for name in NAMES if getattr(problem, name) is not None}
    if problem.reward is not None:
        told["reward"] = problem.reward.stored()
    if problem.subject_to:
        told["subject_to"] = [one.stored() for one in problem.subject_to]
    if problem.end is not None:
        told["end"] = problem.end
    return {**told, "initial_estimated": True} if problem.initial_estimated else told


def _read_told(stored: Any) -> dict[str, Any]:
    """The arguments of a Problem that :func:`_stored_told` stored."""
    if not isinstance(stored, dict) or not set(stored) <= {*NAMES, "reward", "subject_to", "end", "initial_estimated"}:
        raise ValidationError(f"told is {shown(stored)}; it must be an object of names, quantities and the end")
    told = dict(stored)
    if "reward" in told:
        told["reward"] = Quantity.from_stored(told["reward"])
    if "subject_to" in told:
        if not isinstance(told["subject_to"], list):
            raise ValidationError(f"subject_to is {shown(told['subject_to'])}; it must be a list")
        told["subject_to"] = tuple(Quantity.from_stored(one) for one in told["subject_to"])
    return told


def rebuilt_learner(header: dict[str, Any], arrays: Arrays, learners: Mapping[str, Entry]) -> Learner:
    """The learner that :func:`stored_learner` stored."""
    _expect("header", header, [*HEADER, *(["told"] if isinstance(header, dict) and "told" in header else [])])
    _expect("problem", header["problem"], (*SIZES, *GAP, "stationary"))
    _expect("first", header["first"], GAP)
    if not isinstance(header["learner"], str) or header["learner"] not in learners:
        raise ValidationError(f"learner is {shown(header['learner'])}; it is not registered here")
    if not isinstance(header["options"], dict):
        raise ValidationError(f"options is {shown(header['options'])}; it must be an object")
    state = {name[6:]: array for name, array in arrays.items() if name.startswith("state.")}
    revealed = {name: arrays[f"problem.{name}"] for name in REVEALED if f"problem.{name}" in arrays}
    given: dict[str, Any] = dict(header["options"])
    names = ["problem.initial", "problem.thresholds", "first.thresholds", "changes.episode", "changes.thresholds"]
    if header["schedules"] is not None:
        given["schedules"], tables = _read_schedules(header["schedules"], arrays)
        names += tables
    _expect("arrays", arrays, [*names, *(f"problem.{name}" for name in revealed), *(f"state.{name}" for name in state)])
    horizon = as_int("horizon", header["problem"]["horizon"], 1)
    if horizon > max(MANY, sum(array.size for array in arrays.values())):  # a small file must not ask for many steps
        raise ValidationError(f"horizon is {horizon}; the file holds less than one number for each step")

    told = _read_told(header["told"]) if "told" in header else {}
    common = {**header["problem"], "initial": arrays["problem.initial"], **revealed, **told}
    current = Problem(**common, thresholds=arrays["problem.thresholds"])
    first = Problem(**{**common, **header["first"]}, thresholds=arrays["first.thresholds"])
    if current.constraints != first.constraints:
        raise ValidationError(f"thresholds has {current.constraints} entries; there were {first.constraints} at first")
    learner = learners[header["learner"]].load()._remade(first, given)
    learner.episode = as_int("episode", header["episode"], 0, LONGEST)
    learner.threshold_changes = _read_changes(learner.episode, first, current, arrays)
    learner._problem = current
    learner.restore(state)
    return learner


def _read_schedules(stored: Any, arrays: Arrays) -> tuple[Schedules, list[str]]:
    """The schedules, and the names of the tables they use."""
    _expect("schedules", stored, PARTS)
    functions: dict[str, Any] = {}
    tables = []
    for name, one in stored.items():
        if not isinstance(one, dict) or len(one) != 1:
            raise ValidationError(f"schedules.{name} is {shown(one)}; it must be an object with one key")
        ((kind, given),) = one.items()
        numbers, _ = as_array(f"schedules.{name}", given)
        if kind == "constant":
            functions[name] = float(numbers) if numbers.ndim == 0 else numbers
        elif numbers.shape == {"power": (3,), "margin": (2,)}.get(kind):
            functions[name] = (Power if kind == "power" else Margin)(*(float(x) for x in numbers))
        elif kind == "table" and f"schedule.{name}" in arrays:
            tables.append(f"schedule.{name}")
            values, _ = as_array(tables[-1], arrays[tables[-1]])
            if values.ndim != (2 if name == "margin" else 1):
                raise ValidationError(f"{tables[-1]} has shape {values.shape}; it must have a row for each episode")
            functions[name] = Tabulated(name, values)
        else:
            raise ValidationError(f"schedules.{name} is {shown(one)}; that is not known here")
    return Schedules(**functions), tables


def _read_changes(episode: int, first: Problem, current: Problem, arrays: Arrays) -> list[tuple[int, list[float]]]:
    """When the thresholds were changed, and to what: from the first ones to the current ones."""
    when, _ = as_array("changes.episode", arrays["changes.episode"])
    alpha, _ = as_array("changes.thresholds", arrays["changes.thresholds"], finite=False)
    if when.ndim != 1 or alpha.shape != (when.size, first.constraints):
        raise ValidationError(f"changes has shapes {when.shape} and {alpha.shape}; it must have m thresholds for each")
    if (np.diff(when, prepend=0.0, append=float(episode)) < 0.0).any() or (when != np.floor(when)).any():
        raise ValidationError(f"changes.episode is {shown(when.tolist())}; it must rise from 0 to {episode} at most")
    last = alpha[-1] if when.size else first.thresholds
    if not np.array_equal(last, current.thresholds, equal_nan=True):
        raise ValidationError("changes.thresholds does not end with the thresholds of the problem")
    return [(int(t), [float(a) for a in row]) for t, row in zip(when, alpha, strict=True)]


def _expect(what: str, given: Any, keys: Collection[str]) -> None:
    if not isinstance(given, dict) or set(given) != set(keys):
        has = sorted(given) if isinstance(given, dict) else given
        raise ValidationError(f"{what} has {shown(has)}; it must have {', '.join(sorted(keys))}")
