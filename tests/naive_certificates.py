"""Certificates written slowly from the papers' formulas, with constants of their own.

Waudby-Smith and Ramdas 2024: the predictable plug-in bets (their 15), the empirical Bernstein sequence (Theorem 2), the
capital (Theorem 3). Robbins 1970: the normal mixture. Weissman et al. 2003: the L1 norm as the largest difference of a
set. Everything is computed anew from all observations.
"""

import itertools
import math

import numpy as np
from scipy.optimize import linprog


def bets(xs, a):
    """lam_1, ..., lam_{n+1}, uncut."""
    lam = []
    for t in range(1, len(xs) + 2):
        mean = [min((0.5 + sum(xs[:i])) / (i + 1), 1.0) for i in range(1, t)]
        spread = (0.25 + sum((x - m) ** 2 for x, m in zip(xs[: t - 1], mean, strict=True))) / t
        lam.append(math.sqrt(2 * math.log(1 / a) / (spread * t * math.log(1 + t))))
    return lam


def bernstein(xs, a):
    """The running largest lower bound after each observation."""
    lam = [min(one, 1 / 2) for one in bets(xs, a)]
    bounds, best = [], 0.0
    for t in range(1, len(xs) + 1):
        psi = [(-math.log(1 - one) - one) / 4 for one in lam[:t]]
        before = [min((0.5 + sum(xs[:i])) / (i + 1), 1.0) for i in range(t)]
        v = [4 * (x - m) ** 2 for x, m in zip(xs[:t], before, strict=True)]
        total = sum(lam[:t])
        centre = sum(one * x for one, x in zip(lam, xs[:t], strict=False)) / total
        best = max(best, centre - (math.log(1 / a) + sum(p * q for p, q in zip(psi, v, strict=True))) / total)
        bounds.append(best)
    return bounds


def capital(xs, mean, a):
    """K_1, ..., K_n against ``mean``."""
    lam, k, path = bets(xs, a), 1.0, []
    for one, x in zip(lam, xs, strict=False):
        k *= 1 + min(one, 1 / (2 * mean)) * (x - mean)
        path.append(k)
    return path


def betting(xs, a, means):
    """The largest of ``means`` that was ever refuted, after each observation."""
    paths = {mean: capital(xs, mean, a) for mean in means}
    return [
        max((mean for mean, path in paths.items() if max(path[: t + 1]) >= 1 / a), default=0.0) for t in range(len(xs))
    ]


def normal_mixture(n, a, scale, rho):
    """Half the width of both sides at once, found by bisection from the martingale itself."""

    def value(s):
        return math.sqrt(rho / (rho + n)) * math.exp(s * s / (2 * scale * scale * (n + rho)))

    low, high = 0.0, 1.0
    while value(high) < 1 / a:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if value(middle) < 1 / a else (low, middle)
    return high / n


def sets_of_states(S):
    """One of each pair of a set and its complement, without the empty one."""
    return [b for b in itertools.product((0, 1), repeat=S) if b[0] == 1 and 0 in b]


def least_value(policy, mu, low, p, half):
    """The least value over all p within ``half`` of the L1 norm, by a linear program for each row."""
    H, S, A = policy.shape
    after = np.zeros(S)
    for h in reversed(range(H)):
        here = np.zeros(S)
        for s in range(S):
            for a in range(A):
                nxt = after.min()
                if h + 1 < H and p[h, s, a].sum() > 0 and half[h, s, a] < 1:
                    # q = p + up - down, sum up = sum down <= half
                    eye = np.eye(S)
                    answer = linprog(
                        np.concatenate([after, -after]),
                        A_ub=np.vstack([np.hstack([np.zeros((S, S)), eye]), np.r_[np.ones(S), np.zeros(S)][None]]),
                        b_ub=np.append(p[h, s, a], half[h, s, a]),
                        A_eq=np.r_[np.ones(S), -np.ones(S)][None],
                        b_eq=[0.0],
                    )
                    nxt = p[h, s, a] @ after + answer.fun
                here[s] += policy[h, s, a] * (low[h, s, a] + nxt)
        after = here
    return float(mu @ after)
