"""The dual of the KL projection onto the occupancies of a confidence set.

Over extended occupancies z = x p with p_h(. | s, a) in the box [lo, up], the projection of x~ p~ minimises

    sum x log(x / x~) - x + x~ + sum x KL(p || p~)     s.t.  flow,  sum x u_i >= alpha_i

With potentials V_h(s) of the flow constraints and multipliers w_i >= 0, its dual is smooth and has H S + m unknowns:

    minimise  F(V, w) = sum x - mu . V_1 - w . alpha,      x_h(s, a) = x~ exp(V_h(s) + w . u - phi_h(s, a)),
    phi_h(s, a) = min_{p in box} KL(p || p~) + p . V_{h+1},      attained at p = clip(p~ exp(-V_{h+1}) y, lo, up)

with y such that p sums to one: a piecewise linear equation. The gradient is what flows out minus what flows in.
"""

import numpy as np

from flexdome.kernels.jit import kernel

__all__ = ["kl_dual", "tilted_row"]

SMALLEST = 1e-30  # a probability that is treated as this much
TURNS = 200


@kernel
def tilted_row(lo, up, reference, k, v, lowest, tilt, p, free):
    """Fill ``p`` with the minimiser of KL(p || reference[k]) + p . v in the box of row k; the minimum comes back.

    ``lowest`` is min v and ``tilt`` exp(lowest - v), the same for all rows of a step; ``free`` (bool) says where
    neither bound is met.
    """
    S = v.size
    room, total_lo, total = 0.0, 0.0, 0.0
    for j in range(S):
        room += up[k, j] - lo[k, j]
        total_lo += lo[k, j]
        p[j] = max(reference[k, j], SMALLEST) * tilt[j]
        total += p[j]
    if room <= 1e-15 or total_lo >= 1.0:  # one distribution only
        y = 0.0
    else:
        y, low, high = 1.0 / total, 0.0, np.inf
        for _ in range(TURNS):
            fixed, slope = 0.0, 0.0
            for j in range(S):
                q = p[j] * y
                if q <= lo[k, j]:
                    fixed += lo[k, j]
                elif q >= up[k, j]:
                    fixed += up[k, j]
                else:
                    slope += p[j]
            error = fixed + slope * y - 1.0
            if abs(error) <= 1e-15 * S:
                break
            if error > 0.0:
                high = y
            else:
                low = y
            middle = 2.0 * y if high == np.inf else 0.5 * (low + high)
            following = (1.0 - fixed) / slope if slope > 0.0 else middle
            if not low < following < high:
                following = middle
            if following == y:
                break
            y = following
    value, log_y = 0.0, np.log(y) if y > 0.0 else 0.0
    for j in range(S):
        q = p[j] * y
        free[j] = lo[k, j] < q < up[k, j]
        if free[j]:
            value += q * (log_y + lowest)
            p[j] = q
        else:
            p[j] = lo[k, j] if q <= lo[k, j] else up[k, j]
            if p[j] > 0.0:
                value += p[j] * (np.log(p[j] / max(reference[k, j], SMALLEST)) + v[j])
    return value


@kernel
def kl_dual(theta, log_x, reference, lo, up, u, mu, alpha, gradient, x, p, free):
    """F at ``theta`` = (V, w), its ``gradient`` and the primal point.

    Parameters
    ----------
    log_x : (H, S, A) log x~; reference : (H S A, S) p~; lo, up : (H S A, S)
    u : (m, H, S, A), mu : (S,), alpha : (m,)
    x : (H, S, A) out; p : (H, S, A, S) out, the last step's left as it was; free : like p, where no bound is met
    """
    m, H, S, A = u.shape
    n = H * S
    gradient[:] = 0.0
    value = 0.0
    for s in range(S):
        value -= mu[s] * theta[s]
        gradient[s] -= mu[s]
    for i in range(m):
        value -= theta[n + i] * alpha[i]
        gradient[n + i] -= alpha[i]
    row, inside = np.zeros(S), np.zeros(S, dtype=np.bool_)
    v, tilt = np.zeros(S), np.zeros(S)
    for h in range(H):
        lowest = np.inf
        if h + 1 < H:
            for j in range(S):
                v[j] = theta[(h + 1) * S + j]
                lowest = min(lowest, v[j])
            for j in range(S):
                tilt[j] = np.exp(lowest - v[j])
        for s in range(S):
            here = h * S + s
            for a in range(A):
                power = log_x[h, s, a] + theta[here]
                for i in range(m):
                    power += theta[n + i] * u[i, h, s, a]
                following = h + 1 < H
                k = here * A + a
                if following:
                    power -= tilted_row(lo, up, reference, k, v, lowest, tilt, row, inside)
                    for j in range(S):
                        p[h, s, a, j] = row[j]
                        free[h, s, a, j] = inside[j]
                mass = np.exp(min(power, 300.0))
                x[h, s, a] = mass
                value += mass
                gradient[here] += mass
                for i in range(m):
                    gradient[n + i] += mass * u[i, h, s, a]
                if following:
                    for j in range(S):
                        gradient[here + S - s + j] -= mass * row[j]
    return value
