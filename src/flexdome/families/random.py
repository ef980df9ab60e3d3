"""Random families.

Rows of p, rewards and utilities are drawn once from the instance's seed; thresholds come from the exact truth
of the instance that was drawn. Where nothing else is said, alpha lies a fraction of the way from the utility
of the best policy for reward to that of the best policy for utility (:func:`between`): the first breaks the
constraint, and a mixture of the two meets it.
"""

from __future__ import annotations

import zlib
from typing import Any, Literal

import numpy as np

from flexdome.cmdp import CMDP, Threshold
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float, Int, as_float, as_int, check_room, switch
from flexdome.errors import ValidationError
from flexdome.planning.decomposition import greedy

__all__ = [
    "bernoulli",
    "between",
    "conflict",
    "garnet",
    "generator",
    "independent",
    "kitamura",
    "multi",
    "paper",
    "paper_stochastic",
    "tight",
]

Sizes = tuple[int, int, int]


LARGEST_FAMILY = 2**28  # of a size, and successors of one garnet


def generator(family: str, seed: int) -> np.random.Generator:
    """The instance's random numbers: a stream of its own for every family and seed."""
    return np.random.default_rng([zlib.crc32(family.encode()), seed])


def between(model: Model, fraction: float) -> Float:
    """(m,) thresholds ``fraction`` of the way from the best policy for reward to the best for all utilities.

    With b the utilities of the reward-optimal policy and c those of the policy that maximises their sum,
    alpha = b + fraction (c - b): mixing the two policies meets every threshold exactly.
    """
    fraction = as_float("fraction", fraction, 0.0, 1.0)
    m = model.f.shape[0] - 1
    _, selfish = greedy(model, np.append(1.0, np.zeros(m)))
    _, careful = greedy(model, np.append(0.0, np.ones(m)))
    alpha: Float = selfish[1:] + fraction * (careful[1:] - selfish[1:])
    return alpha


def _sizes(states: int, actions: int, horizon: int) -> Sizes:
    S, A, H = (
        as_int(n, v, 1, LARGEST_FAMILY) for n, v in (("states", states), ("actions", actions), ("horizon", horizon))
    )
    check_room(f"states is {S}, actions {A} and horizon {H}; a reward for each", S * A * H)
    return S, A, H


def _dirichlet_rows(rng: np.random.Generator, sizes: Sizes) -> Float:
    """(H, S, A, S), every row from Dirichlet(0.1)."""
    S, A, H = sizes
    check_room(f"states is {S}, actions {A} and horizon {H}; the transitions", H * S * A * S)
    return rng.dirichlet(np.full(S, 0.1), size=(H, S, A))


def _point(states: int, state: int | np.integer[Any]) -> Float:
    """(S,) all probability on one state."""
    mu = np.zeros(states)
    mu[state] = 1.0
    return mu


def _cmdp(model: Model, thresholds: Any, name: str, noise: Literal["none", "bernoulli"] = "none") -> CMDP:
    return CMDP(model.p, model.f[0], model.f[1:], thresholds, model.mu, noise=noise, name=name)


def _most_utility(model: Model) -> float:
    """Max V_d of a model with one constraint."""
    return float(greedy(model, np.array([0.0, 1.0]))[1][1])


def _opposed(family: str, seed: int, sizes: Sizes) -> CMDP:
    """Dirichlet(0.1) rows, r ~ Bernoulli(0.5), d = 1 - r, a random first state, alpha = max V_d / 2."""
    S, A, H = sizes
    rng = generator(family, seed)
    p = _dirichlet_rows(rng, sizes)
    r = rng.integers(0, 2, size=(H, S, A)).astype(np.float64)
    model = Model(p, NO_SUCCESSORS, np.stack([r, 1.0 - r]), _point(S, rng.integers(S)))
    return _cmdp(model, 0.5 * _most_utility(model), f"{family}-v1")


def _uniform(family: str, seed: int, sizes: Sizes, m: int = 1) -> Model:
    """Dirichlet(0.1) rows, r and every d_i independent and uniform on [0, 1], one random first state."""
    S, A, H = sizes
    check_room(f"constraints is {m}; their utilities for {H} x {S} x {A}", (1 + m) * S * A * H)
    rng = generator(family, seed)
    p = _dirichlet_rows(rng, sizes)
    f = rng.random((1 + m, H, S, A))
    return Model(p, NO_SUCCESSORS, f, _point(S, rng.integers(S)))


