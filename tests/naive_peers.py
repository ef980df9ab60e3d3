"""The primal-dual peers in dense NumPy, one slow twin each, with formulas and constants of their own.

A twin is made from a Problem and the peer's options, never from the peer. The model (counts, means, what a problem
reveals) and the truncated evaluation are those of FlexDOME's twin, :mod:`flexdome.learners.primal_dual.reference`; each
class has its paper's constants in both tunings, its bonus, its schedules and its steps.
"""

import numpy as np

from flexdome.learners.primal_dual.reference import NumpyFlexDOME


def numbers(tuning, theory, practical, given):
    """The constants in force: as given, else the tuning's."""
    return [
        default if value is None else value
        for value, default in zip(given, {"theory": theory, "practical": practical}[tuning], strict=True)
    ]


def full_optimism(tuning, unvisited):
    """Whether an action never tried is worth the most possible."""
    return tuning == "practical" if unvisited is None else unvisited == "optimistic"


class NaiveOptPrimalDual(NumpyFlexDOME):
    """Efroni et al. 2020, Algorithm 4."""

    def __init__(
        self, problem, episodes=80_000, delta=0.1, *, tuning="theory", bonus_scale=None, policy_step=None,
        dual_step=None, dual_bound=None, dual_policy="current", reward_bonus_factor=2, reward_bonus_size=6,
        unvisited=None, threshold_estimate="mean",
    ):  # fmt: skip
        self.start(problem, full_optimism(tuning, unvisited), threshold_estimate == "last")
        H, S, A, m, K = self.H, self.S, self.A, self.m, episodes
        self.rho = problem.horizon / problem.slater_gap if dual_bound is None else dual_bound
        t_K = np.sqrt(2 * self.log_A / (H**2 * (1 + m * self.rho) ** 2 * K))
        inverse_t_lam = self.rho / np.sqrt(H**2 * m * K)
        self.scale, self.t_K, self.inverse_t_lam = numbers(
            tuning, (1, t_K, inverse_t_lam), (0.00001, 0.03, 100), (bonus_scale, policy_step, dual_step)
        )
        self.L_p = np.log(6 * S * A * H * K / delta)
        self.L = reward_bonus_factor * np.log(reward_bonus_size * S * A * H * (m + 1) * K / delta)
        self.next_policy = dual_policy == "next"

    def bonuses(self, samples):
        n = np.maximum(samples, 1.0)
        p = self.N_next / np.maximum(self.N, 1.0)[..., None]  # none is counted after the last step, nor where N = 0
        beta_p = 2 * np.sqrt(p * (1 - p) * self.L_p / n[..., None]) + 14 / 3 * self.L_p / n[..., None]
        return self.scale * np.sqrt(self.L / n), self.scale * self.H * beta_p.sum(-1), 0.0

    def observe(self, episode):
        Q, V = self.evaluate()
        self.move(self.log_pi + self.t_K * (Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:-1])))
        V_d = np.einsum("s,sa,isa->i", self.initial, self.policy[0], Q[1:-1, 0]) if self.next_policy else V[1:-1]
        self.lam = np.clip(self.lam - self.inverse_t_lam * (V_d - self.alpha()), 0, self.rho)
        self.record(episode)


class NaiveRPDOE(NumpyFlexDOME):
    """Müller et al. 2024: FlexDOME's model and bonus, constant steps, no margin."""

    def __init__(
        self, problem, episodes=80_000, delta=0.1, *, tuning="theory", bonus_scale=None, exponent_eta=None,
        exponent_tau=None, scale_entropy_bonus=True, dual_bound=None, unvisited=None, threshold_estimate="mean",
    ):  # fmt: skip
        self.start(problem, full_optimism(tuning, unvisited), threshold_estimate == "last")
        scale, a, b = numbers(
            tuning, (1, 3 / 4, 1 / 8), (0, 0.3, 0.3), (bonus_scale, exponent_eta, exponent_tau)
        )  # fmt: skip
        self.set_bonus(episodes, delta, scale, scale if scale_entropy_bonus else 1)
        self.dual_bound = 4 * self.H / problem.slater_gap if dual_bound is None else dual_bound
        self.schedule = lambda t: (episodes ** (-a), episodes ** (-b), 0)


