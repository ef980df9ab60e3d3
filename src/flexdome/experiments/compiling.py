"""What is to be compiled, and how long that will take, said before it begins.

A learner that was compiled leaves a mark, with the seconds it took, beside the compiled kernels; the directory is named
after the kernels' sources, so an edit to them starts without marks. Numba finds again what the same Python compiled on
the same processor from the same files: the mark's name has a digest of these. What has no mark is to be compiled. How
long that takes is what it took before on this machine, or what it took on ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite.binding  # type: ignore[import-untyped]

from flexdome.cmdp.archive import write_whole
from flexdome.errors import OutputError
from flexdome.kernels import jit
from flexdome.learners import LEARNERS, Learner

__all__ = ["is_compiled", "kind_of", "mark_compiled", "seconds_to_compile"]

USUAL = {"proxdome": 20.0, "suredome": 22.0, "guard": 12.0}  # on two quiet cores
OTHERS = 9.0
DIGITS = 12  # of the digest in a mark's name
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
    return f"compiled-{id}-{_place()}.json"


@cache
def _place() -> str:
    """A digest of what Numba's cache depends on beside the sources: this Python, this processor, these files."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag}\0{llvmlite.binding.get_host_cpu_name()}\0".encode())
    for path in jit.kernel_sources():  # type: ignore[no-untyped-call]
        digest.update(f"{path.resolve()}\0{path.stat().st_mtime_ns}\0".encode())
    return digest.hexdigest()[:DIGITS]


def _expected(id: str, folder: Path | None) -> float:
    usual = USUAL.get(id, OTHERS)
    places = f"kernels-*/compiled-{id}-{'[0-9a-f]' * DIGITS}.json"
    for path in sorted(folder.parent.glob(places)) if folder is not None else ():
        with suppress(OSError, ValueError, TypeError, KeyError):
            seconds = float(json.loads(path.read_bytes())["seconds"])
            if LEAST < seconds < math.inf:
                return seconds
    return usual
