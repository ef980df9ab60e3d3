"""Dynamic programming on a known model: one backward or one forward pass.

With weights w = (w_0, ..., w_m) on the reward and the m utilities, ``f[j]`` being the reward for j = 0 and
utility j - 1 after that, a backward pass solves

    Q_h(s, a) = sum_j w_j f_j,h(s, a) + sum_s' p_h(s' | s, a) V_{h+1}(s'),   V_h(s) = max_a Q_h(s, a)

A forward pass propagates the occupancy x_h(s, a) of a policy, which gives every value at once: V_f = sum x f.
"""

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.kernels.vectors import dot

__all__ = [
    "evaluate_deterministic",
    "evaluate_policies",
    "expectation",
    "greedy_backward",
    "occupancy_deterministic",
    "occupancy_forward",
    "soft_backward",
    "soft_curvature",
]


@kernel
def expectation(p, nxt, h, s, a, v):
    """``sum_s' p_h(s' | s, a) v(s')`` for either form of the model (h already reduced for stationary p)."""
    if nxt.shape[3] == 0:
        return dot(p[h, s, a], v)
    total = 0.0
    for k in range(p.shape[3]):
        total += p[h, s, a, k] * v[nxt[h, s, a, k]]
    return total


@kernel
def greedy_backward(p, nxt, f, w, allowed, actions, advantage, v):
    """One backward pass that maximises ``sum_j w_j V_{f_j}`` over the allowed actions.

    Parameters
    ----------
    f : (1 + m, H, S, A) the reward and the utilities
    w : (1 + m,) weights
    allowed : (H, S, A) bool; size 0 when every action is allowed
    actions : (H, S) out, the greedy action (the first of equals)
    advantage : (H, S, A) out, Q - max Q where allowed; not written when of size 0
    v : (2, S) work; on return ``v[0]`` holds the weighted value at the first step
    """
    n_f, H, S, A = f.shape
    masked = allowed.size > 0
    keep = advantage.size > 0
    v[H % 2] = 0.0
    for h in range(H - 1, -1, -1):
        hp = h if p.shape[0] > 1 else 0
        v_next = v[(h + 1) % 2]
        for s in range(S):
            best = -np.inf
            best_a = 0
            for a in range(A):
                if masked and not allowed[h, s, a]:
                    continue
                q = expectation(p, nxt, hp, s, a, v_next)
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
def _propagate(p, nxt, h, s, a, x, q_next):
    """Send the mass x of (s, a) to its successors."""
    if nxt.shape[3] == 0:
        for k in range(p.shape[3]):
            q_next[k] += x * p[h, s, a, k]
    else:
        for k in range(p.shape[3]):
            q_next[nxt[h, s, a, k]] += x * p[h, s, a, k]


@kernel
def occupancy_forward(p, nxt, mu, pi, x, q):
    """Occupancy ``x[h, s, a]`` of the policy ``pi``; ``q`` is (2, S) work."""
    H, S, A = pi.shape
    q[0] = mu
    for h in range(H):
        hp = h if p.shape[0] > 1 else 0
        q[(h + 1) % 2] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            for a in range(A):
                x[h, s, a] = mass * pi[h, s, a]
                if x[h, s, a] != 0.0 and h + 1 < H:
                    _propagate(p, nxt, hp, s, a, x[h, s, a], q[(h + 1) % 2])


@kernel
def occupancy_deterministic(p, nxt, mu, actions, weight, x, q):
    """Add ``weight`` times the occupancy of a deterministic policy ``actions[h, s]`` to ``x``."""
    H, S = actions.shape
    q[0] = mu
    for h in range(H):
        hp = h if p.shape[0] > 1 else 0
        q[(h + 1) % 2] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            if mass != 0.0:
                x[h, s, actions[h, s]] += weight * mass
                if h + 1 < H:
                    _propagate(p, nxt, hp, s, actions[h, s], mass, q[(h + 1) % 2])


@kernel
def evaluate_deterministic(p, nxt, mu, f, actions, values, q):
    """Value of every f_j under the policy ``actions[h, s]``: ``values[j]``; q is (2, S) work."""
    n_f, H, S, A = f.shape
    q[0] = mu
    values[:] = 0.0
    for h in range(H):
        hp = h if p.shape[0] > 1 else 0
        q[(h + 1) % 2] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            if mass != 0.0:
                a = actions[h, s]
                for j in range(n_f):
                    values[j] += mass * f[j, h, s, a]
                if h + 1 < H:
                    _propagate(p, nxt, hp, s, a, mass, q[(h + 1) % 2])


@kernel
def evaluate_policies(p, nxt, mu, f, policies, values, q):
    """Value of every f_j under every policy: ``values[n, j]`` from one forward pass each; q is (2, S) work."""
    n_f, H, S, A = f.shape
    for n in range(policies.shape[0]):
        q[0] = mu
        for j in range(n_f):
            values[n, j] = 0.0
        for h in range(H):
            hp = h if p.shape[0] > 1 else 0
            q[(h + 1) % 2] = 0.0
            for s in range(S):
                mass = q[h % 2, s]
                if mass == 0.0:
                    continue
                for a in range(A):
                    x = mass * policies[n, h, s, a]
                    if x == 0.0:
                        continue
                    for j in range(n_f):
                        values[n, j] += x * f[j, h, s, a]
                    if h + 1 < H:
                        _propagate(p, nxt, hp, s, a, x, q[(h + 1) % 2])


@kernel
def soft_backward(p, nxt, f, w, tau, pi, gain, u, v):
    """Soft dynamic programming: maximise ``sum_j w_j V_{f_j} + tau * entropy`` exactly.

    ``pi[h, s, a]`` is the softmax of Q/tau, ``v[0]`` the regularised value at the first step,
    ``gain[i, h, s, a] = Q_{f_{i+1}} - V_{f_{i+1}}`` the advantage of each utility under pi, and ``u[0, j]``
    the value of f_j at the first step.
    """
    n_f, H, S, A = f.shape
    u[H % 2] = 0.0
    v[H % 2] = 0.0
    q = np.empty(A)
    q_f = np.empty((n_f, A))
    for h in range(H - 1, -1, -1):
        hp = h if p.shape[0] > 1 else 0
        for s in range(S):
            top = -np.inf
            for a in range(A):
                q[a] = expectation(p, nxt, hp, s, a, v[(h + 1) % 2])
                for j in range(n_f):
                    q[a] += w[j] * f[j, h, s, a]
                    q_f[j, a] = f[j, h, s, a] + expectation(p, nxt, hp, s, a, u[(h + 1) % 2, j])
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
                        gain[j - 1, h, s, a] = q_f[j, a] - mean


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
