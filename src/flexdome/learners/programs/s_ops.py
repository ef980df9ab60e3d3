"""S-OPS (Stradi, Castiglioni, Marchesi and Gatti 2025): safe in every episode, by mixing with a known safe policy.

As :mod:`flexdome.learners.programs.sv_ops`, in the paper's cost form, with a known policy pi<> of costs beta < tau. The
policy of an episode is drawn: pi<> with probability lam_{t-1}, pi^_t otherwise. With

    w_i   = min{(g^_i + xi) . u^_{t+1}, H},   u^_{t+1} the largest occupancies of pi^_{t+1} in any model of the set
    lam_t = max over {i : w_i > tau_i} of (w_i - tau_i) / (w_i - beta_i), or 0
    lam_0 = max_i (H - tau_i) / (H - beta_i)

the *mixture* costs at most lam beta + (1 - lam) w <= tau with high probability; lam_t = 1 where no occupancy of the set
is optimistically safe. Claimed: regret of order sqrt(T) / min_i (tau_i - beta_i) and no violation in any episode.

``learner.mixture`` is (lam, 1 - lam) and (pi<>, pi^); ``learner.policy`` is the one drawn for the next episode, with
numbers that depend on the learner's seed and the episode alone. Histories evaluate the mixture; the diagnostics
``drawn_value`` and ``drawn_utilities`` are those of the policies that were drawn.

Reconstructed
-------------
The steps are a later paper's restatement. Its u_t, for the loss estimates, is the largest occupancy of the mixture;
here it is the mixture of the largest occupancies, which is as large or larger. Thresholds are assumed known: where they
are not, the mean of their samples is used, and lam = 1 while that mean is not below the utility of pi<>.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.learners.options import Tuning
from flexdome.learners.programs.family import Plan
from flexdome.learners.programs.loop_free import occupancy_bound
from flexdome.learners.programs.sv_ops import SVOPS, Carried
from flexdome.learners.programs.transition_sets import Estimates, TransitionSet
from flexdome.learners.safe_policy import as_safe_policy

__all__ = ["SOPS"]


class SOPS(SVOPS):
    """Mirror descent mixed with a known safe policy.

    Parameters
    ----------
    safe_policy : the known policy and its utilities (:class:`flexdome.SafePolicy`)
    replan : when a step is made: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's, and with less the guarantee is gone
    step_size, exploration : eta and gamma
    """

    id: ClassVar[str] = "s-ops"
    own_randomness: ClassVar[bool] = True

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
        step_size: float | None = None,
        exploration: float | None = None,
    ) -> None:
        self.safe_policy = as_safe_policy(self.id, problem, safe_policy)
        constants = {"bonus_scale": bonus_scale, "step_size": step_size, "exploration": exploration}
        super().__init__(problem, episodes, delta, seed, replan=replan, tuning=tuning, **constants)

    def _played_from(self, est: Estimates, transitions: TransitionSet, carried: Carried) -> Plan:
        H, mu, known = self.problem.horizon, self.initial(), self.safe_policy
        pi = self._policy_of(carried.q.x)
        bound = occupancy_bound(transitions, mu, pi)
        costs = est.costs + self._set.xi(est)[1:]
        w = np.minimum(np.einsum("ihsa,hsa->i", costs, bound), float(H))
        if self.episode == 0:
            w = np.full_like(w, float(H))  # lam_0
        weight = mixing(w, H - self.thresholds, H - known.utilities) if carried.safe else 1.0
        upper = weight * occupancy_bound(transitions, mu, known.policy) + (1.0 - weight) * bound
        values = self._values(est, carried.q.x)
        values[1:] = weight * known.utilities + (1.0 - weight) * values[1:]
        weights = np.array([weight, 1.0 - weight])
        carried = replace(carried, upper=upper, weight=weight)
        return Plan(np.stack([known.policy, pi]), weights, carried.lam.copy(), values, carried)

    def _notes(self) -> dict[str, float]:
        """With what probability the known safe policy is played, and whether an occupancy was optimistically safe."""
        return {"baseline": self._now.carried.weight, **super()._notes()}


def mixing(w: Float, tau: Float, beta: Float) -> float:
    """lam_t; 1 where the known policy is not safe."""
    if (beta >= tau).any():
        return 1.0
    over = w > tau
    return float(((w - tau) / (w - beta))[over].max()) if over.any() else 0.0
