"""Slow twins of learners that solve a program: counts in plain loops, every constant written out, a dense program.

Each takes a problem, the episodes seen, K, delta and options, and says what is planned next. The formulas are those of
the papers (see the learners' docstrings), in utility form; practical constants are the first rows of docs/tuning.md.
Nothing of the library is used but the ``Problem``, the ``Episode`` and the ``SafePolicy`` that go in.
"""

from itertools import product
from math import ceil, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from naive_programs import dense_program


class Expected(NamedTuple):
    """What is planned: values (1 + m,), multipliers (m,), widths (H, S, A), and the program or the safe policy."""

    values: np.ndarray
    multipliers: np.ndarray
    widths: np.ndarray
    program: dict[str, Any] | None
    safe: np.ndarray | None = None


class Seen:
    """Counts and means of the episodes; what the problem reveals is not estimated."""

    def __init__(self, problem, episodes):
        S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
        self.sizes, self.mu, self.allowed = (S, A, H, m), problem.initial, problem.allowed
        self.N, moves = np.zeros((H, S, A)), np.zeros((H, S, A, S))
        total, cost = np.zeros((1 + m, H, S, A)), np.zeros((m, H, S, A))
        samples = [[] for _ in range(m)]
        self.M = np.zeros((1 + m, H, S, A))  # samples: a utility may be missing
        for e in episodes:
            for h in range(H):
                s, a = e.states[h], e.actions[h]
                self.N[h, s, a] += 1
                if h < H - 1:
                    moves[h, s, a, e.states[h + 1]] += 1
                total[0, h, s, a] += e.rewards[h]
                self.M[0, h, s, a] += 1
                for i in range(m):
                    if e.utilities[i][h] == e.utilities[i][h]:
                        self.M[1 + i, h, s, a] += 1
                        total[1 + i, h, s, a] += e.utilities[i][h]
                        cost[i, h, s, a] += 1 - e.utilities[i][h]
                    samples[i].append(e.thresholds[i][h])
        self.n = np.maximum(self.N, 1)
        at_least = np.maximum(self.M, 1)
        self.p, self.f, self.cost = moves / self.n[..., None], total / at_least, cost / at_least[1:]
        self.ask_p = problem.transitions is None
        self.ask = [problem.rewards is None] + m * [problem.utilities is None]  # what has to be estimated
        if not self.ask_p:
            self.p = problem.transitions
        if not self.ask[0]:
            self.f[0] = problem.rewards
        if not self.ask[1]:
            self.f[1:], self.cost = problem.utilities, 1 - problem.utilities
        known = problem.thresholds
        self.alpha = np.array(
            [
                known[i] if known[i] == known[i] else (sum(samples[i]) / len(samples[i]) if samples[i] else 0.0)
                for i in range(m)
            ]
        )

    def bernstein(self, L):
        """(H, S, A, S): 2 sqrt(p (1 - p) L / n) + 14 L / (3 n)."""
        beta = np.zeros(self.p.shape)
        for cell in product(*map(range, beta.shape)):
            if self.ask_p:
                p, n = self.p[cell], self.n[cell[:3]]
                beta[cell] = sqrt(4 * p * (1 - p) * L / n) + 14 * L / (3 * n)
        return beta

    def root(self, L):
        """(1 + m, H, S, A): sqrt(L / n) for what has to be estimated."""
        return np.array([np.sqrt(L / max_) * ask for max_, ask in zip(np.maximum(self.M, 1), self.ask, strict=True)])

    def box(self, beta):
        """Around p^; anything where nothing was seen."""
        lo, up = np.clip(self.p - beta, 0, 1), np.clip(self.p + beta, 0, 1)
        if self.ask_p:
            lo[self.N == 0], up[self.N == 0] = 0, 1
        return lo, up

    def ball(self, radius):
        """Around p^; anything where nothing was seen."""
        if not self.ask_p:
            return self.p, 0 * self.n
        centre, S = self.p.copy(), self.p.shape[3]
        centre[self.N == 0] = 1 / S
        return centre, np.where(self.N == 0, 2.0, radius)

    def value(self, f, policy):
        """V_f of a policy under p^, forwards."""
        reached, value = self.mu.copy(), 0.0
        for h in range(self.sizes[2]):
            x = reached[:, None] * policy[h]
            value += (x * f[h]).sum()
            reached = np.einsum("sa,sak->k", x, self.p[h])
        return value


def tuned(tuning, given, theory, practical):
    """An option: as given, or what the tuning says."""
    return given if given is not None else theory if tuning == "theory" else practical


def solved(f, seen, alpha, **rows):
    """The program, its values and multipliers; where it has no solution that of largest slack."""
    program = {"f": f, "mu": seen.mu, "alpha": alpha, "allowed": seen.allowed, **rows}
    answer = dense_program(**program)
    if answer is None:
        program["largest_slack"] = True
        answer = dense_program(**program)
        return answer.values, np.zeros(len(alpha)), program, False
    return answer.values, answer.multipliers, program, True


