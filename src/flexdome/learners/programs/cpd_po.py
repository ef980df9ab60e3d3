"""CPD-PO (Stradi, Castiglioni, Marchesi and Gatti 2025): policy optimisation with a binary dual.

Loss l = 1 - r and costs g = 1 - d, with the sets of :mod:`flexdome.learners.programs.loop_free` and L = H. In episode
t:

    lam_i   = Lambda if even the least cost of pi_t in the set, with g^ - xi, exceeds tau_i = H - alpha_i, else 0
    loss    = (l + sum_i lam_i g_i) / (1 + m Lambda)                           what policy optimisation is fed
    q-up, q-low = the largest and least occupancies of pi_t in any model of the set
    Q^(s, a) = 1{visited} (loss from here to the end of the episode) / (q-up + gamma)
    b(s)     = sum_a pi_t(a|s) (3 gamma L + L (q-up - q-low)) / (q-up + gamma)
    B(s, a)  = b(s) + (1 + 1/L) max over the set of E[B(s', a')]               dilated bonus
    pi_{t+1}(a|s) ~ exp(-eta sum_{j <= t} (Q^_j - B_j))

gamma = 2 eta L and eta = min{1 / (24 L^3), 1 / sqrt(H S A T)}. There are only dynamic programs, no optimisation over
occupancies. Claimed: *strong* regret and violation of order sqrt(T); needs the exact Slater gap.

Reconstructed
-------------
From reviews: the inner method is that of Luo, Wei and Lee 2021 on a Lagrangian loss, the dual is binary and like an
upper confidence bound, Slater's gap enters exactly. The rest is ours. Maximising lam (cost - tau) over [0, Lambda]
gives 0 or Lambda. Lambda must exceed H / Slater gap: then (Lambda - H / gap) times the violation is bounded by the
inner method's regret. The factor 2 (``dual_scale``) and the inner constants are from memory. Confidence sets are
renewed with every plan rather than in epochs. Thresholds are assumed known: where they are not, the mean of their
samples is used. Tested: the multiplier is 0 or Lambda, by the rule above; the steps agree with a slow twin.

Deviations
----------
With ``replan`` a step is made from the summed loss estimates of all episodes since the last one, and as many bonuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.learners.base import Arrays
from flexdome.learners.options import Tuning, checked, chosen, keep
from flexdome.learners.programs.extended_kernels import extended_values
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.loop_free import LoopFreeSet, check_constants, occupancy_bound, optimistic_value
from flexdome.learners.state import LARGEST_SUM, StateReader

__all__ = ["CPDPO"]

PRACTICAL = {"bonus_scale": 1e-3, "step_size": 1e-2, "exploration": 1e-2, "dual_scale": 2.0}  # docs/tuning.md


@dataclass(frozen=True)
class Carried:
    """What the next step starts from, each (H, S, A): the sum of Q^ - B, and q-up and B of what is played."""

    score: Float
    upper: Float
    bonus: Float


class CPDPO(ProgramLearner):
    """Policy optimisation with dilated bonuses and a binary dual.

    Parameters
    ----------
    replan : when a step is made: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's
    step_size, exploration : eta and gamma
    dual_scale : Lambda is this times H / Slater gap
    """

    id: ClassVar[str] = "cpd-po"
    gaps: ClassVar[bool] = False  # it weighs what whole episodes brought

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
        step_size: float | None = None,
        exploration: float | None = None,
        dual_scale: float | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        S, A, H = problem.states, problem.actions, problem.horizon
        eta = min(1.0 / (24.0 * H**3), 1.0 / math.sqrt(H * S * A * episodes))
        theory = {"bonus_scale": 1.0, "step_size": eta, "exploration": 2.0 * eta * H, "dual_scale": 2.0}
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        check_constants(numbers, ("exploration",))
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._set = LoopFreeSet(problem, episodes, delta, numbers["bonus_scale"])
        self._eta, self._gamma = numbers["step_size"], numbers["exploration"]
        self.dual_bound = numbers["dual_scale"] * H / problem.slater_gap  # Lambda
        self._origin = Carried(np.zeros((H, S, A)), np.ones((H, S, A)), np.zeros((H, S, A)))

    def _plan(self, episodes: int) -> Plan:
        carried = self._carried
        score = carried.score
        if episodes > 0:
            score = score + (self._losses() / (carried.upper + self._gamma) - episodes * carried.bonus)
        logits = -self._eta * score
        if self._mask.size:
            logits[~self._mask] = -np.inf
        logits -= logits.max(axis=-1, keepdims=True)
        pi = np.exp(logits)
        pi /= pi.sum(axis=-1, keepdims=True)

        est = self._estimates()
        transitions, mu = self._set.transitions(est), self.initial()
        values = np.array([optimistic_value(transitions, mu, pi, g) for g in self._set.optimistic(est)])
        lam = np.where(values[1:] < self.thresholds, self.dual_bound, 0.0)
        upper, lower = (occupancy_bound(transitions, mu, pi, sign) for sign in (1.0, -1.0))
        carried = Carried(score, upper, self._dilated(transitions.arrays, pi, upper, lower))
        return Plan.single(pi, lam, values, carried)

    def _losses(self) -> Float:
        """(H, S, A): the Lagrangian loss from each visited cell on, summed over the episodes since the last plan."""
        H, m = self.problem.horizon, self.problem.constraints
        lam, since = self._now.multipliers, self.since
        remaining = np.arange(H, 0, -1.0)[:, None, None] * since.new_visits
        to_go = remaining - since.new_returns
        losses: Float = (to_go[0] + np.einsum("i,ihsa->hsa", lam, to_go[1:])) / (1.0 + m * self.dual_bound)
        return losses

    def _dilated(self, transitions: tuple[Float, Float, Float, Float], pi: Float, upper: Float, lower: Float) -> Float:
        """B (H, S, A)."""
        H, S, _ = pi.shape
        share = (3.0 * self._gamma * H + H * (upper - lower)) / (upper + self._gamma)
        b = np.repeat((pi * share).sum(axis=-1, keepdims=True), pi.shape[2], axis=2)
        B = np.zeros_like(pi)
        extended_values(*transitions, b, pi, 1.0, 1.0 + 1.0 / H, B, np.zeros((H + 1, S)))
        return B

    def _widths(self) -> Float:
        return self._set.width(self._estimates())

    def _memory(self) -> Arrays:
        carried = self._now.carried
        return {"score": carried.score, "upper": carried.upper, "bonus": carried.bonus}

    def _recall(self, reader: StateReader) -> Carried:
        shape = self._origin.score.shape
        score = reader.take("own_score", shape, -LARGEST_SUM, LARGEST_SUM)
        upper = reader.take("own_upper", shape, -1e-9, 2.0)
        return Carried(score, upper, reader.take("own_bonus", shape, -LARGEST_SUM, LARGEST_SUM))
