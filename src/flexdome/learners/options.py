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
    "Unvisited",
    "as_json",
    "checked",
    "chosen",
    "keep",
    "one_of",
    "option_names",
    "stored_options",
    "switch",
    "unvisited_rule",
]

Tuning = Literal["theory", "practical"]
Unvisited = Literal["paper", "optimistic"]


def chosen(
    tuning: str, theory: Mapping[str, float], practical: Mapping[str, float], given: Mapping[str, Any]
) -> dict[str, float]:
    """The constants that ``theory`` names, as they are in force, each a non-negative number.

    ``given`` has them by name, or None (a constructor's ``locals()``; what else is there does not matter).
    """
    base = theory if one_of("tuning", tuning, ("theory", "practical")) == "theory" else practical
    return {
        name: as_float(name, base[name] if given[name] is None else given[name], 0.0, LARGEST_SCALE) for name in theory
    }


def unvisited_rule(tuning: str, unvisited: Unvisited | None) -> Unvisited:
    """What an action never tried is worth: as given, else as the paper has it, else, as the sweep chose, the most."""
    value = ("paper" if tuning == "theory" else "optimistic") if unvisited is None else unvisited
    return "optimistic" if one_of("unvisited", value, ("paper", "optimistic")) == "optimistic" else "paper"


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


def stored_options(learner: Any, **stored: Any) -> dict[str, Any]:
    """The options of ``learner`` as JSON: ``stored``, and for the others what its attributes of those names are."""
    for name in option_names(type(learner)):
        if name in stored:
            continue
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