# -- Efroni, Mannor and Pirotta 2020 -----------------------------------------------------------------------------------


def efroni_logs(seen, K, delta):
    """L_p of the transitions and L of the means."""
    S, A, H, m = seen.sizes
    return log(6 * S * A * H * K / delta), 2 * log(6 * S * A * H * (m + 1) * K / delta)


def optimistic(seen, K, delta, scale, confidence, full):
    """Means, confidence set and widths of OptCMDP, OptDual-CMDP and OPTAUG-CMDP."""
    S, A, H, m = seen.sizes
    L_p, L = efroni_logs(seen, K, delta)
    f, beta = seen.f + scale * seen.root(L), seen.bernstein(L_p)
    for j, h, s, a in product(range(1 + m), range(H), range(S), range(A)):
        if full and seen.ask[j] and seen.M[j, h, s, a] == 0:
            f[j, h, s, a] = max(f[j, h, s, a], 1)
    if confidence == "l1":
        rows = {"ball": seen.ball(scale * np.sqrt(14 * S * L_p / seen.n))}
    else:
        rows = {"box": seen.box(scale * beta)}
    rows["allowed"] = seen.allowed
    widths = scale * seen.root(L).max(axis=0) + H * np.minimum(scale * beta.sum(axis=3), 2)
    return f, rows, widths


def optcmdp(
    problem, episodes, K, delta, *, tuning="theory", bonus_scale=None, confidence="bernstein", unvisited=None
):  # fmt: skip
    seen, scale = Seen(problem, episodes), tuned(tuning, bonus_scale, 1, 0)
    full = tuned(tuning, unvisited, "paper", "optimistic") == "optimistic"
    f, rows, widths = optimistic(seen, K, delta, scale, confidence, full)
    values, multipliers, program, _ = solved(f, seen, seen.alpha, **rows)
    return Expected(values, multipliers, widths, program)


def optcmdp_bonus(problem, episodes, K, delta, *, tuning="theory", bonus_scale=None, unvisited=None):
    seen, scale = Seen(problem, episodes), tuned(tuning, bonus_scale, 1, 0)
    S, A, H, m = seen.sizes
    L_p, L = efroni_logs(seen, K, delta)
    bonus = scale * (seen.root(L) + H * seen.bernstein(L_p).sum(axis=3))
    f = seen.f + bonus
    if tuned(tuning, unvisited, "paper", "optimistic") == "optimistic":
        for j, h, s, a in product(range(1 + m), range(H), range(S), range(A)):
            if seen.ask[j] and seen.M[j, h, s, a] == 0:
                f[j, h, s, a] = max(f[j, h, s, a], H - h)  # h from 0
    values, multipliers, program, _ = solved(f, seen, seen.alpha, point=seen.p)
    return Expected(values, multipliers, bonus.max(axis=0), program)


def optdual(
    problem, episodes, K, delta, *, tuning="theory", bonus_scale=None, dual_step=None, dual_bound=None,
    confidence="bernstein", unvisited=None, replan=1,
):  # fmt: skip
    """``episodes`` are those played; a threshold's estimate is as old as the step that uses it."""
    H, m = problem.horizon, problem.constraints
    scale = tuned(tuning, bonus_scale, 1, 0.01)
    rho = H / problem.slater_gap if dual_bound is None else dual_bound
    step = tuned(tuning, dual_step, 1 / sqrt(H**2 * m * K / rho**2) if rho else 0.0, 0.1)
    full = tuned(tuning, unvisited, "paper", "optimistic") == "optimistic"
    lam, values = np.zeros(m), np.zeros(1 + m)
    for k in range(len(episodes) + 1):
        if k % replan == 0:
            f, rows, _ = optimistic(Seen(problem, episodes[:k]), K, delta, scale, confidence, full)
        now = Seen(problem, episodes[:k])
        if k > 0:
            lam = np.maximum(lam + step * (now.alpha - values[1:]), 0)
        program = {"f": (f[0] + np.tensordot(lam, f[1:], 1))[None], "mu": now.mu, "alpha": np.zeros(0), **rows}
        values = np.einsum("jhsa,hsa->j", f, dense_program(**program).occupancy)
    widths = optimistic(now, K, delta, scale, confidence, full)[2]
    return Expected(values, lam, widths, program)


# -- Müller, Alatur, Ramponi and He 2023 -------------------------------------------------------------------------------


def augmented(f, mu, lam, alpha, eta, rows):
    """max V_f0 - [lam + eta (alpha - V_f1)]_+^2 / (2 eta), m = 1: its values, by bisection of the slope w = [...]_+."""

    def best(w):
        return dense_program((f[0] + w * f[1])[None], mu, np.zeros(0), **rows)

    def utility(w):
        return float((best(w).occupancy * f[1]).sum())

    low, high = 0.0, lam + eta * (alpha + float(np.abs(f[1]).max()) * f.shape[1])
    if lam + eta * (alpha - utility(0.0)) <= 0:
        x = best(0.0).occupancy
        return np.array([(x * f[0]).sum(), (x * f[1]).sum()]), 0.0
    for _ in range(45):
        w = (low + high) / 2
        low, high = (w, high) if lam + eta * (alpha - utility(w)) > w else (low, w)
    other = alpha - (low - lam) / eta
    return np.array([best(low).values[0] - low * other, other]), low


