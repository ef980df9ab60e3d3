"""ProxDOME's episode: running variances, standard errors, one soft Bellman sweep for each dual trial.

The arrays of :class:`flexdome.kernels.optimistic.Core` hold counts, sums, successors, policy and multipliers as they do
for every learner; those of :class:`Proximal` what is needed beside them. The W numbers of a cell in ``core.values`` are
(V, U_1, ..., U_m, plug-in reward), those of a row in ``core.base`` (r~, d^_1, ..., d^_m, r^). Only what was visited is
worked on: in a state never visited the policy is uniform, V = L rem and U = rem / 2, and in a visited one an action
never tried has Q = L rem, Q_d = rem / 2 and the variance of a uniform law on [0, rem].

**Shared steps.** Where the model is the same at every step, what is seen at one step counts at all: ``choices.shared``.
A state then gets a cell at every step on its first visit, with the same number, and each transition is written into the
rows of all steps; after the last step nothing is known to follow, so its reward and utilities count at the last step
only. The errors of the rows of one (s, a) are then one error, and add up before they are squared.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.blocks import mix_rows, row_means
from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import LANES, mirror_step
from flexdome.kernels.optimistic import append_successor, new_cell, record, set_base

__all__ = [
    "BACKTRACKS",
    "COOLING",
    "HEATING",
    "HOTTEST",
    "REFRESH",
    "RIDGE",
    "TOLD",
    "TOLERANCE",
    "TRIALS",
    "Choices",
    "Proximal",
    "learn_proximal",
    "observe_proximal",
    "open_cells",
    "plan_proximal",
    "record_proximal",
]

TOLERANCE = 0.1  # of the margin
TRIALS = 15
BACKTRACKS = 3
HEATING, HOTTEST, COOLING = 4.0, 1024.0, 0.98
REFRESH = 0.02
RIDGE = 1e-3
SAME = 1.0 - 1e-9  # what is smaller by less than that is not smaller: rounding must not decide between equals
LARGEST = 1e300
TINY = 1e-18  # occupancy that is not followed: below the rounding of what it would be added to
TOLD = 6  # numbers of a plan beside those of reward and constraints


class Choices(NamedTuple):
    """The constants of the pseudo-code."""

    bonus: float  # c_bonus
    doubt: float  # c_prior
    margin: float  # c_margin
    shared: bool  # what is seen at one step counts at all


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
    opened: np.ndarray  # (H,) cells whose numbers above were initialised
    clock: np.ndarray  # (1,) the episode whose plan looks at all rows again
    heat: np.ndarray  # (1,)
    told: np.ndarray  # (1 + 4 m + 6,) of the last plan: value, U (m), errors (m), eps (m), alpha (m), then
    # trials, tau, heat, whether it is shown safe, actions never tried in visited states, whether the trials ended
    dual: np.ndarray  # (5, m) work: g, last lam, best lam, step, sa
    jacobian: np.ndarray  # (m, m) work


@kernel(inline=True)
def open_new(core, own, settings):
    """Give the cells made since the last call the values of a state never visited."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.lam.size, core.n_cells.size
    L = 1.0
    for i in range(m):
        L += core.lam[i]
    for h in range(H):
        rem = float(H - h)
        for c in range(own.opened[h], core.n_cells[h]):
            core.values[(h * C + c) * W] = L * rem
            for j in range(1, m + 2):
                core.values[(h * C + c) * W + j] = 0.5 * rem
            for a in range(A):
                row = (h * A + a) * C + c
                for j in range(1, m + 2):
                    own.q[row * W + j] = 0.5 * rem
                for i in range(m):
                    own.s2[i, row] = rem * rem / 12.0
        own.opened[h] = core.n_cells[h]


