"""The suite: which families, seeds and episodes a learner is ranked on.

It is three experiments of the package. ``ranking`` has the families, the seeds and the learners whose runs take
seconds; the other two have the learners that take longer, on fewer of the same seeds and families. What a learner may
know is what a :class:`flexdome.Problem` says, with the exact Slater gap; one that needs a safe policy is given one with
half the Slater gap.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from flexdome.cmdp.validation import as_text, instance_of, shown, switch
from flexdome.errors import ValidationError
from flexdome.experiments import ExperimentSpec, LearnerSpec, ProblemSpec, named_experiment
from flexdome.experiments.code import entry_of

__all__ = ["QUICK", "SUITE", "entry_experiment", "entry_learner", "suite_experiments"]

SUITE = ("ranking", "ranking-slow", "ranking-omdpd")
QUICK = (
    "paper-v1",
    "independent-v1",
    "conflict-v1",
    "river-v1",
    "media-v1",
    "inventory-v1",
    "traps-v1",
    "bernoulli-v1",
)
QUICK_SEEDS = 1
SAFE_SLACK = 0.5  # of the Slater gap


def suite_experiments() -> list[ExperimentSpec]:
    """The experiments whose results are published."""
    return [named_experiment(name) for name in SUITE]


def entry_learner(id: str, options: Mapping[str, Any] | None = None) -> LearnerSpec:
    """A learner that is to be ranked: a registered id, or ``"my_package:MyLearner"``."""
    entry = entry_of(as_text("learner", id))
    parameters = inspect.signature(entry.load()).parameters
    must = "safe_policy" in parameters and parameters["safe_policy"].default is inspect.Parameter.empty
    slack = SAFE_SLACK if "safe policy" in entry.needs or must else None
    if options is not None and not isinstance(options, Mapping):
        raise ValidationError(f"options is {shown(options)}; it must be options by name")
    told = ProblemSpec(safe_slack=slack, threshold_laws={"threshold_range", "threshold_scale"} <= set(parameters))
    words = [f"{name}={value}" for name, value in (options or {}).items()]
    return LearnerSpec(id=id, options=dict(options or {}), problem=told, label=", ".join([id, *words])[:100])


def entry_experiment(learner: LearnerSpec, quick: bool = False) -> ExperimentSpec:
    """The learner on the suite, or on a part of it that takes a few minutes."""
    learner, quick = instance_of("learner", learner, LearnerSpec), switch("quick", quick)
    suite = named_experiment(SUITE[0])
    changes: dict[str, Any] = {"name": "rank-quick" if quick else "rank", "learners": (learner,)}
    changes["description"] = f"{learner.name} on the ranking's {'quick part' if quick else 'suite'}"
    if quick:
        changes["environments"] = tuple(row for row in suite.environments if row.name in QUICK)
        changes["seeds"] = suite.seeds[:QUICK_SEEDS]
    return suite.changed(**changes)
