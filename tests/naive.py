"""Obviously correct, slow twins of what is compiled."""

import numpy as np


def evaluate(p, f, mu, pi):
    """Backward evaluation with plain loops: (1 + m,) values at the initial distribution."""
    H, S, A = pi.shape
    values = []
    for fj in f:
        v = np.zeros(S)
        for h in reversed(range(H)):
            v = np.array([sum(pi[h, s, a] * (fj[h, s, a] + p[h, s, a] @ v) for a in range(A)) for s in range(S)])
        values.append(mu @ v)
    return np.array(values)


def best_value(p, g, mu):
    """Unconstrained optimum of the reward g by backward induction."""
    v = np.zeros(p.shape[1])
    for h in reversed(range(p.shape[0])):
        v = (g[h] + p[h] @ v).max(axis=1)
    return mu @ v


def regularised_lagrangian(cmdp, pi, lam, tau, eps):
    """V_r + lam (V_d - eps - alpha) + tau (entropy + |lam|^2 / 2), term by term."""
    p, f, mu = cmdp.transitions, cmdp.model.f, cmdp.initial
    psi = -np.log(np.where(pi > 0, pi, 1.0))
    values = evaluate(p, f, mu, pi)
    entropy = evaluate(p, psi[None], mu, pi)[0]
    return values[0] + lam @ (values[1:] - eps - cmdp.alpha) + tau * (entropy + 0.5 * lam @ lam)


def random_cmdp_arrays(seed, S=5, A=3, H=4, m=1, concentration=0.5):
    """p, f and mu of a random dense model."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(S, concentration), size=(H, S, A))
    return p, rng.random((1 + m, H, S, A)), rng.dirichlet(np.ones(S))


def random_policy(rng, H, S, A):
    return rng.dirichlet(np.ones(A), size=(H, S))
