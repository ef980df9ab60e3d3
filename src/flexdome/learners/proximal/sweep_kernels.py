"""One trial of ProxDOME's plan: a backward sweep for the policy, a forward sweep for its errors, and the verdict."""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.blocks import mix_rows, row_means
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import LANES, mirror_step
from flexdome.learners.proximal.data_kernels import earlier, known, lagrangian, n_samples
from flexdome.learners.seen.kernels import clear_forbidden, forbid, n_allowed

__all__ = [
    "CAUTIOUS",
    "EVALUATE",
    "EXACTLY",
    "OPTIMISTIC",
    "SAME",
    "TOLERANCE",
    "Scene",
    "Verdict",
    "first_tries",
    "trial",
]

OPTIMISTIC, CAUTIOUS, EVALUATE = 0, 1, 2  # plan with hope, plan with what was tried alone, evaluate the policy there is
TOLERANCE = 0.05  # of the margin
EXACTLY = 1e-6  # times H and the width: as near as a threshold is met where nothing of the utility is in doubt
SAME = 1.0 - 1e-9  # what is smaller by less than that is not smaller: rounding must not decide between equals
TINY = 1e-18  # occupancy that is not followed: below the rounding of what it would be added to


class Scene(NamedTuple):
    """What stays the same in all trials of an episode."""

    tau: float
    z: float
    ceiling: float  # of sum_i b_i lam_i
    log: bool  # a log is most of what is known, or was not long ago


class Verdict(NamedTuple):
    """What one trial showed."""

    done: bool  # the multipliers are those that were looked for
    safe: bool
    short: float  # the largest shortfall, in widths
    residual: float  # the largest distance from a condition that is not met, in widths
    full: bool  # the multipliers are at their ceiling


@kernel(inline="late")
def optimistic(core, own, settings, choices, row, rest, L, top):
    """Q of a row that is in the list: r~ + lam . d^ + p^ V, and the most that is possible of what is not known."""
    W, m, lam = settings.W, core.policy.lam.size, core.policy.lam
    total = own.q[row * W]
    if settings.revealed and core.counts.n_visits[row] == 0.0:
        total += 0.0 if settings.known_p else top * rest
        for i in range(m):
            total += lam[i] * (settings.known[1 + i, row] if known(settings, 1 + i, row) else own.scales.top[i])
    else:
        for i in range(m):
            total += lam[i] * core.work.base[row * W + 1 + i]
    return total


@kernel(inline="late")
def cautious(core, own, settings, choices, row, never, each):
    """Q of a row that is in the list, without hope: r^ + lam . (d^ - c s) + p^ V; ``never`` where it was not tried."""
    W, m, lam = settings.W, core.policy.lam.size, core.policy.lam
    total, doubt = own.q[row * W] - core.work.base[row * W] + core.work.base[row * W + m + 1], 0.0
    for i in range(m):
        doubt += own.s2[i, row]
        total += lam[i] * (core.work.base[row * W + 1 + i] - each * np.sqrt(own.s2[i, row]))
    return never if core.counts.n_visits[row] == 0.0 and doubt > 0.0 else total


@kernel(inline="late")
def first_allowed(settings, h, s):
    """The first of the actions that are allowed in a state."""
    a = 0
    while not settings.allowed[h, s, a]:
        a += 1
    return a


