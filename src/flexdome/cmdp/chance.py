"""A chance constraint: how often an episode's own sum meets the limit, not its mean.

A threshold is about the *expected* utility of a policy. Where each single episode must meet its limit, up to a share of
them, the state is extended by the sum so far, and the utility becomes 1 at the last step if the sum has reached
``level``: its value is the probability of that,

    V_u^pi = P_pi(sum_h d_i,h >= level),   and the constraint is   V_u^pi >= probability.

The sum is counted in ``bins`` units of level / bins, each step rounded down: what is counted never exceeds what was
earned, so a policy that is safe here is safe in truth. With 0/1 observations the sum is a whole number and is counted
exactly. State s with b units counted has the number s (bins + 1) + b.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flexdome.cmdp.model import CMDP
from flexdome.cmdp.validation import as_float, as_int, check_room, instance_of
from flexdome.errors import ValidationError

__all__ = ["chance_constraint"]

ROUNDING = 1e-9  # of a unit: 0.3 is three units of 0.1
LEAST_LEVEL = 1e-9  # every sum reaches 0


def chance_constraint(
    cmdp: CMDP, probability: float, *, constraint: int = 0, level: float | None = None, bins: int | None = None
) -> CMDP:
    """The CMDP in which a constraint asks that an episode's sum reach ``level`` with ``probability``.

    Parameters
    ----------
    cmdp : the problem as it is
    probability : the share of episodes whose sum must reach the level
    constraint : which one is replaced; the others stay
    level : what the sum of an episode must reach; None is the mean of the constraint's threshold
    bins : units that the level is counted in, 20 unless given. Not for 0/1 observations, whose sum is counted as it is

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("inventory-v1")
    >>> each = fd.chance_constraint(cmdp, 0.9, level=3.0, bins=30)
    >>> each.states == 31 * cmdp.states
    True
    """
    instance_of("cmdp", cmdp, CMDP)
    H, S, A, m = cmdp.horizon, cmdp.states, cmdp.actions, cmdp.constraints
    i = as_int("constraint", constraint, 0, m - 1)
    share = as_float("probability", probability, 0.0, 1.0)
    least = as_float("level", float(cmdp.alpha[i]) if level is None else level, 0.0, float(H))
    if least < LEAST_LEVEL:
        raise ValidationError(f"level is {least!r}; it must be positive, and at least {LEAST_LEVEL:g}")
    drawn = cmdp.noise == "bernoulli"
    if drawn and bins is not None:
        raise ValidationError(f"bins is {bins!r}; with 0/1 observations the sum is counted as it is")
    B = math.ceil(least - ROUNDING) if drawn else as_int("bins", 20 if bins is None else bins, 1, 2**16)
    p, nxt, f, mu = cmdp.model
    K = p.shape[3]
    check_room(f"the states are {S} x {B + 1}; their transitions", H * S * (B + 1) * A * K * (1 + drawn))
    d = f[1 + i]
    gain = np.ones((H, S, A), dtype=np.int64) if drawn else np.floor(d / (least / B) + ROUNDING).astype(np.int64)
    so_far = np.arange(B + 1)
    after = np.minimum(so_far[:, None] + gain[:, :, None], B)  # (H, S, B + 1, A)

    follows: Any = np.broadcast_to(nxt if nxt.shape[3] else np.arange(S), (H, S, A, K))
    weight = np.broadcast_to(p, (H, S, A, K))
    wide = (H, S, B + 1, A, K)
    moved = follows[:, :, None] * (B + 1) + after[..., None]
    chances = np.broadcast_to(weight[:, :, None], wide)
    if drawn:  # one more with probability d, as many as before otherwise
        earned = d[:, :, None, :, None]
        moved = np.concatenate([moved, follows[:, :, None] * (B + 1) + so_far[:, None, None]], axis=-1)
        chances = np.concatenate([chances * earned, chances * (1.0 - earned)], axis=-1)
    reached = np.zeros((H, S, B + 1, A))
    reached[-1] = after[-1] >= B
    if drawn:
        reached[-1] = np.where(so_far[:, None] >= B, 1.0, np.where(so_far[:, None] == B - 1, d[-1][:, None], 0.0))
    shape = (H, S * (B + 1), A)
    utilities = np.broadcast_to(f[1:, :, :, None], (m, H, S, B + 1, A)).copy()
    utilities[i] = reached
    thresholds: list[Any] = list(cmdp.thresholds)
    thresholds[i] = share
    initial = np.zeros((S, B + 1))
    initial[:, 0] = mu
    return CMDP.from_successors(
        moved.reshape(*shape, -1),
        chances.reshape(*shape, -1),
        np.broadcast_to(f[0][:, :, None], (H, S, B + 1, A)).reshape(shape),
        utilities.reshape(m, *shape),
        thresholds,
        initial.reshape(-1),
        noise=cmdp.noise,
        allowed=None if cmdp.allowed is None else np.repeat(cmdp.allowed, B + 1, axis=1),
        name=f"{cmdp.name}, by chance" if cmdp.name else "",
    )
