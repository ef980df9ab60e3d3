"""Where the range of each argument ends: the last value is taken, what is beyond it is refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome import theory as th

ONE = fd.Problem(states=2, actions=2, horizon=2, initial=0, thresholds=[1.0], slater_gap=0.5)
DELTA = {"problem": ONE, "delta": 0.1}
PATH = [0.5, 0.4]

# function, arguments with which it works, the argument, the end of its range, and a value beyond it
ENDS: list[tuple[Any, dict[str, Any], str, Any, Any]] = [
    (th.bonus_logs, {**DELTA, "episodes": 5}, "episodes", 1, 0),
    (th.bonus_logs, {**DELTA, "episodes": 5}, "episodes", 2**53, 2**53 + 1),
    (th.bonus_logs, {**DELTA, "episodes": 5}, "delta", 1e-100, 0.9e-100),
    (th.burn_in, DELTA, "margin_scale", 0.0, -0.5),
    (th.burn_in_episode, DELTA, "margin_scale", 0.0, -0.5),
    (th.threshold_width, {"horizon": 2, "episodes": 5, "delta": 0.1}, "horizon", 1, 0),
    (th.threshold_width, {"horizon": 2, "episodes": 5, "delta": 0.1}, "episodes", 1, 0),
    (th.uniform_threshold_width, {**DELTA, "episodes": 5, "planned": 9}, "episodes", 1, 0),
    (th.uniform_threshold_width, {**DELTA, "episodes": 5, "planned": 9}, "planned", 1, 0),
    (th.visit_bound, {**DELTA, "episodes": 5}, "episodes", 1, 0),
    (th.discrepancy_bound, {**DELTA, "episodes": 5, "planned": 9}, "episodes", 1, 0),
    (th.discrepancy_bound, {**DELTA, "episodes": 5, "planned": 9}, "planned", 1, 0),
    (th.corrected_error_constant, {"problem": ONE}, "tau", 0.0, -0.5),
    (th.composite_bound, {"problem": ONE}, "tau", 0.0, -0.5),
    (th.log_primal_constant, {"problem": ONE, "tau": 0.1}, "eta", 0.0, -0.5),
    (th.log_primal_constant, {"problem": ONE, "eta": 0.1}, "tau", 0.0, -0.5),
    (th.dual_constant, {"problem": ONE}, "tau", 0.0, -0.5),
    (th.dual_constant, {"problem": ONE, "tau": 0.1}, "margin", 0.0, -0.5),
    (th.recursive_sum, {"tau": 0.1, "t": 3}, "eta", 0.0, -0.5),
    (th.recursive_sum, {"eta": 0.1, "t": 3}, "tau", 0.0, -0.5),
    (th.recursive_sum, {"eta": 0.1, "tau": 0.1}, "t", 1, 0),
    (th.dominance_start, {"error": lambda x: -1.0, "margin": lambda x: 0.0}, "log_end", 0.0, -0.5),
    (th.optimisation_part, {"horizon": 2}, "phi", 0.0, -0.5),
    (th.dual_optimum_bound, {"problem": ONE, "margin": 0.1}, "tau", 0.0, -0.5),
    (th.last_iterate_terms, {"problem": ONE, "tau": 0.1, "margin": 0.1, "steps": 3}, "eta", 0.0, -0.5),
    (th.last_iterate_terms, {"problem": ONE, "eta": 0.1, "margin": 0.1, "steps": 3}, "tau", 0.0, -0.5),
    (th.last_iterate_terms, {"problem": ONE, "eta": 0.1, "tau": 0.1, "steps": 3}, "margin", 0.0, -0.5),
    (th.statistical_decay, {**DELTA, "log_planned": 5.0}, "log_t", 0.0, -0.5),
    (th.statistical_decay, {**DELTA, "log_t": 5.0}, "log_planned", 0.0, -0.5),
    (th.violation_terms, {**DELTA, "burn_in": 1}, "log_planned", 0.0, -0.5),
    (th.violation_terms, {**DELTA, "log_planned": 5.0}, "burn_in", 1, 0),
    (th.regret_terms, {**DELTA, "burn_in": 1}, "log_planned", 0.0, -0.5),
    (th.regret_terms, {**DELTA, "log_planned": 5.0}, "burn_in", 1, 0),
    (th.statistical_dominance_episode, DELTA, "log_planned", 0.0, -0.5),
    (th.estimation_bounds, {**DELTA, "episodes": 5}, "planned", 1, 0),
    (th.discrepancy_bound_complete, {**DELTA, "episodes": 5, "planned": 9}, "tau", 0.0, -0.5),
    (th.contraction, {"phi": 1.0, "tau": 0.1, "error": 0.1}, "eta", 0.0, -0.5),
    (th.contraction, {"phi": 1.0, "eta": 0.1, "error": 0.1}, "tau", 0.0, -0.5),
    (th.reward_bound, {"problem": ONE, "phi": 0.1, "margin": 0.1}, "tau", 0.0, -0.5),
    (th.violation_bound, {"problem": ONE, "phi": 0.1, "margin": 0.1}, "tau", 0.0, -0.5),
    (th.step_error, {"problem": ONE, "tau": 0.1}, "eta", 0.0, -0.5),
    (th.entropy_to_go_bound, {"actions": 2, "probability": 0.5}, "horizon", 1, 0),
    (th.entropy_to_go_bound, {"horizon": 2, "probability": 0.5}, "actions", 1, 0),
    (th.entropy_to_go_bound, {"horizon": 2, "actions": 2}, "probability", 0.0, -0.5),
    (th.entropy_to_go_bound, {"horizon": 2, "actions": 2}, "probability", 1.0, 1.5),
    (th.q_bound, {"problem": ONE, "tau": 0.1}, "probability", 0.0, -0.5),
    (th.q_bound, {"problem": ONE, "tau": 0.1}, "probability", 1.0, 1.5),
    (th.optimisation_part, {"phi": 0.1}, "horizon", 1, 0),
    (th.last_iterate_terms, {"problem": ONE, "eta": 0.1, "tau": 0.1, "margin": 0.1}, "steps", 1, 0),
    (th.optimisation_sums, {"tau": [0.5]}, "eta", [0.0], [-0.5]),
    (th.optimisation_sums, {"eta": [0.5]}, "tau", [0.0], [-0.5]),
    (th.multiplier_drift_bound, {"problem": ONE, "tau": (0.5, 0.4), "margin": (0, 0)}, "multipliers", [0.0], [-0.5]),
]  # fmt: skip


def name(row: tuple[Any, ...]) -> str:
    return f"{row[0].__name__}-{row[2]}"


@pytest.mark.parametrize("row", ENDS, ids=[name(row) for row in ENDS])
def test_a_range_ends_where_it_says(row: tuple[Any, ...]) -> None:
    function, given, argument, last, beyond = row
    function(**{**given, argument: last})
    with pytest.raises(fd.ValidationError, match=argument):
        function(**{**given, argument: beyond})


@pytest.mark.parametrize("argument", ["eta", "tau"])
def test_the_limit_of_the_recursive_sum_needs_both_and_no_sign(argument: str) -> None:
    given = {"eta": 0.1, "tau": 0.1}
    with pytest.raises(fd.ValidationError, match="without contraction"):
        th.recursive_sum_limit(**{**given, argument: 0.0})
    with pytest.raises(fd.ValidationError, match=argument):
        th.recursive_sum_limit(**{**given, argument: -0.5})


def test_a_mirror_step_has_a_positive_step() -> None:
    x = [0.5, 0.5]
    assert th.mirror_step(x, [1.0, 0.0], 1e-3, x).left == 0.0
    with pytest.raises(fd.ValidationError, match="eta is 0"):
        th.mirror_step(x, [1.0, 0.0], 0.0, x)


@pytest.mark.parametrize("function", [th.optimisation_sums, th.step_weights])
def test_schedules_of_a_sum_are_rows_of_one_length(function: Any) -> None:
    assert function(PATH, PATH).shape == (2,)
    for eta, tau in ((0.5, 0.5), (PATH, PATH[:1]), ([PATH], [PATH])):
        with pytest.raises(fd.ValidationError, match="they must both be"):
            function(eta, tau)


def test_a_potentials_episodes_begin_with_the_first() -> None:
    cmdp = fd.make_cmdp("oscillator-v1")
    schedules = th.theorem2(0.2)
    assert len(th.saddle_path(cmdp, schedules, [1])) == 1
    with pytest.raises(fd.ValidationError, match=r"episodes\[1\] is 0"):
        th.saddle_path(cmdp, schedules, [1, 0])
    there = fd.iterate(cmdp, schedules, 1, snapshots=(1,)).snapshots[1]
    assert th.potential_path(cmdp, {1: there}, schedules).t.tolist() == [1]
    with pytest.raises(fd.ValidationError, match="an episode of snapshots is 0"):
        th.potential_path(cmdp, {0: there}, schedules)


def test_a_margins_mixture_takes_the_whole_gap_and_nothing_below_zero() -> None:
    cmdp = fd.make_cmdp("oscillator-v1")
    assert th.margin_mixture(cmdp, 0.0).shape == th.margin_mixture(cmdp, fd.slater_gap(cmdp)).shape
    with pytest.raises(fd.ValidationError, match="margin"):
        th.margin_mixture(cmdp, -0.5)


def test_a_step_of_nothing_adds_nothing_even_where_no_float_holds_its_constant() -> None:
    narrow = fd.Problem(states=2, actions=2, horizon=9, initial=0, thresholds=[1.0], slater_gap=1e-6)
    assert th.step_error(narrow, 0.0, 1.0) == 0.0
    assert th.step_error(narrow, 1.0, 1.0) == float("inf")
    assert th.contraction(1.0, 1.0, 1.0, float("inf")) == float("inf")


def test_a_drift_is_between_two_weights_and_two_margins() -> None:
    lam = [0.5]
    assert th.multiplier_drift_bound(ONE, (0.5, 0.4), ([0.1], [0.1]), lam) > 0.0
    for tau, margin, match in (
        ((0.5,), (0.1, 0.1), "tau"),
        ((0.5, 0.4), (0.1,), "margin"),
        ((0.5, 0.0), (0.1, 0.1), "tau"),
    ):
        with pytest.raises(fd.ValidationError, match=match):
            th.multiplier_drift_bound(ONE, tau, margin, lam)
    with pytest.raises(fd.ValidationError, match=r"it must be \(1,\)"):
        th.potential_drift_bound(ONE, (0.5, 0.4), (0.1, 0.1), [0.5, 0.5])


def test_a_mirror_step_from_a_corner_is_bounded_by_infinity() -> None:
    step = th.mirror_step([1.0, 0.0], [1.0, 0.0], 0.1, [0.5, 0.5])
    assert step.right == float("inf")
    assert step.next.tolist() == [1.0, 0.0]
    with pytest.raises(fd.ValidationError, match="they must have one"):
        th.mirror_step([0.5, 0.5], [1.0], 0.1, [0.5, 0.5])
    with pytest.raises(fd.ValidationError, match="eta times the largest gain is 400; it must be at most 300"):
        th.mirror_step([0.5, 0.5], [4000.0, 0.0], 0.1, [0.5, 0.5])
    assert th.mirror_step([0.5, 0.5], [3000.0, 0.0], 0.1, [0.5, 0.5]).right > 0.0


def test_a_divergence_is_along_an_axis_with_entries() -> None:
    assert th.kl([1.0], [1.0]) == 0.0
    for nothing in (1.0, [[], []]):
        with pytest.raises(fd.ValidationError, match="p has shape"):
            th.kl(nothing, nothing)


def test_a_crossing_is_looked_for_from_the_first_episode_to_where_numbers_end() -> None:
    for where in (0.5, 600.0):
        assert th.dominance_start(lambda x, c=where: c - x, lambda x: 0.0) == pytest.approx(where, rel=1e-12)
    assert th.dominance_start(lambda x: 700.0 - x, lambda x: 0.0) == math.inf
    assert th.dominance_start(lambda x: -x, lambda x: 0.0) == 0.0
    assert th.dominance_start(lambda x: 5.0 - x, lambda x: 0.0, log_end=5.0) == pytest.approx(5.0)


def test_a_saddle_path_without_a_box_has_the_papers() -> None:
    cmdp = fd.make_cmdp("media-v1")
    gap = fd.slater_gap(cmdp)
    out_of_reach = fd.Schedules(0.1, 1e-3, 2.0 * gap)
    (point,) = th.saddle_path(cmdp, out_of_reach, [1])
    assert point.multipliers == pytest.approx(4.0 * cmdp.horizon / gap)


def test_states_that_are_never_reached_add_nothing_to_a_potential() -> None:
    p = np.zeros((2, 2, 2, 2))
    p[..., 0] = 1.0  # every action leads to state 0
    f = np.linspace(0.1, 0.8, 8).reshape(2, 2, 2)
    cmdp = fd.CMDP(p, f, 1.0 - f[None], [0.5], 0)
    point = fd.saddle_point(cmdp, 0.1)
    policy = np.full((2, 2, 2), 0.5)
    policy[:, 1] = [1.0, 0.0]  # infinitely far from any policy that tries both
    found = th.potential(cmdp, policy, [0.0], point)
    reached = point.policy[:, 0]
    assert found.divergence == pytest.approx(float((reached * np.log(2.0 * reached)).sum()))


def test_the_total_of_a_path_is_the_sum_of_its_parts() -> None:
    cmdp, schedules = fd.make_cmdp("oscillator-v1"), th.theorem2(0.2)
    run = fd.iterate(cmdp, schedules, 5, snapshots=(2, 5))
    path = th.potential_path(cmdp, run.snapshots, schedules)
    for k, t in enumerate((2, 5)):
        there = run.snapshots[t]
        one = th.potential(cmdp, there.policy, there.multipliers, path.points[k])
        assert path.total[k] == one.divergence + one.multipliers > max(one.divergence, one.multipliers) > 0.0
