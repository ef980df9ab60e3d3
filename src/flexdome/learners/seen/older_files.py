"""Files in which what was seen is dense: learners that plan wrote them so before they had lists like all others.

``n_visits`` is (H, S, A) there, ``n_next`` (H, S, A, S), ``sums`` and ``missing`` (1 + m, H, S, A). The lists are made
in the order of states, since that of first visits is not known; no dense array depends on it.
"""

from __future__ import annotations

import numpy as np

from flexdome.errors import ValidationError
from flexdome.learners.seen.tally import Tally
from flexdome.learners.state import EXACT, LARGEST_SUM, Arrays, StateReader

__all__ = ["with_lists"]

NAMES = ("n_visits", "n_next", "sums", "missing")


def with_lists(tally: Tally, state: Arrays) -> Arrays:
    """``state`` with what was seen as :func:`flexdome.learners.seen.file.seen_state` has it, whatever its age."""
    if "n_next" not in state:
        return state
    (H, S, A), C = tally.shape, tally.C
    m = tally.counts.alpha_sum.size
    read = StateReader({name: state[name] for name in NAMES if name in state})
    n = read.take("n_visits", (H, S, A), 0.0, EXACT, whole=True)
    n_next = read.take("n_next", (H, S, A, S), 0.0, EXACT, whole=True)
    sums = read.take("sums", (1 + m, H, S, A), 0.0, LARGEST_SUM)
    missing = np.zeros(sums.shape)
    if read.has("missing"):
        missing = read.take("missing", sums.shape, 0.0, EXACT, whole=True)
    if (n_next[:-1].sum(axis=-1) != n[:-1]).any() or n_next[-1].any():
        raise ValidationError("state.n_next does not count one next state for each visit")
    if (n_next[:-1].sum(axis=(1, 2)) != n[1:].sum(axis=2)).any():
        raise ValidationError("state.n_next does not lead to each state as often as it was visited")
    if missing[0].any():
        raise ValidationError("state.missing has rewards, which are never missing")

    seen = n.sum(axis=2) > 0.0  # (H, S)
    n_cells = seen.sum(axis=1)
    cell = np.cumsum(seen, axis=1) - 1
    h, s = np.nonzero(seen)
    order = np.argsort(np.repeat(h, A) * A + np.tile(np.arange(A), h.size), kind="stable")
    h, s, a = (x[order] for x in (np.repeat(h, A), np.repeat(s, A), np.tile(np.arange(A), h.size)))
    rows = (h * A + a) * C + cell[h, s]  # step after step, action after action
    at, following = np.nonzero(n_next[h, s, a])
    tried = n[h, s, a] > 0.0
    new = {name: array for name, array in state.items() if name not in NAMES}
    if "limit" in new:
        new["limit"] = StateReader(new).take("limit", (H, S, A), 0.0, EXACT)[h, s, a]
    if missing.any():
        new["missing"] = missing[1:, h, s, a]
    return {
        **new,
        "n_cells": n_cells,
        "state_of": np.nonzero(seen)[1],
        "n_tried": np.bincount(h[tried], minlength=H),
        "tried": rows[tried],
        "length": np.bincount(at, minlength=rows.size),
        "pool_cell": (h[at] + 1) * C + cell[np.minimum(h[at] + 1, H - 1), following],
        "pool_count": n_next[h, s, a][at, following],
        "n_visits": n[h, s, a],
        "sum_r": sums[0, h, s, a],
        "sum_d": sums[1:, h, s, a],
    }
