"""One step of many copies of a CMDP."""

from flexdome.kernels.jit import kernel
from flexdome.kernels.rollout import draw, transition

__all__ = ["begin", "begin_plain", "move", "move_plain"]


def begin_plain(mu, u, copies, h, s):
    """Put ``copies`` at step 0 in states drawn from ``mu`` with the uniforms ``u[:, 0]``."""
    for k in range(copies.size):
        h[copies[k]] = 0
        s[copies[k]] = draw(mu, 0, 1, mu.size, u[k, 0])


def move_plain(p, nxt, f, noisy, u, copies, actions, h, s, seen):
    """Take ``actions`` in ``copies``: rewards and utilities into ``seen`` (N, 1 + m), the next states into ``s``.

    Row k of ``u`` is that of copy ``copies[k]``: first the transition's uniform, then, where observations are
    ``noisy``, one for the reward and for each utility.
    """
    n_f, S, A = f.shape[0], f.shape[2], f.shape[3]
    p_flat, nxt_flat = p.reshape(-1), nxt.reshape(-1)
    for k in range(copies.size):
        i = copies[k]
        step, state, action = h[i], s[i], actions[i]
        for j in range(n_f):
            mean = f[j, step, state, action]
            if noisy:
                mean = 1.0 if u[k, 1 + j] < mean else 0.0
            seen[i, j] = mean
        first = step * S * A if p.shape[0] > 1 else 0
        s[i] = transition(p_flat, nxt_flat, first + state * A + action, p.shape[3], u[k, 0])
        h[i] = step + 1


begin, move = kernel(begin_plain), kernel(move_plain)
