"""The optimistic empirical model: what was seen, with its bonuses.

**What is stored.** A *cell* is a visited pair (h, s); cells of a step are numbered in the order of their first visit.
A *row* is a cell with an action. The empirical transitions of a row are the list of the cells that followed it, with
counts, in first-visit order. Cells never visited need no work: all their actions look alike, so their policy stays
uniform and their value is a closed form, and the empirical model never leads there. Cost and memory follow what has
been seen.

**Layout.** With C the capacity for cells of a step (a multiple of eight), cell c of step h has the number h C + c and
its action a the row (h A + a) C + c: the policies of neighbouring cells are neighbours, which is what
:func:`~flexdome.kernels.lanes.mirror_step` wants. The values of a cell are W neighbouring numbers (reward, utilities,
entropy, padding), which is what :func:`~flexdome.kernels.lanes.row_value` wants.

**What is known.** Where a problem reveals rewards, utilities or transitions, the actions of a state never visited do
differ. Every cell is then there from the start, the cell of a state has its number, and every row is among the tried
ones: with n = max(N, 1) in its bonus, a known mean in its base, and no successors while N = 0. Known transitions are
successors with probabilities in the place of counts and 1 in the place of 1 / N; they are never counted. With
``spread`` the rows with N = 0 of a step share one list of all states, which a row drops on its first visit.
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER

__all__ = [
    "ANYTIME",
    "ROOT",
    "VARIANCE",
    "Core",
    "Settings",
    "add_outcome",
    "count_thresholds",
    "count_visit",
    "new_cell",
    "record",
    "record_only",
    "set_all_bases",
    "set_base",
    "unvisited",
    "width",
]


class Core(NamedTuple):
    """Everything a learner has seen and decided. Arrays are changed in place."""

    cell_of: np.ndarray  # (H, S) int32, one more than the cell of a state, 0 before its first visit
    state_of: np.ndarray  # (H, C) int32
    n_cells: np.ndarray  # (H,)
    n_visits: np.ndarray  # (rows,) N
    inverse: np.ndarray  # (rows,) 1 / N, 0 where N = 0; what the successors' numbers are to be multiplied with
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
    alpha_count: np.ndarray  # (m,) threshold samples that count
    last: np.ndarray  # (S, A, S) transitions after the last step, where the slips need them, else of size 0
    after: np.ndarray  # (S,) work: the values after the last step, or of size 0


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
    latest: bool  # a threshold is estimated by the last episode's samples alone, instead of all
    slips: bool  # the entropy is averaged with pi^2, and added once more after the last step (with joint and spread)
    greedy: bool  # plan by dynamic programming after each episode, instead of mirror steps
    caps: np.ndarray  # (H * W,) truncation of each value at each step
    dual_bound: float
    thresholds: np.ndarray  # (m,) known ones, NaN where estimated
    starts: np.ndarray  # first states of positive probability
    start_p: np.ndarray  # their probabilities
    known: np.ndarray  # (1 + m, rows) known means of reward and utilities, NaN where not known; of size 0 where none is
    known_p: bool  # the transitions are known; the coefficients of their bonus are 0
    revealed: bool  # something is known, so every cell and every row is there from the start


ROOT, VARIANCE, ANYTIME = 0, 1, 2


@kernel(inline=True)
def width(settings, n, spread, sure):
    """The bonus phi of reward and utilities after n >= 1 visits.

    ROOT: (b_0 + b_1) / sqrt(n). VARIANCE: b_0 / sqrt(n) + b_1 spread / sqrt(n) + b_3 / n with ``spread`` the sum over
    successors of sqrt(p (1 - p)). ANYTIME: b_0 (phi spread + 5 phi^2), phi^2 = (2 log log max(2n, e) + b_1) / n, with
    ``spread`` the sum of sqrt(p). With ``sure`` the mean is known and only the part of the transitions is left:
    without b_0 in the first two, and all of the third.
    """
    bonus = settings.bonus
    scale = np.sqrt(1.0 / n)
    own = 0.0 if sure else bonus[0]
    if settings.kind == ROOT:
        return own * scale + bonus[1] * scale
    if settings.kind == VARIANCE:
        return own * scale + bonus[1] * spread * scale + bonus[3] / n
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
    phi = width(settings, 1.0, np.sqrt(float(settings.S)) if settings.kind == ANYTIME else 0.0, False)
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


@kernel(inline="late")
def set_known_base(core, settings, row, n, spread, phi):
    """:func:`set_base` where something is known; n = max(N, 1).

    A mean that is known has no bonus of its own. With full optimism at N = 0, what is not known of a mean counts as 1,
    what follows as the largest value there is; where the transitions are known, nothing of what follows is unknown.
    """
    W, m, A_C = settings.W, core.lam.size, settings.A * settings.C
    following = float(core.n_cells.size - row // A_C - 1)  # the largest value after this step
    blind = settings.optimistic and core.n_visits[row] == 0.0
    rest = width(settings, n, spread, True)
    if blind:
        rest = 0.0 if settings.known_p else following
    for j in range(1 + m):
        mean = settings.known[j, row] if settings.known.size > 0 else np.nan
        if not np.isnan(mean):
            core.base[row * W + j] = mean + rest
        elif blind:
            core.base[row * W + j] = 1.0 + rest
        else:
            core.base[row * W + j] = (core.sum_r[row] if j == 0 else core.sum_d[j - 1, row]) / n + phi
    if blind and not settings.known_p:
        core.base[row * W + 1 + m] = settings.caps[row // A_C * W + 1 + m]
    else:
        core.base[row * W + 1 + m] = settings.bonus[2] * np.sqrt(1.0 / n)


@kernel(inline=True)
def set_base(core, settings, row):
    """r-bar = r^ + phi, d-bar = d^ + phi, and phi_p log A for the entropy (eq. 6 of the paper), of a tried row."""
    W, m = settings.W, core.lam.size
    inverse, base, pool_count = core.inverse, core.base, core.pool_count
    spread = 0.0
    if settings.kind == ANYTIME and core.n_visits[row] == 0.0:
        spread = np.sqrt(float(settings.S))
    elif settings.kind != ROOT and core.n_visits[row] > 0.0 and not settings.known_p:
        if settings.slips and row // (settings.A * settings.C) + 1 == core.n_cells.size:
            s, a = core.state_of[core.n_cells.size - 1, row % settings.C], row // settings.C % settings.A
            for following in range(settings.S):
                spread += np.sqrt(core.last[s, a, following] * inverse[row])
        for k in range(core.start[row], core.start[row] + core.length[row]):
            share = pool_count[k] * inverse[row]
            spread += np.sqrt(share * (1.0 - share) if settings.kind == VARIANCE else share)
    n = max(core.n_visits[row], 1.0)
    phi = width(settings, n, spread, False)
    if settings.revealed:
        set_known_base(core, settings, row, n, spread, phi)
    else:
        base[row * W] = core.sum_r[row] * inverse[row] + phi
        for i in range(m):
            base[row * W + 1 + i] = core.sum_d[i, row] * inverse[row] + phi
        base[row * W + 1 + m] = settings.bonus[2] * np.sqrt(inverse[row])


@kernel
def set_all_bases(core, settings):
    """:func:`set_base` for every tried row: what is not stored in files."""
    core, settings = borrow(core), borrow(settings)
    A_C = settings.A * settings.C
    for h in range(core.n_cells.size):
        for k in range(h * A_C, h * A_C + core.n_tried[h]):
            set_base(core, settings, np.int64(core.tried[k]))


@kernel(inline=True)
def count_visit(core, settings, h, c, a, following):
    """One visit of action ``a`` in cell c of step h, with cell ``following`` of the next step after it (or < 0: none).

    The row comes back.
    """
    A, C = settings.A, settings.C
    row = (h * A + a) * C + c
    if core.n_visits[row] == 0.0:
        if not settings.revealed:
            core.tried[h * A * C + core.n_tried[h]] = row
            core.tried_cell[h * A * C + core.n_tried[h]] = h * C + c
            core.n_tried[h] += 1
            core.untried[h * C + c] -= core.pi[row]
        elif settings.spread and not settings.known_p:  # no longer every state alike
            core.start[row], core.length[row] = 0, 0
    core.n_visits[row] += 1.0
    if settings.known_p:
        return row
    core.inverse[row] = 1.0 / core.n_visits[row]
    if following >= 0:
        cell = (h + 1) * C + following
        known = False
        for k in range(core.start[row], core.start[row] + core.length[row]):
            if core.pool_cell[k] == cell:
                core.pool_count[k] += 1.0
                known = True
                break
        if not known:
            append_successor(core, row, cell)
    return row


@kernel(inline=True)
def add_outcome(core, settings, row, h, rewards, utilities):
    """Reward and utilities of step h, seen in ``row``."""
    core.sum_r[row] += rewards[h]
    for i in range(core.lam.size):
        core.sum_d[i, row] += utilities[i, h]
    set_base(core, settings, row)


@kernel(inline=True)
def count_thresholds(alpha_sum, alpha_count, thresholds):
    """Add an episode's threshold samples, (m, H) or of size 0; of a threshold that is known there need be none."""
    for i in range(thresholds.shape[0]):
        for h in range(thresholds.shape[1]):
            if not np.isnan(thresholds[i, h]):
                alpha_sum[i] += thresholds[i, h]
                alpha_count[i] += 1.0


