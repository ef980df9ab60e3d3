"""CMDPs in files. Loading runs the whole validation again: a file is input like any other.

Rewards and utilities are stored with every step even where they are stationary, as they are in memory, so
that no file makes the program allocate much more than the file's own size.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy.typing as npt

from flexdome.cmdp.archive import read_archive, write_archive
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.threshold import Threshold
from flexdome.cmdp.validation import shown
from flexdome.errors import FileFormatError, ValidationError

__all__ = ["load_cmdp", "save_cmdp"]

FORMAT = "flexdome-cmdp"
VERSION = 1


def save_cmdp(cmdp: CMDP, path: str | os.PathLike[str]) -> None:
    """Write ``cmdp`` to ``path`` (one file, no pickle, atomically)."""
    if not isinstance(cmdp, CMDP):
        raise ValidationError(f"cmdp is {shown(cmdp)}; it must be a CMDP")
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": cmdp.name,
        "noise": cmdp.noise,
        "stationary": cmdp.stationary,
        "sparse": cmdp.is_sparse,
        "costs": cmdp.is_cost_form,
        "laws": [asdict(law) for law in (cmdp.limits if cmdp.is_cost_form else cmdp.thresholds)],
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "p": cmdp.model.p,
        "initial": cmdp.initial,
        "rewards": cmdp.rewards,
        "entries": cmdp.costs if cmdp.is_cost_form else cmdp.utilities,
    }
    if cmdp.is_sparse:
        arrays["next_states"] = cmdp.model.nxt
    if cmdp.allowed is not None:
        arrays["allowed"] = cmdp.allowed
    write_archive(path, header, arrays)


def load_cmdp(path: str | os.PathLike[str]) -> CMDP:
    """Read a CMDP that :func:`save_cmdp` wrote; a file that is damaged or not to be trusted is refused."""
    header, arrays = read_archive(path, FORMAT, VERSION)
    try:
        return _rebuilt(header, arrays)
    except ValidationError as error:
        raise FileFormatError(f"{path} does not hold a valid CMDP: {error}") from None


def _rebuilt(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> CMDP:
    _expect("header", header, ("format", "version", "name", "noise", "stationary", "sparse", "costs", "laws"))
    for key in ("stationary", "sparse", "costs"):
        if not isinstance(header[key], bool):
            raise ValidationError(f"{key} is {shown(header[key])}; it must be true or false")
    ranks = {"p": 4, "initial": 1, "rewards": 3, "entries": 4}
    if header["sparse"]:
        ranks["next_states"] = 4
    if "allowed" in arrays:  # only where an action is forbidden
        ranks["allowed"] = 3
    _expect("arrays", arrays, ranks)
    for key, rank in ranks.items():
        if arrays[key].ndim != rank or 0 in arrays[key].shape:
            raise ValidationError(f"{key} has shape {arrays[key].shape}; it must have {rank} axes, none empty")
    rewards, entries, p, nxt = arrays["rewards"], arrays["entries"], arrays["p"], arrays.get("next_states")
    horizon = rewards.shape[0]
    if entries.shape[1] != horizon:
        raise ValidationError(f"entries has {entries.shape[1]} steps; it must have {horizon}, as rewards has")
    if header["stationary"]:
        if p.shape[0] != 1:
            raise ValidationError(f"p has {p.shape[0]} steps; it must have 1 where stationary is true")
        rewards, entries = _one_step("rewards", rewards), _one_step("entries", entries.swapaxes(0, 1))
    if p.shape[0] == 1:  # stationary, or H = 1: the same numbers either way
        p, nxt = p[0], None if nxt is None else nxt[0]
    rest = (rewards, entries, _laws(header["laws"]), arrays["initial"])
    options: dict[str, Any] = {"horizon": horizon, "noise": header["noise"], "name": header["name"]}
    options["allowed"] = arrays.get("allowed")
    if header["costs"]:
        return CMDP.from_costs(p, *rest, next_states=nxt, **options)
    return CMDP(p, *rest, **options) if nxt is None else CMDP.from_successors(nxt, p, *rest, **options)


def _expect(what: str, given: Collection[str], keys: Collection[str]) -> None:
    if set(given) != set(keys):
        raise ValidationError(f"{what} has {shown(sorted(given))}; it must have {', '.join(sorted(keys))}")


def _one_step(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if (array != array[:1]).any():
        raise ValidationError(f"{name} differs between steps; it must not where stationary is true")
    first: npt.NDArray[Any] = array[0]
    return first


def _laws(stored: Any) -> list[Threshold]:
    if not isinstance(stored, list):
        raise ValidationError(f"laws is {shown(stored)}; it must be a list")
    for i, law in enumerate(stored):
        if not isinstance(law, dict):
            raise ValidationError(f"laws[{i}] is {shown(law)}; it must be an object")
        _expect(f"laws[{i}]", law, ("law", "parameters", "per", "clip"))
    return [Threshold(**law) for law in stored]
