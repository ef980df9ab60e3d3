"""Where a peer's constants come from.

``"theory"`` takes what its paper proves, ``"practical"`` what a sweep over development instances chose (the command and
the table are in docs/tuning.md); an option that is given overrides either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import as_float, as_int, shown
from flexdome.errors import ValidationError
from flexdome.theory.constants import LONGEST, as_confidence

__all__ = ["Tuning", "checked", "chosen", "one_of", "switch", "untried"]

Tuning = Literal["theory", "practical"]


def chosen(
    tuning: str,
    theory: Mapping[str, float],
    practical: Mapping[str, float],
    given: Mapping[str, float | None],
) -> dict[str, float]:
    """The constants in force, each a non-negative number."""
    base = theory if one_of("tuning", tuning, ("theory", "practical")) == "theory" else practical
    return {name: as_float(name, base[name] if value is None else value, low=0.0) for name, value in given.items()}


def untried(tuning: str, unvisited: str | None, practical: str) -> bool:
    """Whether actions never tried are optimistic: as given, else as the paper has it, else as the sweep chose."""
    value = ("paper" if tuning == "theory" else practical) if unvisited is None else unvisited
    return one_of("unvisited", value, ("paper", "optimistic")) == "optimistic"


def one_of(name: str, value: Any, names: tuple[str, ...]) -> str:
    """``value``, one of ``names``."""
    if not isinstance(value, str) or value not in names:
        raise ValidationError(f"{name} is {shown(value)}; it must be {' or '.join(repr(n) for n in names)}")
    return value


def switch(name: str, value: Any) -> bool:
    """``value``, True or False."""
    if not isinstance(value, bool):
        raise ValidationError(f"{name} is {shown(value)}; it must be True or False")
    return value


def checked(problem: Problem, episodes: int, delta: float) -> tuple[int, float]:
    """The arguments that all share, as plain numbers."""
    if not isinstance(problem, Problem):
        raise ValidationError(f"problem is a {type(problem).__name__}; it must be a Problem, as cmdp.problem() makes")
    return as_int("episodes", episodes, 1, LONGEST), as_confidence(delta)
