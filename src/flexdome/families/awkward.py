"""Problems that a learner made for well-behaved ones may stumble over.

Each takes one thing that random families leave out: other units, rare events, many cells that look alike, states that
are rarely seen, ways back that do not exist, rewards that are far away, thresholds that are hardly known. Thresholds
come from the exact truth of the instance, so that they can be met and the Slater gap is known.
"""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP, Threshold
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float, as_float, as_int, check_room
from flexdome.families.random import (
    LARGEST_FAMILY,
    _cmdp,
    _dirichlet_rows,
    _point,
    _sizes,
    between,
    generator,
    independent,
)
from flexdome.families.structured import _line

__all__ = [
    "contexts",
    "deep_sea",
    "lottery",
    "noisy",
    "rapids",
    "rare_costs",
    "rare_starts",
    "small_units",
    "traps",
    "twins",
]


def small_units(
    seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, fraction: float = 0.7, scale: float = 0.01
) -> CMDP:
    """``independent-v1`` with the utility and its threshold in other units: d' = ``scale`` d.

    The instance of a seed is that of ``independent-v1``. The optimum is the same, the Slater gap is ``scale`` times the
    one there, the multiplier is divided by ``scale``.

    Parameters
    ----------
    scale : what the utility and its threshold are multiplied by

    Versions
    --------
    v1 : first
    """
    base = independent(seed, states=states, actions=actions, horizon=horizon, fraction=fraction)
    scale, f = as_float("scale", scale, 1e-9, 1.0), base.model.f.copy()
    f[1] *= scale
    return _cmdp(base.model._replace(f=f), scale * base.alpha, "small-units-v1")


def rare_costs(
    seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, rate: float = 0.02, fraction: float = 0.7
) -> CMDP:
    """Accidents, one in fifty, that are seen as 0 or 1.

    S = 20, A = H = 5, m = 1; Dirichlet(0.1) rows, a random first state, r uniform on [0, 1]. A step costs 1 with a
    probability drawn from U[0, 2 ``rate``], otherwise nothing; the utility is what is left, d = 1 - c. Rewards and
    utilities are observed as 0 or 1. The threshold is ``fraction`` of the way from the best policy for reward to the
    best for the utility.

    Parameters
    ----------
    rate : the mean probability of an accident in a step

    Versions
    --------
    v1 : first
    """
    sizes, rate = _sizes(states, actions, horizon), as_float("rate", rate, 0.0, 0.5)
    S, A, H = sizes
    rng = generator("rare-costs", seed)
    p = _dirichlet_rows(rng, sizes)
    f = rng.random((2, H, S, A))
    f[1] = 1.0 - 2.0 * rate * f[1]
    model = Model(p, NO_SUCCESSORS, f, _point(S, rng.integers(S)))
    return _cmdp(model, between(model, fraction), "rare-costs-v1", noise="bernoulli")


def contexts(
    seed: int, *, states: int = 200, actions: int = 4, horizon: int = 2, spread: float = 0.2, fraction: float = 0.7
) -> CMDP:
    """Hundreds of contexts with actions that hardly differ, seen as 0 or 1.

    S = 200, A = 4, H = 2, m = 1. The first state and every next one is uniform, whatever is done. For each step and
    state r and d are 1/2 plus, for each action, a number drawn from U[-``spread`` / 2, ``spread`` / 2]; observed as 0
    or 1. The threshold as in ``independent-v1``.

    Parameters
    ----------
    spread : how far the rewards, and the utilities, of actions may lie apart

    Versions
    --------
    v1 : first
    """
    sizes, spread = _sizes(states, actions, horizon), as_float("spread", spread, 0.0, 1.0)
    S, A, H = sizes
    check_room(f"states is {S}, actions {A} and horizon {H}; the transitions", H * S * A * S)
    f = 0.5 + spread * (generator("contexts", seed).random((2, H, S, A)) - 0.5)
    model = Model(np.full((H, S, A, S), 1.0 / S), NO_SUCCESSORS, f, np.full(S, 1.0 / S))
    return _cmdp(model, between(model, fraction), "contexts-v1", noise="bernoulli")


