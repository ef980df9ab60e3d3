"""A CMDP as a Gymnasium environment.

Observations are states and actions are actions, both ``Discrete``. An episode has H steps; its end is ``truncated``,
since nothing in the model ends it. ``info`` holds what a constrained learner needs::

    info["cost"]       c_i of this step: a float where m = 1, else (m,)
    info["utility"]    d_i = 1 - c_i likewise
    info["threshold"]  what V_d_i must reach in an episode: alpha_i, or this episode's (step's) sample of it
    info["step"]       h of the observation, 0 to H: policies here depend on it
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_int, shown
from flexdome.errors import ValidationError
from flexdome.gym.plant import Plant, as_cmdp

__all__ = ["CMDPEnv"]


class CMDPEnv(gymnasium.Env[Any, Any]):
    """One CMDP, an episode at a time, seeded as Gymnasium seeds.

    Parameters
    ----------
    environment : the id of a registered family, or a CMDP of one's own
    instance : the seed of the family's instance; ``reset(seed=)`` is that of the run
    options : the family's own

    Attributes
    ----------
    cmdp : the exact model
    P, initial_state_distrib : the model as the toy-text environments publish it, where it is stationary

    Examples
    --------
    >>> import flexdome as fd
    >>> from flexdome.gym import CMDPEnv
    >>> env = CMDPEnv("river-v1")
    >>> state, info = env.reset(seed=0)
    >>> state, reward, terminated, truncated, info = env.step(1)
    >>> info["cost"] + info["utility"]
    1.0
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own)

    def __init__(
        self, environment: str | CMDP = "paper-v1", instance: int = 0, render_mode: str | None = None, **options: Any
    ) -> None:
        if render_mode is not None:
            raise ValidationError(
                f"render_mode is {shown(render_mode)}; there is nothing to render, so it must be None"
            )
        self.cmdp = as_cmdp(environment, instance, options)
        self.render_mode = None
        self.observation_space = Discrete(self.cmdp.states)
        self.action_space = Discrete(self.cmdp.actions)
        self._plant = Plant(self.cmdp, 1)
        self._plant.h[:] = self.cmdp.horizon  # nothing is under way before the first reset

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode: the first state, and ``info`` with the threshold."""
        super().reset(seed=None if seed is None else as_int("seed", seed, 0))
        thresholds = self._plant.start(np.zeros(1, dtype=np.int64), self.np_random)
        return int(self._plant.s[0]), {"threshold": _as_info(thresholds[0]), "step": 0, **self._allowed()}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take ``action``: state, reward, False, whether the episode has had its H steps, and ``info``."""
        taken = as_int("action", action, 0, self.cmdp.actions - 1)
        if self._plant.over()[0]:
            raise gymnasium.error.ResetNeeded("the episode has had its H steps, or none was begun: call reset first")
        h, s = int(self._plant.h[0]), int(self._plant.s[0])
        if self.cmdp.allowed is not None and not self.cmdp.allowed[h, s, taken]:
            raise ValidationError(f"action is {taken}; that action is not allowed at step {h} in state {s}")
        seen = self._plant.step(np.zeros(1, dtype=np.int64), np.array([taken]), self.np_random)
        info = {
            "cost": _as_info(seen.costs[0]),
            "utility": _as_info(seen.utilities[0]),
            "threshold": _as_info(seen.thresholds[0]),
            "step": int(self._plant.h[0]),
            **self._allowed(),
        }
        return int(self._plant.s[0]), float(seen.rewards[0]), False, bool(self._plant.over()[0]), info

    def _allowed(self) -> dict[str, Any]:
        """``action_mask``, as ``action_space.sample`` takes it, where actions are forbidden and one is to follow."""
        if self.cmdp.allowed is None or self._plant.over()[0]:
            return {}
        return {"action_mask": self.cmdp.allowed[self._plant.h[0], self._plant.s[0]].astype(np.int8)}

    def __getattr__(self, name: str) -> Any:
        if name in ("P", "initial_state_distrib") and self.cmdp.stationary:
            return _table(self.cmdp) if name == "P" else self.cmdp.initial.copy()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"CMDPEnv({self.cmdp!r})"


def _as_info(values: Float) -> float | Float:
    return float(values[0]) if values.size == 1 else values.copy()


def _table(cmdp: CMDP) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    """``P[s][a]`` is a list of (probability, next state, reward, whether that is the end)."""
    p, nxt, f, _ = cmdp.model
    successors = nxt[0] if cmdp.is_sparse else np.broadcast_to(np.arange(cmdp.states), p[0].shape)
    return {
        s: {
            a: [
                (float(q), int(successor), float(f[0, 0, s, a]), False)
                for q, successor in zip(p[0, s, a], successors[s, a], strict=True)
                if q > 0.0
            ]
            for a in range(cmdp.actions)
        }
        for s in range(cmdp.states)
    }
