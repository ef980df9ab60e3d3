"""Where a peer's constants come from.

``"theory"`` takes what its paper proves, ``"practical"`` what a sweep over development instances chose (the command and
the table are in docs/tuning.md); an option that is given overrides either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_float, as_int, one_of, switch
from flexdome.theory.constants import LONGEST, as_confidence
from flexdome.theory.schedules import LARGEST_SCALE

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
