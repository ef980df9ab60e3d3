"""Which learners the compiled chunks may run.

A chunk does just what the methods of a family do, many episodes at a time. A subclass with a method of its own among
those that decide how an episode goes, what is played in it or what is learned from it, is run through ``observe``.
What a learner only tells (``beliefs``, ``visits``, ``notes``) may be its own: the chunks ask for it, or do not tell it.
"""

from __future__ import annotations

from flexdome.learners import Learner
from flexdome.learners.primal_dual.anchordome import AnchorDOME
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.learners.programs.family import ProgramLearner
from flexdome.learners.proximal.proxdome import ProxDOME

__all__ = ["as_compiled", "as_program", "as_proximal"]

DECIDE = ("observe", "policy", "multipliers", "mixture", "episode")


def _keeps(learner: Learner, family: type, *own: str) -> bool:
    """Whether the methods that decide are the family's: the common ones and its ``own``."""
    return all(getattr(type(learner), name) is getattr(family, name) for name in (*DECIDE, *own))


def as_compiled(learner: Learner) -> PrimalDualLearner | None:
    """The learner, if it is of the primal-dual family."""
    family = AnchorDOME if isinstance(learner, AnchorDOME) else PrimalDualLearner
    return learner if isinstance(learner, PrimalDualLearner) and _keeps(learner, family, "schedule") else None


def as_program(learner: Learner) -> ProgramLearner | None:
    """The learner, if it plans now and then and plays what it planned in between."""
    own = ("draws", "steady", "settle")
    return learner if isinstance(learner, ProgramLearner) and _keeps(learner, ProgramLearner, *own) else None


def as_proximal(learner: Learner) -> ProxDOME | None:
    """The learner, if it is ProxDOME."""
    return learner if isinstance(learner, ProxDOME) and _keeps(learner, ProxDOME, "reserve") else None
