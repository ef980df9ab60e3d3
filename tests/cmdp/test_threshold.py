"""Threshold laws: exact means after clipping, samples through the inverse distribution function, refusals."""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import flexdome as fd
import strategies  # noqa: F401  loads the Hypothesis profile
from flexdome import Threshold

NUMBERS = st.floats(-20.0, 20.0)
WIDTHS = st.one_of(st.just(0.0), st.floats(1e-3, 20.0))
CLIPS = st.one_of(st.none(), st.builds(lambda low, width: (low, low + width), NUMBERS, WIDTHS))
PERS = st.sampled_from(("episode", "step"))

NORMALS = st.builds(Threshold.normal, NUMBERS, WIDTHS, PERS, CLIPS)
UNIFORMS = st.builds(
    lambda low, width, per, clip: Threshold.uniform(low, low + width, per, clip), NUMBERS, WIDTHS, PERS, CLIPS
)
BERNOULLIS = st.builds(Threshold.bernoulli, st.floats(0.0, 1.0), st.floats(0.0, 20.0), PERS, CLIPS)
FIXED = st.builds(lambda value, per, clip: Threshold("fixed", (value,), per, clip), NUMBERS, PERS, CLIPS)
LAWS = st.one_of(NORMALS, UNIFORMS, BERNOULLIS, FIXED)


def clipped(law: Threshold, x: Any) -> Any:
    return x if law.clip is None else np.clip(x, *law.clip)


def integrated(law: Threshold, continuous: Any, support: tuple[float, float]) -> float:
    """The mean after clipping: an atom at each end and, between them, Gauss-Legendre quadrature in panels."""
    low, high = support if law.clip is None else np.clip(support, *law.clip)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(low, high, 61)
    half = 0.5 * np.diff(edges)[:, None]
    x = edges[:-1, None] + half * (1.0 + nodes)
    atoms = low * continuous.cdf(low) + high * continuous.sf(high)
    return float(atoms + (half * weights * x * continuous.pdf(x)).sum())


# -- the mean -------------------------------------------------------------------------------------------


@given(NORMALS.filter(lambda law: law.parameters[1] > 0))
def test_the_mean_of_a_clipped_normal_law_is_its_integral(law: Threshold) -> None:
    mean, std = law.parameters
    expected = integrated(law, stats.norm(mean, std), (mean - 12 * std, mean + 12 * std))
    assert law.mean == pytest.approx(expected, abs=1e-11)


@given(UNIFORMS.filter(lambda law: law.parameters[0] < law.parameters[1]))
def test_the_mean_of_a_clipped_uniform_law_is_its_integral(law: Threshold) -> None:
    low, high = law.parameters
    assert law.mean == pytest.approx(integrated(law, stats.uniform(low, high - low), (low, high)), abs=1e-11)


@given(BERNOULLIS)
def test_the_mean_of_a_clipped_bernoulli_law_is_its_sum(law: Threshold) -> None:
    p, low, high = law.parameters
    assert law.mean == pytest.approx(p * clipped(law, high) + (1 - p) * clipped(law, low), abs=1e-13)


@given(FIXED)
def test_the_mean_of_a_fixed_law_is_its_clipped_value(law: Threshold) -> None:
    assert law.mean == clipped(law, law.parameters[0])


@settings(max_examples=40)
@given(LAWS)
def test_the_mean_is_the_mean_of_samples_over_all_quantiles(law: Threshold) -> None:
    n = 200_000
    u = (np.arange(n) + 0.5) / n
    scale = 1.0 + max(abs(x) for x in law.parameters)
    assert law.sample(u[:, None]).mean() == pytest.approx(law.mean, abs=1e-4 * scale)


@pytest.mark.parametrize(
    "law",
    [
        Threshold.normal(2.5, 1.25),
        Threshold.normal(2.5, 5.0, per="step", clip=(0.0, 5.0)),
        Threshold.normal(-1.0, 2.0, clip=(0.0, 9.0)),
        Threshold.uniform(-2.0, 4.0, per="step", clip=(0.0, 3.0)),
        Threshold.bernoulli(0.3, 5.0, clip=(1.0, 4.0)),
    ],
    ids=repr,
)
def test_the_mean_is_that_of_random_samples(law: Threshold) -> None:
    drawn = law.sample(np.random.default_rng(4).random((100_000, 2)))[:, 0]
    error = drawn.std() / math.sqrt(drawn.size)
    assert abs(drawn.mean() - law.mean) < 5.0 * error


