"""Whose a file of a store is: what it says it belongs to, and a checksum of itself.

A marker, a checkpoint or a request is believed if it names the run (or experiment), says the same of what was run, and
is, byte for byte, what it was when it was written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from flexdome.errors import FileFormatError
from flexdome.experiments.specs import RunSpec
from flexdome.experiments.store_files import as_json

__all__ = ["FORMAT", "OURS", "SHA256", "check_label", "check_seal", "label_of", "listed_files", "sealed"]

FORMAT = 2  # of marker and checkpoint; 1 had no checksum of itself
OURS = re.compile(
    r"history\.parquet|(run|checkpoint|failure)\.json|part-[0-9]{12}\.parquet|learner-[0-9]{12}\.npz"
    r"|\.[0-9a-f]{16}\.tmp"
)
SHA256 = re.compile(r"[0-9a-f]{64}")


def label_of(run: RunSpec) -> dict[str, Any]:
    """What a file says of the run that it belongs to."""
    return {"format": FORMAT, "id": run.id, "run": run.model_dump(mode="json", exclude_none=True)}


def check_label(content: Mapping[str, Any], run: RunSpec, formats: tuple[int, ...]) -> None:
    """Refuse what does not say that it is of ``run``, or (from format 2 on) is not what it was when it said so."""
    kind = content.get("format")
    if type(kind) is not int or kind not in formats:
        raise FileFormatError(f"its format is {kind!r}; it must be {' or '.join(map(str, formats))}")
    if kind == 1 and "sha256" in content:
        raise FileFormatError("it is of format 1 and has a checksum, which that format had not")
    if kind > 1:
        check_seal(content)
    if content.get("id") != run.id:
        raise FileFormatError(f"it is of run {content.get('id')!r}, not of {run.id}")
    if _essence(content.get("run")) != _essence(label_of(run)["run"]):
        raise FileFormatError("what it says was run is not this run")


def _essence(spec: Any) -> Any:
    """What was run, without what is not part of the id: labels, and the place of a model file."""
    if not isinstance(spec, dict):
        return None
    without = {"environment": ("label", "file", "sha256"), "learner": ("label",)}
    return {
        key: {name: item for name, item in value.items() if name not in without.get(key, ())}
        if isinstance(value, dict)
        else value
        for key, value in spec.items()
    }


def sealed(content: Mapping[str, Any]) -> bytes:
    """The content as JSON, with a checksum of it."""
    return as_json({**content, "sha256": hashlib.sha256(as_json(content)).hexdigest()})


def check_seal(content: Mapping[str, Any]) -> None:
    """Refuse what is not as it was when it was sealed."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    if content.get("format") != FORMAT or hashlib.sha256(as_json(rest)).hexdigest() != content.get("sha256"):
        raise FileFormatError("its checksum of itself does not match")


def listed_files(content: Mapping[str, Any]) -> dict[str, str]:
    """The files that a marker or a checkpoint lists; names are the store's own, so none leads out of the directory."""
    files = content.get("files")
    if not isinstance(files, dict) or not files:
        raise FileFormatError("it lists no files")
    for name, digest in files.items():
        if not OURS.fullmatch(name):
            raise FileFormatError(f"it lists {name!r}, which is no name of this store")
        if not isinstance(digest, str) or not SHA256.fullmatch(digest):
            raise FileFormatError(f"it lists {name} without a checksum")
    return dict(files)
