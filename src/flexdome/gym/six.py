"""The six-tuple convention of safety-gymnasium and omnisafe.

There ``step`` returns (observation, reward, cost, terminated, truncated, info): the cost has a place of its own, and
the rest is as in Gymnasium.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from flexdome.cmdp.validation import as_array, as_int, instance_of, shown
from flexdome.errors import ValidationError

__all__ = ["SixTuple"]


class SixTuple:
    """A Gymnasium environment whose ``info["cost"]`` becomes the third of six values.

    Parameters
    ----------
    env : an environment with ``info["cost"]``, such as :class:`CMDPEnv`
    constraint : which cost, where there are several; None where there is one
    """

    def __init__(self, env: gymnasium.Env[Any, Any], constraint: int | None = None) -> None:
        self.env = instance_of("env", env, gymnasium.Env)
        self.constraint = None if constraint is None else as_int("constraint", constraint, 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode: observation and ``info``."""
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, float, bool, bool, dict[str, Any]]:
        """Take ``action``: observation, reward, cost, terminated, truncated, ``info``."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward), self._cost(info), terminated, truncated, info

    def _cost(self, info: dict[str, Any]) -> float:
        if "cost" not in info:
            raise ValidationError(f"info has {shown(list(info))}; it must have 'cost'")
        costs = as_array("info['cost']", info["cost"])[0].ravel()
        if self.constraint is None and costs.size != 1:
            raise ValidationError(
                f"info['cost'] has {costs.size} entries; say which is meant, constraint=0 for the first"
            )
        i = self.constraint or 0
        if i >= costs.size:
            raise ValidationError(f"constraint is {i}; it must be between 0 and {costs.size - 1}")
        return float(costs[i])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"SixTuple({shown(self.env)})"
