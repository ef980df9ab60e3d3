"""Any learner, one episode at a time through ``observe``: the definition that the compiled runners are held to."""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.episode import Made
from flexdome.kernels.rollout import play
from flexdome.learners import Learner
from flexdome.planning.evaluation import evaluate_batch, mixed_values
from flexdome.simulation.handed import handed_mixture, handed_multipliers, handed_policy
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["Observed"]


class Observed(Runner):
    """Compiled roll-outs and evaluations around a learner in Python; what it hands over is checked."""

    def __init__(self, learner: Learner, cmdp: CMDP) -> None:
        super().__init__(learner, cmdp)
        self.buffers = buffers_of(cmdp)

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, cmdp, buffers = self.learner, self.cmdp, self.buffers
        for t in range(chunk.exact.size):
            policy = handed_policy(learner, cmdp)
            chunk.multipliers[t] = handed_multipliers(learner)
            if chunk.exact[t]:
                weights, policies = handed_mixture(learner, cmdp)
                chunk.values[t] = mixed_values(weights, evaluate_batch(cmdp.model, policies))
            play(policy, self.truth, draws.uniforms, t, buffers)
            chunk.realised[t, 0] = np.cumsum(buffers.rewards)[-1]  # in order, as the compiled loops add
            chunk.realised[t, 1:] = np.cumsum(buffers.utilities, axis=1)[:, -1]
            learner.observe(
                Made(
                    buffers.states.copy(),
                    buffers.actions.copy(),
                    buffers.rewards.copy(),
                    buffers.utilities.copy(),
                    draws.thresholds[t] if draws.thresholds.size else None,
                )
            )
            learner.turn.pause()
