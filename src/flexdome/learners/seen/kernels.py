"""The empirical model: what was seen, and where the policy over it is kept.

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
ones: with n = max(N, 1), a known mean in its base, and no successors while N = 0. Known transitions are
successors with probabilities in the place of counts and 1 in the place of 1 / N; they are never counted. With
``even`` the rows with N = 0 of a step share one list of all states, which a row drops on its first visit.

**What is forbidden.** A row of an action that is not allowed has pi = 0 and the logit ``FORBIDDEN``, and keeps them; it
is never visited, so that it is never among the tried ones (but where something is revealed, when all rows are).

**What is missing.** A utility that is NaN was not sampled: the visit counts for the transitions, the reward and the
other utilities, and the mean of this one is over the visits with a sample.
"""

from typing import Any, NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER

__all__ = [
    "FORBIDDEN",
    "Core",
    "Counts",
    "Policy",
    "Settings",
    "Work",
    "add_outcome",
    "clear_forbidden",
    "count",
    "count_episode",
    "count_visit",
    "forbid",
    "full",
    "n_allowed",
    "n_missing",
    "new_cell",
    "record",
    "row_at",
    "row_of",
    "set_all_means",
    "set_means",
    "spread",
]


FORBIDDEN = -700.0  # the logit of an action that is not allowed; its exponential adds nothing to one


class Counts(NamedTuple):
    """What was seen. Arrays are changed in place."""

    cell_of: np.ndarray  # (H, S) int32, one more than the cell of a state, 0 before its first visit
    state_of: np.ndarray  # (H, C) int32
    n_cells: np.ndarray  # (H,)
    n_visits: np.ndarray  # (rows,) N
    inverse: np.ndarray  # (rows,) 1 / N, 0 where N = 0; what the successors' numbers are to be multiplied with
    sum_r: np.ndarray  # (rows,)
    sum_d: np.ndarray  # (m, rows)
    start: np.ndarray  # (rows,) where the row's successors begin in the pool
    length: np.ndarray  # (rows,) how many there are
    capacity: np.ndarray  # (rows,) for how many there is room
    pool_cell: np.ndarray  # int32, cell numbers
    pool_count: np.ndarray  # float64
    pool: np.ndarray  # (2,) entries used, largest capacity of a row
    tried: np.ndarray  # (rows,) int32, the rows with N > 0, step after step in first-visit order
    tried_cell: np.ndarray  # (rows,) int32, their cells
    n_tried: np.ndarray  # (H,) how many at each step (those of step h begin at h A C)
    alpha_sum: np.ndarray  # (m,)
    alpha_count: np.ndarray  # (m,) threshold samples that count
    missing: np.ndarray  # (m, rows) visits without a sample of the utility; of size 0 until there is one


class Policy(NamedTuple):
    """What was decided. Arrays are changed in place."""

    logits: np.ndarray  # (rows,) log pi
    pi: np.ndarray  # (rows,)
    entropy: np.ndarray  # (cells,) -sum_a pi log pi
    untried: np.ndarray  # (cells,) probability of the actions with N = 0
    lam: np.ndarray  # (m,)
    plan: np.ndarray  # (W,) estimated values of a greedy learner's policy, as they were when it was planned


class Work(NamedTuple):
    """What follows from the rest, and room to work in. Arrays are changed in place."""

    base: np.ndarray  # (rows * W,) means of reward and utilities, with what a learner adds to them
    values: np.ndarray  # (cells * W,) the last evaluation
    y: np.ndarray  # (A * C,) the composite Q of one step
    last: np.ndarray  # (S, A, S) transitions after the last step, where a learner needs them, else of size 0
    after: np.ndarray  # (S,) the values after the last step, or of size 0


class Core(NamedTuple):
    """Everything a learner has seen and decided."""

    counts: Counts
    policy: Policy
    work: Work


