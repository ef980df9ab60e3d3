"""Margin plans: believe what was seen, and ask for a little more than the threshold.

With N the visits, p^, r^ and d^ the means of what was seen, and n the episodes seen so far::

    where N = 0: r = d = 1, and the state stays          (what was never tried looks perfect, so it is tried)
    margin   = c sqrt(log(1 + n) / n)
    policy   = argmax V_r  subject to  V_d >= alpha + margin     in the model of means, solved exactly

Where no policy meets that, the margin is halved, and halved again; then it is left out. A plan is made whenever the
episodes have grown by a tenth, and played until the next. Nothing is proved.
"""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

import flexdome as fd
from flexdome.learners import Beliefs, Learner


class MarginPlans(Learner):
    """Certainty equivalence with a margin.

    Parameters
    ----------
    problem : what may be known
    episodes : how many are planned; nothing else depends on it
    seed : recorded; no random numbers are drawn
    margin : c
    """

    id: ClassVar[str] = "margin-plans"
    how: ClassVar[str] = "the optimum of what was seen, with a margin"

    def __init__(self, problem: fd.Problem, episodes: int = 80_000, seed: int = 0, margin: float = 1.0) -> None:
        super().__init__(problem, episodes, seed)
        self.margin = float(margin)
        H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
        self.n, self.after = np.zeros((H, S, A)), np.zeros((H, S, A, S))  # visits, and where they led
        self.sums = np.zeros((1 + m, H, S, A))  # of rewards and utilities
        self.samples = np.zeros((2, m))  # of thresholds: how many, and their sum
        self.seen = np.zeros(1)  # episodes, logged ones too
        self.due = np.ones(1)  # how many make the next plan
        self.plan = np.full((H, S, A), 1.0 / A)
        self.lam = np.zeros(m)

    @property
    def policy(self) -> np.ndarray:
        """(H, S, A)."""
        return self.plan.copy()

    @property
    def multipliers(self) -> np.ndarray:
        """(m,)."""
        return self.lam.copy()

    def observe(self, episode: fd.Episode) -> None:
        """Learn from an episode; plan when it is time."""
        self.preload([episode])
        self.count_episode()

    def preload(self, episodes: Iterable[fd.Episode]) -> None:
        """Learn from a log. Everything is checked before anything changes."""
        h = np.arange(self.problem.horizon)
        for states, actions, rewards, utilities, thresholds in self.checked_episodes(episodes):
            cells = (h, states[:-1], actions)
            self.n[cells] += 1.0
            self.after[(*cells, states[1:])] += 1.0
            self.sums[(slice(None), *cells)] += np.vstack([rewards, utilities])
            if thresholds.size:  # none where they are known
                self.samples += [np.full(len(thresholds), thresholds.shape[1]), thresholds.sum(axis=1)]
            self.seen += 1.0
        if self.seen[0] >= self.due[0]:
            self.due[0] = 1.0 + np.floor(1.1 * self.seen[0])
            self.make_plan()

    def make_plan(self) -> None:
        """Solve the model of means."""
        for share in (1.0, 0.5, 0.25, 0.0):
            try:
                best = fd.solve(self.model(share))
            except fd.InfeasibleError:
                continue
            self.plan, self.lam = np.array(best.policy), np.array(best.multipliers)
            return

    def model(self, share: float) -> fd.CMDP:
        """What was seen as a CMDP, thresholds raised by a share of the margin."""
        S, n = self.problem.states, np.maximum(self.n, 1.0)
        means = np.where(self.n > 0.0, self.sums / n, 1.0)
        stay = np.broadcast_to(np.eye(S)[:, None, :], self.after.shape)
        p = np.where(self.n[..., None] > 0.0, self.after / n[..., None], stay)
        raised = np.clip(self.thresholds() + share * self.width(), 0.0, self.problem.horizon)
        return fd.CMDP(p, means[0], means[1:], raised, self.problem.initial)

    def thresholds(self) -> np.ndarray:
        """(m,) as known, else the mean of the samples."""
        count, total = self.samples
        return np.where(np.isnan(self.problem.thresholds), total / np.maximum(count, 1.0), self.problem.thresholds)

    def width(self) -> float:
        """The margin of the next plan."""
        return float(self.margin * np.sqrt(np.log1p(self.seen[0]) / max(self.seen[0], 1.0)))

    def beliefs(self) -> Beliefs:
        """What the model of means says of the policy."""
        plain = fd.evaluate(self.model(0.0), self.plan)
        m = self.problem.constraints
        widths = 1.0 / np.sqrt(np.maximum(self.n, 1.0))
        return Beliefs(plain.value, plain.utilities, self.thresholds(), np.full(m, self.width()), widths, self.n)

    def state(self) -> dict[str, np.ndarray]:
        """Everything learned, for files."""
        names = ("n", "after", "sums", "samples", "seen", "due", "plan", "lam")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take it back."""
        for name, values in state.items():
            setattr(self, name, np.array(values))
