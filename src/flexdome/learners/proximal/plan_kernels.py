"""ProxDOME's plan: the multipliers of the optimistic plan, and what is played where it cannot be shown safe.

What is seen, and the standard errors taken of it, is :mod:`flexdome.learners.proximal.data_kernels`; one soft Bellman
sweep and its verdict :mod:`flexdome.learners.proximal.sweep_kernels`; the multipliers
:mod:`flexdome.learners.proximal.dual_kernels`.
"""

import numpy as np

from flexdome.certificates.kernels import bernstein
from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.data_kernels import (
    add_episode,
    known,
    lagrangian,
    measure,
    noisy,
    pool_all,
    refresh,
    refresh_all,
    set_thresholds,
    weigh_luck,
)
from flexdome.learners.proximal.dual_kernels import ENDED, next_multipliers, start_search
from flexdome.learners.proximal.sweep_kernels import CAUTIOUS, EVALUATE, OPTIMISTIC, Scene, trial
from flexdome.learners.seen.kernels import n_allowed

__all__ = [
    "LARGEST_SHARE",
    "REFRESH",
    "REFUTED",
    "SMALLEST_SHARE",
    "bound_given",
    "learn_proximal",
    "note_given",
    "observe_proximal",
    "record_proximal",
    "refuted_by",
]

REFRESH = 0.02
REFUTED = 1e-6  # how often a promise that is kept may be held for broken
PLANNED, KEPT, SEARCHED, MIXED, AGAIN, PLAYED = 0, 1, 2, 3, 4, 5  # what was looked at last; AGAIN: once more, as it is
SAFE, UNSAFE = 1, 2  # what a policy that is kept was shown to be, or not
LARGEST_SHARE, SMALLEST_SHARE = 0.5, 1.0 / 64.0  # of the optimistic plan, mixed into a policy that is shown safe


@kernel
def copy_policy(core, settings, source, target):
    """Log-probabilities of the visited cells."""
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size):
        for a in range(A):
            first = (h * A + a) * C
            for k in range(first, first + core.counts.n_cells[h]):
                target[k] = source[k]


@kernel
def mix_policies(core, own, settings, share):
    """``core.policy.logits``: in every state the plan with probability ``share``, else the policy that is kept."""
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size):
        for a in range(A):
            first = (h * A + a) * C
            for k in range(first, first + core.counts.n_cells[h]):
                both = (1.0 - share) * np.exp(own.kept[k]) + share * np.exp(own.hope[k])
                core.policy.logits[k] = np.log(max(both, 1e-300))


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


@kernel(inline=True)
def count_untried(core, settings):
    """Actions never tried in states that were visited."""
    A, C, untried = settings.A, settings.C, 0.0
    sure = settings.known_p and known(settings, 0, 0) and known(settings, 1, 0)
    for h in range(core.counts.n_cells.size):
        untried += A * core.counts.n_cells[h] - core.counts.n_tried[h]
        for c in range(core.counts.n_cells[h] if settings.masked and not settings.revealed else 0):
            untried -= A - n_allowed(settings, h, core.counts.state_of[h, c])
        for c in range(core.counts.n_cells[h] if settings.revealed and not sure else 0):
            here, never = 0.0, 0.0
            for a in range(A):
                visits = core.counts.n_visits[(h * A + a) * C + c]
                may = True
                if settings.masked:
                    may = settings.allowed[h, core.counts.state_of[h, c], a]
                here, never = here + visits, never + (may and visits == 0.0)
            untried += never if here > 0.0 else 0.0
    return untried


@kernel(inline=True)
def prepare(core, own, settings, choices, t, everything, states, actions):
    """Step (1): units, temperature, standard errors and thresholds."""
    H, lam, width = core.counts.n_cells.size, core.policy.lam, own.scales.width
    if everything:
        own.clock[0] = t + 1 + np.int64(np.floor(REFRESH * t))
        measure(own, settings, H)
        pool_all(core, own, settings, choices)
    ceiling, total = choices.reward * np.sqrt(float(t)), 0.0
    for i in range(lam.size):
        total += width[i] * lam[i]
    for i in range(lam.size if total > ceiling else 0):
        lam[i] *= ceiling / total
    L, _ = lagrangian(choices, own.scales, lam)
    if everything:
        refresh_all(core, own, settings, choices, L)
    else:
        refresh(core, own, settings, choices, states, actions, L)
    set_thresholds(core, own, settings)
    return Scene(L / np.sqrt(float(H) * t), np.sqrt(max(np.log(1.0 + t), choices.least)), ceiling)


