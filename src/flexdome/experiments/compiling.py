"""What is to be compiled, and how long that will take, said before it begins.

A learner that was compiled leaves a mark, with the seconds it took, beside the compiled kernels; the directory is named
after the kernels' sources, so an edit to them starts without marks. What has no mark is to be compiled. How long that
takes is what it took before on this machine, with other sources, or what it took on ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from flexdome.cmdp.archive import write_whole
from flexdome.errors import OutputError
from flexdome.kernels import jit
from flexdome.learners import LEARNERS, Learner

__all__ = ["is_compiled", "kind_of", "mark_compiled", "seconds_to_compile"]

USUAL = {"proxdome": 20.0, "suredome": 22.0, "guard": 12.0}  # on two quiet cores
OTHERS = 9.0
LEAST = 1.0  # what took less was read from the cache


def kind_of(learner: Learner) -> tuple[str, str]:
    """Learners of one kind need the same kernels: those of a runner, for the switches that are on."""
    settings = getattr(learner, "settings", None)
    return learner.runner, str(getattr(settings, "_numba_type_", type(learner).__name__))


def is_compiled(id: str) -> bool:
    """Whether a learner of ours has left its mark."""
    folder = jit.cache_directory()
    return folder is not None and id in LEARNERS and (folder / _name(id)).exists()


def mark_compiled(id: str, seconds: float) -> None:
    """Note that a learner's kernels are compiled, and how long that took; not kept where nothing can be written."""
    folder = jit.cache_directory()
    if folder is not None and id in LEARNERS and not (folder / _name(id)).exists():
        with suppress(OutputError):
            write_whole(folder / _name(id), json.dumps({"seconds": round(seconds, 1)}).encode())


def seconds_to_compile(ids: Iterable[str], at_once: int = 1) -> int:
    """About how many seconds it takes to compile for these learners, so many at once; 0 where all are compiled."""
    folder = jit.cache_directory()
    seconds = [_expected(id, folder) for id in dict.fromkeys(ids) if id in LEARNERS and not is_compiled(id)]
    return math.ceil(max(sum(seconds) / at_once, max(seconds, default=0.0)))


def _name(id: str) -> str:
    return f"compiled-{id}.json"


def _expected(id: str, folder: Path | None) -> float:
    usual = USUAL.get(id, OTHERS)
    for path in sorted(folder.parent.glob(f"kernels-*/{_name(id)}")) if folder is not None else ():
        with suppress(OSError, ValueError, TypeError, KeyError):
            seconds = float(json.loads(path.read_bytes())["seconds"])
            if LEAST < seconds < math.inf:
                return seconds
    return usual
