"""The commands that look at results: compare, and how far everything is."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from flexdome.cli.experiments import DEFAULT, Directory, Experiment, count, remembered, warn
from flexdome.errors import FlexDOMEError

if TYPE_CHECKING:
    from rich.table import Table

    from flexdome.experiments import ExperimentSpec, RunSpec, Store

__all__ = ["compare", "status"]

Final = Literal[
    "strong_regret",
    "strong_violation",
    "late_violation",
    "last_gap",
    "last_violation",
    "weak_regret",
    "weak_violation",
    "late_regret",
    "crossings",
    "wobble",
]
Curve = Literal["gap", "violation", "strong_regret", "strong_violation", "weak_regret", "weak_violation"]
FEW: tuple[Final, ...] = ("strong_regret", "strong_violation", "late_violation", "last_gap", "last_violation")
FOUR: tuple[Curve, ...] = ("gap", "violation", "strong_regret", "strong_violation")
Metrics = Annotated[tuple[Final, ...], tyro.conf.arg(metavar="METRIC [METRIC ...]")]
Curves = Annotated[tuple[Curve, ...], tyro.conf.arg(metavar="METRIC [METRIC ...]")]
REST = 2.0  # seconds between two looks


def compare(
    experiment: Experiment,
    /,
    out: Path = DEFAULT,
    baseline: Annotated[str | None, tyro.conf.arg(metavar="LEARNER", help_behavior_hint="")] = None,
    metric: Final = "strong_violation",
    metrics: Metrics = FEW,
    curves: Curves = FOUR,
    constraints: bool = False,
    log: Literal["none", "x", "y", "both"] = "none",
    format: Literal["text", "latex", "csv", "markdown"] = "text",
    skip_missing: bool = False,
    figure: Annotated[
        Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: OUT/figures/EXPERIMENT)")
    ] = None,
) -> None:
    """Print the table of an experiment that was run, and write its figure.

    With a baseline also the paired differences: both learners met the same instances and the same random numbers.

    For example:
      flexdome compare my-experiment --out results
      flexdome compare fixed --baseline FlexDOME --metric strong_regret
      flexdome compare fixed --metrics strong_regret weak_regret crossings --format latex
      flexdome compare strong --skip-missing --curves strong_violation --constraints --log both

    Args:
        experiment: the name of an experiment in `out` (or NAME-ID, see `flexdome status`), a TOML file, or one of ours
        out: directory of the results
        baseline: label of the learner that the others are compared with
        metric: what the paired differences are of
        metrics: the table's columns
        curves: the figure's columns
        constraints: also a column for every single constraint, where there are several
        log: which axes of the figure are logarithmic
        format: of the tables; all but text go to stdout alone, so that they can be put into a file. csv is one table:
            with a baseline the paired differences alone
        skip_missing: go on without runs that failed or are not done
        figure: where the figure goes, without its suffix
    """
    from flexdome.analysis import aggregate
    from flexdome.cli.results import show_differences, show_summary, write_comparison
    from flexdome.errors import unknown_name
    from flexdome.experiments import Store

    store = Store(out)
    spec = remembered(experiment, store)
    if baseline is not None and baseline not in (names := [learner.name for learner in spec.learners]):
        raise unknown_name("learner of this experiment", baseline, names)
    if not skip_missing:
        _require_complete(spec, store)
    results = aggregate(store, spec, skip_missing=skip_missing, constraints=constraints)
    if not results.finals.height:
        raise FlexDOMEError(f"{out} holds no complete run of {spec.name}")
    if results.missing:
        why = _why_missing(results.missing, store)
        warn(f"{len(results.missing)} of {sum(1 for _ in spec.runs())} runs of {spec.name}, which are not there{why}")
    if baseline is None or format != "csv":
        show_summary(results, metrics, format)
    if baseline is not None:
        if format == "markdown":
            print()
        show_differences(results, baseline, metric, format)
    drawn: list[str] = list(curves)
    if constraints:
        known = set(results.curves["metric"])
        drawn += [name for name in sorted(known) if name.rpartition("_")[0] in curves and name[-1].isdigit()]
    for path in write_comparison(results, figure or out / "figures" / spec.name, drawn, log):
        print(path, file=sys.stdout if format == "text" else sys.stderr)


def status(
    out: Directory = DEFAULT,
    /,
    verify: bool = False,
    watch: bool = False,
    failures: bool = False,
    discard_stale: bool = False,
    every: float = REST,
) -> None:
    """Print how far the experiments in a directory are, what failed and what is stale.

    A run is stale if the learner's code has changed since: `flexdome run` computes it anew beside the old one.

    For example:
      flexdome status results
      flexdome status results --watch
      flexdome status results --failures
      flexdome status results --verify
      flexdome status results --discard-stale

    Args:
        out: directory of the results
        verify: compare every file with its checksum
        watch: print it again as runs finish, until everything is done or Ctrl-C; into a pipe or a file what changed
        failures: print the tracebacks of the runs that failed
        discard_stale: first remove the stale runs that were computed anew; others stay
        every: seconds between two looks, with --watch
    """
    from flexdome.cli.tables import say, show
    from flexdome.experiments import Store

    store = Store(out)
    if discard_stale:
        _require_experiments(store)
        print(f"{count(store.discard_stale(), 'stale run')} removed")
    if watch:
        _watch(store, every)
        return
    states, notes = _state(store, verify)
    show(_table(store, states))
    for note in notes:
        say(note)
    if failures:
        _show_failures(store)
    if verify:
        _require_whole(store)


@dataclass(frozen=True)
class _Progress:
    """How far an experiment is; ``damaged`` is None where nobody looked."""

    name: str
    id: str
    runs: int
    complete: int
    under_way: int
    failed: int
    episodes: int
    total: int
    damaged: int | None

    @property
    def done(self) -> bool:
        return self.complete + self.failed == self.runs

    def __str__(self) -> str:
        parts = [f"{self.complete} of {count(self.runs, 'run')} complete", f"{self.under_way} under way"]
        parts += [f"{self.failed} failed", f"{self.episodes:,} of {self.total:,} episodes"]
        return f"{self.name}-{self.id}: {', '.join(parts)}"


def _watch(store: Store, every: float) -> None:
    """The same table again and again, in place on a terminal; nothing is written, so that it disturbs nobody."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from flexdome.cli.tables import fitted
    from flexdome.cmdp.validation import as_float

    rest = as_float("every", every, 0.05, 86_400.0)
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        _watch_plainly(store, rest)
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            states, notes = _state(store, verify=False)
            parts = fitted(_table(store, states), console.width)
            live.update(Group(*parts, *(Text(note) for note in notes)), refresh=True)
            if all(state.done for state in states):
                return
            time.sleep(rest)


