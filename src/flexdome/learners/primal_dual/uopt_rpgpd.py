"""UOpt-RPGPD (Kitamura et al. 2024): regularised policy gradient primal-dual with a uniform-PAC bonus.

As the authors' notebook runs it, with n the visits before the episode and k = 0, 1, ...:

    eta_k = (k + 3)^(-0.53),  tau_k = (k + 3)^(-0.4)
    phi   = sqrt((2 log log max(2n, e) + 2 log(48 S^2 A H / delta)) / n)
    bonus = phi sum_s' sqrt(p^(s')) + 5 phi^2, added to reward and utilities; p^ is uniform where n = 0
    Q_r regularised by entropy and truncated at (1 + tau_k log A)(H - h + 1), Q_d truncated at H - h + 1
    pi_{k+1}  ~ pi_k^(1 - eta_k tau_k) exp(eta_k (Q_r + sum_i lam_i Q_{d_i}))
    lam_{k+1} = max(lam_k + eta_k (alpha - V_d - tau_k lam_k), 0),  V_d: Q_d of pi_k weighed with pi_{k+1}

**Order**: an episode's own data count in the step that follows it.

Claimed: uniform PAC, strong regret and violation of order T^(6/7).

Reconstructed and corrected
---------------------------
The paper's text was not at hand; the notebook was. Two slips of it are corrected, unless ``notebook_slips`` asks for
them: it averages the entropy with weight pi^2 instead of pi, and adds a spurious entropy after the last step,

    V_h(s)     = sum_a pi_h(a|s) Q_h(s, a) - tau sum_a pi_h(a|s)^2 log pi_h(a|s)
    V_{H+1}(s) = -tau sum_a pi_H(a|s)^2 log pi_H(a|s)

so that the transition after the last step matters, which is otherwise not counted: the bonus of a tried action of the
last step is then 5 phi^2 alone. An action never tried has the bonus of a uniform p^ at every step, the last included:
phi sqrt(S) + 5 phi^2. Rewards and utilities are known in the notebook and estimated here, unless the problem reveals
them: with ``cmdp.problem(reveal=("rewards", "utilities"))`` the setting is the notebook's. All of the bonus is the
transitions'.

Not verified, and options: the exponents that the theorem asks for (``exponent_eta``, ``exponent_tau``; the defaults are
the notebook's), a factor H of the bonus, which the notebook's does not have and the theory's surely has
(``bonus_horizon``), and a bound on the multipliers, which the notebook does not have and the paper may (``dual_bound``,
of the order H / Slater gap). Thresholds are assumed known in the paper; ``threshold_estimate`` says what stands for one
that is not.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from flexdome.cmdp import Problem
from flexdome.errors import ValidationError
from flexdome.learners.options import Tuning, checked, chosen, keep, one_of, switch
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.theory.schedules import LARGEST, Power, Schedules

__all__ = ["UOptRPGPD"]

PRACTICAL = {"bonus_scale": 3e-3, "exponent_eta": 0.53, "exponent_tau": 0.4}  # docs/tuning.md


class UOptRPGPD(PrimalDualLearner):
    """Decaying regularisation, no margin, no bound on the multipliers.

    Parameters
    ----------
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : 1 is the theory's, 1e-3 the notebook's
    exponent_eta : of the step size
    exponent_tau : of the regularisation
    notebook_slips : repeat the two slips of the notebook; episodes must then have the state after the last step
    bonus_horizon : whether the bonus has a factor H
    dual_bound : largest multiplier; None is none
    threshold_estimate : what stands for a threshold not known: the mean of all its samples (``"mean"``), or that
        of the last episode's (``"last"``)
    """

    id: ClassVar[str] = "uopt-rpgpd"
    runner: ClassVar[str] = PrimalDualLearner.runner  # checked_episode only refuses

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        exponent_eta: float | None = None,
        exponent_tau: float | None = None,
        notebook_slips: bool = False,
        bonus_horizon: bool = False,
        dual_bound: float | None = None,
        threshold_estimate: Literal["mean", "last"] = "mean",
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        theory = {"bonus_scale": 1.0, "exponent_eta": 0.53, "exponent_tau": 0.4}
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        notebook_slips, bonus_horizon = switch("notebook_slips", notebook_slips), switch("bonus_horizon", bonus_horizon)
        latest = one_of("threshold_estimate", threshold_estimate, ("mean", "last")) == "last"
        keep(self, {**locals(), **numbers})
        S, A, H = problem.states, problem.actions, problem.horizon
        scale = numbers["bonus_scale"] * (H if bonus_horizon else 1.0)
        super().__init__(
            problem,
            episodes=episodes,
            seed=seed,
            schedules=Schedules(  # k = t - 1, so k + 3 = t + 2
                eta=Power(1.0, -numbers["exponent_eta"], shift=2.0),
                tau=Power(1.0, -numbers["exponent_tau"], shift=2.0),
            ),
            bonus=(scale, 2.0 * math.log(48.0 * S**2 * A * H / delta), 0.0),
            dual_bound=LARGEST if dual_bound is None else dual_bound,
            anytime=True,
            even=True,
            joint=True,
            next_policy=True,
            data_first=True,
            slips=notebook_slips,
            latest=latest,
        )

    def checked_episode(self, episode: Any) -> tuple[Any, ...]:
        """The arrays of one episode; the notebook's slips need the state after the last step."""
        data = super().checked_episode(episode)
        H = self.problem.horizon
        if self.settings.form.slips and np.shape(episode.states) != (H + 1,):
            raise ValidationError(
                f"states has length {H}; with notebook_slips it must be {H + 1}, with the state after the last step"
            )
        return data
