"""The published numbers: one row for every run of our learners on the suite, in a Parquet file of the package.

Final numbers, not curves. A row says which run it is (family, instance and run seed, episodes; learner with id,
version, options and what it was told), with what it was computed, and what came out; the numbers of a run that failed
are null, and ``failure`` says why.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from flexdome.analysis import series_of
from flexdome.analysis.aggregation import GROWING
from flexdome.analysis.frames import as_table
from flexdome.analysis.statistics import growth_exponent
from flexdome.cmdp.archive import as_path, write_whole
from flexdome.cmdp.validation import as_items, instance_of, shown
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.experiments import ExperimentSpec, RunSpec, Store
from flexdome.experiments.code import code_of, said_code
from flexdome.ranking.suite import suite_experiments

__all__ = ["FILE", "NUMBERS", "SCHEMA", "final_numbers", "outdated", "publish", "published", "unpublished"]

FILE = "published.parquet"
NUMBERS = (
    "strong_regret",
    "strong_violation",
    "late_violation",
    "last_gap",
    "weak_regret",
    "weak_violation",
    "regret_exponent",
    "violation_exponent",
)
WORDS = ("family", "learner", "id", "code", "options", "told", "run", "made_with", "failure")
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("family", "learner", "id", "code", "options", "told"), pl.String),
    **dict.fromkeys(("instance", "seed", "episodes"), pl.Int64),
    "run": pl.String,
    "made_with": pl.String,
    **dict.fromkeys(NUMBERS, pl.Float64),
    "failure": pl.String,
}
NULLABLE = (*NUMBERS, "failure", "made_with")
MADE_WITH = ("flexdome", "python", "numpy", "numba")
MOST = 10_000


def final_numbers(store: Store, experiments: Iterable[ExperimentSpec]) -> pl.DataFrame:
    """The rows of the runs that are in ``store``: complete, or failed."""
    instance_of("store", store, Store)
    specs = as_items("experiments", experiments, "it must be a series of ExperimentSpec", MOST)
    rows: dict[str, dict[str, Any]] = {}
    for k, spec in enumerate(specs):
        for run in instance_of(f"experiments[{k}]", spec, ExperimentSpec).runs():
            row = _row(store, run)
            if row is not None:
                rows[run.id] = row
    frame = pl.DataFrame(list(rows.values()), schema=SCHEMA)
    return frame.sort("family", "learner", "seed", maintain_order=True)


def _row(store: Store, run: RunSpec) -> dict[str, Any] | None:
    learner = run.learner
    told = learner.problem.model_dump(mode="json", exclude_defaults=True)
    row: dict[str, Any] = {
        "family": run.environment.name,
        "learner": learner.name,
        "id": learner.id,
        "code": _json(learner.code),
        "options": _json(learner.options),
        "told": _json(told),
        "instance": run.instance,
        "seed": run.seed,
        "episodes": run.episodes,
        "run": run.id,
    }
    if store.has(run):
        versions = store.marker(run).get("versions")
        known = versions if isinstance(versions, Mapping) else {}
        row["made_with"] = _json({name: known.get(name, "not said") for name in MADE_WITH})
        series = series_of(store.read(run))
        finals = series.finals()
        row |= {name: finals[name] for name in NUMBERS if name in finals}
        for metric in GROWING:
            found = growth_exponent(series.of(metric)[None], resamples=1)
            row[f"{metric.removeprefix('strong_')}_exponent"] = None if found is None else found.value
        return row
    failure = store.failure(run)
    return None if failure is None else {**row, "failure": failure.reason}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


@cache
def published() -> pl.DataFrame:
    """The numbers that came with the package.

    >>> from flexdome.ranking import published
    >>> set(published()["episodes"])
    {20000}
    """
    source = files(__package__) / FILE
    if not source.is_file():
        raise FlexDOMEError(
            "this installation of flexdome has no published ranking; `flexdome rank --publish --anew` makes one"
        )
    frame = pl.read_parquet(io.BytesIO(source.read_bytes()), glob=False)
    return as_table("published", frame, SCHEMA, nullable=NULLABLE).select(*SCHEMA)


def outdated(table: pl.DataFrame) -> list[str]:
    """The learners whose code is not the present one: ``"ProxDOME (version 4, now version 5)"``."""
    names = ("learner", "id", "code", "options")
    table = as_table("table", table, dict.fromkeys(names, pl.String))
    found = []
    for learner, id, code, options in table.select(names).unique(maintain_order=True).iter_rows():
        then, now = _read(learner, "code", code), code_of(id, _read(learner, "options", options))
        if then != now:
            found.append(f"{learner} ({said_code(then)}, now {said_code(now)})")
    return found


def _read(learner: str, name: str, text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise ValidationError(f"table.{name} of {learner} is {shown(text)}; it must be JSON by name")
    return read


def unpublished(table: pl.DataFrame) -> list[ExperimentSpec]:
    """The part of the suite that ``table`` has no rows of: new learners, and those with a new version or new options.

    >>> from flexdome.ranking import published, unpublished
    >>> sum(len(part.learners) for part in unpublished(published().head(0))) > 20
    True
    """
    known = set(as_table("table", table, {"run": pl.String})["run"].to_list())
    parts: list[ExperimentSpec] = []
    for spec in suite_experiments():
        missing: dict[tuple[str, int], list[str]] = {}  # by learner and seed, the families
        for run in spec.runs():
            if run.id not in known:
                missing.setdefault((run.learner.name, run.seed), []).append(run.environment.name)
        alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[str]] = {}  # by families and seeds, the learners
        for learner in spec.learners:
            of_seeds: dict[tuple[str, ...], list[int]] = {}
            for seed in spec.seeds:
                if (learner.name, seed) in missing:
                    of_seeds.setdefault(tuple(missing[learner.name, seed]), []).append(seed)
            for families, seeds in of_seeds.items():
                alike.setdefault((families, tuple(seeds)), []).append(learner.name)
        parts += [
            spec.changed(
                name=f"{spec.name}-missing-{number}",
                seeds=seeds,
                environments=tuple(row for row in spec.environments if row.name in families),
                learners=tuple(row for row in spec.learners if row.name in learners),
            )
            for number, ((families, seeds), learners) in enumerate(alike.items(), 1)
        ]
    return parts


def publish(store: Store, path: Path | None = None, keep: pl.DataFrame | None = None) -> tuple[Path, pl.DataFrame]:
    """Write the numbers of the suite that are in ``store``; the package's own file unless ``path`` says otherwise.

    Of the rows of ``keep``, a published table, those stay whose run is one of the present suite and is not in
    ``store``: a run's id says the learner's version and options, so that a row with the same id is of the same run.
    """
    suite = suite_experiments()
    frame = final_numbers(store, suite)
    if keep is not None:
        names = {run.id: (run.environment.name, run.learner.name) for spec in suite for run in spec.runs()}
        there = set(frame["run"].to_list())
        rows = [
            {**row, "family": names[row["run"]][0], "learner": names[row["run"]][1]}
            for row in as_table("keep", keep, SCHEMA, nullable=NULLABLE).select(*SCHEMA).iter_rows(named=True)
            if row["run"] in names and row["run"] not in there
        ]
        frame = pl.concat([frame, pl.DataFrame(rows, schema=SCHEMA)]).sort("family", "learner", "seed")
    target = Path(str(files(__package__) / FILE)) if path is None else as_path("path", path)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=19, statistics=False)
    write_whole(target, buffer.getvalue())
    published.cache_clear()
    return target, frame
