"""ProxDOME's plan: the multipliers of the optimistic plan, and what is played where it cannot be shown safe.

What an episode adds is :mod:`flexdome.learners.proximal.record_kernels`, the standard errors taken of it
:mod:`flexdome.learners.proximal.error_kernels`; one soft Bellman sweep and its verdict
:mod:`flexdome.learners.proximal.sweep_kernels`; the multipliers :mod:`flexdome.learners.proximal.dual_kernels`.
"""

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.learners.proximal.data_kernels import known, lagrangian
from flexdome.learners.proximal.dual_kernels import ENDED, next_multipliers, start_search
from flexdome.learners.proximal.error_kernels import refresh, refresh_all, set_thresholds, weigh_luck
from flexdome.learners.proximal.mix_kernels import copy_rows, mix_by_reach, mix_by_state
from flexdome.learners.proximal.noise_kernels import measure, noisy, pool_all
from flexdome.learners.proximal.promise_kernels import note_given, weigh_given
from flexdome.learners.proximal.record_kernels import add_episode, count_below
from flexdome.learners.proximal.sweep_kernels import CAUTIOUS, EVALUATE, OPTIMISTIC, Scene, first_tries, trial

__all__ = [
    "LARGEST_SHARE",
    "REFRESH",
    "SMALLEST_SHARE",
    "keep_logged",
    "learn_proximal",
    "observe_proximal",
    "record_proximal",
]

REFRESH = 0.02
BY_LOG = 10  # times as many episodes as were logged: so long nothing is played that is not shown safe, if it need not
# What is looked at; AGAIN: the policy that will be played, once more.
PLANNED, BEYOND, KEPT, SEARCHED, MIXED, AGAIN, CAREFUL, PLAYED = 0, 1, 2, 3, 4, 5, 6, 7
LONG = 2.0  # times the episode in which mixtures began: from here on the multipliers begin at 0 again
SAFE, UNSAFE = 1, 2  # what a policy that is kept was shown to be, or not
LARGEST_SHARE, SMALLEST_SHARE = 0.5, 1.0 / 64.0  # of the optimistic plan, mixed into a policy that is shown safe


@kernel(inline=True)
def count_untried(core, settings):
    """Actions never tried in states that were visited."""
    A, C, untried = settings.A, settings.C, 0.0
    sure = settings.known_p and known(settings, 0, 0) and known(settings, 1, 0)
    for h in range(core.counts.n_cells.size):
        if not settings.masked and not settings.revealed:
            untried += A * core.counts.n_cells[h] - core.counts.n_tried[h]
            continue
        for c in range(core.counts.n_cells[h] if not sure else 0):
            here, never = 0.0, 0.0
            for a in range(A):
                visits = core.counts.n_visits[(h * A + a) * C + c]
                may = True
                if settings.masked:
                    may = settings.allowed[h, core.counts.state_of[h, c], a]
                here, never = here + visits, never + (may and visits == 0.0)
            untried += never if here > 0.0 or not settings.revealed else 0.0
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
    log = 0 < t - own.logged[0] <= BY_LOG * own.logged[0]
    return Scene(L / np.sqrt(float(H) * t), np.sqrt(max(np.log(1.0 + t), choices.least)), ceiling, log)


@kernel
def take(core, own, settings):
    """The policy just swept is the one that is kept, with its occupancies and its plug-in V_r."""
    copy_rows(core, settings, core.policy.logits, own.kept)
    copy_rows(core, settings, own.x, own.reach)
    own.worth[0] = own.report.value[0]


@kernel
def hope(core, own, settings):
    """The policy just swept is the one of which as much is mixed in as can be shown safe."""
    copy_rows(core, settings, core.policy.logits, own.hope)
    copy_rows(core, settings, own.x, own.beyond)


@kernel(inline=True)
def start_mixing(core, own, settings):
    """The first mixture of the policy that is kept, which is shown safe, and the one of which as much as can be."""
    own.has_kept[0] = SAFE
    own.report.share[0] = min(2.0 * own.share[0], LARGEST_SHARE)
    mix_by_reach(core, own, settings, own.report.share[0])
    return MIXED


@kernel
def after_plan(core, own, settings, choices, scene, everything, seen, under):
    """What comes after the optimistic plan: it is played, or a policy is looked for that can be shown safe.

    Where it is shown safe and yet not the one looked for, the multipliers lie at a jump: a little less of them, and the
    plan explores and cannot be shown safe. Then that plan is looked at, and mixed in. ``under`` says how short it is.
    """
    report = own.report
    own.dual.plan[:] = core.policy.lam
    report.solved[0], report.ceiling[0] = 1.0 if seen.done else 0.0, 1.0 if seen.full else 0.0
    report.first[0] = first_tries(core, own, settings)
    if seen.safe and not seen.done and under < np.inf:
        take(core, own, settings)
        core.policy.lam[:] = own.dual.under
        return BEYOND
    if seen.safe or (report.first[0] >= choices.licence and own.logged[0] == 0):
        return PLAYED
    if own.has_kept[0] == 0 and not everything and not scene.log:
        return PLAYED
    hope(core, own, settings)
    if own.has_kept[0] == 0 or (own.has_kept[0] == UNSAFE and everything and not scene.log):
        return SEARCHED
    if own.has_kept[0] == UNSAFE and not scene.log:
        mix_by_state(core, own, settings, LARGEST_SHARE)
        return AGAIN
    copy_rows(core, settings, own.kept, core.policy.logits)
    return KEPT


