"""A learner from another package; the entry point in pyproject.toml names ENTRY."""

from flexdome.learners import Entry

ENTRY = Entry(
    id="uniform",
    target="uniform_learner.learner:UniformLearner",
    version=1,
    summary="plays every action alike",
    citation="none",
    regret="linear",
    violation="linear",
)
