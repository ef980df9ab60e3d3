"""The commands. Signatures are the options; heavy imports wait until a command runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

__all__ = ["COMMANDS"]

Environment = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")]


def list_(what: Annotated[Literal["environments", "learners"], tyro.conf.Positional] = "environments") -> None:
    """List what is registered: environments, or learners with what their papers claim and what they need.

    Examples:
      flexdome list environments
      flexdome list learners
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from flexdome.cli.tables import show
    from flexdome.families import ENVIRONMENTS
    from flexdome.learners import LEARNERS

    if what == "environments":
        table = Table("id", "what it is", title=what, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for environment in ENVIRONMENTS.values():
            table.add_row(environment.id, environment.summary)
    else:
        columns = ("id", "what it is", "regret", "violation", "last iterate", "needs", "reconstructed", "source")
        table = Table(*columns, title=what, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for entry in LEARNERS.values():
            needs, parts = (", ".join(x) or "-" for x in (entry.needs, entry.reconstructed))
            last = "claimed" if entry.last_iterate else "-"
            table.add_row(entry.id, entry.summary, entry.regret, entry.violation, last, needs, parts, entry.citation)
    show(table)


def solve(
    environment: Environment,
    /,
    seed: int = 0,
    method: Literal["decomposition", "lp"] = "decomposition",
) -> None:
    """Print the exact truth of a CMDP: its constrained optimum, multipliers, Slater gap and baselines.

    Examples:
      flexdome solve paper-v1 --seed 3
      flexdome solve my-model.npz --method lp

    Args:
        environment: a registered id (see `flexdome list environments`) or a file that `fd.save_cmdp` wrote
        seed: the instance's seed
        method: column generation over dynamic programs, or the occupancy-measure linear program
    """
    import flexdome as fd
    from flexdome.cli.tables import truth_table

    path = Path(environment)
    known = environment in fd.ENVIRONMENTS or not (path.suffix or path.exists())
    if seed and not known:
        raise fd.ValidationError(f"seed is {seed}; a model read from a file has none")
    cmdp = fd.make_cmdp(environment, seed=seed) if known else fd.load_cmdp(path)
    truth_table(f"The exact truth of {cmdp!r}", {f"seed {seed}" if known else path.name: cmdp}, method)


def reproduce(seeds: int = 5) -> None:
    """Print the exact truth of the paper's CMDPs (Section 5 of Zuo et al. 2026), one column per instance.

    Example: flexdome reproduce --seeds 5

    Args:
        seeds: how many instances
    """
    import flexdome as fd
    from flexdome.cli.tables import truth_table
    from flexdome.cmdp.validation import as_int

    as_int("seeds", seeds, 1)
    cmdps = {f"seed {k}": fd.make_cmdp("paper-v1", seed=k) for k in range(seeds)}
    truth_table("The exact truth of paper-v1", cmdps)


def bench(
    what: Annotated[Literal["learning", "planning"], tyro.conf.Positional] = "learning", /, full: bool = False
) -> None:
    """Print the speed table: ratios measured in one run, with the machine's name and versions.

    Examples:
      flexdome bench
      flexdome bench planning --full

    Args:
        what: the episode loop, or the solvers of known models
        full: also the rows that take minutes
    """
    import sys
    from importlib import import_module

    import flexdome
    from flexdome.errors import FlexDOMEError

    checkout = Path(flexdome.__file__).parents[2]
    if not (checkout / "benchmarks" / f"{what}.py").exists():
        raise FlexDOMEError("bench needs a source checkout; run it from one installed with `pip install -e .`")
    sys.path.insert(0, str(checkout))
    import_module(f"benchmarks.{what}").main(full)


COMMANDS: dict[str, Callable[..., Any]] = {"list": list_, "solve": solve, "reproduce": reproduce, "bench": bench}
