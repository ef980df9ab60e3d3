"""Random families.

Transitions are Dirichlet rows for each step, state and action, drawn once from the instance's seed; so are
rewards and utilities. Thresholds come from the exact truth of the instance that was drawn.
"""

from __future__ import annotations

import zlib

import numpy as np

from flexdome.cmdp import CMDP, Threshold
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float, as_float, as_int
from flexdome.planning.decomposition import greedy

__all__ = ["between", "generator", "paper", "paper_stochastic"]


def generator(family: str, seed: int) -> np.random.Generator:
    """The instance's random numbers: a stream of its own for every family and seed."""
    return np.random.default_rng([zlib.crc32(family.encode()), seed])


def between(model: Model, fraction: float) -> Float:
    """(m,) thresholds ``fraction`` of the way from the best policy for reward to the best for all utilities.

    With b the utilities of the reward-optimal policy and c those of the policy that maximises their sum,
    alpha = b + fraction (c - b): mixing the two policies meets every threshold exactly.
    """
    m = model.f.shape[0] - 1
    _, selfish = greedy(model, np.append(1.0, np.zeros(m)))
    _, careful = greedy(model, np.append(0.0, np.ones(m)))
    alpha: Float = selfish[1:] + fraction * (careful[1:] - selfish[1:])
    return alpha


def _opposed(family: str, seed: int, S: int, A: int, H: int) -> tuple[Model, int]:
    """Dirichlet(0.1) rows, r from Bernoulli(0.5) drawn once, d = 1 - r, one random first state."""
    rng = generator(family, seed)
    p = rng.dirichlet(np.full(S, 0.1), size=(H, S, A))
    r = rng.integers(0, 2, size=(H, S, A)).astype(np.float64)
    start = int(rng.integers(S))
    return Model(p, NO_SUCCESSORS, np.stack([r, 1.0 - r]), np.eye(S)[start]), start


def paper(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5) -> CMDP:
    """Section 5 and Appendix "Additional Details" of Zuo et al. 2026, fixed threshold.

    S = 20, A = H = 5, m = 1. p_h(. | s, a) ~ Dirichlet(0.1), r_h(s, a) ~ Bernoulli(0.5) drawn once, d = 1 - r,
    a random first state that stays the same, alpha = (1/2) max V_d. Because d = 1 - r, V_r + V_d = H for every
    policy: the optimal multiplier is 1 and an episode has either a gap or a violation. On seeds 0 to 4,
    max V_d is about 5, the Slater gap (equal to alpha) about 2.5, and the uniform policy starts within 0.4 of
    the optimum.

    Versions
    --------
    v1 : first
    """
    S, A, H = as_int("states", states, 1), as_int("actions", actions, 1), as_int("horizon", horizon, 1)
    model, start = _opposed("paper", seed, S, A, H)
    alpha = 0.5 * greedy(model, np.array([0.0, 1.0]))[1][1]
    return CMDP(model.p, model.f[0], model.f[1:], alpha, start, name="paper-v1")


def paper_stochastic(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5) -> CMDP:
    """``paper-v1`` with the threshold drawn anew every episode from a normal law N(alpha, (alpha/2)^2).

    The instance of a seed is that of ``paper-v1``. Samples are not clipped, as in the paper: about one in
    twenty lies outside [0, H].

    Versions
    --------
    v1 : first
    """
    base = paper(seed, states=states, actions=actions, horizon=horizon)
    alpha = float(base.alpha[0])
    law = Threshold.normal(alpha, 0.5 * alpha, per="episode")
    return CMDP(
        base.transitions, base.rewards, base.utilities, law, base.initial, name="paper-stochastic-v1"
    )
