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
def tilted_row(lo, up, reference, v, p, free):
    """Fill ``p`` with the minimiser of KL(p || reference) + p . v in the box; the minimum comes back.

    ``free`` (bool) says where neither bound is met.
    """
    S = v.size
    lowest = np.inf
    room = 0.0
    for j in range(S):
        room += up[j] - lo[j]
        if v[j] < lowest:
            lowest = v[j]
    total_lo = 0.0
    for j in range(S):
        total_lo += lo[j]
    if room <= 1e-15 or total_lo >= 1.0:  # one distribution only
        value = 0.0
        for j in range(S):
            p[j] = lo[j]
            free[j] = False
            if p[j] > 0.0:
                value += p[j] * (np.log(p[j] / max(reference[j], SMALLEST)) + v[j])
        return value
    total = 0.0
    for j in range(S):
        p[j] = max(reference[j], SMALLEST) * np.exp(lowest - v[j])
        total += p[j]
    y, low, high = 1.0 / total, 0.0, np.inf
    for _ in range(TURNS):
        fixed, slope = 0.0, 0.0
        for j in range(S):
            q = p[j] * y
            if q <= lo[j]:
                fixed += lo[j]
            elif q >= up[j]:
                fixed += up[j]
            else:
                slope += p[j]
        error = fixed + slope * y - 1.0
        if abs(error) <= 1e-15 * S:
            break
        if error > 0.0:
            high = y
        else:
            low = y
        following = (1.0 - fixed) / slope if slope > 0.0 else (2.0 * y if high == np.inf else 0.5 * (low + high))
        if not low < following < high:
            following = 2.0 * y if high == np.inf else 0.5 * (low + high)
        if following == y:
            break
        y = following
    value, log_y = 0.0, np.log(y)
    for j in range(S):
        q = p[j] * y
        free[j] = lo[j] < q < up[j]
        if free[j]:
            value += q * (log_y + lowest)
            p[j] = q
        else:
            p[j] = lo[j] if q <= lo[j] else up[j]
            if p[j] > 0.0:
                value += p[j] * (np.log(p[j] / max(reference[j], SMALLEST)) + v[j])
    return value


@kernel
def kl_dual(theta, log_x, reference, lo, up, u, mu, alpha, gradient, hessian, x, p):
    """F at ``theta`` = (V, w), its ``gradient``, its ``hessian`` (if it has a size) and the primal point.

    Parameters
    ----------
    log_x : (H, S, A) log x~; reference : (H, S, A, S) p~; lo, up : (H S A, S)
    u : (m, H, S, A), mu : (S,), alpha : (m,)
    x : (H, S, A) out; p : (H, S, A, S) out, the last step's left as it was
    """
    m, H, S, A = u.shape
    n = H * S
    gradient[:] = 0.0
    hessian[:] = 0.0
    curved = hessian.size > 0
    value = 0.0
    for s in range(S):
        value -= mu[s] * theta[s]
        gradient[s] -= mu[s]
    for i in range(m):
        value -= theta[n + i] * alpha[i]
        gradient[n + i] -= alpha[i]
    row, free = np.zeros(S), np.zeros(S, dtype=np.bool_)
    for h in range(H):
        for s in range(S):
            here = h * S + s
            for a in range(A):
                power = log_x[h, s, a] + theta[here]
                for i in range(m):
                    power += theta[n + i] * u[i, h, s, a]
                following = h + 1 < H
                k = here * A + a
                if following:
                    power -= tilted_row(
                        lo[k], up[k], reference[h, s, a], theta[(h + 1) * S : (h + 2) * S], row, free
                    )  # fmt: skip
                    p[h, s, a] = row
                mass = np.exp(min(power, 300.0))
                x[h, s, a] = mass
                value += mass
                gradient[here] += mass
                for i in range(m):
                    gradient[n + i] += mass * u[i, h, s, a]
                if following:
                    for j in range(S):
                        gradient[here + S - s + j] -= mass * row[j]
                if curved:
                    _curve(hessian, mass, here, (h + 1) * S, row, free, following, u, h, s, a, n)
    return value


@kernel
def _curve(hessian, mass, here, after, row, free, following, u, h, s, a, n):
    """Add one cell's part: mass (g g' + the curvature of -phi), g = e_here - p e_after + u."""
    S, m = row.size, u.shape[0]
    hessian[here, here] += mass
    for i in range(m):
        part = mass * u[i, h, s, a]
        hessian[here, n + i] += part
        hessian[n + i, here] += part
        for k in range(m):
            hessian[n + i, n + k] += part * u[k, h, s, a]
    if not following:
        return
    total = 0.0
    for j in range(S):
        if free[j]:
            total += row[j]
    for j in range(S):
        part = mass * row[j]
        if part == 0.0:
            continue
        hessian[here, after + j] -= part
        hessian[after + j, here] -= part
        for i in range(m):
            hessian[after + j, n + i] -= part * u[i, h, s, a]
            hessian[n + i, after + j] -= part * u[i, h, s, a]
        if free[j]:
            hessian[after + j, after + j] += part
            for k in range(S):
                hessian[after + j, after + k] += part * row[k]
                if free[k]:
                    hessian[after + j, after + k] -= part * row[k] / total
        else:
            for k in range(S):
                hessian[after + j, after + k] += part * row[k]
