"""OptPess-LP (Liu, Zhou, Kalathil, Kumar and Tian 2021): never unsafe, from a policy that is known to be safe.

In the paper's cost form, c = 1 - d and tau = H - alpha. A policy pi0 with costs c0 < tau is known. With n = max(N, 1),
Z = log(16 S^2 A H K / delta), beta = sqrt(Z / n) and gap = min_i (tau_i - c0_i):

    r-bar   = r^ + (1 + S H + 4 H (1 + S H) / gap) beta       optimistic
    c-bar_i = c^_i + (1 + S H) beta                           pessimistic

Play pi0 while V_{c-bar_i}^{pi0} >= (tau_i + c0_i) / 2 for some i; after that

    pi_k = argmax V_{r-bar}   subject to   V_{c-bar_i} <= tau_i,     both under p^

for which pi0 is feasible. Nothing is truncated. Claimed: regret of order sqrt(K) / gap and no violation in any episode,
with probability 1 - delta.

Reconstructed
-------------
Formulas from two independent sets of readers' notes that agree; the paper has one constraint, and with several the
smallest gap and the first rule for any of them are taken. Thresholds are assumed known in the paper: where they are
not, the mean of their samples is used, and pi0 is played as long as that mean is not below its utility. Where the
problem reveals rewards, utilities and transitions the widths are 0, as the analysis would have it.

While pi0 is played, ``beliefs()`` tells what the first rule looked at: ``value`` is the plug-in estimate, V_{r^} under
p^ without a bonus (0 where nothing was seen), and ``utilities`` are the pessimistic H - V_{c-bar_i}.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float
from flexdome.learners.options import Tuning, checked, chosen, keep
from flexdome.learners.programs.family import Plan, SafeOrPlanned
from flexdome.learners.programs.oracle import known_program
from flexdome.learners.programs.transition_sets import Estimates
from flexdome.learners.safe_policy import as_safe_policy
from flexdome.planning.evaluation import evaluate_batch

__all__ = ["OptPessLP"]

PRACTICAL = {"bonus_scale": 0.0}  # docs/tuning.md


class OptPessLP(SafeOrPlanned):
    """The program that is optimistic about the reward and pessimistic about the costs.

    Parameters
    ----------
    safe_policy : the known policy and its utilities (:class:`flexdome.SafePolicy`)
    replan : when the program is solved: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of beta; 1 is the theory's, and with less the guarantee is gone
    """

    id: ClassVar[str] = "optpess-lp"
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
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        safe_policy = self.safe_policy = as_safe_policy(self.id, problem, safe_policy)
        numbers = chosen(tuning, {"bonus_scale": 1.0}, PRACTICAL, locals())
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        S, A, H = problem.states, problem.actions, problem.horizon
        self._root = numbers["bonus_scale"] * math.sqrt(math.log(16.0 * S**2 * A * H * episodes / delta))

    def _beta(self, est: Estimates) -> tuple[Float, Float]:
        """(1 + m, H, S, A) the part for the means, and (H, S, A) that for the transitions."""
        beta = self._root / np.sqrt(est.n)
        means = est.width(self._root / np.sqrt(est.n_f))
        return means, np.zeros_like(beta) if est.known_p else beta

    def _plan(self, episodes: int) -> Plan:
        """``carried`` says whether pi0 is played."""
        H, S, mu = self.problem.horizon, self.problem.states, self.initial()
        alpha, safe = self.thresholds, self.safe_policy
        gap = float((safe.utilities - alpha).min())
        est = self._estimates()
        means, transitions = self._beta(est)
        cost = est.costs + means[1:] + S * H * transitions
        f = np.concatenate([est.f[:1], -cost])  # V_c <= tau is V_{-c} >= -tau
        of_safe = evaluate_batch(Model(est.p, NO_SUCCESSORS, f, mu), safe.policy[None])[0]
        tau, c0 = H - alpha, H - safe.utilities
        if gap > 0.0 and (-of_safe[1:] < 0.5 * (tau + c0)).all():
            most = np.maximum(means.max(axis=0), transitions)
            f[0] += means[0] + S * H * transitions + 4.0 * H * (1.0 + S * H) / gap * most
            best = known_program(est.p, f, mu, -tau, self._mask)
            if best.feasible:  # unless by rounding: pi0 itself is feasible
                values = np.append(best.values[:1], H + best.values[1:])
                return Plan.single(self._policy_of(best.occupancy), best.multipliers, values, carried=False)
        values = np.append(of_safe[:1], H + of_safe[1:])
        return Plan.single(safe.policy.copy(), np.zeros(alpha.size), values, carried=True)

    def _widths(self) -> Float:
        H, S = self.problem.horizon, self.problem.states
        means, transitions = self._beta(self._estimates())
        width: Float = means[1:].max(axis=0) + S * H * transitions
        return width
