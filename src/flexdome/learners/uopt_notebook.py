"""UOpt-RPGPD exactly as its authors' notebook runs it, slips included: for comparison only.

Differs from :mod:`flexdome.learners.uopt_rpgpd` in two places of the evaluation of the regularised reward,

    V_h(s) = sum_a pi_h(a|s) (Q_h(s, a) - tau pi_h(a|s) log pi_h(a|s))     (the entropy is averaged with pi^2)
    V_{H+1}(s) = - tau sum_a pi_H(a|s)^2 log pi_H(a|s)                     (instead of 0)

and counts the transition after the last step, which the second needs. Rewards and utilities are those revealed by the
problem (the notebook knows them), else the empirical means. Plain dense NumPy, a few hundred microseconds an episode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.validation import Float, as_float
from flexdome.errors import FileFormatError, ValidationError
from flexdome.learners.base import Arrays, Beliefs, Learner
from flexdome.learners.tuning import checked

__all__ = ["UOptNotebook"]


class UOptNotebook(Learner):
    """The notebook's iteration.

    Parameters
    ----------
    bonus_scale : 1e-3 in the notebook
    exponent_eta, exponent_tau : 0.53 and 0.4 in the notebook
    """

    id: ClassVar[str] = "uopt-rpgpd-notebook"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        bonus_scale: float = 1e-3,
        exponent_eta: float = 0.53,
        exponent_tau: float = 0.4,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        super().__init__(problem, episodes, seed)
        self._given = {
            "episodes": episodes,
            "delta": delta,
            "seed": self.seed,
            "bonus_scale": as_float("bonus_scale", bonus_scale, low=0.0),
            "exponent_eta": as_float("exponent_eta", exponent_eta, low=0.0),
            "exponent_tau": as_float("exponent_tau", exponent_tau, low=0.0),
        }
        H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
        self._log = 2.0 * math.log(48.0 * S**2 * A * H / delta)
        self._arrays: Arrays = {
            "log_pi": np.full((H, S, A), -math.log(A)),
            "lam": np.zeros(m),
            "N": np.zeros((H, S, A)),
            "N_next": np.zeros((H, S, A, S)),
            "sum_r": np.zeros((H, S, A)),
            "sum_d": np.zeros((m, H, S, A)),
            "alpha": np.zeros((2, m)),  # sums and counts of threshold samples
        }

    @property
    def policy(self) -> Float:
        """(H, S, A) to play next."""
        pi: Float = np.exp(self._arrays["log_pi"])
        pi /= pi.sum(axis=-1, keepdims=True)
        return pi

    @property
    def multipliers(self) -> Float:
        """(m,) paired with that policy."""
        return self._arrays["lam"].copy()

    def observe(self, episode: Episode) -> None:
        """Add the episode's data, then move policy and multipliers."""
        self.preload([episode])
        k = self.episode
        eta, tau = (float(k + 3) ** -self._given[name] for name in ("exponent_eta", "exponent_tau"))
        Q = self._evaluate(tau)
        lam = self._arrays["lam"]
        logits = (1.0 - eta * tau) * self._arrays["log_pi"] + eta * (Q[0] + np.einsum("i,ihsa->hsa", lam, Q[1:]))
        logits -= logits.max(axis=-1, keepdims=True)
        self._arrays["log_pi"] = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        V_d = np.einsum("s,sa,isa->i", self.problem.initial, self.policy[0], Q[1:, 0])
        self._arrays["lam"] = np.maximum(lam + eta * (self._thresholds() - V_d - tau * lam), 0.0)
        self._count()

    def _evaluate(self, tau: float) -> Float:
        """Q of the regularised reward and of each utility, on the empirical model with bonuses: (1 + m, H, S, A)."""
        problem, data = self.problem, self._arrays
        H, S, A = data["N"].shape
        n = np.maximum(data["N"], 1.0)
        p = np.where(data["N"][..., None] > 0, data["N_next"] / n[..., None], 1.0 / S)
        square = (2.0 * np.log(np.log(np.maximum(2.0 * n, math.e))) + self._log) / n
        bonus = self._given["bonus_scale"] * (np.sqrt(square) * np.sqrt(p).sum(axis=-1) + 5.0 * square)
        r = data["sum_r"] / n if problem.rewards is None else problem.rewards
        d = data["sum_d"] / n if problem.utilities is None else problem.utilities
        f = np.concatenate([r[None], d]) + bonus
        pi, log_pi = self.policy, data["log_pi"]
        Q: Float = np.zeros_like(f)
        V = np.zeros((f.shape[0], S))
        V[0] = -tau * (pi[-1] ** 2 * log_pi[-1]).sum(axis=-1)
        for h in reversed(range(H)):
            cap = np.full((f.shape[0], 1, 1), float(H - h))
            cap[0] *= 1.0 + tau * math.log(A)
            Q[:, h] = np.minimum(f[:, h] + np.einsum("sat,jt->jsa", p[h], V), cap)
            V = np.einsum("sa,jsa->js", pi[h], Q[:, h])
            V[0] -= tau * (pi[h] ** 2 * log_pi[h]).sum(axis=-1)
        return Q

    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data; the policy does not move."""
        if not isinstance(episodes, Iterable):
            raise ValidationError(f"episodes is a {type(episodes).__name__}; it must be a series of Episodes")
        data = self._arrays
        h = np.arange(self.problem.horizon)
        taken = [self._checked(k, episode) for k, episode in enumerate(episodes)]
        for complete, (states, actions, rewards, utilities, thresholds) in taken:
            data["N"][h, states[:-1], actions] += 1.0
            last = h.size if complete else h.size - 1  # the state after the last step may be missing
            data["N_next"][h[:last], states[:last], actions[:last], states[1 : last + 1]] += 1.0
            data["sum_r"][h, states[:-1], actions] += rewards
            data["sum_d"][:, h, states[:-1], actions] += utilities
            if thresholds.size:
                data["alpha"][0] += thresholds.sum(axis=1)
                data["alpha"][1] += h.size

    def _checked(self, k: int, episode: Any) -> tuple[bool, tuple[Any, ...]]:
        """Whether the state after the last step is there, and the arrays."""
        if not isinstance(episode, Episode):
            raise ValidationError(f"episodes[{k}] is a {type(episode).__name__}; it must be an Episode")
        return len(np.atleast_1d(np.asarray(episode.states))) > self.problem.horizon, episode.checked(self.problem)

    def _thresholds(self) -> Float:
        total, count = self._arrays["alpha"]
        known = self.problem.thresholds
        return np.where(np.isnan(known), total / np.maximum(count, 1.0), known)

    def beliefs(self) -> Beliefs:
        """What the learner holds to be true of the policy it is about to play."""
        Q = self._evaluate(0.0)
        values = np.einsum("s,sa,jsa->j", self.problem.initial, self.policy[0], Q[:, 0])
        n = np.maximum(self._arrays["N"], 1.0)
        square = (2.0 * np.log(np.log(np.maximum(2.0 * n, math.e))) + self._log) / n
        return Beliefs(
            value=float(values[0]),
            utilities=values[1:],
            thresholds=self._thresholds(),
            margin=np.zeros(self.problem.constraints),
            widths=self._given["bonus_scale"] * 5.0 * square,
            visits=self._arrays["N"].copy(),
        )

    def _options(self) -> dict[str, Any]:
        return dict(self._given)

    def _state(self) -> Arrays:
        return self._arrays

    def _restore(self, state: Arrays) -> None:
        for name, array in self._arrays.items():
            if name not in state or state[name].shape != array.shape or not np.isfinite(state[name]).all():
                raise FileFormatError(f"{name} is missing, has another shape, or holds a number that is not finite")
            if name not in ("log_pi", "alpha") and (state[name] < 0.0).any():
                raise FileFormatError(f"{name} holds a negative number")
            array[:] = state[name]
