"""ProxDOME: many episodes in one compiled call, and what it tells of every plan."""

from __future__ import annotations

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER
from flexdome.kernels.rollout import play_episode
from flexdome.learners.proximal.plan_kernels import learn_proximal
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["Proximal", "run_proximal"]

OF_A_CONSTRAINT = ("utilities", "errors", "margin", "thresholds")
OF_A_PLAN = ("trials", "temperature", "heat", "safe", "untried", "solved")


@kernel
def run_proximal(core, own, settings, choices, truth, uniforms, thresholds, begin, exact, out, told, buffers, played):
    """Play and learn episodes ``begin`` to ``len(exact)``; the number done so far comes back.

    As :func:`flexdome.kernels.rollout.run_primal_dual`, with ``out`` (episodes, 1 + 2 m) for V_r and V_d (exact) and
    lam, and ``told`` (episodes, n) for what the learner told of each plan.
    """
    core, own, settings, uniforms, buffers = (
        borrow(core), borrow(own), borrow(settings), borrow(uniforms), borrow(buffers)
    )  # fmt: skip
    truth, thresholds, out = borrow(truth), borrow(thresholds), borrow(out)
    told, played, pool = borrow(told), borrow(played), core.counts.pool
    states, actions, rewards, utilities, _, _, _, _, _, _ = buffers
    H = actions.size
    growth = H * H if choices.shared else H  # lists that one episode may move
    for t in range(begin, exact.size):
        if pool[0] + growth * max(2 * pool[1], TOGETHER) > core.counts.pool_cell.size:
            return t
        for j in range(own.told.size):
            told[t, j] = own.told[j]
        observed = play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers)
        learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, observed, played)
    return exact.size


class Proximal(Runner):
    """Whole chunks in the kernel, which comes back only for more room for successors."""

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode."""
        m = self.cmdp.constraints
        each = dict.fromkeys(OF_A_CONSTRAINT, (m,))
        return {"value": (), **each, **dict.fromkeys(OF_A_PLAN, ())}

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, m, count = self.learner, self.cmdp.constraints, chunk.exact.size
        out, told = np.full((count, 1 + 2 * m), np.nan), np.zeros((count, learner.own.told.size))
        buffers = buffers_of(self.cmdp)
        done = 0
        while done < count:
            learner.reserve()
            done = run_proximal(
                learner.model.core, learner.own, learner.settings, learner.choices, self.truth, *draws, done,
                chunk.exact, out, told, buffers, learner._played,
            )  # fmt: skip
        chunk.values[:], chunk.multipliers[:] = out[:, : 1 + m], out[:, 1 + m :]
        chunk.diagnostics["value"][:] = told[:, 0]
        for k, name in enumerate(OF_A_CONSTRAINT):
            chunk.diagnostics[name][:] = told[:, 1 + k * m : 1 + (k + 1) * m]
        for k, name in enumerate(OF_A_PLAN):
            chunk.diagnostics[name][:] = told[:, 1 + 4 * m + k]
