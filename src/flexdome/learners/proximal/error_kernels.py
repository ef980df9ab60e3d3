"""Step (1) of ProxDOME: the standard error of every row, what optimism adds to it, and what it may owe to luck.

An action never tried is *opened*: it gets what is taken to be true of it, in the units there are. Every row that was
tried is *refreshed*: the variances of its targets are shrunk towards those of its step.
"""

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.data_kernels import earlier, known, lagrangian, n_samples
from flexdome.learners.proximal.noise_kernels import mean_of_row, measure, noise_of_row, noisy

__all__ = [
    "open_cells",
    "open_known",
    "open_new",
    "refresh",
    "refresh_all",
    "reopen",
    "set_thresholds",
    "weigh_luck",
]

LESS = 0.5  # of the bonus, where observations are noisy: means are shrunk there, and bad luck is forgotten


@kernel(inline=True)
def open_row(core, own, settings, choices, row, rem):
    """What is taken to be true of an action never tried."""
    W, m, scales = settings.W, core.policy.lam.size, own.scales
    own.q[row * W + m + 1] = 0.5 * choices.reward * rem
    for i in range(m):
        own.q[row * W + 1 + i] = scales.middle[i] * rem
        own.s2[i, row] = (scales.width[i] * rem) ** 2 / 12.0
        own.lucky[i, row] = 0.0


@kernel
def open_new(core, own, settings, choices):
    """Give the cells made since the last call the values of a state never visited."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    _, top = lagrangian(choices, own.scales, core.policy.lam)
    for h in range(H):
        rem = float(H - h)
        for c in range(own.opened[h], core.counts.n_cells[h]):
            for a in range(A):
                row = (h * A + a) * C + c
                own.kept[row] = core.policy.logits[row]
                open_row(core, own, settings, choices, row, rem)
            core.work.values[(h * C + c) * W] = top * rem
            for j in range(1, m + 2):
                core.work.values[(h * C + c) * W + j] = own.q[(h * A * C + c) * W + j]
        own.opened[h] = core.counts.n_cells[h]


@kernel
def reopen(core, own, settings, choices):
    """What is taken to be true of every action never tried, in the units there are: for files."""
    A, C, H = settings.A, settings.C, core.counts.n_cells.size
    for h in range(H):
        for a in range(A):
            for row in range((h * A + a) * C, (h * A + a) * C + core.counts.n_cells[h]):
                if core.counts.n_visits[row] == 0.0:
                    open_row(core, own, settings, choices, row, float(H - h))


@kernel
def open_cells(core, own, settings, choices):
    """:func:`measure` and :func:`open_new`, for files and revealed parts."""
    measure(own, settings, core.counts.n_cells.size)
    open_new(core, own, settings, choices)


@kernel(inline="late")
def doubt(core, own, settings, choices, row, h, j, L):
    """Length of the interval in which target j of a row may lie: d_j + U_j, or for j = 0 the reward r + lam . d + V.

    L rem for the reward and b_j rem for a utility where nothing is known.
    """
    rest = 0.0 if settings.known_p else float(core.counts.n_cells.size - h - 1)
    width = own.scales.width
    if j > 0:
        return width[j - 1] * (rest if known(settings, j, row) else rest + 1.0)
    here = L
    if settings.known.size > 0:
        here = 0.0 if known(settings, 0, row) else choices.reward
        for i in range(core.policy.lam.size):
            here += 0.0 if known(settings, 1 + i, row) else core.policy.lam[i] * width[i]
    return here + L * rest


@kernel
def open_known(core, own, settings, choices):
    """Where something is known: Q_d and the errors of every row never visited, and what is pooled at first."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    for h in range(H):
        half = 0.0 if settings.known_p else float(H - h - 1)
        for k in range(h * A * C, h * A * C + core.counts.n_tried[h]):
            row = np.int64(core.counts.tried[k])
            if core.counts.n_visits[row] == 0.0:
                mean = settings.known[0, row] if known(settings, 0, row) else np.nan
                core.work.base[row * W] = choices.reward if np.isnan(mean) else mean
                core.work.base[row * W + m + 1] = 0.5 * choices.reward * half + (
                    0.5 * choices.reward if np.isnan(mean) else mean
                )
                for i in range(m):
                    middle = own.scales.middle[i]
                    mean = settings.known[1 + i, row] if known(settings, 1 + i, row) else middle
                    core.work.base[row * W + 1 + i] = mean + middle * half
                    own.s2[i, row] = doubt(core, own, settings, choices, row, h, 1 + i, 1.0) ** 2 / 12.0


