"""Slow twins of SV-OPS, S-OPS, CPD-PO and OMDPD: every formula and constant written out again.

They take what a learner is told (sizes, thresholds, Slater gap, options) and the episodes, and import nothing of the
learners. Projections are entropy programs over z_h(s, a, s') with every linear constraint written out, solved by an
interior-point method; occupancies and values over a confidence set come from trying every corner of every row.
"""

from itertools import product
from math import log, sqrt

import numpy as np

from naive_programs import ends, extended_lp, extended_policy_value, highest_occupancy


def counts(problem, episodes):
    """N (H, S, A), its successors (H, S, A, S), and sums of rewards and utilities (1 + m, H, S, A)."""
    H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
    n, after, sums = np.zeros((H, S, A)), np.zeros((H, S, A, S)), np.zeros((1 + m, H, S, A))
    for e in episodes:
        for h in range(H):
            at = h, e.states[h], e.actions[h]
            n[at] += 1
            sums[(0, *at)] += e.rewards[h]
            for i in range(m):
                sums[(1 + i, *at)] += e.utilities[i][h]
            if h + 1 < H:
                after[(*at, e.states[h + 1])] += 1
    return n, after, sums


def box(n, p, eps):
    """[lo, up] around p, everything where nothing was seen and in the last step, which nothing follows."""
    seen = np.repeat(n[..., None] > 0, p.shape[-1], axis=-1)
    seen[-1] = False
    return np.where(seen, np.maximum(p - eps, 0), 0.0), np.where(seen, np.minimum(p + eps, 1), 1.0)


def loop_free_set(problem, T, delta, scale, episodes):
    """(lo, up), optimistic utilities 1 - (g^ - xi) and pessimistic costs g^ + xi, each (m, H, S, A)."""
    H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
    n, after, sums = counts(problem, episodes)
    u = log(8 * m * (H * S) ** 2 * A * T / delta)
    at_least = np.maximum(n, 1)
    fewer = np.maximum(n - 1, 1)[..., None]
    p = after / at_least[..., None]
    xi = np.where(n > 0, np.minimum(scale * np.sqrt(4 * u / at_least), 1), 1.0)
    eps = np.minimum(scale * (2 * np.sqrt(p * u / fewer) + 14 * u / (3 * fewer)), 1)
    g = (n - sums[1:]) / at_least
    return box(n, p, eps), 1 - (g - xi), g + xi


def optimistic_set(problem, K, delta, scale, paper, episodes):
    """(lo, up) and optimistic means (1 + m, H, S, A) as OptCMDP and OMDPD have them."""
    H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
    n, after, sums = counts(problem, episodes)
    at_least = np.maximum(n, 1)
    p = after / at_least[..., None]
    L_p = log(6 * S * A * H * K / delta)
    L = 2 * log(6 * S * A * H * (m + 1) * K / delta)
    eps = 2 * np.sqrt(p * (1 - p) * L_p / at_least[..., None]) + 14 / 3 * L_p / at_least[..., None]
    means = sums / at_least + scale * np.sqrt(L / at_least)
    return box(n, p, scale * eps), means if paper else np.where(n > 0, means, np.maximum(means, 1))


def entropy_program(log_z0, z, equal, right, less, bound):
    """argmin sum z log(z / z0) - z s.t. equal z = right, less z <= bound, from ``z``, and the latter's multipliers.

    A primal-dual interior-point method, from an infeasible start. Where its steps become too short to arrive, it is
    done again with more regard for the middle after a short step.
    """
    for careful in (0.1, 0.9):
        found, lam = interior_point(log_z0, z, equal, right, less, bound, careful)
        if np.abs(equal @ found - right).max() < 1e-10:
            return found, lam
    raise AssertionError("the interior-point method did not arrive")


