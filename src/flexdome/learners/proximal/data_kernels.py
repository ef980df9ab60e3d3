"""What ProxDOME knows: counts, running variances, pooled variances and standard errors.

The arrays of :class:`flexdome.learners.seen.kernels.Core` hold counts, sums, successors, policy and multipliers as they
do for every learner; those of :class:`Proximal` what is needed beside them. The W numbers of a cell in
``core.work.values`` are (V, U_1, ..., U_m, plug-in reward), those of a row in ``core.work.base`` (r~, d^_1, ..., d^_m,
r^). Only what was visited is worked on: in a state never visited the policy is uniform, V = L rem and U = rem / 2, and
in a visited one an action never tried has Q = L rem, Q_d = rem / 2 and the variance of a uniform law on [0, rem].

**Shared steps.** Where the model is the same at every step, what is seen at one step counts at all: ``choices.shared``.
A state then gets a cell at every step on its first visit, with the same number, and each transition is written into the
rows of all steps; after the last step nothing is known to follow, so its reward and utilities count at the last step
only. The errors of the rows of one (s, a) are then one error, and add up before they are squared.

**What is known.** A target d_i + U_i lies in an interval of length rem, and doubt about it is measured by that length.
Where d_i is known its part of length 1 is not in doubt, where the transitions are the rest is not: :func:`doubt`. What
is not in doubt has no variance either. An action never tried has then Q = r + lam . d + p V with 1 for a mean that is
not known and L (rem - 1) for what follows, and Q_d = d + p U with the middle of what is possible for both.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.learners.seen.kernels import add_outcome, count_thresholds, count_visit, new_cell, record

__all__ = ["TOLD", "Choices", "Proximal", "add_episode", "open_cells", "open_known", "refresh", "set_thresholds"]

LARGEST = 1e300
TOLD = 6  # numbers of a plan beside those of reward and constraints


class Choices(NamedTuple):
    """The constants of the pseudo-code."""

    bonus: float  # c_bonus
    prior: float  # c_prior
    weight: float  # kappa
    margin: float  # c_margin
    shared: bool  # what is seen at one step counts at all
    certain: bool  # everything is known, thresholds too: the plan is the exact optimum, and is made once


class Proximal(NamedTuple):
    """What ProxDOME keeps beside the empirical model. Arrays are changed in place."""

    m2_r: np.ndarray  # (rows,) N times the variance of the rewards seen
    m2_d: np.ndarray  # (m, rows)
    seen: np.ndarray  # (rows,) visits at the row's own step, where steps are shared
    m2_alpha: np.ndarray  # (m,) of the episodes' mean threshold samples
    s2: np.ndarray  # (m, rows) squared standard errors of the utilities
    q: np.ndarray  # (rows * W,) Q of the last sweep; rem / 2 where never tried
    x: np.ndarray  # (rows,) occupancy of the last sweep under the empirical model
    mass: np.ndarray  # (cells,)
    kept: np.ndarray  # (rows,) work: log pi of the policy before
    pooled: np.ndarray  # (1 + m, H) pooled variances of a step's targets: of r + lam . d + V over L^2, of d_i + U_i
    opened: np.ndarray  # (H,) cells whose numbers above were initialised
    logged: np.ndarray  # (1,) episodes that were taken as data and not played
    clock: np.ndarray  # (1,) the episode whose plan looks at all rows again
    heat: np.ndarray  # (1,)
    told: np.ndarray  # (1 + 4 m + 6,) of the last plan: value, U (m), errors (m), eps (m), alpha (m), then
    # trials, tau, heat, whether it is shown safe, actions never tried in visited states, whether the trials ended
    dual: np.ndarray  # (6, m) work: g, last lam, best lam, step, sa, first lam
    jacobian: np.ndarray  # (m, m) work
    sums: np.ndarray  # (1 + m,) work


@kernel(inline=True)
def open_new(core, own, settings):
    """Give the cells made since the last call the values of a state never visited."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    L = 1.0
    for i in range(m):
        L += core.policy.lam[i]
    for h in range(H):
        rem = float(H - h)
        for c in range(own.opened[h], core.counts.n_cells[h]):
            core.work.values[(h * C + c) * W] = L * rem
            for j in range(1, m + 2):
                core.work.values[(h * C + c) * W + j] = 0.5 * rem
            for a in range(A):
                row = (h * A + a) * C + c
                for j in range(1, m + 2):
                    own.q[row * W + j] = 0.5 * rem
                for i in range(m):
                    own.s2[i, row] = rem * rem / 12.0
        own.opened[h] = core.counts.n_cells[h]


