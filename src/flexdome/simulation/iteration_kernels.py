"""The known-model iteration: the primal-dual step with the true model in place of estimates."""

import numpy as np

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.vectors import expectation

__all__ = ["run_iteration"]


@kernel
def run_iteration(truth, alpha, eta, tau, eps, dual_bound, log_pi, lam, values, multipliers, u):
    """``len(eta)`` iterations; ``log_pi`` (H, S, A) and ``lam`` (m,) are moved in place.

    An action whose ``log_pi`` is minus infinity is not allowed.

    ``values`` (n, 1 + m) receives V_r and V_d of the policy before each step, ``multipliers`` (n, m) its multipliers.
    ``u`` (2, 2 + m, S) is work: the values of reward, utilities and entropy at two neighbouring steps.
    """
    p, nxt, f, mu = borrow(truth)
    log_pi, lam, values, multipliers, u = borrow(log_pi), borrow(lam), borrow(values), borrow(multipliers), borrow(u)
    n_f, H, S, A = f.shape
    K, p_flat, nxt_flat = p.shape[3], p.reshape(-1), nxt.reshape(-1)
    m = n_f - 1
    y = np.empty(A)
    for t in range(eta.size):
        u[H % 2] = 0.0
        for h in range(H - 1, -1, -1):
            first = h * S * A if p.shape[0] > 1 else 0
            after, here = u[(h + 1) % 2], u[h % 2]
            for s in range(S):
                for j in range(n_f + 1):
                    here[j, s] = 0.0
                top = -np.inf
                for a in range(A):
                    if log_pi[h, s, a] == -np.inf:  # not allowed, and never will be
                        y[a] = -np.inf
                        continue
                    row = first + s * A + a
                    weight = np.exp(log_pi[h, s, a])
                    y[a] = 0.0
                    for j in range(n_f):
                        q = f[j, h, s, a] + expectation(p_flat, nxt_flat, row, K, after[j])
                        here[j, s] += weight * q
                        y[a] += q if j == 0 else lam[j - 1] * q
                    future = expectation(p_flat, nxt_flat, row, K, after[n_f])
                    here[n_f, s] += weight * (future - log_pi[h, s, a])
                    y[a] += tau[t] * future
                    # Q_psi = -log pi + future: its first part is the factor 1 - eta tau on log pi.
                    y[a] = (1.0 - eta[t] * tau[t]) * log_pi[h, s, a] + eta[t] * y[a]
                    top = max(top, y[a])
                total = 0.0
                for a in range(A):
                    total += np.exp(y[a] - top)
                shift = top + np.log(total)
                for a in range(A):
                    log_pi[h, s, a] = y[a] - shift
        for j in range(n_f):
            values[t, j] = 0.0
            for s in range(S):
                values[t, j] += mu[s] * u[0, j, s]
        for i in range(m):
            multipliers[t, i] = lam[i]
            step = (1.0 - eta[t] * tau[t]) * lam[i] - eta[t] * (values[t, 1 + i] - eps[t, i] - alpha[i])
            lam[i] = min(max(step, 0.0), dual_bound)