@kernel
def open_cells(core, own, settings):
    """:func:`open_new`, for files."""
    open_new(borrow(core), borrow(own), borrow(settings))


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
def refresh_row(core, own, settings, row, rem, L, bonus, doubt):
    """Step (1) of one visited row: r~ and the squared standard errors; ``bonus`` is c_bonus z."""
    W, m = settings.W, core.lam.size
    inverse, start, n = core.inverse[row], core.start[row], np.int64(core.length[row])
    prior = rem * rem / 12.0 * inverse
    reach = max(doubt * rem, 1.0)  # of what one more visit may bring to light: a step's own range at least
    sd = np.sqrt(own.m2_r[row] * inverse)
    for i in range(m):
        noise = own.m2_d[i, row] * inverse
        sd += core.lam[i] * np.sqrt(noise)
        after = spread_of(core.pool_cell, core.pool_count, start, n, inverse, core.values, W, 1 + i)
        own.s2[i, row] = (after + noise + prior) * inverse
    after = spread_of(core.pool_cell, core.pool_count, start, n, inverse, core.values, W, 0)
    mean = core.sum_r[row] * inverse
    core.base[row * W] = mean + bonus * np.sqrt((after + sd * sd + L * L * reach * reach / 12.0 * inverse) * inverse)
    core.base[row * W + m + 1] = mean


@kernel(inline=True)
def refresh(core, own, settings, shared, states, actions, everything, L, bonus, doubt):
    """Step (1) of all visited rows, or of those of one episode."""
    A, C, H = settings.A, settings.C, core.n_cells.size
    for h in range(H):
        some = H if shared else 1
        for k in range(core.n_tried[h] if everything else some):
            if everything:
                row = np.int64(core.tried[h * A * C + k])
            else:
                at = k if shared else h
                row = (h * A + actions[at]) * C + np.int64(core.cell_of[h, states[at]]) - 1
            if core.n_visits[row] > 0.0:
                refresh_row(core, own, settings, row, float(H - h), L, bonus, doubt)


@kernel(inline=True)
def backward(core, own, settings, tau):
    """One soft Bellman sweep: optimistic Q and V, the softmax policy, and its plug-in utilities."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.lam.size, core.n_cells.size
    pool_cell, pool_count, start, length = core.pool_cell, core.pool_count, core.start, core.length
    inverse, values, base, y, lam = core.inverse, core.values, core.base, core.y, core.lam
    logits, pi, tried, n_tried, q = core.logits, core.pi, core.tried, core.n_tried, own.q
    L = 1.0
    for i in range(m):
        L += lam[i]
    eta, log_A = 1.0 / tau, np.log(float(A))
    for h in range(H - 1, -1, -1):
        n, rows, cap = core.n_cells[h], h * A * C, L * (H - h)
        for a in range(A):
            for k in range(a * C, a * C + (n + LANES - 1) // LANES * LANES):
                y[k] = cap
        for k in range(rows, rows + n_tried[h]):
            row = np.int64(tried[k])
            row_means(pool_cell, pool_count, start[row], length[row], inverse[row], values, base, row, W, q)
            total = q[row * W]
            for i in range(m):
                total += lam[i] * base[row * W + 1 + i]
            y[row - rows] = min(total, cap)
        mirror_step(logits, pi, y, inverse, core.entropy, core.untried, h, C, A, n, 0.0, eta)
        for c in range(n):
            mix_rows(values, h * C + c, q, pi, rows + c, C, A, W)
            values[(h * C + c) * W] = y[c] - tau * (logits[rows + c] + log_A)  # tau log mean exp(Q / tau)


@kernel(inline=True)
def forward(core, own, settings, shared, told):
    """Occupancy under the empirical model; told: plug-in values, and sum x^2 s2 in the place of the errors."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.lam.size, core.n_cells.size
    pool_cell, pool_count, start, length = core.pool_cell, core.pool_count, core.start, core.length
    inverse, values, pi, tried, n_tried, n_cells = (
        core.inverse, core.values, core.pi, core.tried, core.n_tried, core.n_cells
    )  # fmt: skip
    x, mass, s2 = own.x, own.mass, own.s2
    for j in range(1 + 2 * m):
        told[j] = 0.0
    for c in range(n_cells[0]):
        mass[c] = 0.0
    for k in range(settings.starts.size):
        p = settings.start_p[k]
        c = np.int64(core.cell_of[0, settings.starts[k]]) - 1
        told[0] += p * (values[c * W + m + 1] if c >= 0 else 0.5 * H)
        for i in range(m):
            told[1 + i] += p * (values[c * W + 1 + i] if c >= 0 else 0.5 * H)
            if c < 0:
                told[1 + m + i] += p * p * H * H / (12.0 * A)
        if c >= 0:
            mass[c] = p
    for h in range(H):
        n, rows, cells = n_cells[h], h * A * C, h * C
        for a in range(A):
            first = rows + a * C
            for c in range(n):
                x[first + c] = mass[cells + c] * pi[first + c]
        for i in range(0 if shared else m):
            for a in range(A):
                first = rows + a * C
                total = 0.0
                for c in range(n):
                    total += x[first + c] * x[first + c] * s2[i, first + c]
                told[1 + m + i] += total
        if h + 1 < H:
            for c in range(n_cells[h + 1]):
                mass[cells + C + c] = 0.0
            for k in range(rows, rows + n_tried[h]):
                row = np.int64(tried[k])
                if x[row] < TINY:
                    continue
                share = x[row] * inverse[row]
                for e in range(start[row], start[row] + length[row]):
                    mass[pool_cell[e]] += share * pool_count[e]
    for i in range(m if shared else 0):
        for a in range(A):
            for c in range(n_cells[0]):
                total = 0.0
                for h in range(H):
                    row = (h * A + a) * C + c
                    total += x[row] * np.sqrt(s2[i, row])
                told[1 + m + i] += total * total


