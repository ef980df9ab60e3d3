"""Episodes of a policy in the true model, and its exact values.

Random numbers come in as arrays, a row an episode, so that nothing here depends on how a run is cut into pieces. A
policy is either dense, (H, S, A), or that of a learner's visited cells: probabilities ``pi`` by row, uniform
in states without a cell (:mod:`flexdome.learners.seen`).
"""

from typing import NamedTuple

import numpy as np

from flexdome.kernels.jit import kernel
from flexdome.kernels.together import TOGETHER, evaluate_together
from flexdome.kernels.vectors import expectation, propagate_rows

__all__ = ["Buffers", "add_up", "exact_values", "finish", "play", "play_episode", "roll_out", "write_policy"]


NEAR = 4096  # numbers of a dense model that are near at once: rows of so many are propagated in one pass


@kernel(inline=True)
def draw(p, at, step, n, u):
    """The first k with p[at] + p[at + step] + ... > u, by inverse distribution function; k < n and p > 0."""
    total = 0.0
    last = 0
    for k in range(n):
        weight = p[at + k * step]
        if weight > 0.0:
            last = k
            total += weight
            if u < total:
                return k
    return last  # rounding left u above the sum: the last entry that is possible


@kernel(inline=True)
def transition(p_flat, nxt_flat, row, K, u):
    """The next state after ``row``."""
    k = draw(p_flat, row * K, 1, K, u)
    return k if nxt_flat.size == 0 else nxt_flat[row * K + k]


@kernel(inline="late")
def uniform_masses(settings, h, s, mass, x):
    """``x`` of the actions of state s: ``mass``, shared by those that are allowed."""
    n = 0
    for a in range(settings.A):
        if settings.allowed[h, s, a]:
            n += 1
    for a in range(settings.A):
        x[s * settings.A + a] = mass / n if settings.allowed[h, s, a] else 0.0


@kernel(inline="late")
def draw_allowed(settings, h, s, u):
    """One of the actions that are allowed in state s, each as likely."""
    n = 0
    for a in range(settings.A):
        if settings.allowed[h, s, a]:
            n += 1
    total, last = 0.0, 0
    for a in range(settings.A):
        if settings.allowed[h, s, a]:
            last = a
            total += 1.0 / n
            if u < total:
                return a
    return last


