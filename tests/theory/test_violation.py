"""Theorem 1's bound on the violation against sums written down again from the paper, in fifty digits."""

import math

import mpmath as mp
import pytest

import flexdome as fd
from flexdome import theory as th

mp.mp.dps = 60
PAPER = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=2.5)
SMALL = fd.Problem(states=3, actions=2, horizon=2, initial=0, thresholds=[1.0], slater_gap=1.0)
MANY = fd.Problem(states=2, actions=3, horizon=3, initial=0, thresholds=[1.0, 1.0], slater_gap=0.9)
TINY = fd.Problem(states=1, actions=2, horizon=1, initial=0, thresholds=[0.5], slater_gap=0.5)
SIXTH = mp.mpf(1) / 6


def parts(problem):
    """sqrt(H^3 C_B), C', H C + D and the box, from the paper."""
    S, A, H, m, X = (
        mp.mpf(x) for x in (problem.states, problem.actions, problem.horizon, problem.constraints, problem.slater_gap)
    )
    c_b = (1 + 8 * m * H / X) * 4 * H * mp.sqrt(2 * S * A) * (H * mp.sqrt(S) + H + 1) + 4 * m * H / X * mp.sqrt(2 * H)
    b = 1 + 4 * m * H / X + mp.log(A)
    step = H * mp.exp(H * b) * (2 * A * H**2 * b**2 + 128 * mp.sqrt(A) / mp.e**2) + m * (H + 4 * H / X) ** 2
    return mp.sqrt(H**3 * c_b), mp.sqrt(2 * H * mp.log(A) + m * (4 * H / X) ** 2), step, 4 * H / X


@pytest.mark.parametrize("start", [1, 2, 4])
@pytest.mark.parametrize("problem", [SMALL, MANY], ids=["small", "many"])
def test_the_first_two_terms_are_between_their_sum_and_one_term_more(problem, start):
    root, first, step, box = parts(problem)
    spare, H, T = (root / 5 - box) / 2, mp.mpf(problem.horizon), 3_000
    found = th.violation_terms(problem, math.log(T), 0.1, start)
    steps = mp.sqrt(H**3 * step * 7 * mp.mpf(2) ** (mp.mpf(2) / 3))

    def initial(t):
        return max(H ** mp.mpf(1.5) * first * (t + 1) ** mp.mpf(-0.5) - spare * mp.mpf(t) ** -SIXTH, mp.mpf(0))

    def optimisation(t):
        return max(steps * mp.mpf(t) ** (-2 * SIXTH) - spare * mp.mpf(t) ** -SIXTH, mp.mpf(0))

    for error, log_bound in ((initial, found.initial), (optimisation, found.optimisation)):
        total = mp.fsum(error(t) for t in range(start, T + 1))
        bound = mp.exp(mp.mpf(log_bound))
        assert total <= bound * (1 + mp.mpf("1e-12"))
        assert bound <= (total + error(start)) * (1 + mp.mpf("1e-12"))
    assert found.regularisation == -math.inf
    burn_in = (start - 1) * problem.horizon
    assert found.burn_in == (pytest.approx(math.log(burn_in)) if burn_in else -math.inf)
    assert found.total == pytest.approx(math.log(math.fsum(math.exp(x) for x in found[:-1])), rel=1e-12)


def test_the_initial_term_is_more_than_zero_where_it_is_looked_at():
    assert th.violation_terms(SMALL, math.log(3_000), 0.1, 1).initial > -math.inf
    assert th.violation_terms(PAPER, math.log(80_000), 0.1, 1).initial == -math.inf


@pytest.mark.parametrize("start", [1, 4, 5, 8])
def test_a_sum_of_one_term_is_that_term(start):
    _, first, *_ = parts(SMALL)
    spare = (parts(SMALL)[0] / 5 - parts(SMALL)[3]) / 2
    H, t = mp.mpf(SMALL.horizon), mp.mpf(start)
    alone = H ** mp.mpf(1.5) * first * (t + 1) ** mp.mpf(-0.5) - spare * t**-SIXTH
    log_t = math.log(start) * (1.0 + 1e-15)  # not less than the logarithm, which is no float
    found = th.violation_terms(SMALL, log_t, 0.1, start).initial
    assert found == (pytest.approx(float(mp.log(alone)), abs=1e-9) if alone > 0 else -math.inf)
    assert alone > 1 if start < 5 else alone < 1 if start == 5 else alone < 0


