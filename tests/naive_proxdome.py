"""ProxDOME in dense NumPy, its pseudo-code line by line: the slow twin.

Arrays are [h, s, a, s'], every state is worked on whether visited or not, and variances are taken of the samples kept.
"""

from typing import NamedTuple

import numpy as np

import flexdome as fd
from flexdome.learners.seen.dense import dense
from runs import World

TOL, TRIALS, BACKTRACKS, REFRESH, RIDGE = 0.05, 15, 3, 0.02, 1e-3
SAME = 1 - 1e-9
PLANS = 3
NOISY = 10
SHARES = [2.0**-k for k in range(1, 7)]
BY_LOG = 10


class Looked(NamedTuple):
    """What one trial showed."""

    pi: np.ndarray
    adv: np.ndarray
    x: np.ndarray
    g: np.ndarray
    done: bool
    safe: bool
    short: float
    residual: float
    full: bool


class NaiveProxDOME:
    def __init__(
        self, problem, c_bonus=0.65, c_prior=0.25, kappa=8.0, c_margin=1.3, shared=None, b_0=1.0,
        c_alpha=1.0, c_luck=0.25, least=5.5, licence=0.02,
    ):  # fmt: skip
        self.H, self.S, self.A, self.m = problem.horizon, problem.states, problem.actions, problem.constraints
        self.mu, self.known = problem.initial, problem.thresholds
        self.c_bonus, self.c_prior, self.kappa, self.c_margin = c_bonus, c_prior, kappa, c_margin
        self.b_0, self.c_alpha, self.c_luck, self.least, self.licence = b_0, c_alpha, c_luck, least, licence
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
        self.lam, self.logged = np.zeros(m), 0
        self.all_d, self.first_d = [], []  # all utilities seen, and those of first tries; NaN where there is none
        self.n_d = np.zeros((m, H, S, A))  # samples of each utility
        if problem.utilities is not None:
            self.first_d = list(np.asarray(problem.utilities).reshape(m, -1).T)
            self.all_d = self.first_d
        self.V, self.U, self.R = np.zeros((H + 1, S)), np.zeros((m, H + 1, S)), np.zeros((H + 1, S))
        self.may = np.ones((H, S, A), dtype=bool) if problem.allowed is None else problem.allowed
        self.rem = np.arange(H, 0, -1.0)[:, None, None]
        self.rest = self.rem * 0 if self.told_p is not None else self.rem - 1  # what may follow is unknown by as much
        self.bar = np.zeros((H, S, A))
        self.noise, self.ratio, self.centre = np.zeros((3, 1 + m, H))
        self.measure()
        self.s2, self.lucky = np.zeros((m, H, S, A)), np.zeros((m, H, S, A))
        self.doubts, self.luck = np.zeros((H, S, A)), np.zeros((H, S))
        self.pooled = np.broadcast_to(self.rem[:, 0, 0] ** 2 / 12, (1 + 2 * m, H)).copy()
        self.t, self.next, self.safe, self.policy = 1, 1, False, self.may / self.may.sum(-1, keepdims=True)
        self.kept, self.careful_plan, self.share, self.last_share, self.since = None, None, 0.0, 0.5, 0
        self.judged, self.below = np.zeros(m), np.zeros(m)
        self.plan(np.zeros((H, S, A), dtype=bool))

    def measure(self):
        """Top, middle and width of every utility."""
        m, each = self.m, self.known / self.H
        self.top, self.middle, self.b = np.ones(m), np.full(m, 0.5), np.ones(m)
        for i in range(m):
            most = np.nanmax([0.0, each[i], *(d[i] for d in self.all_d)])
            if most <= 1e-30:
                most = 1.0
            first = np.array([d[i] for d in self.first_d if not np.isnan(d[i])])
            n = len(first)
            self.top[i] = most
            self.middle[i] = (most / 2 + first.sum()) / (n + 1)
            self.pool(1 + i)
            total = (most**2 / 12 + (n * first.var() if n else 0.0)) * (1 / (1 + self.ratio[1 + i])).mean()
            self.b[i] = min(most, np.sqrt(12 * total / max(n, 1)))
        self.pool(0)

    def pool(self, j):
        """Noise of one observation, its variance over that of the means, and the centre, of every step."""
        means, spreads = (self.r, self.var_r) if j == 0 else (self.d[j - 1], self.var_d[j - 1])
        for h in range(0 if self.known_f[j] else self.H):
            samples = self.N[h] if j == 0 else self.n_d[j - 1, h]
            tried = samples > 0
            n, x = samples[tried], means[h][tried]
            if not n.size:
                continue
            self.centre[j, h] = np.average(x, weights=n / (n + self.ratio[j, h]))
            noise = spreads[h][tried] @ n / max((n - 1).sum(), 1)
            noise = noise if noise >= 1e-20 * (self.b_0 if j == 0 else self.top[j - 1]) ** 2 else 0.0
            spread = n @ (x - np.average(x, weights=n)) ** 2
            number = n.size - 1
            between = max(spread - number * noise, 0) + noise * np.sqrt(2 * number)
            self.noise[j, h] = noise
            self.ratio[j, h] = noise * (n.sum() - (n**2).sum() / n.sum()) / between if between > 0 else 0.0

    @property
    def noisy(self):
        """Whether single observations of a utility say little."""
        return self.ratio[1:].mean(axis=1).max() >= NOISY

    def L(self, lam):
        return self.b_0 + lam @ self.b

    def doubt(self, j, L):
        """(H, 1, 1): length of the interval in which d_j + U_j may lie, or for j = 0 the reward r + lam . d + V."""
        if j > 0:
            return self.b[j - 1] * (self.rest + (not self.known_f[j]))
        return self.b_0 * (not self.known_f[0]) + (self.lam * self.b) @ ~self.known_f[1:] + L * self.rest

    def mean(self, j, otherwise):
        """What is known of mean j, or else the mean of what was seen, or ``otherwise`` where nothing was."""
        if self.known_f[j]:
            return self.told_f[j]
        seen, centre = self.r if j == 0 else self.d[j - 1], self.centre[j][:, None, None]
        ratio = self.ratio[j][:, None, None]
        n = self.N if j == 0 else self.n_d[j - 1]
        if j > 0:  # where it was missing in every visit
            otherwise = np.where(self.N > 0, self.middle[j - 1], otherwise)
        return np.where(n > 0, (n * seen + ratio * centre) / (np.maximum(n, 1.0) + ratio), otherwise)

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
                if not self.known_f[1]:
                    self.all_d.append(d[:, h])
                table = np.array(self.samples[k][states[h]][actions[h]])
                self.r[at], self.var_r[at] = table[:, 0].mean(), table[:, 0].var()
                first = np.full(self.m, np.nan)
                for i in range(self.m):
                    there = table[~np.isnan(table[:, 1 + i]), 1 + i]
                    self.n_d[(i, *at)] = there.size
                    if there.size:
                        self.d[(i, *at)], self.var_d[(i, *at)] = there.mean(), there.var()
                    if there.size == 1 and not np.isnan(d[i, h]):
                        first[i] = d[i, h]
                if not self.known_f[1] and not np.isnan(first).all():
                    self.first_d.append(first)
                if k + 1 < self.H:
                    self.N_next[(*at, after)] += 1
        if episode.thresholds is not None:
            self.alphas.append(np.asarray(episode.thresholds).mean(axis=1))
        return visited

    def observe(self, episode):
        total = np.asarray(episode.utilities).sum(axis=1)
        self.judged += ~np.isnan(total)
        self.below += total < self.a * (1 - 1e-9)
        visited = self.record(episode)
        self.t += 1
        self.plan(visited)

    def preload(self, log):
        for episode in log:
            self.record(episode)
        self.t += len(log)
        self.logged += len(log)
        if self.kept is None:
            self.careful_plan = self.of_the_log()
        for _ in range(PLANS):
            self.next = 0
            self.plan(np.zeros(self.N.shape, dtype=bool))

    def of_the_log(self):
        """What was done in each state: at its own step, or else at any."""
        policy = self.policy.copy()
        for counts in (self.N, self.seen):
            here = counts.sum(-1, keepdims=True)
            policy = np.where(here > 0, counts / np.maximum(here, 1), policy)
        return policy

    @property
    def p(self):
        if self.told_p is not None:
            return self.told_p
        return self.N_next / np.maximum(self.N, 1.0)[..., None]

    def standard_errors(self, chosen, L, everything):
        n, p = np.maximum(self.N, 1.0), self.p
        often = (self.N >= 2) & chosen

        def shared(v, w):  # (H, S, A) covariance of two values of the next state
            v, w = (np.stack([np.broadcast_to(u[h + 1], p[h].shape) for h in range(self.H)]) for u in (v, w))
            v = v - (p * v).sum(-1, keepdims=True)
            return (p * v * (w - (p * w).sum(-1, keepdims=True))).sum(-1) * (self.told_p is None)

        def shrunk(w, v, n=n):
            return (n * w + self.kappa * v[:, None, None]) / (n + self.kappa)

        def prior(j, n=n):
            return (self.c_prior * self.doubt(j, L)) ** 2 / (12 * n)

        k = [n, *(n if known else np.maximum(x, 1.0) for x, known in zip(self.n_d, self.known_f[1:], strict=True))]

        m, V, U = self.m, self.V, self.U
        noise = np.zeros((1 + m, *n.shape))
        for j in np.flatnonzero(~self.known_f):
            noise[j] = shrunk(self.var_r if j == 0 else self.var_d[j - 1], self.noise[j], k[j])
            noise[j] *= k[j] / (k[j] + self.ratio[j][:, None, None])
            if j > 0:
                noise[j] = np.where((self.n_d[j - 1] == 0) & (self.N > 0), self.b[j - 1] ** 2 / 12, noise[j])
        sd = np.sqrt(noise[0])
        for i in range(m):
            sd = sd + self.lam[i] * np.sqrt(noise[1 + i] * n / k[1 + i])
        own = shared(V, V)
        each = [shared(U[i], U[i]) for i in range(m)]
        both = [shared(U[i], V) for i in range(m)]
        visits = np.log1p(self.N.sum(-1, keepdims=True))
        variance = shrunk(own, L**2 * self.pooled[0]) + prior(0) + sd**2
        self.doubts = np.where(chosen, variance / n, self.doubts)
        bonus = self.c_bonus / 2 if self.noisy else self.c_bonus
        self.bar = np.where(chosen, self.mean(0, 0.0) + bonus * np.sqrt(visits * variance / n), self.bar)
        for i in range(m):
            error = (shrunk(each[i], self.pooled[1 + i], k[1 + i]) + prior(1 + i, k[1 + i]) + noise[1 + i]) / k[1 + i]
            if not self.known_f[1 + i]:
                error = np.where(self.n_d[i] > 0, error, self.doubt(1 + i, L) ** 2 / 12)
            self.s2[i] = np.where(chosen, error, self.s2[i])
            owed = np.maximum(shrunk(both[i], L * self.pooled[1 + m + i]), 0) / np.sqrt(
                np.maximum(variance * n, 1e-300)
            )
            self.lucky[i] = np.where(chosen, owed, self.lucky[i])
        if everything:
            at_most = [self.doubt(0, L) / L, *(self.doubt(1 + i, L) for i in range(m))]
            first = [most**2 / 12 for most in at_most] + [
                self.lam[i] * at_most[1 + i] ** 2 / (12 * L) for i in range(m)
            ]
            samples = [
                np.where(often, w * n / np.maximum(n - 1, 1), 0).sum((1, 2))
                for w in (own / L**2, *each, *(w / L for w in both))
            ]
            self.pooled = (np.stack(first)[..., 0, 0] + np.array(samples)) / (1 + often.sum((1, 2)))

    def weigh_luck(self):
        """How many standard errors the best action of each state is expected to look better than it is."""
        for h in range(self.H):
            d = np.stack([self.mean(1 + i, 0.0)[h] for i in range(self.m)])
            looks = self.mean(0, 0.0)[h] + np.einsum("i,isa->sa", self.lam, d) + self.p[h] @ self.V[h + 1]
            for s in range(self.S):
                tried = self.N[h, s] > 0
                if not tried.any():
                    continue
                look, doubt = looks[s, tried], self.doubts[h, s, tried]
                variance = doubt + doubt @ self.policy[h, s, tried]
                alike = np.exp(-((look.max() - look) ** 2) / (2 * np.maximum(variance, 1e-300))).sum()
                self.luck[h, s] = np.sqrt(np.log(alike) / 2)

    def untried(self):
        """Squared standard errors of actions never tried."""
        for i in range(self.m):
            self.s2[i] = np.where(self.N > 0, self.s2[i], self.doubt(1 + i, 1.0) ** 2 / 12)

    def thresholds(self):
        n = len(self.alphas)
        if n == 0:
            a, sa = self.H * self.top / 2, (self.H * self.top) ** 2 / 12
        else:
            a = np.mean(self.alphas, axis=0)
            sa = (np.var(self.alphas, axis=0) + (self.H * self.top) ** 2 / (12 * n)) / n
        return np.where(np.isnan(self.known), a, self.known), np.where(np.isnan(self.known), sa, 0.0)

    def variances(self, x):
        """Of the plug-in utilities: the errors of one (s, a) are one error where steps are shared."""
        if self.shared:
            return ((x * np.sqrt(self.s2)).sum(1) ** 2).sum((1, 2))
        return (x**2 * self.s2).sum((1, 2, 3))

    def hopeful(self, h, lam):
        """Q of the optimistic plan."""
        d, p, most = (
            np.stack([self.mean(1 + i, self.top[i])[h] for i in range(self.m)]),
            self.p,
            self.b_0 + lam @ self.top,
        )
        bar = np.where(self.N[h] > 0, self.bar[h], self.mean(0, self.b_0)[h])
        Q = bar + np.einsum("i,isa->sa", lam, d) + p[h] @ self.V[h + 1]  # p is 0 where nothing is known to follow
        Q = np.where(self.N[h] > 0, Q, Q + most * self.rest[h, 0, 0])
        return np.minimum(Q, most * (self.H - h))

    def careful(self, h, lam):
        """Q of the plan that uses only what was tried."""
        z = np.sqrt(max(np.log(1 + self.t), self.least))
        d = np.stack([self.mean(1 + i, self.middle[i])[h] for i in range(self.m)])
        d = d - self.c_margin * z / np.sqrt(self.H) * np.sqrt(self.s2[:, h])
        Q = self.mean(0, self.b_0 / 2)[h] + np.einsum("i,isa->sa", lam, d) + self.p[h] @ self.V[h + 1]
        never = (self.N[h] == 0) & (self.s2[:, h].sum(0) > 0)
        return np.where(never, -self.H * self.L(lam) * (self.H - h), Q)

    def sweep(self, lam, tau, mode="hope", policy=None):
        """Policy, advantages of the utilities and occupancy; V, U and R (plug-in reward) are left behind.

        A policy that is given is evaluated instead of the softmax one.
        """
        H, S, A, m, p, tried = self.H, self.S, self.A, self.m, self.p, self.N > 0
        pi, adv = np.zeros((H, S, A)), np.zeros((m, H, S, A))
        self.V[H], self.U[:, H], self.R[H] = 0, 0, 0
        for h in reversed(range(H)):
            Q = self.careful(h, lam) if mode == "care" else self.hopeful(h, lam)
            top = np.where(self.may[h], Q, -np.inf).max(-1, keepdims=True)
            e = np.exp(np.maximum((Q - top) / tau, -700)) * self.may[h]
            pi[h] = e / e.sum(-1, keepdims=True)
            number = self.may[h].sum(-1)
            self.V[h] = top[:, 0] + tau * np.log(e.sum(-1) / number)
            if policy is not None:
                pi[h] = policy[h]
                bits = np.log(np.maximum(pi[h], 1e-300)) + np.log(number)[:, None]
                self.V[h] = (pi[h] * (Q - tau * bits)).sum(-1)
            rest = np.where(tried[h], 0.0, self.rest[h, 0, 0])
            half = self.b_0 / 2
            self.R[h] = (pi[h] * (self.mean(0, half)[h] + p[h] @ self.R[h + 1] + half * rest)).sum(-1)
            for i in range(m):
                Qd = self.mean(1 + i, self.middle[i])[h] + p[h] @ self.U[i, h + 1] + self.middle[i] * rest
                self.U[i, h] = (pi[h] * Qd).sum(-1)
                adv[i, h] = Qd - self.U[i, h][:, None]
        x, reach = np.zeros((H, S, A)), self.mu
        for h in range(H):
            x[h] = reach[:, None] * pi[h]
            reach = np.einsum("sa,sat->t", x[h], p[h])
        return pi, adv, x

    def look(self, lam, mode="hope", policy=None):
        """One trial: the sweep, what is short and by how much."""
        self.trials += 1
        pi, adv, x = self.sweep(lam, self.tau, mode, policy)
        variance, b = self.variances(x), self.b
        error = np.sqrt(variance + self.sa)
        margin = self.z * np.sqrt(self.c_margin**2 * variance + self.c_alpha**2 * self.sa)
        margin = margin + self.c_luck * (x * self.luck[..., None] * self.lucky).sum((1, 2, 3))
        if self.by_log and self.first_tries(x) >= self.licence:
            for i in range(self.m):
                never = (self.N if self.known_f[1 + i] else self.n_d[i]) == 0
                margin[i] += self.middle[i] * (x * np.sqrt(12 * self.s2[i]) / self.b[i])[never].sum()
        g = self.U[:, 0] @ self.mu - margin - self.a
        near = TOL * max(self.c_margin, 0.5) * self.z * error
        if self.revealed:
            near = np.maximum(near, 1e-6 * self.H * b)
        safe, full = bool((g >= -near).all()), lam @ b >= SAME * self.ceiling
        gap, loose = g / b, near / b
        if full and not safe:
            gap, loose = gap - gap.min(), 2 * loose
        unmet = (gap < -loose) | ((gap > loose) & (lam > 0))
        self.error, self.margin = error, margin
        return Looked(
            pi, adv, x, g, not unmet.any(), safe, max((-g / b).max(), 0.0), np.abs(gap[unmet]).max(initial=0.0), full
        )

    def capped(self, lam):
        total = lam @ self.b
        return lam * (self.ceiling / total) if total > self.ceiling else lam

    def newton(self, lam, seen):
        """Down the quadratic model g . s + s J s / 2, a multiplier that comes to 0 stays there; then the ceiling."""
        J = np.einsum("hsa,ihsa,jhsa->ij", seen.x, seen.adv, seen.adv) / self.tau
        J += RIDGE * np.diag(self.b**2) / self.b_0
        free = [i for i in range(self.m) if lam[i] > 0 or seen.g[i] <= 0]
        at = lam.copy()
        while True:
            slope, toward = seen.g + J @ (at - lam), np.zeros(self.m)
            if free:
                toward[free] = np.linalg.solve(J[np.ix_(free, free)], -slope[free])
            ends = {i: at[i] / -toward[i] for i in free if at[i] + toward[i] < 0}
            if not ends or min(ends.values()) >= 1:
                break
            first = min(ends, key=ends.get)
            at = at + ends[first] * toward
            at[first] = 0.0
            free.remove(first)
        step = at + toward - lam
        beyond = self.b @ (lam + step) - self.ceiling
        if beyond > 0 and free:
            lean = np.linalg.solve(J[np.ix_(free, free)], self.b[free])
            step[free] -= beyond * lean / (self.b[free] @ lean)
        reach = 0.1 * self.b_0 / self.b + lam
        return self.capped(np.maximum(lam + np.clip(step, -reach, reach), 0.0))

    def solve(self, lam, mode):
        """The dual solve: multipliers, and what the last trial showed; ``under``: the least short of the unsafe."""
        best, best_lam, self.under, least = None, lam, None, np.inf
        last, last_residual, backtracks, bracket = None, np.inf, 0, [-np.inf, np.inf]

        def beats(seen):
            if best is None or seen.safe != best.safe:
                return best is None or seen.safe
            nearer = seen.short <= best.short and seen.residual < SAME * best.residual
            return seen.short < SAME * best.short or nearer

        for k in range(TRIALS):
            seen = self.look(lam, mode)
            if seen.done:
                return lam, seen
            if beats(seen):
                best, best_lam = seen, lam
            if not seen.safe and seen.short < least:
                self.under, least = lam, seen.short
            if k == TRIALS - 1:
                break
            if self.m > 1 and seen.residual >= SAME * last_residual and backtracks < BACKTRACKS:
                backtracks += 1
                lam = (lam + last) / 2
                continue
            backtracks, last, last_residual = 0, lam, seen.residual
            lam = self.newton(lam, seen)
            if self.m == 1:
                bracket[0 if seen.g[0] < 0 else 1] = last[0]
                if not bracket[0] < lam[0] < bracket[1]:
                    lam = np.array([(max(bracket[0], 0.0) + min(bracket[1], self.ceiling / self.b[0])) / 2])
        lam = best_lam
        for _ in range(0 if best.safe else TRIALS):
            seen = self.look(lam, mode)
            if seen.done or seen.safe:
                return lam, seen
            if beats(seen):
                best, best_lam = seen, lam
            if not seen.safe and seen.short < least:
                self.under, least = lam, seen.short
            if seen.full:
                break
            lam = self.capped(np.where(seen.g < 0, 2 * lam + 0.1 * self.b_0 / self.b, lam))
        return best_lam, self.look(best_lam, mode)

    def opened(self):
        """(H, S): the states that were visited, at any step where steps are shared."""
        if self.revealed:
            return np.ones((self.H, self.S), dtype=bool)
        here = self.seen.sum(-1) > 0
        return np.broadcast_to(here.any(0), here.shape) if self.shared else here

    def safe_one(self, everything):
        """What was seen of a policy that is shown safe: the one kept, or one that uses only what was tried."""
        kept, self.kept = self.kept, None
        held = None
        if kept is not None:
            seen = self.look(self.lam, policy=kept)
            held, self.worth = seen if seen.safe else None, self.R[0] @ self.mu
        if held and not (everything and self.noisy):
            return held
        if kept is not None or everything:
            _, seen = self.solve(self.lam, "care")
            if seen.safe and (not held or self.R[0] @ self.mu > self.worth):
                self.worth = self.R[0] @ self.mu
                return seen
            self.careful_plan = seen.pi if self.noisy and not held else None
        return held

    def untried_actions(self):
        """How many of the actions that may be taken were never tried in states that were visited, at any step."""
        sure = self.told_p is not None and self.known_f.all()
        here = self.N.sum(-1) > 0 if self.revealed else self.opened()
        return (self.may & (self.N == 0) & here[..., None]).sum() * (not sure)

    def first_tries(self, x):
        """How many actions are expected to be tried for the first time."""
        return x[self.opened()[..., None] & (self.N == 0)].sum()

    def mixture(self, one, other, share):
        """What plays ``other`` in a share of the episodes does, and ``one`` in the others."""
        x = (1 - share) * one.x + share * other.x
        here = x.sum(-1, keepdims=True)
        in_state = (1 - share) * one.pi + share * other.pi
        return np.where((here > 1e-12) & self.opened()[..., None], x / np.maximum(here, 1e-300), in_state)

    def mix(self, safe, hope):
        """Play the first mixture that is shown safe, or else the safe policy."""
        self.safe, self.kept = True, safe.pi
        for share in [share for share in SHARES if share <= 2 * self.last_share]:
            mixture = self.mixture(safe, hope, share)
            if self.look(self.lam, policy=mixture).safe:
                self.policy, self.share, self.last_share = mixture, share, share
                if share == SHARES[0] or self.R[0] @ self.mu > self.worth:
                    self.kept = mixture
                return
        self.policy, self.share, self.last_share = self.kept, 0.0, SHARES[-1]
        self.safe = self.look(self.lam, policy=self.kept).safe

    def plan(self, visited):
        everything = self.t >= self.next
        self.choose(visited, everything)
        if everything:
            self.weigh_luck()

    def choose(self, visited, everything):
        t, H = self.t, self.H
        if self.safe and self.share == 1.0:
            self.kept, self.careful_plan = self.policy, None
        if self.share == 1.0:
            self.since = t
        elif everything and t >= 2 * self.since:
            self.lam, self.since = np.zeros(self.m), t
        if everything:
            self.next = t + 1 + int(np.floor(REFRESH * t))
            visited = self.N > 0
            self.measure()
        self.by_log = 1 <= t - self.logged <= BY_LOG * self.logged
        self.ceiling, self.z = self.b_0 * np.sqrt(t), np.sqrt(max(np.log(1 + t), self.least))
        self.lam = self.capped(self.lam)
        self.tau = self.L(self.lam) / np.sqrt(H * t)
        self.standard_errors(visited & (self.N > 0), self.L(self.lam), everything)
        self.untried()
        self.a, self.sa = self.thresholds()
        self.trials, self.share = 0, 1.0
        self.lam, seen = self.solve(self.lam, "hope")
        self.solved, self.full, self.safe, self.policy = seen.done, seen.full, seen.safe, seen.pi
        self.first = self.first_tries(seen.x)
        licence = self.first >= self.licence and self.logged == 0
        if seen.safe and not seen.done and self.under is not None:
            self.worth = self.R[0] @ self.mu
            self.careful_plan = None
            self.mix(seen, self.look(self.under))
        elif not (seen.safe or licence) and self.by_log:
            self.after_a_log(seen, everything)
        elif not (seen.safe or licence or (self.kept is None and self.careful_plan is None and not everything)):
            self.otherwise(seen, everything)
        self.tell()

    def otherwise(self, hope, everything):
        """What is played in the place of a plan that is not shown safe."""
        safe = None
        if self.kept is not None or everything:
            self.careful_plan = None
            safe = self.safe_one(everything)
        if safe is not None:
            self.mix(safe, hope)
            return
        if self.careful_plan is not None:
            self.policy = (hope.pi + self.careful_plan) / 2
        self.safe = self.look(self.lam, policy=self.policy).safe

    def after_a_log(self, hope, everything):
        """The same after a log: what was tried alone, unless it is more than a standard error short."""
        one = self.careful_plan if self.kept is None else self.kept
        self.kept = self.careful_plan = held = None
        short = np.inf
        if one is not None:
            seen = self.look(self.lam, policy=one)
            short, self.worth = seen.short, self.R[0] @ self.mu
            held = seen if seen.safe else None
        if held is None or (everything and self.noisy):
            _, found = self.solve(self.lam, "care")
            earned = self.R[0] @ self.mu
            if found.safe and (held is None or earned > self.worth):
                held, self.worth = found, earned
            elif held is None and found.short < short:
                one = found.pi
        if held is not None:
            self.mix(held, hope)
            return
        self.careful_plan = one
        self.safe = self.look(self.lam, policy=one).safe
        if (self.U[:, 0] @ self.mu + self.error >= self.a).all():
            self.policy, self.share = one, 0.0
            return
        self.policy = (hope.pi + one) / 2 if self.noisy else hope.pi
        self.safe = self.look(self.lam, policy=self.policy).safe

    def tell(self):
        """The numbers of the plan, as :class:`flexdome.learners.proximal.data_kernels.Report` has them."""
        self.report = np.concatenate(
            [
                [self.R[0] @ self.mu],
                self.U[:, 0] @ self.mu,
                self.error,
                self.margin,
                self.a,
                [self.trials, self.tau, self.safe],
            ]
        )
        self.ends = np.array([self.solved, self.full, self.first, self.share])


