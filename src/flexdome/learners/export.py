"""A learner's next policy as a plain file, with where it comes from."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from flexdome.cmdp.archive import as_path, write_whole
from flexdome.errors import ValidationError
from flexdome.policies import FORMATS, Policy

if TYPE_CHECKING:
    from flexdome.learners.base import Learner

__all__ = ["policy_of", "write_policy"]


def policy_of(learner: Learner) -> Policy:
    """What ``learner`` is about to play, by itself."""
    problem = learner.problem
    provenance: dict[str, Any] = {
        "learner": learner.id,
        "options": learner.options(),
        "flexdome": import_module("flexdome").__version__,
        "episode": learner.episode,
        "thresholds": [None if np.isnan(alpha) else float(alpha) for alpha in problem.thresholds],
        "multipliers": [float(x) for x in learner.multipliers],
        "sizes": {"horizon": problem.horizon, "states": problem.states, "actions": problem.actions},
    }
    for name in ("state_names", "action_names"):
        if getattr(problem, name) is not None:
            provenance[name] = list(getattr(problem, name))
    if problem.allowed is not None:
        rows = [["".join("01"[int(x)] for x in row) for row in step] for step in problem.allowed]
        provenance["allowed"] = rows[0] if all(step == rows[0] for step in rows) else rows
    if problem.in_units:
        provenance["units"] = problem.units.stored()
    return Policy(learner.policy, learner.visits, learner.utility_means(), provenance)


def write_policy(learner: Learner, path: str | os.PathLike[str]) -> None:
    """Write what ``learner`` is about to play to ``path``, atomically."""
    target = as_path("path", path)
    if target.suffix not in FORMATS:
        raise ValidationError(f"path is {str(target)!r}; it must end in {' or '.join(FORMATS)}")
    write_whole(target, policy_of(learner).to_bytes(target.suffix))
