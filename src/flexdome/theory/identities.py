"""Two lemmas of Mueller et al. (2024) that the proof stands on, as arrays that can be looked at (appendix B)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, xlogy

from flexdome.cmdp.model import CMDP
from flexdome.cmdp.validation import Float, as_array, as_positive, check_rows
from flexdome.errors import ValidationError
from flexdome.planning.evaluation import as_policy, occupancy

__all__ = ["MirrorStep", "ValueDifference", "kl", "mirror_step", "one_policy", "value_difference"]


STEEPEST = 300.0  # of eta g: exp of more, times g^2, may be no float64


class MirrorStep(NamedTuple):
    """One step and both sides of its inequality, which holds where ``left <= right``."""

    next: Float
    left: Float
    right: Float


class ValueDifference(NamedTuple):
    """The three parts; their sum is V_y^{pi*} - V_y^{pi}."""

    estimation: float
    improvement: float
    consistency: float


def _rows(name: str, value: npt.ArrayLike) -> Float:
    """Rows along the last axis that are distributions."""
    array, single = as_array(name, value)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValidationError(f"{name} has shape {array.shape}; it must have entries along its last axis")
    return check_rows(name, array, single)


def kl(p: npt.ArrayLike, q: npt.ArrayLike) -> Float:
    """KL(p, q) along the last axis."""
    p_, q_ = _rows("p", p), _rows("q", q)
    if p_.shape != q_.shape:
        raise ValidationError(f"p and q have shapes {p_.shape} and {q_.shape}; they must have one")
    with np.errstate(divide="ignore"):
        divergence: Float = (xlogy(p_, p_) - xlogy(p_, q_)).sum(axis=-1)
    return divergence


def mirror_step(x: npt.ArrayLike, gain: npt.ArrayLike, eta: float, target: npt.ArrayLike) -> MirrorStep:
    """One step x' ~ x exp(eta g) and its lemma: for g >= 0 and x~ = x exp(eta g), not normalised (appendix B).

        g . (x* - x) <= (KL(x*, x) - KL(x*, x')) / eta + (eta / 2) sum_i x~_i g_i^2.

    The paper states it with an argmax over the wrong argument; this is what is used.

    Parameters
    ----------
    x, gain, target : (..., d), distributions x and x* along the last axis
    """
    x_, star, g = _rows("x", x), _rows("target", target), as_array("gain", gain)[0]
    if not x_.shape == star.shape == g.shape:
        shapes = f"{x_.shape}, {g.shape} and {star.shape}"
        raise ValidationError(f"x, gain and target have shapes {shapes}; they must have one")
    eta = as_positive("eta", eta)
    if float(g.min()) < 0.0:
        raise ValidationError(f"gain has the value {g.min():g}; the lemma is for gains that are not negative")
    if eta * float(g.max()) > STEEPEST:
        raise ValidationError(f"eta times the largest gain is {eta * g.max():g}; it must be at most {STEEPEST:g}")
    with np.errstate(divide="ignore"):
        logits = np.log(x_) + eta * g
    after: Float = np.exp(logits - logsumexp(logits, axis=-1, keepdims=True))
    left = (g * (star - x_)).sum(axis=-1)
    far = kl(star, x_)  # infinite where x is 0 and x* is not; then so is the bound
    nearer = np.where(np.isinf(far), 0.0, kl(star, after))
    right = (far - nearer) / eta + 0.5 * eta * (np.exp(logits) * g**2).sum(axis=-1)
    return MirrorStep(after, left, right)


def one_policy(cmdp: CMDP, policy: npt.ArrayLike, name: str = "policy") -> Float:
    """One policy, (H, S, A)."""
    pi = as_policy(cmdp, as_array(name, policy)[0], name)
    if pi.ndim != 3:
        raise ValidationError(f"{name} has shape {pi.shape}; it must be one policy, {pi.shape[1:]}")
    return pi


def value_difference(
    cmdp: CMDP, target: npt.ArrayLike, policy: npt.ArrayLike, payoff: npt.ArrayLike, q: npt.ArrayLike
) -> ValueDifference:
    """V_y^{pi*} - V_y^{pi} = (V^ - V_y^{pi}) + E*[<Q^, pi* - pi>] + E*[y + p V^ - Q^], whatever Q^ is.

    V^_h(s) = <Q^_h(s, .), pi_h(. | s)> and E* is along pi* in the true model (appendix B, after Mueller et al. 2024).
    The paper writes Q^(s_h, .) in the third part, for Q^(s_h, a_h).

    Parameters
    ----------
    target, policy : (H, S, A) pi* and pi
    payoff : (H, S, A) y
    q : (H, S, A) any estimate Q^
    """
    star, pi = one_policy(cmdp, target, "target"), one_policy(cmdp, policy)
    y, q_, x = as_array("payoff", payoff)[0], as_array("q", q)[0], occupancy(cmdp, star)
    for name, array in (("payoff", y), ("q", q_)):
        if array.shape != pi.shape:
            raise ValidationError(f"{name} has shape {array.shape}; it must be {pi.shape}")
    v = (q_ * pi).sum(axis=-1)
    later = np.einsum("hsat,ht->hsa", cmdp.to_dense().transitions, np.vstack([v[1:], np.zeros((1, cmdp.states))]))
    true = float((occupancy(cmdp, pi) * y).sum())
    reached = x.sum(axis=-1)
    return ValueDifference(
        estimation=float(cmdp.initial @ v[0]) - true,
        improvement=float((reached[..., None] * q_ * (star - pi)).sum()),
        consistency=float((x * (y + later - q_)).sum()),
    )
