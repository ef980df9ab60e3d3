"""Truncated policy evaluation on the optimistic model, and the steps of the primal-dual family.

Algorithms 1 and 2 of Zuo et al. 2026 with the forms that the peers need; which of them are in force is said by
:class:`flexdome.learners.primal_dual.bonus_kernels.Form`. The arrays are those of
:class:`flexdome.learners.seen.kernels.Core`.
"""

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import BLOCK, LANES, mirror_step, row_value, row_values, start_value
from flexdome.learners.primal_dual.bonus_kernels import set_base, unvisited
from flexdome.learners.primal_dual.slip_kernels import (
    add_slip,
    count_slip,
    slip_after,
    slipped_entropy,
    slipped_uniform_entropy,
)
from flexdome.learners.seen.kernels import FORBIDDEN, clear_forbidden, count_episode, forbid, n_allowed, row_of

__all__ = ["estimate", "evaluate_step", "first_plan", "learn", "observe_primal_dual", "record", "record_only"]


@kernel(inline="late")
def record(core, settings, states, actions, rewards, utilities, thresholds):
    """Add one episode's data (Alg. 1, line 8). ``thresholds`` is (m, H), or of size 0 where none are observed."""
    counts = core.counts
    if settings.form.latest and thresholds.size > 0:
        counts.alpha_sum[:] = 0.0
        counts.alpha_count[:] = 0.0
    count_episode(core, settings, states, actions, rewards, utilities, thresholds)
    H = actions.size
    if settings.form.slips and not settings.known_p:
        count_slip(core, settings, states, actions)
    for h in range(H):
        set_base(core, settings, row_of(core, settings, h, states[h], actions[h]))


@kernel
def record_only(core, settings, episode):
    """Add the data of one episode; the policy stays."""
    states, actions, rewards, utilities, thresholds = borrow(episode)
    record(core, settings, states, actions, rewards, utilities, thresholds)


@kernel(inline=True)
def uniform_entropy(settings, h, s):
    """The entropy of a state never visited, over the actions that are allowed there."""
    if settings.form.slips:
        return slipped_uniform_entropy(settings, h, s)
    n = settings.A
    if settings.masked:
        n = n_allowed(settings, h, s)
    return np.log(float(n))


@kernel(inline="late")
def mean_uniform_entropy(core, settings, h):
    """:func:`uniform_entropy`, averaged over the states never visited at step h."""
    if settings.masked:
        total, left = 0.0, 0
        for s in range(settings.S):
            if core.counts.cell_of[h, s] == 0:
                total += uniform_entropy(settings, h, s)
                left += 1
        return total / max(left, 1)
    return uniform_entropy(settings, h, 0)


@kernel(inline=True)
def cell_entropy(core, settings, h, cell):
    """The entropy of a cell of step h, as it enters the cell's value."""
    if settings.form.slips:
        return slipped_entropy(core, settings, h, cell)
    return core.policy.entropy[cell]


@kernel(inline=True)
def initial_value(core, settings, tau, v, q):
    """``v[j]``: the estimated values at the initial distribution.

    ``q`` holds what :func:`evaluate_optimistic` left there, the values of an action never tried at the first step:
    those of a state never visited.
    """
    counts, policy, work = core.counts, core.policy, core.work
    W, m = settings.W, policy.lam.size
    v[:] = 0.0
    for k in range(settings.starts.size):
        disorder = uniform_entropy(settings, np.int64(0), settings.starts[k])
        c = np.int64(counts.cell_of[0, settings.starts[k]]) - 1
        for j in range(m + 2):
            value = work.values[c * W + j] if c >= 0 else q[j]
            if c < 0 and settings.form.joint and j == 0:
                value += tau * disorder
            elif c < 0 and not settings.form.joint and j == m + 1:
                value += disorder
            v[j] += settings.start_p[k] * value


