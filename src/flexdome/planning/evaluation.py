"""Exact values of a policy, from one forward pass of its occupancy measure.

x_1(s, a) = mu(s) pi_1(a | s) and x_{h+1}(s', a') = pi_{h+1}(a' | s') sum_{s, a} p_h(s' | s, a) x_h(s, a); then
V_r = sum x r and V_{d_i} = sum x d_i for every i at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.mask import kernel_mask, refuse_forbidden
from flexdome.cmdp.mask import uniform_policy as uniform_over
from flexdome.cmdp.model import CMDP, Model
from flexdome.cmdp.validation import ROW_TOLERANCE, Float, as_array, check_rows
from flexdome.errors import ValidationError
from flexdome.kernels import bellman
from flexdome.planning.decomposition import Actions, greedy

__all__ = [
    "Baselines",
    "Evaluation",
    "as_cmdp",
    "as_policy",
    "baselines",
    "deterministic_policy",
    "evaluate",
    "evaluate_batch",
    "markov_policy",
    "mix",
    "mixed_values",
    "occupancy",
    "uniform_policy",
]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Exact values of one policy, or of n policies at once.

    Attributes
    ----------
    value : V_r, a float, or (n,)
    utilities : V_d, (m,), or (n, m)
    """

    value: float | Float
    utilities: Float


@dataclass(frozen=True, eq=False)
class Baselines:
    """What the extremes do: each is a pair of a policy (H, S, A) and its evaluation.

    ``best`` and ``worst`` maximise and minimise the reward whatever the constraints say, ``uniform`` plays
    every allowed action alike, ``safest[i]`` maximises utility i.
    """

    best: tuple[Float, Evaluation]
    worst: tuple[Float, Evaluation]
    uniform: tuple[Float, Evaluation]
    safest: tuple[tuple[Float, Evaluation], ...]


def as_cmdp(cmdp: CMDP) -> CMDP:
    """``cmdp`` itself, or an error where it is something else."""
    if not isinstance(cmdp, CMDP):
        raise ValidationError(f"cmdp is a {type(cmdp).__name__}; it must be a CMDP")
    return cmdp


def as_policy(cmdp: CMDP, policy: npt.ArrayLike, name: str = "policy") -> Float:
    """``policy`` as float64 (H, S, A), or (n, H, S, A), with rows that sum to one; copied only if it must be.

    One that may play what is not allowed is refused.
    """
    shape = (as_cmdp(cmdp).horizon, cmdp.states, cmdp.actions)
    if (
        isinstance(policy, np.ndarray)
        and policy.dtype == np.float64
        and policy.flags.c_contiguous
        and policy.ndim in (3, 4)
        and policy.shape[-3:] == shape
        and bellman.rows_are_distributions(policy.reshape(-1, shape[2]), ROW_TOLERANCE)
    ):
        refuse_forbidden(name, policy, cmdp.allowed)
        return policy
    pi, single = as_array(name, policy)
    if pi.ndim not in (3, 4) or pi.shape[-3:] != shape:
        raise ValidationError(f"{name} has shape {pi.shape}; it must be {shape}, or n of these")
    check_rows(name, pi, single)
    refuse_forbidden(name, pi, cmdp.allowed)
    return pi


def evaluate(cmdp: CMDP, policy: npt.ArrayLike) -> Evaluation:
    """Exact reward and utilities of a policy (H, S, A), or of each policy of (n, H, S, A).

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("factored-v1")
    >>> truth = fd.evaluate(cmdp, fd.solve(cmdp).policy)
    >>> round(truth.value, 10), truth.utilities.round(10).tolist()
    (2.0, [3.0])
    """
    pi = as_policy(cmdp, policy)
    values = evaluate_batch(cmdp.model, pi if pi.ndim == 4 else pi[None])
    if pi.ndim == 4:
        return Evaluation(values[:, 0], values[:, 1:])
    return Evaluation(float(values[0, 0]), values[0, 1:])


def evaluate_batch(model: Model, policies: Float) -> Float:
    """(n, 1 + m) values of ``policies`` (n, H, S, A), unchecked."""
    values = np.empty((policies.shape[0], model.f.shape[0]))
    work = np.empty((2, model.mu.size))
    bellman.evaluate_policies(model.p, model.nxt, model.mu, model.f, policies, values, work)
    return values


