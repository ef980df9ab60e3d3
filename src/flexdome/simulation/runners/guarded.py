"""SureDOME: all episodes of an epoch in one compiled call; a policy is evaluated once, when it is frozen."""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float
from flexdome.learners.guarded.kernels import run_frozen
from flexdome.learners.guarded.suredome import SureDOME
from flexdome.planning.evaluation import evaluate_batch
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of
from flexdome.simulation.runners.observed import Observed

__all__ = ["Frozen"]


class Frozen(Runner):
    """From epoch to epoch in the kernel; where thresholds are sampled, which move all mixtures, through ``observe``."""

    learner: SureDOME

    def __init__(self, learner: SureDOME, cmdp: CMDP) -> None:
        super().__init__(learner, cmdp)
        self._values: dict[int, Float] = {}

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode: the weight of the other policy of the mixture."""
        return {} if self.learner.laws.sampled.any() else {"weight": ()}

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, count = self.learner, chunk.exact.size
        if learner.laws.sampled.any():
            Observed(learner, self.cmdp).run(draws, chunk)
            return
        ledger, buffers, coins = learner.ledger, buffers_of(self.cmdp), learner.coins(count)
        alpha, done = np.array(learner.thresholds), 0
        while done < count:
            learner.settle()
            begin = done
            done = run_frozen(
                ledger.book, learner.records, alpha, learner.current, learner.least, coins, self.truth, draws.uniforms,
                begin, count, buffers, self._true_values(), chunk.values, chunk.diagnostics["weight"], chunk.realised,
                learner._played,
            )  # fmt: skip
            chunk.multipliers[begin : max(done, -1 - done)] = learner.multipliers
            if done < 0:
                ledger.refuted(buffers.utilities.sum(axis=1))
            learner.turn.pause()
        learner.settle()

    def _true_values(self) -> Float:
        """(K, 1 + m) V_r and V_d of all policies that are kept."""
        book, kept = self.learner.ledger.book, len(self.learner.ledger)
        new = [k for k in range(kept) if int(book.numbers[k]) not in self._values]
        if new:
            told = evaluate_batch(self.cmdp.model, book.policies[new])
            self._values |= {int(book.numbers[k]): row for k, row in zip(new, told, strict=True)}
        return np.array([self._values[int(number)] for number in book.numbers[:kept]])
