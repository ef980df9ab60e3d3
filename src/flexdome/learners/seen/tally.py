"""What a learner has seen, as it holds it.

The arrays and their layout are described in :mod:`flexdome.learners.seen.kernels`. Capacity for every state is reserved
but not touched: memory follows what has been visited.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import LARGEST_SIZE, Float
from flexdome.errors import ValidationError
from flexdome.kernels.borrow import hold
from flexdome.kernels.lanes import LANES, TOGETHER
from flexdome.learners.seen.kernels import Counts

__all__ = ["FIRST_POOL", "Tally"]

FIRST_POOL = 1024
HUGE = 2**22  # bytes
LINE = 64  # bytes


def _zeros(shape: int | tuple[int, ...], dtype: type = np.float64) -> npt.NDArray[Any]:
    """Zeros that take memory where they are touched.

    For arrays from four megabytes on NumPy asks Linux for huge pages, and then each number touched takes two megabytes:
    seventy times the memory at a million states. Ordinary pages are asked for here. Arrays begin with a line of the
    cache, so that no machine vector lies across two.
    """
    size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
    if size < HUGE or not hasattr(mmap, "MAP_PRIVATE"):
        room = np.zeros(size + LINE, dtype=np.uint8)
        first = -room.ctypes.data % LINE
        return room[first : first + size].view(dtype).reshape(shape)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes for a learner's arrays cannot be had: {error.strerror}") from None
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype=dtype).reshape(shape)


class Tally:
    """Visits, sums and successors: what every learner keeps of the episodes it was shown."""

    def __init__(self, problem: Problem) -> None:
        self._size(problem)
        self._counts = hold(self._nothing(problem.constraints))
        self.reserve()

    def _size(self, problem: Problem) -> None:
        H, S, A = self.shape = problem.horizon, problem.states, problem.actions
        self.C = -(-S // LANES) * LANES
        if H * A * self.C > LARGEST_SIZE:
            raise ValidationError(
                f"the problem has H A S = {H} x {A} x {S} cells; this learner counts at most {LARGEST_SIZE}"
            )

    def _nothing(self, m: int) -> Counts:
        """No episode."""
        (H, S, A), C = self.shape, self.C
        rows, whole, index = H * A * C, np.int64, np.int32
        return Counts(
            cell_of=_zeros((H, S), index),
            state_of=_zeros((H, C), index),
            n_cells=_zeros(H, whole),
            n_visits=_zeros(rows),
            inverse=_zeros(rows),
            sum_r=_zeros(rows),
            sum_d=_zeros((m, rows)),
            start=_zeros(rows, whole),
            length=_zeros(rows, index),
            capacity=_zeros(rows, index),
            pool_cell=_zeros(FIRST_POOL, index),
            pool_count=_zeros(FIRST_POOL),
            pool=_zeros(2, whole),
            tried=_zeros(rows, index),
            tried_cell=_zeros(rows, index),
            n_tried=_zeros(H, whole),
            alpha_sum=_zeros(m),
            alpha_count=_zeros(m),
            missing=_zeros((0, 0)),
        )

    @property
    def counts(self) -> Counts:
        """The arrays."""
        return self._counts

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self._counts = counts

    def copied(self) -> Counts:
        """The arrays once more, to go back to."""
        return hold(Counts(*(array.copy() for array in self.counts)))

    @property
    def episodes(self) -> int:
        """How many were counted."""
        return int(self.counts.n_visits[: self.shape[2] * self.C].sum())

    def reserve(self, episodes: int = 1) -> None:
        """Make room in the pool of successors for at least so many episodes' growth (one is enough to go on)."""
        counts = self.counts
        used, largest = counts.pool.tolist()
        needed = used + self.shape[0] * max(2 * largest, TOGETHER) * episodes
        if needed > counts.pool_cell.size:
            self._enlarge(max(needed, 2 * counts.pool_cell.size), used)

    def _enlarge(self, size: int, used: int) -> None:
        """A pool of that size, with what is used of it."""
        counts = self.counts
        cell, count = np.zeros(size, dtype=np.int32), np.zeros(size)
        cell[:used], count[:used] = counts.pool_cell[:used], counts.pool_count[:used]
        self.counts = counts._replace(pool_cell=cell, pool_count=count)

    def expect(self, log: Iterable[tuple[Any, ...]]) -> None:
        """Make room for samples that are missing, if one is in these episodes (as ``checked_episode`` gives them)."""
        if self.counts.missing.size == 0 and any(np.isnan(data[3]).any() for data in log):
            self.expect_missing()

    def expect_missing(self) -> None:
        """Make room for samples that are missing."""
        self.counts = self.counts._replace(missing=_zeros(self.counts.sum_d.shape))

    def samples(self) -> Float:
        """(m, rows) how often each utility was sampled."""
        counts = self.counts
        missing = counts.missing if counts.missing.size else np.zeros_like(counts.sum_d)
        n: Float = counts.n_visits - missing
        return n

    def utility_means(self) -> Float:
        """(m, H, S, A) mean utilities that were seen, NaN where nothing was."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.counts.sum_d / self.samples()
        return np.array([self.by_state(row, np.nan) for row in means])

    @property
    def visits(self) -> Float:
        """(H, S, A) how often each action was taken."""
        return self.by_state(self.counts.n_visits, 0.0)

    def by_state(self, rows: Float, elsewhere: float | Float) -> Float:
        """(H, S, A) from an array over rows; ``elsewhere`` where a state was never visited."""
        H, S, A = self.shape
        by_cell = rows.reshape(H, A, self.C)
        out = np.full((H, S, A), elsewhere)
        h, s = np.nonzero(self.counts.cell_of)
        out[h, s] = by_cell[h, :, self.counts.cell_of[h, s] - 1]
        return out
