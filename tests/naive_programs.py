"""Slow twins of what program-solving learners do: the extended linear program, brute force over a box."""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog


class Answer(NamedTuple):
    """Of a linear program: values (1 + m,), multipliers (m,) and occupancy (H, S, A)."""

    values: np.ndarray
    multipliers: np.ndarray
    occupancy: np.ndarray


def dense_program(f, mu, alpha, *, point=None, box=None, ball=None, policy=None, allowed=None, largest_slack=False):
    """max V_f0 subject to V_fi >= alpha_i, or max min_i V_fi - alpha_i, written out row by row; None if infeasible.

    The variables are x_h(s, a) and y_h(s, a, s'), who is where and who goes where. Given is one of ``point``, a model p
    whose rows may sum to less than one; ``box``, lo and up (H, S, A, S); ``ball``, centres (H, S, A, S) and radii
    (H, S, A) of the L1 norm. What follows the last step does not matter. With ``policy`` it alone may be played, with
    ``allowed`` only what that mask allows.
    """
    (n_f, H, S, A), cells = f.shape, list(product(*map(range, f.shape[1:])))
    x = {cell: k for k, cell in enumerate(cells)}
    y = {(*cell, k): len(cells) + j for j, (cell, k) in enumerate(product(cells, range(S)))}
    off = {key: len(y) + j for key, j in y.items()} if ball is not None else {}
    slack = len(x) + len(y) + len(off)
    n = slack + 1
    equal, less = [], []  # pairs of {variable: coefficient} and right side

    for h, s in product(range(H), range(S)):
        row = {x[h, s, a]: 1.0 for a in range(A)}
        if h > 0:
            row |= {y[h - 1, s0, a0, s]: -1.0 for s0, a0 in product(range(S), range(A))}
        equal.append((row, mu[s] if h == 0 else 0.0))
        if policy is not None:
            for a in range(A):
                row = {x[h, s, b]: -policy[h, s, a] for b in range(A)}
                row[x[h, s, a]] += 1.0
                equal.append((row, 0.0))
    for h, s, a in cells:
        if h + 1 == H:
            continue
        if point is None:
            equal.append(({x[h, s, a]: -1.0, **{y[h, s, a, k]: 1.0 for k in range(S)}}, 0.0))
        for k in range(S):
            here, there = x[h, s, a], y[h, s, a, k]
            if point is not None:
                equal.append(({there: 1.0, here: -point[h, s, a, k]}, 0.0))
            elif box is not None:
                less.append(({there: 1.0, here: -box[1][h, s, a, k]}, 0.0))
                less.append(({there: -1.0, here: box[0][h, s, a, k]}, 0.0))
            else:
                centre, away = ball[0][h, s, a, k], off[h, s, a, k]
                less.append(({there: 1.0, here: -centre, away: -1.0}, 0.0))
                less.append(({there: -1.0, here: centre, away: -1.0}, 0.0))
        if ball is not None:
            less.append(({**{off[h, s, a, k]: 1.0 for k in range(S)}, x[h, s, a]: -ball[1][h, s, a]}, 0.0))
    first = len(less)
    for j in range(1, n_f):
        row = {x[cell]: -f[(j, *cell)] for cell in cells}
        less.append(({**row, slack: 1.0} if largest_slack else row, -alpha[j - 1]))

    def table(rows):
        matrix = np.zeros((len(rows), n))
        for k, (row, _) in enumerate(rows):
            matrix[k, list(row)] = list(row.values())
        return matrix, np.array([right for _, right in rows])

    cost = np.zeros(n)
    if largest_slack:
        cost[slack] = -1.0
    else:
        cost[: len(x)] = -f[0].ravel()
    bounds = [(0.0, None)] * slack + [(None, None) if largest_slack else (0.0, 0.0)]
    for cell in cells if allowed is not None else ():
        if not allowed[cell]:
            bounds[x[cell]] = (0.0, 0.0)
    answer = linprog(cost, *table(less), *table(equal), bounds=bounds, method="highs")
    if answer.status == 2:
        return None
    assert answer.status == 0, answer.message
    found = answer.x[: len(x)].reshape(H, S, A)
    return Answer(np.einsum("jhsa,hsa->j", f, found), -answer.ineqlin.marginals[first:], found)


def extended_lp(lo, up, f, mu, alpha, allowed=None):
    """Value and occupancy (H, S, A) of the program over all models of the box ``lo``, ``up`` (H, S, A, S), or None."""
    answer = dense_program(f, mu, alpha, box=(lo, up), allowed=allowed)
    return None if answer is None else (answer.values[0], answer.occupancy)


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
