"""Dynamic programming when the transitions are only known to lie in a set: extended value iteration.

For every (h, s, a) the next state's distribution may be any q of a set C_h(s, a); the sets are chosen one by one, so a
backward pass finds the best of them together with the best action (Jaksch, Ortner and Auer 2010):

    Q_h(s, a) = g_h(s, a) + max_{q in C_h(s, a)} sum_s' q(s') V_{h+1}(s'),   V_h(s) = max_a Q_h(s, a)

Two kinds of sets. A *box*, lo <= q <= up: begin with lo and give what is left to the best next states first. An L1
*ball* around lo (then a distribution itself) of the given radius: move half the radius of mass from the worst next
states to the best. Both need only the order of the next states by V, found once for each step. ``spare`` is what is
left of each row, 1 - sum lo, and ``radius`` has size 0 for boxes.
"""

import numpy as np

from flexdome.kernels.jit import kernel

__all__ = ["best_row", "extended_backward", "extended_values", "follow", "upper_occupancy"]


@kernel
def best_row(lo, up, spare, radius, row, order, v, q):
    """Fill ``q`` with the distribution of the set ``row`` that maximises its mean of ``v``; that mean comes back.

    ``lo`` and ``up`` are (rows, S), ``order`` sorts ``v`` upwards.
    """
    S = v.size
    for j in range(S):
        q[j] = lo[row, j]
    if radius.size > 0:
        best = order[S - 1]
        give = min(0.5 * radius[row], 1.0 - q[best])
        q[best] += give
        for k in range(S - 1):
            if give <= 0.0:
                break
            j = order[k]
            take = min(give, q[j])
            q[j] -= take
            give -= take
    else:
        left = spare[row]
        for k in range(S - 1, -1, -1):
            if left <= 0.0:
                break
            j = order[k]
            add = min(up[row, j] - lo[row, j], left)
            q[j] += add
            left -= add
    total = 0.0
    for j in range(S):
        total += q[j] * v[j]
    return total


@kernel
def extended_backward(lo, up, spare, radius, f, w, allowed, actions, advantage, rows):
    """One backward pass that maximises ``sum_j w_j V_{f_j}`` over the allowed actions and the transitions.

    Parameters
    ----------
    lo, up : (H S A, S); spare, radius : (H S A,), see the module
    f : (1 + m, H, S, A); w : (1 + m,)
    allowed : (H, S, A) bool; size 0 when every action is allowed
    actions : (H, S) out
    advantage : (H, S, A) out, Q - max Q, minus infinity where not allowed; not written when of size 0
    rows : (H, S, S) out, the distribution after the chosen action; that of the last step does not matter
    """
    n_f, H, S, A = f.shape
    masked, keep = allowed.size > 0, advantage.size > 0
    v, v_next, q = np.zeros(S), np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        order = np.argsort(v_next)
        for s in range(S):
            best = -np.inf
            best_a = 0
            for a in range(A):
                if masked and not allowed[h, s, a]:
                    if keep:
                        advantage[h, s, a] = -np.inf
                    continue
                y = 0.0
                if h + 1 < H:
                    y = best_row(lo, up, spare, radius, (h * S + s) * A + a, order, v_next, q)
                for j in range(n_f):
                    y += w[j] * f[j, h, s, a]
                if keep:
                    advantage[h, s, a] = y
                if y > best:
                    best = y
                    best_a = a
                    rows[h, s] = q
            actions[h, s] = best_a
            v[s] = best
            if keep:
                for a in range(A):
                    advantage[h, s, a] -= best
        v_next[:] = v


@kernel
def follow(rows, mu, f, actions, x, values):
    """Occupancy ``x`` (H, S, A) and ``values`` (1 + m,) of ``actions`` when ``rows[h, s]`` follows (h, s)."""
    n_f, H, S, _ = f.shape
    mass, mass_next = mu.copy(), np.zeros(S)
    x[:] = 0.0
    values[:] = 0.0
    for h in range(H):
        mass_next[:] = 0.0
        for s in range(S):
            if mass[s] != 0.0:
                a = actions[h, s]
                x[h, s, a] = mass[s]
                for j in range(n_f):
                    values[j] += mass[s] * f[j, h, s, a]
                if h + 1 < H:
                    for k in range(S):
                        mass_next[k] += mass[s] * rows[h, s, k]
        mass[:] = mass_next


@kernel
def extended_values(lo, up, spare, radius, g, pi, sign, growth, q_out, v):
    """The most (``sign`` 1) or least (-1) that ``pi`` can be worth: ``v`` (H + 1, S) and ``q_out`` (H, S, A).

    Values of the next step count ``growth`` times (1 for ordinary values).
    """
    H, S, A = g.shape
    q, signed = np.zeros(S), np.zeros(S)
    v[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            signed[s] = sign * v[h + 1, s]
        order = np.argsort(signed)
        for s in range(S):
            v[h, s] = 0.0
            for a in range(A):
                y = g[h, s, a]
                if h + 1 < H:
                    y += growth * sign * best_row(lo, up, spare, radius, (h * S + s) * A + a, order, signed, q)
                q_out[h, s, a] = y
                v[h, s] += pi[h, s, a] * y


@kernel
def upper_occupancy(lo, up, spare, radius, mu, pi, sign, out):
    """The most (``sign`` 1) or least (-1) probability with which ``pi`` can be in each cell: ``out`` (H, S, A).

    One backward pass for each target (h, s), whose value is the probability of coming there (Jin et al. 2020).
    """
    H, S, A = pi.shape
    v, v_next, q = np.zeros(S), np.zeros(S), np.zeros(S)
    for target_h in range(H):
        for target_s in range(S):
            v_next[:] = 0.0
            v_next[target_s] = sign
            for h in range(target_h - 1, -1, -1):
                order = np.argsort(v_next)
                for s in range(S):
                    v[s] = 0.0
                    for a in range(A):
                        if pi[h, s, a] > 0.0:
                            row = (h * S + s) * A + a
                            v[s] += pi[h, s, a] * best_row(lo, up, spare, radius, row, order, v_next, q)
                v_next[:] = v
            reach = 0.0
            for s in range(S):
                reach += mu[s] * v_next[s]
            for a in range(A):
                out[target_h, target_s, a] = sign * reach * pi[target_h, target_s, a]
