"""Online learners, a folder for each family with one file for each algorithm.

A family's folder holds its rows of the registry, which are names only: a learner's module is imported when it is asked
for.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import shown
from flexdome.errors import ValidationError, unknown_name
from flexdome.learners import guarded, primal_dual, programs, proximal
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.files import read_learner
from flexdome.learners.registry import Entry, Registry

__all__ = ["LEARNERS", "Beliefs", "Entry", "Learner", "load_learner", "make_learner"]

_ROWS = (*proximal.ROWS, *primal_dual.ROWS, *programs.ROWS, *guarded.ROWS)
LEARNERS: Mapping[str, Entry] = Registry(sorted(_ROWS, key=lambda row: row.summary.endswith("ours")))  # ours last


def make_learner(id: str, problem: Problem, **options: Any) -> Learner:
    """Build the registered learner ``id`` for ``problem``.

    >>> import flexdome as fd
    >>> problem = fd.make_cmdp("media-v1").problem()
    >>> fd.make_learner("flexdome", problem, episodes=1000, margin_scale=5e-5).episode
    0
    """
    if not isinstance(id, str):
        raise ValidationError(f"learner is {shown(id)}; it must be a name such as 'flexdome'")
    if id not in LEARNERS:
        raise unknown_name("learner", id, LEARNERS)
    learner = LEARNERS[id].load()
    known = [name for name in inspect.signature(learner).parameters if name != "problem"]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of {id}", name, known)
    return learner(problem, **options)


def load_learner(path: str | os.PathLike[str]) -> Learner:
    """Read a learner that :meth:`Learner.save` wrote; it continues bit for bit where the saved one stood."""
    return read_learner(path, LEARNERS)
