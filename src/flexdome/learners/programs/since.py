"""What was seen since the last plan, in memory and in files."""

from __future__ import annotations

import numpy as np

from flexdome.errors import ValidationError
from flexdome.kernels.borrow import hold
from flexdome.learners.programs.kernels import Since
from flexdome.learners.seen.file import SeenInFile, _visited_rows
from flexdome.learners.seen.tally import Tally
from flexdome.learners.state import EXACT, LARGEST_SUM, Arrays, StateReader

__all__ = ["clear", "copied", "nothing_since", "read_since", "since_state"]


def nothing_since(tally: Tally) -> Since:
    """Nothing seen, and nothing planned."""
    H, S, A = tally.shape
    both = (1 + tally.counts.alpha_sum.size, H, S, A)
    return hold(Since(np.zeros((H, S, A)), np.zeros(both), np.zeros(both), np.ones(H * A * tally.C)))


def copied(since: Since) -> Since:
    """The arrays once more."""
    return hold(Since(*(array.copy() for array in since)))


def clear(tally: Tally, since: Since) -> None:
    """Count visits anew from here on."""
    n = tally.counts.n_visits
    for array in (since.new_visits, since.new_sums, since.new_returns):
        array[:] = 0.0
    np.add(n, np.maximum(n, 1.0), out=since.limit)


def since_state(tally: Tally, since: Since) -> Arrays:
    """Its arrays for a file; a row of a cell that was never visited has doubled with its first visit."""
    rows = _visited_rows(tally, tally.counts.n_cells)
    state = {name: getattr(since, name).copy() for name in ("new_visits", "new_sums", "new_returns")}
    return {**state, "limit": since.limit[rows]}


def read_since(tally: Tally, read: StateReader, seen: SeenInFile) -> Since:
    """Take back what :func:`since_state` gave."""
    since = nothing_since(tally)
    since.new_visits[:] = read.take("new_visits", since.new_visits.shape, 0.0, EXACT, whole=True)
    for name in ("new_sums", "new_returns"):
        getattr(since, name)[:] = read.take(name, since.new_sums.shape, 0.0, LARGEST_SUM)
    since.limit[seen.rows] = read.take("limit", seen.rows.shape, 0.0, EXACT, whole=True)
    H, _, A = tally.shape
    visits = np.zeros(tally.shape)
    cell = seen.cell_of_row
    visits[seen.row_step, seen.state_of[cell], seen.rows // tally.C % A] = seen.n_visits
    if (since.new_visits > visits).any():
        raise ValidationError("state.new_visits exceeds the number of visits")
    if (since.new_sums > since.new_visits).any():
        raise ValidationError("state.new_sums exceeds the number of visits")
    if (since.new_returns > H * since.new_visits).any():
        raise ValidationError("state.new_returns exceeds H times the number of visits")
    return since