@kernel
def after_plan(core, own, settings, choices, everything, seen):
    """What comes after the optimistic plan: it is played, or a policy is looked for that can be shown safe."""
    report = own.report
    own.dual.plan[:] = core.policy.lam
    report.solved[0], report.ceiling[0] = 1.0 if seen.done else 0.0, 1.0 if seen.full else 0.0
    report.first[0] = first_tries(core, own, settings)
    if seen.safe or (report.first[0] >= choices.licence and own.logged[0] == 0):
        return PLAYED
    if own.has_kept[0] == 0 and not everything:
        return PLAYED
    copy_policy(core, settings, core.policy.logits, own.hope)
    if own.has_kept[0] == 0 or (own.has_kept[0] == UNSAFE and everything):
        return SEARCHED
    if own.has_kept[0] == UNSAFE:
        mix_policies(core, own, settings, LARGEST_SHARE)
        return AGAIN
    copy_policy(core, settings, own.kept, core.policy.logits)
    return KEPT


@kernel
def after_search(core, own, settings, seen, take):
    """What comes after the policy that was kept, or one that uses only what was tried, was looked at.

    ``take`` is whether the last one looked at takes the place of the one kept before.
    """
    if seen.safe or not take:
        if take:
            copy_policy(core, settings, core.policy.logits, own.kept)
        own.has_kept[0] = SAFE
        own.report.share[0] = min(2.0 * own.share[0], LARGEST_SHARE)
        mix_policies(core, own, settings, own.report.share[0])
        return MIXED
    own.has_kept[0] = 0
    if noisy(own):
        own.has_kept[0] = UNSAFE
        copy_policy(core, settings, core.policy.logits, own.kept)
        mix_policies(core, own, settings, LARGEST_SHARE)
    else:
        copy_policy(core, settings, own.hope, core.policy.logits)
    return AGAIN


@kernel
def after_mixing(core, own, settings, seen):
    """What comes after a mixture was looked at: half of the share, and in the end the safe policy alone."""
    share = own.report.share[0]
    if seen.safe:
        own.share[0] = share
        if share == LARGEST_SHARE:
            copy_policy(core, settings, core.policy.logits, own.kept)
        return PLAYED
    share = 0.5 * share if share > SMALLEST_SHARE else 0.0
    own.report.share[0] = share
    if share > 0.0:
        mix_policies(core, own, settings, share)
        return MIXED
    own.share[0] = SMALLEST_SHARE
    copy_policy(core, settings, own.kept, core.policy.logits)
    return AGAIN


@kernel(inline=True)
def weigh_given(core, own, settings, choices, scene):
    """With what probability the policy just judged may be played, and the safe policy that was given otherwise.

    The largest with which the mixture meets the thresholds if every utility is as small as it may be, and no smaller
    than 0: w low + (1 - w) v_0 >= alpha. As small as it may be is less than its margin allows: what follows an action
    never tried counts as nothing, and all that the plan may owe to lucky estimates is taken off.
    """
    dual, report, weight, H = own.dual, own.report, 1.0, core.counts.n_cells.size
    blind = first_tries(core, own, settings) if choices.given.size > 0 else 0.0
    for i in range(choices.given.size):
        alpha = report.thresholds[i] + scene.z * choices.samples * np.sqrt(dual.error[i])
        more = blind * own.scales.middle[i] * H + (1.0 - choices.luck) * dual.luck[i]
        room, short = choices.given[i] - alpha, min(more - dual.g[i], alpha)
        if short > 0.0:
            weight = min(weight, room / (room + short)) if room > 0.0 else 0.0
    report.weight[0] = weight