class Settings(NamedTuple):
    """What does not change from episode to episode.

    A switch is True or off. Where off is None, kernels are compiled for what is on (:mod:`flexdome.kernels.switches`);
    where it is False, they look when they run, and are compiled once.
    """

    A: int
    C: int
    W: int
    S: int
    wide: bool | None  # W is more than one block
    even: bool | None  # an action never tried leads to every state alike, instead of nowhere
    caps: np.ndarray  # (H * W,) truncation of each value at each step
    dual_bound: float
    thresholds: np.ndarray  # (m,) known ones, NaN where estimated
    starts: np.ndarray  # first states of positive probability
    start_p: np.ndarray  # their probabilities
    known: np.ndarray  # (1 + m, rows) known means of reward and utilities, NaN where not known; of size 0 where none is
    known_p: bool | None  # the transitions are known
    revealed: bool | None  # something is known, so every cell and every row is there from the start
    masked: bool  # some actions are not allowed
    allowed: np.ndarray  # (H, S, A) bool, of size 0 where all are
    form: Any = None  # what else a family of learners sets


@kernel(inline="late")
def n_allowed(settings, h, s):
    """How many actions are allowed in state s at step h."""
    n = 0
    for a in range(settings.A):
        if settings.allowed[h, s, a]:
            n += 1
    return n


@kernel(inline="late")
def forbid(core, settings, h):
    """Before a step of a policy: Q of the actions that are not allowed, low enough to weigh nothing."""
    A, C, counts, y = settings.A, settings.C, core.counts, core.work.y
    for c in range(counts.n_cells[h]):
        for a in range(A):
            if not settings.allowed[h, counts.state_of[h, c], a]:
                y[a * C + c] = -1e300


@kernel(inline="late")
def clear_forbidden(core, settings, h):
    """After it: nothing at all, and the entropy and the untried share of the actions that are allowed."""
    A, C, counts, policy = settings.A, settings.C, core.counts, core.policy
    for c in range(counts.n_cells[h]):
        entropy, untried = 0.0, 0.0
        for a in range(A):
            row = (h * A + a) * C + c
            if not settings.allowed[h, counts.state_of[h, c], a]:
                policy.pi[row], policy.logits[row] = 0.0, FORBIDDEN
            else:
                entropy -= policy.pi[row] * policy.logits[row]
                untried += policy.pi[row] if counts.inverse[row] == 0.0 else 0.0
        policy.entropy[h * C + c], policy.untried[h * C + c] = entropy, untried


@kernel
def open_cell(counts, h, s):
    """Give (h, s) a cell on its first visit."""
    c = counts.n_cells[h]
    counts.n_cells[h] += 1
    counts.cell_of[h, s] = c + 1
    counts.state_of[h, c] = s
    return c


@kernel
def new_cell(core, settings, h, s):
    """Make the cell of (h, s) on its first visit: uniform policy, nothing known of any action."""
    policy, work = core.policy, core.work
    A, C, W = settings.A, settings.C, settings.W
    c = open_cell(core.counts, h, s)
    for j in range(W):
        work.values[(h * C + c) * W + j] = 0.0
    n = A
    if settings.masked:
        n = n_allowed(settings, h, s)
    policy.entropy[h * C + c] = np.log(n)
    policy.untried[h * C + c] = 1.0
    for a in range(A):
        row = (h * A + a) * C + c
        policy.logits[row] = -np.log(n)
        policy.pi[row] = 1.0 / n
        if settings.masked and not settings.allowed[h, s, a]:
            policy.logits[row], policy.pi[row] = FORBIDDEN, 0.0
    return c


@kernel
def append_successor(counts, row, cell):
    """Add ``cell`` to the successors of ``row``, seen once."""
    start, n = counts.start[row], counts.length[row]
    if n == counts.capacity[row]:  # move the list to the end of the pool, with twice the room
        room = max(2 * n, TOGETHER)
        end = counts.pool[0]
        for k in range(n):
            counts.pool_cell[end + k] = counts.pool_cell[start + k]
            counts.pool_count[end + k] = counts.pool_count[start + k]
        counts.start[row] = end
        counts.capacity[row] = room
        counts.pool[0] = end + room
        counts.pool[1] = max(counts.pool[1], room)
        start = end
    counts.pool_cell[start + n] = cell
    counts.pool_count[start + n] = 1.0
    counts.length[row] = n + 1