def paper(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5) -> CMDP:
    """Section 5 and Appendix "Additional Details" of Zuo et al. 2026, fixed threshold.

    S = 20, A = H = 5, m = 1. p_h(. | s, a) ~ Dirichlet(0.1), r_h(s, a) ~ Bernoulli(0.5) drawn once, utilities
    d = 1 - r, a random first state that stays the same, alpha = (1/2) max V_d. So V_r + V_d = H for every
    policy: the optimum is H - alpha, the multiplier 1, and an episode has either a gap or a violation.

    On seeds 0 to 4, max V_d is 4.99 to 5.00 except for seed 2, whose first state offers no utility at all:
    4.00 there. The Slater gap equals alpha, 2.50 (seed 2: 2.00), the optimum is 2.50 (seed 2: 3.00), and the
    uniform policy's reward is 0.02 to 0.35 below it.

    Versions
    --------
    v1 : first
    """
    return _opposed("paper", seed, _sizes(states, actions, horizon))


def paper_stochastic(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5) -> CMDP:
    """``paper-v1`` with the threshold drawn anew every episode from a normal law N(alpha, (alpha/2)^2).

    The instance of a seed is that of ``paper-v1``. Samples are not clipped, as in the paper: about one in
    twenty-two lies outside [0, H] when alpha is near H/2, one in forty-two for seed 2.

    Versions
    --------
    v1 : first
    """
    base = paper(seed, states=states, actions=actions, horizon=horizon)
    alpha = float(base.alpha[0])
    return _cmdp(base.model, Threshold.normal(alpha, 0.5 * alpha, per="episode"), "paper-stochastic-v1")


def kitamura(seed: int, *, states: int = 30, actions: int = 3, horizon: int = 10) -> CMDP:
    """The random CMDP of Kitamura et al. 2024: ``paper-v1`` with other sizes.

    S = 30, A = 3, H = 10, m = 1; d = 1 - r and alpha = (1/2) max V_d as there, so the multiplier is 1 and the
    Slater gap alpha. On seeds 0 to 4, alpha is 4.26 to 4.84, the optimum 5.16 to 5.74, and the uniform
    policy's reward 0.10 to 0.56 below it.

    Versions
    --------
    v1 : first
    """
    return _opposed("kitamura", seed, _sizes(states, actions, horizon))


def independent(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, fraction: float = 0.7) -> CMDP:
    """Reward and utility know nothing of each other: r and d ~ U[0, 1] for each step, state and action.

    S = 20, A = H = 5, m = 1; Dirichlet(0.1) rows, a random first state, alpha ``fraction`` of the way from
    the utility of the best policy for reward to max V_d. On seeds 0 to 4 the optimum is 3.53 to 3.84 (4.08 to
    4.35 without the constraint, 2.41 to 2.67 for the uniform policy), the multiplier 0.69 to 1.39 and the
    Slater gap 0.46 to 0.58.

    Versions
    --------
    v1 : first
    """
    model = _uniform("independent", seed, _sizes(states, actions, horizon))
    return _cmdp(model, between(model, fraction), "independent-v1")


def conflict(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, fraction: float = 0.7) -> CMDP:
    """Reward and utility partly opposed: r ~ U[0, 1], d = (1 - r)/2 + u/2 with u ~ U[0, 1].

    S = 20, A = H = 5, m = 1; otherwise as ``independent-v1``. On seeds 0 to 4 the optimum is 2.78 to 3.09
    (3.99 to 4.25 without the constraint), the multiplier 1.19 to 1.90 and the Slater gap 0.53 to 0.72.

    Versions
    --------
    v1 : first
    """
    model = _uniform("conflict", seed, _sizes(states, actions, horizon))
    model.f[1] = 0.5 * (1.0 - model.f[0]) + 0.5 * model.f[1]
    return _cmdp(model, between(model, fraction), "conflict-v1")


def multi(
    seed: int,
    *,
    states: int = 20,
    actions: int = 5,
    horizon: int = 5,
    constraints: int = 3,
    fraction: float = 0.7,
) -> CMDP:
    """Three independent utilities at once, otherwise as ``independent-v1``.

    S = 20, A = H = 5, m = 3; alpha is ``fraction`` of the way from the utilities of the best policy for
    reward to those of the policy that maximises their sum. On seeds 0 to 4 the optimum is 3.52 to 3.85 (3.80
    to 4.42 without the constraints), all three bind with multipliers 0.22 to 1.33, and the Slater gap is 0.22
    to 0.32; on seeds 0 to 99 it is at least 0.13.

    Versions
    --------
    v1 : first
    """
    m = as_int("constraints", constraints, 1, LARGEST_FAMILY)
    model = _uniform("multi", seed, _sizes(states, actions, horizon), m)
    return _cmdp(model, between(model, fraction), "multi-v1")


