"""The commands that run experiments and read their results."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flexdome.errors import FlexDOMEError

if TYPE_CHECKING:
    from flexdome.experiments import ExperimentSpec, Store

__all__ = ["RunsFailed", "compare", "compute", "resume", "run", "status", "sweep", "warn"]


class RunsFailed(FlexDOMEError):
    """Some runs could not be computed; the others are stored."""


DEFAULT = Path("results")
Experiment = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT")]
Workers = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each core)")]
Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")]
Count = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
Seeds = Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="K [K ...]", help_behavior_hint="")]
Directory = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Metric = Literal["strong_regret", "strong_violation", "late_violation", "last_gap", "last_violation"]


def run(
    experiment: Experiment,
    /,
    out: Path = DEFAULT,
    workers: Workers = None,
    cluster: Address = None,
    episodes: Count = None,
    seeds: Seeds = None,
    instance: Count = None,
) -> None:
    """Run an experiment; runs that exist are not run again.

    For example:
      flexdome run my-experiment.toml --out results
      flexdome run fixed --episodes 5000 --seeds 0 1
      flexdome run my-experiment.toml --cluster tcp://10.0.0.1:8786

    Args:
        experiment: a TOML file, or the name of one of ours (see `flexdome list experiments`)
        out: directory of the results; the same command on it continues an interrupted one
        workers: processes on this machine; 0: none but this one
        cluster: address of a Dask scheduler, instead of processes here
        episodes: another number of episodes than the experiment's
        seeds: other run seeds than the experiment's
        instance: the instance's seed for all runs, instead of run seed k meeting instance k
    """
    from flexdome.analysis import aggregate
    from flexdome.cli.results import show_summary
    from flexdome.experiments import Store, find_experiment

    changes = {"episodes": episodes, "seeds": seeds, "instance": instance}
    spec = find_experiment(experiment).changed(**{name: value for name, value in changes.items() if value is not None})
    store = Store(out)
    compute([spec], store, workers, cluster)
    show_summary(aggregate(store, spec))


def compare(
    experiment: Experiment,
    /,
    out: Path = DEFAULT,
    baseline: Annotated[str | None, tyro.conf.arg(metavar="LEARNER", help_behavior_hint="")] = None,
    metric: Metric = "strong_violation",
    figure: Annotated[
        Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: OUT/figures/EXPERIMENT)")
    ] = None,
) -> None:
    """Print the table of an experiment that was run, and write its figure.

    With a baseline also the paired differences: both learners met the same instances and the same random numbers.

    For example:
      flexdome compare my-experiment --out results
      flexdome compare fixed --baseline FlexDOME --metric strong_regret

    Args:
        experiment: the name of an experiment in `out` (or NAME-ID, see `flexdome status`), a TOML file, or one of ours
        out: directory of the results
        baseline: label of the learner that the others are compared with
        metric: what the paired differences are of
        figure: where the figure goes, without its suffix
    """
    from flexdome.analysis import aggregate
    from flexdome.cli.results import show_differences, show_summary, write_comparison
    from flexdome.errors import unknown_name
    from flexdome.experiments import Store

    store = Store(out)
    spec = _remembered(experiment, store)
    if baseline is not None and baseline not in (names := [learner.name for learner in spec.learners]):
        raise unknown_name("learner of this experiment", baseline, names)
    _require_complete(spec, store)
    results = aggregate(store, spec)
    show_summary(results)
    if baseline is not None:
        show_differences(results, baseline, metric)
    write_comparison(results, figure or out / "figures" / spec.name)


def sweep(
    learner: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="LEARNER")],
    environments: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")],
    /,
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=A,B,...")] = (),
    episodes: int = 20_000,
    seeds: tuple[int, ...] = (0, 1, 2),
    name: str = "sweep",
    out: Path = DEFAULT,
    workers: Workers = None,
    cluster: Address = None,
) -> None:
    """Run a learner with every combination of some options, and rank them.

    The score is the geometric mean over environments and seeds of strong regret plus strong violation plus one.

    For example:
      flexdome sweep flexdome paper-v1 --option margin_scale=1e-5,2e-5,5e-5 bonus_scale=0,1e-3
      flexdome sweep rpd-oe independent-v1 conflict-v1 --option tuning=theory,practical --episodes 5000

    Args:
        learner: a registered learner
        environments: registered environments, or files that `fd.save_cmdp` wrote
        option: an option's name and its values; all combinations are run
        episodes: of each run
        seeds: run seeds; run seed k meets instance k
        name: what the experiment is called in `out`
        out: directory of the results
        workers: processes on this machine; 0: none but this one
        cluster: address of a Dask scheduler, instead of processes here
    """
    from flexdome.analysis import aggregate
    from flexdome.cli.results import show_ranking
    from flexdome.experiments import EnvironmentSpec, ExperimentSpec, LearnerSpec, Store

    rows = tuple(
        LearnerSpec(id=learner, options=options, label=", ".join(f"{k}={v}" for k, v in options.items()) or learner)
        for options in _grid(option)
    )
    places = tuple(
        EnvironmentSpec(file=Path(text)) if Path(text).suffix else EnvironmentSpec(id=text) for text in environments
    )
    spec = ExperimentSpec(name=name, episodes=episodes, seeds=seeds, environments=places, learners=rows)
    store = Store(out)
    compute([spec], store, workers, cluster)
    show_ranking(aggregate(store, spec))


def resume(out: Directory = DEFAULT, /, workers: Workers = None, cluster: Address = None) -> None:
    """Finish everything that was asked for in a directory.

    For example:
      flexdome resume results

    Args:
        out: directory of the results
        workers: processes on this machine; 0: none but this one
        cluster: address of a Dask scheduler, instead of processes here
    """
    from flexdome.experiments import Store

    store = Store(out)
    specs = store.experiments(warn)
    if not specs:
        raise FlexDOMEError(f"{out} holds no experiment; `flexdome run EXPERIMENT --out {out}` starts one")
    compute(specs, store, workers, cluster)
    print(f"{out}: {_count(len(specs), 'experiment')} complete")


def status(out: Directory = DEFAULT, /, verify: bool = False) -> None:
    """Print how far the experiments in a directory are.

    For example:
      flexdome status results
      flexdome status results --verify

    Args:
        out: directory of the results
        verify: compare every file with its checksum
    """
    from rich.table import Table

    from flexdome.cli.tables import plain_table, show
    from flexdome.experiments import Store

    store = Store(out)
    specs = store.experiments(warn)
    if not specs:
        raise FlexDOMEError(f"{out} holds no experiment; `flexdome run EXPERIMENT --out {out}` starts one")
    table: Table = plain_table(f"Experiments in {out}", "experiment", "id", "runs", "complete", "under way", "episodes")
    damaged: dict[str, str] = {}
    if verify:
        table.add_column("damaged")
    for spec in specs:
        runs = list(spec.runs())
        complete = [run for run in runs if store.has(run)]
        under_way = [found for run in runs if not store.has(run) and (found := store.checkpoint(run)[0])]
        episodes = sum(run.episodes for run in complete) + sum(found.episode for found in under_way)
        total = sum(run.episodes for run in runs)
        cells = [spec.name, spec.id, str(len(runs)), str(len(complete)), str(len(under_way))]
        cells.append(f"{episodes:,} of {total:,}")
        if verify:
            wrong = {run.id: text for run in complete if (text := store.damage(run)) is not None}
            damaged |= wrong
            cells.append(str(len(wrong)))
        table.add_row(*cells)
    show(table)
    if damaged:
        first = next(iter(damaged.values()))
        raise FlexDOMEError(
            f"{_count(len(damaged), 'run')} damaged, the first: {first}; `flexdome resume {out}` computes them again"
        )


# -- what the commands share ---------------------------------------------------------------------------------------


def compute(specs: Sequence[ExperimentSpec], store: Store, workers: int | None, cluster: str | None) -> None:
    """Run what is missing, with a progress display; failures are an error after everything else is done."""
    import sys
    import time

    from flexdome.cli.progress import Display, clock
    from flexdome.experiments import make_engine, run_experiments

    engine = make_engine(workers, cluster)
    try:
        with Display(specs) as display:
            outcome = run_experiments(specs, store, engine, display)
    except KeyboardInterrupt:
        print(f"stopped; the same command, or `flexdome resume {store.path}`, finishes the rest", file=sys.stderr)
        raise
    took = clock(time.monotonic() - display.began)
    print(f"{store.path}: {_count(outcome.computed, 'run')} computed, {outcome.stored} there already ({took})")
    if outcome.failed:
        reasons = sorted(set(outcome.failed.values()))
        raise RunsFailed(f"{_count(len(outcome.failed), 'run')} failed: {'; '.join(reasons)}")


def _remembered(text: str, store: Store) -> ExperimentSpec:
    """An experiment of the store by its name (the latest of it) or NAME-ID, or a file, or one of ours."""
    from flexdome.experiments import find_experiment

    if Path(text).suffix == ".toml":
        return find_experiment(text)
    found = {key: spec for spec in store.experiments(warn) for key in (spec.name, f"{spec.name}-{spec.id}")}
    return found[text] if text in found else find_experiment(text)


def warn(text: str) -> None:
    """Say what was left out, and why."""
    import sys

    print(f"flexdome: skipped: {text}", file=sys.stderr)


def _require_complete(spec: ExperimentSpec, store: Store) -> None:

    runs = list(spec.runs())
    missing = sum(not store.has(run) for run in runs)
    if missing:
        raise FlexDOMEError(
            f"{missing} of {len(runs)} runs of {spec.name} are not in {store.path}; "
            f"`flexdome run` computes them, `flexdome resume {store.path}` finishes what was interrupted"
        )


def _grid(options: Iterable[str]) -> list[dict[str, Any]]:
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
