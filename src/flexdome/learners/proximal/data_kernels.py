"""What ProxDOME knows: counts, running variances, pooled variances, standard errors, and in which units.

The arrays of :class:`flexdome.learners.seen.kernels.Core` hold counts, sums, successors, policy and multipliers as they
do for every learner; those of :class:`Proximal` what is needed beside them. The W numbers of a cell in
``core.work.values`` are (V, U_1, ..., U_m, plug-in reward), those of a row in ``core.work.base`` (r~, d^_1, ..., d^_m,
r^). Only what was visited is worked on: in a state never visited the policy is uniform, V = top rem and U_i = mid_i
rem, and in a visited one an action never tried has Q = top rem, Q_d = mid_i rem and the variance of a uniform law of
width b_i rem.

**Units.** What a utility is worth where nothing was tried, and how much it may differ, is measured: :class:`Scales`.

**Shared steps.** Where the model is the same at every step, what is seen at one step counts at all: ``choices.shared``.
A state then gets a cell at every step on its first visit, with the same number, and each transition is written into the
rows of all steps; after the last step nothing is known to follow, so its reward and utilities count at the last step
only. The errors of the rows of one (s, a) are then one error, and add up before they are squared.

**What is known.** A target d_i + U_i lies in an interval of length b_i rem, and doubt about it is measured by that
length. Where d_i is known its part of length b_i is not in doubt, where the transitions are the rest is not:
:func:`doubt`. What is not in doubt has no variance either. An action never tried has then Q = r + lam . d + p V with
the top of the range for a mean that is not known and for what follows, and Q_d = d + p U with the middle for both.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.seen.kernels import add_outcome, count_thresholds, count_visit, n_missing, new_cell, record

__all__ = [
    "Choices",
    "Dual",
    "Proximal",
    "Report",
    "Scales",
    "add_episode",
    "known",
    "lagrangian",
    "measure",
    "noisy",
    "open_cells",
    "open_known",
    "pool_all",
    "refresh",
    "refresh_all",
    "reopen",
    "set_thresholds",
    "shrink_means",
    "weigh_luck",
]

LARGEST = 1e300
LESS = 0.5  # of the bonus, where observations are noisy: means are shrunk there, and bad luck is forgotten
NOISY = 10.0  # times the variance of the means: from here on, single observations of a utility say little
ROUNDING = 1e-20  # of the square of the largest: what is less is no noise
NOTHING = 1e-30  # utilities below are no unit: their squares would be lost


class Choices(NamedTuple):
    """The constants of the pseudo-code."""

    bonus: float  # c_bonus
    prior: float  # c_prior
    weight: float  # kappa
    margin: float  # c_margin
    samples: float  # c_alpha, of the errors of thresholds that are estimated
    luck: float  # c_luck, of what a plan may owe to lucky estimates
    least: float  # z is at least the square root of it
    licence: float  # first tries in an episode for which a plan may be played that is not shown safe
    reward: float  # b_0, the largest reward of a step
    shared: bool  # what is seen at one step counts at all
    given: np.ndarray  # (m,) utilities of a safe policy that was given, or of size 0
    certain: bool  # everything is known, thresholds too: the plan is the exact optimum, and is made once


class Scales(NamedTuple):
    """The units of the utilities, (m,) each: what the first try of every (step, state, action) brought.

    The last three follow from the others and the known thresholds, and are taken anew when all rows are.
    """

    high: np.ndarray  # largest of all utilities seen
    count: np.ndarray  # first tries
    mean: np.ndarray  # of them
    m2: np.ndarray  # summed squared deviations
    top: np.ndarray  # the most that a step may bring
    middle: np.ndarray  # what a step never tried is taken to bring
    width: np.ndarray  # b_i, how much what steps bring differs: of a uniform law of that width


class Report(NamedTuple):
    """What is told of the last plan: views of one flat array, which is its first field."""

    numbers: np.ndarray
    value: np.ndarray  # (1,) plug-in V_r
    utilities: np.ndarray  # (m,) plug-in V_d
    errors: np.ndarray  # (m,) standard errors, with those of the thresholds
    margin: np.ndarray  # (m,) eps
    thresholds: np.ndarray  # (m,)
    trials: np.ndarray  # (1,) sweeps
    temperature: np.ndarray  # (1,) tau
    safe: np.ndarray  # (1,) whether the policy is shown safe
    untried: np.ndarray  # (1,) actions never tried in visited states
    solved: np.ndarray  # (1,) whether the dual trials ended
    ceiling: np.ndarray  # (1,) whether the multipliers are at their ceiling
    first: np.ndarray  # (1,) first tries that the optimistic plan expects in an episode
    share: np.ndarray  # (1,) how much of the optimistic plan is played: 1, or what is mixed into the safe policy
    weight: np.ndarray  # (1,) with what probability the policy is played, and not the safe policy that was given


class Dual(NamedTuple):
    """Work of the dual solve, (m,) each."""

    g: np.ndarray  # utility less margin less threshold
    near: np.ndarray  # tolerance
    error: np.ndarray  # squared standard errors of the thresholds
    luck: np.ndarray  # what the plan may owe to lucky estimates
    last: np.ndarray  # the last accepted multipliers
    best: np.ndarray  # those of the best trial
    plan: np.ndarray  # those of the optimistic plan
    step: np.ndarray  # Newton's
    lean: np.ndarray  # how it changes with the ceiling
    jacobian: np.ndarray  # (m, m)


class Proximal(NamedTuple):
    """What ProxDOME keeps beside the empirical model. Arrays are changed in place."""

    m2_r: np.ndarray  # (rows,) N times the variance of the rewards seen
    m2_d: np.ndarray  # (m, rows)
    seen: np.ndarray  # (rows,) visits at the row's own step, where steps are shared
    m2_alpha: np.ndarray  # (m,) of the episodes' mean threshold samples
    s2: np.ndarray  # (m, rows) squared standard errors of the utilities
    lucky: np.ndarray  # (m, rows) what a plan that looks good by one standard error owes to luck in each utility
    doubts: np.ndarray  # (rows,) squared standard errors of r + lam . d + V
    luck: np.ndarray  # (cells,) how many standard errors the best action is expected to look better than it is
    q: np.ndarray  # (rows * W,) Q of the last sweep; middle times rem where never tried
    x: np.ndarray  # (rows,) occupancy of the last sweep under the empirical model
    mass: np.ndarray  # (cells,)
    kept: np.ndarray  # (rows,) log pi of the last policy that was shown safe
    hope: np.ndarray  # (rows,) work: log pi of the optimistic plan
    has_kept: np.ndarray  # (1,) whether there is one
    share: np.ndarray  # (1,) the last share of an optimistic plan that was mixed into it
    pooled: np.ndarray  # (1 + 2 m, H) pooled variances of a step's targets: of r + lam . d + V over L^2, of d_i + U_i,
    # and covariances of the two over L
    pools: np.ndarray  # (3, 1 + m, H) of the rewards and utilities of a step: noise of one observation (a variance),
    # how much larger it is than the variance of the means, and their centre
    opened: np.ndarray  # (H,) cells whose numbers above were initialised
    logged: np.ndarray  # (1,) episodes that were taken as data and not played
    clock: np.ndarray  # (1,) the episode whose plan looks at all rows again
    scales: Scales
    report: Report
    dual: Dual
    sums: np.ndarray  # (1 + 2 m,) work
    judged: np.ndarray  # (m,) episodes played whose own sums are known
    below: np.ndarray  # (m,) those whose sum fell below the threshold there was
    promise: np.ndarray  # (1 + m, SIZE) work, and the sequences of a safe policy that was given


@kernel(inline="late")
def known(settings, j, row):
    """Whether mean j (0 the reward's) of a row is known; it is of all rows or of none."""
    return settings.known.size > 0 and not np.isnan(settings.known[j, row])


@kernel(inline="late")
def n_samples(core, settings, row, j):
    """How many observations there are of mean j (0 the reward's) of a row: its visits, less those that are missing."""
    n = core.counts.n_visits[row]
    return n if j == 0 or known(settings, j, row) else n - n_missing(core.counts, j - 1, row)


@kernel(inline=True)
def lagrangian(choices, scales, lam):
    """L, how much steps differ in r + lam . d, and the most that a step may bring of it."""
    L, top = choices.reward, choices.reward
    for i in range(lam.size):
        L += lam[i] * scales.width[i]
        top += lam[i] * scales.top[i]
    return L, top


@kernel(inline=True)
def measure(own, settings, H):
    """Top, middle and width of every utility, from what was seen and from the thresholds that are known."""
    scales = own.scales
    for i in range(scales.high.size):
        n, most, each = scales.count[i], scales.high[i], settings.thresholds[i] / H
        if each > most:  # not where it is NaN
            most = each
        if not most > NOTHING:
            most = 1.0
        scales.top[i] = most
        scales.middle[i] = (0.5 * most + n * scales.mean[i]) / (1.0 + n)
        scales.width[i] = min(most, np.sqrt((most * most + 12.0 * scales.m2[i]) / max(n, 1.0)))


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
    """:func:`pool_means` of all steps, and from it how much the means of the utilities differ."""
    H, scales = core.counts.n_cells.size, own.scales
    for j in range(own.pools.shape[1]):
        for h in range(H):
            pool_means(core, own, settings, choices, j, h)
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
def mean_of(pool_cell, pool_count, start, n, inverse, values, W, j):
    """Mean of value j over the successors of a row."""
    mean = 0.0
    for k in range(start, start + n):
        mean += pool_count[k] * values[pool_cell[k] * W + j]
    return mean * inverse


@kernel(inline=True)
def shrunk(n, seen, pooled, prior, weight):
    """Variance of one target of a row: what was seen, shrunk towards the step's, and doubt that fades with n."""
    return (n * seen + weight * pooled) / (n + weight) + prior / n


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


@kernel
def refresh_row(core, own, settings, choices, row, h, L, bonus, sums):
    """Step (1) of one visited row: r~, squared standard errors, and luck; ``sums`` gets the sample (co)variances."""
    A, C, W, m = settings.A, settings.C, settings.W, core.policy.lam.size
    start, length = (
        core.counts.start[row],
        np.int64(0 if settings.known_p else core.counts.length[row]),
    )  # known: no error
    cell, count, values = core.counts.pool_cell, core.counts.pool_count, core.work.values
    n, here = core.counts.n_visits[row], 0.0
    inverse = 1.0 / n
    for a in range(A):
        here += core.counts.n_visits[(h * A + a) * C + row % C]
    unbiased = n / (n - 1.0) if n > 1.0 else 0.0
    sd = np.sqrt(noise_of_row(core, own, settings, choices, row, 0, h))
    for i in range(m):
        noise, k = noise_of_row(core, own, settings, choices, row, 1 + i, h), n_samples(core, settings, row, 1 + i)
        if k < n:  # the error of this mean is noise / k
            noise *= n / max(k, 1.0)
        sd += core.policy.lam[i] * np.sqrt(noise)
    V = mean_of(cell, count, start, length, inverse, values, W, 0)
    total = 0.0
    for k in range(start, start + length):
        gap = values[cell[k] * W] - V
        total += count[k] * gap * gap
    seen = total * inverse
    sums[0] += seen * unbiased / (L * L)
    prior = (choices.prior * doubt(core, own, settings, choices, row, h, 0, L)) ** 2 / 12.0
    variance = shrunk(n, seen, L * L * own.pooled[0, h], prior, choices.weight) + sd * sd
    own.doubts[row] = variance * inverse
    mean = mean_of_row(core, own, settings, row, 0, h)
    core.work.base[row * W] = mean + bonus * np.sqrt(np.log(1.0 + here) * variance * inverse)
    core.work.base[row * W + m + 1] = mean
    for i in range(m):
        core.work.base[row * W + 1 + i] = mean_of_row(core, own, settings, row, 1 + i, h)
        noise = noise_of_row(core, own, settings, choices, row, 1 + i, h)
        U = mean_of(cell, count, start, length, inverse, values, W, 1 + i)
        total, both = 0.0, 0.0
        for k in range(start, start + length):
            gap = values[cell[k] * W + 1 + i] - U
            total += count[k] * gap * gap
            both += count[k] * gap * (values[cell[k] * W] - V)
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
        for k in range(core.counts.n_tried[h]):
            row = np.int64(core.counts.tried[h * A * C + k])
            if core.counts.n_visits[row] > 0.0:
                refresh_row(core, own, settings, choices, row, h, L, bonus, sums)
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
            row = (h * A + actions[k]) * C + np.int64(core.counts.cell_of[h, states[k]]) - 1
            if core.counts.n_visits[row] > 0.0:
                refresh_row(core, own, settings, choices, row, h, L, bonus, own.sums)


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
                own.m2_alpha[i] = min(own.m2_alpha[i] + gap * gap * (n / (n - 1.0)), LARGEST)
    open_new(core, own, settings, choices)
