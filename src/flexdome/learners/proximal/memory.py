"""What ProxDOME remembers of a plant that changes: the last episodes, and whether they bring what was expected.

``forget = W`` keeps the last W episodes, played or logged; the learner is made anew from them whenever W / 8 more have
come. Beside them goes what each plan was expected to bring: its plug-in utilities U and their standard errors s. A
model that is still true makes the mean of y - U over the last n episodes, y the realised utility, differ from 0 by its
noise and its own error alone. Where for one of n = 16, 32, 64, ..., and for one of the utilities ::

    |mean of (y - U)| > 4.5 sd(y - U) / sqrt(n) + 3 mean of s

what was predicted and what is realised have parted: everything but the last n episodes is forgotten at once. With so
few data margins are wide, and what was shown safe is so no longer. A plan that is about to try much is expected to
bring something with a large error, which is in s. It is looked at in every fourth episode. No theorem: a change that is
slower than W episodes see is lag, not alarm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.learners.state import LARGEST_SUM, Arrays, StateReader

__all__ = ["NAMES", "SHORTEST", "Memory"]

SHORTEST, PARTED, OWN_ERRORS = 16, 4.5, 3.0
LOOK = 4  # episodes
GONE = -1.0  # in a file: a sample that is missing
NAMES = tuple(f"memory_{name}" for name in ("states", "actions", "rewards", "utilities", "thresholds", "misses"))
Data = tuple[Any, ...]


class Memory:
    """The last episodes, oldest first, and by how much each missed what was expected."""

    def __init__(self, window: int, constraints: int) -> None:
        self.window, self.constraints = window, constraints
        self.data: list[Data] = []
        self.misses: list[Float] = []  # (2, m) each: y - U and s; NaN where the episode was not planned

    def copy(self) -> Memory:
        """A memory that may be changed without changing this one."""
        other = Memory(self.window, self.constraints)
        other.data, other.misses = list(self.data), list(self.misses)
        return other

    def add(self, data: Data, utilities: Float | None, errors: Float | None) -> None:
        """One more episode, and what was expected of it where it was planned."""
        miss = np.full((2, self.constraints), np.nan)
        if utilities is not None and errors is not None:
            miss[0], miss[1] = np.asarray(data[3]).sum(axis=1) - utilities, errors
        self.data.append(tuple(np.array(part) for part in data))
        self.misses.append(miss)

    def parted(self) -> int:
        """The number of last episodes over which predicted and realised utilities have parted, or 0."""
        misses = np.array([miss for miss in self.misses if not np.isnan(miss).any()]).reshape(-1, 2, self.constraints)
        n = SHORTEST
        while n <= len(misses):
            recent = misses[-n:]
            noise = misses[:, 0].std(axis=0) / np.sqrt(n)
            if (np.abs(recent[:, 0].mean(axis=0)) > PARTED * noise + OWN_ERRORS * recent[:, 1].mean(axis=0)).any():
                return n
            n *= 2
        return 0

    def cut(self) -> bool:
        """Forget what is to be forgotten; whether there was anything."""
        parted = self.parted() if len(self.data) % LOOK == 0 else 0
        if parted:
            self.data = self.data[-parted:]
            self.misses = [np.full((2, self.constraints), np.nan) for _ in self.data]  # of a model that is gone
            return True
        if len(self.data) < self.window + max(1, self.window // 8):
            return False
        self.data, self.misses = self.data[-self.window :], self.misses[-self.window :]
        return True

    def state(self) -> Arrays:
        """Everything, as arrays by name."""
        none = np.full((self.constraints, self._horizon()), np.nan)
        columns: list[list[npt.NDArray[Any]]] = [[data[k] for data in self.data] for k in range(4)]
        columns[3] = [np.where(np.isnan(part), GONE, part) for part in columns[3]]
        columns.append([data[4] if data[4].size else none for data in self.data])
        columns.append(list(self.misses))
        return {name: np.array(column) for name, column in zip(NAMES, columns, strict=True)}

    def _horizon(self) -> int:
        return len(self.data[0][1]) if self.data else 0

    def restore(self, state: Arrays, shape: tuple[int, int, int]) -> None:
        """Take back what :meth:`state` gave; ``shape`` is (H, S, A)."""
        H, S, A = shape
        read, m = StateReader({name: state[name] for name in NAMES if name in state}), self.constraints
        n = read.length("memory_actions")
        if n == 0:
            self.data, self.misses = [], []
            return
        width = np.shape(state["memory_states"])[-1]
        states = read.count("memory_states", (n, width), 0, S - 1)
        actions = read.count("memory_actions", (n, H), 0, A - 1)
        rewards = read.take("memory_rewards", (n, H), 0.0, LARGEST_SUM)
        utilities = read.take("memory_utilities", (n, m, H), GONE, LARGEST_SUM)
        read.agree("memory_utilities", (utilities >= 0.0) | (utilities == GONE), "must not be below 0")
        utilities = np.where(utilities == GONE, np.nan, utilities)
        thresholds = np.asarray(state["memory_thresholds"], dtype=np.float64)
        misses = np.asarray(state["memory_misses"], dtype=np.float64)
        if width < H or thresholds.shape != (n, m, H) or misses.shape != (n, 2, m):
            raise ValidationError("state.memory_states, thresholds and misses do not fit the problem")
        self.data = [
            (states[k], actions[k], rewards[k], utilities[k], thresholds[k] if self._some(thresholds[k]) else NONE)
            for k in range(n)
        ]
        self.misses = list(misses)

    @staticmethod
    def _some(samples: Float) -> bool:
        return not bool(np.isnan(samples).all())


NONE = np.zeros((0, 0))