class NaiveUOptRPGPD(NumpyFlexDOME):
    """The notebook of Kitamura et al. 2024, without its slips or with them."""

    def __init__(
        self, problem, episodes=80_000, delta=0.1, *, tuning="theory", bonus_scale=None, exponent_eta=None,
        exponent_tau=None, notebook_slips=False, bonus_horizon=False, dual_bound=None, threshold_estimate="mean",
    ):  # fmt: skip
        self.start(problem, False, threshold_estimate == "last")
        self.scale, self.a_eta, self.a_tau = numbers(
            tuning, (1, 0.53, 0.4), (0.003, 0.53, 0.4), (bonus_scale, exponent_eta, exponent_tau)
        )
        self.scale *= self.H if bonus_horizon else 1
        self.log = 2 * np.log(48 * self.S**2 * self.A * self.H / delta)
        self.slips = notebook_slips
        self.dual_bound = np.inf if dual_bound is None else dual_bound

    one_bonus = True

    def bonuses(self, samples):
        n = np.maximum(samples, 1.0)
        phi = np.sqrt((2 * np.log(np.log(np.maximum(2 * n, np.e))) + self.log) / n)
        p = np.where(self.N[..., None] == 0, 1 / self.S, self.N_next / np.maximum(self.N, 1.0)[..., None])
        return 0.0, self.scale * (phi * np.sqrt(p).sum(-1) + 5 * phi**2), 0.0

    def q_values(self, tau):
        """Q_r, regularised by entropy, and Q_d: (m + 1, H, S, A)."""
        pi, log_pi = self.policy, self.log_pi
        bar, p = self.model()
        if self.transitions is None:
            p = np.where(self.N[..., None] == 0, 1 / self.S, p)
        weight = pi**2 if self.slips else pi
        entropy = -tau * np.where(self.allowed, weight * np.maximum(log_pi, -1e300), 0.0).sum(-1)  # (H, S)
        Q, V = np.empty((self.m + 1, *self.N.shape)), np.zeros((self.m + 1, self.S))
        if self.slips:
            V[0] = entropy[-1]
        for h in reversed(range(self.H)):
            cap = np.full((self.m + 1, 1, 1), self.H - h, dtype=float)
            cap[0] *= 1 + tau * self.log_A
            Q[:, h] = np.minimum(bar[:-1, h] + np.einsum("sat,jt->jsa", p[h], V), cap)
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
            V[0] += entropy[h]
        return Q

    def values(self):
        return np.einsum("s,sa,jsa->j", self.initial, self.policy[0], self.q_values(0.0)[:, 0])  # V_r without entropy

    def observe(self, episode):
        self.record(episode)
        if self.slips:
            s, a = np.asarray(episode.states), np.asarray(episode.actions)
            self.N_next[-1, s[-2], a[-1], s[-1]] += 1.0
        k = self.t - 1
        eta, tau = (k + 3) ** (-self.a_eta), (k + 3) ** (-self.a_tau)
        Q = self.q_values(tau)
        self.move((1 - eta * tau) * self.log_pi + eta * (Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:])))
        V_d = np.einsum("s,sa,isa->i", self.initial, self.policy[0], Q[1:, 0])
        self.lam = np.clip(self.lam + eta * (self.alpha() - V_d - tau * self.lam), 0, self.dual_bound)
        self.t += 1


