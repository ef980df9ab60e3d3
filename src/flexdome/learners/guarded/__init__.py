"""Learners whose safety is a theorem: mixtures of frozen policies that their own episodes certify."""

from flexdome.learners.registry import UNCLAIMED, Entry

__all__ = ["ROWS"]

ROWS = (
    Entry(
        id="suredome",
        target="flexdome.learners.guarded.suredome:SureDOME",
        version=2,
        changes=(
            "plans of a pessimistic model in the place of ProxDOME's, policies to learn with that try all that is "
            "plausible, bets that rise fast, and a main policy that is kept while another would not pay",
        ),
        summary="plans on what was seen, each certified by fresh episodes of its own; ours",
        citation="this library; docs/suredome.md",
        regret=UNCLAIMED,
        violation="zero, strong",
        needs=("safe policy",),
        randomises=True,
    ),
    Entry(
        id="guard",
        target="flexdome.learners.guarded.guard:Guarded",
        version=2,
        changes=("bets that rise fast; ten policies are kept in the place of sixteen",),
        summary="any learner's policies, each certified by fresh episodes of its own; ours",
        citation="this library; docs/suredome.md",
        regret=UNCLAIMED,
        violation="zero, strong",
        needs=("safe policy",),
        randomises=True,
    ),
)
