"""Dynamic programming on a known model: one backward or one forward pass.

With weights w = (w_0, ..., w_m) on the reward and the m utilities, ``f[j]`` being the reward for j = 0 and
utility j - 1 after that, a backward pass solves

    Q_h(s, a) = sum_j w_j f_j,h(s, a) + sum_s' p_h(s' | s, a) V_{h+1}(s'),   V_h(s) = max_a Q_h(s, a)

A forward pass propagates the occupancy x_h(s, a) of a policy, which gives every value at once: V_f = sum x f.
"""

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.kernels.vectors import expectation, propagate

__all__ = [
    "evaluate_deterministic",
    "evaluate_policies",
    "greedy_backward",
    "occupancy_deterministic",
    "occupancy_forward",
    "rows_are_distributions",
    "soft_backward",
    "soft_curvature",
]


@kernel
def _first_row(p, h):
    """The number of the row (h, 0, 0); a stationary model has one step only."""
    return h * p.shape[1] * p.shape[2] if p.shape[0] > 1 else 0


@kernel(inline=True)
def _begin(mu, q):
    """``q[0] = mu``, number by number: for whole arrays Numba compiles a message with their shapes, for a second."""
    for s in range(mu.size):
        q[0, s] = mu[s]


@kernel
def greedy_backward(p, nxt, f, w, allowed, actions, advantage, v):
    """One backward pass that maximises ``sum_j w_j V_{f_j}`` over the allowed actions.

    Parameters
    ----------
    f : (1 + m, H, S, A) the reward and the utilities
    w : (1 + m,) weights
    allowed : (H, S, A) bool; size 0 when every action is allowed
    actions : (H, S) out, the greedy action (the first of equals)
    advantage : (H, S, A) out, Q - max Q, minus infinity where not allowed; not written when of size 0
    v : (2, S) work; on return ``v[0]`` holds the weighted value at the first step
    """
    p_flat, nxt_flat, K = p.reshape(-1), nxt.reshape(-1), p.shape[3]
    n_f, H, S, A = f.shape
    masked = allowed.size > 0
    keep = advantage.size > 0
    v[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        first = _first_row(p, h)
        v_next = v[(h + 1) % 2]
        for s in range(S):
            best = -np.inf
            best_a = 0
            for a in range(A):
                if masked and not allowed[h, s, a]:
                    if keep:
                        advantage[h, s, a] = -np.inf
                    continue
                q = expectation(p_flat, nxt_flat, first + s * A + a, K, v_next)
                for j in range(n_f):
                    q += w[j] * f[j, h, s, a]
                if keep:
                    advantage[h, s, a] = q
                if q > best:
                    best = q
                    best_a = a
            actions[h, s] = best_a
            v[h % 2, s] = best
            if keep:
                for a in range(A):
                    advantage[h, s, a] -= best


@kernel
def occupancy_forward(p, nxt, mu, pi, x, q):
    """Occupancy ``x[h, s, a]`` of the policy ``pi``; ``q`` is (2, S) work."""
    p_flat, nxt_flat, K = p.reshape(-1), nxt.reshape(-1), p.shape[3]
    H, S, A = pi.shape
    _begin(mu, q)
    for h in range(H):
        first = _first_row(p, h)
        q_next = q[(h + 1) % 2]
        q_next[:] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            for a in range(A):
                x[h, s, a] = mass * pi[h, s, a]
                if x[h, s, a] != 0.0 and h + 1 < H:
                    propagate(p_flat, nxt_flat, first + s * A + a, K, x[h, s, a], q_next)


@kernel
def occupancy_deterministic(p, nxt, mu, actions, weight, x, q):
    """Add ``weight`` times the occupancy of a deterministic policy ``actions[h, s]`` to ``x``."""
    p_flat, nxt_flat, K = p.reshape(-1), nxt.reshape(-1), p.shape[3]
    H, S = actions.shape
    A = p.shape[2]
    _begin(mu, q)
    for h in range(H):
        first = _first_row(p, h)
        q_next = q[(h + 1) % 2]
        q_next[:] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            if mass != 0.0:
                x[h, s, actions[h, s]] += weight * mass
                if h + 1 < H:
                    propagate(p_flat, nxt_flat, first + s * A + actions[h, s], K, mass, q_next)


@kernel
def evaluate_deterministic(p, nxt, mu, f, actions, values, q):
    """Value of every f_j under the policy ``actions[h, s]``: ``values[j]``; q is (2, S) work."""
    p_flat, nxt_flat, K = p.reshape(-1), nxt.reshape(-1), p.shape[3]
    n_f, H, S, A = f.shape
    _begin(mu, q)
    values[:] = 0.0
    for h in range(H):
        first = _first_row(p, h)
        q_next = q[(h + 1) % 2]
        q_next[:] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            if mass != 0.0:
                a = actions[h, s]
                for j in range(n_f):
                    values[j] += mass * f[j, h, s, a]
                if h + 1 < H:
                    propagate(p_flat, nxt_flat, first + s * A + a, K, mass, q_next)


@kernel
def evaluate_policies(p, nxt, mu, f, policies, values, q):
    """Value of every f_j under every policy: ``values[n, j]`` from one forward pass each; q is (2, S) work."""
    p_flat, nxt_flat, K = p.reshape(-1), nxt.reshape(-1), p.shape[3]
    n_f, H, S, A = f.shape
    f_flat, pi, SA = f.reshape(-1), policies.reshape(-1), S * A
    x = np.empty(SA)
    dense = np.empty(0, dtype=np.int32)
    for n in range(policies.shape[0]):
        _begin(mu, q)
        for j in range(n_f):
            values[n, j] = 0.0
        for h in range(H):
            first = _first_row(p, h)
            q_next = q[(h + 1) % 2]
            q_next[:] = 0.0
            at = (n * H + h) * SA
            for s in range(S):
                mass = q[h % 2, s]
                for a in range(A):
                    x[s * A + a] = mass * pi[at + s * A + a]
            for j in range(n_f):
                values[n, j] += expectation(f_flat, dense, j * H + h, SA, x)
            if h + 1 < H:
                for row in range(SA):
                    if x[row] != 0.0:
                        propagate(p_flat, nxt_flat, first + row, K, x[row], q_next)


@kernel
def rows_are_distributions(rows, tolerance):
    """Whether every row of ``rows`` (n, A) is non-negative and sums to one (NaN is neither)."""
    for k in range(rows.shape[0]):
        total = 0.0
        for a in range(rows.shape[1]):
            if not rows[k, a] >= 0.0:
                return False
            total += rows[k, a]
        if not abs(total - 1.0) <= tolerance:
            return False
    return True


@kernel
def soft_backward(p, nxt, f, w, tau, allowed, pi, gain, u, v):
    """Soft dynamic programming: maximise ``sum_j w_j V_{f_j} + tau * entropy`` exactly.

    ``pi[h, s, a]`` is the softmax of Q/tau, ``v[0]`` the regularised value at the first step,
    ``gain[i, h, s, a] = Q_{f_{i+1}} - V_{f_{i+1}}`` the advantage of each utility under pi, and ``u[0, j]``
    the value of f_j at the first step. ``allowed`` is (H, S, A) bool, of size 0 when every action is allowed; pi is 0,
    and so is the gain, where an action is not.
    """
    masked = allowed.size > 0
    p_flat, nxt_flat, K = p.reshape(-1), nxt.reshape(-1), p.shape[3]
    n_f, H, S, A = f.shape
    u[H % 2] = 0.0
    v[H % 2] = 0.0
    q = np.empty(A)
    q_f = np.empty((n_f, A))
    for h in range(H - 1, -1, -1):
        first = _first_row(p, h)
        for s in range(S):
            top = -np.inf
            for a in range(A):
                if masked and not allowed[h, s, a]:
                    q[a] = -np.inf
                    for j in range(n_f):
                        q_f[j, a] = 0.0
                    continue
                q[a] = expectation(p_flat, nxt_flat, first + s * A + a, K, v[(h + 1) % 2])
                for j in range(n_f):
                    q[a] += w[j] * f[j, h, s, a]
                    q_f[j, a] = f[j, h, s, a] + expectation(p_flat, nxt_flat, first + s * A + a, K, u[(h + 1) % 2, j])
                top = max(top, q[a])
            total = 0.0
            for a in range(A):
                pi[h, s, a] = np.exp((q[a] - top) / tau)
                total += pi[h, s, a]
            for a in range(A):
                pi[h, s, a] /= total
            v[h % 2, s] = top + tau * np.log(total)
            for j in range(n_f):
                mean = 0.0
                for a in range(A):
                    mean += pi[h, s, a] * q_f[j, a]
                u[h % 2, j, s] = mean
                if j > 0:
                    for a in range(A):
                        gain[j - 1, h, s, a] = 0.0 if masked and not allowed[h, s, a] else q_f[j, a] - mean


@kernel
def soft_curvature(x, gain, tau, curvature):
    """``dV_{d_i}/dlam_j = (1/tau) sum x gain_i gain_j`` at the soft-greedy policy whose occupancy is x."""
    m, H, S, A = gain.shape
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            for h in range(H):
                for s in range(S):
                    for a in range(A):
                        total += x[h, s, a] * gain[i, h, s, a] * gain[j, h, s, a]
            curvature[i, j] = total / tau
            curvature[j, i] = total / tau
