"""The commands. Signatures are the options; heavy imports wait until a command runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flexdome.cli.certify import certify
from flexdome.cli.experiments import resume, run, sweep
from flexdome.cli.look import compare, status
from flexdome.cli.rank import rank
from flexdome.cli.report import report
from flexdome.cli.reproduce import reproduce
from flexdome.cli.theory import theory

if TYPE_CHECKING:
    from flexdome.cmdp import CMDP

__all__ = ["COMMANDS", "named_cmdp"]

Environment = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")]


def list_(
    what: Annotated[Literal["environments", "learners", "experiments"], tyro.conf.Positional] = "environments",
) -> None:
    """List what there is: environments, learners with what their papers claim, or our experiments.

    ``flexdome show ID`` says more of a learner or an environment.

    For example:
      flexdome list environments
      flexdome list learners
      flexdome list experiments
    """
    from flexdome.cli.tables import plain_table, show
    from flexdome.families import ENVIRONMENTS
    from flexdome.learners import LEARNERS

    if what == "environments":
        table = plain_table(what, "id", "what it is")
        for environment in ENVIRONMENTS.values():
            table.add_row(environment.id, environment.summary)
    elif what == "experiments":
        from flexdome.experiments import experiment_names, named_experiment

        table = plain_table(what, "name", "id", "runs", "what it is")
        for name in experiment_names():
            spec = named_experiment(name)
            table.add_row(name, spec.id, str(sum(1 for _ in spec.runs())), spec.description)
    else:
        table = plain_table(what, "id", "regret", "violation", "what it is")
        for entry in LEARNERS.values():
            table.add_row(entry.id, entry.regret, entry.violation, entry.summary)
    show(table)


def solve(
    environment: Environment,
    /,
    seed: int = 0,
    method: Literal["decomposition", "lp"] = "decomposition",
) -> None:
    """Print the exact truth of a CMDP: its constrained optimum, multipliers, Slater gap and baselines.

    For example:
      flexdome solve paper-v1 --seed 3
      flexdome solve my-model.npz --method lp

    Args:
        environment: a registered id (see `flexdome list environments`) or a file that `fd.save_cmdp` wrote
        seed: the instance's seed
        method: column generation over dynamic programs, or the occupancy-measure linear program
    """
    from flexdome.cli.tables import truth_table

    cmdp = named_cmdp(environment, seed)
    label = f"seed {seed}" if _is_family(environment) else Path(environment).name
    truth_table(f"The exact truth of {cmdp!r}", {label: cmdp}, method)


def _is_family(environment: str) -> bool:
    from flexdome.families import ENVIRONMENTS

    path = Path(environment)
    return environment in ENVIRONMENTS or not (path.suffix or path.exists())


def named_cmdp(environment: str, seed: int) -> CMDP:
    """The instance ``seed`` of a registered family, or the model of a file, which has no seed."""
    import flexdome as fd

    if _is_family(environment):
        return fd.make_cmdp(environment, seed=seed)
    if seed:
        raise fd.ValidationError(f"seed is {seed}; a model read from a file has none")
    return fd.load_cmdp(Path(environment))


def show(name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ID")]) -> None:
    """Show one learner or one environment: what it is, needs and claims, its options with their defaults.

    For example:
      flexdome show proxdome
      flexdome show paper-v1

    Args:
        name: the id of a learner or an environment
    """
    from flexdome.cli.pages import page_of
    from flexdome.cli.tables import lines

    lines(page_of(name))


def bench(
    what: Annotated[
        Literal["learning", "planning", "programs", "certifying", "journal"], tyro.conf.Positional
    ] = "learning",
    /,
    full: bool = False,
) -> None:
    """Print the speed table: ratios measured in one run, with the machine's name and versions.

    For example:
      flexdome bench
      flexdome bench planning --full

    Args:
        what: the episode loop, the solvers of known models, the learners that solve a program, certificates, or what a
            journal costs
        full: also the rows that take minutes
    """
    import sys
    from importlib import import_module

    import flexdome
    from flexdome.errors import FlexDOMEError

    package = Path(flexdome.__file__).parent
    places = (package / "bench", package.parents[1])  # of an installed wheel, of a checkout
    found = next((place for place in places if (place / "benchmarks" / f"{what}.py").exists()), None)
    if found is None:
        raise FlexDOMEError(f"the benchmarks are neither in {places[0]} nor in {places[1]}")
    sys.path.insert(0, str(found))
    import_module(f"benchmarks.{what}").main(full)


def warmup(
    learners: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[LEARNER ...]", help_behavior_hint="(default: all)"),
    ] = (),
    /,
    workers: int = 2,
) -> None:
    """Compile what learners need ahead of time, so that nobody waits for it later.

    For example:
      flexdome warmup
      flexdome warmup proxdome --workers 1

    Args:
        learners: ids of learners
        workers: processes that compile
    """
    from flexdome.cmdp.validation import shown
    from flexdome.errors import ValidationError
    from flexdome.experiments.warmup import warm_up
    from flexdome.learners import LEARNERS

    for id in learners:
        if id not in LEARNERS:
            raise ValidationError(f"learners has {shown(id)}; it must be one of {', '.join(LEARNERS)}")
    for id, seconds in warm_up(learners or None, workers):
        print(f"{id}: {seconds:.1f} s", flush=True)


COMMANDS: dict[str, Callable[..., Any]] = {
    "list": list_,
    "run": run,
    "compare": compare,
    "show": show,
    "rank": rank,
    "report": report,
    "solve": solve,
    "certify": certify,
    "reproduce": reproduce,
    "sweep": sweep,
    "resume": resume,
    "status": status,
    "theory": theory,
    "bench": bench,
    "warmup": warmup,
}
