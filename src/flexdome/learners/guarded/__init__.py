"""Learners whose safety is a theorem: mixtures of frozen policies that their own episodes certify."""

from flexdome.learners.registry import UNCLAIMED, Entry

__all__ = ["ROWS"]

ROWS = (
    Entry(
        id="suredome",
        target="flexdome.learners.guarded.suredome:SureDOME",
        version=1,
        summary="ProxDOME's plans, each certified by fresh episodes of its own; ours",
        citation="this library; docs/suredome.md",
        regret=UNCLAIMED,
        violation="zero, strong",
        needs=("safe policy",),
        randomises=True,
    ),
    Entry(
        id="guard",
        target="flexdome.learners.guarded.guard:Guarded",
        version=1,
        summary="any learner's policies, each certified by fresh episodes of its own; ours",
        citation="this library; docs/suredome.md",
        regret=UNCLAIMED,
        violation="zero, strong",
        needs=("safe policy",),
        randomises=True,
    ),
)
