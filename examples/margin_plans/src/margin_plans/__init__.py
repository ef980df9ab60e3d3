"""A researcher's package; the entry point in pyproject.toml names ENTRY."""

from flexdome.learners import Entry
from flexdome.learners.registry import UNCLAIMED

ENTRY = Entry(
    id="margin-plans",
    target="margin_plans.learner:MarginPlans",
    version=1,
    summary="the optimum of what was seen, with a margin that shrinks",
    citation="the example of the book; no theorem",
    regret=UNCLAIMED,
    violation=UNCLAIMED,
)