@kernel
def after_search(core, own, settings, scene, seen, held, short):
    """What comes after a policy that uses only what was tried was looked at; ``held``: the one kept is safe still.

    ``short`` says by how much it is not. After a log the less short of the two is looked at once more.
    """
    if held or seen.safe:
        if seen.safe and (not held or own.report.value[0] > own.worth[0]):
            take(core, own, settings)
        return start_mixing(core, own, settings)
    own.has_kept[0] = 0
    if scene.log:
        own.has_kept[0] = UNSAFE
        if seen.short < short:
            copy_rows(core, settings, core.policy.logits, own.kept)
        copy_rows(core, settings, own.kept, core.policy.logits)
        return CAREFUL
    if noisy(own):
        own.has_kept[0] = UNSAFE
        copy_rows(core, settings, core.policy.logits, own.kept)
        mix_by_state(core, own, settings, LARGEST_SHARE)
    else:
        copy_rows(core, settings, own.hope, core.policy.logits)
    return AGAIN


@kernel
def after_careful(core, own, settings):
    """After a log, where nothing is shown safe: what was tried alone, unless it is a standard error short."""
    meets = True
    for i in range(core.policy.lam.size):
        meets = meets and own.report.utilities[i] + own.report.errors[i] >= own.report.thresholds[i]
    if meets:
        own.report.share[0] = 0.0
        return PLAYED
    if noisy(own):
        mix_by_state(core, own, settings, LARGEST_SHARE)
    else:
        copy_rows(core, settings, own.hope, core.policy.logits)
    return AGAIN


@kernel
def after_mixing(core, own, settings, seen):
    """What comes after a mixture was looked at: half of the share, and in the end the safe policy alone."""
    share = own.report.share[0]
    if seen.safe:
        own.share[0] = share
        if share == LARGEST_SHARE or own.report.value[0] > own.worth[0]:
            copy_rows(core, settings, core.policy.logits, own.kept)
        return PLAYED
    share = 0.5 * share if share > SMALLEST_SHARE else 0.0
    own.report.share[0] = share
    if share > 0.0:
        mix_by_reach(core, own, settings, share)
        return MIXED
    own.share[0] = SMALLEST_SHARE
    copy_rows(core, settings, own.kept, core.policy.logits)
    return AGAIN


@kernel
def plan(core, own, settings, choices, t, states, actions):
    """The policy and the multipliers of the next episode, from the data of t - 1 episodes."""
    report, everything = own.report, t >= own.clock[0]
    if report.safe[0] > 0.0 and report.share[0] == 1.0:
        copy_rows(core, settings, core.policy.logits, own.kept)
        own.has_kept[0] = SAFE
    if report.share[0] == 1.0:
        own.since[0] = t
    elif everything and t >= LONG * own.since[0]:
        core.policy.lam[:], own.since[0] = 0.0, t
    scene = prepare(core, own, settings, choices, t, everything, states, actions)
    report.trials[0], report.share[0] = 0.0, 1.0
    stage, mode, search, held, short = PLANNED, OPTIMISTIC, start_search(), False, np.inf
    while stage != PLAYED:
        seen = trial(core, own, settings, choices, scene, mode)
        report.safe[0] = 1.0 if seen.safe else 0.0
        if stage in (PLANNED, SEARCHED):
            search = next_multipliers(core, own, settings, choices, scene, search, seen)
            if search.stage != ENDED:
                continue
        if stage == PLANNED:
            stage = after_plan(core, own, settings, choices, scene, everything, seen, search.under)
        elif stage == BEYOND:
            hope(core, own, settings)
            stage = start_mixing(core, own, settings)
        elif stage == KEPT:
            held, short = seen.safe, seen.short
            if held:
                take(core, own, settings)
            look = not held or (everything and noisy(own))
            stage = SEARCHED if look else start_mixing(core, own, settings)
        elif stage == SEARCHED:
            stage = after_search(core, own, settings, scene, seen, held, short)
        elif stage == MIXED:
            stage = after_mixing(core, own, settings, seen)
        elif stage == CAREFUL:
            stage = after_careful(core, own, settings)
        else:
            stage = PLAYED
        if stage == SEARCHED:
            mode, search = CAUTIOUS, start_search()
        elif stage != BEYOND:
            mode = EVALUATE
        if stage > SEARCHED:
            core.policy.lam[:] = own.dual.plan
    tries = first_tries(core, own, settings) if choices.given.size > 0 else 0.0
    weigh_given(core, own, settings, choices, scene, tries)
    if everything:
        weigh_luck(core, own, settings)
    report.temperature[0], report.untried[0] = scene.tau, count_untried(core, settings)


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


@kernel
def keep_logged(core, own, settings):
    """The policy that made a log, as far as it shows, is looked at first, unless one is kept that was shown safe.

    What was done in each state: where steps are shared, at its own step if it was met there, else at any.
    """
    A, C = settings.A, settings.C
    for h in range(core.counts.n_cells.size if own.has_kept[0] != SAFE else 0):
        for c in range(core.counts.n_cells[h]):
            here, total = 0.0, 0.0
            for k in range(h * A * C + c, (h + 1) * A * C, C):
                here, total = here + own.seen[k], total + core.counts.n_visits[k]
            for k in range(h * A * C + c, (h + 1) * A * C, C):
                own.kept[k] = core.policy.logits[k]
                if total > 0.0:
                    share = own.seen[k] / here if here > 0.0 else core.counts.n_visits[k] / total
                    own.kept[k] = np.log(max(share, 1e-300))
    if own.has_kept[0] != SAFE:
        own.has_kept[0] = UNSAFE
