"""A run of FlexDOME with everything looked at that its proof speaks of.

The learner is run as always, on the random numbers of its seed; beside it its readable twin
(:class:`~flexdome.learners.primal_dual.reference.NumpyFlexDOME`) takes the same episodes and shows what the learner
keeps to itself: estimated means and transitions, widths, truncated Q-values, the estimated entropy. About half a
millisecond an episode at the paper's size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flexdome.audit.payoffs import composite
from flexdome.cmdp import Episode
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import Float
from flexdome.learners.primal_dual.flexdome import FlexDOME
from flexdome.learners.primal_dual.reference import NumpyFlexDOME
from flexdome.planning import occupancy
from flexdome.simulation import simulate
from flexdome.simulation.history import History
from flexdome.theory import bonus_logs, q_bound, value_difference

__all__ = ["EVENTS", "Instrumented", "Record", "instrumented_run"]

LOOKED_AT = 30  # pairs of neighbouring episodes whose policies are kept
EVENTS = ("thresholds", "rewards", "utilities", "transitions", "visits")


@dataclass
class Record:
    """What was seen before each of the T episodes.

    Attributes
    ----------
    estimated, true : (T, m + 2) V^ and V of reward, utilities and entropy
    alpha_error : (T, m) |alpha-hat - alpha|, 0 where the threshold is known, NaN before the first sample
    first_failure : event to the first episode in which it failed, of those that did
    worst : event to the largest ratio of error and width
    over_cap : (T,) the largest Q^_y over H - h + 1, which the paper says is at most 1
    over_bound : (T,) the largest Q^_y less C_0 - tau log pi
    identity : the largest |sum of the three parts - difference| of the value-difference lemma
    """

    estimated: Float
    true: Float
    alpha_error: Float
    over_cap: Float
    over_bound: Float
    first_failure: dict[str, int] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=lambda: dict.fromkeys(EVENTS, 0.0))
    identity: float = 0.0


class Instrumented(FlexDOME):
    """FlexDOME with its twin and a record; ``observe`` looks before it learns."""

    def __init__(self, cmdp: CMDP, problem: Problem, episodes: int, delta: float, bonus_scale: float, **options: Any):
        super().__init__(problem, episodes=episodes, delta=delta, bonus_scale=bonus_scale, **options)
        self.cmdp, self.delta, self.scale = cmdp, delta, bonus_scale
        self.twin = NumpyFlexDOME(problem, episodes=episodes, delta=delta, bonus_scale=bonus_scale, **options)
        self.transitions = cmdp.to_dense().transitions
        self.reached = np.zeros(self.twin.N.shape)  # the sum of the occupancies of the episodes before
        m, T = problem.constraints, episodes
        self.record = Record(np.zeros((T, m + 2)), np.zeros((T, m + 2)), np.zeros((T, m)), np.zeros(T), np.zeros(T))

    def observe(self, episode: Episode) -> None:
        """Look, then learn."""
        t = self.episode + 1
        if t <= self.episodes:
            self._look(t)
        self.twin.observe(episode)
        super().observe(episode)

    def _look(self, t: int) -> None:
        twin, cmdp, record = self.twin, self.cmdp, self.record
        pi, lam = twin.policy, twin.lam
        x = occupancy(cmdp, pi / pi.sum(axis=-1, keepdims=True))
        _, tau, _ = twin.schedule(t)
        q, v = twin.evaluate()
        record.estimated[t - 1] = v
        payoffs = np.concatenate([cmdp.rewards[None], cmdp.utilities, -twin.log_pi[None]])
        record.true[t - 1] = np.einsum("hsa,jhsa->j", x, payoffs)
        sampled = np.isnan(twin.thresholds)
        error = np.where(sampled, np.abs(twin.alpha() - cmdp.alpha), 0.0)
        record.alpha_error[t - 1] = np.where(sampled & (twin.alpha_count == 0.0), np.nan, error)
        composite_q = q[0] + np.einsum("i,ihsa->hsa", lam, q[1:-1]) + tau * q[-1]
        steps = np.arange(twin.H, 0, -1)[:, None, None]
        record.over_cap[t - 1] = float((composite_q / steps).max())
        bound = q_bound(self.problem, float(tau), pi)
        record.over_bound[t - 1] = float((composite_q - bound).max())
        self._events(t)
        if t & (t - 1) == 0:  # powers of two
            self._identity(composite_q, pi, lam, float(tau))
        self.reached += x

    def _events(self, t: int) -> None:
        twin, cmdp = self.twin, self.cmdp
        L_r, L_p = bonus_logs(self.problem, self.episodes, self.delta)
        root = np.sqrt(np.maximum(twin.N, 1.0))
        phi_r, phi_p = self.scale * np.sqrt(L_r) / root, self.scale * twin.H * np.sqrt(L_p) / root
        mean = twin.sums / np.maximum(twin.N, 1.0)
        means = np.abs(mean - np.concatenate([cmdp.rewards[None], cmdp.utilities]))
        apart = twin.H * np.abs(self.transitions[:-1] - (twin.N_next / np.maximum(twin.N, 1.0)[..., None])[:-1]).sum(-1)
        self._event("rewards", t, means[0], phi_r)
        self._event("utilities", t, means[1:], phi_r)
        if twin.H > 1:  # what follows the last step is never used
            self._event("transitions", t, apart, phi_p[:-1])
        S, A, H, m = twin.S, twin.A, twin.H, twin.m
        least = 0.5 * self.reached - H * np.log(4.0 * S * A * H / self.delta)
        short = float(np.max(least - twin.N))
        if short >= 0.0:
            self.record.first_failure.setdefault("visits", t)
        self.record.worst["visits"] = max(self.record.worst["visits"], float(np.max(least / np.maximum(twin.N, 1.0))))
        if t > 1 and np.isnan(twin.thresholds).any():
            zeta = np.sqrt(H * np.log(2.0 * m * self.episodes / (self.delta / 4.0)) / (2.0 * (t - 1)))
            self._event("thresholds", t, self.record.alpha_error[t - 1], np.full(m, zeta))

    def _event(self, name: str, t: int, error: Float, width: Float) -> None:
        width = np.maximum(width, 1e-300)
        worst = float(np.max(error / width))
        if worst >= 1.0:
            self.record.first_failure.setdefault(name, t)
        self.record.worst[name] = max(self.record.worst[name], worst)

    def _identity(self, q: Float, pi: Float, lam: Float, tau: float) -> None:
        """The value-difference lemma, from here to the uniform policy."""
        cmdp, pi = self.cmdp, pi / pi.sum(axis=-1, keepdims=True)
        payoff = composite(cmdp, pi, lam, tau).payoff
        target = np.full(pi.shape, 1.0 / cmdp.actions)
        difference = float(((occupancy(cmdp, target) - occupancy(cmdp, pi)) * payoff).sum())
        off = abs(sum(value_difference(cmdp, target, pi, payoff, q)) - difference)
        self.record.identity = max(self.record.identity, off)


def instrumented_run(
    cmdp: CMDP, problem: Problem, episodes: int, seed: int, delta: float, bonus_scale: float, **options: Any
) -> tuple[Record, History, Instrumented]:
    """Run ``episodes`` on the random numbers of ``seed``; the options are FlexDOME's."""
    learner = Instrumented(cmdp, problem, episodes, delta, bonus_scale, **options)
    at = np.unique(np.geomspace(1, episodes, LOOKED_AT).astype(int))
    history = simulate(learner, cmdp, seed=seed, snapshots=np.union1d(at, at + 1).tolist())
    return learner.record, history, learner
