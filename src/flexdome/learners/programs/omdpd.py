"""OMDPD (Zhu, Yu, Lee, Liu and Wei 2025): optimistic mirror descent on an exponential penalty.

Costs are c_i = alpha_i / H - d_i, so that c_i . q = alpha_i - V_{d_i} must not be positive. r~ and c~_i are optimistic
(r^ + beta, c^_i - beta), Q_k the occupancies of the confidence set, both as in
:mod:`flexdome.learners.programs.optcmdp`. With the potential Phi(x) = exp(beta x) - 1 and a scale a,

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
with the estimates there are, in at most ``inner_steps`` steps of equal weight. Each step is one exact projection; q^_k
counts as at least 1e-30 in every cell, and a step whose exponents differ by more than 10,000 is scaled down to that
(:func:`flexdome.learners.programs.projection.mirror_step`). Phi' is followed up to beta lam = 30 (``STEEPEST``), 1e13
times its first value, and stays there: more could not be told from a best response. That needs a summed violation of
30 / (a beta), 120 H sqrt(K) in the theory and 3,000 in practical tuning, far above what the method is meant to allow; a
run in which ``multipliers`` stands at beta exp(30) is one in which it has failed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, as_int
from flexdome.learners.base import Arrays
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, unvisited_rule
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.loop_free import check_constants
from flexdome.learners.programs.optcmdp import OptimisticSet
from flexdome.learners.programs.projection import Occupancy, first_occupancy, mirror_step
from flexdome.learners.programs.transition_sets import TransitionSet
from flexdome.learners.state import LARGEST_SUM, StateReader

__all__ = ["OMDPD"]

PRACTICAL = {"bonus_scale": 1e-3, "scale": 1.0, "growth": 0.01}  # docs/tuning.md
STEEPEST = 30.0  # beta lam above which the exponential is not followed


@dataclass(frozen=True)
class Carried:
    """What the next step starts from.

    Attributes
    ----------
    hat, x : q^_k, and the (H, S, A) of q_k
    lam, excess : (m,) lam_k and [c~_k . q_k]_+
    met, expected : (H, S, A) G_k and M_k
    variation : sum of max |G - M|^2
    """

    hat: Occupancy
    x: Float
    lam: Float
    excess: Float
    met: Float
    expected: Float
    variation: float


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
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        check_constants(numbers, ("scale", "growth"))
        self._inner = inner_steps = as_int("inner_steps", inner_steps, 1, 10**6)
        unvisited = unvisited_rule(tuning, unvisited)
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._set = OptimisticSet(
            problem, episodes, delta, numbers["bonus_scale"], "bernstein", unvisited == "optimistic"
        )
        self._a, self._beta = numbers["scale"], numbers["growth"]
        self._radius = math.sqrt(H * math.log(max(S * A, 2)))
        first, none = first_occupancy(H, S, A, problem.initial, problem.allowed), np.zeros((H, S, A))
        self._origin = Carried(first, first.x, np.zeros(m), np.zeros(m), none, none, 0.0)

    def weight(self) -> Float:
        """(m,) Phi'(lam), what a unit of violation costs against a unit of reward."""
        return self._slope_of(self._now.carried.lam)

    def _slope_of(self, lam: Float) -> Float:
        growing: Float = self._beta * np.exp(np.minimum(self._beta * lam, STEEPEST))
        return growing

    def _plan(self, episodes: int) -> Plan:
        est = self._estimates()
        transitions, f = self._set.transitions(est), self._set.means(est)
        costs = self.thresholds[:, None, None, None] / self.problem.horizon - f[1:]
        carried = self._carried
        if self.episode > 0:
            steps = max(min(episodes, self._inner), 1)
            for _ in range(steps):
                carried = self._advanced(carried, transitions, f[0], costs, episodes / steps)
        carried = self._met_by(carried, f[0], costs)
        values = np.einsum("jhsa,hsa->j", f, carried.x)
        return Plan.single(self._policy_of(carried.x), self._slope_of(carried.lam), values, carried)

    def _gradient(self, lam: Float, r: Float, costs: Float, x: Float) -> Float:
        """a (-r~ + sum over violated i of Phi'(lam_i) c~_i)."""
        violated = np.einsum("ihsa,hsa->i", costs, x) > 0.0
        slope: Float = self._a * (-r + np.einsum("i,ihsa->hsa", self._slope_of(lam) * violated, costs))
        return np.where(self._mask, slope, 0.0) if self._mask.size else slope

    def _met_by(self, carried: Carried, r: Float, costs: Float) -> Carried:
        """[c~_k . q_k]_+ and G_k."""
        excess = np.maximum(np.einsum("ihsa,hsa->i", costs, carried.x), 0.0)
        return replace(carried, excess=excess, met=self._gradient(carried.lam, r, costs, carried.x))

    def _advanced(
        self, carried: Carried, transitions: TransitionSet, r: Float, costs: Float, episodes: float
    ) -> Carried:
        """The two steps, for so many episodes at once."""
        mu, allowed = self.initial(), self.problem.allowed
        variation = carried.variation + episodes * float(np.abs(carried.met - carried.expected).max()) ** 2
        eta = self._radius / math.sqrt(1.0 + variation)
        hat = mirror_step(transitions, carried.hat, episodes * eta * carried.met, mu, allowed=allowed)
        lam = carried.lam + episodes * self._a * carried.excess
        expected = self._gradient(lam, r, costs, hat.x)
        x = mirror_step(transitions, hat, eta * expected, mu, allowed=allowed).x
        moved = replace(carried, hat=hat, x=x, lam=lam, expected=expected, variation=variation)
        return self._met_by(moved, r, costs)

    def _widths(self) -> Float:
        return self._set.width(self._estimates())

    def _memory(self) -> Arrays:
        carried = self._now.carried
        return {
            "hat_x": carried.hat.x,
            "hat_p": carried.hat.p,
            "x": carried.x,
            "lam": carried.lam,
            "met": carried.met,
            "expected": carried.expected,
            "excess": carried.excess,
            "variation": np.array([carried.variation]),
        }

    def _recall(self, reader: StateReader) -> Carried:
        shape, m = self._origin.x.shape, self.problem.constraints
        hat_x = reader.take("own_hat_x", shape, 0.0, 2.0)
        hat_p = reader.rows("own_hat_p", (*shape, shape[1]))
        return Carried(
            hat=Occupancy(hat_x, hat_p, np.zeros(0)),
            x=reader.take("own_x", shape, 0.0, 2.0),
            lam=reader.take("own_lam", (m,), 0.0, LARGEST_SUM),
            excess=reader.take("own_excess", (m,), 0.0, LARGEST_SUM),
            met=reader.take("own_met", shape, -LARGEST_SUM, LARGEST_SUM),
            expected=reader.take("own_expected", shape, -LARGEST_SUM, LARGEST_SUM),
            variation=float(reader.take("own_variation", (1,), 0.0, LARGEST_SUM)[0]),
        )
