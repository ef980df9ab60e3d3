"""Hypothesis strategies: random CMDPs, dense and sparse, with what they are built from, and policies.

Sizes and kinds are drawn by Hypothesis, so that they shrink; the numbers come from a drawn seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import flexdome as fd

Arguments = dict[str, Any]

# The first call of a kernel compiles it, and machines differ: no example has a deadline.
settings.register_profile("flexdome", deadline=None)
settings.load_profile("flexdome")

SEEDS = st.integers(0, 2**32 - 1)


def build(arguments: Arguments) -> fd.CMDP:
    """The CMDP of ``arguments``: dense, sparse (``next_states``) or in the cost form (``costs``)."""
    if "costs" in arguments:
        return fd.CMDP.from_costs(**arguments)
    if "next_states" in arguments:
        return fd.CMDP.from_successors(**arguments)
    return fd.CMDP(**arguments)


@st.composite
def arguments(
    draw: st.DrawFn,
    *,
    max_states: int = 4,
    max_actions: int = 3,
    max_horizon: int = 4,
    max_constraints: int = 2,
    sparse: bool | None = None,
    stationary: bool | None = None,
    laws: bool = False,
    costs: bool = False,
) -> Arguments:
    """What a feasible CMDP is built from (the uniform policy meets every threshold with room to spare).

    ``sparse`` and ``stationary`` None means either; each array is stationary or not by itself unless
    ``stationary`` says. ``laws`` lets thresholds be stochastic; ``costs`` gives costs and limits instead of
    utilities and thresholds.
    """
    S, A, H = (draw(st.integers(1, n)) for n in (max_states, max_actions, max_horizon))
    m = draw(st.integers(1, max_constraints))
    sparse = draw(st.booleans()) if sparse is None else sparse
    rng = np.random.default_rng(draw(SEEDS))

    def steps() -> tuple[int, ...]:
        return () if (draw(st.booleans()) if stationary is None else stationary) else (H,)

    K = draw(st.integers(1, S + 1)) if sparse else S
    p = draw(st.sampled_from((_dirichlet, _few, _certain)))(rng, (*steps(), S, A, K))
    values = draw(st.sampled_from((_continuous, _grid, _binary)))
    r = values(rng, (*steps(), S, A))
    d = values(rng, (m, *steps(), S, A))
    d[..., 0] = np.maximum(d[..., 0], 0.25)  # so that every utility is positive under the uniform policy
    mu = draw(st.sampled_from((_dirichlet, _few, _certain)))(rng, (S,))
    made: Arguments = {"rewards": r, "initial": mu, "horizon": H}
    if draw(st.booleans()):
        made["initial"] = int(mu.argmax())
        mu = np.eye(S)[made["initial"]]
    made["noise"] = draw(st.sampled_from(("none", "bernoulli")))
    if sparse:
        made["next_states"] = rng.integers(0, S, size=p.shape)
    made["transitions" if costs or not sparse else "probabilities"] = p

    alpha = draw(st.floats(0.0, 0.9)) * _uniform_utility(made.get("next_states"), p, d, mu, H)
    bounds = [draw(_laws_of(float(a))) if laws else float(a) for a in (H - alpha if costs else alpha)]
    made["limits" if costs else "thresholds"] = bounds
    made["costs" if costs else "utilities"] = 1.0 - d if costs else d
    return made


def cmdps(**options: Any) -> st.SearchStrategy[fd.CMDP]:
    """Feasible CMDPs with a positive Slater gap; the options are those of :func:`arguments`."""
    return arguments(**options).map(build)


@st.composite
def policies(draw: st.DrawFn, cmdp: fd.CMDP) -> np.ndarray:
    """A policy (H, S, A): random, with few actions, or deterministic."""
    rng = np.random.default_rng(draw(SEEDS))
    kind = draw(st.sampled_from((_dirichlet, _few, _certain)))
    return kind(rng, (cmdp.horizon, cmdp.states, cmdp.actions))


def _laws_of(mean: float) -> st.SearchStrategy[float | fd.Threshold]:
    """A number, or a law with (nearly) that mean."""
    per = st.sampled_from(("episode", "step"))
    width = st.floats(0.0, 2.0)
    return st.one_of(
        st.just(mean),
        st.builds(lambda s, k: fd.Threshold.normal(mean, s, per=k), width, per),
        st.builds(lambda w, k: fd.Threshold.normal(mean, w, per=k, clip=(mean - w, mean + w)), width, per),
        st.builds(lambda w, k: fd.Threshold.uniform(mean - w, mean + w, per=k), width, per),
        st.builds(lambda p, k: fd.Threshold.bernoulli(p, mean / p, per=k), st.floats(0.5, 1.0), per),
    )


def _uniform_utility(
    next_states: np.ndarray | None, p: np.ndarray, d: np.ndarray, mu: np.ndarray, H: int
) -> np.ndarray:
    """(m,) utilities of the uniform policy, by its state distribution step by step."""
    S, A = p.shape[-3:-1]
    nxt = np.broadcast_to(np.arange(S), p.shape) if next_states is None else next_states
    total, at = np.zeros(d.shape[0]), mu
    for h in range(H):
        here = d[:, h] if d.ndim == 4 else d
        total += (here * at[:, None] / A).sum(axis=(1, 2))
        p_h, nxt_h = (x[h] if x.ndim == 4 else x for x in (p, nxt))
        at = np.bincount(nxt_h.ravel(), (p_h * at[:, None, None] / A).ravel(), minlength=S)
    return total


def _dirichlet(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def _few(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    weights = rng.random(shape) * (rng.random(shape) < 0.5) + _certain(rng, shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def _certain(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.eye(shape[-1])[rng.integers(0, shape[-1], size=shape[:-1])]


def _continuous(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.random(shape)


def _grid(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 5, size=shape) / 4.0


def _binary(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 2, size=shape).astype(np.float64)
