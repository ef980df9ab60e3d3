"""ProxDOME in dense NumPy, its pseudo-code line by line: the slow twin.

Arrays are [h, s, a, s'], every state is worked on whether visited or not, and variances are taken of the samples kept.
"""

import numpy as np

TOL, TRIALS, BACKTRACKS, HEATING, HOTTEST, COOLING, REFRESH, RIDGE = 0.05, 15, 3, 4.0, 1024.0, 0.98, 0.02, 1e-3
SAME = 1 - 1e-9
PLANS = 3


class NaiveProxDOME:
    def __init__(self, problem, c_bonus=0.65, c_prior=0.25, kappa=8.0, c_margin=1.3, shared=None):
        self.H, self.S, self.A, self.m = problem.horizon, problem.states, problem.actions, problem.constraints
        self.mu, self.known = problem.initial, problem.thresholds
        self.c_bonus, self.c_prior, self.kappa, self.c_margin = c_bonus, c_prior, kappa, c_margin
        H, S, A, m = self.H, self.S, self.A, self.m
        self.shared = (problem.stationary if shared is None else shared) and H > 1
        self.told_p, told = problem.transitions, [problem.rewards, *([None] * m)]
        if problem.utilities is not None:
            told[1:] = problem.utilities
        self.told_f, self.known_f = told, np.array([f is not None for f in told])
        self.revealed = self.told_p is not None or self.known_f.any()
        self.seen = np.zeros((H, S, A))
        self.samples = [[[[] for _ in range(A)] for _ in range(S)] for _ in range(H)]
        self.N, self.N_next = np.zeros((H, S, A)), np.zeros((H, S, A, S))
        self.r, self.d = np.zeros((H, S, A)), np.zeros((m, H, S, A))  # means
        self.var_r, self.var_d = np.zeros((H, S, A)), np.zeros((m, H, S, A))
        self.alphas = []
        self.lam, self.heat = np.zeros(m), 1.0
        self.V, self.U, self.R = np.zeros((H + 1, S)), np.zeros((m, H + 1, S)), np.zeros((H + 1, S))
        self.rem = np.arange(H, 0, -1.0)[:, None, None]
        self.rest = self.rem * 0 if self.told_p is not None else self.rem - 1  # what may follow is unknown by as much
        self.bar = np.zeros((H, S, A))
        self.s2 = np.stack([np.broadcast_to(self.doubt(1 + i, 1.0) ** 2 / 12, (H, S, A)) for i in range(m)])
        self.pooled = np.broadcast_to(self.rem[:, 0, 0] ** 2 / 12, (1 + m, H)).copy()
        self.t, self.next, self.safe, self.policy = 1, 1, False, np.full((H, S, A), 1 / A)
        self.plan(np.zeros((H, S, A), dtype=bool))

    def doubt(self, j, L):
        """(H, 1, 1): length of the interval in which d_j + U_j may lie, or for j = 0 the reward r + lam . d + V."""
        if j > 0:
            return self.rest + (not self.known_f[j])
        return (not self.known_f[0]) + self.lam @ ~self.known_f[1:] + L * self.rest

    def mean(self, j, otherwise):
        """What is known of mean j, or else the mean of what was seen, or ``otherwise`` where nothing was."""
        if self.known_f[j]:
            return self.told_f[j]
        return np.where(self.N > 0, self.r if j == 0 else self.d[j - 1], otherwise)

    def record(self, episode):
        visited = np.zeros(self.N.shape, dtype=bool)
        states, actions = np.asarray(episode.states), np.asarray(episode.actions)
        r, d = np.asarray(episode.rewards), np.asarray(episode.utilities)
        for h in range(self.H):
            self.seen[h, states[h], actions[h]] += 1
            after = states[h + 1] if h + 1 < self.H else None
            for k in range(self.H) if self.shared else [h]:
                at = k, states[h], actions[h]
                visited[at] = True
                if after is None and k + 1 < self.H:
                    continue  # nothing is known to follow the last step
                self.N[at] += 1
                self.samples[k][states[h]][actions[h]].append([r[h], *d[:, h]])
                table = np.array(self.samples[k][states[h]][actions[h]])
                self.r[at], self.var_r[at] = table[:, 0].mean(), table[:, 0].var()
                self.d[(slice(None), *at)], self.var_d[(slice(None), *at)] = table[:, 1:].mean(0), table[:, 1:].var(0)
                if k + 1 < self.H:
                    self.N_next[(*at, after)] += 1
        if episode.thresholds is not None:
            self.alphas.append(np.asarray(episode.thresholds).mean(axis=1))
        return visited

    def observe(self, episode):
        visited = self.record(episode)
        self.t += 1
        self.plan(visited)

    def preload(self, log):
        for episode in log:
            self.record(episode)
        self.t += len(log)
        for _ in range(PLANS):
            self.next = 0
            self.plan(np.zeros(self.N.shape, dtype=bool))

    @property
    def p(self):
        if self.told_p is not None:
            return self.told_p
        return self.N_next / np.maximum(self.N, 1.0)[..., None]

    def standard_errors(self, chosen, L, everything):
        n, p = np.maximum(self.N, 1.0), self.p
        often = (self.N >= 2) & chosen

        def spread(v):  # (H, S, A) variance of the next value
            after = np.stack([np.broadcast_to(v[h + 1], p[h].shape) for h in range(self.H)])
            mean = (p * after).sum(-1, keepdims=True)
            return (p * (after - mean) ** 2).sum(-1) * (self.told_p is None)

        def shrunk(w, v, b):
            return (n * w + self.kappa * v[:, None, None]) / (n + self.kappa) + (self.c_prior * b) ** 2 / (12 * n)

        var_r, var_d = self.var_r * ~self.known_f[0], self.var_d * ~self.known_f[1:, None, None, None]
        sd = np.sqrt(var_r) + np.einsum("i,ihsa->hsa", self.lam, np.sqrt(var_d))
        seen = [spread(self.V) + sd**2, *(spread(self.U[i]) + var_d[i] for i in range(self.m))]
        visits = np.log1p(self.N.sum(-1, keepdims=True))
        variance = shrunk(seen[0], L**2 * self.pooled[0], self.doubt(0, L))
        self.bar = np.where(chosen, self.mean(0, 0.0) + self.c_bonus * np.sqrt(visits * variance / n), self.bar)
        for i in range(self.m):
            variance = shrunk(seen[1 + i], self.pooled[1 + i], self.doubt(1 + i, L))
            self.s2[i] = np.where(chosen, variance / n, self.s2[i])
        if everything:
            samples = [
                np.where(often, w * n / np.maximum(n - 1, 1), 0).sum((1, 2)) for w in (seen[0] / L**2, *seen[1:])
            ]
            most = np.stack([self.doubt(0, L) / L, *(self.doubt(1 + i, L) for i in range(self.m))])[..., 0, 0]
            self.pooled = (most**2 / 12 + np.array(samples)) / (1 + often.sum((1, 2)))

    def thresholds(self):
        n = len(self.alphas)
        if n == 0:
            a, sa = np.full(self.m, self.H / 2), np.full(self.m, self.H**2 / 12)
        else:
            a, sa = np.mean(self.alphas, axis=0), (np.var(self.alphas, axis=0) + self.H**2 / (12 * n)) / n
        return np.where(np.isnan(self.known), a, self.known), np.where(np.isnan(self.known), sa, 0.0)

    def errors(self, x, sa):
        """Standard errors of the plug-in utilities: the errors of one (s, a) are one error where steps are shared."""
        if self.shared:
            return np.sqrt(((x * np.sqrt(self.s2)).sum(1) ** 2).sum((1, 2)) + sa)
        return np.sqrt((x**2 * self.s2).sum((1, 2, 3)) + sa)

    def sweep(self, lam, tau, policy=None):
        """Policy, advantages of the utilities and occupancy; V, U and R (plug-in reward) are left behind.

        A policy that is given is evaluated instead of the softmax one.
        """
        H, S, A, m, L, p, tried = self.H, self.S, self.A, self.m, 1 + lam.sum(), self.p, self.N > 0
        pi, adv = np.zeros((H, S, A)), np.zeros((m, H, S, A))
        self.V[H], self.U[:, H], self.R[H] = 0, 0, 0
        for h in reversed(range(H)):
            rem, rest = H - h, self.rest[h, 0, 0]
            d = np.stack([self.mean(1 + i, 1.0)[h] for i in range(m)])
            bar = np.where(tried[h], self.bar[h], self.mean(0, 1.0)[h])
            Q = bar + np.einsum("i,isa->sa", lam, d) + p[h] @ self.V[h + 1]  # p is 0 where nothing is known to follow
            Q = np.minimum(np.where(tried[h], Q, Q + L * rest), L * rem)
            top = Q.max(-1, keepdims=True)
            e = np.exp((Q - top) / tau)
            pi[h] = e / e.sum(-1, keepdims=True)
            self.V[h] = top[:, 0] + tau * np.log(e.mean(-1))
            if policy is not None:
                pi[h] = policy[h]
                bits = np.log(np.maximum(pi[h], 1e-300)) + np.log(A)
                self.V[h] = (pi[h] * (Q - tau * bits)).sum(-1)
            half = np.where(tried[h], 0.0, rest / 2)
            self.R[h] = (pi[h] * (self.mean(0, 0.5)[h] + p[h] @ self.R[h + 1] + half)).sum(-1)
            for i in range(m):
                Qd = self.mean(1 + i, 0.5)[h] + p[h] @ self.U[i, h + 1] + half
                self.U[i, h] = (pi[h] * Qd).sum(-1)
                adv[i, h] = Qd - self.U[i, h][:, None]
        x, reach = np.zeros((H, S, A)), self.mu
        for h in range(H):
            x[h] = reach[:, None] * pi[h]
            reach = np.einsum("sa,sat->t", x[h], p[h])
        return pi, adv, x

    def plan(self, visited):
        t, H, m = self.t, self.H, self.m
        top, z = np.sqrt(t), np.sqrt(np.log(1 + t))
        self.lam = np.minimum(self.lam, top)
        tau = self.heat * (1 + self.lam.sum()) / np.sqrt(H * t)
        everything = t >= self.next
        if everything:
            self.next = t + 1 + int(np.floor(REFRESH * t))
            visited = self.N > 0
        self.standard_errors(visited & (self.N > 0), 1 + self.lam.sum(), everything)
        a, sa = self.thresholds()

        def look(lam, policy=None):
            """One trial: the sweep, what is short and by how much."""
            pi, adv, x = self.sweep(lam, tau, policy)
            error = self.errors(x, sa)
            g = self.U[:, 0] @ self.mu - self.c_margin * z * error - a
            near = np.maximum(TOL * max(self.c_margin, 0.5) * z * error, 1e-6 * H if self.revealed else 0.0)
            unmet = ((g < -near) & (lam < top)) | ((g > near) & (lam > 0))
            return pi, adv, x, error, g, unmet, bool((g >= -near).all())

        first, before, was_safe = self.lam.copy(), self.policy, self.safe
        lam, trials, best, best_short, best_residual, best_safe = first, 0, None, np.inf, np.inf, False
        for raising in (False, True):
            last, last_residual, backtracks, bracket = None, np.inf, 0, [-np.inf, np.inf]
            for _ in range(TRIALS):
                pi, adv, x, error, g, unmet, safe = look(lam)
                trials, done = trials + 1, not unmet.any()
                residual, short = np.abs(g[unmet]).max(initial=0.0), max((-g).max(), 0.0)
                accepted = done or (raising and safe)
                if accepted:
                    break
                nearer = short < SAME * best_short or (short <= best_short and residual < SAME * best_residual)
                if (safe and not best_safe) or (safe == best_safe and nearer):
                    best, best_short, best_residual, best_safe = lam, short, residual, safe
                if raising:
                    if not ((g < 0) & (lam < top)).any():
                        break
                    lam = np.where(g < 0, np.minimum(2 * lam + 0.1, top), lam)
                    continue
                if m > 1 and residual >= SAME * last_residual and backtracks < BACKTRACKS:
                    backtracks += 1
                    lam = (lam + last) / 2
                    continue
                backtracks, last, last_residual = 0, lam, residual
                J = np.einsum("hsa,ihsa,jhsa->ij", x, adv, adv) / tau + RIDGE * np.eye(m)
                free = ~(((lam <= 0) & (g > 0)) | ((lam >= top) & (g < 0)))
                step = np.zeros(m)
                step[free] = np.linalg.solve(J[np.ix_(free, free)], -g[free])
                lam = np.clip(lam + np.clip(step, -(0.1 + lam), 0.1 + lam), 0.0, top)
                if m == 1:
                    bracket[0 if g[0] < 0 else 1] = last[0]
                    if not bracket[0] < lam[0] < bracket[1]:
                        lam = np.array([(max(bracket[0], 0.0) + min(bracket[1], top)) / 2])
            if accepted or best_safe:
                break
            lam = best
        if not accepted and was_safe and not best_safe:
            lam, trials = first, trials + 1
            pi, adv, x, error, g, unmet, safe = look(lam, before)
            accepted = safe
        if not accepted:
            lam, trials = best, trials + 1
            pi, adv, x, error, g, unmet, safe = look(lam)
        self.safe, self.solved = safe, done
        self.policy, self.lam = pi, lam
        self.told = np.concatenate(
            [
                [self.R[0] @ self.mu],
                self.U[:, 0] @ self.mu,
                error,
                self.c_margin * z * error,
                a,
                [trials, tau, self.heat],
            ]
        )
        self.heat = max(1.0, COOLING * self.heat) if done else min(HEATING * self.heat, HOTTEST)
