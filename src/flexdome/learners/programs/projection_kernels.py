"""The dual of the KL projection onto the occupancies of a confidence set.

Over extended occupancies z = x p with p_h(. | s, a) in the box [lo, up], the projection of x~ p~ minimises

    sum x log(x / x~) - x + x~ + sum x KL(p || p~)     s.t.  flow,  sum x u_i >= alpha_i

With potentials V_h(s) of the flow constraints and multipliers w_i >= 0 its dual has H S + m unknowns:

    minimise  sum x - mu . V_1 - w . alpha,      x_h(s, a) = x~ exp(V_h(s) + w . u - phi_h(s, a)),
    phi_h(s, a) = min_{p in box} KL(p || p~) + p . V_{h+1},      attained at p = clip(p~ exp(c - V_{h+1}), lo, up)

with c such that p sums to one. Adding constants to the potentials of a step scales the mass of a step; the best mass is
one, and with it the dual is

    F(V, w) = sum_h log sum_{s, a} x~ exp(V_h(s) + w . u - phi_h(s, a)) - mu . V_1 - w . alpha

which is smooth, convex and, being a sum of logarithms, finite wherever V is: nothing overflows and nothing underflows,
however far apart the entries of x~ are. The gradient is what flows out minus what flows in.
"""

import numpy as np

from flexdome.kernels.jit import kernel

__all__ = ["kl_dual", "kl_hessian", "tilted_row"]

TURNS = 200
FAR = 1e4  # a potential from which on a row's minimum is taken relative to it


@kernel
def tilted_row(lo, up, log_p, k, v, p, free):
    """Fill ``p`` with the minimiser of KL(p || exp(log_p[k])) + p . v in the box of row k; the minimum comes back.

    ``free`` (bool) says where neither bound is met.
    """
    S = v.size
    total_lo, total_up = 0.0, 0.0
    most, least = -np.inf, np.inf
    for j in range(S):
        total_lo += lo[k, j]
        total_up += up[k, j]
        if up[k, j] > 0.0:
            t = log_p[k, j] - v[j]
            most, least = max(most, t), min(least, t)
    at_lo, at_up = total_lo >= 1.0, total_up <= 1.0  # one distribution only
    c = 0.0
    if not (at_lo or at_up):
        low, high = np.log((1.0 - total_lo) / S) - most, -least
        total = 0.0
        for j in range(S):
            if up[k, j] > 0.0:
                total += np.exp(log_p[k, j] - v[j] - most)
        c = min(max(-most - np.log(total), low), high)
        for _ in range(TURNS):
            fixed, loose = 0.0, 0.0
            for j in range(S):
                if up[k, j] > 0.0:
                    q = np.exp(log_p[k, j] - v[j] + c)
                    if q <= lo[k, j]:
                        fixed += lo[k, j]
                    elif q >= up[k, j]:
                        fixed += up[k, j]
                    else:
                        loose += q
            error = fixed + loose - 1.0
            if abs(error) <= 1e-15 * S:
                break
            if error > 0.0:
                high = c
            else:
                low = c
            # With the same entries free the answer is this; where it is not, bisection gets there.
            following = c + np.log((1.0 - fixed) / loose) if loose > 0.0 and fixed < 1.0 else np.inf
            if not low < following < high:
                following = 0.5 * (low + high)
            if following == c:
                break
            c = following
    # sum p v loses as many digits as v has, for p sums to one up to rounding only. Far out the minimum is taken as
    # c + sum over the bounds that are met of p (log(p / p~) + v - c), which an error of c moves no more than itself.
    origin = c if abs(c) > FAR else 0.0
    value = origin
    for j in range(S):
        q = 0.0 if at_lo or up[k, j] <= 0.0 else np.inf if at_up else np.exp(log_p[k, j] - v[j] + c)
        free[j] = lo[k, j] < q < up[k, j]
        if free[j]:
            value += q * (c - origin)
            p[j] = q
        else:
            p[j] = lo[k, j] if q <= lo[k, j] else up[k, j]
            if p[j] > 0.0:
                value += p[j] * (np.log(p[j]) - log_p[k, j] + (v[j] - origin))
    return value