def seen(world: World, learner: fd.ProxDOME) -> fd.Episode:
    """An episode of the learner's policy, with threshold samples where the learner needs them."""
    e = world.play(learner.policy)
    return fd.Episode(e.states, e.actions, e.rewards, e.utilities) if learner.problem.thresholds_known else e


def distance(learner: fd.ProxDOME, twin: NaiveProxDOME) -> float:
    report, noise = learner.own.report, learner.own.pools[0]
    ratio = learner.own.pools[1] / (1.0 + twin.ratio)  # may be large
    parts = (
        noise - twin.noise,
        ratio - twin.ratio / (1.0 + twin.ratio),
        learner.policy - twin.policy,
        learner.multipliers - twin.lam,
        report.numbers[: twin.report.size] - twin.report,
        learner.visits - twin.seen,
        report.untried - twin.untried_actions(),
        learner.own.judged - twin.judged,
        learner.own.below - twin.below,
        learner.own.pooled - twin.pooled,
        np.concatenate([report.solved, report.ceiling, report.first, report.share]) - twin.ends,
    )
    return max(float(np.abs(part).max()) for part in parts)


def counted(learner: fd.ProxDOME, twin: NaiveProxDOME) -> bool:
    """Whether the learner's counts, sums and successors of every step are those of its twin."""
    told = dense(learner.model, counted=twin.told_p is None)
    samples = [twin.N if known else n for n, known in zip(twin.n_d, twin.known_f[1:], strict=True)]
    sums = [r * n for r, n in zip([twin.r, *twin.d], [twin.N, *samples], strict=True)]
    parts = [(told.visits, twin.N), *zip(told.sums, sums, strict=True)]
    parts += zip(told.samples[1:], samples, strict=True)
    if twin.told_p is None:
        parts.append((told.following, twin.N_next))
    return all(np.allclose(one, other, rtol=0.0, atol=1e-9) for one, other in parts)


