"""The primal-dual family in dense NumPy where a problem reveals rewards, utilities or transitions."""

import numpy as np

from flexdome.kernels.optimistic import ANYTIME
from naive_peers import NaivePeer


class NaiveRevealed(NaivePeer):
    """Known means have no bonus of their own, known transitions none at all; every state has a policy that moves."""

    def __init__(self, learner):
        self.told = learner.problem
        super().__init__(learner)
        if self.form.greedy:
            self.replan(0.0)

    @property
    def known_f(self):
        shape = (self.H, self.S, self.A)
        r, d = self.told.rewards, self.told.utilities
        unknown = np.full(shape, np.nan)
        return np.stack([unknown if r is None else r, *([unknown] * self.m if d is None else d)])

    def parts(self, n, p):
        """The bonus in two parts: of the mean, and of the transitions."""
        b = self.form.bonus
        of_p = self.width(n, p)
        if self.form.kind == ANYTIME:
            return 0.0 * n, of_p
        return b[0] / np.sqrt(n), of_p - b[0] / np.sqrt(n)

    def q_values(self, pi, tau):
        n, known_p = np.maximum(self.N, 1.0), self.told.transitions is not None
        p_seen = self.N_next / n[..., None]
        of_mean, of_p = self.parts(n, p_seen)
        phi_psi = self.form.bonus[2] / np.sqrt(n)
        p = np.where(self.N[..., None] == 0, 1.0 / self.S, p_seen) if self.form.spread else p_seen
        if known_p:
            p, of_p, phi_psi = self.told.transitions, 0.0 * n, 0.0 * n
        blind = (self.N == 0) & self.optimistic
        known = ~np.isnan(self.known_f)
        seen = np.stack([self.sum_r, *self.sum_d]) / n
        mean = np.where(known, self.known_f, np.where(blind, 1.0, seen + of_mean))
        log_pi = np.log(np.where(pi > 0, pi, 1.0))
        Q, V = np.empty((self.m + 2, *n.shape)), np.zeros((self.m + 2, self.S))
        weight = pi**2 if self.form.slips else pi
        if self.form.slips:
            V[0] = -tau * (weight[-1] * log_pi[-1]).sum(-1)
        for h in reversed(range(self.H)):
            cap = np.full((self.m + 2, 1, 1), float(self.H - h))
            cap[-1] *= np.log(self.A)
            if self.form.joint:
                cap[0] *= 1 + tau * np.log(self.A)
            after = np.einsum("sat,jt->jsa", p[h], V)
            rest = after[:-1] + of_p[h]
            psi = after[-1] + phi_psi[h]
            if not known_p:
                rest = np.where(blind[h], self.H - h - 1.0, rest)
                psi = np.where(blind[h], cap[-1], psi)
            Q[:, h] = np.minimum(np.concatenate([mean[:, h] + rest, psi[None]]), cap)
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
            V[0 if self.form.joint else -1] -= (tau if self.form.joint else 1.0) * (weight[h] * log_pi[h]).sum(-1)
        return Q

    def replan(self, eta):
        pi = np.full(self.N.shape, 1.0 / self.A)
        for h in reversed(range(self.H)):
            Q = self.q_values(pi, 0.0)[:, h]
            y = Q[0] + eta * np.einsum("i,isa->sa", self.lam, Q[1:-1])
            pi[h] = np.eye(self.A)[y.argmax(-1)]
        self.log_pi = np.where(pi > 0, np.log(np.where(pi > 0, pi, 1.0)), -np.inf)
        self.plan = self.values(pi, 0.0)


class NaiveRevealedAnchor(NaiveRevealed):
    """AnchorDOME, its two lines written out."""

    def __init__(self, learner):
        super().__init__(learner)
        self.rho, self.ref, self.lref = learner.anchor_rate, self.log_pi.copy(), np.zeros(self.m)

    def mirror(self, eta, tau, eps):
        Q = self.q_values(self.policy, 0.0)
        V = self.at_start(self.policy, Q)
        logits = self.log_pi + eta * (Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:-1])) + eta * tau * self.ref
        logits /= 1 + eta * tau
        logits -= logits.max(-1, keepdims=True)
        self.log_pi = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        self.ref += self.rho * (self.log_pi - self.ref)
        lam = (self.lam + eta * tau * self.lref - eta * (V[1:-1] - eps - self.alpha())) / (1 + eta * tau)
        self.lam = np.clip(lam, 0.0, self.dual_bound)
        self.lref += self.rho * (self.lam - self.lref)
