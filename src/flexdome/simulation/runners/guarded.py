"""SureDOME and Guard: policies that are frozen are evaluated once, and many of their episodes are one compiled call.

What a guard plays within an epoch does not depend on the learner inside. So some episodes are played first, on a copy
of the ledger, then the learner inside learns from them, one by one, and then the ledger itself takes as many as the
learner inside has counted: an error or an interrupt in between leaves both at the same episode.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.cmdp.episode import Made
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.kernels.rollout import Buffers
from flexdome.learners.guarded.certified import Certified
from flexdome.learners.guarded.guard import Guarded
from flexdome.learners.guarded.kernels import Book, Played, run_frozen, run_guarded
from flexdome.learners.guarded.suredome import SureDOME
from flexdome.planning.evaluation import as_policy, evaluate_batch
from flexdome.simulation.handed import handed_multipliers
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["Frozen", "Guarding"]

TOGETHER = 256  # episodes that a guard plays at once, at most; who wants to read waits so long


class Certifying(Runner):
    """What both share."""

    learner: Certified

    def __init__(self, learner: Certified, cmdp: CMDP) -> None:
        super().__init__(learner, cmdp)
        self._values: dict[int, Float] = {}

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode: the weight of the other policy of the mixture."""
        return {"weight": ()}

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, count, done = self.learner, chunk.exact.size, 0
        self.buffers, self.coins = buffers_of(self.cmdp), learner.coins(count)
        self.means = draws.thresholds.mean(axis=2) if draws.thresholds.size else np.zeros((0, self.cmdp.constraints))
        while done < count:
            learner.settle()
            done = self.play_on(draws, chunk, done)
            if done < 0:  # one of the two raises
                learner.sampled_after(draws.thresholds[-1 - done] if draws.thresholds.size else self.means)
                learner.refuted(np.cumsum(self.buffers.utilities, axis=1)[:, -1].copy())  # added as kernels do
            learner.turn.pause()
        learner.settle()

    @abstractmethod
    def play_on(self, draws: Draws, chunk: Chunk, begin: int) -> int:
        """Some episodes from row ``begin`` on: the row after the last, or -1 minus that of one that is refused."""

    def _true_values(self) -> Float:
        """(K, 1 + m) V_r and V_d of all policies that are kept."""
        book, kept = self.learner.ledger.book, len(self.learner.ledger)
        new = [k for k in range(kept) if int(book.numbers[k]) not in self._values]
        if new:
            policies = as_policy(self.cmdp, book.policies[new], f"{type(self.learner).__name__}.mixture[1]")
            values = evaluate_batch(self.cmdp.model, policies)
            self._values |= {int(book.numbers[k]): row for k, row in zip(new, values, strict=True)}
        return np.array([self._values[int(number)] for number in book.numbers[:kept]])


class Frozen(Certifying):
    """SureDOME: from epoch to epoch in the kernel."""

    learner: SureDOME

    def play_on(self, draws: Draws, chunk: Chunk, begin: int) -> int:
        """Up to the end of the epoch."""
        learner = self.learner
        learner.tally.reserve()
        done: int = run_frozen(
            learner.ledger.book, learner.tally.counts, learner.samples(), learner.current, learner.least, self.coins,
            self.truth, draws.uniforms, draws.thresholds, self.means, begin, chunk.exact.size, self.buffers,
            self._true_values(), chunk.values, chunk.diagnostics["weight"], chunk.realised, learner._played,
        )  # fmt: skip
        chunk.multipliers[begin : max(done, -1 - done)] = learner.multipliers
        return done


class Guarding(Certifying):
    """A guard: episodes are played together, and the learner inside observes them one by one."""

    learner: Guarded

    def __init__(self, learner: Guarded, cmdp: CMDP) -> None:
        super().__init__(learner, cmdp)
        self.again = buffers_of(cmdp)

    def play_on(self, draws: Draws, chunk: Chunk, begin: int) -> int:
        """Some episodes of the epoch."""
        learner, values = self.learner, self._true_values()
        inside, book, before = learner.learner, learner.ledger.book, learner.learner.episode
        last = min(begin + TOGETHER, chunk.exact.size)
        n, H, m = last - begin, self.cmdp.horizon, self.cmdp.constraints
        whole = np.zeros((n, H + 1), dtype=np.int64), np.zeros((n, H), dtype=np.int64)
        seen = Played(*whole, np.zeros((n, H)), np.zeros((n, m, H)))

        def play(book: Book, rows: Float, end: int, buffers: Buffers, played: npt.NDArray[np.int64]) -> int:
            done: int = run_guarded(
                book, learner.samples(rows), self.coins, self.truth, draws.uniforms, self.means, begin, end, buffers,
                values, chunk.values, chunk.diagnostics["weight"], chunk.realised, seen, played,
            )  # fmt: skip
            return done

        copied, rows = Book(*(part.copy() for part in book)), learner.samples().rows
        done = play(copied, rows.copy(), last, self.buffers, learner._played.copy())
        n = max(done, -1 - done) - begin
        try:
            for k in range(n):
                chunk.multipliers[begin + k] = handed_multipliers(inside)
                samples = draws.thresholds[begin + k] if draws.thresholds.size else None
                inside.observe(Made(seen.states[k], seen.actions[k], seen.rewards[k], seen.utilities[k], samples))
        finally:
            play(book, rows, begin + inside.episode - before, self.again, learner._played)
        if inside.episode - before != n:
            raise ValidationError(
                f"{type(inside).__name__}.episode is {inside.episode} after {before + n} episodes; it must count each"
            )
        return done
