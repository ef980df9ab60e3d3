"""Truncated policy evaluation on the optimistic model, and the steps of the primal-dual family.

Algorithms 1 and 2 of Zuo et al. 2026 with the forms that the peers need; which of them are in force is said by
:class:`flexdome.learners.seen.kernels.Settings`. The arrays are those of :class:`flexdome.learners.seen.kernels.Core`.
"""

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import LANES, mirror_step, row_value, start_value
from flexdome.learners.seen.kernels import record, set_base, unvisited

__all__ = ["estimate", "first_plan", "learn", "observe_primal_dual"]


@kernel(inline=True)
def uniform_entropy(settings):
    """The entropy of a state never visited."""
    return np.log(float(settings.A)) / (settings.A if settings.slips else 1.0)


@kernel(inline=True)
def cell_entropy(core, settings, h, cell):
    """The entropy of a cell of step h, as it enters the cell's value."""
    disorder = core.entropy[cell]
    if settings.slips:
        disorder = 0.0
        for a in range(settings.A):
            row = (h * settings.A + a) * settings.C + cell - h * settings.C
            disorder -= core.pi[row] * core.pi[row] * core.logits[row]
    return disorder


@kernel(inline=True)
def slip_after(core, settings, tau, q):
    """``core.after``: the values after the last step, which should be zero; ``q`` receives their mean."""
    h = core.n_cells.size - 1
    total = 0.0
    for s in range(settings.S):
        c = np.int64(core.cell_of[h, s]) - 1
        disorder = uniform_entropy(settings)
        if c >= 0:
            disorder = cell_entropy(core, settings, h, h * settings.C + c)
        core.after[s] = tau * disorder
        total += core.after[s]
    q[0] = total / settings.S


@kernel(inline=True)
def expected_after(core, settings, h, row):
    """The expectation of ``core.after`` after a row of the last step."""
    s, a = core.state_of[h, row % settings.C], row // settings.C % settings.A
    total = 0.0
    for following in range(settings.S):
        total += core.last[s, a, following] * core.after[following]
    return total * core.inverse[row]


@kernel(inline=True)
def initial_value(core, settings, tau, v, q):
    """``v[j]``: the estimated values at the initial distribution.

    ``q`` holds what :func:`evaluate_optimistic` left there, the values of an action never tried at the first step:
    those of a state never visited.
    """
    W, m = settings.W, core.lam.size
    disorder = uniform_entropy(settings)
    v[:] = 0.0
    for k in range(settings.starts.size):
        c = np.int64(core.cell_of[0, settings.starts[k]]) - 1
        for j in range(m + 2):
            value = core.values[c * W + j] if c >= 0 else q[j]
            if c < 0 and settings.joint and j == 0:
                value += tau * disorder
            elif c < 0 and not settings.joint and j == m + 1:
                value += disorder
            v[j] += settings.start_p[k] * value


