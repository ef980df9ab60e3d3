"""What a store takes and gives: the episodes of a run as a table, the facts of its marker, the learner's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.cmdp.archive import read_archive
from flexdome.cmdp.validation import as_raw, shown
from flexdome.errors import FileFormatError, ValidationError
from flexdome.experiments.specs import RunSpec
from flexdome.experiments.store_files import as_json
from flexdome.learners.files import FORMAT as KIND
from flexdome.learners.files import VERSION

__all__ = ["as_facts", "as_frame", "check_episodes", "check_learner_file"]

COLUMN = re.compile(r"reward_gap|(violation|multiplier)_[0-9]+")


def as_frame(columns: Mapping[str, npt.NDArray[Any]]) -> pl.DataFrame:
    """The next episodes of a run, as a table."""
    if not isinstance(columns, Mapping):
        raise ValidationError(f"columns is {shown(columns)}; it must be arrays by name")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, value in columns.items():
        kind = np.dtype(np.int64 if name == "episode" else np.float64)
        if not isinstance(name, str) or not (name == "episode" or COLUMN.fullmatch(name)):
            raise ValidationError(f"columns has {shown(name)}, which is no column of a run")
        array = as_raw(f"columns[{name!r}]", value)
        if array.dtype != kind or array.ndim != 1 or array.size == 0:
            raise ValidationError(
                f"columns[{name!r}] has shape {array.shape} of {array.dtype}; it must be (n,) of {kind}"
            )
        arrays[name] = array
    for name in ("episode", "reward_gap"):
        if name not in arrays:
            raise ValidationError(f"columns has no {name!r}; it has {', '.join(arrays)}")
    sizes = {name: array.size for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise ValidationError(f"columns has arrays of different lengths: {sizes}")
    return pl.DataFrame(arrays)


def as_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a marker says besides, which must be data that JSON has."""
    if not isinstance(facts, Mapping) or not all(isinstance(name, str) for name in facts):
        raise ValidationError(f"facts is {shown(facts)}; it must be values by name")
    try:
        as_json(dict(facts))
    except Exception as error:  # of values that are no JSON, and of whatever their methods raise
        raise ValidationError(f"facts cannot be written as JSON: {error}") from error
    return dict(facts)


def check_episodes(path: Path, frame: pl.DataFrame, first: int, last: int) -> None:
    """Refuse a table of other episodes or columns than the store's."""
    names = [name for name in frame.columns if name != "episode"]
    plain = all(COLUMN.fullmatch(name) and frame.schema[name] == pl.Float64 for name in names)
    if not plain or "reward_gap" not in names or frame.schema.get("episode") != pl.Int64:
        raise FileFormatError(f"{path} is damaged: its columns are not those of a run")
    if frame.null_count().row(0) != (0,) * frame.width or not np.array_equal(
        frame["episode"].to_numpy(), np.arange(first, last + 1)
    ):
        raise FileFormatError(f"{path} is damaged: its episodes are not {first} to {last}")


def check_learner_file(path: Path, run: RunSpec, episode: int) -> None:
    """Refuse the file of another learner, or of this one at another episode."""
    header, _ = read_archive(path, KIND, VERSION)
    options = header.get("options")
    given = options if isinstance(options, dict) else {}
    expected: dict[str, Any] = {"episode": episode, "episodes": run.episodes, "seed": run.seed}
    if (id := run.learner.saved_as) is not None:
        expected["learner"] = id
    for name, value in expected.items():
        found = header.get(name) if name in ("learner", "episode") else given.get(name, value)
        if found != value:
            raise FileFormatError(f"{path} is not of this run: its {name} is {found!r}, not {value!r}")
