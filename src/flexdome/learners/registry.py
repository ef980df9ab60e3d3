"""A row of the registry of learners."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexdome.learners.base import Learner

__all__ = ["Entry"]


@dataclass(frozen=True)
class Entry:
    """Where a learner lives, whose it is, and what its paper claims.

    Attributes
    ----------
    version : changes whenever an edit changes results
    regret, violation : the claimed rates and whether they are strong
    needs : what it must be told ("Slater gap", "safe policy", "known thresholds")
    reconstructed : parts whose formulas are not the paper's own words
    """

    id: str
    target: str
    version: int
    summary: str
    citation: str
    regret: str
    violation: str
    needs: tuple[str, ...] = ()
    reconstructed: tuple[str, ...] = ()

    def load(self) -> type[Learner]:
        """The learner's class."""
        module, name = self.target.split(":")
        learner: type[Learner] = getattr(import_module(module), name)
        return learner
