"""The multipliers of ProxDOME's plan: Newton trials, then raising, until the pessimistic utilities meet the thresholds.

A multiplier has the unit of rewards over that of its utility; b_i lam_i / b_0 is a pure number, and the ceiling is one
of the sum of them. Where it is reached, the equations are those of the largest smallest slack: every constraint with a
positive multiplier is short by the same number of widths.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.sweep_kernels import SAME

__all__ = ["BACKTRACKS", "ENDED", "RIDGE", "TRIALS", "Search", "next_multipliers", "start_search"]

TRIALS = 15  # of a stage
BACKTRACKS = 3
RIDGE = 1e-3
FIRST = 0.1  # of b_0 / b_i: the least that a step may change a multiplier
NEWTON, RAISING, TAKEN, ENDED = 0, 1, 2, 3  # stages of the dual solve; TAKEN: the best trial once more


class Search(NamedTuple):
    """Where a dual solve is."""

    stage: int
    tries: int  # of this stage
    backtracks: int
    accepted: float  # the residual of the last accepted multipliers
    low: float  # where m = 1 the root is between
    high: float
    safe: bool  # of the best trial
    short: float
    residual: float
    under: float  # how short the least short of the trials is that are not shown safe


@kernel
def jacobian(core, own, settings, choices, tau):
    """J_ij = (1 / tau) sum x Adv_i Adv_j, and a ridge."""
    A, C, W, m, H = settings.A, settings.C, settings.W, core.policy.lam.size, core.counts.n_cells.size
    J, width = own.dual.jacobian, own.scales.width
    for i in range(m):
        for j in range(m):
            J[i, j] = 0.0
    for h in range(H):
        for a in range(A):
            for i in range(m):
                for j in range(i + 1):
                    total = J[i, j]
                    for c in range(core.counts.n_cells[h]):
                        row, cell = (h * A + a) * C + c, h * C + c
                        weighted = own.x[row] * (own.q[row * W + 1 + i] - core.work.values[cell * W + 1 + i])
                        total += weighted * (own.q[row * W + 1 + j] - core.work.values[cell * W + 1 + j])
                    J[i, j] = total
    for i in range(m):
        for j in range(i + 1):
            J[i, j] /= tau
            J[j, i] = J[i, j]
        J[i, i] += RIDGE * width[i] * width[i] / choices.reward


@kernel(inline=True)
def eliminate(J, one, other):
    """``one`` and ``other`` become J^-1 times them; J is symmetric and positive definite, so without pivots."""
    m = one.size
    for k in range(m):
        for i in range(k + 1, m):
            factor = J[i, k] / J[k, k]
            for j in range(k, m):
                J[i, j] -= factor * J[k, j]
            one[i] -= factor * one[k]
            other[i] -= factor * other[k]
    for k in range(m - 1, -1, -1):
        for j in range(k + 1, m):
            one[k] -= J[k, j] * one[j]
            other[k] -= J[k, j] * other[j]
        one[k] /= J[k, k]
        other[k] /= J[k, k]


@kernel
def newton_direction(own, lam):
    """``dual.toward``: -J^-1 of the slope over the free multipliers; ``dual.lean``: how the ceiling changes it."""
    dual, width = own.dual, own.scales.width
    work, toward, lean, m = dual.work, dual.toward, dual.lean, lam.size
    for i in range(m):
        toward[i], lean[i] = -dual.slope[i] * dual.free[i], width[i] * dual.free[i]
        for j in range(m):
            work[i, j] = dual.jacobian[i, j] * dual.free[i] * dual.free[j]
        work[i, i] += 1.0 - dual.free[i]
    eliminate(work, toward, lean)


@kernel
def newton_step(core, own, settings, choices, scene):
    """``dual.step``: the least of the quadratic model g . s + s J s / 2 on the way down from 0, no multiplier below 0.

    A multiplier that comes to 0 on the way stays there, and the others go on without it: with utilities that oppose
    each other J is nearly singular, and to cut a step short at the end would lead anywhere. Where the sum of the
    multipliers would be above the ceiling, the step is the one that keeps it there.
    """
    lam, dual, width = core.policy.lam, own.dual, own.scales.width
    step, m = dual.step, core.policy.lam.size
    jacobian(core, own, settings, choices, scene.tau)
    for i in range(m):
        step[i], dual.slope[i] = 0.0, dual.g[i]
        dual.free[i] = 0.0 if lam[i] <= 0.0 and dual.g[i] > 0.0 else 1.0
    hit = 0
    while hit >= 0:
        newton_direction(own, lam)
        length, hit = 1.0, -1
        for i in range(m):
            if dual.free[i] > 0.0 and lam[i] + step[i] + dual.toward[i] < 0.0:
                most = (lam[i] + step[i]) / -dual.toward[i]
                if most < length:
                    length, hit = most, i
        for i in range(m):
            step[i] += length * dual.toward[i]
            for j in range(m):
                dual.slope[i] += length * dual.jacobian[i, j] * dual.toward[j]
        if hit >= 0:
            step[hit], dual.free[hit] = -lam[hit], 0.0
    total, slope = -scene.ceiling, 0.0
    for i in range(m):
        total += width[i] * (lam[i] + step[i])
        slope += width[i] * dual.lean[i]
    if total > 0.0 and slope > 0.0:
        for i in range(m):
            step[i] -= total / slope * dual.lean[i]


@kernel(inline=True)
def cap(core, own, scene):
    """Bring the multipliers down to the ceiling, where they are above it."""
    total = 0.0
    for i in range(core.policy.lam.size):
        total += own.scales.width[i] * core.policy.lam[i]
    if total > scene.ceiling:
        for i in range(core.policy.lam.size):
            core.policy.lam[i] *= scene.ceiling / total


@kernel
def move(core, own, choices, scene, low, high):
    """Take the Newton step; with one constraint the root is between ``low`` and ``high``, and they come back."""
    lam, dual = core.policy.lam, own.dual
    dual.last[:] = lam
    for i in range(lam.size):
        reach = FIRST * choices.reward / own.scales.width[i] + lam[i]
        lam[i] = max(lam[i] + min(max(dual.step[i], -reach), reach), 0.0)
    cap(core, own, scene)
    if lam.size == 1:
        if dual.g[0] < 0.0:
            low = dual.last[0]
        else:
            high = dual.last[0]
        if not low < lam[0] < high:
            lam[0] = 0.5 * (max(low, 0.0) + min(high, scene.ceiling / own.scales.width[0]))
    return low, high


@kernel(inline=True)
def raise_short(core, own, choices, scene):
    """Double the multipliers of the constraints that are short."""
    for i in range(core.policy.lam.size):
        if own.dual.g[i] < 0.0:
            core.policy.lam[i] = 2.0 * core.policy.lam[i] + FIRST * choices.reward / own.scales.width[i]
    cap(core, own, scene)


@kernel(inline=True)
def better(search, seen):
    """Whether a trial is better than the best before: shown safe, then less short, then nearer to the root."""
    nearer = seen.short < SAME * search.short or (seen.short <= search.short and seen.residual < SAME * search.residual)
    return (seen.safe and not search.safe) or (seen.safe == search.safe and nearer)


@kernel(inline=True)
def start_search():
    """Nothing tried yet."""
    return Search(NEWTON, 0, 0, np.inf, -np.inf, np.inf, False, np.inf, np.inf, np.inf)


@kernel
def remember(core, own, search, seen):
    """One more trial, and the best so far with its multipliers."""
    safe, short, residual, under = search.safe, search.short, search.residual, search.under
    if better(search, seen):
        safe, short, residual = seen.safe, seen.short, seen.residual
        own.dual.best[:] = core.policy.lam
    if not seen.safe and seen.short < under:
        under = seen.short
        own.dual.under[:] = core.policy.lam
    return Search(
        search.stage,
        search.tries + 1,
        search.backtracks,
        search.accepted,
        search.low,
        search.high,
        safe,
        short,
        residual,
        under,
    )


@kernel(inline=True)
def turn(search, stage):
    """The same search in another stage."""
    return Search(
        stage,
        0,
        search.backtracks,
        search.accepted,
        search.low,
        search.high,
        search.safe,
        search.short,
        search.residual,
        search.under,
    )


@kernel
def after_newton(core, own, settings, choices, scene, search, seen):
    """The next Newton trial; after the last one the best is raised, or taken where it is shown safe."""
    lam, dual = core.policy.lam, own.dual
    search = remember(core, own, search, seen)
    if search.tries == TRIALS:
        lam[:] = dual.best
        return turn(search, TAKEN if search.safe else RAISING)
    backtracks, accepted, low, high = search.backtracks + 1, search.accepted, search.low, search.high
    if lam.size > 1 and seen.residual >= SAME * accepted and search.backtracks < BACKTRACKS:
        for i in range(lam.size):
            lam[i] = 0.5 * (lam[i] + dual.last[i])
    else:
        backtracks, accepted = 0, seen.residual
        newton_step(core, own, settings, choices, scene)
        low, high = move(core, own, choices, scene, low, high)
    return Search(
        NEWTON, search.tries, backtracks, accepted, low, high, search.safe, search.short, search.residual, search.under
    )  # fmt: skip


@kernel
def after_raising(core, own, choices, scene, search, seen):
    """The multipliers that are short doubled; where there is no more to raise, the best trial."""
    search = remember(core, own, search, seen)
    if seen.full or search.tries == TRIALS:
        core.policy.lam[:] = own.dual.best
        return turn(search, TAKEN)
    raise_short(core, own, choices, scene)
    return search


@kernel(inline=True)
def next_multipliers(core, own, settings, choices, scene, search, seen):
    """What comes after a trial: Newton trials, where they settle nothing raised ones, then the best; ``ENDED``."""
    if seen.done or search.stage == TAKEN or (search.stage == RAISING and seen.safe):
        return turn(search, ENDED)
    if search.stage == NEWTON:
        return after_newton(core, own, settings, choices, scene, search, seen)
    return after_raising(core, own, choices, scene, search, seen)
