"""Many episodes of AnchorDOME in one compiled call: measure exactly, roll out, learn."""

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER
from flexdome.kernels.rollout import play_episode
from flexdome.learners.primal_dual.anchor_kernels import learn_anchored

__all__ = ["run_anchored"]


@kernel
def run_anchored(
    core, anchor, settings, rho, truth, uniforms, thresholds, schedules, begin, exact, out, buffers, played
):  # fmt: skip
    """Play and learn episodes ``begin`` to ``len(eta)``; the number done so far comes back.

    As :func:`flexdome.kernels.rollout.run_primal_dual`.
    """
    core, anchor, settings, uniforms, buffers = (
        borrow(core), borrow(anchor), borrow(settings), borrow(uniforms), borrow(buffers)
    )  # fmt: skip
    eta, tau, eps = borrow(schedules)
    truth, thresholds, out, played = borrow(truth), borrow(thresholds), borrow(out), borrow(played)
    states, actions, rewards, utilities, _, _, _, step, alpha, _ = buffers
    weights, v, q = step[0], step[1], step[2]
    H, m, pool = actions.size, core.lam.size, core.pool
    for t in range(begin, eta.size):
        if pool[0] + H * max(2 * pool[1], TOGETHER) > core.pool_cell.size:
            return t
        observed = play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers)
        learn_anchored(
            core, anchor, settings, eta[t], tau[t], eps[t], rho, weights, v, q, alpha, states, actions, rewards,
            utilities, observed, played,
        )  # fmt: skip
        for j in range(1 + m):
            out[t, 1 + 2 * m + j] = v[j]
        for i in range(m):
            out[t, 2 + 3 * m + i] = alpha[i]
    return eta.size