def tight(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, gap: float = 0.05) -> CMDP:
    """``independent-v1`` with almost no room: alpha = max V_d - ``gap``.

    The instance of a seed is that of ``independent-v1``; only the threshold differs, and the Slater gap is
    ``gap``. On seeds 0 to 4 the optimum is 2.54 to 2.96 and the multiplier 2.79 to 6.14.

    Parameters
    ----------
    gap : what the threshold leaves of max V_d, which is the Slater gap

    Versions
    --------
    v1 : first
    """
    model = _uniform("independent", seed, _sizes(states, actions, horizon))
    most = _most_utility(model)
    return _cmdp(model, most - as_float("gap", gap, 0.0, most), "tight-v1")


def bernoulli(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, fraction: float = 0.7) -> CMDP:
    """``independent-v1`` seen through 0/1 observations: the paper's bounded model, one sample a step.

    The instance of a seed is that of ``independent-v1``, with the same optimum, multiplier and Slater gap.
    Rewards and utilities are observed as 0 or 1 with the means r and d, and every step brings a sample of the
    threshold: H with probability alpha/H, otherwise 0.

    Versions
    --------
    v1 : first
    """
    base = independent(seed, states=states, actions=actions, horizon=horizon, fraction=fraction)
    H = base.horizon
    law = Threshold.bernoulli(float(base.alpha[0]) / H, H, per="step")
    return _cmdp(base.model, law, "bernoulli-v1", noise="bernoulli")


def _distinct(rng: np.random.Generator, states: int, shape: tuple[int, ...]) -> Int:
    """States, distinct along the last axis and every set equally likely (Floyd's sampling, all rows at once).

    The order within a set is not uniform, which does not matter where the probabilities are exchangeable.
    """
    K = shape[-1]
    chosen = np.empty(shape, dtype=np.int32)
    for k in range(K):
        last = states - K + k
        drawn = rng.integers(0, last + 1, size=shape[:-1], dtype=np.int32)
        taken = (chosen[..., :k] == drawn[..., None]).any(axis=-1)
        chosen[..., k] = np.where(taken, last, drawn)
    return chosen


def garnet(
    seed: int,
    *,
    states: int = 100,
    actions: int = 4,
    horizon: int = 10,
    successors: int = 5,
    stationary: bool = False,
    constraints: int = 1,
    fraction: float = 0.7,
) -> CMDP:
    """Sparse random CMDPs of any size: K distinct successors for each step, state and action.

    S = 100, A = 4, H = 10, K = 5, m = 1 unless asked otherwise. The K successors are drawn uniformly, their
    probabilities from Dirichlet(1), r and d from U[0, 1]; the first state is 0 and alpha is as in
    ``independent-v1``. With ``stationary`` one draw serves every step. Never dense: S = 20,000, A = 4, H = 20
    takes about a second. On seeds 0 to 4 the optimum is 7.36 to 7.56 (8.18 to 8.41 without the constraint),
    the multiplier 0.87 to 1.29 and the Slater gap 0.84 to 1.09.

    Parameters
    ----------
    successors : how many states may follow a state and an action
    stationary : whether one draw serves every step

    Versions
    --------
    v1 : first
    """
    S, A, H = _sizes(states, actions, horizon)
    K, m = as_int("successors", successors, 1, S), as_int("constraints", constraints, 1, LARGEST_FAMILY)
    check_room(f"constraints is {m}; their utilities for {H} x {S} x {A}", (1 + m) * S * A * H)
    steps = 1 if switch("stationary", stationary) else H
    if steps * S * A * K > LARGEST_FAMILY:
        raise ValidationError(f"states is {S}; {steps} x {S} x {A} x {K} successors are more than {LARGEST_FAMILY:,}")
    rng = generator("garnet", seed)
    nxt = _distinct(rng, S, (steps, S, A, K))
    p = rng.dirichlet(np.ones(K), size=(steps, S, A))
    f = rng.random((1 + m, steps, S, A))
    alpha = between(Model(p, nxt, np.repeat(f, H // steps, axis=1), _point(S, 0)), fraction)
    if stationary:
        nxt, p, f = nxt[0], p[0], f[:, 0]
    return CMDP.from_successors(nxt, p, f[0], f[1:], alpha, 0, horizon=H, name="garnet-v1")
