"""Q-values of any payoff in the true model, by one backward pass over dense arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flexdome.cmdp.model import CMDP
from flexdome.cmdp.validation import Float

__all__ = ["Composite", "composite", "true_q"]


@dataclass(frozen=True)
class Composite:
    """y = r + lam d + tau psi of a policy: the payoff, and the Q-values of y and of psi, each (H, S, A)."""

    payoff: Float
    q: Float
    entropy_q: Float


def true_q(cmdp: CMDP, policy: Float, payoff: Float) -> Float:
    """(H, S, A) or (n, H, S, A): Q of ``payoff`` under ``policy``."""
    p, q = cmdp.to_dense().transitions, np.empty_like(payoff)
    v = np.zeros((*payoff.shape[:-3], cmdp.states))
    for h in reversed(range(cmdp.horizon)):
        q[..., h, :, :] = payoff[..., h, :, :] + np.einsum("sat,...t->...sa", p[h], v)
        v = (q[..., h, :, :] * policy[h]).sum(axis=-1)
    return q


def composite(cmdp: CMDP, policy: Float, multipliers: Float, tau: float) -> Composite:
    """The composite payoff of ``policy`` itself (Section 3.3) and its values."""
    with np.errstate(divide="ignore"):
        psi = -np.log(policy)
    y = cmdp.rewards + np.einsum("i,ihsa->hsa", multipliers, cmdp.utilities) + tau * psi
    q, entropy = true_q(cmdp, policy, np.stack([y, psi]))
    return Composite(y, q, entropy)
