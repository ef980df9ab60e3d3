"""The optimistic model of the primal-dual family: means with their bonuses, in the forms that the peers need.

Eq. 6 of Zuo et al. 2026. Which form is in force is said by :class:`Form`. The arrays are those of
:class:`flexdome.learners.seen.kernels.Core`.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.primal_dual.slip_kernels import slipped_deviation
from flexdome.learners.seen.kernels import n_missing

__all__ = ["Form", "set_all_bases", "set_base", "unvisited", "width"]


class Form(NamedTuple):
    """How a member of the family differs from FlexDOME. Large ones are True or None, as those of ``Settings``."""

    bonus: np.ndarray  # (4,) coefficients of the bonus; without ``variance`` and ``anytime`` it goes with 1 / sqrt(n)
    variance: bool  # the bonus goes with the deviation of the successors
    anytime: bool  # the bonus holds for all n at once
    optimistic: bool  # full optimism where N = 0
    joint: bool  # the entropy belongs to the reward, and both are truncated together
    next_policy: bool  # the dual step weighs Q of pi_t with pi_{t+1}
    dual_step: float  # the dual step size; below zero it is eta
    data_first: bool  # an episode's own data count in the step that follows it
    latest: bool  # a threshold is estimated by the last episode's samples alone, instead of all
    slips: bool | None  # the entropy is averaged with pi^2, and added once more after the last step (joint, even)
    greedy: bool | None  # plan by dynamic programming after each episode, instead of mirror steps


@kernel(inline=True)
def width(settings, n, deviation, sure):
    """The bonus phi of reward and utilities after n >= 1 visits.

    (b_0 + b_1) / sqrt(n). ``variance``: b_0 / sqrt(n) + b_1 deviation / sqrt(n) + b_3 / n with ``deviation`` the sum
    over successors of sqrt(p (1 - p)). ``anytime``: b_0 (phi deviation + 5 phi^2), phi^2 = (2 log log max(2n, e) + b_1)
    / n, with ``deviation`` the sum of sqrt(p). With ``sure`` the mean is known and only the part of the transitions is
    left: without b_0 in the first two, and all of the third.
    """
    bonus = settings.form.bonus
    scale = np.sqrt(1.0 / n)
    of_mean = 0.0 if sure else bonus[0]
    if settings.form.variance:
        return of_mean * scale + bonus[1] * deviation * scale + bonus[3] / n
    if settings.form.anytime:
        square = (2.0 * np.log(np.log(max(2.0 * n, np.e))) + bonus[1]) / n
        return bonus[0] * (np.sqrt(square) * deviation + 5.0 * square)
    return of_mean * scale + bonus[1] * scale


@kernel(inline=True)
def unvisited(settings, h, m, q):
    """The truncated values of an action never tried at step h, in ``q`` (W,).

    Its bonus is that of N = 1. With ``even``, ``q`` brings the mean value of the next step's states along.
    """
    phi = width(settings, 1.0, np.sqrt(float(settings.S)) if settings.form.anytime else 0.0, False)
    for j in range(m + 2):
        cap = settings.caps[h * settings.W + j]
        bonus = settings.form.bonus[2] if j == m + 1 else phi
        after = q[j] if settings.even else 0.0
        q[j] = cap if settings.form.optimistic else min(bonus + after, cap)


@kernel(inline="late")
def set_known_base(core, settings, row, n, deviation, phi):
    """:func:`set_base` where something is known; n = max(N, 1).

    A mean that is known has no bonus of its own. With full optimism at N = 0, what is not known of a mean counts as 1,
    what follows as the largest value there is; where the transitions are known, nothing of what follows is unknown.
    """
    counts, policy, work = core.counts, core.policy, core.work
    W, m, A_C = settings.W, policy.lam.size, settings.A * settings.C
    following = float(counts.n_cells.size - row // A_C - 1)  # the largest value after this step
    blind = False
    if settings.form.optimistic:
        blind = counts.n_visits[row] == 0.0
    rest = width(settings, n, deviation, True)
    if blind:
        rest = 0.0 if settings.known_p else following
    for j in range(1 + m):
        mean = settings.known[j, row] if settings.known.size > 0 else np.nan
        if not np.isnan(mean):
            work.base[row * W + j] = mean + rest
        elif blind:
            work.base[row * W + j] = 1.0 + rest
        else:
            work.base[row * W + j] = (counts.sum_r[row] if j == 0 else counts.sum_d[j - 1, row]) / n + phi
    if blind and not settings.known_p:
        work.base[row * W + 1 + m] = settings.caps[row // A_C * W + 1 + m]
    else:
        work.base[row * W + 1 + m] = settings.form.bonus[2] * np.sqrt(1.0 / n)


@kernel(inline="late")
def set_missing_bases(core, settings, row, n, deviation):
    """:func:`set_base` for utilities of which a sample was missing in a row; n = max(N, 1).

    Mean and bonus of a utility are over its own samples, what the bonus has for the transitions is over all visits;
    with ``anytime`` both are one, over the samples. Without any sample the utility is what it is at N = 0: the bonus of
    one visit, or 1 with full optimism.
    """
    counts, policy, work = core.counts, core.policy, core.work
    rest = width(settings, n, deviation, True)
    for i in range(policy.lam.size):
        samples = counts.n_visits[row] - n_missing(counts, i, row)
        known = settings.known.size > 0 and not np.isnan(settings.known[1 + i, row])
        if samples < counts.n_visits[row] and not known:
            of_mean = settings.form.bonus[0] * np.sqrt(1.0 / max(samples, 1.0)) + rest
            if settings.form.anytime:
                of_mean = width(settings, max(samples, 1.0), deviation, False)
            mean = counts.sum_d[i, row] / max(samples, 1.0) + of_mean
            if settings.form.optimistic and samples == 0.0:
                mean = 1.0 + rest
            work.base[row * settings.W + 1 + i] = mean


@kernel(inline=True)
def set_base(core, settings, row):
    """r-bar = r^ + phi, d-bar = d^ + phi, and phi_p log A for the entropy (eq. 6 of the paper), of a tried row."""
    counts, policy, work = core.counts, core.policy, core.work
    W, m = settings.W, policy.lam.size
    inverse, base, pool_count = counts.inverse, work.base, counts.pool_count
    deviation = 0.0
    if settings.form.anytime and counts.n_visits[row] == 0.0:
        deviation = np.sqrt(float(settings.S))
    elif (settings.form.variance or settings.form.anytime) and counts.n_visits[row] > 0.0 and not settings.known_p:
        if settings.form.slips:
            deviation = slipped_deviation(core, settings, row)
        for k in range(counts.start[row], counts.start[row] + counts.length[row]):
            share = pool_count[k] * inverse[row]
            deviation += np.sqrt(share * (1.0 - share) if settings.form.variance else share)
    n = max(counts.n_visits[row], 1.0)
    phi = width(settings, n, deviation, False)
    if settings.revealed:
        set_known_base(core, settings, row, n, deviation, phi)
    else:
        base[row * W] = counts.sum_r[row] * inverse[row] + phi
        for i in range(m):
            base[row * W + 1 + i] = counts.sum_d[i, row] * inverse[row] + phi
        base[row * W + 1 + m] = settings.form.bonus[2] * np.sqrt(inverse[row])
    if counts.missing.size > 0:
        set_missing_bases(core, settings, row, n, deviation)


@kernel
def set_all_bases(core, settings):
    """:func:`set_base` for every tried row: what is not stored in files."""
    counts = core.counts
    A_C = settings.A * settings.C
    for h in range(counts.n_cells.size):
        for k in range(h * A_C, h * A_C + counts.n_tried[h]):
            set_base(core, settings, np.int64(counts.tried[k]))