@kernel(inline="late")
def record(core, settings, states, actions, rewards, utilities, thresholds):
    """Add one episode's data (Alg. 1, line 8). ``thresholds`` is (m, H), or of size 0 where none are observed."""
    H, cell_of = actions.size, core.cell_of
    c = np.int64(cell_of[0, states[0]]) - 1
    if c < 0:
        c = new_cell(core, settings, 0, states[0])
    for h in range(H):
        following = np.int64(-1)
        if h + 1 < H:
            following = np.int64(cell_of[h + 1, states[h + 1]]) - 1
            if following < 0:
                following = new_cell(core, settings, h + 1, states[h + 1])
        row = count_visit(core, settings, h, c, actions[h], following)
        if settings.slips and not settings.known_p and h + 1 == H:
            if core.n_visits[row] == 1.0:  # every state alike until now, where something is known
                core.last[states[h], actions[h]] = 0.0
            core.last[states[h], actions[h], states[h + 1]] += 1.0
        add_outcome(core, settings, row, h, rewards, utilities)
        c = following
    if settings.latest and thresholds.size > 0:
        core.alpha_sum[:] = 0.0
        core.alpha_count[:] = 0.0
    count_thresholds(core.alpha_sum, core.alpha_count, thresholds)


@kernel
def record_only(core, settings, episode):
    """Add the data of one episode; the policy stays."""
    core, settings = borrow(core), borrow(settings)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    record(core, settings, states, actions, rewards, utilities, thresholds)
