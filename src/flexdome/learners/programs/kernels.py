"""What program-solving learners keep of an episode beside what every learner does: the same *since the last plan*.

Iterative learners take their steps from it. It is dense, as their plans are.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.seen.kernels import count, row_at

__all__ = ["Since", "record", "record_played"]


class Since(NamedTuple):
    """What was seen since the last plan; the caller owns the arrays."""

    new_visits: np.ndarray  # (H, S, A)
    new_sums: np.ndarray  # (1 + m, H, S, A) of rewards and utilities
    new_returns: np.ndarray  # (1 + m, H, S, A): sums of what followed, this step included
    limit: np.ndarray  # (rows,): a visit count that has reached it has doubled since the last plan


@kernel
def record(counts, since, states, actions, rewards, utilities, thresholds, new):
    """Add one episode; whether a row it visited has doubled its count comes back.

    ``thresholds`` is (m, H), or of size 0. A utility that is NaN was not sampled, and does not count; what followed
    the steps up to it is then not known and left out of ``new_returns``. Only a ``new`` episode counts as one played
    since the last plan.
    """
    H, m = actions.size, utilities.shape[0]
    count(counts, states, actions, rewards, utilities, thresholds)
    doubled = False
    for h in range(H):
        row = row_at(counts, h, states[h], actions[h])
        if counts.n_visits[row] >= since.limit[row]:
            doubled = True
    if new:
        for h in range(H):
            s, a = states[h], actions[h]
            since.new_visits[h, s, a] += 1.0
            since.new_sums[0, h, s, a] += rewards[h]
            for i in range(m):
                if not np.isnan(utilities[i, h]):
                    since.new_sums[1 + i, h, s, a] += utilities[i, h]
        for j in range(1 + m):
            total = 0.0
            for h in range(H - 1, -1, -1):
                total += rewards[h] if j == 0 else utilities[j - 1, h]
                if np.isnan(total):
                    break
                since.new_returns[j, h, states[h], actions[h]] += total
    return doubled


@kernel
def record_played(counts, since, states, actions, rewards, utilities, thresholds, doubled, played):
    """Add one episode that was played, and say in ``doubled[0]`` that it has doubled a count, if so.

    ``played[0]`` counts the episode here, not in the caller: an interrupt may come between the two.
    """
    if record(counts, since, states, actions, rewards, utilities, thresholds, True):
        doubled[0] = 1
    played[0] += 1
