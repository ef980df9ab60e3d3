"""What a reader should notice, in sentences: the best, the unbeaten, the safe, and where paper and measurement part."""

from __future__ import annotations

import polars as pl

from flexdome.analysis import Results, verdicts
from flexdome.analysis.verdicts import number
from flexdome.figures import pareto_front

__all__ = ["MARKS", "notices", "statements"]

MARKS = {False: "parts", None: "open", True: "holds"}
GROWING = ("strong_regret", "strong_violation")


def statements(results: Results) -> list[tuple[str, str]]:
    """Each statement of the paper that can be checked, as ``(mark, sentence)``: what does not hold first."""
    found = [(MARKS[verdict.holds], verdict.text) for verdict in verdicts(results)]
    order = list(MARKS.values())
    return sorted(found, key=lambda row: order.index(row[0]))


def notices(results: Results, table: pl.DataFrame) -> list[str]:
    """What the numbers say by themselves, environment by environment.

    Parameters
    ----------
    table : as ``analysis.summary`` makes it
    """
    spec = results.experiment
    lines = []
    if results.missing:
        runs = sum(1 for _ in spec.runs())
        lines.append(
            f"{len(results.missing)} of {runs} runs are not there yet: every number here is of the runs that are."
        )
    if len(spec.seeds) == 1:
        lines.append("There is one seed, so there are no confidence intervals: differences may be luck.")
    for (environment,), group in table.group_by(["environment"], maintain_order=True):
        wide = group.filter(pl.col("metric").is_in(GROWING)).pivot("metric", index="learner", values="mean")
        lines += _of_environment(str(environment), wide)
    return lines


def _of_environment(environment: str, wide: pl.DataFrame) -> list[str]:
    names = wide["learner"].to_list()
    regret, violation = (wide[metric].to_numpy() for metric in GROWING)
    if len(names) < 2:
        return [
            f"On {environment}, {names[0]} has strong regret {number(regret[0])} and strong violation "
            f"{number(violation[0])}; there is nobody to compare it with."
        ]
    best, safest = int(regret.argmin()), int(violation.argmin())
    if best == safest:
        lines = [
            f"On {environment}, {names[best]} is best in both: strong regret {number(regret[best])} and strong "
            f"violation {number(violation[best])}."
        ]
    else:
        lines = [
            f"On {environment}, {names[best]} has the lowest strong regret ({number(regret[best])}, with strong "
            f"violation {number(violation[best])}) and {names[safest]} the lowest strong "
            f"violation ({number(violation[safest])}, with strong regret {number(regret[safest])})."
        ]
        front = pareto_front(wide.select(*GROWING).to_numpy())
        beaten = [name for k, name in enumerate(names) if k not in front]
        if beaten:
            lines.append(f"On {environment}, some other learner is at least as good in both as {_listed(beaten)}.")
    safe = [name for name, value in zip(names, violation, strict=True) if value == 0.0]
    if safe:
        lines.append(f"On {environment}, no episode of any run was unsafe with {_listed(safe)}.")
    return lines


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
