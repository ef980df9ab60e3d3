"""Whole chunks in one compiled call: evaluate where asked, roll out, learn."""

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.kernels.bellman import evaluate_deterministic
from flexdome.kernels.jit import kernel
from flexdome.kernels.rollout import play
from flexdome.simulation.runners import Chunk, Draws, Runner, buffers_of
from lagrangian_q.kernels import greedy, learn
from lagrangian_q.learner import LagrangianQ


@kernel
def run(
    tables, known, step, bonus, truth, draws, exact, values, multipliers, realised, actions, policy, q, buffers, played
):
    """All episodes of a chunk. ``played[0]`` counts each here: an interrupt may come between two calls."""
    uniforms, thresholds = draws
    p, nxt, f, mu = truth
    none = np.zeros((0, 0))
    for t in range(exact.size):
        for h in range(actions.shape[0]):
            for s in range(actions.shape[1]):
                policy[h, s, actions[h, s]] = 0.0
                actions[h, s] = greedy(tables.q, tables.lam, h, s)
                policy[h, s, actions[h, s]] = 1.0
        multipliers[t] = tables.lam
        if exact[t]:
            evaluate_deterministic(p, nxt, mu, f, actions, values[t], q)
        play(policy, truth, uniforms, t, buffers)
        realised[t, 0] = buffers.rewards.sum()
        for i in range(buffers.utilities.shape[0]):
            realised[t, 1 + i] = buffers.utilities[i].sum()
        samples = thresholds[t] if thresholds.size > 0 else none
        seen = buffers.states, buffers.actions, buffers.rewards, buffers.utilities
        learn(tables, known, step, bonus, seen[0], seen[1], seen[2], seen[3], samples)
        played[0] += 1


class QRunner(Runner):
    """Runs a :class:`LagrangianQ`; there is nothing to tell but values and multipliers."""

    def __init__(self, learner: LagrangianQ, cmdp: CMDP) -> None:
        super().__init__(learner, cmdp)
        H, S, A = cmdp.horizon, cmdp.states, cmdp.actions
        self.work = np.zeros((H, S), dtype=np.int64), np.zeros((H, S, A)), np.zeros((2, S)), buffers_of(cmdp)

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner = self.learner
        run(
            learner.tables, learner.problem.thresholds, learner.step, learner.bonus, self.truth, tuple(draws),
            chunk.exact, chunk.values, chunk.multipliers, chunk.realised, *self.work, learner._played,
        )  # fmt: skip