def test_with_a_plan_beyond_any_the_statistical_term_is_what_log_t_leaves_open():
    root, *_ = parts(TINY)
    size, T = mp.mpf(4 * 1 * 2 * 1), mp.mpf(8) ** 40  # delta = 1
    planned = mp.log(size * T) ** mp.mpf(0.25)

    def error(t, at):
        open_ = 2 * root * planned - mp.mpf(17) / 5 * root * mp.log(size * at) ** mp.mpf(0.25)
        return max(open_ * mp.mpf(t) ** -SIXTH, mp.mpf(0))

    found = th.violation_terms(TINY, float(mp.log(T)), 1.0, 1)
    last = int(mp.floor(mp.exp(mp.mpf(10) ** 4 / mp.mpf(17) ** 4 * mp.log(size * T)) / size))
    assert 3_000 < last < 4_000
    total, bound = mp.fsum(error(t, 1) for t in range(1, last + 1)), mp.exp(mp.mpf(found.statistical))
    assert total <= bound <= total + error(1, 1) + error(last, 1)
    assert mp.fsum(error(t, t) for t in range(1, last + 2)) < bound
    assert th.violation_terms(TINY, float(mp.log(8) * 7), 1.0, 1).statistical == -math.inf


def test_the_statistical_term_knows_the_size_of_the_problem_and_the_burn_in():
    root, *_ = parts(SMALL)
    size, log_T, start = mp.mpf(4 * 3 * 2 * 2) / mp.mpf(0.1), 90.0, 4
    planned = (mp.log(size) + log_T) ** mp.mpf(0.25)
    coefficient = 2 * root * planned - mp.mpf(17) / 5 * root * mp.log(size * start) ** mp.mpf(0.25)
    last = int(mp.floor(mp.exp((mp.log(size) + log_T) * mp.mpf(10) ** 4 / mp.mpf(17) ** 4) / size))
    assert 100 < last < 1_000
    total = mp.fsum(coefficient * mp.mpf(t) ** -SIXTH for t in range(start, last + 1))
    bound = mp.exp(mp.mpf(th.violation_terms(SMALL, log_T, 0.1, start).statistical))
    assert total <= bound <= total + coefficient * (mp.mpf(start) ** -SIXTH + mp.mpf(last) ** -SIXTH)


@pytest.mark.parametrize("problem", [PAPER, MANY], ids=["paper", "many"])
def test_the_statistical_error_decays_as_the_lemma_says(problem):
    root, *_ = parts(problem)
    H = mp.mpf(problem.horizon)
    size = mp.mpf(4 * problem.states * problem.actions * problem.horizon) / mp.mpf(0.1)
    exact = mp.sqrt(2) * root / H ** mp.mpf(1.5) * mp.mpf(500) ** -SIXTH * mp.log(size * 80_000) ** mp.mpf(0.25)
    found = th.statistical_decay(problem, math.log(500), math.log(80_000), 0.1)
    assert found == pytest.approx(float(mp.log(exact)), rel=1e-12)


def test_at_the_papers_size_the_constant_that_the_violation_is_bounded_by_is_10_to_the_67():
    """The integral of A t^(-1/3) - B t^(-1/6) from C'' to (A / B)^6, in closed form."""
    root, _, step, box = parts(PAPER)
    A, B = mp.sqrt(125 * step * 7 * mp.mpf(2) ** (mp.mpf(2) / 3)), (root / 5 - box) / 2
    begin, end = mp.mpf(th.burn_in_episode(PAPER, 0.1)), (A / B) ** 6
    exact = sum(
        sign * (mp.mpf(3) / 2 * A * t ** (4 * SIXTH) - mp.mpf(6) / 5 * B * t ** (5 * SIXTH))
        for sign, t in ((1, end), (-1, begin))
    )
    for digits in (90, 400):
        found = th.violation_terms(PAPER, digits * math.log(10), 0.1)
        assert found.optimisation == pytest.approx(float(mp.log(exact)), rel=1e-12)
        assert found.total / math.log(10) == pytest.approx(67.35, abs=0.01)


@pytest.mark.parametrize("problem", [PAPER, MANY], ids=["paper", "many"])
def test_the_violation_bound_falls_below_t_h_where_it_says(problem):
    start, H = th.violation_bound_start(problem, 0.1), math.log(problem.horizon)
    assert th.violation_terms(problem, start * 1.001, 0.1).total < start * 1.001 + H
    assert th.violation_terms(problem, start * 0.999, 0.1).total > start * 0.999 + H


def test_before_the_burn_in_ends_it_is_all_there_is():
    found = th.violation_terms(PAPER, math.log(80_000), 0.1)
    assert found.total == found.burn_in
    assert set(found[1:-1]) == {-math.inf}


def test_a_gap_so_small_that_the_margin_cannot_hold_its_parts_leaves_the_errors_to_grow():
    """4 H / Xi alone exceeds a fifth of sqrt(H^3 C_B): nothing is left for (a') and (b')."""
    tiny = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=1e-4)
    assert th.margin_parts(tiny).initial < 0
    near, far = (th.violation_terms(tiny, x, 0.1, 1).initial for x in (100.0, 200.0))
    assert far - near == pytest.approx(5 / 6 * 100.0, rel=1e-6)
    assert th.violation_bound_start(tiny, 0.1) == math.inf
