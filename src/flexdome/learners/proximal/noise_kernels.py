"""What the observations of a step have in common: the units of the utilities, and how much one observation says.

The formulas are in the paragraphs on units and on noise of :mod:`flexdome.learners.proximal.proxdome`.
"""

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.data_kernels import earlier, known, n_samples

__all__ = [
    "mean_of_row",
    "measure",
    "noise_of_row",
    "noisy",
    "pool_all",
    "shrink_means",
    "shrinkage",
]

NOISY = 10.0  # times the variance of the means: from here on, single observations of a utility say little
ROUNDING = 1e-20  # of the square of the largest: what is less is no noise
NOTHING = 1e-30  # utilities below are no unit: their squares would be lost


@kernel(inline=True)
def measure(own, settings, H):
    """Top and middle of every utility, from what was seen and from the thresholds that are known.

    The width takes what of that is noise: :func:`pool_all`.
    """
    scales = own.scales
    for i in range(scales.high.size):
        n, most, each = scales.count[i], scales.high[i], settings.thresholds[i] / H
        if each > most:  # not where it is NaN
            most = each
        if not most > NOTHING:
            most = 1.0
        scales.top[i] = most
        scales.middle[i] = (0.5 * most + n * scales.mean[i]) / (1.0 + n)


@kernel
def pool_means(core, own, settings, choices, j, h):
    """What the rewards (j = 0) or one of the utilities of a step have in common: ``own.pools``.

    The variance of the means is that of DerSimonian and Laird, and one standard error of it more.
    """
    A, C, pools = settings.A, settings.C, own.pools
    total, free, number, visits, square, mean, weights, centre, gaps = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for again in range(2):
        for k in range(core.counts.n_tried[h]):
            row = np.int64(core.counts.tried[h * A * C + k])
            n = n_samples(core, settings, row, j)
            if n > 0.0:
                x = (core.counts.sum_r[row] if j == 0 else core.counts.sum_d[j - 1, row]) / n
                if again == 0:
                    total += own.m2_r[row] if j == 0 else own.m2_d[j - 1, row]
                    free, number, visits, square = free + n - 1.0, number + 1.0, visits + n, square + n * n
                    mean += n * x
                    weight = 1.0 / (1.0 + pools[1, j, h] / n)
                    weights, centre = weights + weight, centre + weight * x
                else:
                    gaps += n * (x - mean) * (x - mean)
        if again == 0:
            mean /= max(visits, 1.0)
    most = choices.reward if j == 0 else own.scales.top[j - 1]
    noise, others = total / max(free, 1.0), max(number - 1.0, 0.0)
    if noise < ROUNDING * most * most:
        noise = 0.0
    between = max(gaps - others * noise, 0.0) + np.sqrt(2.0 * others) * noise
    size = visits - square / max(visits, 1.0)
    pools[0, j, h] = noise
    pools[1, j, h] = noise * size / between if between > 0.0 else 0.0
    pools[2, j, h] = centre / weights if weights > 0.0 else 0.0


@kernel
def pool_all(core, own, settings, choices):
    """:func:`pool_means` of all steps, and from it the width of every utility: how much its means differ."""
    H, scales = core.counts.n_cells.size, own.scales
    for j in range(own.pools.shape[1]):
        for h in range(H):
            same = h - earlier(core, choices, h)
            if same == h:
                pool_means(core, own, settings, choices, j, h)
            for k in range(own.pools.shape[0]):
                own.pools[k, j, h] = own.pools[k, j, same]
    for i in range(scales.high.size):
        n, most, share = scales.count[i], scales.top[i], 0.0
        for h in range(H):
            share += 1.0 / (1.0 + own.pools[1, 1 + i, h]) / H
        scales.width[i] = min(most, np.sqrt(share * (most * most + 12.0 * scales.m2[i]) / max(n, 1.0)))


@kernel(inline=True)
def noisy(own):
    """Whether single observations of a utility say little: its noise is many times the variance of its means."""
    most = 0.0
    for i in range(own.scales.high.size):
        ratio = 0.0
        for h in range(own.pools.shape[2]):
            ratio += own.pools[1, 1 + i, h] / own.pools.shape[2]
        most = max(most, ratio)
    return most >= NOISY


@kernel(inline=True)
def shrinkage(own, i):
    """What part of a utility's first observation is held to be noise: the mean over steps of rho / (1 + rho)."""
    total, H = 0.0, own.pools.shape[2]
    for h in range(H):
        total += own.pools[1, 1 + i, h] / (1.0 + own.pools[1, 1 + i, h]) / H
    return total


@kernel(inline="late")
def mean_of_row(core, own, settings, row, j, h):
    """Mean j of a row that was visited, shrunk towards the centre of its step, or what is known of it."""
    if known(settings, j, row):
        return settings.known[j, row]
    n, centre = n_samples(core, settings, row, j), own.pools[2, j, h]
    if n == 0.0:  # of a utility that was missing whenever the row was visited
        return own.scales.middle[j - 1]
    mean = (core.counts.sum_r[row] if j == 0 else core.counts.sum_d[j - 1, row]) / n
    ratio = own.pools[1, j, h]
    return mean if ratio == 0.0 else centre + (mean - centre) / (1.0 + ratio / n)


@kernel(inline="late")
def noise_of_row(core, own, settings, choices, row, j, h):
    """Variance of observation j of a row, times what shrinking leaves of it; 0 where its mean is known."""
    if known(settings, j, row):
        return 0.0
    n, m2 = n_samples(core, settings, row, j), own.m2_r[row] if j == 0 else own.m2_d[j - 1, row]
    if n == 0.0:
        return own.scales.width[j - 1] ** 2 / 12.0
    return (m2 + choices.weight * own.pools[0, j, h]) / (n + choices.weight) / (1.0 + own.pools[1, j, h] / n)


@kernel
def shrink_means(core, own, settings):
    """The means of every row that was visited, as they are not stored in files."""
    A, C, W, m = settings.A, settings.C, settings.W, core.policy.lam.size
    for h in range(core.counts.n_cells.size):
        for k in range(core.counts.n_tried[h]):
            row = np.int64(core.counts.tried[h * A * C + k])
            if core.counts.n_visits[row] > 0.0:
                core.work.base[row * W + m + 1] = mean_of_row(core, own, settings, row, 0, h)
                for i in range(m):
                    core.work.base[row * W + 1 + i] = mean_of_row(core, own, settings, row, 1 + i, h)