@kernel(inline=True)
def full(counts):
    """Whether the pool of successors may have no room for one more episode."""
    return counts.pool[0] + counts.n_cells.size * max(2 * counts.pool[1], TOGETHER) > counts.pool_cell.size


@kernel(inline="late")
def list_row(counts, h, row, cell, first):
    """List a row on its first visit; ``first`` is where the list of step h begins."""
    counts.tried[first + counts.n_tried[h]] = row
    counts.tried_cell[first + counts.n_tried[h]] = cell
    counts.n_tried[h] += 1


@kernel(inline="late")
def count_successor(counts, row, cell):
    """``cell`` followed ``row`` once more."""
    for k in range(counts.start[row], counts.start[row] + counts.length[row]):
        if counts.pool_cell[k] == cell:
            counts.pool_count[k] += 1.0
            return
    append_successor(counts, row, cell)


@kernel(inline=True)
def count_visit(core, settings, h, c, a, following):
    """One visit of action ``a`` in cell c of step h, with cell ``following`` of the next step after it (or < 0: none).

    The row comes back.
    """
    counts, policy = core.counts, core.policy
    A, C = settings.A, settings.C
    row = (h * A + a) * C + c
    if counts.n_visits[row] == 0.0:
        if not settings.revealed:
            list_row(counts, h, row, h * C + c, h * A * C)
            policy.untried[h * C + c] -= policy.pi[row]
        elif settings.even and not settings.known_p:  # no longer every state alike
            counts.start[row], counts.length[row] = 0, 0
    counts.n_visits[row] += 1.0
    if settings.known_p:
        return row
    counts.inverse[row] = 1.0 / counts.n_visits[row]
    if following >= 0:
        count_successor(counts, row, (h + 1) * C + following)
    return row


@kernel(inline=True)
def count_thresholds(alpha_sum, alpha_count, thresholds):
    """Add an episode's threshold samples, (m, H) or of size 0; of a threshold that is known there need be none."""
    for i in range(thresholds.shape[0]):
        for h in range(thresholds.shape[1]):
            if not np.isnan(thresholds[i, h]):
                alpha_sum[i] += thresholds[i, h]
                alpha_count[i] += 1.0


@kernel(inline="late")
def n_missing(counts, i, row):
    """How many visits of a row came without a sample of utility i."""
    return counts.missing[i, row] if counts.missing.size > 0 else 0.0


@kernel(inline="late")
def set_means(core, settings, row):
    """r^ and d^ of a listed row, or what is known of them."""
    counts, policy, work = core.counts, core.policy, core.work
    W, m, n = settings.W, policy.lam.size, max(counts.n_visits[row], 1.0)
    for j in range(1 + m):
        total = counts.sum_r[row] if j == 0 else counts.sum_d[j - 1, row]
        mean = total / n if settings.revealed else total * counts.inverse[row]
        if j > 0 and n_missing(counts, j - 1, row) > 0.0:
            mean = total / max(n - n_missing(counts, j - 1, row), 1.0)
        if settings.known.size > 0 and not np.isnan(settings.known[j, row]):
            mean = settings.known[j, row]
        work.base[row * W + j] = mean
    work.base[row * W + 1 + m] = 0.0


@kernel
def set_all_means(core, settings):
    """:func:`set_means` for every listed row: what is not stored in files."""
    counts = core.counts
    A_C = settings.A * settings.C
    for h in range(counts.n_cells.size):
        for k in range(h * A_C, h * A_C + counts.n_tried[h]):
            set_means(core, settings, np.int64(counts.tried[k]))


@kernel(inline=True)
def add_sums(counts, row, h, rewards, utilities):
    """Reward and utilities of step h, seen in ``row``."""
    counts.sum_r[row] += rewards[h]
    for i in range(counts.alpha_sum.size):
        if counts.missing.size > 0 and np.isnan(utilities[i, h]):
            counts.missing[i, row] += 1.0
        else:
            counts.sum_d[i, row] += utilities[i, h]


@kernel(inline=True)
def add_outcome(core, settings, row, h, rewards, utilities):
    """Reward and utilities of step h, seen in ``row``, and its means."""
    add_sums(core.counts, row, h, rewards, utilities)
    set_means(core, settings, row)


