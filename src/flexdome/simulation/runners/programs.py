"""The learners that plan now and then: from plan to plan, episodes are played and recorded in one compiled call."""

from __future__ import annotations

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.kernels.rollout import play
from flexdome.learners.programs.kernels import record_played
from flexdome.learners.seen.kernels import full
from flexdome.planning.evaluation import evaluate_batch, mixed_values
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["Programs", "play_fixed"]


@kernel
def play_fixed(
    counts, since, policies, choice, stop, truth, uniforms, thresholds, begin, end, buffers, realised, doubled, played
):  # fmt: skip
    """Play and record episodes ``begin`` to ``end`` (numbers of rows), each of policy ``choice[t]``.

    Row t of ``realised`` receives the sums of its rewards and utilities. The row after the last one played comes back;
    with ``stop`` a count that has doubled ends the call, and a pool of successors that is nearly full does always.
    """
    none = np.zeros((0, 0))
    for t in range(begin, end):
        if full(counts):
            return t
        play(policies[choice[t]], truth, uniforms, t, buffers)
        realised[t, 0] = buffers.rewards.sum()
        for i in range(buffers.utilities.shape[0]):
            realised[t, 1 + i] = buffers.utilities[i].sum()
        observed = thresholds[t] if thresholds.size > 0 else none
        record_played(
            counts, since, buffers.states, buffers.actions, buffers.rewards, buffers.utilities, observed, doubled,
            played,
        )  # fmt: skip
        if doubled[0] and stop:
            return t + 1
    return end


class Programs(Runner):
    """Between two plans nothing of the policy changes: it is evaluated once, and what is told is told once."""

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode."""
        m = self.cmdp.constraints
        diagnostics: dict[str, tuple[int, ...]] = {"value": (), "utilities": (m,), "thresholds": (m,), "margin": (m,)}
        diagnostics |= dict.fromkeys(("replanned", *self.learner._notes()), ())
        if self.learner.own_randomness:
            diagnostics |= {"drawn_value": (), "drawn_utilities": (m,)}
        return diagnostics

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, count, diagnostics = self.learner, chunk.exact.size, chunk.diagnostics
        learner.settle()
        buffers = buffers_of(self.cmdp)
        choice = np.zeros(count, dtype=np.int64)
        done = 0
        while done < count:
            begin, (weights, policies) = done, learner.mixture
            values = evaluate_batch(self.cmdp.model, policies)
            end = min(done + learner.steady(), count)
            choice[begin:end] = learner.draws(end - begin)
            exact = mixed_values(weights, values)
            multipliers, believed = learner.multipliers, learner.planned_values
            about = {"thresholds": learner.thresholds, **learner._notes()}
            replanned = learner.planned_at == learner.episode
            learner.tally.reserve()
            done = play_fixed(
                learner.tally.counts, learner.since, policies, choice, learner.replan.doubling, self.truth,
                draws.uniforms, draws.thresholds, begin, end, buffers, chunk.realised, learner._doubled,
                learner._played,
            )  # fmt: skip
            chunk.values[begin:done], chunk.multipliers[begin:done] = exact, multipliers
            diagnostics["value"][begin:done], diagnostics["utilities"][begin:done] = believed[0], believed[1:]
            for name, value in about.items():
                diagnostics[name][begin:done] = value
            diagnostics["replanned"][begin] = replanned
            if learner.own_randomness:
                drawn = values[choice[begin:done]]
                diagnostics["drawn_value"][begin:done] = drawn[:, 0]
                diagnostics["drawn_utilities"][begin:done] = drawn[:, 1:]
            learner.settle()
            learner.turn.pause()
