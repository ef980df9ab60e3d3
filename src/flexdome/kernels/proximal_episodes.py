"""Many episodes of ProxDOME in one compiled call: tell, measure exactly, roll out, learn."""

from flexdome.kernels.borrow import borrow
from flexdome.kernels.episodes import exact_values, roll_out
from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import TOGETHER
from flexdome.kernels.proximal import learn_proximal

__all__ = ["run_proximal"]


@kernel
def run_proximal(core, own, settings, choices, truth, uniforms, thresholds, begin, exact, out, told, buffers, played):
    """Play and learn episodes ``begin`` to ``len(exact)``; the number done so far comes back.

    As :func:`flexdome.kernels.episodes.run_primal_dual`, with ``out`` (episodes, 1 + 2 m) for V_r and V_d (exact) and
    lam, and ``told`` (episodes, n) for what the learner told of each plan.
    """
    core, own, settings, uniforms, buffers = (
        borrow(core), borrow(own), borrow(settings), borrow(uniforms), borrow(buffers)
    )  # fmt: skip
    p, nxt, f, mu = borrow(truth)
    thresholds, out, told, played = borrow(thresholds), borrow(out), borrow(told), borrow(played)
    cell_of, pi, lam, pool, C = core.cell_of, core.pi, core.lam, core.pool, settings.C
    states, actions, rewards, utilities, values, q, x, _, _, none = buffers
    H, m = actions.size, lam.size
    growth = H * H if choices.shared else H  # lists that one episode may move
    for t in range(begin, exact.size):
        if pool[0] + growth * max(2 * pool[1], TOGETHER) > core.pool_cell.size:
            return t
        for i in range(m):
            out[t, 1 + m + i] = lam[i]
        for j in range(own.told.size):
            told[t, j] = own.told[j]
        if exact[t]:
            exact_values(cell_of, pi, C, p, nxt, f, mu, values, q, x)
            for j in range(1 + m):
                out[t, j] = values[j]
        roll_out(
            cell_of, pi, C, settings.starts, settings.start_p, p, nxt, f, uniforms, t, states, actions, rewards,
            utilities,
        )  # fmt: skip
        observed = thresholds[t] if thresholds.size > 0 else none
        learn_proximal(core, own, settings, choices, states, actions, rewards, utilities, observed, played)
    return exact.size
