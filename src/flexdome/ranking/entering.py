"""Run one learner on the suite, and say where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from flexdome.cmdp.validation import instance_of, switch
from flexdome.errors import FlexDOMEError
from flexdome.experiments import Engine, Event, ExperimentSpec, LearnerSpec, Outcome, Store, run_experiments
from flexdome.ranking.published import final_numbers, published
from flexdome.ranking.standing import FINALS_SCHEMA, family_table, overall_table, versus_table
from flexdome.ranking.suite import entry_experiment

__all__ = ["Standing", "entrant", "rank"]


@dataclass(frozen=True)
class Standing:
    """Where a learner stands.

    Attributes
    ----------
    experiment : what was run
    learner : its name in the tables
    same : the published learners whose runs are the same ones; they are left out of the tables
    finals : the numbers of all runs that are compared, its own and the published
    overall, families, versus : the tables of :mod:`flexdome.ranking.standing`
    quick : whether it was the small part of the suite
    """

    experiment: ExperimentSpec
    learner: str
    same: tuple[str, ...]
    finals: pl.DataFrame
    overall: pl.DataFrame
    families: pl.DataFrame
    versus: pl.DataFrame
    quick: bool

    @property
    def place(self) -> int:
        """1 for the best overall score; learners that are published on a part of the suite alone do not count."""
        full = self.overall.filter(pl.col("families") == self.families.height)
        return int((full["learner"] == self.learner).arg_true()[0]) + 1 if full.height else 1

    @property
    def field(self) -> int:
        """How many learners have numbers on all of its families, itself included."""
        return int((self.overall["families"] == self.families.height).sum())


def rank(
    learner: LearnerSpec,
    store: Store,
    engine: Engine | None = None,
    quick: bool = False,
    watch: Callable[[Event], None] = lambda event: None,
    limit: float = 3600.0,
) -> tuple[Standing, Outcome]:
    """Run ``learner`` on the suite (what of it is not in ``store``) and compare it with the published numbers.

    A run that fails, also one whose learner cannot be built for the family, is ranked as failed.
    """
    quick = switch("quick", quick)
    spec = entry_experiment(instance_of("learner", learner, LearnerSpec), quick)
    outcome = run_experiments([spec], store, engine, watch, limit=limit, check=False)
    return entrant(spec, final_numbers(instance_of("store", store, Store), [spec]), quick), outcome


def entrant(spec: ExperimentSpec, entered: pl.DataFrame, quick: bool = False) -> Standing:
    """Where the one learner of ``spec`` stands with the numbers ``entered`` among the published."""
    (learner,) = spec.learners
    if not entered.height:
        raise FlexDOMEError(f"there are no results of {learner.name} to rank")
    others = published().filter(pl.col("family").is_in(entered["family"].unique().to_list()))
    others = others.filter(pl.col("seed").is_in(entered["seed"].unique().to_list()))
    same = others.filter(pl.col("run").is_in(entered["run"].to_list()))["learner"].unique(maintain_order=True).to_list()
    others = others.filter(~pl.col("learner").is_in([*same, learner.name]))
    columns = list(FINALS_SCHEMA)
    finals = pl.concat([entered.select(columns), others.select(columns)])
    return Standing(
        experiment=spec,
        learner=learner.name,
        same=tuple(same),
        finals=finals,
        overall=overall_table(finals),
        families=family_table(finals, learner.name),
        versus=versus_table(finals, learner.name),
        quick=quick,
    )
