"""Fewer points of a curve, and every peak of it.

The episodes 1 to T are cut into stretches. Of each stretch a curve keeps the episode of its smallest and the episode of
its largest value, and of the whole run the first and the last episode (min-max decimation; Steinarsson 2013, section
2.2, compares it with others). Nothing is averaged: every point that is left is a point of the curve, and in every
stretch the smallest and the largest value are those of the full curve.

Stretches are equally long, and more and shorter ones are added at the start, where a logarithmic axis looks closer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float, as_array, as_int
from flexdome.errors import ValidationError
from flexdome.theory.constants import LONGEST

__all__ = ["stretches", "thin"]

MOST = 10**6
EARLY = 4  # one stretch in so many is for the start


def stretches(episodes: int, count: int) -> npt.NDArray[np.int64]:
    """Where each stretch starts (index of its first episode, from 0): ``count`` equal ones, and finer at the start.

    >>> stretches(8, 2).tolist()
    [0, 4]
    >>> stretches(1000, 4).tolist()
    [0, 1, 31, 250, 500, 750]
    """
    episodes, count = as_int("episodes", episodes, 1, LONGEST), as_int("count", count, 1, MOST)
    even = np.linspace(0, episodes, count, endpoint=False).astype(np.int64)
    early = (
        np.geomspace(1, episodes, count // EARLY + 1, endpoint=False).astype(np.int64)
        if episodes > EARLY * count
        else even
    )
    return np.unique(np.concatenate([[0], even, early]))


def thin(values: npt.ArrayLike, starts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Indices to keep, ascending: first, last, and the lowest and highest of each stretch (they begin at ``starts``).

    >>> thin([0.0, 0.0, 9.0, 0.0, 0.0, -3.0, 0.0, 0.0], stretches(8, 1)).tolist()
    [0, 2, 5, 7]
    """
    series, _ = as_array("values", values)
    if series.ndim != 1 or not series.size:
        raise ValidationError(f"values has shape {series.shape}; it must be (T,), and not empty")
    where, _ = as_array("starts", starts)
    if where.ndim != 1 or not where.size or where[0] != 0 or where[-1] >= series.size or np.any(np.diff(where) < 1):
        raise ValidationError(f"starts must ascend from 0 to below {series.size}, as whole numbers")
    first = where.astype(np.int64)
    kept = [0, series.size - 1]
    for start, end in zip(first, [*first[1:], series.size], strict=True):
        part: Float = series[start:end]
        kept += [int(start + part.argmin()), int(start + part.argmax())]
    return np.unique(np.array(kept, dtype=np.int64))
