"""From stored runs to tables over seeds, one run in memory at a time.

``aggregate`` reads every run once and keeps of it what the tables need: the series at the episodes of a grid, at those
of the exponents' fit, and the final numbers. Cumulative series are computed from all episodes before they are sampled,
and nothing is smoothed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.analysis.frames import as_table, check_column
from flexdome.analysis.metrics import METRICS, constraint_metrics, series_of
from flexdome.analysis.statistics import bootstrap_interval, exponent_episodes, exponent_of_samples, iqm, mean_and_error
from flexdome.cmdp.validation import Float, as_float, as_int, as_items, as_text, instance_of, one_of, shown, switch
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.experiments import ExperimentSpec, RunSpec

__all__ = ["FINALS", "Reader", "Results", "aggregate", "sensitivity", "summary"]

POINTS = 400  # of a curve: more than a printed panel can show
MOST_POINTS, MOST_THREADS = 10**6, 1024
GROWING = ("strong_regret", "strong_violation")
FINALS = (
    "strong_regret",
    "strong_violation",
    "weak_regret",
    "weak_violation",
    "late_regret",
    "late_violation",
    "last_gap",
    "last_violation",
    "crossings",
    "wobble",
)
CURVE_SCHEMA = {
    "environment": pl.String,
    "learner": pl.String,
    "metric": pl.String,
    "episode": pl.Int64,
    "mean": pl.Float64,
    "se": pl.Float64,
    "n": pl.Int64,
}
FINAL_SCHEMA = {
    "environment": pl.String,
    "learner": pl.String,
    "instance": pl.Int64,
    "seed": pl.Int64,
    "run": pl.String,
    "episodes": pl.Int64,
    **dict.fromkeys(FINALS, pl.Float64),
}
EXPONENT_SCHEMA = {
    "environment": pl.String,
    "learner": pl.String,
    "metric": pl.String,
    "exponent": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "points": pl.Int64,
    "n": pl.Int64,
}


class Reader(Protocol):
    """What is asked of a store."""

    def has(self, run: RunSpec) -> bool:
        """Whether the run is complete."""

    def read(self, run: RunSpec, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The history of a complete run."""


@dataclass(frozen=True)
class Results:
    """The tables of one experiment.

    Attributes
    ----------
    experiment : what was asked for
    curves : environment, learner, metric, episode, mean, se, n; ``se`` is null where n = 1
    finals : one row a run: environment, learner, instance, seed, run, episodes, and the numbers of ``FINALS``
    exponents : environment, learner, metric, exponent, low, high, points, n; null where there is none
    missing : the runs that are not in the store
    """

    experiment: ExperimentSpec
    curves: pl.DataFrame
    finals: pl.DataFrame
    exponents: pl.DataFrame
    missing: tuple[RunSpec, ...] = ()

    def __post_init__(self) -> None:
        experiment = instance_of("experiment", self.experiment, ExperimentSpec)
        names = {
            "environment": [environment.name for environment in experiment.environments],
            "learner": [learner.name for learner in experiment.learners],
        }
        for name, schema, nullable in (
            ("curves", CURVE_SCHEMA, ("se",)),
            ("finals", FINAL_SCHEMA, ()),
            ("exponents", EXPONENT_SCHEMA, ("exponent", "low", "high", "points")),
        ):
            frame = as_table(name, getattr(self, name), schema, nullable)
            for column, known in names.items():
                rule = f"the experiment has {', '.join(known)}"
                check_column(name, frame[column], frame[column].is_in(known), rule)
            object.__setattr__(self, name, frame)
        missing = as_items("missing", self.missing, "it must be a series of RunSpec", MOST_POINTS)
        object.__setattr__(self, "missing", tuple(instance_of("missing", run, RunSpec) for run in missing))


@dataclass(frozen=True)
class _Digest:
    """What is kept of a run: values of metrics at the grid, (2, 50) at the exponents' episodes, the final numbers."""

    metrics: tuple[str, ...]
    curve: Float
    growth: Float
    finals: dict[str, float]


