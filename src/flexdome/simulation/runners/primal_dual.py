"""The primal-dual family: many episodes in one compiled call, each measured exactly, rolled out and learned from."""

from __future__ import annotations

from typing import Any

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.rollout import finish, play_episode
from flexdome.learners.primal_dual.anchor_kernels import learn_anchored
from flexdome.learners.primal_dual.kernels import learn
from flexdome.learners.seen.kernels import full
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["Anchored", "PrimalDual", "run_anchored", "run_primal_dual"]


@kernel
def run_primal_dual(core, settings, truth, uniforms, thresholds, schedules, begin, exact, out, buffers, played):
    """Play and learn episodes ``begin`` to ``len(eta)``; the number done so far comes back.

    Stops early when the pool of successors is nearly full, for the caller to enlarge it and call again.

    Parameters
    ----------
    truth : (p, nxt, f, mu) of the true model
    uniforms : (u_start, u_action, u_next, u_noise), a row an episode
    thresholds : (episodes, m, H) samples, or of size 0
    schedules : (eta, tau, eps), a row an episode
    exact : (episodes,) bool, where the policy is evaluated
    out : (episodes, 3 + 5 m), receives V_r and V_d (exact), lam, estimated V_r and V_d, alpha-bar, realised sums
    played : (1,), counts the episodes
    """
    truth, uniforms, thresholds = borrow(truth), borrow(uniforms), borrow(thresholds)
    (eta, tau, eps), out, played = borrow(schedules), borrow(out), borrow(played)
    states, actions, rewards, utilities = buffers.states, buffers.actions, buffers.rewards, buffers.utilities
    step, alpha = buffers.step, buffers.alpha
    weights, v, q = step[0], step[1], step[2]
    m = core.policy.lam.size
    for t in range(begin, eta.size):
        if full(core.counts):
            return t
        observed = play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers)
        learn(
            core, settings, eta[t], tau[t], eps[t], weights, v, q, alpha, states, actions, rewards, utilities,
            observed,
        )  # fmt: skip
        for j in range(1 + m):
            out[t, 1 + 2 * m + j] = v[j]
        for i in range(m):
            out[t, 2 + 3 * m + i] = alpha[i]
        played[0] += 1
    finish(truth, out, buffers)
    return eta.size


@kernel
def run_anchored(
    core, anchor, settings, rho, truth, uniforms, thresholds, schedules, begin, exact, out, buffers, played
):  # fmt: skip
    """Play and learn episodes ``begin`` to ``len(eta)``; the number done so far comes back.

    As :func:`run_primal_dual`.
    """
    truth, uniforms, thresholds = borrow(truth), borrow(uniforms), borrow(thresholds)
    (eta, tau, eps), out, played = borrow(schedules), borrow(out), borrow(played)
    states, actions, rewards, utilities = buffers.states, buffers.actions, buffers.rewards, buffers.utilities
    step, alpha = buffers.step, buffers.alpha
    weights, v, q = step[0], step[1], step[2]
    m = core.policy.lam.size
    for t in range(begin, eta.size):
        if full(core.counts):
            return t
        observed = play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers)
        learn_anchored(
            core, anchor, settings, eta[t], tau[t], eps[t], rho, weights, v, q, alpha, states, actions, rewards,
            utilities, observed, played,
        )  # fmt: skip
        for j in range(1 + m):
            out[t, 1 + 2 * m + j] = v[j]
        for i in range(m):
            out[t, 2 + 3 * m + i] = alpha[i]
    finish(truth, out, buffers)
    return eta.size


class PrimalDual(Runner):
    """Whole chunks in the kernel, which comes back only for more room for successors."""

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode."""
        m = self.cmdp.constraints
        return {"value": (), "utilities": (m,), "thresholds": (m,), "margin": (m,)}

    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""
        learner, m, count = self.learner, self.cmdp.constraints, chunk.exact.size
        schedules = learner.schedule(learner.episode + 1, count)
        buffers = buffers_of(self.cmdp, learner.model.W)
        out = np.full((count, 3 + 5 * m), np.nan)
        done = 0
        learner.model.tidy()
        while done < count:
            learner.model.reserve()
            done = self.call(self.truth, *draws, schedules, done, chunk.exact, out, buffers, learner._played)
        chunk.values[:], chunk.multipliers[:] = out[:, : 1 + m], out[:, 1 + m : 1 + 2 * m]
        chunk.realised[:], diagnostics = out[:, 2 + 4 * m :], chunk.diagnostics
        diagnostics["value"][:], diagnostics["utilities"][:] = out[:, 1 + 2 * m], out[:, 2 + 2 * m : 2 + 3 * m]
        diagnostics["thresholds"][:], diagnostics["margin"][:] = out[:, 2 + 3 * m : 2 + 4 * m], schedules[2]

    def call(self, *play_on: Any) -> int:
        """The kernel, with the learner's own arrays."""
        done: int = run_primal_dual(self.learner.model.core, self.learner.settings, *play_on)
        return done


class Anchored(PrimalDual):
    """AnchorDOME, which has anchors beside its model."""

    def call(self, *play_on: Any) -> int:
        """The kernel, with the learner's own arrays."""
        learner = self.learner
        core, anchor, settings = learner.model.core, learner.anchor, learner.settings
        done: int = run_anchored(core, anchor, settings, learner.anchor_rate, *play_on)
        return done
