"""OptPess-PrimalDual (Liu, Zhou, Kalathil, Kumar and Tian 2021): the ancestor of the decaying margin.

In every episode the policy is the exact optimum of an optimistic Lagrangian, and the multiplier is a queue that asks
for a margin eps_k more than the threshold:

    pi_k      = argmax_pi V_r^pi + sum_i (lam_{k,i} / eta_k) V_{d_i}^pi   on the optimistic empirical model
    lam_{k+1} = max(lam_k + alpha + eps_k - V_d^{pi_k}, 0)
    eta_k     = Xi H sqrt(k),   eps_k = c_e (log(k / delta') + 1) / sqrt(k log(k / delta'))

with c_e = 5 H^2 sqrt(S^3 A), delta' = delta / (16 S^2 A H), bonuses c_b sqrt(log(K / delta') / n) with
c_b = 1 + H sqrt(S), and truncation at H - h + 1. Claimed: *weak* regret of order sqrt(K), *weak* violation of order 1.
It needs the Slater gap Xi (there tau - c^0, the slack of a known safe policy), not the policy.

Reconstructed
-------------
From memory of the paper; all constants are unverified, and options: c_e (``margin_factor``), delta' (``event_delta``),
eta_k (``weight_scale``), and c_b, a guess of the right order (``bonus_factor``); of c_b the 1 is taken for the means'
part, which falls away where they are revealed, and the rest for the transitions'. Thresholds are assumed known in the
paper; ``threshold_estimate`` says what stands for one that is not.

**Order**: a plan is made after each episode, from all data; a state never visited is played uniformly, unless the
problem reveals something of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import as_float
from flexdome.errors import ValidationError
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, one_of, unvisited_rule
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.learners.primal_dual.kernels import first_plan
from flexdome.theory.constants import LEAST_DIVISOR
from flexdome.theory.schedules import LARGEST, LARGEST_SCALE, Power, Schedules

__all__ = ["OptPessPrimalDual"]

PRACTICAL = {"bonus_scale": 1e-4, "margin_scale": 1e-5, "weight_scale": 1.0}  # docs/tuning.md


@dataclass(frozen=True)
class QueueMargin:
    """``coefficient (log(t / delta) + 1) / sqrt(t log(t / delta))``."""

    vectorised: ClassVar[bool] = True
    coefficient: float
    delta: float

    def __call__(self, t: Any) -> Any:
        """The margin at t, a number or an array."""
        t = np.asarray(t, dtype=np.float64)
        log = np.log(t / self.delta)
        return self.coefficient * (log + 1.0) / np.sqrt(t * log)


class OptPessPrimalDual(PrimalDualLearner):
    """Optimistic planning, pessimistic queue.

    Parameters
    ----------
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale, margin_scale : 1 is the theory's
    weight_scale : multiplies 1 / eta_k, the weight of a queue in the Lagrangian
    bonus_factor : c_b, before its scale; None is 1 + H sqrt(S)
    margin_factor : c_e, before its scale; None is 5 H^2 sqrt(S^3 A)
    event_delta : delta', the confidence of a single event; None is delta / (16 S^2 A H)
    unvisited : what an action never tried is worth: its bonus (theory) or the most possible (practical)
    threshold_estimate : what stands for a threshold not known: the mean of all its samples (``"mean"``), or that
        of the last episode's (``"last"``)
    """

    id: ClassVar[str] = "optpess-pd"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        margin_scale: float | None = None,
        weight_scale: float | None = None,
        bonus_factor: float | None = None,
        margin_factor: float | None = None,
        event_delta: float | None = None,
        unvisited: Unvisited | None = None,
        threshold_estimate: Literal["mean", "last"] = "mean",
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        theory = {"bonus_scale": 1.0, "margin_scale": 1.0, "weight_scale": 1.0}
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        S, A, H = problem.states, problem.actions, problem.horizon
        constants = {
            "bonus_factor": 1.0 + H * math.sqrt(S) if bonus_factor is None else bonus_factor,
            "margin_factor": 5.0 * H**2 * math.sqrt(S**3 * A) if margin_factor is None else margin_factor,
            "event_delta": delta / (16.0 * S**2 * A * H) if event_delta is None else event_delta,
        }
        constants = {name: as_float(name, value, 0.0, LARGEST_SCALE) for name, value in constants.items()}
        each = constants["event_delta"]
        if not LEAST_DIVISOR**2 <= each < 1.0:
            raise ValidationError(
                f"event_delta is {each!r}; it must lie between 0 and 1, both excluded, and be at least "
                f"{LEAST_DIVISOR**2:g}"
            )
        c_b = constants["bonus_factor"]
        root = numbers["bonus_scale"] * c_b * math.sqrt(math.log(episodes / each))
        revealed = any(part is not None for part in (problem.rewards, problem.utilities, problem.transitions))
        # the 1 of c_b; where nothing is known they stay together
        of_means = root / c_b if revealed and c_b > 1.0 else root
        unvisited = unvisited_rule(tuning, unvisited)
        latest = one_of("threshold_estimate", threshold_estimate, ("mean", "last")) == "last"
        keep(self, {**locals(), **numbers, **constants})
        super().__init__(
            problem,
            episodes=episodes,
            seed=seed,
            schedules=Schedules(  # the plan made after episode t is for episode t + 1
                eta=Power(numbers["weight_scale"] / (problem.slater_gap * H), -0.5, shift=1.0),
                tau=0.0,
                margin=QueueMargin(numbers["margin_scale"] * constants["margin_factor"], each),
            ),
            bonus=(of_means, root - of_means, 0.0),
            dual_bound=LARGEST,
            optimistic=unvisited == "optimistic",
            greedy=True,
            latest=latest,
        )
        first_plan(self.model.core, self.settings, self._step, self._alpha)
