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

__all__ = ["Core", "Settings", "estimate", "observe_primal_dual", "primal_dual_step", "record", "record_only"]


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
    alpha_sum: np.ndarray  # (m,)
    alpha_count: np.ndarray  # (1,) threshold samples so far


class Settings(NamedTuple):
    """What does not change from episode to episode."""

    A: int
    C: int
    W: int
    bonus: np.ndarray  # (3,) numerators of phi_r, phi_p and of the entropy's bonus: each over sqrt(N or 1)
    optimistic: bool  # full optimism where N = 0
    caps: np.ndarray  # (H * W,) truncation of each value at each step
    dual_bound: float
    thresholds: np.ndarray  # (m,) known ones, NaN where estimated
    starts: np.ndarray  # first states of positive probability
    start_p: np.ndarray  # their probabilities


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
    """``q`` (W,): the truncated values of an action never tried at step h: the bonus of N = 1, or full optimism."""
    for j in range(m + 2):
        q[j] = settings.caps[h * settings.W + j]
        if not settings.optimistic:
            phi = settings.bonus[2] if j == m + 1 else settings.bonus[0] + settings.bonus[1]
            q[j] = min(phi, q[j])


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
def record(core, settings, states, actions, rewards, utilities, thresholds):
    """Add one episode's data (Alg. 1, line 8). ``thresholds`` is (m, H), or of size 0 where none are observed."""
    A, C, W = settings.A, settings.C, settings.W
    H, m = actions.size, core.lam.size
    cell_of, n_visits, inverse, bonus = core.cell_of, core.n_visits, core.inverse, settings.bonus
    sum_r, sum_d, base = core.sum_r, core.sum_d, core.base
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
        # r-bar = r^ + phi, d-bar = d^ + phi, and phi_p log A for the entropy (eq. 6 of the paper)
        scale = np.sqrt(inverse[row])
        phi = bonus[0] * scale + bonus[1] * scale
        sum_r[row] += rewards[h]
        base[row * W] = sum_r[row] * inverse[row] + phi
        for i in range(m):
            sum_d[i, row] += utilities[i, h]
            base[row * W + 1 + i] = sum_d[i, row] * inverse[row] + phi
        base[row * W + 1 + m] = bonus[2] * scale
        if h + 1 == H:
            break
        c = np.int64(cell_of[h + 1, states[h + 1]]) - 1
        if c < 0:
            c = new_cell(core, settings, h + 1, states[h + 1])
        cell = (h + 1) * C + c
        known = False
        for k in range(start[row], start[row] + length[row]):
            if pool_cell[k] == cell:
                pool_count[k] += 1.0
                known = True
                break
        if not known:
            append_successor(core, row, cell)
    if thresholds.size > 0:
        for i in range(m):
            for h in range(H):
                core.alpha_sum[i] += thresholds[i, h]
        core.alpha_count[0] += H


@kernel(inline=True)
def initial_value(core, settings, v, q):
    """``v[j]``: the estimated values at the initial distribution, closed form for states never visited (q is work)."""
    W, m = settings.W, core.lam.size
    unvisited(settings, 0, m, q)
    q[m + 1] += np.log(settings.A)
    v[:] = 0.0
    for k in range(settings.starts.size):
        c = np.int64(core.cell_of[0, settings.starts[k]]) - 1
        for j in range(m + 2):
            v[j] += settings.start_p[k] * (core.values[c * W + j] if c >= 0 else q[j])