@pytest.mark.parametrize(
    ("law", "ends"),
    [
        (Threshold.fixed(1.5), (1.5, 1.5)),
        (Threshold.normal(1.0, 0.1), (-math.inf, math.inf)),
        (Threshold.normal(1.0, 0.0), (1.0, 1.0)),
        (Threshold.normal(1.0, 0.1, clip=(0.5, 2.0)), (0.5, 2.0)),
        (Threshold.uniform(-2.0, 4.0, clip=(0.0, 5.0)), (0.0, 4.0)),
        (Threshold.bernoulli(0.3, 5.0), (0.0, 5.0)),
        (Threshold.bernoulli(0.0, 5.0), (0.0, 0.0)),
        (Threshold.bernoulli(1.0, 5.0), (5.0, 5.0)),
        (Threshold.bernoulli(0.3, 5.0).reflected(6.0), (1.0, 6.0)),
    ],
    ids=repr,
)
def test_all_samples_lie_in_the_support(law: Threshold, ends: tuple[float, float]) -> None:
    assert law.support == ends
    drawn = law.sample(np.random.default_rng(4).random((1000, 2)))
    assert ends[0] <= drawn.min() <= drawn.max() <= ends[1]


@given(LAWS.filter(lambda law: law.clip is not None))
@example(Threshold.bernoulli(1.0, 1.0, clip=(0.32, 0.86)))
def test_the_mean_lies_in_the_clip_interval(law: Threshold) -> None:
    assert law.clip is not None
    assert law.clip[0] <= law.mean <= law.clip[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda clip: Threshold.uniform(1.0, 2.0, clip=clip),
        lambda clip: Threshold.bernoulli(0.4, 2.0, clip=clip),
        lambda clip: Threshold("fixed", (1.5,), clip=clip),
        lambda clip: Threshold.normal(1.5, 0.01, clip=clip),
    ],
    ids=["uniform", "bernoulli", "fixed", "normal"],
)
@pytest.mark.parametrize(("clip", "nearest"), [((3.1, 4.7), 3.1), ((-4.7, -0.3), -0.3)], ids=["above", "below"])
def test_a_clip_interval_beside_the_support_leaves_its_nearest_end(
    make: Any, clip: tuple[float, float], nearest: float
) -> None:
    law = make(clip)
    assert law.mean == nearest
    assert (law.sample(np.linspace(0.0, 0.999, 7)[:, None]) == nearest).all()


@given(LAWS, NUMBERS)
def test_a_clip_interval_of_one_point_leaves_that_point(law: Threshold, point: float) -> None:
    assert Threshold(law.law, law.parameters, law.per, (point, point)).mean == point


@given(NUMBERS, CLIPS)
def test_a_normal_law_without_spread_is_its_mean(value: float, clip: Any) -> None:
    law = Threshold.normal(value, 0.0, clip=clip)
    assert law.mean == clipped(law, value)
    assert (law.sample(np.array([[0.0, 0.3], [0.5, 0.999]])) == law.mean).all()


@given(NUMBERS, CLIPS)
def test_a_uniform_law_without_width_is_its_value(value: float, clip: Any) -> None:
    law = Threshold.uniform(value, value, clip=clip)
    assert law.mean == clipped(law, value)
    assert (law.sample(np.array([[0.0, 0.3], [0.5, 0.999]])) == law.mean).all()


@pytest.mark.parametrize(("p", "value"), [(0.0, 0.0), (1.0, 3.0)])
def test_a_certain_bernoulli_law_is_its_value(p: float, value: float) -> None:
    law = Threshold.bernoulli(p, 3.0)
    assert law.mean == value
    assert (law.sample(np.array([[0.0], [0.5], [1.0 - 2.0**-53]])) == value).all()


@given(NUMBERS, st.floats(0.0, 20.0))
def test_a_clip_interval_far_outside_costs_no_digits(mean: float, std: float) -> None:
    assert Threshold.normal(mean, std, clip=(-1e90, 1e90)).mean == mean
    assert Threshold.uniform(mean, mean + std, clip=(-1e90, 1e90)).mean == 0.5 * (mean + (mean + std))


@pytest.mark.parametrize("std", [5e-324, 1e-300, 1e-20, 1e50, 1e100])
def test_the_mean_is_finite_for_extreme_spreads(std: float) -> None:
    assert 0.0 <= Threshold.normal(1.0, std, clip=(0.0, 4.0)).mean <= 4.0


def test_half_of_a_very_wide_normal_law_is_clipped_to_each_side() -> None:
    assert Threshold.normal(1.0, 1e12, clip=(0.0, 4.0)).mean == pytest.approx(2.0)


