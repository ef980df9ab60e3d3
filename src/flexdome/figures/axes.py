"""Pieces that several figures share: factors in axis labels, robust limits, an axis with room for zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, Formatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from flexdome.cmdp.validation import Float

__all__ = ["label_with_factor", "robust_limits", "symlog"]

CLIP = 1.8  # how much larger than its core the range must be before it is cut


def label_with_factor(axis: Axis, label: str, ticks: int = 5) -> None:
    """Few ticks with short numbers; their common factor goes into the label: ``Strong regret (x 10^3)``."""
    low, high = axis.get_view_interval()
    largest = max(abs(low), abs(high))
    power = math.floor(math.log10(largest)) if largest > 0.0 else 0
    power = 0 if -2 <= power <= 2 else power
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(_Shortened(power))
    axis.set_label_text(f"{label} ($\\times 10^{{{power}}}$)" if power else label)


def robust_limits(curves: list[tuple[Float, Float]]) -> tuple[float, float, bool]:
    """Limits that show bands (low, high) of several curves, and whether something lies outside of them.

    The core is where each curve spends 98 % of its points. Where the whole range is more than 1.8 times the core, one
    early spike would flatten everything else: the limits are then the core with a margin. Zero is always inside.
    """
    low = min(float(band[0].min()) for band in curves)
    high = max(float(band[1].max()) for band in curves)
    low, high = min(low, 0.0), max(high, 0.0)
    core_low = min(0.0, *(float(np.quantile(band[0], 0.01)) for band in curves))
    core_high = max(0.0, *(float(np.quantile(band[1], 0.99)) for band in curves))
    span, core = high - low, core_high - core_low
    if core == 0.0 and span == 0.0:
        return -1.0, 1.0, False
    if core > 0.0 and span > CLIP * core:
        pad = 0.15 * core
        limits = max(low, core_low - pad), min(high, core_high + pad)
        return limits[0] - 0.02 * core, limits[1] + 0.02 * core, True
    return low - 0.05 * span, high + 0.05 * span, False


def symlog(axes: Axes, which: str, values: npt.ArrayLike) -> None:
    """A logarithmic axis with a slot for zero to its left (or below): powers of ten, and 0."""
    array = np.asarray(values, dtype=np.float64)
    positive = array[array > 0.0]
    smallest = float(positive.min()) if positive.size else 1.0
    largest = float(positive.max()) if positive.size else 10.0
    threshold = 10.0 ** math.floor(math.log10(smallest) + 1e-9)
    zero = bool((array <= 0.0).any()) or not positive.size
    axis, scale = (axes.xaxis, axes.set_xscale) if which == "x" else (axes.yaxis, axes.set_yscale)
    if zero:
        scale("symlog", linthresh=threshold, linscale=0.6)
        first, last = round(math.log10(threshold)), math.ceil(math.log10(max(largest, threshold)) - 1e-9)
        step = max(1, math.ceil((last - first) / 6))
        axis.set_ticks([0.0, *(10.0**power for power in range(first, last + 1, step))])
        axis.set_minor_locator(
            FixedLocator([k * 10.0**power for power in range(first, last + 1) for k in range(2, 10)])
        )
        low, high = -0.35 * threshold, largest * 1.7
    else:
        scale("log")
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=100))
        low, high = threshold, 10.0 ** math.ceil(math.log10(largest) - 1e-9)
        low, high = (low / 10.0 if smallest < 1.25 * low else low), (high * 10.0 if largest > 0.8 * high else high)
    axis.set_major_formatter(FuncFormatter(_power))
    axis.set_minor_formatter(NullFormatter())
    if which == "x":
        axes.set_xlim(low, high)
    else:
        axes.set_ylim(low, high)


class _Shortened(Formatter):
    """Ticks over 10^power, all with as many decimals as the one that needs most."""

    def __init__(self, power: int) -> None:
        self.power = power

    def __call__(self, x: float, pos: int | None = None) -> str:
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        scaled = [round(value / 10.0**self.power, 9) + 0.0 for value in values]
        decimals = max((len(f"{value:.6f}".rstrip("0").partition(".")[2]) for value in scaled), default=0)
        return [f"{value:.{decimals}f}".replace("-", "\N{MINUS SIGN}") for value in scaled]


def _power(value: float, _: object) -> str:
    return "0" if value == 0.0 else f"$10^{{{round(math.log10(abs(value)))}}}$"
