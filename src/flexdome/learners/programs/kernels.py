"""What program-solving learners keep of an episode.

Counts are dense, (H, S, A) and (H, S, A, S): the confidence sets are about every next state, seen or not. Beside the
totals there are the same sums *since the last plan*, which iterative learners take their steps from.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.seen.kernels import count_thresholds

__all__ = ["Records", "record", "record_played"]


class Records(NamedTuple):
    """Totals over all episodes, and what was seen since the last plan; the caller owns the arrays."""

    n_visits: np.ndarray  # (H, S, A)
    n_next: np.ndarray  # (H, S, A, S); nothing follows the last step
    sums: np.ndarray  # (1 + m, H, S, A) of rewards and utilities
    missing: np.ndarray  # (1 + m, H, S, A) visits without a sample of the reward or utility
    alpha_sum: np.ndarray  # (m,) of threshold samples
    alpha_count: np.ndarray  # (m,)
    new_visits: np.ndarray  # (H, S, A) since the last plan
    new_sums: np.ndarray  # (1 + m, H, S, A)
    new_returns: np.ndarray  # (1 + m, H, S, A): sums of what followed, this step included
    limit: np.ndarray  # (H, S, A): a visit count that has reached it has doubled since the last plan


@kernel
def record(records, states, actions, rewards, utilities, thresholds, new):
    """Add one episode; whether a cell it visited has doubled its count comes back.

    ``thresholds`` is (m, H), or of size 0. A utility that is NaN was not sampled, and does not count; what followed
    the steps up to it is then not known and left out of ``new_returns``. Only a ``new`` episode counts as one played
    since the last plan.
    """
    H, m = actions.size, utilities.shape[0]
    doubled = False
    for h in range(H):
        s, a = states[h], actions[h]
        records.n_visits[h, s, a] += 1.0
        if h + 1 < H:
            records.n_next[h, s, a, states[h + 1]] += 1.0
        records.sums[0, h, s, a] += rewards[h]
        for i in range(m):
            if np.isnan(utilities[i, h]):
                records.missing[1 + i, h, s, a] += 1.0
            else:
                records.sums[1 + i, h, s, a] += utilities[i, h]
        if records.n_visits[h, s, a] >= records.limit[h, s, a]:
            doubled = True
    count_thresholds(records.alpha_sum, records.alpha_count, thresholds)
    if new:
        for h in range(H):
            s, a = states[h], actions[h]
            records.new_visits[h, s, a] += 1.0
            records.new_sums[0, h, s, a] += rewards[h]
            for i in range(m):
                if not np.isnan(utilities[i, h]):
                    records.new_sums[1 + i, h, s, a] += utilities[i, h]
        for j in range(1 + m):
            total = 0.0
            for h in range(H - 1, -1, -1):
                total += rewards[h] if j == 0 else utilities[j - 1, h]
                if np.isnan(total):
                    break
                records.new_returns[j, h, states[h], actions[h]] += total
    return doubled


@kernel
def record_played(records, states, actions, rewards, utilities, thresholds, doubled, played):
    """Add one episode that was played, and say in ``doubled[0]`` that it has doubled a count, if so.

    ``played[0]`` counts the episode here, not in the caller: an interrupt may come between the two.
    """
    if record(records, states, actions, rewards, utilities, thresholds, True):
        doubled[0] = 1
    played[0] += 1
