"""FlexDOME (Algorithm 1 of Zuo, Wang and He 2026).

Primal-dual mirror ascent on an optimistic empirical model, with entropy and l2 regularisation of weight tau_t and a
safety margin eps_t that both decay. In episode t, with N the visits before it, delta' = delta / 4 and

    phi_r = c_b sqrt(L_r / max(N, 1)),   L_r = (1/2) log(2 S A H (m + 1) T / delta')
    phi_p = c_b H sqrt(L_p / max(N, 1)), L_p = 2 S + 2 log(S A H T / delta')
    r-bar = r^ + phi_r + phi_p,  d-bar_i = d^_i + phi_r + phi_p,  psi-bar = -log pi_t + phi_p log A,  p-bar = p^

the truncated evaluation of Algorithm 2 gives Q_r, Q_{d_i} <= H - h + 1 and Q_psi <= -log pi_t + (H - h + 1) log A, and

    pi_{t+1}  ~  pi_t exp(eta_t (Q_r + sum_i lam_i Q_{d_i} + tau_t Q_psi))
    lam_{t+1} =  Proj_[0, 4H/Xi] ((1 - eta_t tau_t) lam_t - eta_t (V_d - eps_t - alpha-bar_t))

with eta_t = t^(-5/6), tau_t = t^(-1/6), eps_t = c_e (18/5) sqrt(H^3 C_B) t^(-1/6) log(4 S A H t / delta)^(1/4). The
steps are :mod:`flexdome.learners.primal_dual.family`'s; this file is the choices.

Where the paper is loose
------------------------
* alpha-bar of the first episode is 0/0 in the paper; here 0 (no sample, denominator 1).
* p-bar of a row never visited is zero, so an action never tried is worth its bonus alone: with c_b = 1e-3, nothing.
  ``unvisited="optimistic"`` gives it the largest value possible, in planning and in the dual step alike.
* Rewards, utilities and transitions are learned in the paper. Those that a problem reveals are taken as they are: phi_r
  is 0 for a known mean, phi_p and the entropy's bonus are 0 for known transitions, visited or not.
* Where a problem forbids actions, a policy is one over those that are allowed, log A is the logarithm of the largest
  number allowed in a state, and the entropy of a state is that over its own.
* Whether c_b scales the entropy's bonus is not said; here it does, unless ``scale_entropy_bonus=False``.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_int, shown
from flexdome.errors import ValidationError
from flexdome.learners.options import Unvisited, chosen, keep, switch
from flexdome.learners.primal_dual.family import PrimalDualLearner, bonus_of
from flexdome.theory import Schedules, theorem1
from flexdome.theory.constants import LONGEST, as_confidence

__all__ = ["FlexDOME"]

SCALES = ("bonus_scale", "margin_scale", "step_scale", "regularisation_scale")
TUNINGS: dict[str, tuple[tuple[float, float, float, float], Unvisited]] = {  # the scales, unvisited
    "stated": ((1e-3, 1e-5, 1.0, 1.0), "paper"),
    "theory": ((1.0, 1.0, 1.0, 1.0), "paper"),
    "practical": ((0.0, 1e-6, 10.0, 0.1), "optimistic"),  # docs/tuning.md
    "safe": ((0.0, 1.5e-5, 30.0, 0.3), "optimistic"),
}


class FlexDOME(PrimalDualLearner):
    """Near-constant strong violation, sublinear strong regret.

    Parameters
    ----------
    problem : what may be known
    episodes : T, for the logarithms of the bonuses; running past it is allowed
    delta : confidence
    bonus_scale : c_b; 1 is the theory's, 1e-3 the paper's experiments' and the default
    margin_scale : c_e; 1 is the theory's, 1e-5 the paper's experiments' and the default
    seed : recorded; FlexDOME draws no random numbers of its own
    schedules : eta_t, tau_t and margin; None is Theorem 1
    margin : False switches the safety margin off (an ablation)
    regularisation : False sets tau_t = 0 (an ablation)
    step_scale : of eta_t of Theorem 1; 1 is the theory's, the paper's experiments' and the default. Not for
        ``schedules`` of your own
    regularisation_scale : of tau_t of Theorem 1, likewise
    tuning : ``"stated"``, the paper's experiments; ``"theory"``, scales of 1; ``"safe"``, scales and ``unvisited`` with
        the least regret among those without late violation on development instances; or ``"practical"``, scales and
        ``unvisited`` as one sweep chose them for every learner alike (docs/tuning.md). An option that is given wins
    unvisited : what an action never tried is worth: its bonus (``"paper"``) or the most possible (``"optimistic"``)
    scale_entropy_bonus : whether c_b scales the entropy's bonus too
    dual_bound : side of the dual box; None is 4 H / Slater gap

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("paper-v1")
    >>> learner = fd.FlexDOME(cmdp.problem(), episodes=2000, margin_scale=5e-5)
    >>> history = fd.simulate(learner, cmdp)
    >>> bool(history.strong_violation[-1] < 1.0)
    True
    """

    id: ClassVar[str] = "flexdome"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        bonus_scale: float | None = None,
        margin_scale: float | None = None,
        seed: int = 0,
        *,
        tuning: Literal["stated", "theory", "practical", "safe"] = "stated",
        schedules: Schedules | None = None,
        margin: bool = True,
        regularisation: bool = True,
        step_scale: float | None = None,
        regularisation_scale: float | None = None,
        unvisited: Unvisited | None = None,
        scale_entropy_bonus: bool = True,
        dual_bound: float | None = None,
    ) -> None:
        episodes, delta = as_int("episodes", episodes, 1, LONGEST), as_confidence(delta)
        if not isinstance(tuning, str) or tuning not in TUNINGS:
            raise ValidationError(f"tuning is {shown(tuning)}; it must be one of {', '.join(TUNINGS)}")
        defaults, unvisited_default = TUNINGS[tuning]
        scales = chosen("theory", dict(zip(SCALES, defaults, strict=True)), {}, locals())
        unvisited = unvisited_default if unvisited is None else unvisited
        margin, regularisation = switch("margin", margin), switch("regularisation", regularisation)
        scale_entropy_bonus = switch("scale_entropy_bonus", scale_entropy_bonus)
        if not isinstance(unvisited, str) or unvisited not in ("paper", "optimistic"):
            raise ValidationError(f"unvisited is {shown(unvisited)}; it must be 'paper' or 'optimistic'")
        if not isinstance(schedules, Schedules | None):
            raise ValidationError(f"schedules is {shown(schedules)}; it must be a Schedules or None")
        as_problem(problem)
        keep(self, {**locals(), **scales})
        H = problem.horizon
        bonus = bonus_of(problem, episodes, delta, scales.pop("bonus_scale"), scale_entropy_bonus)
        steps = theorem1(problem, delta, **scales) if schedules is None else schedules
        if not margin:
            steps = Schedules(steps.eta, steps.tau, 0.0)
        if not regularisation:
            steps = Schedules(steps.eta, 0.0, steps.margin)
        super().__init__(
            problem,
            episodes=episodes,
            seed=seed,
            schedules=steps,
            bonus=bonus,
            optimistic=unvisited == "optimistic",
            dual_bound=4.0 * H / problem.slater_gap if dual_bound is None else dual_bound,
        )
        self.own_schedules = schedules is not None