def optaug(
    problem, episodes, K, delta, *, safe_policy, tuning="theory", bonus_scale=None, penalty=None,
    baseline_episodes=None, confidence="bernstein", unvisited=None,
):  # fmt: skip
    """One constraint. ``multipliers`` are those of the program that was solved, not those it leads to."""
    scale, eta = tuned(tuning, bonus_scale, 1, 1e-4), tuned(tuning, penalty, 1 / problem.slater_gap, 10)
    first = tuned(tuning, baseline_episodes, ceil(sqrt(K)), 0)
    full = tuned(tuning, unvisited, "paper", "optimistic") == "optimistic"
    after, seen = 0.0, Seen(problem, episodes)
    widths = optimistic(seen, K, delta, scale, confidence, full)[2]
    if len(episodes) < first:
        values = np.append(seen.value(seen.f[0], safe_policy.policy), safe_policy.utilities)
        return Expected(values, np.zeros(1), widths, None, safe_policy.policy)
    for k in range(first, len(episodes) + 1):
        now = Seen(problem, episodes[:k])
        f, rows, _ = optimistic(now, K, delta, scale, confidence, full)
        lam = after
        values, after = augmented(f, now.mu, lam, now.alpha[0], eta, rows)
    program = {"f": (f[0] + after * f[1])[None], "mu": now.mu, "alpha": np.zeros(0), **rows}
    return Expected(values, np.array([lam]), widths, program)


# -- Liu, Zhou, Kalathil, Kumar and Tian 2021 --------------------------------------------------------------------------


def optpess_lp(problem, episodes, K, delta, *, safe_policy, tuning="theory", bonus_scale=None):
    seen, scale = Seen(problem, episodes), tuned(tuning, bonus_scale, 1, 0)
    S, A, H, m = seen.sizes
    Z = log(16 * S**2 * A * H * K / delta)
    means, moves = scale * seen.root(Z), scale * np.sqrt(Z / seen.n) * seen.ask_p
    tau, c0 = H - seen.alpha, H - safe_policy.utilities
    gap = min(tau - c0)
    width = means[1:].max(axis=0) + S * H * moves
    cost = seen.cost + means[1:] + S * H * moves
    safe = np.array([seen.value(c, safe_policy.policy) for c in cost])
    if gap > 0 and not any(safe[i] >= (tau[i] + c0[i]) / 2 for i in range(m)):
        widest = np.array([*means, moves]).max(axis=0)
        reward = seen.f[0] + means[0] + S * H * moves + 4 * H * (1 + S * H) / gap * widest
        values, multipliers, program, feasible = solved(np.array([reward, *-cost]), seen, -tau, point=seen.p)
        if feasible:
            return Expected(np.append(values[0], H + values[1:]), multipliers, width, program)
    values = np.append(seen.value(seen.f[0], safe_policy.policy), H - safe)
    return Expected(values, np.zeros(m), width, None, safe_policy.policy)


# -- Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland 2022 --------------------------------------------------


def dope(
    problem, episodes, K, delta, *, safe_policy, tuning="theory", bonus_scale=None, baseline_episodes=None, played=None
):  # fmt: skip
    """``played`` of the episodes count for the first phase (all, unless given)."""
    seen, scale = Seen(problem, episodes), tuned(tuning, bonus_scale, 1, 1e-6)
    S, A, H, m = seen.sizes
    L = log(2 * S * A * H * K / delta)
    C, C_b = H - seen.alpha, H - safe_policy.utilities
    gap = min(C - C_b)
    beta_p, beta_r = scale * seen.bernstein(L), scale * 2 * seen.root(L)
    bar = beta_p.sum(axis=3)
    width = beta_r.max(axis=0) + H * bar
    if gap > 0:
        first = tuned(tuning, baseline_episodes, S**2 * A * H**3 / gap**2, 0)
        if (len(episodes) if played is None else played) >= first:
            cost = seen.cost + beta_r[1:] + H * bar
            reward = seen.f[0] + 3 * H / gap * beta_r.max(axis=0) + H**2 / gap * bar
            values, multipliers, program, feasible = solved(
                np.array([reward, *-cost]), seen, -C, box=seen.box(beta_p)
            )  # fmt: skip
            if feasible:
                return Expected(np.append(values[0], H + values[1:]), multipliers, width, program)
    values = np.append(seen.value(seen.f[0], safe_policy.policy), safe_policy.utilities)
    return Expected(values, np.zeros(m), width, None, safe_policy.policy)


TWINS = {
    "optcmdp": optcmdp,
    "optcmdp-bonus": optcmdp_bonus,
    "optdual": optdual,
    "optaug": optaug,
    "optpess-lp": optpess_lp,
    "dope": dope,
}
