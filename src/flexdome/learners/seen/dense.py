"""What was seen, as dense arrays: for programs and certificates, which look at all of it at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flexdome.certificates import Seen
from flexdome.certificates.model_set import MOST_COUNTS
from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.learners.seen.counts import OptimisticModel
from flexdome.learners.seen.kernels import spread
from flexdome.learners.seen.tally import Tally

__all__ = ["Dense", "check_dense", "dense", "dense_counts", "seen_by"]


def check_dense(problem: Problem, who: str) -> None:
    """An error where a dense array of all transitions is too much."""
    H, S, A = problem.horizon, problem.states, problem.actions
    if H * S * A * S > MOST_COUNTS:
        raise ValidationError(
            f"the problem has H S A S = {H} x {S} x {A} x {S} transitions; {who} counts at most {MOST_COUNTS}"
        )


class Dense(NamedTuple):
    """What was seen of every (h, s, a), and what followed: how often, or its share of the visits."""

    visits: Float  # (H, S, A)
    samples: Float  # (1 + m, H, S, A) visits in which the reward, or the utility, was not missing
    sums: Float  # (1 + m, H, S, A)
    following: Float  # (H, S, A, S)


def dense(tally: Tally, *, shares: bool = False, counted: bool = True) -> Dense:
    """Everything; with ``shares`` p^ in the place of its counts, and nothing followed where it is not ``counted``."""
    H, S, A = tally.shape
    counts = tally.counts
    shape = (1 + counts.alpha_sum.size, H, S, A)
    seen = Dense(np.zeros((H, S, A)), np.zeros(shape), np.zeros(shape), np.zeros((H, S, A, S)))
    spread(counts, *seen, counted, shares)
    return seen


def seen_by(tally: Tally, counted: bool = True) -> Seen:
    """The same for certificates."""
    H, counts = tally.shape[0], tally.counts
    visits, samples, sums, successors = dense(tally, counted=counted)
    missing = visits - samples if counts.missing.any() else None
    return Seen(visits, sums, successors, counts.alpha_sum / H, counts.alpha_count / H, tally.episodes, missing)


def dense_counts(problem: Problem, model: OptimisticModel, episodes: int, shared: bool = False) -> Seen:
    """What was seen, for certificates.

    Where steps are ``shared`` every step holds the transitions of all, and the last one all rewards and utilities: one
    step comes back.
    """
    check_dense(problem, "a certificate of what a learner has seen")
    seen = seen_by(model, problem.transitions is None)._replace(episodes=episodes)
    if not shared:
        return seen
    missing = None if seen.missing is None else seen.missing[:, -1:]
    return seen._replace(
        visits=seen.visits[-1:], sums=seen.sums[:, -1:], successors=seen.successors[:1], missing=missing
    )
