"""What was asked for, and the model files that it needs, inside a store.

::

    DIR/experiments/<name>-<id>.json    an experiment, and which code its learners were
    DIR/models/<sha256>.npz             a copy of every model file, by its content

A request names a model by its checksum, so that the directory can be moved and the file renamed or removed. A request
from before models were copied names the file's place too; its results are found by the checksum all the same.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flexdome.errors import FileFormatError, ValidationError
from flexdome.experiments.absent import stored_learner
from flexdome.experiments.code import Code
from flexdome.experiments.labels import FORMAT, SHA256, check_seal, sealed
from flexdome.experiments.specs import EnvironmentSpec, ExperimentSpec
from flexdome.experiments.store_files import is_file, make_folder, read_bytes, read_json, require_folder, write

__all__ = ["MODELS", "REQUESTS", "Request", "read_request", "read_requests", "write_request"]

REQUESTS, MODELS = "experiments", "models"


@dataclass(frozen=True)
class Request:
    """An experiment, and by its learners' names which code they were when it was asked for (empty: not said)."""

    experiment: ExperimentSpec
    code: Mapping[str, Code]


def write_request(folder: Path, experiment: ExperimentSpec) -> None:
    """Keep an experiment and its models in the store at ``folder``; another of the same name stays."""
    for row in experiment.environments:
        data = row.model()
        if data is not None:
            _keep(folder, str(row.digest), data)
    rows = [row if row.file is None else _by_content(row) for row in experiment.environments]
    kept = experiment.changed(environments=rows).model_dump(mode="json", exclude_none=True)
    for row in kept["environments"]:
        if "file" in row:
            row["file"] = Path(row["file"]).name
    content = {
        "format": FORMAT,
        "experiment": kept,
        "models": {row.name: row.digest for row in rows if row.digest is not None},
        "code": {learner.name: learner.code for learner in experiment.learners},
    }
    path = folder / REQUESTS / f"{experiment.name}-{experiment.id}.json"
    make_folder(path.parent)
    write(path, sealed(content))


def _by_content(row: EnvironmentSpec) -> EnvironmentSpec:
    return EnvironmentSpec(file=row.file, sha256=row.digest, label=row.name)


def _keep(folder: Path, digest: str, data: bytes) -> None:
    path = folder / MODELS / f"{digest}.npz"
    make_folder(path.parent)
    if not is_file(path) or hashlib.sha256(read_bytes(path)).hexdigest() != digest:
        write(path, data)


def read_requests(folder: Path) -> list[Path]:
    """The files of all requests, the latest last."""
    place = folder / REQUESTS
    if os.path.lexists(place):
        require_folder(place)
    return sorted(place.glob("*.json"), key=lambda path: path.lstat().st_mtime_ns)


def read_request(path: Path) -> Request:
    """One request; a file that is damaged is refused with its name.

    A learner that cannot be made here is as it was: its results are found all the same.
    """
    content = read_json(path)
    asked = content.get("experiment")
    if not isinstance(asked, dict):
        raise FileFormatError(f"{path} holds no experiment; remove it, and run the experiment again")
    try:
        if content.get("format", 1) != 1 or "sha256" in content:
            check_seal(content)
        models = content.get("models")
        rows = asked.get("environments")
        if isinstance(rows, list):
            placed = [_placed(row, models if isinstance(models, dict) else {}, path.parents[1]) for row in rows]
            asked = {**asked, "environments": placed}
        code, rows = _code(content.get("code")), asked.get("learners")
        if isinstance(rows, list):
            asked = {**asked, "learners": [stored_learner(row, code) for row in rows]}
        return Request(ExperimentSpec(**asked), code)
    except (FileFormatError, ValidationError) as error:
        raise FileFormatError(f"{path}: {error}") from None


def _placed(row: Any, models: Mapping[str, Any], folder: Path) -> Any:
    """A row of the table of environments whose model is the store's copy of it, if there is one."""
    if not isinstance(row, dict) or not isinstance(row.get("file"), str):
        return row
    name = row.get("label") or Path(row["file"]).stem
    digest = row.get("sha256", models.get(name))
    if not isinstance(digest, str) or not SHA256.fullmatch(digest):
        raise FileFormatError(f"it names {row['file']} without a checksum")
    copy = folder / MODELS / f"{digest}.npz"
    there = is_file(copy) or not Path(row["file"]).is_absolute()
    return {**row, "label": name, "sha256": digest, "file": copy if there else Path(row["file"])}


def _code(given: Any) -> dict[str, Code]:
    if not isinstance(given, dict):
        return {}
    return {name: dict(code) for name, code in given.items() if isinstance(code, dict)}
