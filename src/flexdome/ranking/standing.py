"""Where learners stand, from their final numbers.

On a family learner a *beats* learner b if it has less strong regret and no more strong violation, or less violation and
no more regret: means over the seeds that both have. A learner all of whose runs on a family failed is beaten there by
everyone who has numbers. The score of a learner on a family is, over the other learners that were run there, the part
that it beats less the part that beats it, from -1 to 1; its overall score is the mean over its families.

Two learners, one with less regret and one with less violation, do not beat each other: no weight between regret and
violation is chosen. But who ignores the constraints has the least regret of all and would be beaten by nobody. In a
linear run strong violation has a growth exponent of at least 0.9 and goes on after the first tenth; a learner is
*unsafe* on a family if linear runs have more than half of its violation. It is beaten there, whatever its regret, by
everyone who is not unsafe and has less violation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from flexdome.analysis.frames import as_table
from flexdome.cmdp.validation import as_text
from flexdome.errors import unknown_name

__all__ = ["FINALS_SCHEMA", "family_table", "overall_table", "versus_table"]

NUMBERS = ("strong_regret", "strong_violation", "late_violation", "regret_exponent", "violation_exponent")
FINALS_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("family", "learner"), pl.String),
    "seed": pl.Int64,
    **dict.fromkeys(NUMBERS, pl.Float64),
    "failure": pl.String,
}
LATE = 0.01  # of late violation: a run with less counts as safe after the first tenth
LINEAR = 0.9  # growth exponent of strong violation: from here on a run is linear
MOST = 0.5  # of a learner's violation on a family: it is unsafe if linear runs have more
Run = tuple[float, float, float]  # strong regret, strong violation, and what of it is linear


@dataclass(frozen=True)
class _Pairs:
    """Of every family and pair of learners that were both run there, 1 where the first beats the second, -1, or 0."""

    rows: dict[tuple[str, str, str], int]

    def of(self, learner: str, family: str | None = None) -> dict[tuple[str, str], int]:
        """By family and other learner, what ``learner`` does."""
        return {
            (f, b): value for (f, a, b), value in self.rows.items() if a == learner and (family is None or f == family)
        }


def _checked(finals: pl.DataFrame) -> pl.DataFrame:
    return as_table("finals", finals, FINALS_SCHEMA, nullable=(*NUMBERS, "failure"))


def _run(row: Mapping[str, Any]) -> Run | None:
    """The numbers of a run; None if it failed."""
    regret, violation, late, exponent = (
        row[name] for name in ("strong_regret", "strong_violation", "late_violation", "violation_exponent")
    )
    if regret is None:
        return None
    linear = exponent is not None and exponent >= LINEAR and late is not None and late >= LATE
    return regret, violation, violation if linear else 0.0


def _runs(group: pl.DataFrame) -> list[Run]:
    return [run for row in group.iter_rows(named=True) if (run := _run(row)) is not None]


def _unsafe(runs: Collection[Run]) -> bool:
    """Whether linear runs have more than half of the violation."""
    return sum(run[2] for run in runs) > MOST * sum(run[1] for run in runs)


def _compared(a: list[Run], b: list[Run]) -> int:
    """1 where the first beats the second, -1 the other way round, or 0; both have the same seeds."""
    regret, violation = (float(np.sign(sum(run[k] for run in b) - sum(run[k] for run in a))) for k in (0, 1))
    unsafe = _unsafe(a), _unsafe(b)
    if unsafe[0] != unsafe[1] and violation == (1.0 if unsafe[1] else -1.0):
        return int(violation)
    return int(np.sign(regret + violation)) if regret * violation >= 0.0 else 0


def _pairs(finals: pl.DataFrame) -> _Pairs:
    rows: dict[tuple[str, str, str], int] = {}
    for (family,), group in finals.group_by(["family"], maintain_order=True):
        numbers: dict[str, dict[int, Run]] = {}
        for row in group.iter_rows(named=True):
            mine, run = numbers.setdefault(row["learner"], {}), _run(row)
            if run is not None:
                mine[row["seed"]] = run
        for a, of_a in numbers.items():
            for b, of_b in numbers.items():
                if a == b:
                    continue
                if not of_a or not of_b:
                    rows[str(family), a, b] = bool(of_a) - bool(of_b)
                    continue
                both = sorted(set(of_a) & set(of_b))
                if both:
                    rows[str(family), a, b] = _compared(*([of[seed] for seed in both] for of in (of_a, of_b)))
    return _Pairs(rows)


def overall_table(finals: pl.DataFrame) -> pl.DataFrame:
    """A row for every learner, the best score first.

    Returns
    -------
    learner, score, families, runs, failed (runs), beats, beaten (mean number of other learners, over families),
    front (families where nobody beats it), unsafe (families), safe (part of runs without late violation),
    regret_exponent, violation_exponent (medians over runs; null where no run has one)
    """
    finals = _checked(finals)
    pairs = _pairs(finals)
    rows = []
    for (learner,), group in finals.group_by(["learner"], maintain_order=True):
        families = group["family"].unique(maintain_order=True).to_list()
        compared = [list(pairs.of(str(learner), family).values()) for family in families]
        compared = [values for values in compared if values]
        done = group.filter(pl.col("strong_regret").is_not_null())
        rows.append(
            {
                "learner": learner,
                "score": float(np.mean([np.mean(values) for values in compared])) if compared else 0.0,
                "families": len(families),
                "runs": group.height,
                "failed": group.height - done.height,
                "beats": float(np.mean([sum(v > 0 for v in values) for values in compared])) if compared else 0.0,
                "beaten": float(np.mean([sum(v < 0 for v in values) for values in compared])) if compared else 0.0,
                "front": sum(all(v >= 0 for v in values) for values in compared),
                "unsafe": sum(_unsafe(_runs(group.filter(pl.col("family") == family))) for family in families),
                "safe": float(np.mean(done["late_violation"].to_numpy() < LATE)) if done.height else 0.0,
                **{name: _median(done[name]) for name in ("regret_exponent", "violation_exponent")},
            }
        )
    whole = dict.fromkeys(("families", "runs", "failed", "front", "unsafe"), pl.Int64)
    real = dict.fromkeys(("score", "beats", "beaten", "safe", "regret_exponent", "violation_exponent"), pl.Float64)
    order = list(rows[0]) if rows else ["learner", *real, *whole]
    schema = {name: {"learner": pl.String, **whole, **real}[name] for name in order}
    return pl.DataFrame(rows, schema=schema).sort("score", "learner", descending=[True, False], maintain_order=True)


def family_table(finals: pl.DataFrame, learner: str) -> pl.DataFrame:
    """How one learner does on every family.

    Returns
    -------
    family, n (runs with numbers), failed, regret, violation (means), late (worst run), regret_exponent,
    violation_exponent (means over runs), unsafe (whether it is), beats, beaten (names, semicolon-separated)
    """
    finals = _checked(finals)
    learner = _known(finals, learner)
    pairs = _pairs(finals)
    rows = []
    for (family,), group in finals.filter(pl.col("learner") == learner).group_by(["family"], maintain_order=True):
        done = group.filter(pl.col("strong_regret").is_not_null())
        others = pairs.of(learner, str(family))
        rows.append(
            {
                "family": family,
                "n": done.height,
                "failed": group.height - done.height,
                "regret": _mean(done["strong_regret"]),
                "violation": _mean(done["strong_violation"]),
                "late": None if not done.height else float(done["late_violation"].to_numpy().max()),
                "regret_exponent": _mean(done["regret_exponent"]),
                "violation_exponent": _mean(done["violation_exponent"]),
                "unsafe": _unsafe(_runs(group)),
                "beats": "; ".join(name for (_, name), value in others.items() if value > 0),
                "beaten": "; ".join(name for (_, name), value in others.items() if value < 0),
            }
        )
    numbers = ("regret", "violation", "late", "regret_exponent", "violation_exponent")
    schema = {"family": pl.String, "n": pl.Int64, "failed": pl.Int64, **dict.fromkeys(numbers, pl.Float64)}
    return pl.DataFrame(rows, schema={**schema, "unsafe": pl.Boolean, "beats": pl.String, "beaten": pl.String})


def versus_table(finals: pl.DataFrame, learner: str) -> pl.DataFrame:
    """One learner against every other: on how many families both were run, it beats the other, and is beaten by it."""
    finals = _checked(finals)
    learner = _known(finals, learner)
    counts: dict[str, list[int]] = {}
    for (_, other), value in _pairs(finals).of(learner).items():
        counts.setdefault(other, []).append(value)
    rows = [
        {
            "learner": other,
            "families": len(values),
            "beats": sum(v > 0 for v in values),
            "beaten": sum(v < 0 for v in values),
        }
        for other, values in counts.items()
    ]
    schema = {"learner": pl.String, **dict.fromkeys(("families", "beats", "beaten"), pl.Int64)}
    return pl.DataFrame(rows, schema=schema).sort("beaten", "beats", "learner", descending=[True, False, False])


def _known(finals: pl.DataFrame, learner: str) -> str:
    learner = as_text("learner", learner)
    if learner not in finals["learner"]:
        raise unknown_name("learner", learner, finals["learner"].unique(maintain_order=True).to_list())
    return learner


def _mean(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_numpy()
    return float(known.mean()) if known.size else None


def _median(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_numpy()
    return float(np.median(known)) if known.size else None
