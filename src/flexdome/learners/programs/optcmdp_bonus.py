"""OptCMDP-bonus (Efroni, Mannor and Pirotta 2020): the optimistic occupancy program of the empirical model.

In utility form, with n = max(N, 1), L_p = log(6 S A H K / delta) and L = 2 log(6 S A H (m + 1) K / delta):

    beta_p(s') = 2 sqrt(p^ (1 - p^) L_p / n) + (14/3) L_p / n
    b          = sqrt(L / n) + H sum_s' beta_p(s')
    pi_k       = argmax V_{r^ + b}   subject to   V_{d^_i + b} >= alpha_i,    both under p^

and nothing is truncated. Claimed: *strong* regret and violation of order sqrt(K), with a larger term of lower order
than :mod:`flexdome.learners.programs.optcmdp`.

Reconstructed
-------------
The program and the transitions' part of the bonus are the paper's (through its readers' notes); the constants of
sqrt(L / n) are not verified. The papers assume known thresholds: where they are not, the mean of their samples is used.
Where the optimistic program has no solution (which has small probability with the theory's constants, but not with
others) the policy of largest slack is played. Where p^ never comes, the policy is uniform. After the last step no
transition is counted, so that p^ = 0 there: the bonus of the last step has no variance term, but it keeps the sum over
S of the other, H S (14/3) L_p / n, to the letter of the formula. Where transitions are revealed that part is 0.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, unvisited_rule
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.oracle import known_program
from flexdome.learners.programs.transition_sets import Estimates, bernstein

__all__ = ["OptCMDPBonus"]

PRACTICAL = {"bonus_scale": 0.0}  # docs/tuning.md


class OptCMDPBonus(ProgramLearner):
    """The occupancy program with bonuses.

    Parameters
    ----------
    replan : when the program is solved: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : 1 is the theory's
    unvisited : what a cell never seen is worth: its bonus (theory) or the most possible, H - h + 1 (practical)
    """

    id: ClassVar[str] = "optcmdp-bonus"
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
        unvisited: Unvisited | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
        numbers = chosen(tuning, {"bonus_scale": 1.0}, PRACTICAL, locals())
        unvisited = unvisited_rule(tuning, unvisited)
        self._optimistic = unvisited == "optimistic"
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._scale = numbers["bonus_scale"]
        self._log_p = math.log(6.0 * S * A * H * episodes / delta)
        self._log = 2.0 * math.log(6.0 * S * A * H * (m + 1) * episodes / delta)

    def _bonus(self, est: Estimates) -> Float:
        """(1 + m, H, S, A)."""
        transitions = self.problem.horizon * bernstein(est, self._log_p).sum(axis=-1)
        bonus: Float = self._scale * (est.width(np.sqrt(self._log / est.n_f)) + transitions)
        return bonus

    def _plan(self, episodes: int) -> Plan:
        est = self._estimates()
        f = est.f + self._bonus(est)
        if self._optimistic:
            remaining = np.arange(self.problem.horizon, 0, -1.0)[:, None, None]
            f = np.where(est.unsampled, np.maximum(f, remaining), f)
        best = known_program(est.p, f, self.initial(), self.thresholds, self._mask)
        return Plan.single(self._policy_of(best.occupancy), best.multipliers, best.values)

    def _widths(self) -> Float:
        widest: Float = self._bonus(self._estimates()).max(axis=0)
        return widest
