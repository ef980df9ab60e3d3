"""Learners compared on the runs that they share: where runs are missing, means over different seeds say nothing."""

from __future__ import annotations

import polars as pl

from flexdome.analysis.comparison import KEYS

__all__ = ["GROWING", "MOST_NAMES", "beaten_by", "common_runs", "listed"]

GROWING = ("strong_regret", "strong_violation")
MOST_NAMES = 3  # who beat a learner, in a table


def common_runs(finals: pl.DataFrame) -> pl.DataFrame:
    """The runs whose instance and seed every learner has that has any run on their environment."""
    learners = pl.col("learner").n_unique()
    return finals.filter(learners.over(list(KEYS)) == learners.over("environment"))


def beaten_by(finals: pl.DataFrame) -> dict[tuple[str, str], list[str]]:
    """By environment and learner, who beats it: less of one of regret and violation and no more of the other.

    As in the ranking, means are over the runs that both have, and nobody is compared where there are none.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for (environment,), group in finals.group_by(["environment"], maintain_order=True):
        runs = {
            str(name): part.select("instance", "seed", *GROWING)
            for (name,), part in group.group_by(["learner"], maintain_order=True)
        }
        for a, of_a in runs.items():
            others = found.setdefault((str(environment), a), [])
            for b, of_b in runs.items():
                both = of_a.join(of_b, on=["instance", "seed"], suffix="_b")
                if a == b or not both.height:
                    continue
                more = [both[metric].to_numpy().mean() - both[f"{metric}_b"].to_numpy().mean() for metric in GROWING]
                if min(more) >= 0.0 and max(more) > 0.0:
                    others.append(b)
    return found


def listed(names: list[str], most: int | None = None) -> str:
    """``a, b and c``; of more than ``most`` names the rest is counted.

    >>> listed(["a", "b", "c", "d", "e"], most=2)
    'a, b and 3 others'
    """
    if most is not None and len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
