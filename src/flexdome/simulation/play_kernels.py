"""Many episodes of one policy in the true model."""

from flexdome.kernels.jit import kernel
from flexdome.kernels.rollout import draw, step

__all__ = ["play_all"]


@kernel
def play_all(policy, truth, uniforms, states, actions, rewards, utilities):
    """Episode t of ``policy`` (H, S, A) with row t of ``uniforms``, in row t of the four arrays."""
    p, nxt, f, mu = truth
    H, S, A = policy.shape
    p_flat, nxt_flat, pi = p.reshape(-1), nxt.reshape(-1), policy.reshape(-1)
    for t in range(actions.shape[0]):
        s = draw(mu, 0, 1, S, uniforms[0][t, 0])
        states[t, 0] = s
        for h in range(H):
            a = draw(pi, (h * S + s) * A, 1, A, uniforms[1][t, h])
            actions[t, h] = a
            s = step(p, p_flat, nxt_flat, f, uniforms, t, h, s, a, rewards[t], utilities[t])
            states[t, h + 1] = s
