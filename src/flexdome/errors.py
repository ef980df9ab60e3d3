"""Everything that a user can cause to fail is a :class:`FlexDOMEError`.

A message names the field, the index, the value and the rule that was broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BusyError",
    "ConvergenceError",
    "FileFormatError",
    "FlexDOMEError",
    "InfeasibleError",
    "OutputError",
    "ValidationError",
    "unknown_name",
]


class FlexDOMEError(Exception):
    """The root of every error that flexdome raises on purpose."""


class ValidationError(FlexDOMEError, ValueError):
    """An argument breaks a rule; nothing was changed."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValidationError:
    """Return the error for a name that is in no registry, offering the nearest ones."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return ValidationError(f"unknown {kind} {name!r}; {hint}")


class FileFormatError(FlexDOMEError):
    """A file is damaged, truncated, of another kind, or not to be trusted."""


class OutputError(FlexDOMEError):
    """A file cannot be written: a full disk, a directory that is missing or not ours."""


class BusyError(FlexDOMEError, RuntimeError):
    """Two threads are in one learner; the second was refused and changed nothing."""


class ConvergenceError(FlexDOMEError):
    """An iterative solver stopped before it reached its tolerance."""


class InfeasibleError(FlexDOMEError):
    """No policy meets the thresholds together.

    Attributes
    ----------
    constraints : tuple of int
        The smallest set found that cannot be met together.
    shortfall : float
        By how much the best policy misses the worst of them.
    """

    def __init__(self, message: str, constraints: tuple[int, ...], shortfall: float) -> None:
        super().__init__(message)
        self.constraints = constraints
        self.shortfall = shortfall

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[str, tuple[int, ...], float]]:
        return type(self), (str(self), self.constraints, self.shortfall)