@kernel(inline="late")
def mean_of(pool_cell, pool_count, start, n, inverse, values, later, W, j):
    """Mean of value j over the successors of a row, which are ``later`` cells behind those in the list."""
    mean = 0.0
    for k in range(start, start + n):
        mean += pool_count[k] * values[(pool_cell[k] + later) * W + j]
    return mean * inverse


@kernel(inline=True)
def shrunk(n, seen, pooled, prior, weight):
    """Variance of one target of a row: what was seen, shrunk towards the step's, and doubt that fades with n."""
    return (n * seen + weight * pooled) / (n + weight) + prior / n


@kernel(inline=True)
def log_visits(core, settings, h, c):
    """log(1 + N(s)) of a cell."""
    here = 0.0
    for a in range(settings.A):
        here += core.counts.n_visits[(h * settings.A + a) * settings.C + c]
    return np.log(1.0 + here)


@kernel
def refresh_row(core, own, settings, choices, row, h, L, bonus, log_here, sums):
    """Step (1) of one visited row: r~, squared standard errors, and luck; ``sums`` gets the sample (co)variances.

    ``log_here`` are its :func:`log_visits`.
    """
    A, C, W, m = settings.A, settings.C, settings.W, core.policy.lam.size
    before = earlier(core, choices, h)
    at, later = row - before * A * C, before * C
    start, length = (
        core.counts.start[at],
        np.int64(0 if settings.known_p else core.counts.length[at]),
    )  # known: no error
    cell, count, values = core.counts.pool_cell, core.counts.pool_count, core.work.values
    n = core.counts.n_visits[row]
    inverse = 1.0 / n
    unbiased = n / (n - 1.0) if n > 1.0 else 0.0
    sd = np.sqrt(noise_of_row(core, own, settings, choices, row, 0, h))
    for i in range(m):
        noise, k = noise_of_row(core, own, settings, choices, row, 1 + i, h), n_samples(core, settings, row, 1 + i)
        if k < n:  # the error of this mean is noise / k
            noise *= n / max(k, 1.0)
        sd += core.policy.lam[i] * np.sqrt(noise)
    V = mean_of(cell, count, start, length, inverse, values, later, W, 0)
    total = 0.0
    for k in range(start, start + length):
        gap = values[(cell[k] + later) * W] - V
        total += count[k] * gap * gap
    seen = total * inverse
    sums[0] += seen * unbiased / (L * L)
    prior = (choices.prior * doubt(core, own, settings, choices, row, h, 0, L)) ** 2 / 12.0
    variance = shrunk(n, seen, L * L * own.pooled[0, h], prior, choices.weight) + sd * sd
    own.doubts[row] = variance * inverse
    mean = mean_of_row(core, own, settings, row, 0, h)
    core.work.base[row * W] = mean + bonus * np.sqrt(log_here * variance * inverse)
    core.work.base[row * W + m + 1] = mean
    for i in range(m):
        core.work.base[row * W + 1 + i] = mean_of_row(core, own, settings, row, 1 + i, h)
        noise = noise_of_row(core, own, settings, choices, row, 1 + i, h)
        U = mean_of(cell, count, start, length, inverse, values, later, W, 1 + i)
        total, both = 0.0, 0.0
        for k in range(start, start + length):
            gap = values[(cell[k] + later) * W + 1 + i] - U
            total += count[k] * gap * gap
            both += count[k] * gap * (values[(cell[k] + later) * W] - V)
        seen, both = total * inverse, both * inverse
        wide, k = doubt(core, own, settings, choices, row, h, 1 + i, L), n_samples(core, settings, row, 1 + i)
        prior = (choices.prior * wide) ** 2 / 12.0
        if k > 0.0:  # visits without a sample count for nothing here
            own.s2[i, row] = (shrunk(k, seen, own.pooled[1 + i, h], prior, choices.weight) + noise) * (1.0 / k)
        else:
            own.s2[i, row] = wide * wide / 12.0
        sums[1 + i] += seen * unbiased
        sums[1 + m + i] += both * unbiased / L
        both = (n * both + choices.weight * L * own.pooled[1 + m + i, h]) / (n + choices.weight)
        own.lucky[i, row] = max(both, 0.0) / np.sqrt(max(variance * n, 1e-300))


