"""Episodes of other policies, reweighted decision by decision."""

from flexdome.kernels.jit import kernel

__all__ = ["impossible", "weighted_totals"]


@kernel
def weighted_totals(policy, played_by, states, actions, observed, clip, totals):
    """``totals`` (2, 1 + m, n): an episode's weighted share of H, and that of what is missing from 1 at each step.

    With w_h = min(prod_{k <= h} policy_k(a_k | s_k) / played_by_k(a_k | s_k), clip) these are sum_h w_h f_h / H and
    sum_h w_h (1 - f_h) / H. ``played_by`` is (1, H, S, A), or one for each episode.
    """
    n, n_f, H = observed.shape
    for t in range(n):
        played = played_by[t if played_by.shape[0] > 1 else 0]
        ratio = 1.0
        for j in range(n_f):
            totals[0, j, t] = 0.0
            totals[1, j, t] = 0.0
        for h in range(H):
            s, a = states[t, h], actions[t, h]
            ratio *= policy[h, s, a] / played[h, s, a]
            weight = min(ratio, clip) / H
            for j in range(n_f):
                totals[0, j, t] += weight * observed[t, j, h]
                totals[1, j, t] += weight * (1.0 - observed[t, j, h])


@kernel
def impossible(played_by, states, actions):
    """The first t H + h at which ``played_by`` never takes the recorded action, or -1."""
    n, H = actions.shape
    for t in range(n):
        played = played_by[t if played_by.shape[0] > 1 else 0]
        for h in range(H):
            if not played[h, states[t, h], actions[t, h]] > 0.0:
                return t * H + h
    return -1