def _watch_plainly(store: Store, rest: float) -> None:
    """A line for whatever has changed, as soon as it has."""
    said: set[str] = set()
    while True:
        states, notes = _state(store, verify=False)
        lines = [*map(str, states), *notes]
        for line in lines:
            if line not in said:
                print(line, flush=True)
        said = set(lines)
        if all(state.done for state in states):
            return
        time.sleep(rest)


def _require_experiments(store: Store) -> list[ExperimentSpec]:
    specs = store.experiments(warn)
    if not specs:
        raise FlexDOMEError(
            f"{store.path} holds no experiment; `flexdome run EXPERIMENT --out {store.path}` starts one"
        )
    return specs


def _state(store: Store, verify: bool) -> tuple[list[_Progress], list[str]]:
    """How far all experiments are, and what there is to say besides."""
    specs = _require_experiments(store)
    found = []
    for spec in specs:
        runs = list(spec.runs())
        complete = [run for run in runs if store.has(run)]
        rest = [run for run in runs if not store.has(run)]
        under_way = [point for run in rest if (point := store.checkpoint(run)[0])]
        found.append(
            _Progress(
                name=spec.name,
                id=spec.id,
                runs=len(runs),
                complete=len(complete),
                under_way=len(under_way),
                failed=sum(store.failure(run) is not None for run in rest),
                episodes=sum(run.episodes for run in complete) + sum(point.episode for point in under_way),
                total=sum(run.episodes for run in runs),
                damaged=sum(store.damage(run) is not None for run in complete) if verify else None,
            )
        )
    return found, [*_stale(store), *_absent(specs), *_reasons(store, specs)]