@kernel
def plan(core, own, settings, choices, t, states, actions):
    """The policy and the multipliers of the next episode, from the data of t - 1 episodes."""
    report, everything = own.report, t >= own.clock[0]
    if report.safe[0] > 0.0 and report.share[0] == 1.0:
        copy_policy(core, settings, core.policy.logits, own.kept)
        own.has_kept[0] = SAFE
    scene = prepare(core, own, settings, choices, t, everything, states, actions)
    report.trials[0], report.share[0] = 0.0, 1.0
    stage, mode, search, before = PLANNED, OPTIMISTIC, start_search(), -np.inf
    while stage != PLAYED:
        seen = trial(core, own, settings, choices, scene, mode)
        report.safe[0] = 1.0 if seen.safe else 0.0
        if mode != EVALUATE:
            search = next_multipliers(core, own, settings, choices, scene, search, seen)
            if search.stage != ENDED:
                continue
        if stage == PLANNED:
            stage = after_plan(core, own, settings, choices, everything, seen)
        elif stage == KEPT and not seen.safe:
            stage = SEARCHED
        elif stage == KEPT and everything and noisy(own):
            stage, before = SEARCHED, report.value[0]
        elif stage in (KEPT, SEARCHED):
            take = before == -np.inf or (seen.safe and report.value[0] > before)
            stage = after_search(core, own, settings, seen, take)
        elif stage == MIXED:
            stage = after_mixing(core, own, settings, seen)
        else:
            stage = PLAYED
        if stage == SEARCHED:
            mode, search = CAUTIOUS, start_search()
        else:
            mode = EVALUATE
        if stage > SEARCHED:
            core.policy.lam[:] = own.dual.plan
    weigh_given(core, own, settings, choices, scene)
    if everything:
        weigh_luck(core, own, settings)
    report.temperature[0], report.untried[0] = scene.tau, count_untried(core, settings)


@kernel(inline=True)
def total_of(utilities, i):
    """Sum of utility i over an episode."""
    total = 0.0
    for h in range(utilities.shape[1]):
        total += utilities[i, h]
    return total


@kernel(inline=True)
def bound_given(row, total, H, m):
    """Upper bound on a utility of the safe policy that was given, after one more episode of it with that total.

    1 - total / H has a lower confidence sequence (empirical Bernstein), so that its mean has an upper one.
    """
    return H * (1.0 - bernstein(row, 1.0 - min(max(total / H, 0.0), 1.0), np.log(m / REFUTED)))


@kernel
def refuted_by(own, choices, utilities):
    """Which promise one more episode of the safe policy that was given refutes, or -1. Nothing is taken of it."""
    m, work = choices.given.size, own.promise[0]
    for i in range(m):
        total = total_of(utilities, i)
        if not np.isnan(total):
            work[:] = own.promise[1 + i]
            if bound_given(work, total, float(utilities.shape[1]), m) < choices.given[i]:
                return i
    return -1


@kernel
def note_given(own, choices, utilities):
    """One more episode of the safe policy that was given."""
    m = choices.given.size
    for i in range(m):
        total = total_of(utilities, i)
        if not np.isnan(total):
            bound_given(own.promise[1 + i], total, float(utilities.shape[1]), m)


@kernel(inline=True)
def count_below(own, utilities):
    """Whether the sums of an episode that was played fell below the thresholds there were."""
    for i in range(own.below.size):
        total = total_of(utilities, i)
        if not np.isnan(total):
            own.judged[i] += 1.0
            own.below[i] += total < own.report.thresholds[i]


@kernel(inline=True)
def learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, thresholds, played):
    """One episode: add its data, then plan the next. One without steps adds nothing: all rows are looked at again.

    ``played[0]`` counts it here, as an interrupt may come between two calls.
    """
    if actions.size > 0:
        count_below(own, utilities)
        add_episode(core, own, settings, choices, states, actions, rewards, utilities, thresholds)
        played[0] += 1
    else:
        own.clock[0] = 0
    if not choices.certain:
        plan(core, own, settings, choices, played[0] + own.logged[0] + 1, states, actions)


@kernel
def observe_proximal(core, own, settings, choices, episode, played, by_given):
    """:func:`learn_proximal`, for callers outside; ``by_given``: the safe policy that was given played."""
    states, actions, rewards, utilities, thresholds = borrow(episode)
    if by_given:
        note_given(own, choices, utilities)
    learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, thresholds, borrow(played))


@kernel
def record_proximal(core, own, settings, choices, episode):
    """Add the data of one episode that was not played; the policy stays, and the next plan looks at all rows."""
    states, actions, rewards, utilities, thresholds = borrow(episode)
    add_episode(core, own, settings, choices, states, actions, rewards, utilities, thresholds)
    own.logged[0] += 1
    own.clock[0] = 0