def mixed_values(weights: Float, values: Float) -> Float:
    """(1 + m,) values of a mixture of policies with ``values`` (n, 1 + m).

    Added in order, as compiled loops add: a product of matrices rounds differently from processor to processor.
    """
    total: Float = np.add.reduce(weights[:, np.newaxis] * values, axis=0)
    return total


def occupancy(cmdp: CMDP, policy: npt.ArrayLike) -> Float:
    """(H, S, A): the probability of being in s at step h and taking a."""
    pi = as_policy(cmdp, policy)
    if pi.ndim == 4:
        raise ValidationError(f"policy has shape {pi.shape}; occupancy takes one policy (H, S, A)")
    x = np.empty_like(pi)
    work = np.empty((2, cmdp.states))
    bellman.occupancy_forward(cmdp.model.p, cmdp.model.nxt, cmdp.model.mu, pi, x, work)
    return x


def markov_policy(x: Float, elsewhere: Float | None = None) -> Float:
    """The policy x_h(s, a) / sum_a x_h(s, a); where s is never reached, ``elsewhere`` (else uniform)."""
    mass = x.sum(axis=-1, keepdims=True)
    other = np.full(x.shape, 1.0 / x.shape[-1]) if elsewhere is None else elsewhere
    safe = np.where(mass > 0.0, mass, 1.0)
    pi: Float = np.where(mass > 0.0, x / safe, other)
    pi /= pi.sum(axis=-1, keepdims=True)
    return pi


def deterministic_policy(actions: Actions, n_actions: int) -> Float:
    """(H, S, A) one-hot policy of ``actions`` (H, S)."""
    pi = np.zeros((*actions.shape, n_actions))
    np.put_along_axis(pi, actions[..., None].astype(np.int64), 1.0, axis=-1)
    return pi


def uniform_policy(cmdp: CMDP) -> Float:
    """(H, S, A): every allowed action alike."""
    return uniform_over((cmdp.horizon, cmdp.states, cmdp.actions), cmdp.allowed)


def mix(cmdp: CMDP, policies: npt.ArrayLike, weights: npt.ArrayLike) -> Float:
    """The Markov policy with the values of a mixture: draw policy k with ``weights[k]``, keep it (Altman 1999).

    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("oscillator-v1")
    >>> b = fd.baselines(cmdp)
    >>> half = fd.mix(cmdp, [b.best[0], b.worst[0]], [0.5, 0.5])
    >>> fd.evaluate(cmdp, half).value == 0.5 * (b.best[1].value + b.worst[1].value)
    True
    """
    pis = as_policy(cmdp, policies, "policies")
    if pis.ndim != 4 or pis.shape[0] == 0:
        raise ValidationError(f"policies has shape {pis.shape}; mix takes at least one policy (n, H, S, A)")
    w, single = as_array("weights", weights)
    if w.shape != pis.shape[:1]:
        raise ValidationError(f"weights has shape {w.shape}; there are {pis.shape[0]} policies")
    check_rows("weights", w, single)
    x = sum(weight * occupancy(cmdp, pi) for weight, pi in zip(w, pis, strict=True))
    return markov_policy(np.asarray(x), elsewhere=np.einsum("k,khsa->hsa", w, pis))


def baselines(cmdp: CMDP) -> Baselines:
    """The best, worst and uniform policies for the reward, and the safest for each constraint."""
    m = as_cmdp(cmdp).constraints

    def extreme(index: int, sign: float) -> tuple[Float, Evaluation]:
        actions, values = greedy(cmdp.model, sign * np.eye(1 + m)[index], kernel_mask(cmdp.allowed))
        return deterministic_policy(actions, cmdp.actions), Evaluation(float(values[0]), values[1:])

    uniform = uniform_policy(cmdp)
    return Baselines(
        best=extreme(0, 1.0),
        worst=extreme(0, -1.0),
        uniform=(uniform, evaluate(cmdp, uniform)),
        safest=tuple(extreme(1 + i, 1.0) for i in range(m)),
    )
