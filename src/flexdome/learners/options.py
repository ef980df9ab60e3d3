"""The options of a learner: where a peer's constants come from, and how options go to a file.

A learner's options are its constructor's parameters, listed there and nowhere else. What they were in the end is kept
in attributes of the same names, and read from there.

``"theory"`` takes what its paper proves, ``"practical"`` what a sweep over development instances chose (the command and
the table are in docs/tuning.md); an option that is given overrides either.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_float, as_int, one_of, shown, switch
from flexdome.errors import ValidationError
from flexdome.planning import SafePolicy
from flexdome.theory.constants import LONGEST, as_confidence
from flexdome.theory.schedules import LARGEST_SCALE

__all__ = [
    "Tuning",
    "as_json",
    "checked",
    "chosen",
    "keep",
    "one_of",
    "option_names",
    "stored_options",
    "switch",
    "untried",
]

Tuning = Literal["theory", "practical"]


def chosen(
    tuning: str,
    theory: Mapping[str, float],
    practical: Mapping[str, float],
    given: Mapping[str, float | None],
) -> dict[str, float]:
    """The constants in force, each a non-negative number."""
    base = theory if one_of("tuning", tuning, ("theory", "practical")) == "theory" else practical
    return {
        name: as_float(name, base[name] if value is None else value, 0.0, LARGEST_SCALE)
        for name, value in given.items()
    }


def untried(tuning: str, unvisited: str | None, practical: str) -> bool:
    """Whether actions never tried are optimistic: as given, else as the paper has it, else as the sweep chose."""
    value = ("paper" if tuning == "theory" else practical) if unvisited is None else unvisited
    return one_of("unvisited", value, ("paper", "optimistic")) == "optimistic"


def checked(problem: Problem, episodes: int, delta: float) -> tuple[int, float]:
    """The arguments that all share, as plain numbers."""
    as_problem(problem)
    return as_int("episodes", episodes, 1, LONGEST), as_confidence(delta)


def option_names(learner: type) -> list[str]:
    """The parameters of a learner's constructor but the problem, and ``schedules``, which a file stores by itself.

    Where a constructor hands ``**options`` on, the next class says which there are.
    """
    names: dict[str, None] = {}
    for kind in learner.__mro__:
        if "__init__" not in vars(kind):
            continue
        parameters = list(inspect.signature(vars(kind)["__init__"]).parameters.values())[1:]
        named = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        names |= dict.fromkeys(name for name in named if name not in ("problem", "schedules"))
        if len(named) == len(parameters):
            break
    return list(names)


def keep(learner: Any, given: Mapping[str, Any]) -> None:
    """Remember the options among ``given`` (the constructor's ``locals()``) as attributes of ``learner``."""
    names = option_names(type(learner))
    vars(learner).update({name: value for name, value in given.items() if name in names})


def stored_options(learner: Any) -> dict[str, Any]:
    """The options of ``learner`` as JSON: what its attributes of those names are."""
    stored = {}
    for name in option_names(type(learner)):
        if not hasattr(learner, name):
            raise ValidationError(
                f"{type(learner).__name__} has an option {name} and no attribute {name}; "
                "a file stores what it finds there, unless options() says otherwise"
            )
        stored[name] = as_json(f"option {name} of {type(learner).__name__}", getattr(learner, name))
    return stored


def as_json(name: str, value: Any) -> Any:
    """An option as JSON: numbers, words, switches, arrays, lists and tables of them, or a safe policy."""
    if isinstance(value, SafePolicy):
        return {"policy": value.policy.tolist(), "utilities": value.utilities.tolist()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [as_json(name, one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_json(name, one) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValidationError(f"{name} is {shown(value)}, which is not JSON; options() must say how it is stored")
