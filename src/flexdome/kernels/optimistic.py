"""The optimistic empirical model, truncated policy evaluation and the primal-dual step.

**What is stored.** A *cell* is a visited pair (h, s); cells of a step are numbered in the order of their first visit.
A *row* is a cell with an action. The empirical transitions of a row are the list of the cells that followed it, with
counts, in first-visit order. Cells never visited need no work: all their actions look alike, so their policy stays
uniform and their value is a closed form, and the empirical model never leads there. Cost and memory follow what has
been seen.

**Layout.** With C the capacity for cells of a step (a multiple of eight), cell c of step h has the number h C + c and
its action a the row (h A + a) C + c: the policies of neighbouring cells are neighbours, which is what
:func:`~flexdome.kernels.lanes.mirror_step` wants. The values of a cell are W neighbouring numbers (reward, utilities,
entropy, padding), which is what :func:`~flexdome.kernels.lanes.row_value` wants.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import LANES, TOGETHER, mirror_step, row_value, start_value

__all__ = [
    "ANYTIME",
    "ROOT",
    "VARIANCE",
    "Core",
    "Settings",
    "estimate",
    "first_plan",
    "learn",
    "observe_primal_dual",
    "record_only",
    "set_all_bases",
    "width",
]


class Core(NamedTuple):
    """Everything a learner has seen and decided. Arrays are changed in place."""

    cell_of: np.ndarray  # (H, S) int32, one more than the cell of a state, 0 before its first visit
    state_of: np.ndarray  # (H, C) int32
    n_cells: np.ndarray  # (H,)
    n_visits: np.ndarray  # (rows,) N
    inverse: np.ndarray  # (rows,) 1 / N, 0 where N = 0
    sum_r: np.ndarray  # (rows,)
    sum_d: np.ndarray  # (m, rows)
    base: np.ndarray  # (rows * W,) r-bar, d-bar and the entropy's bonus
    start: np.ndarray  # (rows,) where the row's successors begin in the pool
    length: np.ndarray  # (rows,) how many there are
    capacity: np.ndarray  # (rows,) for how many there is room
    pool_cell: np.ndarray  # int32, cell numbers
    pool_count: np.ndarray  # float64
    pool: np.ndarray  # (2,) entries used, largest capacity of a row
    logits: np.ndarray  # (rows,) log pi
    pi: np.ndarray  # (rows,)
    values: np.ndarray  # (cells * W,) the last truncated evaluation
    entropy: np.ndarray  # (cells,) -sum_a pi log pi
    untried: np.ndarray  # (cells,) probability of the actions with N = 0
    tried: np.ndarray  # (rows,) int32, the rows with N > 0, step after step in first-visit order
    tried_cell: np.ndarray  # (rows,) int32, their cells
    n_tried: np.ndarray  # (H,) how many at each step (those of step h begin at h A C)
    y: np.ndarray  # (A * C,) work: the composite Q of one step
    lam: np.ndarray  # (m,)
    plan: np.ndarray  # (W,) estimated values of a greedy learner's policy, as they were when it was planned
    alpha_sum: np.ndarray  # (m,)
    alpha_count: np.ndarray  # (1,) threshold samples so far


class Settings(NamedTuple):
    """What does not change from episode to episode."""

    A: int
    C: int
    W: int
    S: int
    kind: int  # the form of the bonus: ROOT, VARIANCE or ANYTIME
    bonus: np.ndarray  # (4,) its coefficients
    optimistic: bool  # full optimism where N = 0
    spread: bool  # an action never tried leads to every state alike, instead of nowhere
    joint: bool  # the entropy belongs to the reward, and both are truncated together
    next_policy: bool  # the dual step weighs Q of pi_t with pi_{t+1}
    dual_step: float  # the dual step size; below zero it is eta
    data_first: bool  # an episode's own data count in the step that follows it
    greedy: bool  # plan by dynamic programming after each episode, instead of mirror steps
    caps: np.ndarray  # (H * W,) truncation of each value at each step
    dual_bound: float
    thresholds: np.ndarray  # (m,) known ones, NaN where estimated
    starts: np.ndarray  # first states of positive probability
    start_p: np.ndarray  # their probabilities


ROOT, VARIANCE, ANYTIME = 0, 1, 2


@kernel(inline=True)
def width(settings, n, spread):
    """The bonus phi of reward and utilities after n >= 1 visits.

    ROOT: (b_0 + b_1) / sqrt(n). VARIANCE: b_0 / sqrt(n) + b_1 spread / sqrt(n) + b_3 / n with ``spread`` the sum over
    successors of sqrt(p (1 - p)). ANYTIME: b_0 (phi spread + 5 phi^2), phi^2 = (2 log log max(2n, e) + b_1) / n, with
    ``spread`` the sum of sqrt(p).
    """
    bonus = settings.bonus
    scale = np.sqrt(1.0 / n)
    if settings.kind == ROOT:
        return bonus[0] * scale + bonus[1] * scale
    if settings.kind == VARIANCE:
        return bonus[0] * scale + bonus[1] * spread * scale + bonus[3] / n
    square = (2.0 * np.log(np.log(max(2.0 * n, np.e))) + bonus[1]) / n
    return bonus[0] * (np.sqrt(square) * spread + 5.0 * square)


@kernel
def new_cell(core, settings, h, s):
    """Make the cell of (h, s) on its first visit: uniform policy, nothing known of any action."""
    A, C, W = settings.A, settings.C, settings.W
    c = core.n_cells[h]
    core.n_cells[h] += 1
    core.cell_of[h, s] = c + 1
    core.state_of[h, c] = s
    for j in range(W):
        core.values[(h * C + c) * W + j] = 0.0
    core.entropy[h * C + c] = np.log(A)
    core.untried[h * C + c] = 1.0
    for a in range(A):
        row = (h * A + a) * C + c
        core.logits[row] = -np.log(A)
        core.pi[row] = 1.0 / A
    return c


@kernel(inline=True)
def unvisited(settings, h, m, q):
    """The truncated values of an action never tried at step h, in ``q`` (W,).

    Its bonus is that of N = 1. With ``spread``, ``q`` brings the mean value of the next step's states along.
    """
    phi = width(settings, 1.0, np.sqrt(float(settings.S)) if settings.kind == ANYTIME else 0.0)
    for j in range(m + 2):
        cap = settings.caps[h * settings.W + j]
        own = settings.bonus[2] if j == m + 1 else phi
        after = q[j] if settings.spread else 0.0
        q[j] = cap if settings.optimistic else min(own + after, cap)


@kernel
def append_successor(core, row, cell):
    """Add ``cell`` to the successors of ``row``, seen once."""
    start, n = core.start[row], core.length[row]
    if n == core.capacity[row]:  # move the list to the end of the pool, with twice the room
        room = max(2 * n, TOGETHER)
        end = core.pool[0]
        for k in range(n):
            core.pool_cell[end + k] = core.pool_cell[start + k]
            core.pool_count[end + k] = core.pool_count[start + k]
        core.start[row] = end
        core.capacity[row] = room
        core.pool[0] = end + room
        core.pool[1] = max(core.pool[1], room)
        start = end
    core.pool_cell[start + n] = cell
    core.pool_count[start + n] = 1.0
    core.length[row] = n + 1


@kernel(inline=True)
def set_base(core, settings, row):
    """r-bar = r^ + phi, d-bar = d^ + phi, and phi_p log A for the entropy (eq. 6 of the paper), of a visited row."""
    W, m = settings.W, core.lam.size
    inverse, base, pool_count = core.inverse, core.base, core.pool_count
    spread = 0.0
    if settings.kind != ROOT:
        for k in range(core.start[row], core.start[row] + core.length[row]):
            share = pool_count[k] * inverse[row]
            spread += np.sqrt(share * (1.0 - share) if settings.kind == VARIANCE else share)
    phi = width(settings, core.n_visits[row], spread)
    base[row * W] = core.sum_r[row] * inverse[row] + phi
    for i in range(m):
        base[row * W + 1 + i] = core.sum_d[i, row] * inverse[row] + phi
    base[row * W + 1 + m] = settings.bonus[2] * np.sqrt(inverse[row])


@kernel
def set_all_bases(core, settings):
    """:func:`set_base` for every visited row: what is not stored in files."""
    core, settings = borrow(core), borrow(settings)
    A_C = settings.A * settings.C
    for h in range(core.n_cells.size):
        for k in range(h * A_C, h * A_C + core.n_tried[h]):
            set_base(core, settings, np.int64(core.tried[k]))


@kernel(inline=True)
def record(core, settings, states, actions, rewards, utilities, thresholds):
    """Add one episode's data (Alg. 1, line 8). ``thresholds`` is (m, H), or of size 0 where none are observed."""
    A, C = settings.A, settings.C
    H, m = actions.size, core.lam.size
    cell_of, n_visits, inverse, sum_r, sum_d = core.cell_of, core.n_visits, core.inverse, core.sum_r, core.sum_d
    pool_cell, pool_count, start, length = core.pool_cell, core.pool_count, core.start, core.length
    c = np.int64(cell_of[0, states[0]]) - 1
    if c < 0:
        c = new_cell(core, settings, 0, states[0])
    for h in range(H):
        row = (h * A + actions[h]) * C + c
        if n_visits[row] == 0.0:
            core.tried[h * A * C + core.n_tried[h]] = row
            core.tried_cell[h * A * C + core.n_tried[h]] = h * C + c
            core.n_tried[h] += 1
            core.untried[h * C + c] -= core.pi[row]
        n_visits[row] += 1.0
        inverse[row] = 1.0 / n_visits[row]
        following = np.int64(-1)
        if h + 1 < H:
            following = np.int64(cell_of[h + 1, states[h + 1]]) - 1
            if following < 0:
                following = new_cell(core, settings, h + 1, states[h + 1])
            cell = (h + 1) * C + following
            known = False
            for k in range(start[row], start[row] + length[row]):
                if pool_cell[k] == cell:
                    pool_count[k] += 1.0
                    known = True
                    break
            if not known:
                append_successor(core, row, cell)
        sum_r[row] += rewards[h]
        for i in range(m):
            sum_d[i, row] += utilities[i, h]
        set_base(core, settings, row)
        c = following
    if thresholds.size > 0:
        for i in range(m):
            for h in range(H):
                core.alpha_sum[i] += thresholds[i, h]
        core.alpha_count[0] += H