def interior_point(log_z0, z, equal, right, less, bound, careful):
    """Primal point and multipliers; ``careful`` is what the gap is aimed to shrink to after a short step."""
    n, k, e = z.size, less.shape[0], equal.shape[0]
    y, lam = np.zeros(e), np.ones(k)
    s, size = np.maximum(bound - less @ z, 0.1), 1.0
    for _ in range(300):
        t = (0.1 if size > 0.3 else careful) * (s @ lam) / max(k, 1)
        dual = np.log(z) - log_z0 + equal.T @ y + less.T @ lam
        flow, room = equal @ z - right, less @ z + s - bound
        if max(np.abs(z * dual).max(), np.abs(flow).max(), np.abs(room).max(initial=0), 10 * t) < 1e-13:
            break
        d = lam / s
        root = np.sqrt(z)  # unknowns dz / sqrt(z): the rare ones have the largest curvature
        scaled, rows = less * root, equal * root
        system = np.block([[np.eye(n) + scaled.T @ (d[:, None] * scaled), rows.T], [rows, -1e-15 * np.eye(e)]])
        rest = (t - lam * s + lam * room) / s
        step = np.linalg.solve(system, np.concatenate([root * (-dual - less.T @ rest), -flow]))
        dz, dy = root * step[:n], step[n:]
        ds = -room - less @ dz
        dlam = (t - lam * s - lam * ds) / s
        size = 1.0
        for value, move in ((z, dz), (s, ds), (lam, dlam)):
            down = move < 0
            size = min(size, 0.9 * (-value[down] / move[down]).min(initial=np.inf))
        z, y, s, lam = z + size * dz, y + size * dy, s + size * ds, lam + size * dlam
    return z, lam


def kl_projection(lo, up, mu, x0, p0, slope, u=None, alpha=None, allowed=None):
    """argmin slope . x + KL(x p || x0 p0) over the box, flow conserved, u_i . x >= alpha_i: x, p, multipliers, optimum.

    The unknowns are z_h(s, a, s') for all steps but the last, and x_H(s, a); where mu is 0 there is nothing.
    """
    H, S, A = x0.shape
    cells = [(h, s, a, k) for h, s, a in product(range(H - 1), range(S), range(A)) for k in range(S)]
    cells += [(H - 1, s, a, None) for s, a in product(range(S), range(A))]
    cells = [c for c in cells if (c[0] > 0 or mu[c[1]] > 0) and (allowed is None or allowed[c[:3]])]
    place = {c: i for i, c in enumerate(cells)}
    log_z0 = np.array(
        [np.log(x0[h, s, a] * (1 if k is None else p0[h, s, a, k])) - slope[h, s, a] for h, s, a, k in cells]
    )
    equal, right, less, bound = [], [], [], []
    for h, s in product(range(H), range(S)):
        row = np.zeros(len(cells))
        for (g, s0, _, k), i in place.items():
            row[i] += (g, s0) == (h, s)
            row[i] -= (g, k) == (h - 1, s)
        if row.any():
            equal.append(row)
            right.append(mu[s] if h == 0 else 0.0)
    for (h, s, a, k), i in place.items():
        if k is None:
            continue
        for sign, limit in ((1.0, up[h, s, a, k]), (-1.0, lo[h, s, a, k])):
            if (sign > 0 and limit >= 1) or (sign < 0 and limit <= 0):
                continue
            row = np.zeros(len(cells))
            for j in range(S):
                row[place[h, s, a, j]] -= sign * limit
            row[i] += sign
            less.append(row)
            bound.append(0.0)
    boxes = len(less)
    for i in range(0 if u is None else len(u)):
        less.append(-np.array([u[i][h, s, a] for h, s, a, _ in cells]))
        bound.append(-alpha[i])
    first = np.array([1 / (S * A) / (1 if k is None else S) for *_, k in cells])
    less = np.array(less).reshape(-1, len(cells))
    z, lam = entropy_program(log_z0, first, np.array(equal), np.array(right), less, np.array(bound))
    x, p = np.zeros((H, S, A)), p0.copy()
    for (h, s, a, k), i in place.items():
        x[h, s, a] += z[i]
        if k is not None:
            p[h, s, a, k] = z[i]
    for h, s, a in product(range(H - 1), range(S), range(A)):
        if x[h, s, a] > 0:
            p[h, s, a] /= x[h, s, a]
    return x, p, lam[boxes:], float((z * (np.log(z) - log_z0)).sum())