def aggregate(
    store: Reader,
    experiment: ExperimentSpec,
    points: int = POINTS,
    skip_missing: bool = False,
    threads: int | None = None,
    constraints: bool = False,
) -> Results:
    """All tables of an experiment, every run read once.

    Parameters
    ----------
    points : episodes of a curve, evenly spaced from 1 to T
    skip_missing : go on without the runs that the store does not have, and list them in ``missing``; else an error
    threads : readers at work (None: one a core, four at most)
    constraints : also curves of every single constraint, where there are several
    """
    if not all(callable(getattr(store, name, None)) for name in ("has", "read")):
        raise ValidationError(f"store is {shown(store)}; it must have the methods has and read, as a Store")
    instance_of("experiment", experiment, ExperimentSpec)
    points = as_int("points", points, 2, MOST_POINTS)
    skip_missing, constraints = switch("skip_missing", skip_missing), switch("constraints", constraints)
    if threads is not None:
        threads = as_int("threads", threads, 1, MOST_THREADS)
    grid = np.unique(np.rint(np.linspace(1, experiment.episodes, points)).astype(np.int64))
    growth = exponent_episodes(experiment.episodes)
    runs = list(experiment.runs())
    missing = tuple(run for run in runs if not store.has(run))
    if missing and not skip_missing:
        first = missing[0]
        raise FlexDOMEError(
            f"{len(missing)} of {len(runs)} runs of {experiment.name} are not in the store, the first being "
            f"{first.learner.name} on {first.environment.name} with seed {first.seed}; run the experiment to the end"
        )
    left_out = {id(run) for run in missing}
    present = [run for run in runs if id(run) not in left_out]
    with ThreadPoolExecutor(threads or min(4, os.cpu_count() or 1)) as pool:
        digests = list(pool.map(lambda run: _digest(store, run, grid, growth, constraints), present))
    groups: dict[tuple[str, str], list[_Digest]] = {}
    for run, digest in zip(present, digests, strict=True):
        groups.setdefault((run.environment.name, run.learner.name), []).append(digest)
    return Results(
        experiment=experiment,
        curves=_curves(groups, grid),
        finals=_finals(present, digests),
        exponents=_exponents(groups, growth),
        missing=missing,
    )


def summary(
    finals: pl.DataFrame, by: Sequence[str] = ("environment", "learner"), metrics: Iterable[str] = FINALS, seed: int = 0
) -> pl.DataFrame:
    """Mean, standard error, interquartile mean and 95 % bootstrap intervals of the final numbers.

    ``by=("learner",)`` pools environments; the bootstrap then resamples within each of them. Raw regrets of different
    environments have different scales, so a pooled mean speaks of the environments with the largest.

    Returns
    -------
    the columns of ``by``, then metric, n, mean, se, low, high (of the mean), iqm, iqm_low, iqm_high; se and intervals
    are null where n = 1
    """
    keys, wanted = _columns(finals, "by", by), _columns(finals, "metrics", metrics)
    if not keys:
        raise ValidationError("by is empty; it must name the columns to group by")
    finals = as_table(
        "finals", finals, {**dict.fromkeys(("environment", *keys), pl.String), **dict.fromkeys(wanted, pl.Float64)}
    )
    rows: list[dict[str, Any]] = []
    for key, group in finals.group_by(keys, maintain_order=True):
        strata = group["environment"].to_list()
        for metric in wanted:
            values = group[metric].to_numpy()
            mean, error = mean_and_error(values)
            interval = bootstrap_interval(values, np.mean, strata, seed=seed)
            middle = bootstrap_interval(values, iqm, strata, seed=seed)
            rows.append(
                {
                    **dict(zip(keys, key, strict=True)),
                    "metric": metric,
                    "n": values.size,
                    "mean": float(mean),
                    "se": _or_null(float(error)),
                    "low": interval.low if interval else None,
                    "high": interval.high if interval else None,
                    "iqm": float(iqm(values)),
                    "iqm_low": middle.low if middle else None,
                    "iqm_high": middle.high if middle else None,
                }
            )
    numbers = ("mean", "se", "low", "high", "iqm", "iqm_low", "iqm_high")
    schema: dict[str, Any] = {**dict.fromkeys(keys, pl.String), "metric": pl.String, "n": pl.Int64}
    return pl.DataFrame(rows, schema={**schema, **dict.fromkeys(numbers, pl.Float64)})


