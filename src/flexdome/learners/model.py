"""The optimistic empirical model and the policy over it, as a learner holds them.

The arrays and their layout are described in :mod:`flexdome.kernels.optimistic`. Capacity for every state is reserved
but not touched: memory follows what has been visited.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.errors import FileFormatError
from flexdome.kernels.lanes import BLOCK, LANES, TOGETHER
from flexdome.kernels.optimistic import Core, Settings

__all__ = ["OptimisticModel"]

Arrays = dict[str, npt.NDArray[Any]]
FIRST_POOL = 1024


class OptimisticModel:
    """Counts, empirical means, successors, policy and multipliers of one learner."""

    def __init__(self, problem: Problem) -> None:
        S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
        self.shape = H, S, A
        self.C = -(-S // LANES) * LANES
        self.W = -(-(m + 2) // BLOCK) * BLOCK
        C, W = self.C, self.W
        rows, cells = H * A * C, H * C
        whole, index = np.int64, np.int32
        self.core = Core(
            cell_of=np.full((H, S), -1, dtype=index),
            state_of=np.zeros((H, C), dtype=index),
            n_cells=np.zeros(H, dtype=whole),
            n_visits=np.zeros(rows),
            inverse=np.zeros(rows),
            sum_r=np.zeros(rows),
            sum_d=np.zeros((m, rows)),
            base=np.zeros(rows * W),
            start=np.zeros(rows, dtype=whole),
            length=np.zeros(rows, dtype=index),
            capacity=np.zeros(rows, dtype=index),
            pool_cell=np.zeros(FIRST_POOL, dtype=index),
            pool_count=np.zeros(FIRST_POOL),
            pool=np.zeros(2, dtype=whole),
            logits=np.zeros(rows),
            pi=np.zeros(rows),
            values=np.zeros(cells * W),
            entropy=np.zeros(cells),
            untried=np.zeros(cells),
            tried=np.zeros(rows, dtype=index),
            tried_cell=np.zeros(rows, dtype=index),
            n_tried=np.zeros(H, dtype=whole),
            y=np.zeros(A * C),
            lam=np.zeros(m),
            alpha_sum=np.zeros(m),
            alpha_count=np.zeros(1),
        )
        self.reserve()

    def settings(
        self,
        problem: Problem,
        bonus: tuple[float, float, float],
        optimistic: bool,
        dual_bound: float,
    ) -> Settings:
        """The constants of a primal-dual learner on this model."""
        H, _, A = self.shape
        m = problem.constraints
        caps = np.zeros((H, self.W))
        remaining = np.arange(H, 0, -1.0)
        caps[:, : m + 1] = remaining[:, None]
        caps[:, m + 1] = remaining * np.log(A)
        starts = np.flatnonzero(problem.initial)
        return Settings(
            A=A,
            C=self.C,
            W=self.W,
            bonus=np.array(bonus),
            optimistic=optimistic,
            caps=caps.ravel(),
            dual_bound=dual_bound,
            thresholds=np.array(problem.thresholds),
            starts=starts,
            start_p=problem.initial[starts],
        )

    def reserve(self, episodes: int = 1) -> None:
        """Make room in the pool of successors for at least so many episodes' growth (one is enough to go on)."""
        core = self.core
        used, largest = (int(x) for x in core.pool)
        needed = used + self.shape[0] * max(2 * largest, TOGETHER) * episodes
        if needed > core.pool_cell.size:
            size = max(needed, 2 * core.pool_cell.size)
            cell, count = np.zeros(size, dtype=np.int32), np.zeros(size)
            cell[:used], count[:used] = core.pool_cell[:used], core.pool_count[:used]
            self.core = core._replace(pool_cell=cell, pool_count=count)

    def spread(self, rows: Float, elsewhere: float) -> Float:
        """(H, S, A) from an array over rows; ``elsewhere`` where a state was never visited."""
        H, S, A = self.shape
        by_cell = rows.reshape(H, A, self.C)
        cell = self.core.cell_of
        out = np.full((H, S, A), elsewhere)
        h, s = np.nonzero(cell >= 0)
        out[h, s] = by_cell[h, :, cell[h, s]]
        return out

    # -- files -----------------------------------------------------------------------------------------------------

    def _visited_rows(self, n_cells: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        A = self.shape[2]
        blocks = [np.arange(n) + (h * A + a) * self.C for h, n in enumerate(n_cells) for a in range(A)]
        return np.concatenate(blocks).astype(np.int64)

    def _visited_cells(self, n_cells: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return np.concatenate([np.arange(n) + h * self.C for h, n in enumerate(n_cells)]).astype(np.int64)

    def state(self) -> Arrays:
        """Everything that was seen and decided, without the reserve."""
        core = self.core
        rows, cells = self._visited_rows(core.n_cells), self._visited_cells(core.n_cells)
        length = core.length[rows]
        entries = np.concatenate(
            [np.arange(n, dtype=np.int64) + s for s, n in zip(core.start[rows], length, strict=True)]
            or [np.zeros(0, dtype=np.int64)]
        )
        A_C = self.shape[2] * self.C
        tried = [core.tried[h * A_C : h * A_C + n] for h, n in enumerate(core.n_tried)]
        state: Arrays = {
            "n_cells": core.n_cells,
            "state_of": core.state_of.ravel()[cells],
            "n_tried": core.n_tried,
            "tried": np.concatenate(tried),
            "length": length,
            "pool_cell": core.pool_cell[entries],
            "pool_count": core.pool_count[entries],
            "sum_d": core.sum_d[:, rows],
            "base": core.base.reshape(-1, self.W)[rows],
        }
        for name in ("n_visits", "inverse", "sum_r", "logits", "pi"):
            state[name] = getattr(core, name)[rows]
        for name in ("entropy", "untried"):
            state[name] = getattr(core, name)[cells]
        for name in ("lam", "alpha_sum", "alpha_count"):
            state[name] = getattr(core, name)
        return state

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; sizes that do not fit are refused."""
        try:
            self._restore(state)
        except (KeyError, ValueError, IndexError) as error:
            raise FileFormatError(f"the learner's arrays do not fit together: {error}") from None

    def _restore(self, state: Arrays) -> None:
        core = self.core
        S = self.shape[1]
        core.n_cells[:] = state["n_cells"]
        if (core.n_cells < 0).any() or (core.n_cells > S).any():
            raise ValueError("n_cells")
        rows, cells = self._visited_rows(core.n_cells), self._visited_cells(core.n_cells)
        if state["state_of"].shape != cells.shape or (state["state_of"] < 0).any() or (state["state_of"] >= S).any():
            raise ValueError("state_of")
        core.state_of.ravel()[cells] = state["state_of"]
        core.cell_of[cells // self.C, state["state_of"]] = cells % self.C
        for name in ("n_visits", "inverse", "sum_r", "logits", "pi", "length"):
            if state[name].shape != rows.shape:
                raise ValueError(name)
            getattr(core, name)[rows] = state[name]
        core.sum_d[:, rows] = state["sum_d"]
        core.base.reshape(-1, self.W)[rows] = state["base"]
        for name in ("entropy", "untried"):
            getattr(core, name)[cells] = state[name]
        for name in ("lam", "alpha_sum", "alpha_count"):
            getattr(core, name)[:] = state[name]
        self._restore_successors(state, rows)
        self._restore_tried(state, rows)

    def _restore_successors(self, state: Arrays, rows: npt.NDArray[np.int64]) -> None:
        length = state["length"].astype(np.int64)
        capacity = -(-length // TOGETHER) * TOGETHER
        entries = state["pool_cell"]
        if (length < 0).any() or entries.shape != (length.sum(),) or state["pool_count"].shape != entries.shape:
            raise ValueError("length")
        if entries.size and (entries.min() < 0 or entries.max() >= self.core.entropy.size):
            raise ValueError("pool_cell")
        starts = np.cumsum(capacity) - capacity
        used = int(capacity.sum())
        places = np.repeat(starts - (np.cumsum(length) - length), length) + np.arange(length.sum())
        cell, count = np.zeros(used + FIRST_POOL, dtype=np.int32), np.zeros(used + FIRST_POOL)
        cell[places], count[places] = entries, state["pool_count"]
        self.core.start[rows] = starts
        self.core.capacity[rows] = capacity
        self.core.pool[:] = used, int(capacity.max(initial=0))
        self.core = self.core._replace(pool_cell=cell, pool_count=count)
        self.reserve()

    def _restore_tried(self, state: Arrays, rows: npt.NDArray[np.int64]) -> None:
        _, _, A = self.shape
        n_tried, tried = state["n_tried"], state["tried"].astype(np.int64)
        if tried.shape != (n_tried.sum(),) or not np.isin(tried, rows).all():
            raise ValueError("tried")
        self.core.n_tried[:] = n_tried
        end = 0
        for h, n in enumerate(n_tried):
            part = tried[end : end + n]
            end += n
            if (part // (A * self.C) != h).any():
                raise ValueError("tried")
            self.core.tried[h * A * self.C : h * A * self.C + n] = part
            self.core.tried_cell[h * A * self.C : h * A * self.C + n] = h * self.C + part % self.C
