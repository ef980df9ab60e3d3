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

__all__ = ["FILE", "NUMBERS", "SCHEMA", "final_numbers", "outdated", "publish", "published"]

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
            "this installation of flexdome has no published ranking; `flexdome rank --publish` makes one"
        )
    frame = pl.read_parquet(io.BytesIO(source.read_bytes()), glob=False)
    return as_table("published", frame, SCHEMA, nullable=(*NUMBERS, "failure", "made_with")).select(*SCHEMA)


def outdated(table: pl.DataFrame) -> list[str]:
    """The learners whose code is not the present one: ``"ProxDOME (version 4, now version 5)"``."""
    table = as_table("table", table, {"learner": pl.String, "id": pl.String, "code": pl.String})
    found = []
    for learner, id, code in table.select("learner", "id", "code").unique(maintain_order=True).iter_rows():
        try:
            then = json.loads(code)
        except ValueError:
            raise ValidationError(f"table.code of {learner} is {shown(code)}; it must be JSON") from None
        now = code_of(id)
        if then != now:
            found.append(f"{learner} ({said_code(then)}, now {said_code(now)})")
    return found


def publish(store: Store, path: Path | None = None) -> tuple[Path, pl.DataFrame]:
    """Write the numbers of the suite that are in ``store``; the package's own file unless ``path`` says otherwise."""
    frame = final_numbers(store, suite_experiments())
    target = Path(str(files(__package__) / FILE)) if path is None else as_path("path", path)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=19, statistics=False)
    write_whole(target, buffer.getvalue())
    published.cache_clear()
    return target, frame
