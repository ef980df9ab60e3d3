"""Timing on a shared, noisy machine: interleaved repeats and paired ratios."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def seconds(function: Callable[[], Any]) -> float:
    """One call's wall time."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def processor_seconds(function: Callable[[], Any]) -> float:
    """One call's processor time, that of child processes it waits for included: what others run does not count."""

    def spent() -> float:
        child = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + child.ru_utime + child.ru_stime

    start = spent()
    function()
    return spent() - start


def paired(reference: Callable[[], Any], ours: Callable[[], Any], repeats: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the ratios of neighbouring runs."""
    pairs = np.array([(seconds(reference), seconds(ours)) for _ in range(repeats)])
    return (
        float(np.median(pairs[:, 0])),
        float(np.median(pairs[:, 1])),
        float(np.median(pairs[:, 0] / pairs[:, 1])),
    )


def peak_memory() -> float:
    """Megabytes this process has held at most.

    Linux's ``ru_maxrss`` survives ``exec``: a child process starts with its parent's. The address space's own peak,
    ``VmHWM``, does not.
    """
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**10
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / 2 ** (20 if sys.platform == "darwin" else 10)


def apart(code: str) -> list[float]:
    """The numbers that ``code`` prints, in a process of its own."""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    return [float(x) for x in done.stdout.split()]


def machine() -> str:
    """What the numbers were measured on."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            name = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.machine()
    packages = ", ".join(f"{p} {version(p)}" for p in ("flexdome", "numpy", "numba", "highspy"))
    return f"{name}; Python {platform.python_version()}, {packages}"


def human(value: float) -> str:
    """Seconds with a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def row(what: str, reference: float, ours: float, ratio: float, goal: str) -> None:
    """Print one line of the table."""
    print(f"{what:<66} {human(reference):>9} {human(ours):>9} {ratio:>9.1f}   {goal}", flush=True)