@kernel(inline=True)
def luck_of(core, own, settings, h, c):
    """How many standard errors the best of the actions tried is expected to look better than it is.

    sqrt(log(k) / 2), with k how many look as good within their errors and the policy's: exp(-gap^2 / (2 variance)).
    """
    A, C, W, m = settings.A, settings.C, settings.W, core.policy.lam.size
    top, mean = -np.inf, 0.0
    for a in range(A):
        row = (h * A + a) * C + c
        if core.counts.n_visits[row] > 0.0:
            look = own.q[row * W] - core.work.base[row * W] + core.work.base[row * W + m + 1]
            for i in range(m):
                look += core.policy.lam[i] * core.work.base[row * W + 1 + i]
            own.x[row] = look
            top = max(top, look)
            mean += core.policy.pi[row] * own.doubts[row]
    alike = 0.0
    for a in range(A):
        row = (h * A + a) * C + c
        if core.counts.n_visits[row] > 0.0:
            gap = top - own.x[row]
            alike += np.exp(-0.5 * gap * gap / max(own.doubts[row] + mean, 1e-300))
    return np.sqrt(0.5 * np.log(max(alike, 1.0)))


@kernel
def weigh_luck(core, own, settings):
    """The luck of every state, after the last sweep; its occupancies are overwritten."""
    for h in range(core.counts.n_cells.size):
        for c in range(core.counts.n_cells[h]):
            own.luck[h * settings.C + c] = luck_of(core, own, settings, h, c)


@kernel
def refresh_all(core, own, settings, choices, L):
    """Step (1) of all rows, and then the pooled variances."""
    A, C, H, sums = settings.A, settings.C, core.counts.n_cells.size, own.sums
    bonus = choices.bonus * (LESS if noisy(own) else 1.0)
    for h in range(H):
        sums[:] = 0.0
        often = 0.0  # rows seen twice or more
        same = (h - earlier(core, choices, h)) * C  # cells with as many visits
        for c in range(core.counts.n_cells[h] if same == h * C else 0):
            own.mass[same + c] = log_visits(core, settings, h, c)
        for k in range(core.counts.n_tried[h]):
            row = np.int64(core.counts.tried[h * A * C + k])
            if core.counts.n_visits[row] > 0.0:
                refresh_row(core, own, settings, choices, row, h, L, bonus, own.mass[same + row % C], sums)
                often += core.counts.n_visits[row] > 1.0
        for a in range(0 if settings.revealed else A):
            for row in range((h * A + a) * C, (h * A + a) * C + core.counts.n_cells[h]):
                if core.counts.n_visits[row] == 0.0:
                    open_row(core, own, settings, choices, row, float(H - h))
        for j in range(1 + core.policy.lam.size):
            most = doubt(core, own, settings, choices, h * A * C, h, j, L) / (L if j == 0 else 1.0)
            own.pooled[j, h] = (most**2 / 12.0 + sums[j]) / (1.0 + often)
            if j > 0:
                both = core.policy.lam[j - 1] * most**2 / (12.0 * L) + sums[core.policy.lam.size + j]
                own.pooled[core.policy.lam.size + j, h] = both / (1.0 + often)
    if settings.revealed:
        open_known(core, own, settings, choices)


@kernel
def refresh(core, own, settings, choices, states, actions, L):
    """Step (1) of the rows of one episode."""
    A, C, H, bonus = settings.A, settings.C, core.counts.n_cells.size, choices.bonus * (LESS if noisy(own) else 1.0)
    for h in range(H):
        for k in range(0 if choices.shared else h, H if choices.shared else h + 1):
            c = np.int64(core.counts.cell_of[h, states[k]]) - 1
            row = (h * A + actions[k]) * C + c
            if core.counts.n_visits[row] > 0.0:
                log_here = log_visits(core, settings, h, c)
                refresh_row(core, own, settings, choices, row, h, L, bonus, log_here, own.sums)


@kernel(inline=True)
def set_thresholds(core, own, settings):
    """Thresholds in the report, and the squared standard errors of the estimated ones."""
    m, H = core.policy.lam.size, core.counts.n_cells.size
    for i in range(m):
        alpha, error, most = settings.thresholds[i], 0.0, own.scales.top[i] * H
        if np.isnan(alpha):
            seen = core.counts.alpha_count[i] / H  # episodes
            if seen > 0.0:
                alpha = core.counts.alpha_sum[i] / core.counts.alpha_count[i]
                error = (own.m2_alpha[i] / seen + most * most / (12.0 * seen)) / seen
            else:
                alpha, error = 0.5 * most, most * most / 12.0
        own.report.thresholds[i] = alpha
        own.dual.error[i] = error
