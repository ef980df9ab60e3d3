"""Audit an experiment: run what is needed, and look at every statement.

For each environment and each setting of FlexDOME in it, on the instances of the experiment's seeds:

* runs that learn, as everybody runs them, with their potential (:mod:`~flexdome.audit.growth`);
* the known-model iteration with the same schedules, and with constant ones (:mod:`~flexdome.audit.known`);
* shorter runs that are watched, with unscaled bonuses and with the learner's own (:mod:`~flexdome.audit.learned`);
* threshold samples alone (:mod:`~flexdome.audit.threshold_samples`), and Theorem 2 (:mod:`~flexdome.audit.theorem_2`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flexdome.audit.errata import errata
from flexdome.audit.findings import Finding, numbered
from flexdome.audit.growth import (
    Learned,
    exponent_findings,
    learned_lemma2_findings,
    rate_findings,
    theorem_findings,
)
from flexdome.audit.instrument import instrumented_run
from flexdome.audit.known import (
    drift_findings,
    lemma2_findings,
    mixture_findings,
    recursion_findings,
    saddle_findings,
    step_findings,
)
from flexdome.audit.learned import (
    Watched,
    estimation_findings,
    event_findings,
    learning_findings,
    statistical_findings,
)
from flexdome.audit.outputs import Audit, Part
from flexdome.audit.theorem_2 import last_iterate_findings, last_iterates
from flexdome.audit.threshold_samples import threshold_findings
from flexdome.audit.trajectory import grid_of, known_steps
from flexdome.cmdp.validation import as_int, instance_of
from flexdome.errors import ValidationError
from flexdome.experiments import ExperimentSpec, RunSpec
from flexdome.learners.primal_dual.flexdome import FlexDOME
from flexdome.planning import solve
from flexdome.simulation import simulate
from flexdome.theory import dual_side, potential_path, theorem2

__all__ = ["Depth", "audit"]


@dataclass(frozen=True)
class Depth:
    """How much is looked at.

    Attributes
    ----------
    points : episodes at which a trajectory is looked at
    known : steps of the known-model iteration, at most
    watched : episodes of a watched run, at most
    runs : watched runs with each kind of bonus; ten times as many for threshold samples
    epsilons : of Theorem 2, on the first two instances
    """

    points: int = 200
    known: int = 20_000
    watched: int = 1_000
    runs: int = 20
    epsilons: tuple[float, ...] = (0.4, 0.3, 0.25, 0.2, 0.15)

    def __post_init__(self) -> None:
        for name in ("points", "known", "watched", "runs"):
            as_int(name, getattr(self, name), 2, 10**7)


def audit(spec: ExperimentSpec, depth: Depth | None = None) -> Audit:
    """Every statement, for every FlexDOME of the experiment."""
    instance_of("spec", spec, ExperimentSpec)
    chosen, skipped = [], []
    for learner in spec.learners:
        if learner.id != "flexdome":
            skipped.append(f"{learner.name} ({learner.id}), of which the theorems do not speak")
        elif learner.options.get("regularisation") is False:
            skipped.append(f"{learner.name}, which has no regularisation and so no saddle point")
        else:
            chosen.append(learner)
    if not chosen:
        raise ValidationError(f"{spec.name} has no FlexDOME with regularisation; the theorems are about it alone")
    depth = Depth() if depth is None else instance_of("depth", depth, Depth)
    parts = []
    for environment in spec.environments:
        for learner in chosen:
            runs = [run for run in spec.runs() if run.environment == environment and run.learner == learner]
            parts.append(_part(environment.name, learner.name, runs, depth))
    return Audit(spec.name, tuple(parts), tuple(skipped))


def _part(environment: str, name: str, runs: list[RunSpec], depth: Depth) -> Part:
    learned = list(_learned(runs, depth))
    first, T = runs[0], runs[0].episodes
    cmdp = first.make_cmdp()
    learner = first.make_learner(cmdp)
    assert isinstance(learner, FlexDOME)
    delta, problem = float(learner.options()["delta"]), learner.problem
    setting = f"{numbered(len(runs), 'run')}, T = {T:,}"
    found: list[Finding] = []
    found += exponent_findings(learned, setting) + learned_lemma2_findings(learned, setting)
    found += _known(runs, depth)
    watched: list[Watched] = []
    for scale, words in ((1.0, "unscaled bonuses"), (float(learner.options()["bonus_scale"]), "its own bonuses")):
        if scale == 1.0 and words != "unscaled bonuses":
            continue
        watched = list(_watched(runs, depth, scale, delta))
        text = f"{words}, {numbered(len(watched), 'run')} of {watched[0].episodes:,}"
        found += event_findings(watched, text) + estimation_findings(watched, text)
        found += learning_findings(watched, text)
        found += statistical_findings(watched, text)[: 2 if words == "unscaled bonuses" else 1]
    found += threshold_findings(cmdp, problem, T, delta, range(10 * depth.runs), f"{10 * depth.runs:,} runs, T = {T:,}")
    found += rate_findings(T) + theorem_findings(problem, delta, T, "no scale")
    ends = [_last(run, depth) for run in runs[:2]]
    found += last_iterate_findings(ends, f"known model, c_margin = {ends[0].c_margin:.3g}")
    return Part(environment, name, tuple(found), tuple(errata(problem, T, delta, watched)), tuple(ends))


def _last(run: RunSpec, depth: Depth) -> Any:
    """With a margin of twice what the multiplier of the optimum needs."""
    cmdp = run.make_cmdp()
    c_margin = 2.0 * max(float(solve(cmdp).multipliers.max()), 0.5)
    return last_iterates(cmdp, depth.epsilons, c_margin=c_margin, multiple=4.0, label=f"instance {run.instance}")


def _learned(runs: list[RunSpec], depth: Depth) -> Iterator[Learned]:
    for run in runs:
        cmdp = run.make_cmdp()
        learner = run.make_learner(cmdp)
        assert isinstance(learner, FlexDOME)
        history = simulate(learner, cmdp, seed=run.seed, snapshots=grid_of(run.episodes, depth.points).tolist())
        path = potential_path(cmdp, history.snapshots, learner.schedules, dual_side(learner.problem))
        yield Learned(f"seed {run.seed}", learner.problem, learner.schedules, history, path)


def _known(runs: list[RunSpec], depth: Depth) -> list[Finding]:
    decaying, constant = [], []
    n = min(depth.known, runs[0].episodes)
    for run in {run.instance: run for run in runs}.values():
        cmdp = run.make_cmdp()
        learner = run.make_learner(cmdp)
        assert isinstance(learner, FlexDOME)
        label, problem = f"instance {run.instance}", learner.problem
        decaying.append(known_steps(cmdp, problem, learner.schedules, n, depth.points, label))
        c_margin = min(2.0 * max(float(solve(cmdp).multipliers.max()), 0.5), 4.0 * problem.slater_gap)
        constant.append(known_steps(cmdp, problem, theorem2(0.1, c_margin=c_margin), n, depth.points, label))
    found: list[Finding] = []
    for steps, words in ((decaying, "its own schedules"), (constant, "constant, epsilon = 0.1")):
        setting = f"known model, {words}, {numbered(len(steps), 'instance')}, {numbered(n, 'step')}"
        found += recursion_findings(steps, setting) + drift_findings(steps, setting)
        found += lemma2_findings(steps, setting) + mixture_findings(steps, setting)
        found += saddle_findings(steps, setting) + step_findings(steps, setting)
    return found


def _watched(runs: list[RunSpec], depth: Depth, scale: float, delta: float) -> Iterator[Watched]:
    n = min(depth.watched, runs[0].episodes)
    for k in range(depth.runs):
        run = runs[k % len(runs)]
        cmdp = run.make_cmdp()
        options: dict[str, Any] = {
            key: value for key, value in run.learner.options.items() if key not in ("bonus_scale", "delta")
        }
        problem = run.learner.problem.make(cmdp)
        record, history, learner = instrumented_run(cmdp, problem, n, k, delta, scale, **options)
        yield Watched(
            f"seed {k}", cmdp, problem, learner.schedules, delta, record, history.multipliers, history.snapshots
        )