# -- samples --------------------------------------------------------------------------------------------


@given(LAWS, st.integers(0, 2**32 - 1))
def test_one_draw_an_episode_is_repeated_at_every_step(law: Threshold, seed: int) -> None:
    u = np.random.default_rng(seed).random((5, 4))
    once, often = (Threshold(law.law, law.parameters, per, law.clip).sample(u) for per in ("episode", "step"))
    np.testing.assert_array_equal(once, np.repeat(once[:, :1], 4, axis=1))
    np.testing.assert_array_equal(once[:, 0], often[:, 0])


@given(LAWS, st.integers(0, 2**32 - 1))
def test_a_draw_a_step_depends_on_its_own_uniform_only(law: Threshold, seed: int) -> None:
    step = Threshold(law.law, law.parameters, "step", law.clip)
    u = np.random.default_rng(seed).random((3, 4))
    one_by_one = [[step.sample(np.array([[x]]))[0, 0] for x in row] for row in u]
    np.testing.assert_array_equal(step.sample(u), one_by_one)


@given(LAWS, st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=9))
def test_every_sample_is_finite_and_within_the_clip_interval(law: Threshold, uniforms: list[float]) -> None:
    drawn = law.sample(np.array([*uniforms, 0.0, 1.0 - 2.0**-53])[:, None])
    assert np.isfinite(drawn).all()
    assert (drawn == clipped(law, drawn)).all()


@given(UNIFORMS, st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=9))
def test_a_uniform_sample_stays_between_low_and_high(law: Threshold, uniforms: list[float]) -> None:
    low, high = law.parameters
    drawn = Threshold.uniform(low, high).sample(np.array([*uniforms, 1.0 - 2.0**-53])[:, None])
    assert (drawn >= low).all()
    assert (drawn <= high).all()


def test_normal_samples_are_quantiles() -> None:
    u = np.linspace(0.001, 0.999, 99)[:, None]
    np.testing.assert_allclose(Threshold.normal(2.0, 3.0).sample(u), stats.norm(2.0, 3.0).ppf(u), rtol=1e-12)


def test_bernoulli_samples_have_the_given_probability() -> None:
    u = np.arange(1000)[:, None] / 1000
    assert (Threshold.bernoulli(0.3, 5.0).sample(u) == 5.0).sum() == 300


def test_no_episodes_give_no_samples() -> None:
    assert Threshold.normal(0.0, 1.0).sample(np.empty((0, 4))).shape == (0, 4)


def test_samples_do_not_share_memory_with_the_uniforms() -> None:
    u = np.full((2, 2), 0.25)
    drawn = Threshold.uniform(0.0, 1.0, per="step").sample(u)
    u[...] = 0.75
    assert (drawn == 0.25).all()


