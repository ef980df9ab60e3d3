"""Settings of a learner against each other, by a score that the user chooses.

A score is a sum of final numbers with weights, such as ``"strong_regret + 10 * strong_violation"``, taken in every run.
Over runs it is a geometric mean (of the score plus one, so that environments of different scales count alike), a mean,
or the worst run.
"""

from __future__ import annotations

import re

import polars as pl

from flexdome.analysis.aggregation import FINAL_SCHEMA, FINALS
from flexdome.analysis.frames import as_table
from flexdome.cmdp.validation import as_float, as_text, one_of
from flexdome.errors import ValidationError, unknown_name

__all__ = ["OVER", "SCORE", "parse_score", "ranked_settings"]

SCORE = "strong_regret + strong_violation"
OVER = ("geometric", "mean", "worst")
TERM = re.compile(r"(?:(?P<weight>[0-9.eE+-]+?)\s*\*\s*)?(?P<metric>[a-z_]+)")
HEAVIEST = 1e12


def parse_score(text: str) -> dict[str, float]:
    """The weights of a score.

    >>> parse_score("strong_regret + 10 * strong_violation")
    {'strong_regret': 1.0, 'strong_violation': 10.0}
    """
    weights: dict[str, float] = {}
    for term in re.split(r"(?<![eE])\+", as_text("score", text)):
        found = TERM.fullmatch(term.strip())
        if found is None:
            raise ValidationError(
                f"score has {term.strip()!r}; it must be a sum like '{SCORE}', with weights like '10 *'"
            )
        metric = found["metric"]
        if metric not in FINALS:
            raise unknown_name("metric of a score", metric, FINALS)
        if metric in weights:
            raise ValidationError(f"score has {metric} twice; it may appear once")
        try:
            weight = float(found["weight"] or 1.0)
        except ValueError:
            raise ValidationError(f"score has the weight {found['weight']!r}; it must be a number") from None
        weights[metric] = as_float(f"weight of {metric}", weight, 0.0, HEAVIEST)
    return weights


def ranked_settings(finals: pl.DataFrame, score: str = SCORE, over: str = "geometric") -> pl.DataFrame:
    """The learners of ``finals``, the lowest score first.

    Parameters
    ----------
    finals : as ``Results.finals``
    score : a sum of final numbers, with weights
    over : ``"geometric"``, ``"mean"`` or ``"worst"``

    Returns
    -------
    learner, score, strong_regret, strong_violation (means), n

    Examples
    --------
    >>> import polars as pl
    >>> runs = {"learner": ["a", "b"], "strong_regret": [3.0, 1.0], "strong_violation": [0.0, 1.0]}
    >>> ranked_settings(pl.DataFrame(runs), "strong_regret + 10 * strong_violation", "mean")["learner"].to_list()
    ['a', 'b']
    """
    weights, over = parse_score(score), one_of("over", over, OVER)
    wanted = dict.fromkeys(("strong_regret", "strong_violation", *weights), pl.Float64)
    finals = as_table("finals", finals, {"learner": FINAL_SCHEMA["learner"], **wanted})
    value = sum((weight * pl.col(metric) for metric, weight in weights.items()), pl.lit(0.0))
    scored = finals.with_columns(value.alias("score"))
    if over == "geometric":
        if scored.height and float(scored["score"].to_numpy().min()) < 0.0:
            raise ValidationError(f"score {score!r} is below 0 in some run; take the mean or the worst over runs")
        together = (pl.col("score") + 1.0).log().mean().exp()
    else:
        together = pl.col("score").mean() if over == "mean" else pl.col("score").max()
    means = [pl.col(name).mean().alias(f"mean_{name}") for name in ("strong_regret", "strong_violation")]
    table = scored.group_by("learner", maintain_order=True).agg(together.alias("score"), *means, pl.len().alias("n"))
    names = {f"mean_{name}": name for name in ("strong_regret", "strong_violation")}
    return table.rename(names).with_columns(pl.col("n").cast(pl.Int64)).sort("score", "learner", maintain_order=True)