@kernel
def open_cells(core, own, settings):
    """:func:`open_new`, for files."""
    open_new(borrow(core), borrow(own), borrow(settings))


@kernel(inline=True)
def known(settings, j, row):
    """Whether mean j (0 the reward's) of a row is known; it is of all rows or of none."""
    return settings.known.size > 0 and not np.isnan(settings.known[j, row])


@kernel(inline=True)
def doubt(core, settings, row, h, j, L):
    """Length of the interval in which target j of a row may lie: d_j + U_j, or for j = 0 the reward r + lam . d + V.

    L rem for the reward and rem for a utility where nothing is known.
    """
    rest = 0.0 if settings.known_p is not None else float(core.counts.n_cells.size - h - 1)
    if j > 0:
        return rest if known(settings, j, row) else rest + 1.0
    own = L
    if settings.known.size > 0:
        own = 0.0 if known(settings, 0, row) else 1.0
        for i in range(core.policy.lam.size):
            own += 0.0 if known(settings, 1 + i, row) else core.policy.lam[i]
    return own + L * rest


@kernel
def open_known(core, own, settings):
    """Where something is known: Q_d and the errors of every row never visited, and what is pooled at first."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    for h in range(H):
        half = 0.0 if settings.known_p is not None else 0.5 * (H - h - 1)
        for k in range(h * A * C, h * A * C + core.counts.n_tried[h]):
            row = np.int64(core.counts.tried[k])
            if core.counts.n_visits[row] == 0.0:
                mean = settings.known[0, row] if known(settings, 0, row) else np.nan
                core.work.base[row * W] = 1.0 if np.isnan(mean) else mean
                core.work.base[row * W + m + 1] = (0.5 if np.isnan(mean) else mean) + half
                for i in range(m):
                    middle = settings.known[1 + i, row] if known(settings, 1 + i, row) else 0.5
                    core.work.base[row * W + 1 + i] = middle + half
                    own.s2[i, row] = doubt(core, settings, row, h, 1 + i, 1.0) ** 2 / 12.0


@kernel(inline=True)
def spread_of(pool_cell, pool_count, start, n, inverse, values, W, j):
    """Variance of value j over the successors of a row."""
    mean = 0.0
    for k in range(start, start + n):
        mean += pool_count[k] * values[pool_cell[k] * W + j]
    mean *= inverse
    total = 0.0
    for k in range(start, start + n):
        gap = values[pool_cell[k] * W + j] - mean
        total += pool_count[k] * gap * gap
    return total * inverse


@kernel(inline=True)
def shrunk(n, seen, pooled, prior, weight):
    """Variance of one target of a row: what was seen, shrunk towards the step's, and doubt that fades with n."""
    return (n * seen + weight * pooled) / (n + weight) + prior / n