@kernel(inline=True)
def evaluate_step(core, settings, h, weights, q, entropy_weight):
    """Values of step h under the current policy, and Q_y of every action in ``core.y``."""
    A, C, W, m = settings.A, settings.C, settings.W, core.lam.size
    pool_cell, pool_count, start, length = core.pool_cell, core.pool_count, core.start, core.length
    inverse, values, base, caps = core.inverse, core.values, core.base, settings.caps
    pi, y, untried = core.pi, core.y, core.untried
    tried, tried_cell, n_tried = core.tried, core.tried_cell, core.n_tried
    n = core.n_cells[h]
    psi = 0 if settings.joint else m + 1
    y_untried = 0.0
    for j in range(W):
        y_untried += q[j] * weights[j]
    for a in range(A):  # up to the lanes that mirror_step moves along, not to the capacity
        for k in range(a * C, a * C + (n + LANES - 1) // LANES * LANES):
            y[k] = y_untried
    for cell in range(h * C, h * C + n):
        disorder = cell_entropy(core, settings, h, cell)
        start_value(values, cell, W, untried[cell], q, entropy_weight * disorder, psi)
    slipped = settings.slips and h + 1 == core.n_cells.size
    if slipped:  # as if it were earned at the last step
        for k in range(h * A * C, h * A * C + n_tried[h]):
            row = np.int64(tried[k])
            base[row * W] += expected_after(core, settings, h, row)
    for k in range(h * A * C, h * A * C + n_tried[h]):
        row = np.int64(tried[k])
        y[row - h * A * C] = row_value(
            pool_cell, pool_count, start[row], length[row], inverse[row], values, base, row, W, caps, h, weights,
            pi[row], tried_cell[k],
        )  # fmt: skip
    if slipped:
        for k in range(h * A * C, h * A * C + n_tried[h]):
            set_base(core, settings, np.int64(tried[k]))


@kernel(inline=True)
def mean_after(core, settings, h, tau, q):
    """``q`` from the values of an untried action at step h to the mean value over all states of that step."""
    C, W, m, S, n = settings.C, settings.W, core.lam.size, settings.S, core.n_cells[h]
    disorder = uniform_entropy(settings)
    q[0 if settings.joint else m + 1] += tau * disorder if settings.joint else disorder
    for j in range(m + 2):
        total = (S - n) * q[j]
        for cell in range(h * C, h * C + n):
            total += core.values[cell * W + j]
        q[j] = total / S


@kernel(inline=True)
def choose_greedy(core, settings, h, weights, q):
    """Play the action of largest Q_y (the first of equals) in every cell of step h, and set the values to its."""
    A, C, W = settings.A, settings.C, settings.W
    y, pi, logits, inverse, values = core.y, core.pi, core.logits, core.inverse, core.values
    for c in range(core.n_cells[h]):
        best = 0
        for a in range(A):
            row = (h * A + a) * C + c
            pi[row], logits[row] = 0.0, -700.0
            if y[a * C + c] > y[best * C + c]:
                best = a
        row, cell = (h * A + best) * C + c, h * C + c
        pi[row], logits[row] = 1.0, 0.0
        core.entropy[cell] = 0.0
        core.untried[cell] = 1.0 if inverse[row] == 0.0 else 0.0
        start_value(values, cell, W, core.untried[cell], q, 0.0, 0)
        if inverse[row] > 0.0:
            row_value(
                core.pool_cell, core.pool_count, core.start[row], core.length[row], inverse[row], values, core.base,
                row, W, settings.caps, h, weights, 1.0, cell,
            )  # fmt: skip


@kernel(inline="late")
def evaluate_optimistic(core, settings, weights, q, tau, keep, eta, move):
    """Truncated policy evaluation (Alg. 2) of r-bar, d-bar and psi-bar, each truncated by itself.

    ``weights`` (W,) combine them into Q_y. With ``move`` the policy of each step is updated as soon as its values are
    known (Alg. 1, line 6): log pi <- keep log pi + eta Q', where keep = 1 - eta tau because Q_psi contains -log pi.
    A greedy learner moves to the best action instead, and the values are that action's. Actions never tried share one
    Q, which is not computed again for each; on return ``q`` holds that of the first step.
    """
    A, C, W, m = settings.A, settings.C, settings.W, core.lam.size
    H = core.n_cells.size
    entropy_weight = tau if settings.joint else 1.0
    q[:] = 0.0
    if settings.slips:
        slip_after(core, settings, tau, q)
    for h in range(H - 1, -1, -1):
        if settings.joint:
            settings.caps[h * W] = (1.0 + tau * np.log(float(A))) * (H - h)
        unvisited(settings, h, m, q)
        again = move and settings.next_policy and h == 0  # weigh Q of pi_t with pi_{t+1}
        for _ in range(2 if again else 1):
            evaluate_step(core, settings, h, weights, q, entropy_weight)
            if move and settings.greedy:
                choose_greedy(core, settings, h, weights, q)
            elif move:
                mirror_step(
                    core.logits, core.pi, core.y, core.inverse, core.entropy, core.untried, h, C, A, core.n_cells[h],
                    keep, eta,
                )  # fmt: skip
                move = not again  # once
        if settings.spread and h > 0:
            mean_after(core, settings, h, tau, q)


@kernel(inline=True)
def threshold(core, settings, i):
    """The known threshold i, or the mean of its samples that count."""
    alpha = settings.thresholds[i]
    return core.alpha_sum[i] / max(core.alpha_count[i], 1.0) if np.isnan(alpha) else alpha


@kernel(inline=True)
def plan(core, settings, eta, tau, eps, weights, v, q, alpha):
    """The next policy and multipliers, from the data there are (Alg. 1, lines 4 to 7).

    ``weights``, ``v``, ``q`` (W,) and ``alpha`` (m,) are work. Afterwards ``v`` holds the estimated values of the
    policy of this episode at the initial distribution, and ``alpha`` the thresholds used. A greedy learner has moved
    its multipliers already; ``eta`` is their weight in its plan, whose values it keeps.
    """
    m = core.lam.size
    weights[:] = 0.0
    weights[0] = 1.0
    for i in range(m):
        weights[1 + i] = eta * core.lam[i] if settings.greedy else core.lam[i]
    weights[m + 1] = 0.0 if settings.joint else tau
    evaluate_optimistic(core, settings, weights, q, tau, 1.0 - eta * tau, eta, True)
    if settings.greedy:
        initial_value(core, settings, tau, core.plan, q)
        return
    initial_value(core, settings, tau, v, q)
    rate = eta if settings.dual_step < 0.0 else settings.dual_step
    for i in range(m):
        alpha[i] = threshold(core, settings, i)
        step = (1.0 - rate * tau) * core.lam[i] - rate * (v[1 + i] - eps[i] - alpha[i])
        core.lam[i] = min(max(step, 0.0), settings.dual_bound)


@kernel(inline=True)
def move_queue(core, settings, eps, v, alpha):
    """The dual step of a greedy learner: by the plan that was played, as it looked when it was made."""
    v[:] = core.plan
    for i in range(core.lam.size):
        alpha[i] = threshold(core, settings, i)
        step = core.lam[i] + alpha[i] + eps[i] - v[1 + i]
        core.lam[i] = min(max(step, 0.0), settings.dual_bound)


@kernel(inline=True)
def learn(core, settings, eta, tau, eps, weights, v, q, alpha, states, actions, rewards, utilities, thresholds):
    """One episode: plan from the past and then add its data, or the other way round where the settings say so."""
    if settings.greedy:
        move_queue(core, settings, eps, v, alpha)
    data_first = settings.data_first or settings.greedy
    for part in range(2):
        if (part == 0) == data_first:
            record(core, settings, states, actions, rewards, utilities, thresholds)
        else:
            plan(core, settings, eta, tau, eps, weights, v, q, alpha)


@kernel
def first_plan(core, settings, step, alpha):
    """The plan of a greedy learner that has seen nothing."""
    core, settings, step, alpha = borrow(core), borrow(settings), borrow(step), borrow(alpha)
    plan(core, settings, 0.0, 0.0, alpha, step[0], step[1], step[2], alpha)


@kernel
def observe_primal_dual(core, settings, eta, tau, eps, episode, step, alpha, played):
    """One episode of a primal-dual learner.

    ``played[0]`` counts the episode here, not in the caller: an interrupt may come between the two.
    """
    core, settings, eps, step, alpha = borrow(core), borrow(settings), borrow(eps), borrow(step), borrow(alpha)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    learn(
        core, settings, eta, tau, eps, step[0], step[1], step[2], alpha, states, actions, rewards, utilities, thresholds
    )
    played[0] += 1


@kernel
def estimate(core, settings, tau, step):
    """Evaluate the current policy on the current optimistic model; ``step[1]`` holds its estimated values."""
    core, settings, step = borrow(core), borrow(settings), borrow(step)
    step[0] = 0.0
    evaluate_optimistic(core, settings, step[0], step[2], tau, 1.0, 0.0, False)
    initial_value(core, settings, tau, step[1], step[2])