@kernel(inline=True)
def evaluate_optimistic(core, settings, weights, q, keep, eta, move):
    """Truncated policy evaluation (Alg. 2) of r-bar, d-bar and psi-bar, each truncated by itself.

    ``weights`` (W,) combine them into Q_y. With ``move`` the policy of each step is updated as soon as its values are
    known (Alg. 1, line 6): log pi <- keep log pi + eta Q', where keep = 1 - eta tau because Q_psi contains -log pi.
    Actions never tried share one Q, which is not computed again for each.
    """
    A, C, W, m = settings.A, settings.C, settings.W, core.lam.size
    pool_cell, pool_count, start, length = core.pool_cell, core.pool_count, core.start, core.length
    inverse, values, base, caps = core.inverse, core.values, core.base, settings.caps
    logits, pi, y, entropy, untried = core.logits, core.pi, core.y, core.entropy, core.untried
    n_cells, tried, tried_cell, n_tried = core.n_cells, core.tried, core.tried_cell, core.n_tried
    q[:] = 0.0
    for h in range(n_cells.size - 1, -1, -1):
        n = n_cells[h]
        unvisited(settings, h, m, q)
        y_untried = 0.0
        for j in range(W):
            y_untried += q[j] * weights[j]
        for a in range(A):  # up to the lanes that mirror_step moves along, not to the capacity
            for k in range(a * C, a * C + (n + LANES - 1) // LANES * LANES):
                y[k] = y_untried
        for cell in range(h * C, h * C + n):
            start_value(values, cell, W, untried[cell], q, entropy[cell], m + 1)
        for k in range(h * A * C, h * A * C + n_tried[h]):
            row = np.int64(tried[k])
            y[row - h * A * C] = row_value(
                pool_cell, pool_count, start[row], length[row], inverse[row], values, base, row, W, caps, h, weights,
                pi[row], tried_cell[k],
            )  # fmt: skip
        if move:
            mirror_step(logits, pi, y, inverse, entropy, untried, h, C, A, n, keep, eta)


@kernel(inline=True)
def primal_dual_step(core, settings, eta, tau, eps, weights, v, q, alpha):
    """pi_{t+1} and lam_{t+1} from the data of the episodes before t (Alg. 1, lines 4 to 7).

    ``weights``, ``v``, ``q`` (W,) and ``alpha`` (m,) are work; on return ``v`` holds the estimated values of pi_t at
    the initial distribution and ``alpha`` the thresholds used.
    """
    m = core.lam.size
    weights[:] = 0.0
    weights[0] = 1.0
    weights[1 : m + 1] = core.lam
    weights[m + 1] = tau
    evaluate_optimistic(core, settings, weights, q, 1.0 - eta * tau, eta, True)
    initial_value(core, settings, v, q)
    for i in range(m):
        alpha[i] = settings.thresholds[i]
        if np.isnan(alpha[i]):
            alpha[i] = core.alpha_sum[i] / max(core.alpha_count[0], 1.0)
        step = (1.0 - eta * tau) * core.lam[i] - eta * (v[1 + i] - eps[i] - alpha[i])
        core.lam[i] = min(max(step, 0.0), settings.dual_bound)


@kernel
def observe_primal_dual(core, settings, eta, tau, eps, episode, step, alpha, played):
    """One episode of a primal-dual learner: decide the next policy from the past, then add the data.

    ``played[0]`` counts the episode here, not in the caller: an interrupt may come between the two.
    """
    core, settings, eps, step, alpha = borrow(core), borrow(settings), borrow(eps), borrow(step), borrow(alpha)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    primal_dual_step(core, settings, eta, tau, eps, step[0], step[1], step[2], alpha)
    record(core, settings, states, actions, rewards, utilities, thresholds)
    played[0] += 1


@kernel
def record_only(core, settings, episode):
    """Add the data of one episode; the policy stays."""
    core, settings = borrow(core), borrow(settings)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    record(core, settings, states, actions, rewards, utilities, thresholds)


@kernel
def estimate(core, settings, step):
    """Evaluate the current policy on the current optimistic model; ``step[1]`` holds its estimated values."""
    core, settings, step = borrow(core), borrow(settings), borrow(step)
    step[0] = 0.0
    evaluate_optimistic(core, settings, step[0], step[2], 1.0, 0.0, False)
    initial_value(core, settings, step[1], step[2])
