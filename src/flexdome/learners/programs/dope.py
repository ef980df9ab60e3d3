"""DOPE (Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland 2022): optimistic twice, pessimistic once.

In the paper's cost form, c = 1 - d and C = H - alpha. A policy pi_b with costs C_b < C is known. With n = max(N, 1),
L = log(2 S A H K / delta), gap = min_i (C_i - C_b,i) and the box of half-width

    beta_p(s') = sqrt(4 p^ (1 - p^) L / n) + (14/3) L / n,     beta-bar = sum_s' beta_p(s'),    beta_r = 2 sqrt(L / n)

    c-bar_i = c^_i + beta_r + H beta-bar                                   pessimistic
    r-bar   = r^ + (3 H / gap) beta_r + (H^2 / gap) beta-bar               optimistic
    (pi_k, p_k) = argmax over pi and p in the box of V_{r-bar}   subject to   V_{c-bar_i} <= C_i

and pi_b is played in the first K_0 episodes, and whenever the program has no solution. Claimed: regret of order
sqrt(K) / gap and no violation in any episode, with probability 1 - delta.

Reconstructed
-------------
The program is the paper's (through its readers' notes); the widths of unknown rewards and costs are those of a passage
in the authors' code, whose experiments know them (reveal them and beta_r is 0). K_0 is stated as of order
S^2 A H^4 / gap^2; the default here is the authors' S^2 A H^3 / gap^2 without logarithms, and an option. With several
constraints the smallest gap is taken. Thresholds are assumed known: where they are not, the mean of their samples is
used, and pi_b is played as long as that mean is not below its utility. Counts are for each step, also where the model
is stationary, and the true support of the transitions is not used: both differ from the authors' code. After the last
step no transition is counted, so that p^ = 0 there: beta-bar of the last step has no variance, but keeps its S terms
(14/3) L / n.

While pi_b is played, ``beliefs().value`` is its plug-in estimate, V_{r^} under p^ without a bonus (0 where nothing was
seen), and ``utilities`` are the known ones.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, as_int
from flexdome.learners.options import Tuning, checked, chosen, keep
from flexdome.learners.programs.family import Plan, SafeOrPlanned
from flexdome.learners.programs.oracle import extended_program
from flexdome.learners.programs.transition_sets import Estimates, around, bernstein
from flexdome.learners.safe_policy import as_safe_policy, safe_policy_values
from flexdome.theory.constants import LONGEST

__all__ = ["DOPE"]

PRACTICAL = {"bonus_scale": 1e-6}  # docs/tuning.md


class DOPE(SafeOrPlanned):
    """The program that is optimistic about reward and model and pessimistic about the costs.

    Parameters
    ----------
    safe_policy : the known policy and its utilities (:class:`flexdome.SafePolicy`)
    replan : when the program is solved: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's, and with less the guarantee is gone
    baseline_episodes : K_0; None is S^2 A H^3 / gap^2 (theory) or 0 (practical)
    """

    id: ClassVar[str] = "dope"
    baseline_episodes: int | None
    anew: ClassVar[bool] = True

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
        baseline_episodes: int | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        safe_policy = self.safe_policy = as_safe_policy(self.id, problem, safe_policy)
        numbers = chosen(tuning, {"bonus_scale": 1.0}, PRACTICAL, locals())
        if baseline_episodes is None and tuning == "practical":
            baseline_episodes = 0
        elif baseline_episodes is not None:
            baseline_episodes = as_int("baseline_episodes", baseline_episodes, 0, LONGEST)
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        S, A, H = problem.states, problem.actions, problem.horizon
        self._scale = numbers["bonus_scale"]
        self._log = math.log(2.0 * S * A * H * episodes / delta)

    def first_episodes(self, gap: float) -> float:
        """K_0."""
        if self.baseline_episodes is not None:
            return float(self.baseline_episodes)
        S, A, H = self.problem.states, self.problem.actions, self.problem.horizon
        return S**2 * A * H**3 / gap**2

    def _beta(self, est: Estimates) -> tuple[Float, Float]:
        """beta_r (1 + m, H, S, A), and beta_p (H, S, A, S)."""
        means = est.width(2.0 * np.sqrt(self._log / est.n_f))
        return self._scale * means, self._scale * bernstein(est, self._log)

    def _plan(self, episodes: int) -> Plan:
        """``carried`` says whether pi_b is played."""
        H, alpha, safe = self.problem.horizon, self.thresholds, self.safe_policy
        gap = float((safe.utilities - alpha).min())
        est = self._estimates()
        if gap > 0.0 and self.episode >= self.first_episodes(gap):
            means, moves = self._beta(est)
            total = moves.sum(axis=-1)
            f = np.concatenate([est.f[:1], -(est.costs + means[1:] + H * total)])
            f[0] += 3.0 * H / gap * means.max(axis=0) + H**2 / gap * total
            best = extended_program(around(est, moves), f, self.initial(), alpha - H, self._mask)
            if best.feasible:
                values = np.append(best.values[:1], H + best.values[1:])
                return Plan.single(self._policy_of(best.occupancy), best.multipliers, values, carried=False)
        values = safe_policy_values(safe, est, self.initial())
        return Plan.single(safe.policy.copy(), np.zeros(alpha.size), values, carried=True)

    def _widths(self) -> Float:
        means, moves = self._beta(self._estimates())
        width: Float = means.max(axis=0) + self.problem.horizon * moves.sum(axis=-1)
        return width