def weight_by_hand(learner: fd.ProxDOME) -> float:
    """The largest w with w low + (1 - w) v_0 >= alpha, by bisection, from the status and the model alone."""
    status, own, problem = learner.status(), learner.own, learner.problem
    H, C, A = problem.horizon, learner.settings.C, problem.actions
    x, visits = own.x.reshape(H, A, C), learner.model.core.counts.n_visits.reshape(H, A, C)
    cells = learner.model.core.counts.n_cells
    blind = sum(x[h, a, c] for h in range(H) for a in range(A) for c in range(cells[h]) if visits[h, a, c] == 0)
    blind += problem.initial[learner.visits[0].sum(axis=1) == 0].sum()
    lucky = 0.75 * own.dual.luck  # a quarter is in the margin
    noise = own.pools[1, 1:] / (1.0 + own.pools[1, 1:])  # (m, H)
    low = status.utilities - (1.0 + 0.4 * noise.mean(axis=1)) * status.margin - lucky
    beside = np.sqrt(max(np.log(learner.episode + 2.0), 5.5) * own.dual.error)  # of a threshold that is estimated
    alpha = status.thresholds + beside
    low = np.maximum(low - blind * own.scales.middle * H + beside, 0.0)  # it is in the plan's margin, and counts once
    assert learner.safe_policy is not None
    if np.isnan(problem.thresholds).any() and learner.episode < 30:
        return 0.0
    lower, upper = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (lower + upper)
        meets = middle * low + (1.0 - middle) * learner.safe_policy.utilities >= alpha - 1e-15
        lower, upper = (middle, upper) if meets.all() else (lower, middle)
    return upper if upper > 1.0 - 1e-12 else lower
