"""Online learners, one file for each algorithm, over a shared optimistic model.

The registry holds names only; a learner's module is imported when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flexdome.cmdp import Problem
from flexdome.errors import unknown_name
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.registry import Entry
from flexdome.learners.storage import read_learner

__all__ = ["LEARNERS", "Beliefs", "Entry", "Learner", "load_learner", "make_learner"]

_ROWS = (
    Entry(
        id="flexdome",
        target="flexdome.learners.flexdome:FlexDOME",
        version=1,
        summary="decaying safety margin and time-varying regularisation",
        citation="Zuo, Wang and He 2026, arXiv 2602.10917",
        regret="T^(5/6), strong",
        violation="near-constant, strong",
        needs=("Slater gap",),
    ),
)

LEARNERS: Mapping[str, Entry] = MappingProxyType({row.id: row for row in _ROWS})


def make_learner(id: str, problem: Problem, **options: Any) -> Learner:
    """Build the registered learner ``id`` for ``problem``.

    >>> import flexdome as fd
    >>> problem = fd.make_cmdp("media-v1").problem()
    >>> fd.make_learner("flexdome", problem, episodes=1000, margin_scale=5e-5).episode
    0
    """
    if id not in LEARNERS:
        raise unknown_name("learner", id, LEARNERS)
    return LEARNERS[id].load()(problem, **options)


def load_learner(path: str | os.PathLike[str]) -> Learner:
    """Read a learner that :meth:`Learner.save` wrote; it continues bit for bit where the saved one stood."""
    return read_learner(path, LEARNERS)
