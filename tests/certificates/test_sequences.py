"""Confidence sequences: the kernels equal the papers' formulas, and cover."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive_certificates as naive

from flexdome.certificates import LowerSequence, Sequence, kernels
from flexdome.certificates.model_kernels import count_all
from flexdome.certificates.sequences import betting_grid, betting_lower
from flexdome.errors import ValidationError

METHODS = ("betting", "bernstein")
LAWS = {
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "narrow": (lambda rng, n: rng.beta(20, 5, n), 0.8),
    "rare": (lambda rng, n: (rng.random(n) < 0.05).astype(float), 0.05),
    "coin": (lambda rng, n: (rng.random(n) < 0.5).astype(float), 0.5),
}


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=25), st.floats(1e-6, 0.9))
def test_both_kernels_equal_the_formulas_of_the_paper(xs, a):
    betting = LowerSequence(a, points=16)
    np.testing.assert_allclose(betting.path(xs), naive.betting(xs, a, betting.grid[0].tolist()), rtol=1e-12, atol=0)
    np.testing.assert_allclose(LowerSequence(a, "bernstein").path(xs), naive.bernstein(xs, a), rtol=1e-9, atol=1e-12)


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=25), st.floats(1e-3, 0.9))
def test_all_at_once_is_the_limit_of_ever_finer_grids(xs, a):
    bound = betting_lower(np.array(xs), a)
    grid = LowerSequence(a, points=512)
    grid.extend(xs)
    assert grid.bound <= bound + 1e-6
    assert bound <= grid.bound + 1 / 512 + 1e-6
    if bound > 0.0:
        assert naive.betting(xs, a, [bound - 1e-9])[-1] > 0.0
    if bound < 1.0 - 1e-6:
        assert naive.betting(xs, a, [bound + 1e-6])[-1] == 0.0


def test_all_at_once_tells_the_capital_against_a_mean():
    xs = np.random.default_rng(0).random(40)
    state = np.zeros(kernels.SIZE)
    bound, capital = kernels.betting_bound(state, xs, -math.log(0.1), 0.45, np.empty(40))
    assert capital == pytest.approx(naive.capital(xs.tolist(), 0.45, 0.1)[-1], rel=1e-12)
    assert state[kernels.COUNT] == 40
    assert state[kernels.TOTAL] == pytest.approx(xs.sum())
    assert state[kernels.BOUND] == bound


def test_both_sides_at_once_are_two_sequences():
    xs = np.random.default_rng(0).random(200)
    low, high = (LowerSequence(0.1, "bernstein") for _ in range(2))
    both = np.zeros((1, 1, 1, 1, kernels.SIZE))
    count_all(
        np.zeros((200, 2), int), np.zeros((200, 1), int), xs[:, None, None], -math.log(0.1), np.zeros((1, 1, 1)),
        np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 1, 1)), both,
    )  # fmt: skip
    low.extend(xs)
    high.extend(1.0 - xs)
    assert both[0, 0, 0, 0, kernels.BOUND] == pytest.approx(low.bound, rel=1e-12)
    assert both[0, 0, 0, 0, kernels.MISSING] == pytest.approx(high.bound, rel=1e-12)


def test_observations_above_one_follow_the_formulas_too():
    xs = [0.0, 3.0, 0.2, 0.0, 7.5, 0.1, 0.0, 0.4, 1.0, 2.0]
    betting = LowerSequence(0.3, points=16)
    np.testing.assert_allclose(betting.path(xs), naive.betting(xs, 0.3, betting.grid[0].tolist()), rtol=1e-12)
    np.testing.assert_allclose(LowerSequence(0.3, "bernstein").path(xs), naive.bernstein(xs, 0.3), rtol=1e-9)


def test_two_steps_by_hand():
    a = math.exp(-2.0)  # l = 2
    s = LowerSequence(a, "bernstein")
    # t = 1: lam = sqrt(4 / (0.25 log 2)) cut at 1/2, m_0 = 1/2
    price = 0.25 * (math.log(2.0) - 0.5)
    assert s.path([1.0])[0] == max(0.0, (0.5 - 2.0 - price) / 0.5)
    assert s.state[kernels.BETS] == 0.5
    assert s.state[kernels.PRICE] == pytest.approx(price, rel=1e-15)
    grid = LowerSequence(a, points=2)
    grid.path([1.0, 1.0])
    # against 1/2 the bet is cut at 1: 1 + 1 * (1 - 1/2); then lam_2 = sqrt(4 / (0.3125 log 3)) > 1 as well
    assert grid.capital[0] == pytest.approx(1.5**2, rel=1e-15)
    grid.path([1.0, 1.0])
    assert grid.bound == 0.0
    grid.path([1.0])  # 1.5^5 = 7.59 > e^2
    assert grid.bound == 0.5


@pytest.mark.parametrize("method", METHODS)
def test_one_by_one_is_all_at_once(method):
    xs = np.random.default_rng(3).random(300)
    slow, fast = LowerSequence(0.1, method), LowerSequence(0.1, method)
    for x in xs:
        slow.update(x)
    fast.extend(xs[:100])
    fast.extend(xs[100:])
    assert slow.bound == fast.bound
    assert (slow.state == fast.state).all()
    assert slow.count == 300


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", LAWS)
def test_a_lower_bound_is_right_at_all_times_in_all_but_delta_of_the_runs(method, law):
    draw, mean = LAWS[law]
    _covers(method, draw, mean, runs=200, n=300)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_a_lower_bound_covers_over_thousands_of_runs(method, law, delta):
    draw, mean = LAWS[law]
    _covers(method, draw, mean, runs=4000, n=2000, delta=delta)


def _covers(method, draw, mean, runs, n, delta=0.2, really=None):
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(runs):
        sequence = LowerSequence(really or delta, method, points=256, also=[mean])
        sequence.extend(draw(rng, n))
        wrong += sequence.bound >= mean if method == "betting" else sequence.bound > mean
    assert wrong / runs <= delta + 3.0 * math.sqrt(delta * (1.0 - delta) / runs)


def test_a_sequence_of_six_times_the_level_fails_the_check_of_coverage():
    draw, mean = LAWS["coin"]
    with pytest.raises(AssertionError):
        _covers("betting", draw, mean, runs=400, n=1000, delta=0.05, really=0.3)


@pytest.mark.parametrize("method", METHODS)
def test_bounds_close_in_on_the_mean(method):
    xs = 2.0 + 3.0 * np.random.default_rng(1).beta(4, 4, 20_000)
    sequence = Sequence(0.05, 2.0, 5.0, method)
    lower, upper = sequence.path(xs)
    assert (np.diff(lower) >= 0.0).all()
    assert (np.diff(upper) <= 0.0).all()
    assert 3.45 < sequence.lower < 3.5 < sequence.upper < 3.55
    assert sequence.count == 20_000


def test_a_mean_of_interest_is_refuted_off_the_grid_too():
    coarse = LowerSequence(0.05, points=4, also=[0.6, 0.7, 1.5, -1.0])
    coarse.extend(np.full(400, 0.72))
    assert coarse.bound == 0.7
    assert coarse.grid[0].tolist() == [0.25, 0.5, 0.6, 0.7, 0.75]


def test_a_worthless_capital_is_given_up_and_the_bound_stays_right():
    sequence = LowerSequence(0.05)
    sequence.extend(np.zeros(200_000))
    assert sequence.bound == 0.0
    assert sequence.state[kernels.DEAD] > 400
    sequence.extend(np.ones(1000))
    assert 0.0 <= sequence.bound < 0.01


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf])
def test_a_bad_observation_is_refused_whole(bad):
    sequence = Sequence(0.05)
    sequence.extend([0.5])
    with pytest.raises(ValidationError, match=r"xs\[1\] is"):
        sequence.extend([0.5, bad])
    assert sequence.count == 1


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan, 1e-310])
def test_a_level_that_says_nothing_is_refused(delta):
    with pytest.raises(ValidationError, match="delta is"):
        LowerSequence(delta)


def test_levels_at_their_limits():
    for delta in (1e-100, 1.0):
        sequence = Sequence(delta)
        sequence.extend(np.tile([0.4, 0.6], 5000))
        assert 0.2 < sequence.lower < 0.5 < sequence.upper < 0.8


def test_a_grid_has_two_points_at_least():
    with pytest.raises(ValidationError, match="points is 1"):
        betting_grid(1)


@pytest.mark.parametrize("n", [1.0, 30.0, 4000.0])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_normal_mixture_is_where_its_martingale_is_large(n, scale):
    width = kernels.mixture_width(n, -math.log(0.02), scale, 50.0)
    assert width == pytest.approx(naive.normal_mixture(n, 0.02, scale, 50.0), rel=1e-9)


def test_the_normal_mixture_covers_both_sides_at_all_times():
    rng, n, runs = np.random.default_rng(2), np.arange(1, 1001), 400
    width = np.array([kernels.mixture_width(float(k), -math.log(0.3), 2.0, 50.0) for k in n])
    means = rng.normal(0.0, 2.0, (runs, n.size)).cumsum(axis=1) / n
    assert (np.abs(means) >= width).any(axis=1).mean() <= 0.3 + 3 * math.sqrt(0.21 / runs)


def test_what_is_promised_of_more_episodes_is_about_right():
    rng = np.random.default_rng(8)
    for target in (0.40, 0.45, 0.47):
        ratios = []
        for _ in range(20):
            sequence = LowerSequence(0.01, also=[target])
            sequence.extend(rng.beta(2, 2, 50))
            at = int(np.searchsorted(sequence.grid[0], target))
            more = kernels.episodes_needed(
                sequence.state, math.log(sequence.capital[at]), target, sequence.log_level, 1e12
            )
            needed = 0
            while sequence.bound < target and needed < 100_000:
                sequence.update(rng.beta(2, 2))
                needed += 1
            if 0 < needed and more < 1e12:
                ratios.append(max(more, 1.0) / needed)
        assert len(ratios) >= 10
        assert 0.3 < np.median(ratios) < 3.0
