"""ProxDOME's plan: one soft Bellman sweep for each dual trial, until the pessimistic utilities meet the thresholds.

What is seen, and the standard errors taken of it, is :mod:`flexdome.learners.proximal.data_kernels`.
"""

import numpy as np

from flexdome.kernels.blocks import mix_rows, row_means
from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import LANES, mirror_step
from flexdome.learners.proximal.data_kernels import add_episode, known, refresh, set_thresholds

__all__ = [
    "BACKTRACKS",
    "COOLING",
    "EXACTLY",
    "HEATING",
    "HOTTEST",
    "REFRESH",
    "RIDGE",
    "TOLERANCE",
    "TRIALS",
    "learn_proximal",
    "observe_proximal",
    "plan_proximal",
    "record_proximal",
]

TOLERANCE = 0.05  # of the margin
EXACTLY = 1e-6  # times H: as near as a threshold is met where nothing of the utility is in doubt
TRIALS = 15  # of a stage
NEWTON, RAISING, AGAIN, BEST = 0, 1, 2, 3  # stages of the dual solve: the last policy again, the best trial again
BACKTRACKS = 3
HEATING, HOTTEST, COOLING = 4.0, 1024.0, 0.98
REFRESH = 0.02
RIDGE = 1e-3
SAME = 1.0 - 1e-9  # what is smaller by less than that is not smaller: rounding must not decide between equals
TINY = 1e-18  # occupancy that is not followed: below the rounding of what it would be added to


@kernel(inline=True)
def backward(core, own, settings, tau, stay):
    """One soft Bellman sweep: optimistic Q and V, the softmax policy, and its plug-in utilities.

    With ``stay`` the policy in ``core.policy.logits`` is evaluated instead.
    """
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    pool_cell, pool_count, start, length = (
        core.counts.pool_cell,
        core.counts.pool_count,
        core.counts.start,
        core.counts.length,
    )
    inverse, values, base, y, lam = core.counts.inverse, core.work.values, core.work.base, core.work.y, core.policy.lam
    logits, pi, tried, n_tried, q = core.policy.logits, core.policy.pi, core.counts.tried, core.counts.n_tried, own.q
    L = 1.0
    for i in range(m):
        L += lam[i]
    keep, eta, log_A = (1.0, 0.0, np.log(float(A))) if stay else (0.0, 1.0 / tau, np.log(float(A)))
    for h in range(H - 1, -1, -1):
        n, rows, cap = core.counts.n_cells[h], h * A * C, L * (H - h)
        for a in range(A):
            for k in range(a * C, a * C + (n + LANES - 1) // LANES * LANES):
                y[k] = cap
        for k in range(rows, rows + n_tried[h]):
            row = np.int64(tried[k])
            row_means(pool_cell, pool_count, start[row], length[row], inverse[row], values, base, row, W, q)
            total = q[row * W]
            if (
                settings.revealed is not None and core.counts.n_visits[row] == 0.0
            ):  # optimism for what is not known of it
                total += 0.0 if settings.known_p is not None else L * (H - h - 1)
                for i in range(m):
                    total += lam[i] * (settings.known[1 + i, row] if known(settings, 1 + i, row) else 1.0)
            else:
                for i in range(m):
                    total += lam[i] * base[row * W + 1 + i]
            y[row - rows] = min(total, cap)
        mirror_step(logits, pi, y, inverse, core.policy.entropy, core.policy.untried, h, C, A, n, keep, eta)
        for c in range(n):
            mix_rows(values, h * C + c, q, pi, rows + c, C, A, W)
            value = y[c] - tau * (logits[rows + c] + log_A)  # tau log mean exp(Q / tau)
            if stay:
                value = tau * (core.policy.entropy[h * C + c] - log_A)
                for a in range(A):
                    value += pi[rows + a * C + c] * y[a * C + c]
            values[(h * C + c) * W] = value


@kernel(inline=True)
def copy_policy(core, settings, source, target):
    """Log-probabilities of the visited cells."""
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size):
        for a in range(A):
            first = (h * A + a) * C
            for k in range(first, first + core.counts.n_cells[h]):
                target[k] = source[k]