@kernel(inline=True)
def count_episode(core, settings, states, actions, rewards, utilities, thresholds):
    """Add one episode's data. ``thresholds`` is (m, H), or of size 0 where none are observed."""
    counts = core.counts
    H, cell_of = actions.size, counts.cell_of
    c = np.int64(cell_of[0, states[0]]) - 1
    if c < 0:
        c = new_cell(core, settings, np.int64(0), states[0])  # a literal 0 would be compiled for by itself
    for h in range(H):
        following = np.int64(-1)
        if h + 1 < H:
            following = np.int64(cell_of[h + 1, states[h + 1]]) - 1
            if following < 0:
                following = new_cell(core, settings, h + 1, states[h + 1])
        row = count_visit(core, settings, h, c, actions[h], following)
        add_sums(counts, row, h, rewards, utilities)
        c = following
    count_thresholds(counts.alpha_sum, counts.alpha_count, thresholds)


@kernel(inline=True)
def row_of(core, settings, h, s, a):
    """The row of action a in a state that was visited at step h."""
    return (h * settings.A + a) * settings.C + np.int64(core.counts.cell_of[h, s]) - 1


@kernel(inline=True)
def row_at(counts, h, s, a):
    """:func:`row_of` where there is nothing but counts."""
    H, C = counts.state_of.shape
    return h * (counts.n_visits.size // H) + a * C + np.int64(counts.cell_of[h, s]) - 1


@kernel(inline="late")
def record(core, settings, states, actions, rewards, utilities, thresholds):
    """Add one episode's data, and the means of its rows."""
    count_episode(core, settings, states, actions, rewards, utilities, thresholds)
    for h in range(actions.size):
        set_means(core, settings, row_of(core, settings, h, states[h], actions[h]))


@kernel
def count(counts, states, actions, rewards, utilities, thresholds):
    """Add one episode's data where there is nothing but counts; ``thresholds`` as in :func:`count_episode`."""
    H, C = counts.state_of.shape
    A, cell_of = counts.n_visits.size // (H * C), counts.cell_of
    c = np.int64(cell_of[0, states[0]]) - 1
    if c < 0:
        c = open_cell(counts, np.int64(0), states[0])
    for h in range(H):
        row = (h * A + actions[h]) * C + c
        if counts.n_visits[row] == 0.0:
            list_row(counts, h, row, h * C + c, h * A * C)
        counts.n_visits[row] += 1.0
        counts.inverse[row] = 1.0 / counts.n_visits[row]
        add_sums(counts, row, h, rewards, utilities)
        if h + 1 < H:
            c = np.int64(cell_of[h + 1, states[h + 1]]) - 1
            if c < 0:
                c = open_cell(counts, h + 1, states[h + 1])
            count_successor(counts, row, (h + 1) * C + c)
    count_thresholds(counts.alpha_sum, counts.alpha_count, thresholds)


@kernel
def spread(counts, visits, samples, sums, successors, counted, shares):
    """What was seen, row after row, into arrays of zeros (H, S, A), twice (1 + m, H, S, A) and (H, S, A, S).

    What followed is left out where it is not ``counted``; with ``shares`` it is p^ = counts / N.
    """
    H, C = counts.state_of.shape
    A, m = visits.shape[2], counts.alpha_sum.size
    for h in range(H):
        for c in range(counts.n_cells[h]):
            s = counts.state_of[h, c]
            for a in range(A):
                row = (h * A + a) * C + c
                n = counts.n_visits[row]
                if n == 0.0:
                    continue
                visits[h, s, a] = n
                samples[0, h, s, a] = n
                sums[0, h, s, a] = counts.sum_r[row]
                for i in range(m):
                    samples[1 + i, h, s, a] = n - n_missing(counts, i, row)
                    sums[1 + i, h, s, a] = counts.sum_d[i, row]
                if counted and h + 1 < H:
                    for k in range(counts.start[row], counts.start[row] + counts.length[row]):
                        following = counts.state_of[h + 1, counts.pool_cell[k] - (h + 1) * C]
                        successors[h, s, a, following] = counts.pool_count[k] / n if shares else counts.pool_count[k]