@kernel
def backward(core, own, settings, choices, scene, mode):
    """One soft Bellman sweep: Q and V, the softmax policy or the present one, and its plug-in utilities."""
    A, C, W, H = settings.A, settings.C, settings.W, core.counts.n_cells.size
    pool_cell, pool_count, start, length = (
        core.counts.pool_cell,
        core.counts.pool_count,
        core.counts.start,
        core.counts.length,
    )
    inverse, values, base, y, tau = core.counts.inverse, core.work.values, core.work.base, core.work.y, scene.tau
    logits, pi, q = core.policy.logits, core.policy.pi, own.q
    stay, log_A = mode == EVALUATE, np.log(float(A))
    L, top = lagrangian(choices, own.scales, core.policy.lam)
    each = choices.margin * scene.z / np.sqrt(float(H))  # standard errors of one step, as if all steps were as much
    keep, eta = (1.0, 0.0) if stay else (0.0, 1.0 / tau)
    for h in range(H - 1, -1, -1):
        n, rows, rem = core.counts.n_cells[h], h * A * C, float(H - h)
        before = earlier(core, choices, h)
        never = -H * L * rem if mode == CAUTIOUS else top * rem
        for a in range(A):
            # Row after row, not in the order of first visits: memory is then read ahead.
            for k in range(a * C, a * C + (n + LANES - 1) // LANES * LANES):
                row, at = rows + k, rows + k - before * A * C
                y[k] = never
                if inverse[row] == 0.0:  # never tried
                    continue
                row_means(
                    pool_cell, pool_count, start[at], length[at], inverse[row], values, before * C, base, row, W, q
                )  # fmt: skip
                if mode == CAUTIOUS:
                    y[k] = cautious(core, own, settings, choices, row, never, each)
                else:
                    y[k] = min(optimistic(core, own, settings, choices, row, rem - 1.0, L, top), never)
        if settings.masked:
            forbid(core, settings, h)
        mirror_step(logits, pi, y, inverse, core.policy.entropy, core.policy.untried, h, C, A, n, keep, eta)
        if settings.masked:
            clear_forbidden(core, settings, h)
        for c in range(n):
            mix_rows(values, h * C + c, q, pi, rows + c, C, A, W)
            one = c
            if settings.masked:
                one = c + C * first_allowed(settings, h, core.counts.state_of[h, c])
                log_A = np.log(float(n_allowed(settings, h, core.counts.state_of[h, c])))
            value = y[one] - tau * (logits[rows + one] + log_A)  # tau log mean exp(Q / tau)
            if stay:
                value = tau * (core.policy.entropy[h * C + c] - log_A)
                for a in range(A):
                    value += pi[rows + a * C + c] * y[a * C + c]
            values[(h * C + c) * W] = value


@kernel(inline=True)
def begin(core, own, settings, choices):
    """Occupancy of the first step, and in the report the values of the first states."""
    A, W, m, H = settings.A, settings.W, core.policy.lam.size, core.counts.n_cells.size
    report, values = own.report, core.work.values
    report.value[0] = 0.0
    for i in range(m):
        report.utilities[i] = report.errors[i] = 0.0
    for c in range(core.counts.n_cells[0]):
        own.mass[c] = 0.0
    for k in range(settings.starts.size):
        p = settings.start_p[k]
        c = np.int64(core.counts.cell_of[0, settings.starts[k]]) - 1
        report.value[0] += p * (values[c * W + m + 1] if c >= 0 else 0.5 * choices.reward * H)
        for i in range(m):
            report.utilities[i] += p * (values[c * W + 1 + i] if c >= 0 else own.scales.middle[i] * H)
            if c < 0:
                n = n_allowed(settings, 0, settings.starts[k]) if settings.masked else A
                report.errors[i] += (p * own.scales.width[i] * H) ** 2 / (12.0 * n)
        if c >= 0:
            own.mass[c] = p


@kernel
def forward(core, own, settings, choices):
    """Occupancy under the empirical model; in the report plug-in values, and sum x^2 s2 in the place of the errors."""
    A, C, m, H = settings.A, settings.C, core.policy.lam.size, core.counts.n_cells.size
    pool_cell, pool_count, start, length = (
        core.counts.pool_cell,
        core.counts.pool_count,
        core.counts.start,
        core.counts.length,
    )
    inverse, pi, tried, n_tried, n_cells = (
        core.counts.inverse,
        core.policy.pi,
        core.counts.tried,
        core.counts.n_tried,
        core.counts.n_cells,
    )
    x, mass, s2, errors, shared, joint = own.x, own.mass, own.s2, own.report.errors, choices.shared, own.joint
    luck, lucky, chance = own.luck, own.lucky, own.dual.luck
    for i in range(m):
        chance[i] = 0.0
    begin(core, own, settings, choices)
    for h in range(H):
        n, rows, cells = n_cells[h], h * A * C, h * C
        before = earlier(core, choices, h)
        for a in range(A):
            first = rows + a * C
            for c in range(n):
                x[first + c] = mass[cells + c] * pi[first + c]
        for i in range(m if shared else 0):
            for a in range(A):
                first = rows + a * C
                for c in range(n):
                    so_far = joint[i, a * C + c] if h > 0 else 0.0
                    joint[i, a * C + c] = so_far + x[first + c] * np.sqrt(s2[i, first + c])
        for i in range(0 if shared else m):
            for a in range(A):
                first = rows + a * C
                total = 0.0
                for c in range(n):
                    total += x[first + c] * x[first + c] * s2[i, first + c]
                errors[i] += total
        for i in range(m):
            for a in range(A):
                first = rows + a * C
                total = 0.0
                for c in range(n):
                    total += x[first + c] * luck[cells + c] * lucky[i, first + c]
                chance[i] += total
        if h + 1 < H:
            for c in range(n_cells[h + 1]):
                mass[cells + C + c] = 0.0
            for k in range(rows, rows + n_tried[h]):
                row = np.int64(tried[k])
                if x[row] < TINY:
                    continue
                share, at = x[row] * inverse[row], row - before * A * C
                for e in range(start[at], start[at] + length[at]):
                    mass[pool_cell[e] + before * C] += share * pool_count[e]
    for i in range(m if shared else 0):
        total = errors[i]
        for a in range(A):
            for k in range(a * C, a * C + n_cells[0]):
                total += joint[i, k] * joint[i, k]
        errors[i] = total


@kernel(inline=True)
def first_tries(core, own, settings):
    """How many actions the policy just swept is expected to try for the first time in an episode."""
    A, C, total = settings.A, settings.C, 0.0
    for h in range(core.counts.n_cells.size):
        for a in range(A):
            first = (h * A + a) * C
            for k in range(first, first + core.counts.n_cells[h]):
                total += own.x[k] if core.counts.n_visits[k] == 0.0 else 0.0
    return total


@kernel
def hoped_for(core, own, settings, i):
    """What utility i of the policy just swept owes to actions never tried and to first states never seen."""
    A, C, H, total = settings.A, settings.C, core.counts.n_cells.size, 0.0
    for h in range(H):
        for a in range(A):
            first = (h * A + a) * C
            for row in range(first, first + core.counts.n_cells[h]):
                if n_samples(core, settings, row, 1 + i) == 0.0:  # its error is that of a uniform law
                    total += own.x[row] * np.sqrt(12.0 * own.s2[i, row]) / own.scales.width[i]
    for k in range(settings.starts.size):
        total += H * settings.start_p[k] if core.counts.cell_of[0, settings.starts[k]] == 0 else 0.0
    return total * own.scales.middle[i]


@kernel
def judge(core, own, settings, choices, scene):
    """Margins and slack g of the policy that was just swept, and whether its multipliers are the right ones.

    After a log nothing is expected of what was never tried, where that is more than seldom. At the ceiling the
    constraints may be short, all with a positive multiplier by the same number of widths.
    """
    H, lam, report, dual, width = core.counts.n_cells.size, core.policy.lam, own.report, own.dual, own.scales.width
    worst, total, safe = np.inf, 0.0, True
    blind = scene.log and first_tries(core, own, settings) >= choices.licence
    for i in range(lam.size):
        error = np.sqrt(report.errors[i] + dual.error[i])
        margin = scene.z * np.sqrt(choices.margin**2 * report.errors[i] + choices.samples**2 * dual.error[i])
        margin += choices.luck * dual.luck[i]
        if blind:
            margin += hoped_for(core, own, settings, i)
        near = TOLERANCE * (max(choices.margin, 0.5) * scene.z * error)  # of the margin, unless that is switched off
        if settings.revealed:  # a utility that is known has no margin
            near = max(near, EXACTLY * H * width[i])
        report.errors[i], report.margin[i], dual.near[i] = error, margin, near
        dual.g[i] = report.utilities[i] - margin - report.thresholds[i]
        safe = safe and dual.g[i] >= -near
        worst = min(worst, dual.g[i] / width[i])
        total += lam[i] * width[i]
    full = total >= SAME * scene.ceiling
    allowed, loose = (worst, 2.0) if full and not safe else (0.0, 1.0)
    done, residual = True, 0.0
    for i in range(lam.size):
        gap, near = dual.g[i] / width[i] - allowed, loose * dual.near[i] / width[i]
        if gap < -near or (gap > near and lam[i] > 0.0):
            done = False
            residual = max(residual, abs(gap))
    return Verdict(done, safe, max(0.0, -worst), residual, full)


@kernel(inline=True)
def trial(core, own, settings, choices, scene, mode):
    """Plan or evaluate with the multipliers there are, and judge the policy."""
    backward(core, own, settings, choices, scene, mode)
    forward(core, own, settings, choices)
    own.report.trials[0] += 1.0
    return judge(core, own, settings, choices, scene)
