"""OptDual-CMDP (Efroni, Mannor and Pirotta 2020, Algorithm 3): a dual step, and extended value iteration.

With the confidence set C and the optimistic means r~, d~ of :mod:`flexdome.learners.programs.optcmdp`, in utility form,
lam = 0 at first and t_lam = sqrt(H^2 m K / rho^2):

    (pi_k, p_k) = argmax over pi and p in C of V_{r~} + sum_i lam_i (V_{d~_i} - alpha_i)       (one extended pass)
    lam_{k+1}   = [lam_k + (1 / t_lam) (alpha - V_{d~}^{pi_k}(p_k))]_+                         (no upper bound)

Claimed: *weak* regret and violation of order sqrt(K). Its policies are deterministic and swing about the optimum.

Reconstructed
-------------
The steps are those of the paper's listing. Not verified: the constants of sqrt(L / n), and rho, for which
H / Slater gap is taken. Thresholds are assumed known: where they are not, the mean of their samples is used.

Deviations
----------
``replan`` says when the confidence set is made anew. The dual step and the pass are made in every episode all the same,
with the set there is: a step for many episodes at once would be a leap.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, as_float
from flexdome.errors import ValidationError
from flexdome.learners.base import Arrays
from flexdome.learners.options import Tuning, Unvisited, checked, chosen, keep, unvisited_rule
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.optcmdp import Confidence, OptimisticSet
from flexdome.learners.programs.oracle import ExtendedOracle
from flexdome.learners.programs.transition_sets import TransitionSet
from flexdome.learners.state import LARGEST_SUM, StateReader
from flexdome.planning.evaluation import deterministic_policy
from flexdome.theory.schedules import LARGEST_SCALE

__all__ = ["OptDual"]

PRACTICAL = {"bonus_scale": 1e-2, "dual_step": 0.1}  # docs/tuning.md


class Carried(NamedTuple):
    """The multipliers, and the confidence set of the last plan as an oracle."""

    lam: Float
    oracle: ExtendedOracle


class OptDual(ProgramLearner):
    """The dual method over a confidence set.

    Parameters
    ----------
    replan : when the confidence set is renewed: ``"episode"`` (as published), ``"doubling"``, a factor, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's
    dual_step : 1 / t_lam
    dual_bound : rho, which only the theory's dual step uses; None is H / Slater gap
    confidence : ``"bernstein"`` (as published) or ``"l1"``
    unvisited : what a cell never seen is worth: its bonus (theory) or the most possible (practical)
    """

    id: ClassVar[str] = "optdual"
    every_episode: ClassVar[bool] = True

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        replan: Any = "episode",
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        dual_step: float | None = None,
        dual_bound: float | None = None,
        confidence: Confidence = "bernstein",
        unvisited: Unvisited | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        H, m = problem.horizon, problem.constraints
        if dual_bound is None:
            dual_bound = H / problem.slater_gap
        else:
            dual_bound = as_float("dual_bound", dual_bound, 0.0, LARGEST_SCALE)
        theory = {"bonus_scale": 1.0, "dual_step": dual_bound / math.sqrt(H**2 * m * episodes)}
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        unvisited = unvisited_rule(tuning, unvisited)
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._set = OptimisticSet(
            problem, episodes, delta, numbers["bonus_scale"], confidence, unvisited == "optimistic"
        )
        self._dual_step = numbers["dual_step"]

    def _respond(self, carried: Carried) -> Plan:
        """Line 1: the best policy and model for the multipliers."""
        none = np.zeros((0, 0, 0))
        carried.oracle.model = carried.oracle.model._replace(mu=self.initial())
        actions, values = carried.oracle.respond(np.append(1.0, carried.lam), self._mask, none)
        return Plan.single(deterministic_policy(actions, self.problem.actions), carried.lam.copy(), values, carried)

    def _moved(self) -> Float:
        """Line 2: the multipliers, from what the plan held its utilities to be."""
        lam: Float = np.maximum(self._carried.lam + self._dual_step * (self.thresholds - self._now.values[1:]), 0.0)
        return lam

    def _plan(self, episodes: int) -> Plan:
        lam = np.zeros(self.problem.constraints) if self._present is None else self._carried.lam
        if episodes > 0:
            lam = self._moved()
        est = self._estimates()
        oracle = ExtendedOracle(self._set.transitions(est), self._set.means(est), self.initial(), self._mask)
        return self._respond(Carried(lam, oracle))

    def _step(self) -> Plan:
        return self._respond(Carried(self._moved(), self._carried.oracle))

    def _widths(self) -> Float:
        return self._set.width(self._estimates())

    def _memory(self) -> Arrays:
        carried: Carried = self._now.carried
        lo, up, spare, radius = carried.oracle.transitions.arrays
        return {"lam": carried.lam, "lo": lo, "up": up, "spare": spare, "radius": radius, "f": carried.oracle.model.f}

    def _recall(self, reader: StateReader) -> Carried:
        S, cells = self.problem.states, (self.problem.horizon, self.problem.states, self.problem.actions)
        m, rows = self.problem.constraints, math.prod(cells)
        lam = reader.take("own_lam", (m,), 0.0, LARGEST_SUM)
        shapes = {"lo": (rows, S), "up": (rows, S), "spare": (rows,)}
        lo, up, spare = (reader.take(f"own_{name}", shape, -1e-9, 1.0) for name, shape in shapes.items())
        radius = reader.take("own_radius", (rows if self._set.ball else 0,), 0.0, 2.0)
        if (lo > up).any():
            raise ValidationError("state.own_lo exceeds state.own_up")
        f = reader.take("own_f", (1 + m, *cells), 0.0, LARGEST_SUM)
        return Carried(lam, ExtendedOracle(TransitionSet(lo, up, spare, radius), f, self.problem.initial, self._mask))
