"""FlexDOME in plain vectorised NumPy: the readable twin.

Dense arrays [h, s, a, s'], Algorithms 1 and 2 of Zuo et al. 2026 line by line, no tricks. It is made from a
:class:`~flexdome.cmdp.Problem` and the options of :class:`~flexdome.learners.primal_dual.flexdome.FlexDOME`, and its
formulas and constants are its own, so that a wrong one in the learner shows: tests hold the compiled learner to it, and
the benchmarks measure against it.

What a problem reveals
----------------------
Where rewards or a problem's utilities are revealed, the known mean stands for the estimated one, and the part of the
bonus that pays for estimating it, phi_r, is zero. Where transitions are revealed, p-bar = p everywhere and phi_p and
the entropy's bonus are zero. ``unvisited="optimistic"`` is then about what is not known: a known mean counts as itself
and the most possible after it, f + (H - h); with known transitions as itself, and an unknown mean as 1.

What is missing
---------------
A utility that is NaN has n = N - (samples missing) samples: d^ and phi_r are of n, phi_p of N. Where n = 0 < N the mean
is unknown: 0 with the bonus of one sample, or 1 in place of both with ``unvisited="optimistic"``.

What a problem forbids
----------------------
A policy is one over the actions that are allowed: log pi is -inf elsewhere. The largest entropy of a state, log A in
the paper, is the logarithm of the largest number of actions allowed anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.validation import Float

__all__ = ["NumpyFlexDOME"]

SCALES = {  # c_b, c_e, and those of eta_t and tau_t
    "stated": (0.001, 0.00001, 1.0, 1.0),
    "theory": (1.0, 1.0, 1.0, 1.0),
    "practical": (0.0, 0.000001, 10.0, 0.1),
    "safe": (0.0, 0.000015, 30.0, 0.3),
}


class NumpyFlexDOME:
    """FlexDOME, its steps written out; the options are FlexDOME's."""

    one_bonus = False  # whether the bonus of a mean and that of the transitions are one, of the samples of the mean

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        bonus_scale: float | None = None,
        margin_scale: float | None = None,
        *,
        tuning: str = "stated",
        schedules: Any = None,
        margin: bool = True,
        regularisation: bool = True,
        step_scale: float | None = None,
        regularisation_scale: float | None = None,
        unvisited: str | None = None,
        scale_entropy_bonus: bool = True,
        dual_bound: float | None = None,
    ) -> None:
        given = (bonus_scale, margin_scale, step_scale, regularisation_scale)
        c_b, c_e, c_eta, c_tau = (
            default if value is None else value for value, default in zip(given, SCALES[tuning], strict=True)
        )
        self.start(problem, tuning in ("practical", "safe") if unvisited is None else unvisited == "optimistic")
        self.set_bonus(episodes, delta, c_b, c_b if scale_entropy_bonus else 1.0)
        H, S, A, m, gap = self.H, self.S, self.A, self.m, problem.slater_gap
        self.dual_bound = 4 * H / gap if dual_bound is None else dual_bound
        C_B = (1 + 8 * m * H / gap) * (4 * H * np.sqrt(2 * S * A) * (H * np.sqrt(S) + H + 1))
        C_B += 4 * m * H / gap * np.sqrt(2 * H)
        product = max(c_eta * c_tau, 1.0)  # above 1, eta_t comes later

        def theorem1(t: int) -> tuple[Any, Any, Any]:
            eta = c_eta * (t - 1 + product ** (6 / 5)) ** (-5 / 6)
            decay = t ** (-1 / 6) * np.log(4 * S * A * H * t / delta) ** (1 / 4)
            return eta, c_tau * t ** (-1 / 6), c_e * (18 / 5) * np.sqrt(H**3 * C_B) * decay

        def at(t: int) -> tuple[Any, Any, Any]:
            parts = schedules.eta, schedules.tau, schedules.margin
            eta, tau, eps = (part(float(t)) if callable(part) else part for part in parts)
            return eta, tau, eps

        def schedule(t: int) -> tuple[Any, Any, Any]:
            eta, tau, eps = theorem1(t) if schedules is None else at(t)
            return eta, tau if regularisation else 0.0, np.broadcast_to(np.asarray(eps if margin else 0.0), (m,))

        self.schedule = schedule

    def start(self, problem: Problem, optimistic: bool, latest: bool = False) -> None:
        """Nothing seen, the uniform policy, multipliers of zero."""
        self.H, self.S, self.A, self.m = problem.horizon, problem.states, problem.actions, problem.constraints
        self.initial, self.thresholds, self.transitions = problem.initial, problem.thresholds, problem.transitions
        utilities = [None] * self.m if problem.utilities is None else problem.utilities
        self.known = [problem.rewards, *utilities]
        self.optimistic, self.latest = optimistic, latest
        shape = (self.H, self.S, self.A)
        self.N, self.sums, self.N_next = np.zeros(shape), np.zeros((1 + self.m, *shape)), np.zeros((*shape, self.S))
        self.missing = np.zeros((1 + self.m, *shape))
        self.alpha_sum, self.alpha_count = np.zeros(self.m), np.zeros(self.m)
        self.allowed = np.ones(shape, dtype=bool) if problem.allowed is None else problem.allowed
        choices = self.allowed.sum(axis=-1, keepdims=True)
        self.log_pi = np.where(self.allowed, -np.log(choices), -np.inf)
        self.log_A = np.log(choices.max())
        self.lam = np.zeros(self.m)
        self.t = 1

    def set_bonus(self, episodes: int, delta: float, c_b: float, c_entropy: float) -> None:
        """phi_r, phi_p and the entropy's bonus of one visit (appendix, Lemma "Bound on the estimation error")."""
        H, S, A, m = self.H, self.S, self.A, self.m
        delta_prime = delta / 4
        L_r = np.log(2 * S * A * H * (m + 1) * episodes / delta_prime) / 2
        L_p = 2 * S + 2 * np.log(S * A * H * episodes / delta_prime)
        self.phi_r, self.phi_p = c_b * np.sqrt(L_r), c_b * H * np.sqrt(L_p)
        self.phi_psi = c_entropy * H * np.sqrt(L_p) * self.log_A

    @property
    def policy(self) -> Float:
        """(H, S, A)."""
        pi: Float = np.exp(self.log_pi)
        return pi

    def bonuses(self, samples: Float) -> tuple[Any, Any, Any]:
        """After so many samples, for an unknown mean, for unknown transitions, and the entropy's: each (H, S, A)."""
        root = np.sqrt(np.maximum(samples, 1.0))
        return self.phi_r / root, self.phi_p / root, self.phi_psi / root

    def widths(self) -> Float:
        """(H, S, A): the bonus of a mean of which nothing is revealed."""
        of_mean, of_transitions, _ = self.bonuses(self.N)
        width: Float = of_mean + of_transitions
        return width

    def model(self) -> tuple[Float, Float]:
        """(m + 2, H, S, A) r-bar, d-bar and the entropy's bonus, and (H, S, A, S) p-bar (eq. 6)."""
        _, of_transitions, of_entropy = self.bonuses(self.N)
        if self.transitions is None:
            p = self.N_next / np.maximum(self.N, 1.0)[..., None]
        else:
            p, of_transitions, of_entropy = self.transitions, 0.0, 0.0
        bar = np.empty((self.m + 2, *self.N.shape))
        for j, (known, total) in enumerate(zip(self.known, self.sums, strict=True)):
            samples = self.N - self.missing[j]
            if known is not None:
                bar[j] = known + of_transitions
                continue
            of_mean, whole, _ = self.bonuses(samples)
            rest = whole if self.one_bonus and self.transitions is None else of_transitions
            bar[j] = total / np.maximum(samples, 1.0) + of_mean + rest
            if self.optimistic:
                bar[j] = np.where(samples == 0, 1.0 + of_transitions, bar[j])
        bar[-1] = of_entropy
        return bar, p

    def most(self, h: int, cap: Float) -> Float:
        """(m + 2, S, A): what an action never tried is worth at best, transitions being unknown."""
        best = np.broadcast_to(cap, (self.m + 2, self.S, self.A)).copy()
        for j, known in enumerate(self.known):
            if known is not None:
                best[j] = known[h] + (self.H - h - 1)
        return best

    def evaluate(self) -> tuple[Float, Float]:
        """Truncated policy evaluation (Alg. 2): Q of (r, d_1, ..., d_m, psi), and their values at the start."""
        pi, psi = self.policy, np.where(self.allowed, -self.log_pi, 0.0)
        bar, p = self.model()
        bar[-1] += psi
        Q, V = np.empty_like(bar), np.zeros((self.m + 2, self.S))
        for h in reversed(range(self.H)):
            cap = np.full((self.m + 2, self.S, self.A), float(self.H - h))
            cap[-1] = psi[h] + (self.H - h) * self.log_A
            Q[:, h] = np.minimum(bar[:, h] + np.einsum("sat,jt->jsa", p[h], V), cap)
            if self.optimistic and self.transitions is None:
                Q[:, h] = np.where(self.N[h] == 0, self.most(h, cap), Q[:, h])
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
        return Q, V @ self.initial

    def values(self) -> Float:
        """(m + 1,) the estimated reward and utilities of the policy."""
        return self.evaluate()[1][:-1]

    def alpha(self) -> Float:
        """(m,) the known thresholds, or the mean of the samples."""
        sampled = self.alpha_sum / np.maximum(self.alpha_count, 1.0)
        return np.where(np.isnan(self.thresholds), sampled, self.thresholds)

    def observe(self, episode: Episode) -> None:
        """Alg. 1, lines 4 to 8."""
        eta, tau, eps = self.schedule(self.t)
        Q, V = self.evaluate()
        self.move(self.log_pi + eta * (Q[0] + np.einsum("i,ihsa->hsa", self.lam, Q[1:-1]) + tau * Q[-1]))  # line 6
        step = (1.0 - eta * tau) * self.lam - eta * (V[1:-1] - eps - self.alpha())  # line 7
        self.lam = np.clip(step, 0.0, self.dual_bound)
        self.record(episode)
        self.t += 1

    def move(self, logits: Float) -> None:
        """To the policy proportional to the exponential, over the actions that are allowed."""
        logits = np.where(self.allowed, logits, -np.inf)
        logits = logits - logits.max(axis=-1, keepdims=True)
        self.log_pi = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    def record(self, episode: Episode) -> None:
        """Add an episode's data (line 8)."""
        s, a = np.asarray(episode.states), np.asarray(episode.actions)
        h = np.arange(self.H)
        self.N[h, s[:-1], a] += 1.0
        self.sums[0, h, s[:-1], a] += np.asarray(episode.rewards)
        utilities = np.asarray(episode.utilities, dtype=float)
        self.sums[1:, h, s[:-1], a] += np.nan_to_num(utilities)
        self.missing[1:, h, s[:-1], a] += np.isnan(utilities)
        self.N_next[h[:-1], s[:-2], a[:-1], s[1:-1]] += 1.0
        if episode.thresholds is not None:
            if self.latest:
                self.alpha_sum[:] = self.alpha_count[:] = 0.0
            self.alpha_sum += np.nansum(episode.thresholds, axis=1)
            self.alpha_count += np.isfinite(episode.thresholds).sum(axis=1)
