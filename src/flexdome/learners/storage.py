"""Learners in files: options and problem in the header, everything learned as arrays. No pickle.

A schedule of the user's own is a function, which cannot be stored: its values up to the planned number of episodes are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Problem
from flexdome.cmdp.archive import read_archive, write_archive
from flexdome.cmdp.validation import Float, as_int
from flexdome.errors import FileFormatError, FlexDOMEError, ValidationError
from flexdome.learners.base import Learner
from flexdome.learners.registry import Entry
from flexdome.theory import Schedules

__all__ = ["Tabulated", "read_learner", "write_learner"]

FORMAT = "flexdome-learner"
VERSION = 1
Arrays = dict[str, npt.NDArray[Any]]
REVEALED = ("rewards", "utilities", "transitions")


class Tabulated:
    """A schedule given by its values at t = 1, 2, ..."""

    def __init__(self, name: str, values: Float) -> None:
        self.name, self.values = name, values

    def __call__(self, t: float) -> Any:
        """The value at t, or an error past the end of the table."""
        if t > len(self.values):
            raise ValidationError(
                f"{self.name} at episode {int(t)} is unknown; the saved learner's own schedule was stored up to "
                f"its planned {len(self.values)} episodes"
            )
        return self.values[int(t) - 1]


def write_learner(learner: Learner, path: str | os.PathLike[str]) -> None:
    """Write ``learner`` to ``path`` (one file, atomically)."""
    problem, first = learner.problem, learner.first_problem
    header = {
        "format": FORMAT,
        "version": VERSION,
        "learner": learner.id,
        "options": learner._options(),
        "episode": learner.episode,
        "problem": {"states": problem.states, "actions": problem.actions, "horizon": problem.horizon,
                    "slater_gap": problem.slater_gap, "slater_gap_exact": problem.slater_gap_exact,
                    "stationary": problem.stationary},
        "first": {"slater_gap": first.slater_gap, "slater_gap_exact": first.slater_gap_exact},
    }  # fmt: skip
    arrays: Arrays = {
        "problem.initial": problem.initial,
        "problem.thresholds": problem.thresholds,
        "first.thresholds": first.thresholds,
        "changes.episode": np.array([t for t, _ in learner.threshold_changes], dtype=np.int64),
        "changes.thresholds": np.array([a for _, a in learner.threshold_changes], dtype=np.float64).reshape(
            -1, problem.constraints
        ),
    }
    for name in REVEALED:
        if getattr(problem, name) is not None:
            arrays[f"problem.{name}"] = getattr(problem, name)
    if getattr(learner, "own_schedules", False):
        eta, tau, margin = learner.schedules.table(1, max(learner.episodes, learner.episode + 1), problem.constraints)  # type: ignore[attr-defined]
        arrays |= {"schedule.eta": eta, "schedule.tau": tau, "schedule.margin": margin}
    arrays |= {f"state.{name}": array for name, array in learner._state().items()}
    write_archive(path, header, arrays)


def read_learner(path: str | os.PathLike[str], learners: Mapping[str, Entry]) -> Learner:
    """Read a learner that :func:`write_learner` wrote; a file that is damaged or not to be trusted is refused."""
    header, arrays = read_archive(path, FORMAT, VERSION)
    try:
        return _rebuilt(header, arrays, learners)
    except (FlexDOMEError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path} does not hold a valid learner: {error}") from None


def _rebuilt(header: dict[str, Any], arrays: Arrays, learners: Mapping[str, Entry]) -> Learner:
    if header["learner"] not in learners:
        raise ValidationError(f"learner is {header['learner']!r}; it is not registered here")
    revealed = {name: arrays[f"problem.{name}"] for name in REVEALED if f"problem.{name}" in arrays}
    common = {**header["problem"], "initial": arrays["problem.initial"], **revealed}
    current = Problem(**common, thresholds=arrays["problem.thresholds"])
    first = Problem(**{**common, **header["first"]}, thresholds=arrays["first.thresholds"])
    options = dict(header["options"])
    if "schedule.eta" in arrays:
        eta, tau, margin = (arrays[f"schedule.{name}"] for name in ("eta", "tau", "margin"))
        options["schedules"] = Schedules(
            Tabulated("eta", eta), Tabulated("tau", tau), Tabulated("margin", np.asarray(margin))
        )
    learner = learners[header["learner"]].load()(first, **options)
    learner._problem = current
    learner.episode = as_int("episode", header["episode"], 0)
    learner.threshold_changes = [
        (int(t), [float(a) for a in alpha])
        for t, alpha in zip(arrays["changes.episode"], arrays["changes.thresholds"], strict=True)
    ]
    learner._restore({name[6:]: array for name, array in arrays.items() if name.startswith("state.")})
    return learner
