"""A compiled family from another package; the entry point in pyproject.toml names ENTRY."""

from flexdome.learners import Entry

ENTRY = Entry(
    id="lagrangian-q",
    target="lagrangian_q.learner:LagrangianQ",
    version=1,
    summary="optimistic Q-learning on the Lagrangian, one dual step an episode",
    citation="none; an example",
    regret="none claimed",
    violation="none claimed",
)
