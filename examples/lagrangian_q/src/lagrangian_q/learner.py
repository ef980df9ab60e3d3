"""Optimistic Q-learning on the Lagrangian, with one dual step an episode. An example, not a good learner.

Model-free, so an episode costs H steps whatever the number of states. ``runner`` names the class that runs it in
compiled chunks; without that line it would run through ``observe``, with the same numbers and more slowly.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Episode, Problem
from flexdome.learners import Beliefs, Learner
from lagrangian_q.kernels import Tables, greedy, learn


class LagrangianQ(Learner):
    """Greedy for Q_r + lam . Q_d.

    Parameters
    ----------
    problem : what may be known
    episodes : how many are planned
    seed : recorded; no random numbers are drawn
    step, bonus : of the dual step, and of the optimism
    """

    id: ClassVar[str] = "lagrangian-q"
    runner: ClassVar[str] = "lagrangian_q.runner:QRunner"

    def __init__(
        self, problem: Problem, episodes: int = 1000, seed: int = 0, *, step: float = 0.01, bonus: float = 0.1
    ) -> None:
        super().__init__(problem, episodes, seed)
        self.step, self.bonus = float(step), float(bonus)
        H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
        q = np.broadcast_to(np.arange(H, 0, -1.0)[:, None, None], (1 + m, H, S, A)).copy()
        self.tables = Tables(q, np.zeros((H, S, A)), np.zeros(m), np.zeros(m), np.zeros(m))

    @property
    def policy(self) -> np.ndarray:
        """(H, S, A) to play next."""
        H, S, A = self.tables.n.shape
        pi = np.zeros((H, S, A))
        for h in range(H):
            for s in range(S):
                pi[h, s, greedy(self.tables.q, self.tables.lam, h, s)] = 1.0
        return pi

    @property
    def multipliers(self) -> np.ndarray:
        """(m,) paired with that policy."""
        return self.tables.lam.copy()

    def observe(self, episode: Episode) -> None:
        """Learn from one episode; a bad one is refused whole."""
        self._learn(self.checked_episode(episode))
        self.count_episode()

    def preload(self, episodes: Iterable[Episode]) -> None:
        """Learn from logged episodes; the multipliers stay."""
        log, lam = self.checked_episodes(episodes), self.tables.lam.copy()
        for data in log:
            self._learn(data)
            self.tables.lam[:] = lam

    def _learn(self, data: tuple[Any, ...]) -> None:
        learn(self.tables, self.problem.thresholds, self.step, self.bonus, *data)

    def beliefs(self) -> Beliefs:
        """What it holds to be true: its optimistic values at the first step."""
        q, pi, mu = self.tables.q, self.policy, self.problem.initial
        values = (mu[:, None] * pi[0] * q[:, 0]).sum(axis=(1, 2))
        known, m = self.problem.thresholds, self.problem.constraints
        alpha = np.where(np.isnan(known), self.tables.alpha_sum / np.maximum(self.tables.alpha_count, 1.0), known)
        widths = self.bonus * np.sqrt(self.problem.horizon / np.maximum(self.tables.n, 1.0))
        return Beliefs(float(values[0]), values[1:], alpha, np.zeros(m), widths, self.tables.n.copy())

    def state(self) -> dict[str, np.ndarray]:
        """Everything learned, for files."""
        return dict(self.tables._asdict())

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take it back."""
        for name, array in self.tables._asdict().items():
            array[:] = state[name]
