"""What was seen, as dense arrays: for certificates, which look at all of it at once."""

from __future__ import annotations

import numpy as np

from flexdome.certificates import Seen
from flexdome.certificates.model_set import MOST_COUNTS
from flexdome.cmdp import Problem
from flexdome.errors import ValidationError
from flexdome.learners.seen.counts import OptimisticModel

__all__ = ["dense_counts"]


def dense_counts(problem: Problem, model: OptimisticModel, episodes: int, shared: bool = False) -> Seen:
    """Visits, sums and successors of every (h, s, a).

    Where steps are ``shared`` every step holds the transitions of all, and the last one all rewards and utilities: one
    step comes back.
    """
    H, S, A = model.shape
    if H * S * A * S > MOST_COUNTS:
        raise ValidationError(
            f"the problem has H S A S = {H} x {S} x {A} x {S} transitions; a certificate of what a learner has seen "
            f"counts at most {MOST_COUNTS}"
        )
    counts = model.core.counts
    visits = model.by_state(counts.n_visits, 0.0)
    sums = np.stack([model.by_state(array, 0.0) for array in (counts.sum_r, *counts.sum_d)])
    successors = np.zeros((H, S, A, S))
    if problem.transitions is None:
        for h, s in zip(*np.nonzero(counts.cell_of[: H - 1]), strict=True):
            for a in np.flatnonzero(visits[h, s]):
                row = (h * A + a) * model.C + counts.cell_of[h, s] - 1
                at = slice(counts.start[row], counts.start[row] + counts.length[row])
                following = counts.state_of.ravel()[counts.pool_cell[at]]
                successors[h, s, a, following] = counts.pool_count[at]
    missing = None
    if counts.missing.any():
        missing = np.stack([np.zeros((H, S, A)), *(model.by_state(array, 0.0) for array in counts.missing)])
    if shared:
        visits, sums, successors = visits[-1:], sums[:, -1:], successors[:1]
        missing = None if missing is None else missing[:, -1:]
    return Seen(visits, sums, successors, counts.alpha_sum / H, counts.alpha_count / H, episodes, missing)
