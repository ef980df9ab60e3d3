"""CMDPs in files. Loading runs the whole validation again: a file is input like any other."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from flexdome.cmdp.archive import read_archive, write_archive
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.threshold import Threshold
from flexdome.cmdp.validation import frozen
from flexdome.errors import FileFormatError, ValidationError

__all__ = ["load_cmdp", "save_cmdp"]

FORMAT = "flexdome-cmdp"
VERSION = 1


def save_cmdp(cmdp: CMDP, path: str | os.PathLike[str]) -> None:
    """Write ``cmdp`` to ``path`` (one file, no pickle, atomically)."""
    p, nxt, f, mu = cmdp.model
    arrays = {"p": p, "initial": mu}
    if cmdp.stationary:
        f = f[:, :1]
    arrays["rewards"], arrays["utilities"] = f[0], f[1:]
    if cmdp.is_sparse:
        arrays["next_states"] = nxt
    if cmdp._costs is not None:
        arrays["costs"] = cmdp._costs
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": cmdp.name,
        "horizon": cmdp.horizon,
        "noise": cmdp.noise,
        "stationary": cmdp.stationary,
        "thresholds": [asdict(law) for law in cmdp.thresholds],
        "limits": None if cmdp._limits is None else [asdict(law) for law in cmdp._limits],
    }
    write_archive(path, header, arrays)


def load_cmdp(path: str | os.PathLike[str]) -> CMDP:
    """Read a CMDP that :func:`save_cmdp` wrote; a file that is damaged or not to be trusted is refused."""
    header, arrays = read_archive(path, FORMAT, VERSION)
    try:
        p = arrays["p"]
        if p.shape[0] == 1:
            p = p[0]
        stationary = header["stationary"]
        r, d = arrays["rewards"], arrays["utilities"]
        if stationary:
            r, d = r[0], d[:, 0]
        options: dict[str, Any] = {
            "horizon": header["horizon"],
            "noise": header["noise"],
            "name": header["name"],
        }
        laws = _laws(header["thresholds"])
        if "next_states" in arrays:
            nxt = arrays["next_states"]
            nxt = nxt[0] if nxt.shape[0] == 1 else nxt
            cmdp = CMDP.from_successors(nxt, p, r, d, laws, arrays["initial"], **options)
        else:
            cmdp = CMDP(p, r, d, laws, arrays["initial"], **options)
        if header["limits"] is not None:
            costs = arrays["costs"]
            if costs.shape != cmdp.utilities.shape or (1.0 - costs != cmdp.utilities).any():
                raise ValidationError("costs and utilities disagree")
            cmdp._costs = frozen(costs)
            cmdp._limits = tuple(_laws(header["limits"]))
        return cmdp
    except (ValidationError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise FileFormatError(f"{path} does not hold a valid CMDP: {error}") from None


def _laws(stored: list[dict[str, Any]]) -> list[Threshold]:
    return [
        Threshold(law["law"], tuple(law["parameters"]), law["per"], law["clip"] and tuple(law["clip"]))
        for law in stored
    ]
