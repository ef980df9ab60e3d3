"""One episode of Q-learning, compiled: the same function for ``observe`` and for whole chunks."""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel


class Tables(NamedTuple):
    """Everything that is learned. Arrays are changed in place."""

    q: np.ndarray  # (1 + m, H, S, A) optimistic values of reward and utilities
    n: np.ndarray  # (H, S, A) visits
    lam: np.ndarray  # (m,)
    alpha_sum: np.ndarray  # (m,) of threshold samples
    alpha_count: np.ndarray  # (m,)


@kernel
def greedy(q, lam, h, s):
    """The first action of largest Q_r + lam . Q_d."""
    best, most = 0, -np.inf
    for a in range(q.shape[3]):
        value = q[0, h, s, a]
        for i in range(lam.size):
            value += lam[i] * q[1 + i, h, s, a]
        if value > most:
            best, most = a, value
    return best


@kernel
def learn(tables, thresholds, step, bonus, states, actions, rewards, utilities, samples):
    """Q <- Q + (H + 1) / (H + n) (target + bonus sqrt(H / n) - Q), then lam <- [lam + step (alpha - realised)]_+."""
    q, n, lam = tables.q, tables.n, tables.lam
    H, m = actions.size, lam.size
    for h in range(H):
        s, a = states[h], actions[h]
        n[h, s, a] += 1.0
        rate = (H + 1.0) / (H + n[h, s, a])
        width = bonus * np.sqrt(H / n[h, s, a])
        for j in range(1 + m):
            target = rewards[h] if j == 0 else utilities[j - 1, h]
            if h + 1 < H:
                target += q[j, h + 1, states[h + 1], greedy(q, lam, h + 1, states[h + 1])]
            moved = q[j, h, s, a] + rate * (target + width - q[j, h, s, a])
            q[j, h, s, a] = min(moved, float(H - h))
    for i in range(m):
        for h in range(samples.shape[1]):
            if not np.isnan(samples[i, h]):
                tables.alpha_sum[i] += samples[i, h]
                tables.alpha_count[i] += 1.0
        alpha, realised = thresholds[i], 0.0
        if np.isnan(alpha):
            alpha = tables.alpha_sum[i] / max(tables.alpha_count[i], 1.0)
        for h in range(H):
            realised += utilities[i, h]
        lam[i] = max(lam[i] + step * (alpha - realised), 0.0)