def sensitivity(results: Results, option: str, metrics: Sequence[str] = GROWING) -> pl.DataFrame:
    """Final numbers against a learner's option, for an experiment whose learners differ in it.

    Returns
    -------
    environment, scale (the option's value), metric, mean, se, n; by environment and scale
    """
    instance_of("results", results, Results)
    option = as_text("option", option)
    scales: dict[str, float] = {}
    for learner in results.experiment.learners:
        value = as_float(f"option {option} of {learner.name}", learner.options.get(option))
        if value in scales.values():
            raise ValidationError(f"two learners have {option} = {value}; a sensitivity needs one of each")
        scales[learner.name] = value
    table = summary(results.finals, metrics=metrics)
    return (
        table.with_columns(pl.col("learner").replace_strict(scales, return_dtype=pl.Float64).alias("scale"))
        .select("environment", "scale", "metric", "mean", "se", "n")
        .sort("environment", "scale", "metric", maintain_order=True)
    )


def _columns(frame: pl.DataFrame, name: str, value: Iterable[str]) -> list[str]:
    """Names of columns of ``frame``, each once."""
    known = as_table("finals", frame, {}).columns
    items = as_items(name, value, "it must be names of columns", MOST_POINTS)
    return list(
        dict.fromkeys(one_of(f"{name}[{k}]", item, known, "the name of a column") for k, item in enumerate(items))
    )


def _digest(
    store: Reader, run: RunSpec, grid: npt.NDArray[np.int64], growth: npt.NDArray[np.int64], constraints: bool
) -> _Digest:
    frame = store.read(run)
    if frame.height != run.episodes:
        raise ValidationError(f"run {run.id} has {frame.height} episodes; it must have {run.episodes}")
    series = series_of(frame)
    m = len(series.violations)
    metrics = (*METRICS, *(constraint_metrics(m) if constraints and m > 1 else ()))
    return _Digest(
        metrics=metrics,
        curve=np.stack([series.of(name)[grid - 1] for name in metrics]),
        growth=np.stack([getattr(series, name)[growth - 1] for name in GROWING]),
        finals=series.finals(),
    )


def _curves(groups: dict[tuple[str, str], list[_Digest]], grid: npt.NDArray[np.int64]) -> pl.DataFrame:
    parts = []
    for (environment, learner), digests in groups.items():
        mean, error = mean_and_error(np.stack([digest.curve for digest in digests]))
        for k, metric in enumerate(digests[0].metrics):
            parts.append(
                pl.DataFrame({"episode": grid, "mean": mean[k], "se": error[k]}).select(
                    pl.lit(environment).alias("environment"),
                    pl.lit(learner).alias("learner"),
                    pl.lit(metric).alias("metric"),
                    "episode",
                    "mean",
                    pl.col("se").fill_nan(None),
                    pl.lit(len(digests), dtype=pl.Int64).alias("n"),
                )
            )
    return pl.concat(parts) if parts else pl.DataFrame(schema=CURVE_SCHEMA)


def _finals(runs: Sequence[RunSpec], digests: Sequence[_Digest]) -> pl.DataFrame:
    rows = [
        {
            "environment": run.environment.name,
            "learner": run.learner.name,
            "instance": run.instance,
            "seed": run.seed,
            "run": run.id,
            "episodes": run.episodes,
            **digest.finals,
        }
        for run, digest in zip(runs, digests, strict=True)
    ]
    return pl.DataFrame(rows, schema=FINAL_SCHEMA)


def _exponents(groups: dict[tuple[str, str], list[_Digest]], t: npt.NDArray[np.int64]) -> pl.DataFrame:
    rows = []
    for (environment, learner), digests in groups.items():
        samples = np.stack([digest.growth for digest in digests])
        for k, metric in enumerate(GROWING):
            found = exponent_of_samples(samples[:, k], t)
            rows.append(
                {
                    "environment": environment,
                    "learner": learner,
                    "metric": metric,
                    "exponent": found.value if found else None,
                    "low": found.low if found else None,
                    "high": found.high if found else None,
                    "points": found.points if found else None,
                    "n": len(digests),
                }
            )
    return pl.DataFrame(rows, schema=EXPONENT_SCHEMA)


def _or_null(value: float) -> float | None:
    return None if np.isnan(value) else value
