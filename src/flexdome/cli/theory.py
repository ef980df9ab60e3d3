"""The command that says what the paper's theorems are worth: an audit of an experiment, or a page about one CMDP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

__all__ = ["theory"]

Count = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
Seeds = Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="K [K ...]", help_behavior_hint="")]


@dataclass(frozen=True)
class Audit:
    """Hold every statement of the paper to runs of FlexDOME: holds, fails at, or says nothing.

    Runs what it needs itself; nothing stored is read. Writes a table (CSV and markdown) and a figure for each one.

    For example:
      flexdome theory audit fixed --episodes 20000 --out audit
      flexdome theory audit my-experiment.toml --runs 100
    """

    experiment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT")]
    """a TOML file, or the name of one of ours (see `flexdome list experiments`)"""
    out: Path = Path("audit")
    """directory of the tables and figures"""
    episodes: Count = None
    """another number of episodes than the experiment's"""
    seeds: Seeds = None
    """other run seeds than the experiment's"""
    points: int = 200
    """episodes at which a trajectory is looked at"""
    known: int = 20_000
    """steps of the known-model iteration, at most"""
    watched: int = 1_000
    """episodes of a run whose estimates are watched, at most"""
    runs: int = 20
    """such runs, with unscaled bonuses and with the learner's own"""
    figures: bool = True
    """whether to draw"""


@dataclass(frozen=True)
class Explain:
    """Say in plain words what the theorems promise for one CMDP, from which episode on, and what the scales give up.

    For example:
      flexdome theory explain --environment paper-v1
      flexdome theory explain --environment my-model.npz --slater-gap 0.1 --margin-scale 5e-5
    """

    environment: Annotated[str, tyro.conf.arg(metavar="ENVIRONMENT")]
    """a registered id (see `flexdome list environments`) or a file that `fd.save_cmdp` wrote"""
    slater_gap: Annotated[float | None, tyro.conf.arg(metavar="XI", help_behavior_hint="(default: the exact gap)")] = (
        None
    )
    """a lower bound on the Slater gap, as a learner would be told"""
    seed: int = 0
    """the instance's seed"""
    episodes: int = 80_000
    """T"""
    delta: float = 0.1
    """the probability that the theorem may fail"""
    bonus_scale: float = 1e-3
    """c_b, of the bonuses"""
    margin_scale: float = 1e-5
    """c_e, of the margin"""


def theory(command: Annotated[Audit | Explain, tyro.conf.arg(name="")]) -> None:
    """Audit the paper's statements, or explain what they say at your size.

    For example:
      flexdome theory explain --environment paper-v1
      flexdome theory audit fixed --episodes 20000 --out audit
    """
    if isinstance(command, Audit):
        _audit(command)
    else:
        _explain(command)


def _audit(command: Audit) -> None:
    from flexdome.audit import Depth, audit
    from flexdome.cli.tables import plain_table, show
    from flexdome.experiments import find_experiment

    changes = {"episodes": command.episodes, "seeds": command.seeds}
    given = {name: value for name, value in changes.items() if value is not None}
    spec = find_experiment(command.experiment).changed(**given)
    found = audit(spec, Depth(command.points, command.known, command.watched, command.runs))
    files = found.write(command.out, figures=command.figures)
    for part in found.parts:
        table = plain_table(f"{part.learner} on {part.environment}", "statement", "setting", "verdict")
        for finding in part.findings:
            table.add_row(finding.statement, finding.setting, finding.verdict)
        show(table)
        table = plain_table("Errata, with the numbers of this problem", "place", "claim", "instead", "here")
        for erratum in part.errata:
            table.add_row(erratum.place, erratum.claim, erratum.instead, erratum.number)
        show(table)
    for line in found.skipped:
        print(f"not looked at: {line}")
    print(*files[:2], sep="\n")
    if len(files) > 2:
        print(f"{len(files) - 2} figures in {command.out / 'figures'}")


def _explain(command: Explain) -> None:
    from flexdome.audit import explain
    from flexdome.cli.commands import named_cmdp

    cmdp = named_cmdp(command.environment, command.seed)
    problem = cmdp.problem(slater_gap=command.slater_gap)
    print(explain(cmdp, problem, command.episodes, command.delta, command.bonus_scale, command.margin_scale), end="")