def _table(store: Store, states: Sequence[_Progress]) -> Table:
    from flexdome.cli.tables import plain_table

    verified = any(state.damaged is not None for state in states)
    heads = ["experiment", "id", "runs", "complete", "under way", "failed", "episodes"]
    table = plain_table(f"Experiments in {store.path}", *heads, *(["damaged"] if verified else []))
    for state in states:
        counts = map(str, (state.runs, state.complete, state.under_way, state.failed))
        episodes = f"{state.episodes:,} of {state.total:,}"
        table.add_row(state.name, state.id, *counts, episodes, *([str(state.damaged)] if verified else []))
    return table


def _stale(store: Store) -> list[str]:
    """A line for every learner whose code has changed since it was run here."""
    from flexdome.experiments.code import code_apart, said_code

    found: dict[tuple[str, str, str, bool], set[str | None]] = {}
    for request in store.requests(lambda text: None):
        for run in store.stale(request):
            then, now = request.code[run.learner.name], run.learner.code
            codes = said_code(code_apart(then, now) or then), said_code(code_apart(now, then) or now)
            found.setdefault((run.learner.name, *codes, store.has(run)), set()).add(store.former(request, run))
    said = []
    for (name, former, present, anew), ids in found.items():
        rest = ", and they were computed anew" if anew else "; `flexdome run` computes them anew"
        said.append(f"stale: {count(len(ids), 'run')} of {name} made by {former}; it is {present} now{rest}")
    if any(anew for *_, anew in found):
        said.append(f"`flexdome status {store.path} --discard-stale` removes what was computed anew since")
    return said


def _absent(specs: list[ExperimentSpec]) -> list[str]:
    """A line for every learner that cannot be run here."""
    found = dict.fromkeys((row.name, row.absent) for spec in specs for row in spec.learners if row.absent)
    return [f"cannot be run here: {name}: {reason}" for name, reason in found]


def _reasons(store: Store, specs: list[ExperimentSpec]) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for spec in specs:
        for run in spec.runs():
            if not store.has(run) and (failure := store.failure(run)) is not None:
                key = run.learner.name, failure.reason
                counts[key] = counts.get(key, 0) + 1
    return [f"failed: {count(number, 'run')} of {name}: {reason}" for (name, reason), number in counts.items()]


def _show_failures(store: Store) -> None:
    for spec in store.experiments(lambda text: None):
        for run in spec.runs():
            failure = None if store.has(run) else store.failure(run)
            if failure is not None:
                where = f"{run.learner.name} on {run.environment.name}, seed {run.seed}, run {run.id}"
                when = f"in episode {failure.episode + 1} or later"  # it is stored as far as its last checkpoint
                print(f"\n{where}, {when}:\n{failure.traceback or failure.reason}")


def _require_whole(store: Store) -> None:
    runs = {run.id: run for spec in store.experiments(lambda text: None) for run in spec.runs() if store.has(run)}
    damaged = [text for run in runs.values() if (text := store.damage(run)) is not None]
    if damaged:
        raise FlexDOMEError(
            f"{count(len(damaged), 'run')} damaged, the first: {damaged[0]}; "
            f"`flexdome resume {store.path}` computes them again"
        )


def _require_complete(spec: ExperimentSpec, store: Store) -> None:
    runs = list(spec.runs())
    missing = [run for run in runs if not store.has(run)]
    if missing:
        raise FlexDOMEError(
            f"{len(missing)} of {len(runs)} runs of {spec.name} are not in {store.path}{_why_missing(missing, store)}; "
            f"`flexdome run` computes them, `flexdome resume {store.path}` finishes what was interrupted, "
            f"--skip-missing goes on without them"
        )


def _why_missing(missing: Sequence[RunSpec], store: Store) -> str:
    """What is known of runs that are not there, in brackets; empty where that is nothing."""
    former = {run.id for request in store.requests(lambda text: None) for run in store.stale(request)}
    stale = [run for run in missing if run.id in former]
    said = []
    if stale:
        names = "; ".join(dict.fromkeys(run.learner.name for run in stale))
        said.append(f"{len(stale)} stale: the code of {names} has changed since they were made")
    failed = sum(store.failure(run) is not None for run in missing)
    if failed:
        said.append(f"{failed} failed: `flexdome status {store.path} --failures` shows why")
    return f" ({'; '.join(said)})" if said else ""
