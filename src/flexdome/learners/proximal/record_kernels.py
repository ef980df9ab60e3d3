"""What one episode adds: counts, sums, successors, running variances, and what its own sums say."""

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.data_kernels import known, n_samples
from flexdome.learners.proximal.error_kernels import open_new
from flexdome.learners.proximal.promise_kernels import total_of
from flexdome.learners.seen.kernels import add_outcome, count_thresholds, count_visit, new_cell, record

__all__ = [
    "add_episode",
    "count_below",
]

LARGEST_SQUARES = 1e300  # of a sum of squares
ROUNDING = 1e-9  # of a threshold: ten times 0.1 is not quite 1


@kernel(inline=True)
def add_spread(core, own, settings, row, n, reward, utilities, h):
    """Running variances of a row that was just visited for the n-th time, of what is not known.

    With the new mean and the new count n, a sum of squared deviations grows by (x - mean)^2 n / (n - 1). The first try
    of a row, and any utility smaller or larger than all before, counts for the units. A utility that is NaN is missing.
    """
    scales = own.scales
    for i in range(core.policy.lam.size):
        seen = utilities[i, h]
        if not known(settings, 1 + i, row) and not np.isnan(seen):
            scales.high[i] = max(scales.high[i], seen)
            if n_samples(core, settings, row, 1 + i) == 1.0:
                scales.count[i] += 1.0
                gap = seen - scales.mean[i]
                scales.mean[i] += gap / scales.count[i]
                scales.m2[i] += gap * (seen - scales.mean[i])
    if n > 1.0:
        inverse = 1.0 / n
        if not known(settings, 0, row):
            gap = reward - core.counts.sum_r[row] * inverse
            own.m2_r[row] += gap * gap * (n / (n - 1.0))
        for i in range(core.policy.lam.size):
            k = n_samples(core, settings, row, 1 + i)
            if k > 1.0 and not known(settings, 1 + i, row) and not np.isnan(utilities[i, h]):
                gap = utilities[i, h] - core.counts.sum_d[i, row] * (1.0 / k)
                own.m2_d[i, row] += gap * gap * (k / (k - 1.0))


@kernel
def record_shared(core, own, settings, states, actions, rewards, utilities, thresholds):
    """Counts, sums, successors and running variances of one episode, each transition at every step."""
    A, C, H = settings.A, settings.C, actions.size
    for h in range(H):
        if core.counts.cell_of[0, states[h]] == 0:
            for k in range(H):
                new_cell(core, settings, k, states[h])
    for h in range(H):
        c = np.int64(core.counts.cell_of[h, states[h]]) - 1
        own.seen[(h * A + actions[h]) * C + c] += 1.0
        for k in range(0 if h + 1 < H else H - 1, H):
            following = np.int64(core.counts.cell_of[k + 1, states[h + 1]]) - 1 if k + 1 < H else np.int64(-1)
            row = count_visit(core, settings, k, c, actions[h], following)
            add_outcome(core, settings, row, h, rewards, utilities)
            add_spread(core, own, settings, row, core.counts.n_visits[row], rewards[h], utilities, h)
    count_thresholds(core.counts.alpha_sum, core.counts.alpha_count, thresholds)


@kernel
def add_episode(core, own, settings, choices, states, actions, rewards, utilities, thresholds):
    """Counts, sums and running variances of one episode."""
    A, C, H, m = settings.A, settings.C, actions.size, core.policy.lam.size
    if choices.shared:
        record_shared(core, own, settings, states, actions, rewards, utilities, thresholds)
    else:
        record(core, settings, states, actions, rewards, utilities, thresholds)
        for h in range(H):
            row = (h * A + actions[h]) * C + np.int64(core.counts.cell_of[h, states[h]]) - 1
            add_spread(core, own, settings, row, core.counts.n_visits[row], rewards[h], utilities, h)
    if thresholds.size > 0:
        for i in range(m):
            n = core.counts.alpha_count[i] / H
            mean = 0.0
            for h in range(H):
                mean += thresholds[i, h]
            if n > 1.0 and not np.isnan(mean):
                gap = mean / H - core.counts.alpha_sum[i] / core.counts.alpha_count[i]
                # A sample may be any finite number; its square may not be.
                own.m2_alpha[i] = min(own.m2_alpha[i] + gap * gap * (n / (n - 1.0)), LARGEST_SQUARES)
    open_new(core, own, settings, choices)


@kernel(inline=True)
def count_below(own, utilities):
    """Whether the sums of an episode that was played fell below the thresholds there were, by more than rounding."""
    for i in range(own.below.size):
        total = total_of(utilities, i)
        if not np.isnan(total):
            own.judged[i] += 1.0
            alpha = own.report.thresholds[i]
            own.below[i] += total < alpha - ROUNDING * abs(alpha)
