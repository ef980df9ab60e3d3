"""OPTAUG-CMDP (Müller, Alatur, Ramponi and He 2023): a dual method without cancellation of errors.

With the confidence set C and the optimistic means r~, d~ of :mod:`flexdome.learners.programs.optcmdp`, in utility form:

    (pi_k, p_k) = argmax over pi and p in C of
                  V_{r~} - (1 / 2 eta) sum_i [lam_i + eta (alpha_i - V_{d~_i})]_+^2           (augmented Lagrangian)
    lam_{k+1}   = [lam_k + eta (alpha - V_{d~}^{pi_k}(p_k))]_+

Claimed: *strong* regret and violation of order sqrt(K), from a known strictly safe policy.

Reconstructed
-------------
Only the abstract was at hand: the steps above are what "model-based, dual, motivated by the augmented Lagrangian
method" says, with OptDual-CMDP's estimates. Two properties are tested: as eta grows the plan tends to OptCMDP's, whose
constraint is hard; with eta = 0 in the quadratic term (linearised) the plan is OptDual's. Not verified: eta, which is
the option ``penalty`` (1 / Slater gap unless given); and what the safe policy is for. Here it is played in the first
sqrt(K) episodes, the longest such phase that leaves the claimed rates, so that the first optimistic programs have data
(``baseline_episodes``); ``beliefs().value`` is then its plug-in estimate, V_{r^} under p^ without a bonus (0 where
nothing was seen), and ``utilities`` are the known ones. Thresholds are assumed known: where they are not, the mean of
their samples is used.

Deviations
----------
With ``replan`` each plan is one step of the multipliers, however many episodes it is played for.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, as_int
from flexdome.errors import ValidationError
from flexdome.learners.base import Arrays
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, unvisited_rule
from flexdome.learners.programs.augmented import augmented_program
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.optcmdp import Confidence, OptimisticSet
from flexdome.learners.safe_policy import as_safe_policy, safe_policy_values
from flexdome.learners.state import LARGEST_SUM, StateReader
from flexdome.theory.constants import LONGEST

__all__ = ["OptAug"]

PRACTICAL = {"bonus_scale": 1e-4, "penalty": 10.0}  # docs/tuning.md


class OptAug(ProgramLearner):
    """The augmented Lagrangian over a confidence set.

    Parameters
    ----------
    safe_policy : the known policy and its utilities (:class:`flexdome.SafePolicy`)
    replan : when a step is made: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's
    penalty : eta; None is 1 / Slater gap
    baseline_episodes : how long the safe policy is played at first; None is sqrt(K) (theory) or 0 (practical)
    confidence : ``"bernstein"`` or ``"l1"``
    unvisited : what a cell never seen is worth: its bonus (theory) or the most possible (practical)
    """

    id: ClassVar[str] = "optaug"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        safe_policy: Any = None,
        replan: Any = "episode",
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        penalty: float | None = None,
        baseline_episodes: int | None = None,
        confidence: Confidence = "bernstein",
        unvisited: Unvisited | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        safe_policy = self.safe_policy = as_safe_policy(self.id, problem, safe_policy)
        theory = {"bonus_scale": 1.0, "penalty": 1.0 / problem.slater_gap}
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        if numbers["penalty"] <= 0.0:
            raise ValidationError(f"penalty is {numbers['penalty']!r}; it must be positive")
        if baseline_episodes is None:
            baseline_episodes = math.ceil(math.sqrt(episodes)) if tuning == "theory" else 0
        baseline_episodes = as_int("baseline_episodes", baseline_episodes, 0, LONGEST)
        unvisited = unvisited_rule(tuning, unvisited)
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._set = OptimisticSet(
            problem, episodes, delta, numbers["bonus_scale"], confidence, unvisited == "optimistic"
        )
        self._penalty, self._first = numbers["penalty"], baseline_episodes
        self._origin = np.zeros(problem.constraints)  # the multipliers of the next program

    def _plan(self, episodes: int) -> Plan:
        est, before = self._estimates(), self._carried
        if self.episode < self._first:
            safe = self.safe_policy
            values = safe_policy_values(safe, est, self.initial())
            return Plan.single(safe.policy.copy(), before.copy(), values, carried=before)
        best = augmented_program(
            self._set.transitions(est),
            self._set.means(est),
            self.initial(),
            before,
            self.thresholds,
            self._penalty,
            self._mask,
        )
        return Plan.single(self._policy_of(best.occupancy), before.copy(), best.values, carried=best.multipliers)

    def _notes(self) -> dict[str, float]:
        """Whether the known safe policy is played."""
        return {"baseline": float(self.planned_at < self._first)}

    def _widths(self) -> Float:
        return self._set.width(self._estimates())

    def _memory(self) -> Arrays:
        return {"lam": self._now.carried}

    def _recall(self, reader: StateReader) -> Float:
        return reader.take("own_lam", (self.problem.constraints,), 0.0, LARGEST_SUM)