def uniform_start(problem):
    """q_1: every next state and action alike."""
    H, S, A = problem.horizon, problem.states, problem.actions
    x = np.full((H, S, A), 1 / (S * A))
    x[0] = problem.initial[:, None] / A
    if problem.allowed is not None:
        for h, s, a in product(range(H), range(S), range(A)):
            share = problem.allowed[h, s, a] / problem.allowed[h, s].sum()
            x[h, s, a] = (problem.initial[s] if h == 0 else 1 / S) * share
    return x, np.full((H, S, A, S), 1 / S)


def policy(x, allowed=None):
    """x(s, a) / sum_a x, uniform over what is allowed where there is nothing."""
    total = x.sum(axis=-1, keepdims=True)
    elsewhere = 1 / x.shape[-1] if allowed is None else allowed / allowed.sum(axis=-1, keepdims=True)
    return np.where(total > 0, x / np.where(total > 0, total, 1), elsewhere)


def sv_ops(problem, episodes, *, T, delta=0.1, tuning="theory", bonus_scale=None, safe_policy=None):
    """What is played after each episode, a plan for each: a list of dicts (pi, lam, safe, upper, weight)."""
    H, S, A, m, mu, alpha = (
        problem.horizon, problem.states, problem.actions, problem.constraints, problem.initial, problem.thresholds,
    )  # fmt: skip
    u = log(8 * m * (H * S) ** 2 * A * T / delta)
    eta = gamma = sqrt(H * u / (T * H * S * A)) if tuning == "theory" else 0.01
    scale = (1.0 if tuning == "theory" else 1e-3) if bonus_scale is None else bonus_scale
    (x, p), lam, safe, out = uniform_start(problem), np.zeros(m), True, []
    for t in range(len(episodes) + 1):
        (lo, up), optimistic, pessimistic = loop_free_set(problem, T, delta, scale, episodes[:t])
        if t > 0:
            loss = np.zeros((H, S, A))
            for h in range(H):
                at = h, episodes[t - 1].states[h], episodes[t - 1].actions[h]
                loss[at] = (1 - episodes[t - 1].rewards[h]) / (out[-1]["upper"][at] + gamma)
            safe = (
                extended_lp(lo, up, np.concatenate([optimistic[:1], optimistic]), mu, alpha, problem.allowed)
                is not None
            )
            limits = (optimistic, alpha) if safe else (None, None)
            x, p, w, _ = kl_projection(lo, up, mu, x, p, eta * loss, *limits, problem.allowed)
            lam = w / eta if safe else np.zeros(m)
        pi, weight = policy(x, problem.allowed), 0.0
        upper = highest_occupancy(lo, up, mu, pi, 1.0)
        if safe_policy is not None:
            tau, beta = H - alpha, H - safe_policy.utilities
            worst = np.array([min((g * upper).sum(), H) for g in pessimistic]) if t > 0 else np.full(m, float(H))
            shares = [(w - b_tau) / (w - b) for w, b_tau, b in zip(worst, tau, beta, strict=True) if w > b_tau]
            weight = max(shares, default=0.0) if safe else 1.0
            upper = weight * highest_occupancy(lo, up, mu, safe_policy.policy, 1.0) + (1 - weight) * upper
        out.append({"pi": pi, "lam": lam, "safe": safe, "upper": upper, "weight": weight})
    return out