@pytest.mark.parametrize(
    ("uniforms", "message"),
    [
        ([0.5], r"uniforms has shape \(1,\); it must be \(episodes, H\)"),
        ([[0.5, 1.0]], r"uniforms\[0, 1\] is 1.0; it must lie in \[0, 1\)"),
        ([[-0.1]], r"uniforms\[0, 0\] is -0.1; it must lie in \[0, 1\)"),
        ([[math.nan]], r"uniforms\[0, 0\] is nan; it must be finite"),
    ],
)
def test_uniforms_that_are_none_are_refused(uniforms: Any, message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        Threshold.uniform(0.0, 1.0).sample(uniforms)


# -- reflection -----------------------------------------------------------------------------------------


@given(LAWS, st.integers(1, 20))
def test_the_reflected_law_has_the_reflected_mean(law: Threshold, total: int) -> None:
    assert law.reflected(float(total)).mean == pytest.approx(total - law.mean, abs=1e-12)


@given(LAWS, st.integers(1, 20), st.sampled_from((0.05, 0.3, 0.5, 0.8)))
def test_the_reflected_law_has_the_reflected_quantiles(law: Threshold, total: int, u: float) -> None:
    reflected = law.reflected(float(total)).sample(np.array([[1.0 - u]]))
    if law.law == "two-point" and math.isclose(law.parameters[0], u, abs_tol=1e-12):
        return  # the one point where the distribution function jumps
    np.testing.assert_allclose(reflected, total - law.sample(np.array([[u]])), atol=1e-10)


@given(LAWS)
def test_reflection_keeps_how_often_a_law_is_drawn(law: Threshold) -> None:
    assert law.reflected(3.0).per == law.per


# -- what a law is --------------------------------------------------------------------------------------


def test_laws_are_equal_when_their_numbers_are() -> None:
    assert Threshold.normal(1, 2, clip=[0, 3]) == Threshold.normal(1.0, np.float32(2.0), clip=(0.0, 3.0))


def test_a_law_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Threshold.fixed(1.0).per = "step"  # type: ignore[misc]


@given(LAWS)
def test_a_law_survives_a_pickle(law: Threshold) -> None:
    assert pickle.loads(pickle.dumps(law)) == law  # noqa: S301


@pytest.mark.parametrize(
    "law", [Threshold.normal(1.0, 0.0), Threshold.uniform(1.0, 1.0), Threshold.bernoulli(1.0, 1.0)], ids=repr
)
def test_a_stochastic_law_with_one_value_is_not_fixed(law: Threshold) -> None:
    assert not law.is_fixed


REFUSALS: dict[str, tuple[Any, str]] = {
    "a negative spread": (lambda: Threshold.normal(0, -1), "threshold std is -1.0; it must be at least 0"),
    "a mean that is nan": (lambda: Threshold.normal(math.nan, 1), "threshold mean is nan; it must be finite"),
    "an infinite value": (lambda: Threshold.fixed(math.inf), "threshold value is inf; it must be finite"),
    "a value near overflow": (
        lambda: Threshold.normal(0, 1e200),
        "threshold std is 1e+200; it must be in [-1e+100, 1e+100]",
    ),
    "a value that is a word": (
        lambda: Threshold.fixed("2"),
        "threshold value is '2'; it must be a single number",
    ),
    "a value that is None": (
        lambda: Threshold.fixed(None),
        "threshold value is None; it must be a real number",
    ),
    "a value that is a truth value": (
        lambda: Threshold.fixed(True),
        "threshold value is True; it must be a single number",
    ),
    "a value that is a list": (
        lambda: Threshold.fixed([2.0]),
        "threshold value is [2.0]; it must be a single number",
    ),
    "ends in the wrong order": (
        lambda: Threshold.uniform(2, 1),
        "threshold low is 2.0; it must not exceed high, 1.0",
    ),
    "a probability above one": (
        lambda: Threshold.bernoulli(1.5, 1),
        "threshold p is 1.5; it must be in [0, 1]",
    ),
    "a negative scale": (
        lambda: Threshold.bernoulli(0.5, -1),
        "threshold scale is -1.0; it must be at least 0",
    ),
    "an unknown rhythm": (
        lambda: Threshold.normal(1, 1, per="day"),
        "threshold per is 'day'; it must be 'episode' or 'step'",
    ),
    "a clip interval in the wrong order": (
        lambda: Threshold.normal(1, 1, clip=(2, 1)),
        "threshold clip is (2.0, 1.0); low must not exceed high",
    ),
    "a clip interval with one end": (
        lambda: Threshold.normal(1, 1, clip=(2,)),
        "threshold clip is (2,); it must be 2 numbers: clip[0], clip[1]",
    ),
    "a clip interval that is a number": (
        lambda: Threshold.normal(1, 1, clip=2),
        "threshold clip is 2; it must be 2 numbers: clip[0], clip[1]",
    ),
    "a clip interval that is ragged": (
        lambda: Threshold.normal(1, 1, clip=(1, [2])),
        "threshold clip[1] is [2]; it must be a single number",
    ),
    "an infinite end of a clip interval": (
        lambda: Threshold.normal(1, 1, clip=(0, math.inf)),
        "threshold clip[1] is inf; it must be finite",
    ),
    "an unknown law": (
        lambda: Threshold("cauchy", (0.0, 1.0)),
        "threshold law is 'cauchy'; it must be one of fixed, normal, uniform, two-point",
    ),
    "a law that is a list": (lambda: Threshold([], ()), "threshold law is []; it must be one of"),
    "too few parameters": (
        lambda: Threshold("normal", (1.0,)),
        "threshold parameters is (1.0,); it must be 2 numbers: mean, std",
    ),
    "parameters that are a number": (
        lambda: Threshold("fixed", 1.0),
        "threshold parameters is 1.0; it must be 1 numbers: value",
    ),
    "parameters that are a word": (
        lambda: Threshold("normal", "12"),
        "threshold parameters is '12'; it must be 2 numbers: mean, std",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_field_the_value_and_the_rule(case: str) -> None:
    make, message = REFUSALS[case]
    with pytest.raises(fd.ValidationError) as caught:
        make()
    assert message in str(caught.value)
