"""The least value of a policy over a confidence set of models, and the bounds that the set is made of."""

import numpy as np

from flexdome.certificates.kernels import bernstein_both
from flexdome.kernels.jit import kernel

__all__ = ["count_all", "least_value"]


@kernel
def count_all(states, actions, observed, log_level, visits, sums, successors, sequences):
    """Count episodes, with L = H steps, or one for all.

    ``visits`` is (L, S, A), ``sums`` (1 + m, L, S, A), ``successors`` (L, S, A, S);
    ``sequences`` (1 + m, L, S, A, SIZE) are of each mean, both sides.
    """
    n, n_f, H = observed.shape
    pooled = visits.shape[0] == 1
    for t in range(n):
        for h in range(H):
            s, a, k = states[t, h], actions[t, h], 0 if pooled else h
            visits[k, s, a] += 1.0
            if h + 1 < H:
                successors[k, s, a, states[t, h + 1]] += 1.0
            for j in range(n_f):
                x = observed[t, j, h]
                sums[j, k, s, a] += x
                bernstein_both(sequences[j, k, s, a], x, log_level)


@kernel
def _sort(values, order):
    """Put the indices ``order`` in falling order of ``values``, by insertion: less work than one row of every state."""
    for i in range(1, order.size):
        one = order[i]
        k = i
        while k > 0 and values[order[k - 1]] < values[one]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = one


@kernel
def least_value(policy, mu, low, p, moved, work):
    """min over the set of E[sum_h f_h]: f_h(s, a) >= ``low``, rows of p within ``moved`` of ``p`` in half the L1 norm.

    V_h(s) = sum_a pi_h(a | s) (low_h(s, a) + min_q q V_{h+1}): the mass ``moved`` goes from the best next states to the
    worst. ``low``, ``p`` and ``moved`` have H steps or one for all; rows of p that sum to 0 were never seen, and
    lead to the worst state. ``work`` is (2, S).
    """
    H, S, A = policy.shape
    after, here, best_first = work[0], work[1], np.arange(S)
    after[:] = 0.0
    for h in range(H - 1, -1, -1):
        f = low[h if low.shape[0] > 1 else 0]
        k = h if p.shape[0] > 1 else 0
        _sort(after, best_first)
        worst = after[best_first[S - 1]]
        for s in range(S):
            here[s] = 0.0
            for a in range(A):
                if policy[h, s, a] == 0.0:
                    continue
                value = worst
                if h + 1 < H and moved[k, s, a] < 1.0:
                    value = 0.0
                    for q in range(S):
                        value += p[k, s, a, q] * after[q]
                    left = moved[k, s, a]
                    for i in range(S - 1):
                        q = best_first[i]
                        taken = min(left, p[k, s, a, q])
                        value -= taken * (after[q] - worst)
                        left -= taken
                        if left <= 0.0:
                            break
                here[s] += policy[h, s, a] * (f[s, a] + value)
        after[:] = here
    total = 0.0
    for s in range(S):
        total += mu[s] * after[s]
    return total
