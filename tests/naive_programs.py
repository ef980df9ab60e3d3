"""Slow twins of what program-solving learners do: the extended linear program, brute force over a box."""

from itertools import product

import numpy as np
from scipy.optimize import linprog


def extended_lp(lo, up, f, mu, alpha):
    """Value and occupancy (H, S, A) of the program over z_h(s, a, s'), written out row by row.

    ``lo``, ``up`` are (H, S, A, S); the last step has transitions too, which lead nowhere.
    """
    n_f, H, S, A = f.shape

    def at(h, s, a, k):
        return ((h * S + s) * A + a) * S + k

    n = H * S * A * S
    cost = -np.repeat(f[0].ravel(), S)
    equal, right = [], []
    for h, s in product(range(H), range(S)):
        row = np.zeros(n)
        for a, k in product(range(A), range(S)):
            row[at(h, s, a, k)] = 1.0
        if h > 0:
            for s0, a0 in product(range(S), range(A)):
                row[at(h - 1, s0, a0, s)] -= 1.0
        equal.append(row)
        right.append(mu[s] if h == 0 else 0.0)
    less, bound = [], []
    for j in range(1, n_f):
        less.append(-np.repeat(f[j].ravel(), S))
        bound.append(-alpha[j - 1])
    for h, s, a, k in product(range(H), range(S), range(A), range(S)):
        for sign, limit in ((1.0, up), (-1.0, lo)):
            row = np.zeros(n)
            for j in range(S):
                row[at(h, s, a, j)] -= sign * limit[h, s, a, k]
            row[at(h, s, a, k)] += sign
            less.append(row)
            bound.append(0.0)
    answer = linprog(cost, np.array(less), bound, np.array(equal), right, method="highs")
    if answer.status == 2:
        return None
    assert answer.status == 0, answer.message
    return -answer.fun, answer.x.reshape(H, S, A, S).sum(axis=-1)


def corners(lo, up):
    """The extreme points of {lo <= q <= up, sum q = 1}: all but one coordinate at a bound."""
    S = lo.size
    found = []
    for free in range(S):
        rest = [k for k in range(S) if k != free]
        for ends in product((0, 1), repeat=S - 1):
            q = np.zeros(S)
            for k, end in zip(rest, ends, strict=True):
                q[k] = up[k] if end else lo[k]
            q[free] = 1.0 - q.sum()
            if lo[free] - 1e-12 <= q[free] <= up[free] + 1e-12:
                found.append(q)
    return np.array(found)


def ends(lo, up, h, s, a, v):
    """The means of v at the corners of a row; nothing follows the last step."""
    return corners(lo[h, s, a], up[h, s, a]) @ v if h + 1 < lo.shape[0] else np.zeros(1)


def extended_best(lo, up, g, mu):
    """The largest value of any policy in any model of the box, by trying every corner of every row."""
    H, S, A = g.shape
    v = np.zeros(S)
    for h in reversed(range(H)):
        best = np.zeros(S)
        for s in range(S):
            best[s] = max(g[h, s, a] + ends(lo, up, h, s, a, v).max() for a in range(A))
        v = best
    return mu @ v


def extended_policy_value(lo, up, g, mu, pi, sign):
    """The most (sign 1) or least (-1) that a policy is worth in any model of the box."""
    H, S, A = g.shape
    v = np.zeros(S)
    for h in reversed(range(H)):
        value = np.zeros(S)
        for s in range(S):
            for a in range(A):
                value[s] += pi[h, s, a] * (g[h, s, a] + sign * (sign * ends(lo, up, h, s, a, v)).max())
        v = value
    return mu @ v


def highest_occupancy(lo, up, mu, pi, sign):
    """(H, S, A): the most (least) probability of each cell in any model of the box, cell by cell."""
    H, S, A = pi.shape
    out = np.zeros((H, S, A))
    for h, s, a in product(range(H), range(S), range(A)):
        g = np.zeros((H, S, A))
        g[h, s, a] = 1.0
        out[h, s, a] = extended_policy_value(lo, up, g, mu, pi, sign)
    return out
