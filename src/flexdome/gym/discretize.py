"""Continuous observations in bins.

A grid cuts each dimension i into n_i bins by n_i - 1 edges; the outer bins are open, so that every observation has one.
The state is the bins' number in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexdome.cmdp.validation import Float, as_array, as_int, as_items, frozen, shown
from flexdome.errors import ValidationError

__all__ = ["Grid", "fit_grid"]

MOST = 2**24  # states


@dataclass(frozen=True, eq=False)
class Grid:
    """Bins for each dimension of an observation.

    Attributes
    ----------
    edges : for each dimension the increasing inner edges; n edges make n + 1 bins

    Examples
    --------
    >>> grid = Grid([[0.0], [-1.0, 1.0]])
    >>> grid.states, grid([-0.5, 7.0])
    (6, 2)
    """

    edges: Sequence[Any]

    def __post_init__(self) -> None:
        given = as_items("edges", self.edges, "it must be a list of edges for each dimension")
        checked = []
        for i, one in enumerate(given):
            array = np.atleast_1d(as_array(f"edges[{i}]", one)[0])
            if array.ndim != 1 or (np.diff(array) <= 0.0).any():
                raise ValidationError(f"edges[{i}] is {shown(array.tolist())}; it must increase")
            checked.append(frozen(array))
        if not checked:
            raise ValidationError("edges is empty; it must have a list for each dimension")
        object.__setattr__(self, "edges", tuple(checked))
        if self.states > MOST:
            raise ValidationError(f"edges make {self.states} states; at most {MOST} are taken")

    @property
    def bins(self) -> tuple[int, ...]:
        """How many there are in each dimension."""
        return tuple(len(one) + 1 for one in self.edges)

    @property
    def states(self) -> int:
        """How many there are in all."""
        return math.prod(self.bins)

    def __call__(self, observation: Any) -> int:
        """The state of an observation."""
        x = np.atleast_1d(as_array("observation", observation, finite=False)[0]).ravel()
        if x.size != len(self.edges) or np.isnan(x).any():
            raise ValidationError(f"observation is {shown(observation)}; it must be {len(self.edges)} numbers")
        state = 0
        for value, one in zip(x, self.edges, strict=True):
            state = state * (len(one) + 1) + int(np.searchsorted(one, value, side="right"))
        return state


def fit_grid(env: Any, bins: Any, *, episodes: int = 100, steps: int = 1000, seed: int = 0) -> Grid:
    """Bins of equal width over what ``episodes`` of random play have shown; ``bins`` is a number for each dimension.

    ``steps`` bounds the length of an episode. A dimension that never moved is an error: its bins would be one and the
    same.
    """
    if not (hasattr(env, "reset") and hasattr(env, "step") and hasattr(getattr(env, "action_space", None), "n")):
        raise ValidationError(f"env is {shown(env)}; it must be an environment with Discrete actions")
    wanted = as_items("bins", bins, "it must be a number of bins for each dimension")
    counts = [as_int(f"bins[{i}]", n, 1, 2**16) for i, n in enumerate(wanted)]
    seen = _random_play(
        env, as_int("episodes", episodes, 1, MOST), as_int("steps", steps, 1, MOST), as_int("seed", seed, 0)
    )
    if seen.shape[1] != len(counts):
        raise ValidationError(f"bins has {len(counts)} entries; an observation has {seen.shape[1]} dimensions")
    low, high = seen.min(axis=0), seen.max(axis=0)
    for i, n in enumerate(counts):
        if n > 1 and not low[i] < high[i]:
            raise ValidationError(f"bins[{i}] is {n}; that dimension was always {low[i]:g}, so it must be 1")
    return Grid([np.linspace(a, b, n + 1)[1:-1] for a, b, n in zip(low, high, counts, strict=True)])


def _random_play(env: Any, episodes: int, steps: int, seed: int) -> Float:
    rng = np.random.default_rng(seed)
    seen = []
    for k in range(episodes):
        observation, _ = env.reset(seed=seed if k == 0 else None)
        seen.append(observation)
        for _ in range(steps):
            observation, *_, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
            seen.append(observation)
            if terminated or truncated:
                break
    flat, _ = as_array("observations", [np.atleast_1d(x).ravel() for x in seen])
    return flat
