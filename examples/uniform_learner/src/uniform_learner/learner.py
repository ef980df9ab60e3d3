"""Plays every action alike, and counts what it sees."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from flexdome.cmdp import Episode, Problem
from flexdome.learners import Beliefs, Learner


class UniformLearner(Learner):
    """The floor of every comparison."""

    id: ClassVar[str] = "uniform"

    def __init__(self, problem: Problem, episodes: int = 1000, seed: int = 0) -> None:
        super().__init__(problem, episodes, seed)
        self.counts = np.zeros((problem.horizon, problem.states, problem.actions))

    @property
    def policy(self) -> np.ndarray:
        """(H, S, A)."""
        return np.full(self.counts.shape, 1.0 / self.problem.actions)

    @property
    def multipliers(self) -> np.ndarray:
        """(m,)."""
        return np.zeros(self.problem.constraints)

    def observe(self, episode: Episode) -> None:
        """Count the visits; a bad episode is refused before anything changes."""
        self.preload([episode])
        self.count_episode()

    def preload(self, episodes: Iterable[Episode]) -> None:
        """Count the visits of logged episodes."""
        steps = np.arange(self.problem.horizon)
        for states, actions, *_ in self.checked_episodes(episodes):
            self.counts[steps, states[:-1], actions] += 1.0

    def beliefs(self) -> Beliefs:
        """It believes nothing."""
        nothing = np.full(self.problem.constraints, np.nan)
        return Beliefs(np.nan, nothing, self.problem.thresholds, nothing, np.ones(self.counts.shape), self.counts)

    def state(self) -> dict[str, np.ndarray]:
        """Everything learned, for files."""
        return {"visits": self.counts}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take it back."""
        self.counts[:] = state["visits"]
