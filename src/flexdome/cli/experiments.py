"""The commands that run experiments."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flexdome.errors import FlexDOMEError

if TYPE_CHECKING:
    from flexdome.experiments import ExperimentSpec, Store

__all__ = ["RunsFailed", "compute", "count", "option_grid", "remembered", "resume", "run", "sweep", "warn"]


class RunsFailed(FlexDOMEError):
    """Some runs could not be computed; the others are stored."""


DEFAULT = Path("results")
Experiment = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT")]
Workers = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each core)")]
Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")]
Count = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
Seeds = Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="K [K ...]", help_behavior_hint="")]
Directory = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
TIMEOUT, LIMIT = 60.0, 3600.0  # seconds
MOST_TRACEBACKS = 3


def run(
    experiment: Experiment,
    /,
    out: Path = DEFAULT,
    workers: Workers = None,
    cluster: Address = None,
    episodes: Count = None,
    seeds: Seeds = None,
    instance: Count = None,
    force: bool = False,
    timeout: float = TIMEOUT,
    limit: float = LIMIT,
) -> None:
    """Run an experiment; runs that exist are not run again.

    For example:
      flexdome run my-experiment.toml --out results
      flexdome run fixed --episodes 5000 --seeds 0 1
      flexdome run my-experiment.toml --cluster tcp://10.0.0.1:8786

    Args:
        experiment: a TOML file, or the name of one of ours (see `flexdome list experiments`)
        out: directory of the results; the same command on it continues an interrupted one
        workers: processes on this machine; 0: none but this one, and the first failure is raised
        cluster: address of a Dask scheduler, instead of processes here
        episodes: another number of episodes than the experiment's
        seeds: other run seeds than the experiment's
        instance: the instance's seed for all runs, instead of run seed k meeting instance k
        force: compute runs again that are there
        timeout: seconds for a cluster to answer, and to have a worker that can be used
        limit: seconds after which a step of a run that has not ended is given up, and the run has failed
    """
    from flexdome.analysis import aggregate
    from flexdome.cli.results import show_summary
    from flexdome.experiments import Store, find_experiment

    changes = {"episodes": episodes, "seeds": seeds, "instance": instance}
    spec = find_experiment(experiment).changed(**{name: value for name, value in changes.items() if value is not None})
    store = Store(out)
    compute([spec], store, workers, cluster, timeout, limit, force)
    show_summary(aggregate(store, spec))


def sweep(
    learner: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LEARNER")],
    environments: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")],
    /,
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=A,B,...")] = (),
    episodes: int = 20_000,
    seeds: tuple[int, ...] = (0, 1, 2),
    score: str = "strong_regret + strong_violation",
    over: Literal["geometric", "mean", "worst"] = "geometric",
    name: str = "sweep",
    out: Path = DEFAULT,
    workers: Workers = None,
    cluster: Address = None,
    timeout: float = TIMEOUT,
    limit: float = LIMIT,
) -> None:
    """Run a learner with every combination of some options, rank them by a score, and draw it.

    For example:
      flexdome sweep flexdome paper-v1 --option margin_scale=1e-5,2e-5,5e-5 bonus_scale=0,1e-3
      flexdome sweep rpd-oe independent-v1 conflict-v1 --option tuning=theory,practical --episodes 5000
      flexdome sweep flexdome paper-v1 --option margin_scale=1e-5,5e-5 --score "strong_regret + 10 * late_violation"

    Args:
        learner: a registered learner
        environments: registered environments, or files that `fd.save_cmdp` wrote
        option: an option's name and its values; all combinations are run
        episodes: of each run
        seeds: run seeds; run seed k meets instance k
        score: a sum of final numbers, with weights, taken in every run
        over: the score over runs: the geometric mean of the score plus one, the mean, or the worst
        name: what the experiment is called in `out`
        out: directory of the results
        workers: processes on this machine; 0: none but this one, and the first failure is raised
        cluster: address of a Dask scheduler, instead of processes here
        timeout: seconds for a cluster to answer, and to have a worker that can be used
        limit: seconds after which a step of a run that has not ended is given up, and the run has failed
    """
    from flexdome.analysis import aggregate, parse_score
    from flexdome.cli.results import show_ranking, write_sweep
    from flexdome.experiments import EnvironmentSpec, ExperimentSpec, LearnerSpec, Store

    rows = tuple(
        LearnerSpec(id=learner, options=options, label=", ".join(f"{k}={v}" for k, v in options.items()) or learner)
        for options in option_grid(option)
    )
    places = tuple(
        EnvironmentSpec(file=Path(text)) if Path(text).suffix else EnvironmentSpec(id=text) for text in environments
    )
    spec = ExperimentSpec(name=name, episodes=episodes, seeds=seeds, environments=places, learners=rows)
    store = Store(out)
    parse_score(score)
    compute([spec], store, workers, cluster, timeout, limit)
    results = aggregate(store, spec)
    table = show_ranking(results, score, over)
    for path in write_sweep(results, table, score, over, out / "figures" / name):
        print(path)


def resume(
    out: Directory = DEFAULT,
    /,
    workers: Workers = None,
    cluster: Address = None,
    timeout: float = TIMEOUT,
    limit: float = LIMIT,
) -> None:
    """Finish everything that was asked for in a directory.

    For example:
      flexdome resume results

    Args:
        out: directory of the results
        workers: processes on this machine; 0: none but this one, and the first failure is raised
        cluster: address of a Dask scheduler, instead of processes here
        timeout: seconds for a cluster to answer, and to have a worker that can be used
        limit: seconds after which a step of a run that has not ended is given up, and the run has failed
    """
    from flexdome.experiments import Store

    store = Store(out)
    specs = store.experiments(warn)
    if not specs:
        raise FlexDOMEError(f"{out} holds no experiment; `flexdome run EXPERIMENT --out {out}` starts one")
    compute(specs, store, workers, cluster, timeout, limit)
    print(f"{out}: {count(len(specs), 'experiment')} complete")


# -- what the commands share ---------------------------------------------------------------------------------------


def compute(
    specs: Sequence[ExperimentSpec],
    store: Store,
    workers: int | None,
    cluster: str | None,
    timeout: float = TIMEOUT,
    limit: float = LIMIT,
    force: bool = False,
) -> None:
    """Run what is missing, with a progress display; failures are an error after everything else is done."""
    import time

    from flexdome.cli.progress import Display, clock
    from flexdome.experiments import Processes, make_engine, run_experiments

    engine = make_engine(workers, cluster, timeout)
    try:
        with Display(specs, engine.slots if isinstance(engine, Processes) else 1) as display:
            outcome = run_experiments(specs, store, engine, display, limit=limit, force=force)
    except KeyboardInterrupt:
        print(f"stopped; the same command, or `flexdome resume {store.path}`, finishes the rest", file=sys.stderr)
        raise
    took = clock(time.monotonic() - display.began)
    print(f"{store.path}: {count(outcome.computed, 'run')} computed, {outcome.stored} there already ({took})")
    if outcome.failed:
        kinds = {reason: outcome.tracebacks.get(id, "") for id, reason in outcome.failed.items()}
        for trace in [text for text in kinds.values() if text][:MOST_TRACEBACKS]:
            print(trace, file=sys.stderr)
        raise RunsFailed(
            f"{count(len(outcome.failed), 'run')} failed: {'; '.join(sorted(kinds))} "
            f"(`flexdome status {store.path} --failures` shows every traceback, --workers 0 raises the first)"
        )


def remembered(text: str, store: Store) -> ExperimentSpec:
    """An experiment of the store by its name (the latest of it) or NAME-ID, or a file, or one of ours."""
    from flexdome.experiments import find_experiment

    if Path(text).suffix == ".toml":
        return find_experiment(text)
    specs = store.experiments(warn)
    same = [spec for spec in specs if spec.name == text]
    if len(same) > 1:
        others = "; ".join(f"{spec.name}-{spec.id} ({_size(spec)})" for spec in same[:-1])
        print(
            f"flexdome: {text} is {text}-{same[-1].id} ({_size(same[-1])}), the latest of {len(same)} in {store.path}; "
            f"give NAME-ID for another: {others}",
            file=sys.stderr,
        )
    found = {key: spec for spec in specs for key in (spec.name, f"{spec.name}-{spec.id}")}
    return found[text] if text in found else find_experiment(text)


def _size(spec: ExperimentSpec) -> str:
    return f"{spec.episodes:,} episodes, {count(len(spec.seeds), 'seed')}, {count(len(spec.learners), 'learner')}"


def warn(text: str) -> None:
    """Say what was left out, and why."""
    print(f"flexdome: skipped: {text}", file=sys.stderr)


def option_grid(options: Iterable[str]) -> list[dict[str, Any]]:
    """All combinations of ``name=a,b,...``; values are numbers, true, false, or words."""
    from flexdome.errors import ValidationError

    names, values = [], []
    for text in options:
        name, equals, listed = text.partition("=")
        if not equals or not name or not all(listed.split(",")):
            raise ValidationError(f"option is {text!r}; it must be NAME=A,B,...")
        if name in names:
            raise ValidationError(f"option {name!r} is given twice; list its values once, as {name}=A,B")
        names.append(name)
        values.append([_value(word) for word in listed.split(",")])
    return [dict(zip(names, row, strict=True)) for row in itertools.product(*values)]


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


def count(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
