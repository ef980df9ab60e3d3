"""Are (5/6, 1/6, 1/6) the best exponents? A sweep, measured.

The paper says that the exponents of eta_t, tau_t and eps_t are "necessary conditions" and "represent the optimal
balance achievable within this framework". Here eta_t = t^(-a), tau_t = t^(-b), eps_t = c t^(-b), on several instances:
strong regret and strong violation of each pair (a, b). A margin that decays otherwise than the weight ends either
above or below what it has to cover, tau_t lambda*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from flexdome.analysis import near_constant
from flexdome.cmdp.model import CMDP
from flexdome.learners.primal_dual.flexdome import FlexDOME
from flexdome.simulation import simulate
from flexdome.theory.schedules import Power, Schedules

__all__ = ["ETA", "TAU", "ExponentRow", "sweep_exponents"]

ETA = tuple(Fraction(x) for x in ("1/3", "1/2", "2/3", "5/6", "1"))
TAU = tuple(Fraction(x) for x in ("1/12", "1/6", "1/4", "1/3", "1/2"))


@dataclass(frozen=True)
class ExponentRow:
    """One pair of exponents: means and medians over the instances, and in how many the violation is near-constant."""

    eta: Fraction
    tau: Fraction
    regret: float
    regret_error: float
    violation: float
    violation_error: float
    regret_median: float
    violation_median: float
    flat: int
    instances: int


def sweep_exponents(
    make: Callable[[int], CMDP],
    seeds: Sequence[int],
    episodes: int,
    coefficient: float = 2.0,
    etas: Sequence[Fraction] = ETA,
    taus: Sequence[Fraction] = TAU,
) -> list[ExponentRow]:
    """Every pair on every instance; ``coefficient`` is c, twice lambda* in the paper's environment."""
    rows = []
    for a in etas:
        for b in taus:
            schedules = Schedules(Power(1.0, -float(a)), Power(1.0, -float(b)), Power(coefficient, -float(b)))
            found = []
            for seed in seeds:
                cmdp = make(seed)
                learner = FlexDOME(cmdp.problem(), episodes=episodes, schedules=schedules)
                history = simulate(learner, cmdp, seed=seed)
                curve = history.strong_violation
                late = float(curve[-1] - curve[max(episodes // 10 - 1, 0)])
                flat = near_constant(float(curve[-1]), late, None)
                found.append((float(history.strong_regret[-1]), float(curve[-1]), flat))
            regret, violation, flats = np.array(found).T
            root = np.sqrt(max(len(seeds), 1))
            error = [float(x.std(ddof=1) / root) if len(seeds) > 1 else float("nan") for x in (regret, violation)]
            medians = float(np.median(regret)), float(np.median(violation))
            means = float(regret.mean()), error[0], float(violation.mean()), error[1]
            rows.append(ExponentRow(a, b, *means, *medians, int(flats.sum()), len(seeds)))
    return rows
