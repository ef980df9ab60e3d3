"""ProxDOME's plan: one soft Bellman sweep for each dual trial, until the pessimistic utilities meet the thresholds.

What is seen, and the standard errors taken of it, is :mod:`flexdome.kernels.proximal_data`.
"""

import numpy as np

from flexdome.kernels.blocks import mix_rows, row_means
from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import LANES, mirror_step
from flexdome.kernels.proximal_data import add_episode, refresh, set_thresholds

__all__ = [
    "BACKTRACKS",
    "COOLING",
    "HEATING",
    "HOTTEST",
    "REFRESH",
    "RESCUES",
    "RIDGE",
    "TOLERANCE",
    "TRIALS",
    "learn_proximal",
    "observe_proximal",
    "plan_proximal",
    "record_proximal",
]

TOLERANCE = 0.05  # of the margin
TRIALS = 15
RESCUES = 15  # more of them, where none of the first was shown safe
BACKTRACKS = 3
HEATING, HOTTEST, COOLING = 4.0, 1024.0, 0.98
REFRESH = 0.02
RIDGE = 1e-3
SAME = 1.0 - 1e-9  # what is smaller by less than that is not smaller: rounding must not decide between equals
TINY = 1e-18  # occupancy that is not followed: below the rounding of what it would be added to


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


@kernel
def plan(core, own, settings, choices, t, states, actions):
    """The policy and the multipliers of the next episode, from the data of t - 1 episodes."""
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
    refresh(core, own, settings, choices, states, actions, everything, L)
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
        if trials == TRIALS + RESCUES:  # this was the best one again
            done = False
            break
        trials += 1
        if done or (trials > TRIALS and safe):
            break
        if short < SAME * best_short or (short <= best_short and residual < SAME * best_residual):
            best_short, best_residual = short, residual
            best[:] = lam
        if trials == TRIALS or trials == TRIALS + RESCUES:
            lam[:] = best
            continue
        if trials > TRIALS:
            for i in range(m):
                if g[i] < 0.0:
                    lam[i] = min(2.0 * lam[i] + 0.1, top)
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
def learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, thresholds, played):
    """One episode: add its data, then plan the next."""
    add_episode(core, own, settings, choices.shared, states, actions, rewards, utilities, thresholds)
    played[0] += 1
    plan(core, own, settings, choices, played[0] + own.logged[0] + 1, states, actions)


@kernel
def plan_proximal(core, own, settings, choices, played):
    """Plan the next episode from all the data there are."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    t = played + own.logged[0] + 1
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
    """Add the data of one episode that was not played; the policy stays, and the next plan looks at all rows."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    add_episode(core, own, settings, choices.shared, states, actions, rewards, utilities, thresholds)
    own.logged[0] += 1
    own.clock[0] = 0
