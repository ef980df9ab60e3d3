"""Many episodes of ProxDOME in one compiled call: tell, measure exactly, roll out, learn."""

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER
from flexdome.kernels.rollout import play_episode
from flexdome.learners.proximal.plan_kernels import learn_proximal

__all__ = ["run_proximal"]


@kernel
def run_proximal(core, own, settings, choices, truth, uniforms, thresholds, begin, exact, out, told, buffers, played):
    """Play and learn episodes ``begin`` to ``len(exact)``; the number done so far comes back.

    As :func:`flexdome.kernels.rollout.run_primal_dual`, with ``out`` (episodes, 1 + 2 m) for V_r and V_d (exact) and
    lam, and ``told`` (episodes, n) for what the learner told of each plan.
    """
    core, own, settings, uniforms, buffers = (
        borrow(core), borrow(own), borrow(settings), borrow(uniforms), borrow(buffers)
    )  # fmt: skip
    truth, thresholds, out = borrow(truth), borrow(thresholds), borrow(out)
    told, played, pool = borrow(told), borrow(played), core.pool
    states, actions, rewards, utilities, _, _, _, _, _, _ = buffers
    H = actions.size
    growth = H * H if choices.shared else H  # lists that one episode may move
    for t in range(begin, exact.size):
        if pool[0] + growth * max(2 * pool[1], TOGETHER) > core.pool_cell.size:
            return t
        for j in range(own.told.size):
            told[t, j] = own.told[j]
        observed = play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers)
        learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, observed, played)
    return exact.size
