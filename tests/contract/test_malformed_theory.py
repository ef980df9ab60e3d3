"""Every formula of ``fd.theory``, with one argument at a time replaced by what it should not be."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome import audit, theory
from malformed import Call, listed, policy, told, world

TOLD = {"Coefficients", "EstimationBounds", "LastIterateTerms", "MarginParts", "MirrorStep", "Potential",
        "PotentialPath", "RegretTerms", "ValueDifference", "ViolationTerms"}  # made, never read  # fmt: skip
ELSEWHERE = {"Schedules", "bonus_logs", "burn_in", "error_constant", "margin_coefficient", "theorem1", "theorem2"}


@cache
def point() -> Any:
    return fd.saddle_point(world(), 0.1)


def formulas() -> dict[str, Call]:
    problem, cmdp = told(), world()
    path = np.array([0.5, 0.4, 0.3])
    here = {"problem": problem, "delta": 0.1}
    planned = {**here, "episodes": 10, "planned": 100}
    log = {**here, "log_planned": 20.0}
    moved = {"problem": problem, "tau": (0.5, 0.4), "margin": (0.1, 0.09), "multipliers": np.array([0.5, 0.5])}
    own = fd.Schedules(eta=0.1, tau=0.1, margin=0.0)
    run = fd.iterate(cmdp, own, 3, snapshots=(1, 3))
    calls = {
        "burn_in_episode": Call(theory.burn_in_episode, {**here, "margin_scale": 1e-3}),
        "coefficients": Call(theory.coefficients, {"problem": problem, "eta": 0.1, "tau": 0.1}),
        "composite_bound": Call(theory.composite_bound, {"problem": problem, "tau": 0.1}),
        "contraction": Call(theory.contraction, {"phi": 1.0, "eta": 0.1, "tau": 0.1, "error": 0.1, "delta": 0.0}),
        "convergence_bound": Call(
            theory.convergence_bound, {"phi": 1.0, "eta": path, "tau": path, "error": path, "delta": path}
        ),
        "corrected_error_constant": Call(theory.corrected_error_constant, {"problem": problem, "tau": 1.0}),
        "discrepancy_bound": Call(theory.discrepancy_bound, planned),
        "discrepancy_bound_complete": Call(theory.discrepancy_bound_complete, {**planned, "tau": 1.0}),
        "dominance_episodes": Call(theory.dominance_episodes, {"problem": problem, "eta": 1.0, "tau": 1.0}),
        "dominance_start": Call(
            theory.dominance_start,
            {"error": lambda x: 1.0 - x, "margin": lambda x: -x / 6.0, "log_end": 690.0},
            own=("error", "margin"),
        ),
        "dual_constant": Call(theory.dual_constant, {"problem": problem, "tau": 0.1, "margin": 0.1}),
        "dual_optimum_bound": Call(theory.dual_optimum_bound, {"problem": problem, "tau": 0.1, "margin": 0.1}),
        "dual_side": Call(theory.dual_side, {"problem": problem}),
        "entropy_to_go_bound": Call(
            theory.entropy_to_go_bound, {"horizon": 3, "actions": 2, "probability": np.array([0.5, 0.1])}
        ),
        "estimation_bounds": Call(theory.estimation_bounds, planned),
        "harmonic": Call(theory.harmonic, {"t": np.array([1.0, 2.0])}),
        "initial_decay": Call(theory.initial_decay, {"t": np.array([1.0, 2.0])}),
        "initial_potential_bound": Call(theory.initial_potential_bound, {"problem": problem}),
        "kl": Call(theory.kl, {"p": np.array([0.5, 0.5]), "q": np.array([0.4, 0.6])}),
        "last_iterate_terms": Call(
            theory.last_iterate_terms, {"problem": problem, "eta": 0.001, "tau": 0.1, "margin": 0.1, "steps": 10}
        ),
        "log_optimisation_coefficient": Call(
            theory.log_optimisation_coefficient, {"problem": problem, "eta": 1.0, "tau": 1.0}
        ),
        "log_primal_constant": Call(theory.log_primal_constant, {"problem": problem, "eta": 0.1, "tau": 0.1}),
        "margin_mixture": Call(theory.margin_mixture, {"cmdp": cmdp, "margin": 0.01}),
        "margin_parts": Call(theory.margin_parts, {"problem": problem}),
        "mirror_step": Call(
            theory.mirror_step,
            {"x": np.array([0.5, 0.5]), "gain": np.array([1.0, 0.0]), "eta": 0.1, "target": np.array([0.1, 0.9])},
        ),
        "multiplier_drift_bound": Call(theory.multiplier_drift_bound, moved),
        "optimisation_part": Call(theory.optimisation_part, {"horizon": 3, "phi": 0.1}),
        "optimisation_sums": Call(theory.optimisation_sums, {"eta": path, "tau": path}),
        "potential": Call(
            theory.potential,
            {"cmdp": cmdp, "policy": policy(), "multipliers": np.array([0.5, 0.5]), "point": point()},
        ),
        "potential_drift_bound": Call(theory.potential_drift_bound, moved),
        "potential_path": Call(
            theory.potential_path, {"cmdp": cmdp, "snapshots": run.snapshots, "schedules": own, "dual_bound": 9.0}
        ),
        "primal_constant": Call(theory.primal_constant, {"problem": problem, "eta": 0.1, "tau": 0.1}),
        "q_bound": Call(theory.q_bound, {"problem": problem, "tau": 0.1, "probability": np.array([0.5, 0.1])}),
        "recursive_sum": Call(theory.recursive_sum, {"eta": 0.1, "tau": 0.1, "t": 5}),
        "recursive_sum_limit": Call(theory.recursive_sum_limit, {"eta": 0.1, "tau": 0.1}),
        "regret_bound_start": Call(theory.regret_bound_start, here),
        "regret_terms": Call(theory.regret_terms, {**log, "burn_in": 7}),
        "reward_bound": Call(theory.reward_bound, {"problem": problem, "phi": 0.1, "tau": 0.1, "margin": 0.1}),
        "saddle_path": Call(
            theory.saddle_path, {"cmdp": cmdp, "schedules": own, "episodes": np.array([1, 2]), "dual_bound": 9.0}
        ),
        "statistical_decay": Call(theory.statistical_decay, {**log, "log_t": 3.0}),
        "statistical_dominance_episode": Call(theory.statistical_dominance_episode, log),
        "step_error": Call(theory.step_error, {"problem": problem, "eta": 0.1, "tau": 0.1, "margin": 0.1}),
        "step_weights": Call(theory.step_weights, {"eta": path, "tau": path}),
        "threshold_width": Call(theory.threshold_width, {"horizon": 3, "episodes": 10, "delta": 0.1}),
        "uniform_threshold_width": Call(theory.uniform_threshold_width, planned),
        "value_difference": Call(
            theory.value_difference,
            {"cmdp": cmdp, "target": policy(), "policy": policy(), "payoff": policy(), "q": policy()},
        ),
        "violation_bound": Call(theory.violation_bound, {"problem": problem, "phi": 0.1, "tau": 0.1, "margin": 0.1}),
        "violation_bound_start": Call(theory.violation_bound_start, here),
        "violation_terms": Call(theory.violation_terms, {**log, "burn_in": 7}),
        "visit_bound": Call(theory.visit_bound, {**here, "episodes": 10}),
        "zero_violation_margin": Call(
            theory.zero_violation_margin, {"problem": problem, "eta": 0.001, "tau": 0.1, "steps": 10}
        ),
    }
    few = {"epsilons": (0.5,), "c_eta": 1.0, "c_tau": 1.0, "c_margin": 2.0, "multiple": 1.0, "label": ""}
    calls["audit.drift_witness"] = Call(audit.drift_witness, {"t": 10.0, "alpha": 0.1, "margin": 0.0})
    calls["audit.last_iterates"] = Call(audit.last_iterates, {"cmdp": cmdp, **few}, {"epsilons": ("epsilon",)})
    calls["audit.margin_cover"] = Call(
        audit.margin_cover,
        {"cmdp": cmdp, "problem": problem, "episodes": 10, "delta": 0.1, "stated": 1e-5, "first": 1},
    )
    return calls


@pytest.mark.parametrize("name", formulas())
def test_a_formula_takes_a_value_or_refuses_it_by_name(name):
    found = formulas()[name].complaints()
    assert not found, listed(found)


def test_every_formula_is_tried():
    callables = {name for name in theory.__all__ if callable(getattr(theory, name))}
    assert callables - TOLD - ELSEWHERE <= set(formulas())