@kernel(inline=True)
def initial_value(core, settings, tau, v, q):
    """``v[j]``: the estimated values at the initial distribution.

    ``q`` holds what :func:`evaluate_optimistic` left there, the values of an action never tried at the first step:
    those of a state never visited.
    """
    W, m = settings.W, core.lam.size
    disorder = np.log(float(settings.A))
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
    pi, y, entropy, untried = core.pi, core.y, core.entropy, core.untried
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
        start_value(values, cell, W, untried[cell], q, entropy_weight * entropy[cell], psi)
    for k in range(h * A * C, h * A * C + n_tried[h]):
        row = np.int64(tried[k])
        y[row - h * A * C] = row_value(
            pool_cell, pool_count, start[row], length[row], inverse[row], values, base, row, W, caps, h, weights,
            pi[row], tried_cell[k],
        )  # fmt: skip


@kernel(inline=True)
def mean_after(core, settings, h, tau, q):
    """``q`` from the values of an untried action at step h to the mean value over all states of that step."""
    C, W, m, S, n = settings.C, settings.W, core.lam.size, settings.S, core.n_cells[h]
    disorder = np.log(float(settings.A))
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


@kernel(inline=True)
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
    """The known threshold i, or the mean of its samples."""
    alpha = settings.thresholds[i]
    return core.alpha_sum[i] / max(core.alpha_count[0], 1.0) if np.isnan(alpha) else alpha


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
def record_only(core, settings, episode):
    """Add the data of one episode; the policy stays."""
    core, settings = borrow(core), borrow(settings)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    record(core, settings, states, actions, rewards, utilities, thresholds)


@kernel
def estimate(core, settings, tau, step):
    """Evaluate the current policy on the current optimistic model; ``step[1]`` holds its estimated values."""
    core, settings, step = borrow(core), borrow(settings), borrow(step)
    step[0] = 0.0
    evaluate_optimistic(core, settings, step[0], step[2], tau, 1.0, 0.0, False)
    initial_value(core, settings, tau, step[1], step[2])
