"""The registry of learners: an explicit table of ours, and what other packages announce.

Another package announces a learner with an entry point in the group ``flexdome.learners`` whose value is an
:class:`Entry`::

    [project.entry-points."flexdome.learners"]
    my-learner = "my_package:ENTRY"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from flexdome.errors import FlexDOMEError

if TYPE_CHECKING:
    from flexdome.learners.base import Learner

__all__ = ["GROUP", "UNCLAIMED", "Entry", "Registry"]

GROUP = "flexdome.learners"
UNCLAIMED = "none claimed"  # in place of a rate


@dataclass(frozen=True)
class Entry:
    """Where a learner lives, whose it is, and what its paper claims.

    Attributes
    ----------
    target : ``"package.module:Class"``
    version : changes whenever an edit changes results
    changes : what changed with version 2, with version 3, and so on
    regret, violation : the claimed rates and whether they are strong: ``"T^(5/6), strong"``; ``"zero, strong"`` claims
        that there is none, ``UNCLAIMED`` is no claim
    needs : what it must be told ("Slater gap", "safe policy", "known thresholds")
    reconstructed : parts whose formulas are not the paper's own words
    last_iterate : whether the last policy itself is claimed to converge
    randomises : whether it draws random numbers of its own
    replanning : what it solves when it plans, and the size of that; empty where an episode is a few passes
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
    last_iterate: bool = False
    randomises: bool = False
    replanning: str = ""
    changes: tuple[str, ...] = ()

    @property
    def claims(self) -> bool:
        """Whether there is a theorem about it at all."""
        return (self.regret, self.violation) != (UNCLAIMED, UNCLAIMED)

    def load(self) -> type[Learner]:
        """The learner's class."""
        module, name = self.target.split(":")
        learner: type[Learner] = getattr(import_module(module), name)
        return learner


class Registry(Mapping[str, Entry]):
    """Our table, and behind it the entry points of installed packages, looked up when first needed."""

    def __init__(self, rows: Iterable[Entry]) -> None:
        self._own = {row.id: row for row in rows}

    @cached_property
    def _announced(self) -> dict[str, Entry]:
        found = {}
        for point in entry_points(group=GROUP):
            entry = point.load()
            if not isinstance(entry, Entry):
                raise FlexDOMEError(f"the entry point {point.name} ({point.value}) is not a flexdome.learners.Entry")
            if entry.id in self._own:
                raise FlexDOMEError(f"the entry point {point.name} ({point.value}) takes the name of ours, {entry.id}")
            found[entry.id] = entry
        return found

    def __getitem__(self, id: str) -> Entry:
        return self._own[id] if id in self._own else self._announced[id]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._announced

    def __len__(self) -> int:
        return len(self._own) + len(self._announced)
