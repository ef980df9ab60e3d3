"""Many copies of a CMDP in one compiled call.

What an episode's end does is declared in ``metadata["autoreset_mode"]`` and chosen when the environment is made:

- ``NextStep`` (Gymnasium's default): the step after the end ignores its action, starts the copy anew and earns 0;
- ``SameStep``: the step that ends an episode starts the next; ``final_obs`` and ``final_info`` hold what it ended with;
- ``Disabled``: a copy that has ended must be reset, ``reset(options={"reset_mask": ended})``, before the next step.

Where the CMDP forbids actions, ``info["action_mask"]`` (num_envs, A) says what each copy may do next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_int, as_raw, one_of, shown
from flexdome.errors import ValidationError
from flexdome.gym.plant import Plant, Seen, as_cmdp

__all__ = ["CMDPVectorEnv"]

Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64]
MOST = 2**24  # copies


class CMDPVectorEnv(VectorEnv[Any, Any, Any]):
    """``num_envs`` copies of one CMDP; one copy is :class:`CMDPEnv` with the same seed, bit for bit.

    Parameters
    ----------
    num_envs : how many
    environment, instance, options : as :class:`CMDPEnv` takes them
    autoreset_mode : ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``, or Gymnasium's ``AutoresetMode``
    """

    def __init__(
        self,
        num_envs: int = 1,
        environment: str | CMDP = "paper-v1",
        instance: int = 0,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if render_mode is not None:
            raise ValidationError(
                f"render_mode is {shown(render_mode)}; there is nothing to render, so it must be None"
            )
        self.num_envs = as_int("num_envs", num_envs, 1, MOST)
        if not isinstance(autoreset_mode, AutoresetMode):
            autoreset_mode = AutoresetMode(
                one_of("autoreset_mode", autoreset_mode, [mode.value for mode in AutoresetMode])
            )
        self.autoreset_mode = autoreset_mode
        self.metadata = {"render_modes": [], "autoreset_mode": autoreset_mode}
        self.cmdp = as_cmdp(environment, instance, options)
        self.single_observation_space = Discrete(self.cmdp.states)
        self.single_action_space = Discrete(self.cmdp.actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._plant = Plant(self.cmdp, self.num_envs)
        self._begun = False
        self._ended: Mask = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Index, dict[str, Any]]:
        """Start every copy, or those of ``options["reset_mask"]``, anew; one generator serves all copies."""
        mask = self._mask(options)
        super().reset(seed=None if seed is None else as_int("seed", seed, 0))
        copies = np.flatnonzero(mask)
        thresholds = self._plant.start(copies, self.np_random)
        self._ended[mask] = False
        self._begun = self._begun or bool(mask.all())
        return self._plant.s.copy(), self._started(copies, thresholds)

    def step(self, actions: npt.ArrayLike) -> tuple[Index, Float, Mask, Mask, dict[str, Any]]:
        """Take an action in every copy: states, rewards, terminations (none), truncations, ``info``."""
        taken = self._actions(actions)
        if not self._begun:
            raise ResetNeeded("no episode was begun: call reset first")
        N = self.num_envs
        rewards = np.zeros(N)
        info: dict[str, Any] = {}
        anew = self._ended if self.autoreset_mode is AutoresetMode.NEXT_STEP else np.zeros(N, dtype=np.bool_)
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            k = int(np.argmax(self._ended))
            raise ResetNeeded(
                f"copy {k} has had its H steps: reset it, options={{'reset_mask': ...}}, before the next step"
            )
        restarted, moving = np.flatnonzero(anew), np.flatnonzero(~anew)
        if restarted.size:
            self._merge(info, restarted, self._started(restarted, self._plant.start(restarted, self.np_random)))
        if moving.size:
            self._refuse_forbidden(moving, taken)
            seen = self._plant.step(moving, taken, self.np_random)
            rewards[moving] = seen.rewards
            self._merge(info, moving, self._shown(moving, seen))
        ended = self._plant.over()
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            self._begin_again(info, ended)
            self._ended[:] = False
        else:
            self._ended = ended.copy()
        absent = [name for name, mask in info.items() if name.startswith("_") and not mask.any()]
        for mask in absent:
            del info[mask], info[mask.removeprefix("_")]
        return self._plant.s.copy(), rewards, np.zeros(N, dtype=np.bool_), ended, info

    def _refuse_forbidden(self, copies: Index, taken: Index) -> None:
        allowed = self.cmdp.allowed
        if allowed is None:
            return
        bad = ~allowed[self._plant.h[copies], self._plant.s[copies], taken[copies]]
        if bad.any():
            k = int(copies[np.argmax(bad)])
            place = f"step {int(self._plant.h[k])} in state {int(self._plant.s[k])}"
            raise ValidationError(f"actions[{k}] is {int(taken[k])}; that action is not allowed at {place}")

    def _begin_again(self, info: dict[str, Any], ended: Mask) -> None:
        """Start the copies that ended, and keep what they ended with under ``final_obs`` and ``final_info``."""
        last = np.flatnonzero(ended)
        final: dict[str, Any] = {name: info[name].copy() for name in info if not name.endswith("action_mask")}
        for name in ("cost", "utility", "threshold", "step"):
            final[f"_{name}"] = ended.copy()
            final[name][~ended] = 0
            if name in ("cost", "utility"):
                info[f"_{name}"][last], info[name][last] = False, 0.0
        states = np.full(self.num_envs, None, dtype=object)
        states[last] = [int(s) for s in self._plant.s[last]]
        started = self._started(last, self._plant.start(last, self.np_random))
        self._merge(info, last, started)
        info |= {"final_obs": states, "_final_obs": ended.copy(), "final_info": final, "_final_info": ended.copy()}

    def _started(self, copies: Index, thresholds: Float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._put(found, "threshold", copies, _flat(thresholds))
        self._put(found, "step", copies, np.zeros(copies.size, dtype=np.int64))
        self._put_mask(found, copies)
        return found

    def _shown(self, copies: Index, seen: Seen) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, values in (("cost", seen.costs), ("utility", seen.utilities), ("threshold", seen.thresholds)):
            self._put(found, name, copies, _flat(values))
        self._put(found, "step", copies, self._plant.h[copies])
        self._put_mask(found, copies)
        return found

    def _put_mask(self, info: dict[str, Any], copies: Index) -> None:
        """What those copies that have not ended may do next, where the CMDP forbids anything."""
        if self.cmdp.allowed is not None:
            going = copies[~self._plant.over()[copies]]
            mask = self.cmdp.allowed[self._plant.h[going], self._plant.s[going]].astype(np.int8)
            self._put(info, "action_mask", going, mask)

    def _put(self, info: dict[str, Any], name: str, copies: Index, values: npt.NDArray[Any]) -> None:
        """``info[name]`` for all copies, 0 where there is none, and ``info["_" + name]``, where there is one."""
        info[name] = np.zeros((self.num_envs, *values.shape[1:]), dtype=values.dtype)
        info[name][copies] = values
        info[f"_{name}"] = np.zeros(self.num_envs, dtype=np.bool_)
        info[f"_{name}"][copies] = True

    @staticmethod
    def _merge(info: dict[str, Any], copies: Index, found: dict[str, Any]) -> None:
        for name, array in found.items():
            if name in info:
                info[name][copies] = array[copies]
            else:
                info[name] = array

    def _actions(self, actions: npt.ArrayLike) -> Index:
        array = as_raw("actions", actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise ValidationError(
                f"actions has shape {array.shape} and dtype {array.dtype}; it must be ({self.num_envs},) whole numbers"
            )
        bad = (array < 0) | (array >= self.cmdp.actions)
        if bad.any():
            k = int(np.argmax(bad))
            raise ValidationError(f"actions[{k}] is {int(array[k])}; it must lie in 0 to {self.cmdp.actions - 1}")
        return array.astype(np.int64)

    def _mask(self, options: dict[str, Any] | None) -> Mask:
        if not isinstance(options, dict | None):
            raise ValidationError(f"options is {shown(options)}; it must be a dictionary, or None")
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, dtype=np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ValidationError(
                f"reset_mask is {shown(mask)}; it must be a boolean array of shape ({self.num_envs},)"
            )
        if not mask.any():
            raise ValidationError("reset_mask is all False; it must name at least one copy")
        return mask.copy()


def _flat(values: Float) -> Float:
    """(n,) where there is one constraint, else (n, m)."""
    return values[:, 0] if values.shape[1] == 1 else values
