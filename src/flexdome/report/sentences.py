"""What a reader should notice, in sentences: the best, the unbeaten, the safe, and where paper and measurement part."""

from __future__ import annotations

import polars as pl

from flexdome.analysis import Results, unlike_the_paper, verdicts
from flexdome.analysis.verdicts import number
from flexdome.cmdp.validation import Float
from flexdome.experiments import Store
from flexdome.report.common import GROWING, beaten_by, common_runs, listed

__all__ = ["ELSEWHERE", "MARKS", "notices", "statements"]

MARKS = {False: "parts", None: "open", True: "holds"}
ELSEWHERE = "elsewhere"  # the mark of a statement that was not checked in the paper's setting


def statements(results: Results) -> list[tuple[str, str]]:
    """Each statement of the paper that can be checked, as ``(mark, sentence)``: what does not hold first."""
    if unlike_the_paper(results) is not None:
        return [(ELSEWHERE, verdict.text) for verdict in verdicts(results)]
    found = [(MARKS[verdict.holds], verdict.text) for verdict in verdicts(results)]
    order = list(MARKS.values())
    return sorted(found, key=lambda row: order.index(row[0]))


def notices(results: Results, store: Store) -> list[str]:
    """What the numbers say by themselves, environment by environment; the store says which runs failed."""
    spec = results.experiment
    lines = _missing(results, store)
    if len(spec.seeds) == 1:
        lines.append("There is one seed, so there are no confidence intervals: differences may be luck.")
    beaten = beaten_by(results.finals)
    for (environment,), group in results.finals.group_by(["environment"], maintain_order=True):
        names = [name for place, name in beaten if place == environment and beaten[place, name]]
        lines += _of_environment(str(environment), group, names)
    return lines


def _missing(results: Results, store: Store) -> list[str]:
    runs = sum(1 for _ in results.experiment.runs())
    failures = [(run, store.failure(run)) for run in results.missing]
    reasons: dict[tuple[str, str, str], list[str]] = {}  # by learner, environment and first line: the seeds
    for run, failure in failures:
        if failure is not None:
            first = (str(failure.reason).splitlines() or ["no reason is kept"])[0]
            reasons.setdefault((run.learner.name, run.environment.name, first), []).append(str(run.seed))
    failed = sum(map(len, reasons.values()))
    waiting = len(results.missing) - failed
    lines = []
    if failed:
        lines.append(f"{failed} of {runs} runs failed: every number here is of the runs that did not.")
    for (learner, environment, first), seeds in reasons.items():
        lines.append(f"{learner} on {environment} failed with seed{'s' * (len(seeds) > 1)} {listed(seeds)}: {first}")
    if waiting:
        are = "is" if waiting == 1 else "are"
        lines.append(f"{waiting} of {runs} runs {are} not there yet: every number here is of the runs that are.")
    return lines


def _of_environment(environment: str, finals: pl.DataFrame, beaten: list[str]) -> list[str]:
    shared = common_runs(finals)
    wide = shared.group_by("learner", maintain_order=True).agg(pl.col(metric).mean() for metric in GROWING)
    names = wide["learner"].to_list()
    regret, violation = (wide[metric].to_numpy() for metric in GROWING)
    where, lines = f"On {environment}", []
    runs = shared.height // max(len(names), 1)
    if runs < finals.select("instance", "seed").n_unique():
        where += f", over the {runs} run{'s' * (runs != 1)} that every learner has"
    if not names:
        lines.append(f"On {environment} no run is one that every learner has, so that nobody is called the best.")
    elif len(names) == 1:
        lines.append(
            f"On {environment}, {names[0]} has strong regret {number(regret[0])} and strong violation "
            f"{number(violation[0])}; there is nobody to compare it with."
        )
    else:
        lines.append(f"{where}, {_best(names, regret, violation)}")
    if 0 < len(beaten) < finals["learner"].n_unique() - 1:
        lines.append(
            f"On {environment}, some other learner has less strong regret or violation than {listed(beaten)}, and no "
            "more of the other, over the runs that both have."
        )
    totals = finals.group_by("learner", maintain_order=True).agg(pl.col("strong_violation").max())
    safe = [name for name, most in totals.iter_rows() if most == 0.0]
    if safe:
        lines.append(f"On {environment}, no episode of any run was unsafe with {listed(safe)}.")
    return lines


def _best(names: list[str], regret: Float, violation: Float) -> str:
    low, safe = ([name for name, v in zip(names, of, strict=True) if v == of.min()] for of in (regret, violation))
    both = [name for name in low if name in safe]
    if both:
        are = "is best" if len(both) == 1 else "are equal and best"
        return (
            f"{listed(both)} {are} in both: strong regret {number(regret.min())} and strong violation "
            f"{number(violation.min())}."
        )
    best, safest = names.index(low[0]), names.index(safe[0])
    return (
        f"{listed(low)} {_has(low)} the lowest strong regret ({number(regret[best])}, with strong violation "
        f"{number(violation[best])}) and {listed(safe)} the lowest strong violation "
        f"({number(violation[safest])}, with strong regret {number(regret[safest])})."
    )


def _has(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"
