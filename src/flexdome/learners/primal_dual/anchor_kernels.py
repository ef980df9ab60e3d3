"""A mirror step towards a moving anchor, on the optimistic model of the primal-dual family."""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.learners.primal_dual.bonus_kernels import unvisited
from flexdome.learners.primal_dual.kernels import (
    evaluate_step,
    initial_value,
    move_policy,
    record,
    threshold,
)
from flexdome.learners.seen.kernels import n_allowed

__all__ = ["Anchor", "learn_anchored", "open_anchors", "record_anchored", "step_anchored"]


class Anchor(NamedTuple):
    """Where policy and multipliers are drawn to. Arrays are changed in place."""

    logits: np.ndarray  # (rows,) ref
    lam: np.ndarray  # (m,) lref
    opened: np.ndarray  # (H,) cells whose anchor was initialised


@kernel
def open_anchors(core, anchor, settings):
    """Anchor the cells made since the last call at the uniform policy."""
    counts = core.counts
    A, C = settings.A, settings.C
    for h in range(counts.n_cells.size):
        for c in range(anchor.opened[h], counts.n_cells[h]):
            n = A
            if settings.masked:
                n = n_allowed(settings, h, counts.state_of[h, c])
            for a in range(A):
                anchor.logits[(h * A + a) * C + c] = -np.log(float(n))
        anchor.opened[h] = counts.n_cells[h]


@kernel(inline=True)
def learn_anchored(
    core, anchor, settings, eta, tau, eps, rho, weights, v, q, alpha, states, actions, rewards, utilities, thresholds,
    played,
):  # fmt: skip
    """Evaluate pi_t on the data before episode t, move policy, multipliers and both anchors, then add the episode.

    ``weights``, ``v``, ``q`` (W,) and ``alpha`` (m,) are work; ``v`` and ``alpha`` end as those of
    :func:`flexdome.learners.primal_dual.kernels.plan` do.
    """
    counts, policy, work = core.counts, core.policy, core.work
    A, C, m, H = settings.A, settings.C, policy.lam.size, counts.n_cells.size
    keep = 1.0 / (1.0 + eta * tau)
    weights[:] = 0.0
    weights[0] = 1.0
    for i in range(m):
        weights[1 + i] = policy.lam[i]
    q[:] = 0.0
    for h in range(H - 1, -1, -1):
        unvisited(settings, h, m, q)
        evaluate_step(core, settings, h, weights, q, 1.0)
        for a in range(A):
            for c in range(counts.n_cells[h]):
                work.y[a * C + c] += tau * anchor.logits[(h * A + a) * C + c]
        move_policy(core, settings, h, keep, keep * eta)
        for a in range(A):
            for row in range((h * A + a) * C, (h * A + a) * C + counts.n_cells[h]):
                anchor.logits[row] += rho * (policy.logits[row] - anchor.logits[row])
    initial_value(core, settings, tau, v, q)
    for i in range(m):
        alpha[i] = threshold(core, settings, i)
        moved = keep * (policy.lam[i] + eta * tau * anchor.lam[i] - eta * (v[1 + i] - eps[i] - alpha[i]))
        policy.lam[i] = min(max(moved, 0.0), settings.dual_bound)
        anchor.lam[i] += rho * (policy.lam[i] - anchor.lam[i])
    record(core, settings, states, actions, rewards, utilities, thresholds)
    open_anchors(core, anchor, settings)
    played[0] += 1


@kernel
def step_anchored(core, anchor, settings, eta, tau, eps, rho, episode, step, alpha, played):
    """One episode of the learner."""
    eps, step, alpha, played = borrow(eps), borrow(step), borrow(alpha), borrow(played)
    states, actions, rewards, utilities, thresholds = borrow(episode)
    learn_anchored(
        core, anchor, settings, eta, tau, eps, rho, step[0], step[1], step[2], alpha, states, actions, rewards,
        utilities, thresholds, played,
    )  # fmt: skip


@kernel
def record_anchored(core, anchor, settings, episode):
    """Add the data of one episode; the policy stays."""
    states, actions, rewards, utilities, thresholds = borrow(episode)
    record(core, settings, states, actions, rewards, utilities, thresholds)
    open_anchors(core, anchor, settings)
