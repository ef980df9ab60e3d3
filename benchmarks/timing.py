"""Timing on a shared, noisy machine: interleaved repeats and paired ratios."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np


def seconds(function: Callable[[], Any]) -> float:
    """One call's wall time."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def paired(reference: Callable[[], Any], ours: Callable[[], Any], repeats: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the ratios of neighbouring runs."""
    pairs = np.array([(seconds(reference), seconds(ours)) for _ in range(repeats)])
    return (
        float(np.median(pairs[:, 0])),
        float(np.median(pairs[:, 1])),
        float(np.median(pairs[:, 0] / pairs[:, 1])),
    )


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
