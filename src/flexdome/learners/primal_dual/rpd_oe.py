"""RPD-OE: regularised primal-dual with optimistic exploration (Müller, Alatur, Cevher, Ramponi and He 2024).

FlexDOME's ancestor: the same optimistic model, truncated evaluation, entropy and l2 regularisation, with *constant*
step size and regularisation and no safety margin:

    eta = K^(-a),  tau = K^(-b),  dual box [0, 4 H / Xi]

Claimed: strong regret and strong violation of order K^0.93.

Reconstructed
-------------
The paper's text was not at hand. That eta and tau are constant is said by Zuo et al. 2026; the bonus is theirs, taken
for comparison like for like. Not verified, and options: the exponents a and b (``exponent_eta``, ``exponent_tau``), the
dual box (``dual_bound``) and whether c_b scales the entropy's bonus (``scale_entropy_bonus``). The default a = 3/4, b =
1/8 minimises the largest of the four error terms of Zuo et al.'s analysis with constant schedules. Thresholds are
assumed known in the paper; ``threshold_estimate`` says what stands for one that is not.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from flexdome.cmdp import Problem
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, one_of, switch, unvisited_rule
from flexdome.learners.primal_dual.family import PrimalDualLearner, bonus_of
from flexdome.theory import Schedules

__all__ = ["RPDOE"]

PRACTICAL = {"bonus_scale": 0.0, "exponent_eta": 0.3, "exponent_tau": 0.3}  # docs/tuning.md


class RPDOE(PrimalDualLearner):
    """Constant regularisation, no margin.

    Parameters
    ----------
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : 1 is the theory's
    exponent_eta, exponent_tau : a and b of eta = K^(-a), tau = K^(-b)
    scale_entropy_bonus : whether bonus_scale is for the entropy's bonus too
    dual_bound : side of the dual box; None is 4 H / Slater gap
    unvisited : what an action never tried is worth: its bonus (theory) or the most possible (practical)
    threshold_estimate : what stands for a threshold not known: the mean of all its samples (``"mean"``), or that
        of the last episode's (``"last"``)
    """

    id: ClassVar[str] = "rpd-oe"

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
        scale_entropy_bonus: bool = True,
        dual_bound: float | None = None,
        unvisited: Unvisited | None = None,
        threshold_estimate: Literal["mean", "last"] = "mean",
    ) -> None:
        theory = {"bonus_scale": 1.0, "exponent_eta": 0.75, "exponent_tau": 0.125}
        episodes, delta = checked(problem, episodes, delta)
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        unvisited = unvisited_rule(tuning, unvisited)
        scale_entropy_bonus = switch("scale_entropy_bonus", scale_entropy_bonus)
        latest = one_of("threshold_estimate", threshold_estimate, ("mean", "last")) == "last"
        keep(self, {**locals(), **numbers})
        H = problem.horizon
        bonus = bonus_of(problem, episodes, delta, numbers["bonus_scale"], scale_entropy_bonus)
        super().__init__(
            problem,
            episodes=episodes,
            seed=seed,
            schedules=Schedules(
                eta=float(episodes) ** -numbers["exponent_eta"], tau=float(episodes) ** -numbers["exponent_tau"]
            ),
            bonus=bonus,
            optimistic=unvisited == "optimistic",
            dual_bound=4.0 * H / problem.slater_gap if dual_bound is None else dual_bound,
            latest=latest,
        )
