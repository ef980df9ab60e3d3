"""What was seen, and the policy over it, as plain arrays for a file, and back.

What comes back decides where compiled loops read and write, and a file is input like any other: every number used as an
index is in range, every count agrees with every other (each episode visits one cell of each step, and leaves it for one
cell of the next), every policy is a distribution. A file that breaks a rule is refused before anything is made of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.kernels.lanes import TOGETHER
from flexdome.learners.seen.counts import OptimisticModel
from flexdome.learners.seen.kernels import Settings, set_all_means
from flexdome.learners.seen.tally import FIRST_POOL, Tally
from flexdome.learners.state import EXACT, LARGEST_SUM, ROUNDING, Arrays, Index, StateReader

__all__ = ["SeenInFile", "model_state", "place_seen", "read_seen", "restore_model", "seen_state"]

Bool = npt.NDArray[np.bool_]


def _visited_cells(model: Tally, n_cells: Index) -> Index:
    """The numbers of all cells, step after step."""
    return np.concatenate([h * model.C + np.arange(n, dtype=np.int64) for h, n in enumerate(n_cells)])


def _visited_rows(model: Tally, n_cells: Index) -> Index:
    """The rows of all cells: step after step, and within a step action after action."""
    A, C = model.shape[2], model.C
    steps = [(h * A + np.arange(A))[:, None] * C + np.arange(n) for h, n in enumerate(n_cells) if n > 0]
    return np.concatenate([np.zeros(0, dtype=np.int64), *(step.ravel() for step in steps)])


def seen_state(tally: Tally, known_p: bool = False) -> Arrays:
    """Everything that was seen, without the reserve and without what follows from the rest.

    Known transitions are the problem's, and where a row was never visited its successors are nobody's.
    """
    counts, A_C = tally.counts, tally.shape[2] * tally.C
    rows, cells = _visited_rows(tally, counts.n_cells), _visited_cells(tally, counts.n_cells)
    length = np.where(counts.n_visits[rows] > 0.0, counts.length[rows], 0).astype(np.int64)
    if known_p:
        length[:] = 0
    entries = np.repeat(counts.start[rows] - (np.cumsum(length) - length), length) + np.arange(length.sum())
    state: Arrays = {
        "n_cells": counts.n_cells.copy(),
        "state_of": counts.state_of.ravel()[cells],
        "n_tried": counts.n_tried.copy(),
        "tried": np.concatenate([counts.tried[h * A_C : h * A_C + n] for h, n in enumerate(counts.n_tried)]),
        "length": length,
        "pool_cell": counts.pool_cell[entries],
        "pool_count": counts.pool_count[entries],
        "n_visits": counts.n_visits[rows],
        "sum_r": counts.sum_r[rows],
        "sum_d": counts.sum_d[:, rows],
        "alpha_sum": counts.alpha_sum.copy(),
        "alpha_count": counts.alpha_count.copy(),
    }
    return {**state, "missing": counts.missing[:, rows]} if counts.missing.any() else state


def model_state(model: OptimisticModel, known_p: bool) -> Arrays:
    """Everything that was seen and decided."""
    core, policy = model.core, model.core.policy
    rows, cells = _visited_rows(model, core.counts.n_cells), _visited_cells(model, core.counts.n_cells)
    state = seen_state(model, known_p)
    state |= {name: getattr(policy, name)[rows] for name in ("logits", "pi")}
    state |= {name: getattr(policy, name)[cells] for name in ("entropy", "untried")}
    state |= {name: getattr(policy, name).copy() for name in ("lam", "plan")}
    if core.work.last.size and not known_p:
        state["last"] = core.work.last * (model.visits[-1] > 0.0)[..., None]
    return state


class SeenInFile(NamedTuple):
    """What a file says was seen, checked and not yet placed: ``n`` cells, and A rows for each."""

    rows: Index  # numbers of the rows
    cells: Index  # and of the cells
    step: Index  # (n,) of each cell
    row_step: Index  # and of each row
    cell_of_row: Index  # its place among the cells
    may: Bool  # whether the action of a row is allowed
    listed: Bool  # whether it is among the tried ones
    n_cells: Index
    state_of: Index
    n_visits: Float
    length: Index
    pool_cell: Index
    pool_count: Float
    tried: Index
    n_tried: Index
    sum_r: Float
    sum_d: Float
    missing: Float
    alpha_sum: Float
    alpha_count: Index


def read_seen(
    tally: Tally,
    read: StateReader,
    episode: int,
    allowed: Bool,
    *,
    revealed: bool = False,
    known_p: bool = False,
    chained: bool = True,
) -> SeenInFile:
    """Read what :func:`seen_state` gave; what does not fit together is refused.

    ``allowed`` is as kernels take it; ``chained`` says that what was seen at a step counts at that step only, so that
    episodes run through the counts.
    """
    H, S, A = tally.shape
    m, C = tally.counts.alpha_sum.size, tally.C
    n_cells = read.count("n_cells", (H,), 0, S)
    n, n_rows = int(n_cells.sum()), int(n_cells.sum()) * A
    n_visits = read.take("n_visits", (n_rows,), 0.0, EXACT)  # before anything of that size is made
    rows, cells = _visited_rows(tally, n_cells), _visited_cells(tally, n_cells)
    step = np.repeat(np.arange(H), n_cells)
    row_step = np.repeat(np.arange(H), n_cells * A)
    cell_of_row = np.searchsorted(cells, row_step * C + rows % C)

    state_of = read.count("state_of", (n,), 0, S - 1)
    if np.unique(step * S + state_of).size != n:
        raise ValidationError("state.state_of names a state twice in one step")
    read.agree("n_visits", n_visits == np.floor(n_visits), "must be whole")
    may = visited = np.ones(n_rows, dtype=bool)
    if allowed.size:
        row_state, row_action = state_of[cell_of_row], rows // C % A
        may = allowed[row_step, row_state, row_action]
        visited = may if chained else np.logical_or.reduce(allowed, axis=0)[row_state, row_action]
    read.agree("n_visits", visited | (n_visits == 0.0), "counts visits of an action that is not allowed")
    visits = np.bincount(cell_of_row, n_visits, minlength=n).astype(np.float64)
    if revealed:
        if (n_cells != S).any():
            raise ValidationError(f"state.n_cells must be {S} at every step: something is revealed of each state")
        read.agree("state_of", state_of == cells % C, "is not the state of its cell")
    elif chained:
        read.agree("n_visits", visits[cell_of_row] > 0, "belongs to a cell without visits")
    each_step = np.bincount(step, visits, minlength=H)
    if (chained and (each_step != each_step[0]).any()) or each_step.min() < episode:
        raise ValidationError(
            f"state.n_visits counts {each_step.min():.0f} to {each_step.max():.0f} visits in a step; "
            f"every step must have one in each of at least {episode} episodes"
        )

    length, pool_cell, pool_count = _read_successors(
        tally, read, n_cells, row_step, np.zeros(n_rows) if known_p else n_visits, visits, chained and not known_p
    )
    listed = np.ones(n_rows, dtype=bool) if revealed else n_visits > 0
    tried, n_tried = _read_tried(tally, read, rows, row_step, listed)

    sum_r, sum_d = read.take("sum_r", (n_rows,), 0, EXACT), read.take("sum_d", (m, n_rows), 0, EXACT)
    read.agree("sum_r", sum_r <= n_visits, "exceeds the number of visits")
    missing = np.zeros((m, n_rows))
    if read.has("missing"):  # a file has it where a sample was missing
        missing = read.take("missing", (m, n_rows), 0.0, EXACT, whole=True)
        read.agree("missing", missing <= n_visits, "exceeds the number of visits")
    read.agree("sum_d", sum_d <= n_visits - missing, "exceeds the number of visits with a sample")
    alpha_sum = read.take("alpha_sum", (m,), -LARGEST_SUM, LARGEST_SUM)
    alpha_count = read.count("alpha_count", (m,), 0, H * each_step[0])
    return SeenInFile(
        rows, cells, step, row_step, cell_of_row, may, listed, n_cells, state_of, n_visits, length, pool_cell,
        pool_count, tried, n_tried, sum_r, sum_d, missing, alpha_sum, alpha_count,
    )  # fmt: skip


def place_seen(tally: Tally, seen: SeenInFile, known_p: bool = False) -> None:
    """Take what was read into ``tally``, which has seen nothing."""
    counts, rows = tally.counts, seen.rows
    counts.n_cells[:], counts.n_tried[:] = seen.n_cells, seen.n_tried
    counts.state_of.ravel()[seen.cells] = seen.state_of
    counts.cell_of[seen.step, seen.state_of] = seen.cells % tally.C + 1
    _place_tried(tally, seen.tried, seen.n_tried)
    counts.n_visits[rows], counts.sum_r[rows], counts.sum_d[:, rows] = seen.n_visits, seen.sum_r, seen.sum_d
    counts.alpha_sum[:], counts.alpha_count[:] = seen.alpha_sum, seen.alpha_count
    if not known_p:
        _place_successors(tally, rows, seen.length, seen.pool_cell, seen.pool_count)
        counts.inverse[rows[seen.listed]] = 1.0 / np.maximum(seen.n_visits[seen.listed], 1.0)
    if seen.missing.any():
        tally.expect_missing()
        tally.counts.missing[:, rows] = seen.missing


def restore_model(
    model: OptimisticModel,
    settings: Settings,
    episode: int,
    state: Arrays,
    chained: bool = True,
    set_bases: Any = set_all_means,
) -> None:
    """Take back what :func:`model_state` gave; a state that does not fit together is refused and changes nothing.

    ``chained`` as in :func:`read_seen`; ``set_bases`` is the kernel that gives all rows the learner's estimates.
    """
    H = model.shape[0]
    read, core, m, counted = StateReader(state), model.core, model.core.policy.lam.size, not settings.known_p
    revealed, known_p = bool(settings.revealed), bool(settings.known_p)
    seen = read_seen(model, read, episode, settings.allowed, revealed=revealed, known_p=known_p, chained=chained)
    rows, cells, cell_of_row, n = seen.rows, seen.cells, seen.cell_of_row, seen.cells.size

    logits, pi = read.take("logits", rows.shape, -LARGEST_SUM, ROUNDING), read.take("pi", rows.shape, 0.0, 1.0)
    read.agree("pi", seen.may | (pi == 0.0), "plays an action that is not allowed")
    total = np.bincount(cell_of_row, pi, minlength=n)
    read.agree("pi", np.abs(total - 1.0)[cell_of_row] <= ROUNDING, "belongs to a policy that does not sum to one")
    read.agree("pi", np.abs(np.exp(np.maximum(logits, -700.0)) - pi) <= ROUNDING, "is not the exponential of its logit")
    entropy, untried = read.take("entropy", (n,), -1.0, np.inf), read.take("untried", (n,), -1.0, 2.0)
    exact = np.bincount(cell_of_row, -pi * logits, minlength=n)
    read.agree("entropy", np.abs(entropy - exact) <= ROUNDING, "is not the entropy of its policy")
    exact = np.bincount(cell_of_row, pi * ~seen.listed, minlength=n)
    read.agree("untried", np.abs(untried - exact) <= ROUNDING, "is not the probability of actions never tried")
    lam = read.take("lam", (m,), 0.0, settings.dual_bound)
    plan = read.take("plan", (model.W,), 0.0, LARGEST_SUM)
    last: Float | float = 0.0
    if core.work.last.size and counted:
        last = _read_last(model, read, seen.state_of[seen.step == H - 1], seen.n_visits[seen.row_step == H - 1])
    read.finish()

    if counted:
        core.work.last[:] = last
    place_seen(model, seen, known_p)
    if revealed and settings.even and counted:
        model.lead_evenly()
    core.policy.logits[rows], core.policy.pi[rows] = logits, pi
    core.policy.entropy[cells], core.policy.untried[cells] = entropy, untried
    core.policy.lam[:], core.policy.plan[:] = lam, plan
    set_bases(model.core, settings)


def _read_successors(
    tally: Tally,
    read: StateReader,
    n_cells: Index,
    row_step: Index,
    n_visits: Float,
    visits: Float,
    chained: bool,
) -> tuple[Index, Index, Float]:
    """Lengths of the lists, the cells in them and their counts: what left a cell arrived at the next step."""
    H, C = tally.shape[0], tally.C
    following = np.append(n_cells[1:], 0)[row_step]  # how many cells the next step has; none after the last
    length = read.count("length", n_visits.shape, 0, tally.shape[1])
    read.agree("length", length <= np.minimum(following, n_visits), "exceeds the cells or the visits there are")
    entries = (int(length.sum()),)
    cell, count = read.count("pool_cell", entries, 0, H * C - 1), read.take("pool_count", entries, 1.0, EXACT)
    read.agree("pool_count", count == np.floor(count), "must be whole")
    owner = np.repeat(np.arange(length.size), length)
    h, c = cell // C, cell % C
    good = (h == row_step[owner] + 1) & (c < following[owner])
    read.agree("pool_cell", good, "is not a visited cell of the next step")
    if np.unique(owner * (H * C) + cell).size != owner.size:
        raise ValidationError("state.pool_cell names a successor twice")
    left = np.bincount(owner, count, minlength=length.size)
    good = (left == n_visits) | (row_step == H - 1)
    read.agree("n_visits", good, "is not the number of times that a successor followed")
    first = np.cumsum(n_cells) - n_cells
    arrived = np.bincount(first[h] + c, count, minlength=visits.size)
    if chained and (arrived[n_cells[0] :] != visits[n_cells[0] :]).any():
        raise ValidationError("state.pool_count does not lead to each cell as often as it was visited")
    return length, cell, count


def _read_last(model: OptimisticModel, read: StateReader, states: Index, n_visits: Float) -> Float:
    """The transitions after the last step, one for each visit of it."""
    _, S, A = model.shape
    last = read.take("last", (S, A, S), 0.0, EXACT)
    read.agree("last", last == np.floor(last), "must be whole")
    visits = np.zeros((S, A))
    visits[states] = n_visits.reshape(A, states.size).T
    read.agree("last", last.sum(axis=-1) == visits, "does not sum to the visits of the last step")
    return last


def _read_tried(tally: Tally, read: StateReader, rows: Index, row_step: Index, listed: Bool) -> tuple[Index, Index]:
    """The rows with visits, in the order of their first one; all rows, where something is revealed."""
    H, _, A = tally.shape
    seen = rows[listed]
    n_tried = read.count("n_tried", (H,), 0, A * tally.C)
    if (n_tried != np.bincount(row_step[listed], minlength=H)).any():
        raise ValidationError("state.n_tried does not count the rows with visits")
    tried = read.count("tried", seen.shape, 0, H * A * tally.C - 1)
    if (np.sort(tried) != seen).any() or (tried // (A * tally.C) != np.repeat(np.arange(H), n_tried)).any():
        raise ValidationError("state.tried does not list the rows with visits, step after step")
    return tried, n_tried


def _place_tried(tally: Tally, tried: Index, n_tried: Index) -> None:
    A_C, end = tally.shape[2] * tally.C, 0
    for h, n in enumerate(n_tried):
        part = tried[end : end + n]
        end += n
        tally.counts.tried[h * A_C : h * A_C + n] = part
        tally.counts.tried_cell[h * A_C : h * A_C + n] = h * tally.C + part % tally.C


def _place_successors(tally: Tally, rows: Index, length: Index, cell: Index, count: Float) -> None:
    """The lists one after another, each with room up to the next multiple of four."""
    capacity = -(-length // TOGETHER) * TOGETHER
    starts = np.cumsum(capacity) - capacity
    used = int(capacity.sum())
    places = np.repeat(starts - (np.cumsum(length) - length), length) + np.arange(length.sum())
    pool_cell, pool_count = np.zeros(used + FIRST_POOL, dtype=np.int32), np.zeros(used + FIRST_POOL)
    pool_cell[places], pool_count[places] = cell, count
    counts = tally.counts
    counts.start[rows], counts.length[rows], counts.capacity[rows] = starts, length, capacity
    counts.pool[:] = used, int(capacity.max(initial=0))
    tally.counts = counts._replace(pool_cell=pool_cell, pool_count=pool_count)
    tally.reserve()
