"""The primal-dual family in dense NumPy, every form of it: the slow twin of the peers."""

import numpy as np

from flexdome.kernels.optimistic import ANYTIME, ROOT, VARIANCE
from flexdome.learners.reference import NumpyFlexDOME


class NaivePeer(NumpyFlexDOME):
    """One learner of the family, its settings read and its steps written out."""

    def __init__(self, learner):
        super().__init__(learner)
        self.form = learner.settings
        if self.form.greedy:
            self.log_pi = np.full(self.log_pi.shape, -np.log(self.A))
            self.lam = np.zeros(self.m)
            self.plan = self.values(self.policy, 0.0)

    def width(self, n, p):
        kind, b = self.form.kind, self.form.bonus
        p = p.copy()
        if not self.form.slips:
            p[-1] = 0.0  # the transition after the last step is not counted
        if kind == ROOT:
            return (b[0] + b[1]) / np.sqrt(n)
        if kind == VARIANCE:
            return b[0] / np.sqrt(n) + b[1] * np.sqrt(p * (1 - p)).sum(-1) / np.sqrt(n) + b[3] / n
        assert kind == ANYTIME
        square = (2 * np.log(np.log(np.maximum(2 * n, np.e))) + b[1]) / n
        spread = np.where(self.N == 0, np.sqrt(self.S), np.sqrt(p).sum(-1))
        return b[0] * (np.sqrt(square) * spread + 5 * square)

    def q_values(self, pi, tau):
        """Q of (r, d, psi) for a policy: (m + 2, H, S, A); psi without its own -log pi."""
        n = np.maximum(self.N, 1.0)
        p_seen = self.N_next / n[..., None]
        phi = self.width(n, p_seen)
        p = np.where(self.N[..., None] == 0, 1.0 / self.S, p_seen) if self.form.spread else p_seen
        log_pi = np.log(np.where(pi > 0, pi, 1.0))
        bar = np.stack([self.sum_r / n + phi, *(self.sum_d / n + phi), self.form.bonus[2] / np.sqrt(n)])
        Q, V = np.empty_like(bar), np.zeros((self.m + 2, self.S))
        weight = pi**2 if self.form.slips else pi
        if self.form.slips:
            V[0] = -tau * (weight[-1] * log_pi[-1]).sum(-1)
        for h in reversed(range(self.H)):
            cap = np.full((self.m + 2, 1, 1), float(self.H - h))
            cap[-1] *= np.log(self.A)
            if self.form.joint:
                cap[0] *= 1 + tau * np.log(self.A)
            Q[:, h] = np.minimum(bar[:, h] + np.einsum("sat,jt->jsa", p[h], V), cap)
            if self.optimistic:
                Q[:, h] = np.where(self.N[h] == 0, cap, Q[:, h])
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
            V[0 if self.form.joint else -1] -= (tau if self.form.joint else 1.0) * (weight[h] * log_pi[h]).sum(-1)
        return Q

    def at_start(self, pi, Q):
        return np.einsum("s,sa,jsa->j", self.initial, pi[0], Q[:, 0])

    def values(self, pi, tau):
        return self.at_start(pi, self.q_values(pi, tau))

    def alpha(self):
        return np.where(np.isnan(self.thresholds), self.alpha_sum / np.maximum(self.alpha_count, 1.0), self.thresholds)

    def record(self, episode):
        super().record(episode)
        if self.form.slips:
            s, a = np.asarray(episode.states), np.asarray(episode.actions)
            self.N_next[-1, s[-2], a[-1], s[-1]] += 1.0

    def observe(self, episode):
        eta, tau, eps = (x[0] for x in self.schedules.table(self.t, 1, self.m))
        if self.form.greedy:
            self.lam = np.maximum(self.lam + self.alpha() + eps - self.plan[1:-1], 0.0)
            self.record(episode)
            self.replan(eta)
        else:
            if self.form.data_first:
                self.record(episode)
            self.mirror(eta, tau, eps)
            if not self.form.data_first:
                self.record(episode)
        self.t += 1

    def mirror(self, eta, tau, eps):
        pi = self.policy
        Q = self.q_values(pi, tau)
        V = self.at_start(pi, Q)
        y = Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:-1]) + (0.0 if self.form.joint else tau) * Q[-1]
        logits = (1 - eta * tau) * self.log_pi + eta * y
        logits -= logits.max(-1, keepdims=True)
        self.log_pi = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        if self.form.next_policy:
            V = self.at_start(self.policy, Q)
        rate = eta if self.form.dual_step < 0 else self.form.dual_step
        step = (1 - rate * tau) * self.lam - rate * (V[1:-1] - eps - self.alpha())
        self.lam = np.clip(step, 0.0, self.dual_bound)

    def replan(self, eta):
        seen = self.N.sum(-1) > 0
        pi = np.full(self.N.shape, 1.0 / self.A)
        for h in reversed(range(self.H)):  # the values of later steps do not depend on earlier choices
            Q = self.q_values(pi, 0.0)[:, h]
            y = Q[0] + eta * np.einsum("i,isa->sa", self.lam, Q[1:-1])
            pi[h] = np.where(seen[h][:, None], np.eye(self.A)[y.argmax(-1)], pi[h])
        self.log_pi = np.where(pi > 0, np.log(np.where(pi > 0, pi, 1.0)), -np.inf)
        self.plan = self.values(pi, 0.0)
