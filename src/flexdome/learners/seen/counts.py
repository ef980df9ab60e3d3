"""The optimistic empirical model and the policy over it, as a learner holds them.

What was seen is a :class:`~flexdome.learners.seen.tally.Tally`. Where the problem reveals rewards, utilities or
transitions, memory follows what is revealed, which is something of every state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Problem
from flexdome.cmdp.mask import kernel_mask
from flexdome.cmdp.validation import Float
from flexdome.kernels.borrow import hold
from flexdome.kernels.lanes import BLOCK, TOGETHER
from flexdome.learners.seen.kernels import FORBIDDEN, Core, Counts, Policy, Settings, Work, set_all_means
from flexdome.learners.seen.tally import FIRST_POOL, Tally, _zeros

__all__ = ["OptimisticModel", "_zeros", "most_actions"]


def most_actions(problem: Problem) -> int:
    """The largest number of actions that are allowed in a state."""
    return problem.actions if problem.allowed is None else int(problem.allowed.sum(axis=-1).max())


class OptimisticModel(Tally):
    """Counts, empirical means, successors, policy and multipliers of one learner."""

    def __init__(self, problem: Problem, slips: bool = False) -> None:
        self._size(problem)
        (H, S, A), m, C = self.shape, problem.constraints, self.C
        self.W = W = -(-(m + 2) // BLOCK) * BLOCK
        rows, cells = H * A * C, H * C
        policy = Policy(
            logits=_zeros(rows),
            pi=_zeros(rows),
            entropy=_zeros(cells),
            untried=_zeros(cells),
            lam=_zeros(m),
            plan=_zeros(W),
        )
        work = Work(
            base=_zeros(rows * W),
            values=_zeros(cells * W),
            y=_zeros(A * C),
            last=_zeros((S, A, S) if slips else (0, 0, 0)),
            after=_zeros(S if slips else 0),
        )
        self.core = hold(Core(self._nothing(m), policy, work))
        self.revealed = any(part is not None for part in (problem.rewards, problem.utilities, problem.transitions))
        self._tidy = FIRST_POOL  # entries of the pool that were in use when it was last tidied
        self.reserve()

    @property
    def counts(self) -> Counts:
        """The arrays of what was seen."""
        return self.core.counts

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.core = self.core._replace(counts=counts)

    def settings(
        self, problem: Problem, dual_bound: float, even: bool = False, form: Any = None, off: bool | None = None
    ) -> Settings:
        """The constants of a learner on this model; ``off`` is what a switch is that is not on."""
        H, S, A = self.shape
        m = problem.constraints
        caps = np.zeros((H, self.W))
        remaining = np.arange(H, 0, -1.0)
        caps[:, : m + 1] = remaining[:, None]
        caps[:, m + 1] = remaining * np.log(most_actions(problem))
        starts = np.arange(S) if problem.initial_estimated else np.flatnonzero(problem.initial)
        known_p = problem.transitions is not None
        revealed = known_p or problem.rewards is not None or problem.utilities is not None
        settings = Settings(
            A=A,
            C=self.C,
            W=self.W,
            S=S,
            wide=self.W > BLOCK or off,
            even=even or off,
            caps=caps.ravel(),
            dual_bound=dual_bound,
            thresholds=np.array(problem.thresholds),
            starts=starts,
            start_p=problem.initial[starts],
            known=self._known_means(problem),
            known_p=known_p if revealed else off,  # looked at when kernels run, where anything is revealed
            revealed=revealed or off,
            masked=problem.allowed is not None,  # looked at once a step: not worth kernels of its own
            allowed=kernel_mask(problem.allowed),
            form=form,
        )
        return hold(settings)

    def _known_means(self, problem: Problem) -> Float:
        """(1 + m, rows) with NaN for what is not revealed, or of size 0."""
        H, S, A = self.shape
        m = problem.constraints
        if problem.rewards is None and problem.utilities is None:
            return np.zeros((1 + m, 0))
        known = np.full((1 + m, H, A, self.C), np.nan)
        if problem.rewards is not None:
            known[0, ..., :S] = problem.rewards.transpose(0, 2, 1)
        if problem.utilities is not None:
            known[1:, ..., :S] = problem.utilities.transpose(0, 1, 3, 2)
        return known.reshape(1 + m, -1)

    def reveal(self, problem: Problem, settings: Settings, set_bases: Any = set_all_means) -> None:
        """Open every cell and list every row, where something is revealed (:mod:`flexdome.learners.seen.kernels`).

        ``set_bases`` is the kernel that gives all rows the learner's estimates.
        """
        if not settings.revealed:
            return
        core, C = self.core, self.C
        H, S, A = self.shape
        core.counts.cell_of[:] = np.arange(1, S + 1)
        core.counts.state_of[:, :S] = np.arange(S)
        core.counts.n_cells[:], core.counts.n_tried[:] = S, A * S
        for h in range(H):
            rows, first = self.rows(h), h * A * C
            core.counts.tried[first : first + A * S] = rows
            core.counts.tried_cell[first : first + A * S] = h * C + rows % C
            core.counts.inverse[rows], core.policy.logits[rows], core.policy.pi[rows] = 1.0, -np.log(A), 1.0 / A
            core.policy.entropy[h * C : h * C + S] = np.log(A)
            if problem.allowed is not None:
                allowed = problem.allowed[h].T  # (A, S), as the rows are
                n = allowed.sum(axis=0)
                core.policy.logits[rows] = np.where(allowed, -np.log(n), FORBIDDEN).ravel()
                core.policy.pi[rows] = np.where(allowed, 1.0 / n, 0.0).ravel()
                core.policy.entropy[h * C : h * C + S] = np.log(n)
        if problem.transitions is not None:
            self._know_transitions(problem.transitions)
        elif settings.even:
            self.lead_evenly()
        set_bases(self.core, settings)

    def rows(self, h: int) -> npt.NDArray[np.int64]:
        """(A * S,) the rows of step h, action after action."""
        _, S, A = self.shape
        numbers: npt.NDArray[np.int64] = ((h * A + np.arange(A))[:, None] * self.C + np.arange(S)).ravel()
        return numbers

    def _know_transitions(self, p: Float) -> None:
        """The successors of every row, with their probabilities in the place of counts."""
        core = self.core
        H, S, A = self.shape
        if core.work.last.size:
            core.work.last[:] = p[H - 1]
        for h in range(H - 1):
            by_row = p[h].transpose(1, 0, 2).reshape(A * S, S)
            row, following = np.nonzero(by_row)
            length = np.bincount(row, minlength=A * S)
            room = -(-length // TOGETHER) * TOGETHER
            start = int(core.counts.pool[0]) + np.cumsum(room) - room
            places = start[row] + np.arange(row.size) - (np.cumsum(length) - length)[row]
            self._take(int(room.sum()))
            self.core.counts.pool_cell[places] = (h + 1) * self.C + following
            self.core.counts.pool_count[places] = by_row[row, following]
            rows = self.rows(h)
            core.counts.start[rows], core.counts.length[rows], core.counts.capacity[rows] = start, length, room
        core.counts.pool[1] = 0  # no list will grow
        self.reserve()

    def lead_evenly(self) -> None:
        """One list of all states for each step but the last, and the rows never visited that lead there."""
        H, S, A = self.shape
        core = self.core
        for h in range(H):
            rows = self.rows(h)
            rows = rows[core.counts.n_visits[rows] == 0.0]
            if h + 1 < H:
                start = int(core.counts.pool[0])
                self._take(-(-S // TOGETHER) * TOGETHER)
                self.core.counts.pool_cell[start : start + S] = (h + 1) * self.C + np.arange(S)
                self.core.counts.pool_count[start : start + S] = 1.0 / S
                core.counts.start[rows], core.counts.length[rows], core.counts.capacity[rows] = start, S, 0
            elif core.work.last.size:
                core.work.last[rows % self.C, rows // self.C % A] = 1.0 / S
        self.reserve()

    def _take(self, room: int) -> None:
        """The next ``room`` entries of the pool, which is made larger where they are not there."""
        core = self.core
        used = int(core.counts.pool[0]) + room
        core.counts.pool[0] = used
        if used > core.counts.pool_cell.size:
            self._enlarge(2 * used, core.counts.pool_cell.size)

    def tidy(self) -> None:
        """Lay the lists of successors out in the order in which a sweep reads them, without what lists moved from left.

        For a run of many episodes: each reads every list. Worth a pass once a third of the pool is left over.
        """
        counts = self.core.counts
        if 2 * int(counts.pool[0]) <= 3 * self._tidy or self.revealed:
            return
        A_C = self.shape[2] * self.C
        steps = [counts.tried[h * A_C : h * A_C + n] for h, n in enumerate(counts.n_tried)]
        rows = np.concatenate(steps[::-1]).astype(np.int64)
        length = counts.length[rows].astype(np.int64)
        capacity = -(-length // TOGETHER) * TOGETHER
        start, used = np.cumsum(capacity) - capacity, int(capacity.sum())
        within = np.arange(used) - np.repeat(start, capacity)
        places = np.repeat(counts.start[rows], capacity) + within
        counts.pool_cell[:used], counts.pool_count[:used] = counts.pool_cell[places], counts.pool_count[places]
        counts.pool_cell[used : counts.pool[0]], counts.pool_count[used : counts.pool[0]] = 0, 0.0
        counts.start[rows], counts.capacity[rows] = start, capacity
        counts.pool[0] = self._tidy = used
