"""Where learners stand, from their final numbers.

On a family learner a *beats* learner b if it has less strong regret and no more strong violation, or less violation and
no more regret: means over the seeds that both have. A learner all of whose runs on a family failed is beaten there by
everyone who has numbers. The score of a learner on a family is, over the other learners that were run there, the part
that it beats less the part that beats it, from -1 to 1; its overall score is the mean over its families.

Two learners, one with less regret and one with less violation, do not beat each other: no weight between regret and
violation is chosen.
"""

from __future__ import annotations

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


def _pairs(finals: pl.DataFrame) -> _Pairs:
    rows: dict[tuple[str, str, str], int] = {}
    for (family,), group in finals.group_by(["family"], maintain_order=True):
        numbers: dict[str, dict[int, tuple[float, float]]] = {}
        for row in group.iter_rows(named=True):
            mine = numbers.setdefault(row["learner"], {})
            if row["strong_regret"] is not None:
                mine[row["seed"]] = row["strong_regret"], row["strong_violation"]
        for a, of_a in numbers.items():
            for b, of_b in numbers.items():
                if a == b:
                    continue
                if not of_a or not of_b:
                    rows[str(family), a, b] = bool(of_a) - bool(of_b)
                    continue
                both = sorted(set(of_a) & set(of_b))
                if both:
                    means = [np.mean([of[seed] for seed in both], axis=0) for of in (of_a, of_b)]
                    signs = np.sign(means[1] - means[0])  # 1 where a has less
                    rows[str(family), a, b] = int(np.sign(signs.sum())) if (signs[0] * signs[1]) >= 0 else 0
    return _Pairs(rows)


def overall_table(finals: pl.DataFrame) -> pl.DataFrame:
    """A row for every learner, the best score first.

    Returns
    -------
    learner, score, families, runs, failed (runs), beats, beaten (mean number of other learners, over families),
    front (families where nobody beats it), safe (part of runs without late violation), regret_exponent,
    violation_exponent (medians over runs; null where no run has one)
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
                "safe": float(np.mean(done["late_violation"].to_numpy() < LATE)) if done.height else 0.0,
                **{name: _median(done[name]) for name in ("regret_exponent", "violation_exponent")},
            }
        )
    whole = dict.fromkeys(("families", "runs", "failed", "front"), pl.Int64)
    real = dict.fromkeys(("score", "beats", "beaten", "safe", "regret_exponent", "violation_exponent"), pl.Float64)
    order = list(rows[0]) if rows else ["learner", *real, *whole]
    schema = {name: {"learner": pl.String, **whole, **real}[name] for name in order}
    return pl.DataFrame(rows, schema=schema).sort("score", "learner", descending=[True, False], maintain_order=True)


def family_table(finals: pl.DataFrame, learner: str) -> pl.DataFrame:
    """How one learner does on every family.

    Returns
    -------
    family, n (runs with numbers), failed, regret, violation (means), late (worst run), regret_exponent,
    violation_exponent (means over runs), beats, beaten (names, comma-separated)
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
                "beats": ", ".join(name for (_, name), value in others.items() if value > 0),
                "beaten": ", ".join(name for (_, name), value in others.items() if value < 0),
            }
        )
    numbers = ("regret", "violation", "late", "regret_exponent", "violation_exponent")
    schema = {"family": pl.String, "n": pl.Int64, "failed": pl.Int64, **dict.fromkeys(numbers, pl.Float64)}
    return pl.DataFrame(rows, schema={**schema, "beats": pl.String, "beaten": pl.String})


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