@kernel(inline=True)
def refresh_row(core, own, settings, choices, row, h, L, sums):
    """Step (1) of one visited row: r~ and the squared standard errors; ``sums`` gets the sample variances."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    start, length = (
        core.counts.start[row],
        np.int64(0 if settings.known_p is not None else core.counts.length[row]),
    )  # known: no error
    n, here = core.counts.n_visits[row], 0.0
    inverse = 1.0 / n
    for a in range(A):
        here += core.counts.n_visits[(h * A + a) * C + row % C]
    unbiased = n / (n - 1.0) if n > 1.0 else 0.0
    sd = np.sqrt(own.m2_r[row] * inverse)
    for i in range(m):
        noise = own.m2_d[i, row] * inverse
        sd += core.policy.lam[i] * np.sqrt(noise)
        seen = noise + spread_of(
            core.counts.pool_cell, core.counts.pool_count, start, length, inverse, core.work.values, W, 1 + i
        )
        prior = (choices.prior * doubt(core, settings, row, h, 1 + i, L)) ** 2 / 12.0
        own.s2[i, row] = shrunk(n, seen, own.pooled[1 + i, h], prior, choices.weight) * inverse
        sums[1 + i] += seen * unbiased
    seen = sd * sd + spread_of(
        core.counts.pool_cell, core.counts.pool_count, start, length, inverse, core.work.values, W, 0
    )
    sums[0] += seen * unbiased / (L * L)
    prior = (choices.prior * (H - h)) ** 2 / 12.0
    prior *= L * L
    if settings.revealed is not None:
        prior = (choices.prior * doubt(core, settings, row, h, 0, L)) ** 2 / 12.0
    variance = shrunk(n, seen, L * L * own.pooled[0, h], prior, choices.weight)
    mean = settings.known[0, row] if known(settings, 0, row) else core.counts.sum_r[row] * inverse
    core.work.base[row * W] = mean + choices.bonus * np.sqrt(np.log(1.0 + here) * variance * inverse)
    core.work.base[row * W + m + 1] = mean


@kernel(inline=True)
def refresh(core, own, settings, choices, states, actions, everything, L):
    """Step (1) of all visited rows, and then the pooled variances; or of the rows of one episode."""
    A, C, H, sums = settings.A, settings.C, core.counts.n_cells.size, own.sums
    for h in range(H):
        some = H if choices.shared else 1
        sums[:] = 0.0
        often = 0.0  # rows seen twice or more
        for k in range(core.counts.n_tried[h] if everything else some):
            if everything:
                row = np.int64(core.counts.tried[h * A * C + k])
            else:
                at = k if choices.shared else h
                row = (h * A + actions[at]) * C + np.int64(core.counts.cell_of[h, states[at]]) - 1
            if core.counts.n_visits[row] > 0.0:
                refresh_row(core, own, settings, choices, row, h, L, sums)
                often += core.counts.n_visits[row] > 1.0
        if everything:
            for j in range(sums.size):
                most = float(H - h)
                if settings.revealed is not None:
                    most = doubt(core, settings, h * A * C, h, j, L) / (L if j == 0 else 1.0)
                own.pooled[j, h] = (most**2 / 12.0 + sums[j]) / (1.0 + often)


@kernel(inline=True)
def set_thresholds(core, own, settings, told):
    """Thresholds in ``told`` and the squared standard errors ``dual[4]`` of the estimated ones."""
    m, H = core.policy.lam.size, core.counts.n_cells.size
    for i in range(m):
        alpha, error = settings.thresholds[i], 0.0
        if np.isnan(alpha):
            seen = core.counts.alpha_count[i] / H  # episodes
            if seen > 0.0:
                alpha = core.counts.alpha_sum[i] / core.counts.alpha_count[i]
                error = (own.m2_alpha[i] / seen + H * H / (12.0 * seen)) / seen
            else:
                alpha, error = 0.5 * H, H * H / 12.0
        told[1 + 3 * m + i] = alpha
        own.dual[4, i] = error


@kernel(inline=True)
def add_spread(core, own, settings, row, n, reward, utilities, h):
    """Running variances of a row that was just visited for the n-th time, of what is not known.

    With the new mean and the new count n, a sum of squared deviations grows by (x - mean)^2 n / (n - 1).
    """
    if n > 1.0:
        inverse = 1.0 / n
        if not known(settings, 0, row):
            gap = reward - core.counts.sum_r[row] * inverse
            own.m2_r[row] += gap * gap * (n / (n - 1.0))
        for i in range(core.policy.lam.size):
            if not known(settings, 1 + i, row):
                gap = utilities[i, h] - core.counts.sum_d[i, row] * inverse
                own.m2_d[i, row] += gap * gap * (n / (n - 1.0))


@kernel(inline=True)
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
def add_episode(core, own, settings, shared, states, actions, rewards, utilities, thresholds):
    """Counts, sums and running variances of one episode."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    states, actions, rewards = borrow(states), borrow(actions), borrow(rewards)
    utilities, thresholds = borrow(utilities), borrow(thresholds)
    A, C, H, m = settings.A, settings.C, actions.size, core.policy.lam.size
    if shared:
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
    open_new(core, own, settings)
