"""OptPrimalDual-CMDP (Efroni, Mannor and Pirotta 2020, Algorithm 4): the paper's "Vanilla PD".

No regularisation, no margin. In utility form, with n the visits before the episode, K the number of episodes,
L_p = log(6 S A H K / delta) and L = c log(6 S A H (m + 1) K / delta), c = 2:

    beta_p(s') = 2 sqrt(p^ (1 - p^) L_p / n) + (14/3) L_p / n
    bonus      = sqrt(L / n) + H sum_s' beta_p(s'),   r-bar = r^ + bonus,  d-bar = d^ + bonus
    pi_{k+1}   ~ pi_k exp(t_K (Q_r + sum_i lam_i Q_{d_i})),    t_K = sqrt(2 log A / (H^2 (1 + m rho)^2 K))
    lam_{k+1}  = Proj_[0, rho] (lam_k - (1 / t_lam) (V_d - alpha)),  t_lam = sqrt(H^2 m K / rho^2)

with truncated evaluation at H - h + 1. Claimed: *weak* regret and violation of order sqrt(K). The multipliers and the
policy of a run oscillate; the guarantee is for the mixture.

Reconstructed
-------------
Steps and truncation are from the paper's listing. Not verified, and options: the constants c = 2 and 6 of L, the bonus
of the rewards (``reward_bonus_factor``, ``reward_bonus_size``); rho, for which H / Slater gap is taken
(``dual_bound``); that V_d of the dual step is that of pi_k (``dual_policy``: the listing prints a leftover of another
algorithm there, and the notebook of Kitamura et al. 2024 weighs Q_d of pi_k with pi_{k+1}). Thresholds are assumed
known in the paper; ``threshold_estimate`` says what stands for one that is not. No transition is counted after the last
step, so the bonus of that step has no variance term, 2 sqrt(p^ (1 - p^) L_p / n); its (14/3) L_p / n is kept, summed
over all S successors as at every step.

With the theory's constants the policy moves by about 1e-4 an episode at K = 80,000.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import as_float
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, one_of, unvisited_rule
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.learners.seen.counts import most_actions
from flexdome.theory import Schedules
from flexdome.theory.schedules import LARGEST_SCALE

__all__ = ["OptPrimalDual"]

PRACTICAL = {"bonus_scale": 1e-5, "policy_step": 0.03, "dual_step": 100.0}  # docs/tuning.md


class OptPrimalDual(PrimalDualLearner):
    """The unregularised primal-dual method.

    Parameters
    ----------
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : 1 is the theory's
    policy_step, dual_step : t_K and 1 / t_lam
    dual_bound : rho; None is H / Slater gap
    dual_policy : whose actions weigh Q_d of pi_k in the dual step: pi_k's (``"current"``) or pi_{k+1}'s (``"next"``)
    reward_bonus_factor, reward_bonus_size : c and k of L = c log(k S A H (m + 1) K / delta); c = 0 is no bonus for the
        estimated rewards and utilities, as if they were known
    unvisited : what an action never tried is worth: its bonus (theory) or the most possible (practical)
    threshold_estimate : what stands for a threshold not known: the mean of all its samples (``"mean"``), or that
        of the last episode's (``"last"``)
    """

    id: ClassVar[str] = "optprimaldual"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        policy_step: float | None = None,
        dual_step: float | None = None,
        dual_bound: float | None = None,
        dual_policy: Literal["current", "next"] = "current",
        reward_bonus_factor: float = 2.0,
        reward_bonus_size: float = 6.0,
        unvisited: Unvisited | None = None,
        threshold_estimate: Literal["mean", "last"] = "mean",
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
        rho = H / problem.slater_gap if dual_bound is None else as_float("dual_bound", dual_bound, 0.0, LARGEST_SCALE)
        theory = {
            "bonus_scale": 1.0,
            "policy_step": math.sqrt(2.0 * math.log(most_actions(problem)) / (H**2 * (1.0 + m * rho) ** 2 * episodes)),
            "dual_step": rho / math.sqrt(H**2 * m * episodes),
        }
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        L_p = math.log(6.0 * S * A * H * episodes / delta)
        reward_bonus_factor = as_float("reward_bonus_factor", reward_bonus_factor, 0.0, LARGEST_SCALE)
        reward_bonus_size = as_float("reward_bonus_size", reward_bonus_size, 1.0, LARGEST_SCALE)
        L = reward_bonus_factor * math.log(reward_bonus_size * S * A * H * (m + 1) * episodes / delta)
        following = one_of("dual_policy", dual_policy, ("current", "next")) == "next"
        latest = one_of("threshold_estimate", threshold_estimate, ("mean", "last")) == "last"
        unvisited = unvisited_rule(tuning, unvisited)
        keep(self, {**locals(), **numbers})
        scale = numbers["bonus_scale"]
        super().__init__(
            problem,
            episodes=episodes,
            seed=seed,
            schedules=Schedules(eta=numbers["policy_step"], tau=0.0),
            bonus=(scale * math.sqrt(L), scale * 2.0 * H * math.sqrt(L_p), 0.0, scale * H * S * 14.0 / 3.0 * L_p),
            dual_bound=rho,
            variance=True,
            optimistic=unvisited == "optimistic",
            dual_step=numbers["dual_step"],
            next_policy=following,
            latest=latest,
        )