@kernel(inline=True)
def forward(core, own, settings, shared, told):
    """Occupancy under the empirical model; told: plug-in values, and sum x^2 s2 in the place of the errors."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    pool_cell, pool_count, start, length = (
        core.counts.pool_cell,
        core.counts.pool_count,
        core.counts.start,
        core.counts.length,
    )
    inverse, values, pi, tried, n_tried, n_cells = (
        core.counts.inverse, core.work.values, core.policy.pi, core.counts.tried, core.counts.n_tried,
        core.counts.n_cells,
    )  # fmt: skip
    x, mass, s2 = own.x, own.mass, own.s2
    for j in range(1 + 2 * m):
        told[j] = 0.0
    for c in range(n_cells[0]):
        mass[c] = 0.0
    for k in range(settings.starts.size):
        p = settings.start_p[k]
        c = np.int64(core.counts.cell_of[0, settings.starts[k]]) - 1
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
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    J, g, step, lam = own.jacobian, own.dual[0], own.dual[3], core.policy.lam
    J[:] = 0.0
    for h in range(H):
        for a in range(A):
            for c in range(core.counts.n_cells[h]):
                row, cell = (h * A + a) * C + c, h * C + c
                for i in range(m):
                    weighted = own.x[row] * (own.q[row * W + 1 + i] - core.work.values[cell * W + 1 + i])
                    for j in range(i + 1):
                        J[i, j] += weighted * (own.q[row * W + 1 + j] - core.work.values[cell * W + 1 + j])
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
    A, m, H = settings.A, core.policy.lam.size, core.counts.n_cells.size
    lam, told, heat = core.policy.lam, own.told, own.heat[0]
    g, last, best, step, sa, first = own.dual[0], own.dual[1], own.dual[2], own.dual[3], own.dual[4], own.dual[5]
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
    at = 1 + 4 * m
    was_safe = told[at + 3] > 0.0
    if was_safe:
        copy_policy(core, settings, core.policy.logits, own.kept)
    first[:] = lam
    stage, settled, trials, tries, backtracks = NEWTON, False, 0, 0, 0
    best_short, best_residual, best_safe, last_residual = np.inf, np.inf, False, np.inf
    low, high = -np.inf, np.inf  # where m = 1: the root is between
    while True:
        backward(core, own, settings, tau, stage == AGAIN)
        forward(core, own, settings, choices.shared, told)
        done, short, residual, safe = True, 0.0, 0.0, True
        for i in range(m):
            error = np.sqrt(told[1 + m + i] + sa[i])
            eps = choices.margin * z * error
            told[1 + m + i], told[1 + 2 * m + i] = error, eps
            g[i] = told[1 + i] - eps - told[1 + 3 * m + i]
            near = TOLERANCE * (max(choices.margin, 0.5) * z * error)  # of the margin, unless that is switched off
            if settings.revealed is not None:  # a utility that is known has no margin
                near = max(near, EXACTLY * H)
            safe = safe and g[i] >= -near
            if (g[i] < -near and lam[i] < top) or (g[i] > near and lam[i] > 0.0):
                done = False
                residual = max(residual, abs(g[i]))
            short = max(short, -g[i])
        trials, tries = trials + 1, tries + 1
        if stage == BEST or (stage == AGAIN and safe):
            break
        if stage == AGAIN:
            stage = BEST
            lam[:] = best
            continue
        settled = done
        if done or (stage == RAISING and safe):
            break
        nearer = short < SAME * best_short or (short <= best_short and residual < SAME * best_residual)
        if (safe and not best_safe) or (safe == best_safe and nearer):
            best_short, best_residual, best_safe = short, residual, safe
            best[:] = lam
        stuck = stage == RAISING
        if stuck and tries < TRIALS:
            for i in range(m):
                if g[i] < 0.0 and lam[i] < top:
                    lam[i] = min(2.0 * lam[i] + 0.1, top)
                    stuck = False
        if tries == TRIALS or stuck:
            if stage == NEWTON and not best_safe:
                stage, tries = RAISING, 0
                lam[:] = best
            elif was_safe and not best_safe:
                stage = AGAIN
                lam[:] = first
                copy_policy(core, settings, own.kept, core.policy.logits)
            else:
                stage = BEST
                lam[:] = best
        elif stage == RAISING:
            continue
        elif m > 1 and residual >= SAME * last_residual and backtracks < BACKTRACKS:
            backtracks += 1
            for i in range(m):
                lam[i] = 0.5 * (lam[i] + last[i])
        else:
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
    own.heat[0] = max(1.0, COOLING * heat) if settled else min(HEATING * heat, HOTTEST)
    untried = 0.0
    for h in range(H):
        untried += A * core.counts.n_cells[h] - core.counts.n_tried[h]
        sure = settings.known_p is not None and known(settings, 0, 0) and known(settings, 1, 0)
        for c in range(core.counts.n_cells[h] if settings.revealed is not None and not sure else 0):
            here, never = 0.0, 0.0
            for a in range(A):
                visits = core.counts.n_visits[(h * A + a) * settings.C + c]
                here, never = here + visits, never + (visits == 0.0)
            untried += never if here > 0.0 else 0.0
    told[at], told[at + 1], told[at + 2], told[at + 3] = trials, tau, heat, 1.0 if safe else 0.0
    told[at + 4], told[at + 5] = untried, 1.0 if settled else 0.0


@kernel(inline=True)
def learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, thresholds, played):
    """One episode: add its data, then plan the next."""
    add_episode(core, own, settings, choices.shared, states, actions, rewards, utilities, thresholds)
    played[0] += 1
    if not choices.certain:
        plan(core, own, settings, choices, played[0] + own.logged[0] + 1, states, actions)


@kernel
def plan_proximal(core, own, settings, choices, played):
    """Plan the next episode from all the data there are."""
    core, own, settings = borrow(core), borrow(own), borrow(settings)
    t = played + own.logged[0] + 1
    own.clock[0] = t
    none = core.counts.n_cells[:0]
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
