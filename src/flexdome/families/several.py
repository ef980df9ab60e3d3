"""Several constraints that pull apart.

Thresholds are set from the largest smallest slack that any policy has (:func:`with_gap`), so that they can be met by
construction and the Slater gap is known; the policy that maximises the *sum* of the utilities meets them as a rule
only by chance.
"""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float, as_float, as_int, check_room
from flexdome.families.random import LARGEST_FAMILY, _cmdp, _point, _sizes, _uniform, generator
from flexdome.planning.decomposition import greedy, largest_slack

__all__ = ["band", "dosing", "opposed", "with_gap"]


def with_gap(model: Model, level: Float, gap: float) -> Float:
    """(m,) thresholds ``level`` plus one number for all, so that the Slater gap is ``gap`` exactly."""
    alpha: Float = level + (largest_slack(model, level).value - gap)
    return alpha


def opposed(
    seed: int,
    *,
    states: int = 20,
    actions: int = 5,
    horizon: int = 5,
    constraints: int = 3,
    fraction: float = 0.93,
) -> CMDP:
    """Utilities that are partly opposed to one another, thresholds at 93 % of the largest smallest utility.

    S = 20, A = H = 5, m = 3; Dirichlet(0.1) rows, a random first state. r and v_1, ..., v_m are uniform on [0, 1] and
    independent, d_1 = v_1, and every other d_i = (1 - v_1)/2 + v_i/2 is partly opposed to it. With b the largest
    smallest utility, max_pi min_i V_{d_i}, every threshold is ``fraction`` b: the Slater gap is (1 - fraction) b. The
    policy that maximises the sum of the utilities does not meet them as a rule.

    On seeds 0 to 2 the thresholds are 2.65 to 2.72, the optimum 3.80 to 3.92 and the Slater gap 0.20.

    Parameters
    ----------
    fraction : the thresholds, as a part of the largest smallest utility; the rest is the Slater gap

    Versions
    --------
    v1 : first
    """
    m, fraction = as_int("constraints", constraints, 1, LARGEST_FAMILY), as_float("fraction", fraction, 0.0, 1.0)
    model = _uniform("opposed", seed, _sizes(states, actions, horizon), m)
    model.f[2:] = 0.5 * (1.0 - model.f[1]) + 0.5 * model.f[2:]
    best = largest_slack(model, np.zeros(m)).value
    return _cmdp(model, np.full(m, fraction * best), "opposed-v1")


def band(seed: int, *, states: int = 20, actions: int = 5, horizon: int = 5, gap: float = 0.15) -> CMDP:
    """One quantity that must be neither too small nor too large: d_1 = v and d_2 = 1 - v.

    S = 20, A = H = 5, m = 2; Dirichlet(0.1) rows, a random first state, r and v uniform on [0, 1]. V_v must lie within
    ``gap`` of a level seven tenths of the way from its value under the best policy for reward to its largest value; so
    the Slater gap is ``gap``.

    Parameters
    ----------
    gap : how far V_v may lie from its level on either side, which is the Slater gap

    Versions
    --------
    v1 : first
    """
    sizes = _sizes(states, actions, horizon)
    model = _uniform("band", seed, sizes, 2)
    model.f[2] = 1.0 - model.f[1]
    low = float(greedy(model, np.array([1.0, 0.0, 0.0]))[1][1])
    high = float(greedy(model, np.array([0.0, 1.0, 0.0]))[1][1])
    level = low + 0.7 * (high - low)
    gap = as_float("gap", gap, 0.0, min(level, sizes[2] - level))
    return _cmdp(model, np.array([level - gap, sizes[2] - level - gap]), "band-v1")


def dosing(seed: int, *, bins: int = 12, horizon: int = 24, gap: float = 0.75) -> CMDP:
    """A level kept within a band by one of five rates, and the rates cost.

    S = ``bins`` = 12 levels, A = 5 rates, H = 24, m = 2, stationary, starting at the lowest level. In a step the level
    falls by one with a probability drawn from U[0.3, 0.5], and rate a raises it by 0, 1 or 2 with Binomial(2, u_a),
    u_a = a / 4 times a number drawn from U[0.7, 1]; levels beyond the ends stay there. The first utility is 1 in the
    four levels of the band (half of the way up) and falls by 1/4 with each level outside it; the second is 1 - a / 4
    of what was given. Reward grows with the level, so the best level lies above the band, and a number drawn from
    U[0, 0.2] is added to each (level, rate). Thresholds are 0.8 H and 0.5 H, moved together until the Slater gap is
    ``gap``.

    Parameters
    ----------
    bins : how many levels there are
    gap : the Slater gap, to which the thresholds are moved

    Versions
    --------
    v1 : first
    """
    S, H = as_int("bins", bins, 6, 10_000), as_int("horizon", horizon, 1, LARGEST_FAMILY)
    check_room(f"bins is {S} and horizon {H}; the transitions", S * 5 * S * H)
    rng = generator("dosing", seed)
    falls = rng.uniform(0.3, 0.5)
    u = np.arange(5) / 4.0 * rng.uniform(0.7, 1.0, size=5)
    up = np.stack([(1.0 - u) ** 2, 2.0 * u * (1.0 - u), u**2], axis=1)  # [a, raised by]
    p = np.zeros((S, 5, S))
    s, a = np.ogrid[:S, :5]
    for raised in range(3):
        for fallen, chance in ((0, 1.0 - falls), (1, falls)):
            after = np.clip(s + raised - fallen, 0, S - 1)
            np.add.at(p, (s, a, np.broadcast_to(after, (S, 5))), np.broadcast_to(chance * up[:, raised], (S, 5)))
    level = np.arange(S)
    low = S // 2 - 2
    outside = np.maximum(np.maximum(low - level, level - (low + 3)), 0)
    inside = np.maximum(1.0 - 0.25 * outside, 0.0)
    f = np.stack(
        [
            0.8 * np.tile((level / (S - 1.0))[:, None], (1, 5)) + rng.uniform(0.0, 0.2, size=(S, 5)),
            np.tile(inside[:, None], (1, 5)),
            np.tile(1.0 - np.arange(5) / 4.0, (S, 1)),
        ]
    )
    every = Model(p[None], NO_SUCCESSORS, np.repeat(f[:, None], H, axis=1), _point(S, 0))
    most = largest_slack(every, np.zeros(2)).value
    alpha = with_gap(every, np.array([0.8, 0.5]) * H, as_float("gap", gap, 0.0, most))
    return CMDP(p, f[0], f[1:], alpha, 0, horizon=H, name="dosing-v1")
