"""The ranking: one suite, published numbers, and where another learner stands among them."""

from flexdome.ranking.entering import Standing, entrant, rank
from flexdome.ranking.published import final_numbers, outdated, publish, published, unpublished
from flexdome.ranking.standing import family_table, overall_table, versus_table
from flexdome.ranking.suite import QUICK, SUITE, entry_experiment, entry_learner, suite_experiments

__all__ = [
    "QUICK",
    "SUITE",
    "Standing",
    "entrant",
    "entry_experiment",
    "entry_learner",
    "family_table",
    "final_numbers",
    "outdated",
    "overall_table",
    "publish",
    "published",
    "rank",
    "suite_experiments",
    "unpublished",
    "versus_table",
]
