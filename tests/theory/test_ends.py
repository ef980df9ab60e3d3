"""Where the range of each argument ends: the last value is taken, what is beyond it is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

import flexdome as fd
from flexdome import theory as th

ONE = fd.Problem(states=2, actions=2, horizon=2, initial=0, thresholds=[1.0], slater_gap=0.5)
DELTA = {"problem": ONE, "delta": 0.1}
PATH = [0.5, 0.4]

# function, arguments with which it works, the argument, the end of its range, and a value beyond it
ENDS: list[tuple[Any, dict[str, Any], str, Any, Any]] = [
    (th.bonus_logs, {**DELTA, "episodes": 5}, "episodes", 1, 0),
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
    with pytest.raises(fd.ValidationError, match="eta is 0; it must be positive"):
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