@kernel(inline=True)
def newton_step(core, own, settings, tau, top):
    """``dual[3]``: the Newton step -J^-1 g over the free multipliers, J = (1/tau) sum x Adv_i Adv_j + ridge."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.lam.size, core.n_cells.size
    J, g, step, lam = own.jacobian, own.dual[0], own.dual[3], core.lam
    J[:] = 0.0
    for h in range(H):
        for a in range(A):
            for c in range(core.n_cells[h]):
                row, cell = (h * A + a) * C + c, h * C + c
                for i in range(m):
                    weighted = own.x[row] * (own.q[row * W + 1 + i] - core.values[cell * W + 1 + i])
                    for j in range(i + 1):
                        J[i, j] += weighted * (own.q[row * W + 1 + j] - core.values[cell * W + 1 + j])
    for i in range(m):
        step[i] = -g[i]
        for j in range(i + 1):
            J[i, j] /= tau
            J[j, i] = J[i, j]
        J[i, i] += RIDGE
    for i in range(m):
        if (lam[i] <= 0.0 and g[i] > 0.0) or (lam[i] >= top and g[i] < 0.0):  # pinned, so not free
            for j in range(m):
                J[i, j] = J[j, i] = 1.0 if i == j else 0.0
            step[i] = 0.0
    for k in range(m):  # Gauss: J is symmetric and positive definite, so without pivots
        for i in range(k + 1, m):
            factor = J[i, k] / J[k, k]
            for j in range(k, m):
                J[i, j] -= factor * J[k, j]
            step[i] -= factor * step[k]
    for k in range(m - 1, -1, -1):
        for j in range(k + 1, m):
            step[k] -= J[k, j] * step[j]
        step[k] /= J[k, k]


@kernel(inline=True)
def set_thresholds(core, own, settings, told):
    """Thresholds in ``told`` and the squared standard errors ``dual[4]`` of the estimated ones."""
    m, H = core.lam.size, core.n_cells.size
    for i in range(m):
        alpha, error = settings.thresholds[i], 0.0
        if np.isnan(alpha):
            seen = core.alpha_count[i] / H  # episodes
            if seen > 0.0:
                alpha = core.alpha_sum[i] / core.alpha_count[i]
                error = (own.m2_alpha[i] / seen + H * H / (12.0 * seen)) / seen
            else:
                alpha, error = 0.5 * H, H * H / 12.0
        told[1 + 3 * m + i] = alpha
        own.dual[4, i] = error


@kernel
def plan(core, own, settings, choices, t, states, actions):
    """The policy and the multipliers of episode t, from the data there are."""
    core, own, settings, states, actions = borrow(core), borrow(own), borrow(settings), borrow(states), borrow(actions)
    A, m, H = settings.A, core.lam.size, core.n_cells.size
    lam, told, heat = core.lam, own.told, own.heat[0]
    g, last, best, step, sa = own.dual[0], own.dual[1], own.dual[2], own.dual[3], own.dual[4]
    z, top = np.sqrt(np.log(1.0 + t)), np.sqrt(float(t))
    L = 1.0
    for i in range(m):
        lam[i] = min(lam[i], top)
        L += lam[i]
    tau = heat * L / np.sqrt(float(H) * t)
    everything = t >= own.clock[0]
    if everything:
        own.clock[0] = t + 1 + np.int64(np.floor(REFRESH * t))
    refresh(core, own, settings, choices.shared, states, actions, everything, L, choices.bonus * z, choices.doubt)
    set_thresholds(core, own, settings, told)
    done, trials, backtracks = False, 0, 0
    best_short, best_residual, last_residual = np.inf, np.inf, np.inf
    low, high = -np.inf, np.inf  # where m = 1: the root is between
    while True:
        backward(core, own, settings, tau)
        forward(core, own, settings, choices.shared, told)
        done, short, residual, safe = True, 0.0, 0.0, True
        for i in range(m):
            error = np.sqrt(told[1 + m + i] + sa[i])
            eps = choices.margin * z * error
            told[1 + m + i], told[1 + 2 * m + i] = error, eps
            g[i] = told[1 + i] - eps - told[1 + 3 * m + i]
            near = TOLERANCE * (max(choices.margin, 0.5) * z * error)  # of the margin, unless that is switched off
            safe = safe and g[i] >= -near
            if (g[i] < -near and lam[i] < top) or (g[i] > near and lam[i] > 0.0):
                done = False
                residual = max(residual, abs(g[i]))
            short = max(short, -g[i])
        if trials == TRIALS:  # this was the best one again
            done = False
            break
        trials += 1
        if done:
            break
        if short < SAME * best_short or (short <= best_short and residual < SAME * best_residual):
            best_short, best_residual = short, residual
            best[:] = lam
        if trials == TRIALS:
            lam[:] = best
            continue
        if m > 1 and residual >= SAME * last_residual and backtracks < BACKTRACKS:
            backtracks += 1
            for i in range(m):
                lam[i] = 0.5 * (lam[i] + last[i])
            continue
        backtracks, last_residual = 0, residual
        last[:] = lam
        newton_step(core, own, settings, tau, top)
        for i in range(m):
            reach = 0.1 + lam[i]
            lam[i] = min(max(lam[i] + min(max(step[i], -reach), reach), 0.0), top)
        if m == 1:
            if g[0] < 0.0:
                low = last[0]
            else:
                high = last[0]
            if not low < lam[0] < high:
                lam[0] = 0.5 * (max(low, 0.0) + min(high, top))
    own.heat[0] = max(1.0, COOLING * heat) if done else min(HEATING * heat, HOTTEST)
    untried = 0.0
    for h in range(H):
        untried += A * core.n_cells[h] - core.n_tried[h]
    at = 1 + 4 * m
    told[at], told[at + 1], told[at + 2], told[at + 3] = trials, tau, heat, 1.0 if safe else 0.0
    told[at + 4], told[at + 5] = untried, 1.0 if done else 0.0


@kernel(inline=True)
def add_spread(core, own, row, n, reward, utilities, h):
    """Running variances of a row that was just visited for the n-th time.

    With the new mean and the new count n, a sum of squared deviations grows by (x - mean)^2 n / (n - 1).
    """
    if n > 1.0:
        gap = reward - core.sum_r[row] * core.inverse[row]
        own.m2_r[row] += gap * gap * (n / (n - 1.0))
        for i in range(core.lam.size):
            gap = utilities[i, h] - core.sum_d[i, row] * core.inverse[row]
            own.m2_d[i, row] += gap * gap * (n / (n - 1.0))


@kernel(inline=True)
def record_shared(core, own, settings, states, actions, rewards, utilities, thresholds):
    """Counts, sums, successors and running variances of one episode, each transition at every step."""
    A, C, H, m = settings.A, settings.C, actions.size, core.lam.size
    for h in range(H):
        if core.cell_of[0, states[h]] == 0:
            for k in range(H):
                new_cell(core, settings, k, states[h])
    for h in range(H):
        c = np.int64(core.cell_of[h, states[h]]) - 1
        own.seen[(h * A + actions[h]) * C + c] += 1.0
        for k in range(0 if h + 1 < H else H - 1, H):
            row = (k * A + actions[h]) * C + c
            if core.n_visits[row] == 0.0:
                core.tried[k * A * C + core.n_tried[k]] = row
                core.tried_cell[k * A * C + core.n_tried[k]] = k * C + c
                core.n_tried[k] += 1
                core.untried[k * C + c] -= core.pi[row]
            core.n_visits[row] += 1.0
            core.inverse[row] = 1.0 / core.n_visits[row]
            if k + 1 < H:
                cell = (k + 1) * C + np.int64(core.cell_of[k + 1, states[h + 1]]) - 1
                known = False
                for e in range(core.start[row], core.start[row] + core.length[row]):
                    if core.pool_cell[e] == cell:
                        core.pool_count[e] += 1.0
                        known = True
                        break
                if not known:
                    append_successor(core, row, cell)
            core.sum_r[row] += rewards[h]
            for i in range(m):
                core.sum_d[i, row] += utilities[i, h]
            set_base(core, settings, row)
            add_spread(core, own, row, core.n_visits[row], rewards[h], utilities, h)
    if thresholds.size > 0:
        for i in range(m):
            for h in range(H):
                if not np.isnan(thresholds[i, h]):  # there need be none of a threshold that is known
                    core.alpha_sum[i] += thresholds[i, h]
                    core.alpha_count[i] += 1.0


@kernel
def add_episode(core, own, settings, shared, states, actions, rewards, utilities, thresholds):
    """Counts, sums and running variances of one episode."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    states, actions, rewards = borrow(states), borrow(actions), borrow(rewards)
    utilities, thresholds = borrow(utilities), borrow(thresholds)
    A, C, H, m = settings.A, settings.C, actions.size, core.lam.size
    if shared:
        record_shared(core, own, settings, states, actions, rewards, utilities, thresholds)
    else:
        record(core, settings, states, actions, rewards, utilities, thresholds)
        for h in range(H):
            row = (h * A + actions[h]) * C + np.int64(core.cell_of[h, states[h]]) - 1
            add_spread(core, own, row, core.n_visits[row], rewards[h], utilities, h)
    if thresholds.size > 0:
        for i in range(m):
            n = core.alpha_count[i] / H
            mean = 0.0
            for h in range(H):
                mean += thresholds[i, h]
            if n > 1.0 and not np.isnan(mean):
                gap = mean / H - core.alpha_sum[i] / core.alpha_count[i]
                # A sample may be any finite number; its square may not be.
                own.m2_alpha[i] = min(own.m2_alpha[i] + gap * gap * (n / (n - 1.0)), LARGEST)
    open_new(core, own, settings)


@kernel(inline=True)
def learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, thresholds, played):
    """One episode: add its data, then plan the next."""
    add_episode(core, own, settings, choices.shared, states, actions, rewards, utilities, thresholds)
    played[0] += 1
    plan(core, own, settings, choices, played[0] + 1, states, actions)


@kernel
def plan_proximal(core, own, settings, choices, t):
    """Plan episode t from all the data there are."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    own.clock[0] = t
    none = core.n_cells[:0]
    plan(core, own, settings, choices, t, none, none)


@kernel
def observe_proximal(core, own, settings, choices, episode, played):
    """One episode of ProxDOME; ``played[0]`` counts it here, as an interrupt may come between two calls."""
    core, own, settings, played = borrow(core), borrow(own), borrow(settings), borrow(played)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, thresholds, played)


@kernel
def record_proximal(core, own, settings, choices, episode):
    """Add the data of one episode; the policy stays, and the next plan looks at all rows."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    add_episode(core, own, settings, choices.shared, states, actions, rewards, utilities, thresholds)
    own.clock[0] = 0