def twins(
    seed: int, *, states: int = 10, actions: int = 20, horizon: int = 5, alike: int = 10, fraction: float = 0.7
) -> CMDP:
    """Twenty actions, ten of which are the same one, seen as 0 or 1.

    S = 10, A = 20, H = 5, m = 1; Dirichlet(0.1) rows, a random first state. The first ``alike`` actions of a state have
    the same transitions, reward and utility; all others are drawn as in ``independent-v1``. In each step and state the
    action that is shared has the best utility of all drawn, so that near the threshold the choice is among equals.

    Parameters
    ----------
    alike : how many actions of a state are the same one

    Versions
    --------
    v1 : first
    """
    sizes = _sizes(states, actions, horizon)
    S, A, H = sizes
    alike = as_int("alike", alike, 1, A)
    rng = generator("twins", seed)
    p, f = _dirichlet_rows(rng, sizes), rng.random((2, H, S, A))
    best = f[1].argmax(axis=-1)[..., None]
    for array in (p, f[0], f[1]):
        at = best if array.ndim == 3 else best[..., None]
        array[:, :, :alike] = np.take_along_axis(array, at, axis=2)
    model = Model(p, NO_SUCCESSORS, f, _point(S, rng.integers(S)))
    return _cmdp(model, between(model, fraction), "twins-v1", noise="bernoulli")


def rare_starts(
    seed: int,
    *,
    states: int = 20,
    actions: int = 5,
    horizon: int = 5,
    starts: int = 5,
    chance: float = 0.002,
    fraction: float = 0.7,
) -> CMDP:
    """First states that come up once in five hundred episodes.

    The models of ``independent-v1`` but for the first states: its own one, and ``starts`` others with probability
    ``chance`` each.

    Parameters
    ----------
    starts : how many rare first states there are
    chance : the probability of each of them

    Versions
    --------
    v1 : first
    """
    base = independent(seed, states=states, actions=actions, horizon=horizon)
    S = base.states
    rare = as_int("starts", starts, 1, S)
    chance = as_float("chance", chance, 0.0, 1.0 / rare)
    mu = (1.0 - rare * chance) * base.initial
    mu[generator("rare-starts", seed).permutation(S)[:rare]] += chance
    model = base.model._replace(mu=mu / mu.sum())
    return _cmdp(model, between(model, fraction), "rare-starts-v1")


def traps(seed: int, *, states: int = 12, actions: int = 4, horizon: int = 10, fraction: float = 0.7) -> CMDP:
    """Actions that look good and lead to a state without a way out, which pays well and breaks the constraint.

    S = 12, A = 4, H = 10, m = 1, stationary. Between the ordinary states transitions are drawn from Dirichlet(0.3), r
    and d uniform on [0, 1]; the last state cannot be left, earns 0.9 and has utility 0. In every ordinary state one
    action (a random one) earns 1, has utility 1 and leads to the trap with a probability drawn from U[0.05, 0.3].

    Versions
    --------
    v1 : first
    """
    S, A, H = _sizes(states, actions, horizon)
    S = as_int("states", S, 2, LARGEST_FAMILY)
    check_room(f"states is {S} and actions {A}; the transitions", S * A * S)
    rng = generator("traps", seed)
    p = np.zeros((S, A, S))
    p[..., : S - 1] = rng.dirichlet(np.full(S - 1, 0.3), size=(S, A))
    f = rng.random((2, S, A))
    at, falls = rng.integers(A, size=S), rng.uniform(0.05, 0.3, size=S)
    for s in range(S - 1):
        p[s, at[s]] *= 1.0 - falls[s]
        p[s, at[s], S - 1] += falls[s]
        f[:, s, at[s]] = 1.0
    p[S - 1], f[0, S - 1], f[1, S - 1] = np.eye(S)[S - 1], 0.9, 0.0
    return _stationary(p, f, 0, H, fraction, "traps-v1")


def _stationary(p: Float, f: Float, first: int, horizon: int, fraction: float, name: str) -> CMDP:
    """One model for all steps, the threshold ``fraction`` of the way."""
    every = Model(p[None], NO_SUCCESSORS, np.repeat(f[:, None], horizon, axis=1), _point(p.shape[0], first))
    return CMDP(p, f[0], f[1:], between(every, fraction), first, horizon=horizon, name=name)


