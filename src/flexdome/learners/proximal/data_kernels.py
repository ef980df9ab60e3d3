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
length. Where d_i is known its part of length b_i is not in doubt, where the transitions are the rest is not (``doubt``
in :mod:`flexdome.learners.proximal.error_kernels`). What is not in doubt has no variance either. An action never tried
has then Q = r + lam . d + p V with the top of the range for a mean that is not known and for what follows, and Q_d =
d + p U with the middle for both.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.learners.seen.kernels import n_missing

__all__ = [
    "Choices",
    "Dual",
    "Proximal",
    "Report",
    "Scales",
    "earlier",
    "known",
    "lagrangian",
    "n_samples",
]


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
    under: np.ndarray  # those of the least short of the trials that are not shown safe
    plan: np.ndarray  # those of the optimistic plan
    step: np.ndarray  # Newton's
    toward: np.ndarray  # the part of it that comes next
    slope: np.ndarray  # of the quadratic model, there
    free: np.ndarray  # 1 where a multiplier may change, else 0
    lean: np.ndarray  # how it changes with the ceiling
    jacobian: np.ndarray  # (m, m)
    work: np.ndarray  # (m, m)


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
    mass: np.ndarray  # (cells,) work: occupancy; while errors are taken, log(1 + N)
    joint: np.ndarray  # (m, A * C) work: errors that the rows of one (s, a) have in common, added up over the steps
    kept: np.ndarray  # (rows,) log pi of the last policy that was shown safe, or of a cautious plan that was not
    hope: np.ndarray  # (rows,) work: log pi of the plan that is mixed into it
    reach: np.ndarray  # (rows,) work: occupancies of the policy that is kept
    worth: np.ndarray  # (1,) work: plug-in V_r of the policy that is kept
    beyond: np.ndarray  # (rows,) work: occupancies of the plan that is mixed into it
    has_kept: np.ndarray  # (1,) whether there is one
    share: np.ndarray  # (1,) the last share of an optimistic plan that was mixed into it
    since: np.ndarray  # (1,) the last episode that was planned after one without such a mixture, or from lam = 0
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
def earlier(core, choices, h):
    """How many steps before step h its rows may be read: where steps are shared, at the first.

    At every step but the last the rows of one (s, a) have the same counts, and the same successors so many steps later.
    What is read for all steps stays near.
    """
    return h if choices.shared and h + 1 < core.counts.n_cells.size else 0
