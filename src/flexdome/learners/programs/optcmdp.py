"""OptCMDP (Efroni, Mannor and Pirotta 2020): the optimistic program over every model of a confidence set.

In utility form, with n = max(N, 1), L_p = log(6 S A H K / delta) and L = 2 log(6 S A H (m + 1) K / delta):

    C(s, a) = {q : |q(s') - p^(s')| <= 2 sqrt(p^ (1 - p^) L_p / n) + (14/3) L_p / n for every s'}
    (pi_k, p_k) = argmax over pi and p in C of V_{r^ + sqrt(L/n)}   subject to   V_{d^_i + sqrt(L/n)} >= alpha_i

As a linear program this has S^2 A H variables; here it is solved by column generation whose pricing problem is extended
value iteration (:mod:`flexdome.learners.programs.oracle`), and the tests hold it to the linear program. Claimed:
*strong* regret and violation of order sqrt(K).

Reconstructed
-------------
The program and the transitions' widths are the paper's (through its readers' notes); the constants of sqrt(L / n) are
not verified. Thresholds are assumed known in the paper: where they are not, the mean of their samples is used. Where
the program has no solution the policy of largest slack is played; where the plan never comes, the policy is uniform.

Deviations
----------
``confidence="l1"`` takes the L1 ball of radius sqrt(14 S L_p / n) instead of the box. ``bonus_scale`` scales all
widths; a cell that was never seen may always lead anywhere, and with ``unvisited="optimistic"`` its reward and its
utilities are 1 at least, or its bonus where that is more: with a small scale its own bonus makes it worthless.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, one_of
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, unvisited_rule
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.oracle import extended_program
from flexdome.learners.programs.transition_sets import Estimates, TransitionSet, around, bernstein, l1_ball

__all__ = ["Confidence", "OptCMDP", "OptimisticSet"]

PRACTICAL = {"bonus_scale": 0.0}  # docs/tuning.md
Confidence = Literal["bernstein", "l1"]


class OptimisticSet:
    """The confidence set and the optimistic means that OptCMDP, OptDual-CMDP and OPTAUG-CMDP share."""

    def __init__(
        self,
        problem: Problem,
        episodes: int,
        delta: float,
        scale: float,
        confidence: str,
        optimistic: bool,
    ) -> None:
        confidence = one_of("confidence", confidence, ("bernstein", "l1"))
        S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
        self.scale, self.ball, self.optimistic = scale, confidence == "l1", optimistic
        self.log_p = math.log(6.0 * S * A * H * episodes / delta)
        self.log = 2.0 * math.log(6.0 * S * A * H * (m + 1) * episodes / delta)

    def means(self, est: Estimates) -> Float:
        """(1 + m, H, S, A) optimistic rewards and utilities."""
        means = est.f + self.scale * est.width(np.sqrt(self.log / est.n_f))
        return np.where(est.unsampled, np.maximum(means, 1.0), means) if self.optimistic else means

    def transitions(self, est: Estimates) -> TransitionSet:
        """The models that are possible."""
        if self.ball:
            return l1_ball(est, self.log_p, self.scale)
        return around(est, self.scale * bernstein(est, self.log_p))

    def width(self, est: Estimates) -> Float:
        """(H, S, A): how far a mean, and with it H times the transitions, may be off."""
        H = est.n.shape[0]
        moves = np.minimum(self.scale * bernstein(est, self.log_p).sum(axis=-1), 2.0)
        width: Float = self.scale * est.width(np.sqrt(self.log / est.n_f)).max(axis=0) + H * moves
        return width


class OptCMDP(ProgramLearner):
    """The program over a confidence set.

    Parameters
    ----------
    replan : when the program is solved: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's
    confidence : ``"bernstein"`` (as published) or ``"l1"``
    unvisited : what a cell never seen is worth: its bonus (theory) or the most possible (practical)
    """

    id: ClassVar[str] = "optcmdp"
    anew: ClassVar[bool] = True

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
        confidence: Confidence = "bernstein",
        unvisited: Unvisited | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        numbers = chosen(tuning, {"bonus_scale": 1.0}, PRACTICAL, locals())
        unvisited = unvisited_rule(tuning, unvisited)
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._set = OptimisticSet(
            problem, episodes, delta, numbers["bonus_scale"], confidence, unvisited == "optimistic"
        )

    def _plan(self, episodes: int) -> Plan:
        est = self._estimates()
        best = extended_program(
            self._set.transitions(est), self._set.means(est), self.initial(), self.thresholds, self._mask
        )
        return Plan.single(self._policy_of(best.occupancy), best.multipliers, best.values)

    def _widths(self) -> Float:
        return self._set.width(self._estimates())