def deep_sea(seed: int, *, depth: int = 8, fraction: float = 0.7) -> CMDP:
    """A reward at the end of one long way, and every step of that way costs.

    S = H = ``depth`` = 8 columns, A = 2, m = 1, one row a step, starting in the first column. In each column one of the
    two actions (a random one) moves right and the other left; only the last column pays 1, at the last step. Moving
    left earns 0.01; moving right costs 1 with a probability drawn from U[0.2, 0.8] for each step and column. The
    threshold is ``fraction`` of the way.

    Parameters
    ----------
    depth : how many columns there are, and steps of an episode

    Versions
    --------
    v1 : first
    """
    S = as_int("depth", depth, 3, 2_000)
    check_room(f"depth is {S}; the transitions", 2 * S**3)
    rng = generator("deep-sea", seed)
    right = rng.integers(2, size=(S, S))  # [h, s]
    p, f = np.zeros((S, S, 2, S)), np.zeros((2, S, S, 2))
    h, s = np.ogrid[:S, :S]
    p[h, s, right, np.minimum(s + 1, S - 1)] = 1.0
    p[h, s, 1 - right, np.maximum(s - 1, 0)] = 1.0
    f[0][h, s, 1 - right] = 0.01
    f[0, S - 1, S - 1, :] = 1.0
    f[1] = 1.0
    f[1][h, s, right] = 1.0 - rng.uniform(0.2, 0.8, size=(S, S))
    model = Model(p, NO_SUCCESSORS, f, _point(S, 0))
    return _cmdp(model, between(model, fraction), "deep-sea-v1")


def noisy(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, spread: float = 2.0) -> CMDP:
    """``independent-v1`` with a threshold that is known from samples only, whose spread is 2 H.

    One sample an episode, normal, with a standard deviation of ``spread`` times the horizon.

    Parameters
    ----------
    spread : the standard deviation of a sample of the threshold, as a multiple of the horizon

    Versions
    --------
    v1 : first
    """
    base = independent(seed, states=states, actions=actions, horizon=horizon)
    std = as_float("spread", spread, 0.0, 1e6) * base.horizon
    return _cmdp(base.model, Threshold.normal(float(base.alpha[0]), std), "noisy-v1")


def lottery(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, chance: float = 0.0005) -> CMDP:
    """``independent-v1`` with a threshold of two values, one of which comes once in two thousand episodes.

    One sample an episode: alpha / (2 ``chance``) with probability ``chance``, otherwise alpha / 2 / (1 - ``chance``).

    Parameters
    ----------
    chance : the probability of the large one of the two values

    Versions
    --------
    v1 : first
    """
    base = independent(seed, states=states, actions=actions, horizon=horizon)
    chance, alpha = as_float("chance", chance, 1e-9, 0.5), float(base.alpha[0])
    law = Threshold("two-point", (chance, 0.5 * alpha / (1.0 - chance), 0.5 * alpha / chance))
    return _cmdp(base.model, law, "lottery-v1")


def rapids(seed: int, *, states: int = 8, horizon: int = 20) -> CMDP:
    """``river-v1`` with a longer river and a stronger stream, which differs from seed to seed.

    S = 8 from the left bank to the right, A = 3, H = 20, m = 1, stationary. Swimming leads to the right with a
    probability drawn for each place from U[0.25, 0.4] and back with one from U[0.1, 0.2]; sprinting to the right with
    one from U[0.6, 0.9], never back, and costs 1. Drifting at the left bank earns 0.005, swimming or sprinting at the
    right bank 1. The limit is a quarter of the horizon.

    Versions
    --------
    v1 : first
    """
    S, H = as_int("states", states, 2, 10_000), as_int("horizon", horizon, 1, LARGEST_FAMILY)
    check_room(f"states is {S}; the transitions", S * 3 * S)
    rng = generator("rapids", seed)
    down, up = np.zeros((S, 3)), np.zeros((S, 3))
    down[:, 0] = 1.0
    down[:, 1], up[:, 1] = rng.uniform(0.1, 0.2, size=S), rng.uniform(0.25, 0.4, size=S)
    up[:, 2] = rng.uniform(0.6, 0.9, size=S)
    down[0, 1], up[0, 1], down[-1, 1], up[-1, 1] = 0.0, 0.6, 0.4, 0.0
    reward = np.zeros((S, 3))
    reward[0, 0], reward[-1, 1:] = 0.005, 1.0
    cost = np.tile([0.0, 0.0, 1.0], (S, 1))
    return CMDP.from_costs(_line(S, down, up), reward, cost[None], H / 4.0, 0, horizon=H, name="rapids-v1")