class NaiveOptPessPrimalDual(NumpyFlexDOME):
    """Liu et al. 2021: a greedy plan after each episode, and a queue.

    Of c_b = 1 + H sqrt(S) the one is for the mean, the rest for the transitions.
    """

    def __init__(
        self, problem, episodes=80_000, delta=0.1, *, tuning="theory", bonus_scale=None, margin_scale=None,
        weight_scale=None, bonus_factor=None, margin_factor=None, event_delta=None, unvisited=None,
        threshold_estimate="mean",
    ):  # fmt: skip
        self.start(problem, full_optimism(tuning, unvisited), threshold_estimate == "last")
        H, S, A = self.H, self.S, self.A
        scale, margin, self.weight = numbers(
            tuning, (1, 1, 1), (0.0001, 0.00001, 1), (bonus_scale, margin_scale, weight_scale)
        )
        c_b = 1 + H * np.sqrt(S) if bonus_factor is None else bonus_factor
        c_e = 5 * H**2 * np.sqrt(S**3 * A) if margin_factor is None else margin_factor
        each = delta / (16 * S**2 * A * H) if event_delta is None else event_delta
        root = scale * c_b * np.sqrt(np.log(episodes / each))
        share = 1 / c_b if c_b > 1 else 1
        self.of_mean, self.of_transitions = root * share, root * (1 - share)
        self.eps = lambda k: margin * c_e * (np.log(k / each) + 1) / np.sqrt(k * np.log(k / each))
        self.inverse_eta = lambda k: self.weight / (problem.slater_gap * H * np.sqrt(k))
        self.told = any(part is not None for part in (problem.rewards, problem.utilities, problem.transitions))
        self.plan = self.values()[1:]
        if self.told:  # of a state of which something is known there is a best action
            self.replan(0.0)

    def bonuses(self, samples):
        root = np.sqrt(np.maximum(samples, 1.0))
        return self.of_mean / root, self.of_transitions / root, 0.0

    def q_step(self, h, bar, p, V):
        """(m + 1, S, A)."""
        cap = np.full((self.m + 2, self.S, self.A), self.H - h, dtype=float)
        Q = np.minimum(bar[:-1, h] + np.einsum("sat,jt->jsa", p[h], V), cap[:-1])
        if self.optimistic and self.transitions is None:
            Q = np.where(self.N[h] == 0, self.most(h, cap)[:-1], Q)
        return Q

    def values(self):
        pi, (bar, p), V = self.policy, self.model(), np.zeros((self.m + 1, self.S))
        for h in reversed(range(self.H)):
            V = np.einsum("sa,jsa->js", pi[h], self.q_step(h, bar, p, V))
        return V @ self.initial

    def observe(self, episode):
        self.lam = np.maximum(self.lam + self.alpha() + self.eps(self.t) - self.plan, 0)
        self.record(episode)
        self.t += 1
        self.replan(self.inverse_eta(self.t))

    def replan(self, weight):
        seen = (self.N.sum(-1) > 0) | self.told
        pi, (bar, p), V = np.zeros(self.N.shape), self.model(), np.zeros((self.m + 1, self.S))
        pi[:] = self.allowed / self.allowed.sum(-1, keepdims=True)
        for h in reversed(range(self.H)):
            Q = self.q_step(h, bar, p, V)
            y = Q[0] + weight * np.einsum("i,isa->sa", self.lam, Q[1:])
            best = np.where(self.allowed[h], y, -np.inf).argmax(-1)
            pi[h] = np.where(seen[h][:, None], np.eye(self.A)[best], pi[h])
            V = np.einsum("sa,jsa->js", pi[h], Q)
        self.plan = V[1:] @ self.initial
        with np.errstate(divide="ignore"):
            self.log_pi = np.log(pi)


class NaiveAnchor(NumpyFlexDOME):
    """AnchorDOME on FlexDOME's dense model, its two lines written out."""

    def __init__(
        self, problem, episodes=80_000, delta=0.1, *, step_size=0.1, regularisation=1, anchor_rate=0.01,
        margin_scale=3, bonus_scale=0.001,
    ):  # fmt: skip
        self.start(problem, optimistic=True)
        self.set_bonus(episodes, delta, bonus_scale, 0)
        self.eta, self.tau, self.rho, self.c = step_size, regularisation, anchor_rate, margin_scale
        self.top = 4 * self.H / problem.slater_gap
        self.ref, self.lref = np.where(self.allowed, self.log_pi, 0.0), np.zeros(self.m)

    def observe(self, episode):
        eta, tau = self.eta, self.tau
        Q, V = self.evaluate()
        Q_y = Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:-1])
        self.move((self.log_pi + eta * Q_y + eta * tau * self.ref) / (1 + eta * tau))
        self.ref += self.rho * np.where(self.allowed, self.log_pi - self.ref, 0.0)
        short = V[1:-1] - self.c / np.sqrt(self.t) - self.alpha()
        self.lam = np.clip((self.lam + eta * tau * self.lref - eta * short) / (1 + eta * tau), 0, self.top)
        self.lref += self.rho * (self.lam - self.lref)
        self.record(episode)
        self.t += 1


TWINS = {
    "flexdome": NumpyFlexDOME,
    "optprimaldual": NaiveOptPrimalDual,
    "uopt-rpgpd": NaiveUOptRPGPD,
    "rpd-oe": NaiveRPDOE,
    "optpess-pd": NaiveOptPessPrimalDual,
    "anchordome": NaiveAnchor,
}