def cpd_po(problem, episodes, *, T, delta=0.1, tuning="theory", bonus_scale=None, replan=1):
    """What is played after each episode: a list of dicts (pi, lam, score); a step after every ``replan`` of them."""
    H, S, A, m, mu = problem.horizon, problem.states, problem.actions, problem.constraints, problem.initial
    eta = min(1 / (24 * H**3), 1 / sqrt(H * S * A * T)) if tuning == "theory" else 0.01
    gamma = 2 * eta * H if tuning == "theory" else 0.01
    scale = (1.0 if tuning == "theory" else 1e-3) if bonus_scale is None else bonus_scale
    Lambda = 2 * H / problem.slater_gap
    score = upper = B = np.zeros((H, S, A))
    lam, out = [], []
    for t in range(len(episodes) + 1):
        if t % replan > 0:
            out.append(out[-1])
            continue
        for e in episodes[max(t - replan, 0) : t]:
            loss = [
                (1 - e.rewards[h] + sum(lam[i] * (1 - e.utilities[i][h]) for i in range(m))) / (1 + m * Lambda)
                for h in range(H)
            ]
            score = score - B
            for h in range(H):
                at = h, e.states[h], e.actions[h]
                score[at] += sum(loss[h:]) / (upper[at] + gamma)
        pi = np.exp(-eta * score) * (1 if problem.allowed is None else problem.allowed)
        pi /= pi.sum(axis=-1, keepdims=True)
        (lo, up), optimistic, _ = loop_free_set(problem, T, delta, scale, episodes[:t])
        cost = [H - extended_policy_value(lo, up, optimistic[i], mu, pi, 1.0) for i in range(m)]
        lam = [Lambda if cost[i] > H - problem.thresholds[i] else 0.0 for i in range(m)]
        upper, lower = highest_occupancy(lo, up, mu, pi, 1.0), highest_occupancy(lo, up, mu, pi, -1.0)
        b = (pi * (3 * gamma * H + H * (upper - lower)) / (upper + gamma)).sum(axis=-1)
        B, value = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            for s, a in product(range(S), range(A)):
                B[h, s, a] = b[h, s] + (1 + 1 / H) * ends(lo, up, h, s, a, value).max()
            value = (pi[h] * B[h]).sum(axis=-1)
        out.append({"pi": pi, "lam": np.array(lam), "score": score})
    return out


def omdpd(
    problem, episodes, *, K, delta=0.1, tuning="theory", bonus_scale=None, scale=None, growth=None, replan=1,
    inner_steps=10,
):  # fmt: skip
    """What is played after each episode: a list of dicts (pi, lam, weight, variation).

    After every ``replan`` of them come the steps of all, in ``inner_steps`` at most, each for as many episodes.
    """
    H, S, A, m, mu = problem.horizon, problem.states, problem.actions, problem.constraints, problem.initial
    theory = tuning == "theory"
    a = (1 / (2 * H) if theory else 1.0) if scale is None else scale
    beta = (1 / (2 * sqrt(K)) if theory else 0.01) if growth is None else growth
    width = (1.0 if theory else 1e-3) if bonus_scale is None else bonus_scale
    (hat, p), lam, variation, out = uniform_start(problem), np.zeros(m), 0.0, []
    q, G, M, excess = hat, np.zeros((H, S, A)), np.zeros((H, S, A)), np.zeros(m)

    def gradient(x):
        slope = -means[0]
        for i in range(m):
            if (costs[i] * x).sum() > 0:
                slope = slope + beta * np.exp(beta * lam[i]) * costs[i]
        return a * slope * (1 if problem.allowed is None else problem.allowed)

    for t in range(len(episodes) + 1):
        if t % replan > 0:
            out.append(out[-1])
            continue
        (lo, up), means = optimistic_set(problem, K, delta, width, theory, episodes[:t])
        costs = [problem.thresholds[i] / H - means[1 + i] for i in range(m)]
        steps = min(replan, inner_steps) if t > 0 else 0
        for _ in range(steps):
            n = replan / steps
            variation += n * np.abs(G - M).max() ** 2
            eta = sqrt(H * log(S * A)) / sqrt(1 + variation)
            hat, p, _, _ = kl_projection(lo, up, mu, hat, p, n * eta * G, allowed=problem.allowed)
            lam = lam + n * a * excess
            M = gradient(hat)
            q, _, _, _ = kl_projection(lo, up, mu, hat, p, eta * M, allowed=problem.allowed)
            excess, G = np.array([max((c * q).sum(), 0.0) for c in costs]), gradient(q)
        excess, G = np.array([max((c * q).sum(), 0.0) for c in costs]), gradient(q)
        out.append(
            {"pi": policy(q, problem.allowed), "lam": lam, "weight": beta * np.exp(beta * lam), "variation": variation}
        )
    return out
