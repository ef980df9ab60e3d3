"""FlexDOME in plain vectorised NumPy: the readable twin.

Dense arrays [h, s, a, s'], Algorithms 1 and 2 of Zuo et al. 2026 line by line, no tricks. Tests hold the compiled
learner to it, and the benchmarks measure against it.
"""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import Episode
from flexdome.cmdp.validation import Float
from flexdome.learners.primal_dual import PrimalDualLearner

__all__ = ["NumpyFlexDOME"]


class NumpyFlexDOME:
    """The choices of ``learner`` (schedules, bonus, dual box, thresholds), its steps written out."""

    def __init__(self, learner: PrimalDualLearner) -> None:
        problem, settings = learner.problem, learner.settings
        self.H, self.S, self.A, self.m = problem.horizon, problem.states, problem.actions, problem.constraints
        self.schedules, self.initial = learner.schedules, problem.initial
        self.bonus, self.optimistic, self.dual_bound = settings.bonus, settings.optimistic, settings.dual_bound
        self.thresholds, self.latest = settings.thresholds, settings.latest
        shape = (self.H, self.S, self.A)
        self.N, self.sum_r, self.sum_d = np.zeros(shape), np.zeros(shape), np.zeros((self.m, *shape))
        self.N_next = np.zeros((*shape, self.S))
        self.alpha_sum, self.alpha_count = np.zeros(self.m), np.zeros(self.m)
        self.log_pi = np.full(shape, -np.log(self.A))
        self.lam = np.zeros(self.m)
        self.t = 1

    @property
    def policy(self) -> Float:
        """(H, S, A)."""
        pi: Float = np.exp(self.log_pi)
        return pi

    def evaluate(self) -> tuple[Float, Float]:
        """Truncated policy evaluation (Alg. 2): Q of (r, d_1, ..., d_m, psi), and their values at the start."""
        n, pi, psi = np.maximum(self.N, 1.0), self.policy, -self.log_pi
        phi_r, phi_p, phi_psi = (b / np.sqrt(n) for b in self.bonus[:3])
        bar = np.stack([self.sum_r / n + phi_r + phi_p, *(self.sum_d / n + phi_r + phi_p), psi + phi_psi])
        p = self.N_next / n[..., None]
        Q, V = np.empty_like(bar), np.zeros((self.m + 2, self.S))
        for h in reversed(range(self.H)):
            cap = np.full((self.m + 2, self.S, self.A), float(self.H - h))
            cap[-1] = psi[h] + (self.H - h) * np.log(self.A)
            Q[:, h] = np.minimum(bar[:, h] + np.einsum("sat,jt->jsa", p[h], V), cap)
            if self.optimistic:
                Q[:, h] = np.where(self.N[h] == 0, cap, Q[:, h])
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
        return Q, V @ self.initial

    def observe(self, episode: Episode) -> None:
        """Alg. 1, lines 4 to 8."""
        eta, tau, eps = (x[0] for x in self.schedules.table(self.t, 1, self.m))
        Q, V = self.evaluate()
        sampled = self.alpha_sum / np.maximum(self.alpha_count, 1.0)
        alpha = np.where(np.isnan(self.thresholds), sampled, self.thresholds)
        Q_y = Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:-1]) + tau * Q[-1]
        logits = self.log_pi + eta * Q_y  # line 6
        logits -= logits.max(axis=-1, keepdims=True)
        self.log_pi = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        step = (1.0 - eta * tau) * self.lam - eta * (V[1:-1] - eps - alpha)  # line 7
        self.lam = np.clip(step, 0.0, self.dual_bound)
        self.record(episode)
        self.t += 1

    def record(self, episode: Episode) -> None:
        """Add an episode's data (line 8)."""
        s, a = np.asarray(episode.states), np.asarray(episode.actions)
        h = np.arange(self.H)
        self.N[h, s[:-1], a] += 1.0
        self.sum_r[h, s[:-1], a] += np.asarray(episode.rewards)
        self.sum_d[:, h, s[:-1], a] += np.asarray(episode.utilities)
        self.N_next[h[:-1], s[:-2], a[:-1], s[1:-1]] += 1.0
        if episode.thresholds is not None:
            if self.latest:
                self.alpha_sum[:] = self.alpha_count[:] = 0.0
            self.alpha_sum += np.nansum(episode.thresholds, axis=1)
            self.alpha_count += np.isfinite(episode.thresholds).sum(axis=1)
