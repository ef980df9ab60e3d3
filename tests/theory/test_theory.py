"""The paper's schedules and constants: its own numbers, and arguments that make no sense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flexdome as fd
from flexdome.theory import bonus_logs, burn_in, error_constant, margin_coefficient, theorem1, theorem2

PAPER = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=2.5)


def margins(problem: fd.Problem, t: int, **options: Any) -> float:
    return float(theorem1(problem, **options).table(t, 1, 1)[2][0, 0])


# -- the paper's size, in numbers -----------------------------------------------------------------------


def test_the_error_constant_of_the_papers_experiment_is_136_000() -> None:
    assert error_constant(PAPER) == pytest.approx(1.36e5, rel=0.005)


def test_the_unscaled_margin_starts_near_26_369() -> None:
    assert margins(PAPER, 1) == pytest.approx(26_369, rel=1e-4)


def test_the_unscaled_margin_of_episode_80_000_is_4_859() -> None:
    assert margins(PAPER, 80_000) == pytest.approx(4_859, rel=2e-4)


def test_the_burn_in_is_18e26_episodes() -> None:
    assert burn_in(PAPER, 0.1) == pytest.approx(1.8e27, rel=0.05)


@pytest.mark.parametrize(("t", "expected"), [(1, 0.264), (1000, 0.095), (80_000, 0.049)])
def test_the_scaled_margin_is_what_the_experiments_used(t: int, expected: float) -> None:
    assert margins(PAPER, t, margin_scale=1e-5) == pytest.approx(expected, abs=5e-4)


def test_the_scaled_margins_of_80_000_episodes_add_up_to_4_595() -> None:
    eps = theorem1(PAPER, margin_scale=1e-5).table(1, 80_000, 1)[2]
    assert eps.sum() == pytest.approx(4595, rel=1e-3)


def test_the_unscaled_bonus_of_one_visit_is_49() -> None:
    L_r, L_p = bonus_logs(PAPER, 80_000, 0.1)
    assert math.sqrt(L_r) + 5 * math.sqrt(L_p) == pytest.approx(48.7, abs=0.05)


# -- formulas -------------------------------------------------------------------------------------------


def test_the_error_constant_is_the_appendixs_formula_with_three_constraints() -> None:
    problem = fd.Problem(7, 3, 4, 0, [1.0, 1.0, 1.0], 0.5)
    ratio = 3 * 4 / 0.5
    expected = (1 + 8 * ratio) * 16 * math.sqrt(42) * (4 * math.sqrt(7) + 5) + 4 * ratio * math.sqrt(8)
    assert error_constant(problem) == pytest.approx(expected, rel=1e-14)


def test_the_margin_is_18_fifths_of_the_root_times_its_decay() -> None:
    expected = 3.6 * math.sqrt(125 * error_constant(PAPER)) * 9 ** (-1 / 6) * math.log(4 * 500 * 9 / 0.2) ** 0.25
    assert margins(PAPER, 9, delta=0.2) == pytest.approx(expected, rel=1e-13)
    assert margin_coefficient(PAPER) == pytest.approx(3.6 * math.sqrt(125 * error_constant(PAPER)), rel=1e-14)


def test_bonus_logs_use_a_quarter_of_delta_and_every_constraint() -> None:
    problem = fd.Problem(3, 2, 4, 0, [1.0, 2.0], 0.5)
    L_r, L_p = bonus_logs(problem, 1000, 0.4)
    assert L_r == pytest.approx(0.5 * math.log(2 * 3 * 2 * 4 * 3 * 1000 / 0.1), rel=1e-14)
    assert L_p == pytest.approx(6 + 2 * math.log(3 * 2 * 4 * 1000 / 0.1), rel=1e-14)


def test_theorem_1_multiplies_step_and_weight_to_one_over_t() -> None:
    eta, tau, _ = theorem1(PAPER).table(1, 2000, 1)
    t = np.arange(1, 2001)
    np.testing.assert_allclose(eta, t ** (-5 / 6), rtol=1e-14)
    np.testing.assert_allclose(eta * tau * t, 1.0, rtol=1e-13)


def test_theorem_2_is_constant_in_the_powers_of_epsilon() -> None:
    eta, tau, margin = theorem2(0.1, c_eta=2.0, c_tau=3.0, c_margin=4.0).table(5, 3, 2)
    np.testing.assert_allclose(eta, 0.002, rtol=1e-14)
    np.testing.assert_allclose(tau, 0.3, rtol=1e-14)
    np.testing.assert_allclose(margin, np.full((3, 2), 0.4), rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1.0])
def test_from_the_burn_in_on_the_margin_is_at_most_half_the_slater_gap(scale: float) -> None:
    t = burn_in(PAPER, 0.1, scale)
    margin = theorem1(PAPER, 0.1, scale).margin
    assert float(margin(t)) == pytest.approx(1.25, rel=1e-9)  # type: ignore[operator]
    assert float(margin(0.99 * t)) > 1.25  # type: ignore[operator]


def test_a_margin_that_is_small_from_the_start_has_no_burn_in() -> None:
    assert burn_in(PAPER, 0.1, 0.0) == 1.0


def test_a_burn_in_that_no_number_holds_is_infinite() -> None:
    assert burn_in(PAPER, 0.1, 1e60) == math.inf


# -- tables ---------------------------------------------------------------------------------------------


@given(first=st.integers(1, 500), count=st.integers(1, 300), cut=st.integers(0, 300))
def test_a_table_has_the_same_bits_however_it_is_cut(first: int, count: int, cut: int) -> None:
    schedules = theorem1(PAPER, margin_scale=1e-5)
    cut = min(cut, count)
    parts = [schedules.table(first, cut, 2), schedules.table(first + cut, count - cut, 2)]
    for whole, a, b in zip(schedules.table(first, count, 2), *parts, strict=True):
        assert whole.tobytes() == np.concatenate([a, b]).tobytes()


def test_schedules_may_be_numbers_functions_or_one_margin_for_each_constraint() -> None:
    schedules = fd.Schedules(eta=0.5, tau=lambda t: 1 / t, margin=lambda t: np.array([t, 2 * t]))
    eta, tau, margin = schedules.table(2, 2, 2)
    assert eta.tolist() == [0.5, 0.5]
    assert tau.tolist() == [1 / 2, 1 / 3]
    assert margin.tolist() == [[2, 4], [3, 6]]
    assert fd.Schedules(0.5, 0.5, [0.1, 0.2]).table(1, 1, 2)[2].tolist() == [[0.1, 0.2]]


def test_a_function_may_return_any_kind_of_number() -> None:
    schedules = fd.Schedules(lambda t: 1, lambda t: np.float32(0.5), lambda t: np.array(2))
    assert [x.ravel().tolist() for x in schedules.table(1, 1, 1)] == [[1.0], [0.5], [2.0]]


def test_a_schedule_without_a_margin_has_none() -> None:
    assert fd.Schedules(0.5, 0.5).table(1, 2, 2)[2].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_table_takes_the_last_value_of_each_range_and_nothing_beyond() -> None:
    table = fd.Schedules(0.0, 1e100, -1e100).table
    assert [part.tolist() for part in table(2**53, 1, 1)] == [[0.0], [1e100], [[-1e100]]]
    assert fd.Schedules(1e100, 0.0, 1e100).table(1, 1, 1)[2].tolist() == [[1e100]]
    assert table(1, 0, 10**6)[2].shape == (0, 10**6)
    for name, beyond in (
        ("first", (0, 1, 1)),
        ("first", (2**53 + 1, 1, 1)),
        ("count", (1, -1, 1)),
        ("constraints", (1, 1, 0)),
        ("constraints", (1, 0, 10**6 + 1)),
    ):
        with pytest.raises(fd.ValidationError, match=f"^{name} is"):
            table(*beyond)


def test_a_step_times_a_weight_may_be_above_one_by_rounding_alone() -> None:
    fd.Schedules(1.0 + 1e-13, 1.0).table(1, 1, 1)
    with pytest.raises(fd.ValidationError, match=r"eta \* tau at episode 7"):
        fd.Schedules(1.0 + 1e-9, 1.0).table(7, 1, 1)


@pytest.mark.parametrize(
    ("scale", "last"), [("margin_scale", 1e95), ("step_scale", 1e100), ("regularisation_scale", 1e100)]
)
def test_a_scale_of_theorem_1_ends_where_it_says(scale: str, last: float) -> None:
    for inside in (0.0, last):
        theorem1(PAPER, **{scale: inside})
    for beyond in (-0.5, 1.01 * last):
        with pytest.raises(fd.ValidationError, match=scale):
            theorem1(PAPER, **{scale: beyond})


def test_theorem_1s_scales_are_one_unless_given_and_a_delay_begins_where_their_product_is_more() -> None:
    t = np.array([1.0, 2.0, 50.0])
    for scale, delay in ((1.0, 0.0), (8.0, 8.0**1.2 - 1.0)):
        schedules = theorem1(PAPER, step_scale=scale)
        np.testing.assert_allclose(schedules.eta(t), scale * (t + delay) ** (-5 / 6), rtol=1e-13)  # type: ignore[operator]
        np.testing.assert_allclose(schedules.tau(t), t ** (-1 / 6), rtol=1e-14)  # type: ignore[operator]
    stated = theorem1(PAPER, 0.1, 1.0, 1.0, 1.0)
    assert theorem1(PAPER) == stated
    assert theorem1(PAPER, 0.1, 1.0, 0.25, 2.0).eta.shift == 0.0  # type: ignore[union-attr]


def test_a_power_is_constant_and_not_shifted_unless_told() -> None:
    power = fd.theory.schedules.Power
    assert power(3.0)(7.0) == 3.0
    assert power(3.0, 2.0)(7.0) == 147.0
    assert power(3.0, 2.0, shift=1.0)(7.0) == 192.0


def test_theorem_2s_coefficients_are_one_unless_given_and_end_where_they_say() -> None:
    assert [part.ravel().tolist() for part in theorem2(0.5).table(1, 1, 1)] == [[0.125], [0.5], [0.5]]
    assert theorem2(1.0).table(1, 1, 1)[0].tolist() == [1.0]
    with pytest.raises(fd.ValidationError, match=r"eta \* tau at most 1"):
        theorem2(1.0, c_eta=1.0 + 1e-9)
    theorem2(1.0, c_eta=0.0, c_tau=0.0, c_margin=1e100)
    theorem2(1e-100, c_tau=1e100)
    theorem2(1e100, c_eta=0.0, c_tau=0.0, c_margin=1.0)
    for name in ("c_eta", "c_tau", "c_margin"):
        for beyond in (-0.5, 1.01e100):
            with pytest.raises(fd.ValidationError, match=name):
                theorem2(1e-3, **{name: beyond})


def test_a_table_cannot_be_written() -> None:
    eta, _, _ = fd.Schedules(0.5, 0.5).table(1, 3, 1)
    with pytest.raises(ValueError, match="read-only"):
        eta[0] = 1.0


def spoilt(value: Any) -> Any:
    """A schedule that goes wrong in episode 3."""
    return lambda t: value if t == 3 else 0.1


BAD = {
    "a step that is nan": ("eta", spoilt(math.nan), "eta at episode 3 is nan; it must lie in [0, 1e+100]"),
    "a negative step": ("eta", spoilt(-0.1), "eta at episode 3 is -0.1; it must lie in [0, 1e+100]"),
    "a step beyond measure": ("eta", spoilt(1e200), "eta at episode 3 is 1e+200; it must lie in [0, 1e+100]"),
    "an infinite weight": ("tau", spoilt(math.inf), "tau at episode 3 is inf; it must lie in [0, 1e+100]"),
    "a negative weight": ("tau", -0.5, "tau at episode 1 is -0.5; it must lie in [0, 1e+100]"),
    "a margin that is nan": ("margin", spoilt(math.nan), "margin at episode 3 is nan; it must lie in [-1e+100"),
    "a margin of one that is inf": ("margin", spoilt([0.1, math.inf]), "margin at episode 3 is inf; it must"),
    "three margins for two": (
        "margin",
        spoilt([1, 2, 3]),
        "margin at episode 3 has shape (3,); it must be a number or",
    ),
    "two steps": ("eta", spoilt([0.1, 0.1]), "eta at episode 3 has shape (2,); it must be a number"),
    "two constant steps": ("eta", [0.1, 0.1], "eta has shape (2,); it must be a number"),
    "a word": ("eta", spoilt("fast"), "eta at episode 3 has dtype <U4; it must hold real numbers"),
    "a constant word": ("tau", "fast", "tau has dtype <U4; it must hold real numbers"),
    "a complex number": ("tau", spoilt(1j), "tau at episode 3 has dtype complex128; it must hold real numbers"),
    "nothing": ("margin", spoilt(None), "margin at episode 3 is None; it must be a real number"),
    "ragged margins": ("margin", spoilt([[1], [2, 3]]), "margin at episode 3 is not a rectangular array"),
    "a step times a weight above one": ("eta", spoilt(11.0), "eta * tau at episode 3 is 1.1; it must not exceed 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_schedule_is_refused_with_field_and_episode(case: str) -> None:
    field, value, message = BAD[case]
    schedules = fd.Schedules(**{"eta": 0.1, "tau": 0.1, "margin": 0.1, field: value})
    with pytest.raises(fd.ValidationError) as caught:
        schedules.table(1, 5, 2)
    assert message in str(caught.value)


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.5, math.nan, "x"])
@pytest.mark.parametrize("use", [theorem1, burn_in, lambda p, delta: bonus_logs(p, 10, delta), fd.FlexDOME])
def test_a_confidence_outside_0_to_1_is_refused(use: Any, delta: Any) -> None:
    with pytest.raises(fd.ValidationError, match="delta"):
        use(PAPER, delta=delta)


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, "x"])
@pytest.mark.parametrize("use", [theorem1, lambda p, margin_scale: burn_in(p, 0.1, margin_scale), fd.FlexDOME])
def test_a_margin_scale_that_is_no_positive_number_is_refused(use: Any, scale: Any) -> None:
    with pytest.raises(fd.ValidationError, match="margin_scale"):
        use(PAPER, margin_scale=scale)


@pytest.mark.parametrize("episodes", [0, -1, 2.5, "x", 2**53 + 1, 10**400])
@pytest.mark.parametrize("use", [lambda p, episodes: bonus_logs(p, episodes, 0.1), fd.FlexDOME])
def test_a_number_of_episodes_that_cannot_be_counted_is_refused(use: Any, episodes: Any) -> None:
    with pytest.raises(fd.ValidationError, match="episodes"):
        use(PAPER, episodes=episodes)


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": -1}, {"epsilon": 1e200}, {"c_tau": -1}, {"c_eta": "x"}])
def test_theorem_2_refuses_what_is_not_positive(bad: dict[str, Any]) -> None:
    with pytest.raises(fd.ValidationError, match=next(iter(bad))):
        theorem2(**{"epsilon": 0.1, **bad})


@pytest.mark.parametrize("name", ["eta", "tau", "margin"])
def test_a_schedule_that_raises_is_named_with_its_episode_and_cause(name: str) -> None:
    def broken(t: float) -> float:
        return {1.0: 0.1, 2.0: 0.1}[t]

    schedules = fd.Schedules(**{"eta": 0.1, "tau": 0.1, "margin": 0.0, name: broken})
    with pytest.raises(fd.ValidationError, match=f"{name} at episode 3 raised KeyError: 3.0") as caught:
        schedules.table(1, 5, 1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_theorem_1_with_scales_multiplies_its_steps() -> None:
    problem = fd.make_cmdp("paper-v1").problem()
    plain, scaled = (
        fd.theory.theorem1(problem, **scales) for scales in ({}, {"step_scale": 5.0, "regularisation_scale": 0.2})
    )
    (eta, tau, eps), (eta_, tau_, eps_) = (schedules.table(1, 100, 1) for schedules in (plain, scaled))
    np.testing.assert_allclose(eta_, 5.0 * eta, rtol=1e-14)
    np.testing.assert_allclose(tau_, 0.2 * tau, rtol=1e-14)
    assert (eps_ == eps).all()


@pytest.mark.parametrize(("step", "regularisation"), [(30.0, 0.5), (1.0, 4.0), (1e4, 1e4)])
def test_large_scales_delay_the_step_so_that_eta_tau_stays_within_one(step: float, regularisation: float) -> None:
    problem = fd.make_cmdp("paper-v1").problem()
    schedules = fd.theory.theorem1(problem, step_scale=step, regularisation_scale=regularisation)
    eta, tau, _ = schedules.table(1, 100, 1)
    assert eta[0] * tau[0] == pytest.approx(1.0)
    assert (np.diff(eta * tau) < 0).all()
    far = schedules.table(10**15, 1, 1)[0][0]
    assert far == pytest.approx(step * 1e15 ** (-5 / 6), rel=1e-4)