@kernel(inline=True)
def evaluate_step(core, settings, h, weights, q, entropy_weight):
    """Values of step h under the current policy, and Q_y of every action in ``core.work.y``."""
    counts, policy, work = core.counts, core.policy, core.work
    A, C, m = settings.A, settings.C, policy.lam.size
    W = settings.W if settings.wide else BLOCK  # a constant, for the compiler
    pool_cell, pool_count, start, length = counts.pool_cell, counts.pool_count, counts.start, counts.length
    inverse, values, base, caps = counts.inverse, work.values, work.base, settings.caps
    pi, y, untried = policy.pi, work.y, policy.untried
    tried, tried_cell, n_tried = counts.tried, counts.tried_cell, counts.n_tried
    n = counts.n_cells[h]
    psi = 0 if settings.form.joint else m + 1
    y_untried = 0.0
    for j in range(W):
        y_untried += q[j] * weights[j]
    for a in range(A):  # up to the lanes that mirror_step moves along, not to the capacity
        for k in range(a * C, a * C + (n + LANES - 1) // LANES * LANES):
            y[k] = y_untried
    for cell in range(h * C, h * C + n):
        disorder = cell_entropy(core, settings, h, cell)
        start_value(values, cell, W, untried[cell], q, entropy_weight * disorder, psi)
    slipped = False
    if settings.form.slips:
        slipped = h + 1 == counts.n_cells.size
    if slipped:  # as if it were earned at the last step
        add_slip(core, settings)
    row_values(
        tried, tried_cell, h * A * C, n_tried[h], start, length, inverse, pi, pool_cell, pool_count, values, base, W,
        caps, h, weights, y,
    )  # fmt: skip
    if slipped:
        for k in range(h * A * C, h * A * C + n_tried[h]):
            set_base(core, settings, np.int64(tried[k]))


@kernel(inline="late")
def mean_after(core, settings, h, tau, q):
    """``q`` from the values of an untried action at step h to the mean value over all states of that step."""
    counts, policy, work = core.counts, core.policy, core.work
    C, W, m, S, n = settings.C, settings.W, policy.lam.size, settings.S, counts.n_cells[h]
    disorder = mean_uniform_entropy(core, settings, h)
    q[0 if settings.form.joint else m + 1] += tau * disorder if settings.form.joint else disorder
    for j in range(m + 2):
        total = (S - n) * q[j]
        for cell in range(h * C, h * C + n):
            total += work.values[cell * W + j]
        q[j] = total / S


@kernel(inline="late")
def choose_greedy(core, settings, h, weights, q):
    """Play the action of largest Q_y (the first of equals) in every cell of step h, and set the values to its."""
    counts, policy, work = core.counts, core.policy, core.work
    A, C, W = settings.A, settings.C, settings.W
    y, pi, logits, inverse, values = work.y, policy.pi, policy.logits, counts.inverse, work.values
    for c in range(counts.n_cells[h]):
        best = -1
        for a in range(A):
            row = (h * A + a) * C + c
            pi[row], logits[row] = 0.0, FORBIDDEN
            may = True
            if settings.masked:
                may = settings.allowed[h, counts.state_of[h, c], a]
            if may and (best < 0 or y[a * C + c] > y[best * C + c]):
                best = a
        row, cell = (h * A + best) * C + c, h * C + c
        pi[row], logits[row] = 1.0, 0.0
        policy.entropy[cell] = 0.0
        policy.untried[cell] = 1.0 if inverse[row] == 0.0 else 0.0
        start_value(values, cell, W, policy.untried[cell], q, 0.0, 0)
        if inverse[row] > 0.0:
            row_value(
                counts.pool_cell, counts.pool_count, counts.start[row], counts.length[row], inverse[row], values,
                work.base, row, W, settings.caps, h, weights, 1.0, cell,
            )  # fmt: skip


@kernel(inline=True)
def move_policy(core, settings, h, keep, eta):
    """``log pi <- keep log pi + eta Q_y`` in every cell of step h, normalised over the actions that are allowed."""
    counts, policy = core.counts, core.policy
    if settings.masked:
        forbid(core, settings, h)
    mirror_step(
        policy.logits, policy.pi, core.work.y, counts.inverse, policy.entropy, policy.untried, h, settings.C,
        settings.A, counts.n_cells[h], keep, eta,
    )  # fmt: skip
    if settings.masked:
        clear_forbidden(core, settings, h)


@kernel(inline=True)
def most_entropy(settings):
    """The largest entropy of a state."""
    largest = np.log(float(settings.A))
    if settings.masked:
        largest = settings.caps[(settings.caps.size // settings.W - 1) * settings.W + settings.thresholds.size + 1]
    return largest


@kernel(inline="late")
def evaluate_optimistic(core, settings, weights, q, tau, keep, eta, move):
    """Truncated policy evaluation (Alg. 2) of r-bar, d-bar and psi-bar, each truncated by itself.

    ``weights`` (W,) combine them into Q_y. With ``move`` the policy of each step is updated as soon as its values are
    known (Alg. 1, line 6): log pi <- keep log pi + eta Q', where keep = 1 - eta tau because Q_psi contains -log pi.
    A greedy learner moves to the best action instead, and the values are that action's. Actions never tried share one
    Q, which is not computed again for each; on return ``q`` holds that of the first step.
    """
    W, m, H = settings.W, core.policy.lam.size, core.counts.n_cells.size
    entropy_weight = tau if settings.form.joint else 1.0
    q[:] = 0.0
    if settings.form.slips:
        slip_after(core, settings, tau, q)
    for h in range(H - 1, -1, -1):
        if settings.form.joint:
            settings.caps[h * W] = (1.0 + tau * most_entropy(settings)) * (H - h)
        unvisited(settings, h, m, q)
        again = False
        if settings.form.next_policy:  # weigh Q of pi_t with pi_{t+1}
            again = move and h == 0
        for _ in range(2 if again else 1):
            evaluate_step(core, settings, h, weights, q, entropy_weight)
            if move and settings.form.greedy:
                choose_greedy(core, settings, h, weights, q)
            elif move:
                move_policy(core, settings, h, keep, eta)
                move = not again  # once
        if settings.even and h > 0:
            mean_after(core, settings, h, tau, q)


@kernel(inline=True)
def threshold(core, settings, i):
    """The known threshold i, or the mean of its samples that count."""
    counts = core.counts
    alpha = settings.thresholds[i]
    return counts.alpha_sum[i] / max(counts.alpha_count[i], 1.0) if np.isnan(alpha) else alpha


@kernel(inline=True)
def plan(core, settings, eta, tau, eps, weights, v, q, alpha):
    """The next policy and multipliers, from the data there are (Alg. 1, lines 4 to 7).

    ``weights``, ``v``, ``q`` (W,) and ``alpha`` (m,) are work. Afterwards ``v`` holds the estimated values of the
    policy of this episode at the initial distribution, and ``alpha`` the thresholds used. A greedy learner has moved
    its multipliers already; ``eta`` is their weight in its plan, whose values it keeps.
    """
    policy = core.policy
    m = policy.lam.size
    weights[:] = 0.0
    weights[0] = 1.0
    for i in range(m):
        weights[1 + i] = eta * policy.lam[i] if settings.form.greedy else policy.lam[i]
    weights[m + 1] = 0.0 if settings.form.joint else tau
    evaluate_optimistic(core, settings, weights, q, tau, 1.0 - eta * tau, eta, True)
    if settings.form.greedy:
        initial_value(core, settings, tau, policy.plan, q)
        return
    initial_value(core, settings, tau, v, q)
    rate = eta if settings.form.dual_step < 0.0 else settings.form.dual_step
    for i in range(m):
        alpha[i] = threshold(core, settings, i)
        step = (1.0 - rate * tau) * policy.lam[i] - rate * (v[1 + i] - eps[i] - alpha[i])
        policy.lam[i] = min(max(step, 0.0), settings.dual_bound)


@kernel(inline="late")
def move_queue(core, settings, eps, v, alpha):
    """The dual step of a greedy learner: by the plan that was played, as it looked when it was made."""
    policy = core.policy
    for j in range(v.size):
        v[j] = policy.plan[j]
    for i in range(policy.lam.size):
        alpha[i] = threshold(core, settings, i)
        step = policy.lam[i] + alpha[i] + eps[i] - v[1 + i]
        policy.lam[i] = min(max(step, 0.0), settings.dual_bound)


@kernel(inline=True)
def learn(core, settings, eta, tau, eps, weights, v, q, alpha, states, actions, rewards, utilities, thresholds):
    """One episode: plan from the past and then add its data, or the other way round where the settings say so."""
    if settings.form.greedy:
        move_queue(core, settings, eps, v, alpha)
    data_first = False
    if settings.form.data_first or settings.form.greedy:
        data_first = True
    for part in range(2):
        if (part == 0) == data_first:
            record(core, settings, states, actions, rewards, utilities, thresholds)
        else:
            plan(core, settings, eta, tau, eps, weights, v, q, alpha)


@kernel
def first_plan(core, settings, step, alpha):
    """The plan of a greedy learner that has seen nothing."""
    step, alpha = borrow(step), borrow(alpha)
    plan(core, settings, 0.0, 0.0, alpha, step[0], step[1], step[2], alpha)


@kernel
def observe_primal_dual(core, settings, eta, tau, eps, episode, step, alpha, played):
    """One episode of a primal-dual learner.

    ``played[0]`` counts the episode here, not in the caller: an interrupt may come between the two.
    """
    eps, step, alpha = borrow(eps), borrow(step), borrow(alpha)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    learn(
        core, settings, eta, tau, eps, step[0], step[1], step[2], alpha, states, actions, rewards, utilities, thresholds
    )
    played[0] += 1


@kernel
def estimate(core, settings, tau, step):
    """Evaluate the current policy on the current optimistic model; ``step[1]`` holds its estimated values."""
    step = borrow(step)
    step[0] = 0.0
    evaluate_optimistic(core, settings, step[0], step[2], tau, 1.0, 0.0, False)
    initial_value(core, settings, tau, step[1], step[2])
