"""ProxDOME: many episodes in one compiled call, and what is told of every plan."""

from __future__ import annotations

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER
from flexdome.kernels.rollout import add_up, finish, play, play_episode, write_policy
from flexdome.learners.proximal.data_kernels import Report
from flexdome.learners.proximal.plan_kernels import learn_proximal
from flexdome.learners.proximal.promise_kernels import note_given, refuted_by
from flexdome.learners.proximal.state import BY_CONSTRAINT, report_of
from flexdome.planning.evaluation import evaluate_batch
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["Proximal", "run_proximal"]


@kernel
def run_proximal(
    core, own, settings, choices, truth, uniforms, thresholds, given, coins, begin, exact, out, reports, buffers, played
):  # fmt: skip
    """Play and learn episodes ``begin`` to ``len(exact)``; the number done so far comes back.

    As :func:`flexdome.simulation.runners.primal_dual.run_primal_dual`, with ``out`` (episodes, 2 + 3 m) for V_r and V_d
    (exact), lam and realised sums, and ``reports`` (episodes, n) for what is told of each plan. Where ``coins[t]`` is
    not below the weight of the plan, the safe policy ``given`` (H, S, A) is played; ``coins`` is of size 0 without one.
    Where that refutes a promise, -1 - t comes back, and nothing of episode t was taken.
    """
    truth, uniforms, thresholds = borrow(truth), borrow(uniforms), borrow(thresholds)
    out, reports, played, pool = borrow(out), borrow(reports), borrow(played), core.counts.pool
    states, actions, rewards, utilities = buffers.states, buffers.actions, buffers.rewards, buffers.utilities
    H = actions.size
    growth = H * H if choices.shared else H  # lists that one episode may move
    for t in range(begin, exact.size):
        if pool[0] + growth * max(2 * pool[1], TOGETHER) > core.counts.pool_cell.size:
            return t
        for j in range(own.report.numbers.size):
            reports[t, j] = own.report.numbers[j]
        if coins.size == 0 or coins[t] < own.report.weight[0]:
            observed = play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers)
        else:
            write_policy(core, settings, truth, t, exact, out, buffers)
            play(given, truth, uniforms, t, buffers)
            add_up(t, out, buffers)
            if refuted_by(own, choices, utilities) >= 0:
                return -1 - t
            note_given(own, choices, utilities)
            observed = thresholds[t] if thresholds.size > 0 else buffers.none
        learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, observed, played)
    finish(truth, out, buffers)
    return exact.size


class Proximal(Runner):
    """Whole chunks in the kernel, which comes back only for more room for successors."""

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode."""
        m = self.cmdp.constraints
        return {name: (m,) if name in BY_CONSTRAINT else () for name in Report._fields[1:]}

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, m, count = self.learner, self.cmdp.constraints, chunk.exact.size
        out, reports = np.full((count, 2 + 3 * m), np.nan), np.zeros((count, learner.own.report.numbers.size))
        buffers, safe = buffers_of(self.cmdp), learner.safe_policy
        given = np.zeros((0, 0, 0)) if safe is None else np.array(safe.policy)  # writable, as without: one compilation
        coins = np.zeros(0) if safe is None else learner.coins(count)
        done = 0
        while done < count:
            learner.reserve()
            done = run_proximal(
                learner.model.core, learner.own, learner.settings, learner.choices, self.truth, *draws, given, coins,
                done, chunk.exact, out, reports, buffers, learner._played,
            )  # fmt: skip
            if done < 0:
                learner.refuted(buffers.utilities)
        chunk.values[:], chunk.multipliers[:] = out[:, : 1 + m], out[:, 1 + m : 1 + 2 * m]
        chunk.realised[:] = out[:, 1 + 2 * m :]
        for name, part in zip(Report._fields[1:], report_of(reports, m)[1:], strict=True):
            chunk.diagnostics[name][:] = part if name in BY_CONSTRAINT else part[:, 0]
        if safe is not None:
            weights = report_of(reports, m).weight
            known = evaluate_batch(self.cmdp.model, safe.policy[None])[0]
            chunk.values[:] = (1.0 - weights) * known + weights * chunk.values