@kernel(inline="late")
def exact_values(settings, cell_of, pi, C, p, nxt, f, mu, values, q, x):
    """V_r and every V_d of the current policy under the true model, from one forward pass: ``values`` (1 + m,).

    ``q`` is (2, S) and ``x`` (S * A) work.
    """
    n_f, H, S, A = f.shape
    SA, K = S * A, p.shape[3]
    p_flat, nxt_flat, f_flat = p.reshape(-1), nxt.reshape(-1), f.reshape(-1)
    dense = nxt_flat[:0]
    together = 1 if nxt_flat.size > 0 else max(NEAR // (A * K), 1)  # states
    values[:] = 0.0
    for s in range(S):
        q[0, s] = mu[s]
    for h in range(H):
        first = h * SA if p.shape[0] > 1 else 0
        q_next = q[(h + 1) % 2]
        q_next[:] = 0.0
        for s in range(S):
            mass = q[h % 2, s]
            c = np.int64(cell_of[h, s]) - 1
            if c >= 0:
                for a in range(A):
                    x[s * A + a] = mass * pi[(h * A + a) * C + c]
            else:
                for a in range(A):
                    x[s * A + a] = mass / A
                if settings.masked:
                    uniform_masses(settings, h, s, mass, x)
        for begin in range(0, S if h + 1 < H else 0, together):
            n, mass = min(together, S - begin), 0.0
            for s in range(begin, begin + n):
                mass = max(mass, q[h % 2, s])
            if mass != 0.0:
                propagate_rows(p_flat, nxt_flat, first + begin * A, K, x, begin * A, n * A, q_next)
        for j in range(n_f):
            values[j] += expectation(f_flat, dense, j * H + h, SA, x)


@kernel(inline=True)
def step(p, p_flat, nxt_flat, f, uniforms, t, h, s, a, rewards, utilities):
    """Observe reward and utilities of (s, a) at step h, and move on: the next state."""
    u_next, u_noise = uniforms[2], uniforms[3]
    n_f, S, A = f.shape[0], f.shape[2], f.shape[3]
    for j in range(n_f):
        value = f[j, h, s, a]
        if u_noise.size > 0:
            value = 1.0 if u_noise[t, h * n_f + j] < value else 0.0
        if j == 0:
            rewards[h] = value
        else:
            utilities[j - 1, h] = value
    first = h * S * A if p.shape[0] > 1 else 0
    return transition(p_flat, nxt_flat, first + s * A + a, p.shape[3], u_next[t, h])


@kernel(inline="late")
def roll_out(settings, cell_of, pi, C, starts, start_p, p, nxt, f, uniforms, t, states, actions, rewards, utilities):
    """One episode of the current policy in the true model.

    Row t of ``uniforms`` (u_start, u_action, u_next, u_noise) is used; u_noise of size 0 means that means are observed.
    """
    u_start, u_action = uniforms[0], uniforms[1]
    H, A = f.shape[1], f.shape[3]
    p_flat, nxt_flat = p.reshape(-1), nxt.reshape(-1)
    s = np.int64(starts[draw(start_p, 0, 1, start_p.size, u_start[t, 0])])
    states[0] = s
    for h in range(H):
        c = np.int64(cell_of[h, s]) - 1
        if c >= 0:
            a = draw(pi, h * A * C + c, C, A, u_action[t, h])
        else:
            a = min(int(u_action[t, h] * A), A - 1)
            if settings.masked:
                a = draw_allowed(settings, h, s, u_action[t, h])
        actions[h] = a
        s = step(p, p_flat, nxt_flat, f, uniforms, t, h, s, a, rewards, utilities)
        states[h + 1] = s


class Buffers(NamedTuple):
    """Work space for an episode, owned by the caller."""

    states: np.ndarray  # (H + 1,) int64
    actions: np.ndarray  # (H,) int64
    rewards: np.ndarray  # (H,)
    utilities: np.ndarray  # (m, H)
    values: np.ndarray  # (1 + m,)
    q: np.ndarray  # (2, S)
    x: np.ndarray  # (S * A,)
    step: np.ndarray  # (3, W): weights, estimated values, untried values
    alpha: np.ndarray  # (m,)
    none: np.ndarray  # (0, 0)
    together: bool | None  # policies are evaluated together; None where each is at once, and no kernel for it compiled
    kept: np.ndarray  # (TOGETHER, H * S * A) those that wait; these arrays are of size 0 where none does
    pending: np.ndarray  # (1 + TOGETHER,) int64, how many there are, and of which episodes
    kept_values: np.ndarray  # (TOGETHER, 1 + m)
    kept_q: np.ndarray  # (2, S * TOGETHER)
    kept_x: np.ndarray  # (S * A * TOGETHER,)


@kernel(inline="late")
def keep_policy(core, settings, truth, t, out, buffers):
    """Put the current policy beside those that wait to be evaluated; when there are enough, they are."""
    H, S, A, C = truth[2].shape[1], truth[2].shape[2], settings.A, settings.C
    cell_of, pi = core.counts.cell_of, core.policy.pi
    kept, pending = buffers.kept, buffers.pending
    b = pending[0]
    for h in range(H):
        for s in range(S):
            c = np.int64(cell_of[h, s]) - 1
            at = (h * S + s) * A
            if c >= 0:
                for a in range(A):
                    kept[b, at + a] = pi[(h * A + a) * C + c]
            else:
                n = A
                if settings.masked:
                    n = 0
                    for a in range(A):
                        n += settings.allowed[h, s, a]
                for a in range(A):
                    kept[b, at + a] = -float(n)
                    if settings.masked and not settings.allowed[h, s, a]:
                        kept[b, at + a] = 0.0
    pending[0] = b + 1
    pending[1 + b] = t
    if b + 1 == TOGETHER:
        evaluate_kept(truth, out, buffers)


@kernel(inline=True)
def finish(truth, out, buffers):
    """At the end of a chunk: the policies that still wait."""
    if buffers.together:
        evaluate_kept(truth, out, buffers)


@kernel
def evaluate_kept(truth, out, buffers):
    """Evaluate the policies that wait, and write V_r and V_d of each to its row of ``out``."""
    p, _, f, mu = truth
    pending, values = buffers.pending, buffers.kept_values
    if pending[0] > 0:
        evaluate_together(p, f, mu, buffers.kept, values, buffers.kept_q, buffers.kept_x)
        for b in range(pending[0]):
            for j in range(values.shape[1]):
                out[pending[1 + b], j] = values[b, j]
        pending[0] = 0


@kernel(inline=True)
def write_policy(core, settings, truth, t, exact, out, buffers):
    """Of the current policy, to row t of ``out``: V_r and V_d where ``exact[t]``, and lam.

    On a large dense model V_r and V_d come later, those of several episodes together; the last by :func:`finish`.
    """
    p, nxt, f, mu = truth
    values, lam = buffers.values, core.policy.lam
    m = lam.size
    for i in range(m):
        out[t, 1 + m + i] = lam[i]
    if buffers.together:
        if exact[t]:
            keep_policy(core, settings, truth, t, out, buffers)
    elif exact[t]:
        exact_values(
            settings, core.counts.cell_of, core.policy.pi, settings.C, p, nxt, f, mu, values, buffers.q, buffers.x
        )  # fmt: skip
        for j in range(1 + m):
            out[t, j] = values[j]


@kernel(inline=True)
def add_up(t, out, buffers):
    """The sums of rewards and utilities that the episode realised, in the last 1 + m columns of row t of ``out``."""
    rewards, utilities = buffers.rewards, buffers.utilities
    m = utilities.shape[0]
    at = out.shape[1] - 1 - m
    for j in range(1 + m):
        out[t, at + j] = 0.0
        for h in range(rewards.size):
            out[t, at + j] += rewards[h] if j == 0 else utilities[j - 1, h]


@kernel(inline=True)
def play_episode(core, settings, truth, uniforms, thresholds, t, exact, out, buffers):
    """Episode t of the current policy in the true model, left in ``buffers``; its threshold samples come back.

    Row t of ``out`` receives what :func:`write_policy` and :func:`add_up` write.
    """
    p, nxt, f, _ = truth
    write_policy(core, settings, truth, t, exact, out, buffers)
    roll_out(
        settings, core.counts.cell_of, core.policy.pi, settings.C, settings.starts, settings.start_p, p, nxt, f,
        uniforms, t, buffers.states, buffers.actions, buffers.rewards, buffers.utilities,
    )  # fmt: skip
    add_up(t, out, buffers)
    return thresholds[t] if thresholds.size > 0 else buffers.none


@kernel
def play(policy, truth, uniforms, t, buffers):
    """One episode of ``policy`` (H, S, A) in the true model, with row t of ``uniforms``; it is left in ``buffers``."""
    p, nxt, f, mu = truth
    H, S, A = policy.shape
    s = draw(mu, 0, 1, S, uniforms[0][t, 0])
    p_flat, nxt_flat, pi = p.reshape(-1), nxt.reshape(-1), policy.reshape(-1)
    buffers.states[0] = s
    for h in range(H):
        a = draw(pi, (h * S + s) * A, 1, A, uniforms[1][t, h])
        buffers.actions[h] = a
        s = step(p, p_flat, nxt_flat, f, uniforms, t, h, s, a, buffers.rewards, buffers.utilities)
        buffers.states[h + 1] = s
