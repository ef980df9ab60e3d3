"""OMDPD (Zhu, Yu, Lee, Liu and Wei 2025): optimistic mirror descent on an exponential penalty.

Costs are c_i = alpha_i / H - d_i, so that c_i . q = alpha_i - V_{d_i} must not be positive. r~ and c~_i are optimistic
(r^ + beta, c^_i - beta), Q_k the occupancies of the confidence set, both as in :mod:`flexdome.learners.optcmdp`. With
the potential Phi(x) = exp(beta x) - 1 and a scale a,

    f_k(q)     = a (-r~ . q + sum_i Phi'(lam_i) [c~_i . q]_+),       G_k = a gradient of f_k at q_k
    q^_{k+1}   = argmin_{q in Q} eta G_k . q + KL(q || q^_k)                    from what was met
    lam_{k+1}  = lam_k + a [c~_k . q_k]_+
    q_{k+1}    = argmin_{q in Q} eta M_{k+1} . q + KL(q || q^_{k+1})            from what is expected
    eta        = sqrt(H log(S A)) / sqrt(1 + sum_{j <= k} max |G_j - M_j|^2)

with M_{k+1} the gradient of f_{k+1}, made with the new estimates and lam_{k+1}, at q^_{k+1}. Claimed: *strong*
violation, and regret, of order sqrt(K) with neither Slater's condition nor a safe policy, for adversarial costs too.

Reconstructed
-------------
From two summaries of the paper that agree: surrogate, potential, the two steps, lam's step, an eta that adapts to the
variation of gradients. Ours: the divergence (KL; the summaries name none), the form of eta, M, the index of lam's step,
``scale`` a = 1 / (2 H) and ``growth`` beta = 1 / (2 sqrt(K)), by analogy with constrained online convex optimisation.
Tested: lam never falls, the penalty's weight is the potential's derivative, and the potential bounds the violation,
Phi'(lam) = beta (Phi(lam) + 1). Thresholds are assumed known: where they are not, the mean of their samples is used.

Deviations
----------
Nothing in these steps but the estimates depends on what was played. With ``replan`` the n steps of n episodes are made
with the estimates there are, in at most ``inner_steps`` steps of equal weight. A step that would change odds by more
than exp(30) is shortened to that.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, as_int
from flexdome.errors import ValidationError
from flexdome.learners.base import Arrays
from flexdome.learners.confidence import TransitionSet, estimates
from flexdome.learners.optcmdp import OptimisticSet, Unvisited, as_option
from flexdome.learners.program_learner import Plan, ProgramLearner, policy_of
from flexdome.learners.projection import Occupancy, first_occupancy, project
from flexdome.learners.records import LARGEST_SUM, StateReader
from flexdome.learners.tuning import Tuning, checked, chosen, untried

__all__ = ["OMDPD"]

PRACTICAL = {"bonus_scale": 1e-3, "scale": 1.0, "growth": 0.01}  # docs/tuning.md
LEAST = 1e-250
STEEPEST = 30.0  # beta lam above which the exponential is not followed
PART = 10.0  # exponent of one projection
LONGEST = 30.0  # exponent of one step: odds that change by more than exp(30) make a best response already


class OMDPD(ProgramLearner):
    """Optimistic mirror descent on the occupancies of a confidence set.

    Parameters
    ----------
    replan : when the estimates are renewed: ``"episode"`` (as published), ``"doubling"``, a factor, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's
    scale, growth : a and beta
    inner_steps : in how many steps at most those of several episodes are made
    unvisited : what a cell never seen is worth: its bonus (theory) or the most possible (practical)
    """

    id: ClassVar[str] = "omdpd"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        replan: Any = "episode",
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        scale: float | None = None,
        growth: float | None = None,
        inner_steps: int = 10,
        unvisited: Unvisited | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
        theory = {"bonus_scale": 1.0, "scale": 1.0 / (2.0 * H), "growth": 1.0 / (2.0 * math.sqrt(episodes))}
        numbers = chosen(tuning, theory, PRACTICAL, {"bonus_scale": bonus_scale, "scale": scale, "growth": growth})
        for name in ("scale", "growth"):
            if numbers[name] <= 0.0:
                raise ValidationError(f"{name} is {numbers[name]!r}; it must be positive")
        self._inner = as_int("inner_steps", inner_steps, 1, 10**6)
        optimistic = untried(tuning, unvisited, "optimistic")
        given = {"delta": delta, "tuning": tuning, **numbers, "inner_steps": self._inner, **as_option(optimistic)}
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan, given=given)
        self._set = OptimisticSet(problem, episodes, delta, numbers["bonus_scale"], "bernstein", optimistic)
        self._a, self._beta = numbers["scale"], numbers["growth"]
        self._radius = math.sqrt(H * math.log(max(S * A, 2)))
        self._hat = first_occupancy(H, S, A, problem.initial)  # q^
        self._x = self._hat.x  # q
        self._lam = np.zeros(m)
        self._met = np.zeros((H, S, A))  # G_k
        self._expected = np.zeros((H, S, A))  # M_k
        self._excess = np.zeros(m)  # [c~_k . q_k]_+
        self._variation = np.zeros(1)  # sum |G - M|^2
        self._begin()

    def weight(self) -> Float:
        """(m,) Phi'(lam), what a unit of violation costs against a unit of reward."""
        growing: Float = self._beta * np.exp(np.minimum(self._beta * self._lam, STEEPEST))
        return growing

    def _plan(self, episodes: int) -> Plan:
        est = estimates(self.problem, self.records)
        transitions, f = self._set.transitions(est), self._set.means(est)
        costs = self.thresholds[:, None, None, None] / self.problem.horizon - f[1:]
        if episodes > 0 or self.episode > 0:
            steps = max(min(episodes, self._inner), 1)
            for _ in range(steps):
                self._advance(transitions, f[0], costs, episodes / steps)
        self._excess = np.maximum(np.einsum("ihsa,hsa->i", costs, self._x), 0.0)
        self._met = self._gradient(f[0], costs, self._x)
        values = np.einsum("jhsa,hsa->j", f, self._x)
        return Plan.single(policy_of(self._x), self.weight(), values)

    def _gradient(self, r: Float, costs: Float, x: Float) -> Float:
        """a (-r~ + sum over violated i of Phi'(lam_i) c~_i)."""
        violated = np.einsum("ihsa,hsa->i", costs, x) > 0.0
        slope: Float = self._a * (-r + np.einsum("i,ihsa->hsa", self.weight() * violated, costs))
        return slope

    def _advance(self, transitions: TransitionSet, r: Float, costs: Float, episodes: float) -> None:
        """The two steps, for so many episodes at once."""
        self._variation = self._variation + episodes * float(np.abs(self._met - self._expected).max()) ** 2
        eta = self._radius / math.sqrt(1.0 + float(self._variation[0]))
        self._hat = self._moved(transitions, self._hat, episodes * eta * self._met)
        self._lam = self._lam + episodes * self._a * self._excess
        self._expected = self._gradient(r, costs, self._hat.x)
        self._x = self._moved(transitions, self._hat, eta * self._expected).x
        self._excess = np.maximum(np.einsum("ihsa,hsa->i", costs, self._x), 0.0)
        self._met = self._gradient(r, costs, self._x)

    def _moved(self, transitions: TransitionSet, q: Occupancy, step: Float) -> Occupancy:
        """argmin step . q' + KL(q' || q), in parts where the exponent is large."""
        size = float(np.ptp(step))
        step = step * min(1.0, LONGEST / max(size, LONGEST))
        parts = max(math.ceil(min(size, LONGEST) / PART), 1)
        for _ in range(parts):
            log_x = np.log(np.maximum(q.x, LEAST)) - (step - step.mean()) / parts
            q = project(transitions, log_x, q.p, self.problem.initial)
        return q

    def _widths(self) -> Float:
        return self._set.width(estimates(self.problem, self.records))

    def _memory(self) -> Arrays:
        return {
            "hat_x": self._hat.x,
            "hat_p": self._hat.p,
            "x": self._x,
            "lam": self._lam,
            "met": self._met,
            "expected": self._expected,
            "excess": self._excess,
            "variation": self._variation,
        }

    def _recall(self, reader: StateReader) -> None:
        shape, m = self._x.shape, self.problem.constraints
        x = reader.take("own_hat_x", shape, 0.0, 2.0)
        self._hat = Occupancy(x, reader.rows("own_hat_p", (*shape, shape[1])), np.zeros(0))
        self._x = reader.take("own_x", shape, 0.0, 2.0)
        self._lam = reader.take("own_lam", (m,), 0.0, LARGEST_SUM)
        self._met = reader.take("own_met", shape, -LARGEST_SUM, LARGEST_SUM)
        self._expected = reader.take("own_expected", shape, -LARGEST_SUM, LARGEST_SUM)
        self._excess = reader.take("own_excess", (m,), 0.0, LARGEST_SUM)
        self._variation = reader.take("own_variation", (1,), 0.0, LARGEST_SUM)