@kernel
def kl_dual(theta, log_x, log_p, lo, up, u, mu, alpha, reached, gradient, x, p, free):
    """F at ``theta`` = (V, w), its ``gradient`` and the primal point, every step of which has mass one.

    Parameters
    ----------
    log_x : (H, S, A) log x~; log_p : (H S A, S) log p~; lo, up : (H S A, S)
    u : (m, H, S, A), mu : (S,), alpha : (m,)
    reached : (H, S) bool; states where it is False have no mass, and their potentials do not matter
    x : (H, S, A) out; p : (H, S, A, S) out, the last step's left as it was; free : like p, where no bound is met
    """
    m, H, S, A = u.shape
    n = H * S
    gradient[:] = 0.0
    value = 0.0
    for s in range(S):
        if reached[0, s]:
            value -= mu[s] * theta[s]
            gradient[s] -= mu[s]
    for i in range(m):
        value -= theta[n + i] * alpha[i]
        gradient[n + i] -= alpha[i]
    row, inside, v = np.zeros(S), np.zeros(S, dtype=np.bool_), np.zeros(S)
    for h in range(H):
        following = h + 1 < H
        if following:
            v[:] = theta[(h + 1) * S : (h + 2) * S]
        most = -np.inf
        for s in range(S):
            for a in range(A):
                x[h, s, a] = 0.0
                if reached[h, s]:
                    power = log_x[h, s, a] + theta[h * S + s]
                    for i in range(m):
                        power += theta[n + i] * u[i, h, s, a]
                    if following:
                        power -= tilted_row(lo, up, log_p, (h * S + s) * A + a, v, row, inside)
                        for j in range(S):
                            p[h, s, a, j] = row[j]
                            free[h, s, a, j] = inside[j]
                    x[h, s, a] = power
                    most = max(most, power)
        total = 0.0
        for s in range(S):
            if reached[h, s]:
                for a in range(A):
                    x[h, s, a] = np.exp(x[h, s, a] - most)
                    total += x[h, s, a]
        value += most + np.log(total)
        for s in range(S):
            if reached[h, s]:
                for a in range(A):
                    mass = x[h, s, a] / total
                    x[h, s, a] = mass
                    gradient[h * S + s] += mass
                    for i in range(m):
                        gradient[n + i] += mass * u[i, h, s, a]
                    if following:
                        for j in range(S):
                            gradient[(h + 1) * S + j] -= mass * p[h, s, a, j]
    return value


@kernel
def kl_hessian(x, p, free, u, out):
    """The Hessian, (H S + m, H S + m) into ``out``, at a primal point that :func:`kl_dual` left.

    It is that of the first dual above, where the masses are not yet one; Newton's step for it, taken where they are, is
    that for F. A sum over cells of x g g' and the curvature of -phi: g is 1 at (h, s), -p at the states of h + 1 and u
    at the multipliers; phi curves where p is free of its bounds, by diag(p) - p p' / sum p over those.
    """
    m, H, S, A = u.shape
    n = H * S
    out[:] = 0.0
    for h in range(H):
        after = (h + 1) * S
        for s in range(S):
            here = h * S + s
            for a in range(A):
                mass = x[h, s, a]
                out[here, here] += mass
                for i in range(m):
                    out[here, n + i] += mass * u[i, h, s, a]
                    for k in range(i, m):
                        out[n + i, n + k] += mass * u[i, h, s, a] * u[k, h, s, a]
                if h + 1 < H and mass > 0.0:
                    total = 0.0
                    for j in range(S):
                        total += p[h, s, a, j] if free[h, s, a, j] else 0.0
                    for j in range(S):
                        q = p[h, s, a, j]
                        loose = q / total if free[h, s, a, j] else 0.0
                        out[here, after + j] -= mass * q
                        if loose > 0.0:
                            out[after + j, after + j] += mass * q
                        for i in range(m):
                            out[after + j, n + i] -= mass * q * u[i, h, s, a]
                        for k in range(j, S):
                            out[after + j, after + k] += mass * q * p[h, s, a, k]
                            if loose > 0.0 and free[h, s, a, k]:
                                out[after + j, after + k] -= mass * loose * p[h, s, a, k]
    for i in range(n + m):
        for j in range(i):
            out[i, j] = out[j, i]
