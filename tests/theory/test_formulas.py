"""Every formula against one written down again from the paper, in fifty digits."""

import math

import mpmath as mp
import numpy as np
import pytest

import flexdome as fd
from flexdome import theory as th

mp.mp.dps = 60
PAPER = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=2.5)
ODD = fd.Problem(states=7, actions=3, horizon=4, initial=0, thresholds=[1.0, 1.5, 0.5], slater_gap=0.3)
NARROW = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=0.02)
PROBLEMS = pytest.mark.parametrize("problem", [PAPER, ODD, NARROW], ids=["paper", "odd", "narrow"])
close = {"rel": 1e-12}


def sizes(problem):
    gap = mp.mpf(problem.slater_gap)
    return (mp.mpf(x) for x in (problem.states, problem.actions, problem.horizon, problem.constraints, gap))


def c_b(problem):
    S, A, H, m, X = sizes(problem)
    return (1 + 8 * m * H / X) * (4 * H * mp.sqrt(2 * S * A) * (H * mp.sqrt(S) + H + 1)) + 4 * m * H / X * mp.sqrt(
        2 * H
    )


def big_c(problem, eta, tau):
    _S, A, H, m, X = sizes(problem)
    b = 1 + 4 * m * H / X + tau * mp.log(A)
    return mp.exp(eta * H * b) * (2 * A ** (eta * tau) * H**2 * b**2 + 128 * tau**2 * mp.sqrt(A) / mp.e**2)


def big_d(problem, tau):
    _S, _A, H, m, X = sizes(problem)
    return m * (H + tau * 4 * H / X) ** 2


# -- constants of Lemma 1 --------------------------------------------------------------------------------


@PROBLEMS
@pytest.mark.parametrize(("eta", "tau"), [(1.0, 1.0), (0.01, 0.5), (1e-4, 0.1), (0.5, 0.0)])
def test_the_primal_constant_is_the_lemmas_even_where_no_float_holds_it(problem, eta, tau):
    exact = big_c(problem, mp.mpf(eta), mp.mpf(tau))
    assert th.log_primal_constant(problem, eta, tau) == pytest.approx(float(mp.log(exact)), **close)
    held = float(exact) if exact < mp.mpf("1e300") else math.inf
    assert th.primal_constant(problem, eta, tau) == pytest.approx(held, rel=1e-10)


@PROBLEMS
def test_the_dual_constant_and_the_error_of_a_step_are_the_lemmas(problem):
    eta, tau = mp.mpf(0.001), mp.mpf(0.25)
    assert th.dual_constant(problem, 0.25) == pytest.approx(float(big_d(problem, tau)), **close)
    error = eta**2 / 2 * (problem.horizon * big_c(problem, eta, tau) + big_d(problem, tau))
    assert th.step_error(problem, 0.001, 0.25) == pytest.approx(float(error), **close)


def test_where_the_logarithm_of_the_constant_is_beyond_709_the_constant_is_infinite():
    wide = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=0.1)
    assert 710.0 < th.log_primal_constant(wide, 1.0, 1.0) < 1_400.0
    assert th.primal_constant(wide, 1.0, 1.0) == math.inf
    assert 400.0 < th.log_primal_constant(wide, 0.45, 1.0) < 700.0
    assert th.primal_constant(wide, 0.45, 1.0) < math.inf


@PROBLEMS
def test_the_bounds_on_entropy_to_go_and_on_values_are_the_lemmas(problem):
    _S, A, H, m, X = sizes(problem)
    p = [1.0, 0.25, 1e-9]
    exact = [float(H * mp.log(A) - mp.log(mp.mpf(x))) for x in p]
    np.testing.assert_allclose(th.entropy_to_go_bound(problem.horizon, problem.actions, p), exact, rtol=1e-12)
    tau = mp.mpf(0.3)
    exact = [float(H * (1 + 4 * m * H / X + tau * mp.log(A)) - tau * mp.log(mp.mpf(x))) for x in p]
    np.testing.assert_allclose(th.q_bound(problem, 0.3, p), exact, rtol=1e-12)
    assert th.q_bound(problem, 0.3, 0.0) == math.inf


@PROBLEMS
def test_the_bounds_on_the_drift_are_those_derived(problem):
    """The two of the module's docstring, with other weights and margins for every constraint."""
    _S, A, H, m, X = sizes(problem)
    t, u = mp.mpf(0.5), mp.mpf(0.3)
    n = problem.constraints
    lam = [mp.mpf(k + 1) / 4 for k in range(n)]
    old, new = [mp.mpf(k + 2) / 10 for k in range(n)], [mp.mpf(k + 1) / 16 for k in range(n)]
    norm = lambda v: mp.sqrt(mp.fsum(x**2 for x in v))  # noqa: E731
    heat = (1 + mp.fsum(lam)) * abs(1 / u - 1 / t)
    moved = norm([a - b for a, b in zip(new, old, strict=True)]) + abs(u - t) * norm(lam)
    first = (moved + mp.sqrt(m) * H**3 * heat) / u
    given = (problem, (0.5, 0.3), ([float(x) for x in old], [float(x) for x in new]), [float(x) for x in lam])
    assert th.multiplier_drift_bound(*given) == pytest.approx(float(first), **close)
    ratios = H * (1 + 4 * m * H / X + u * mp.log(A)) / u + mp.log(A)
    second = H**3 * (heat + mp.sqrt(m) * first / u) * ratios + mp.sqrt(m) * 4 * H / X * first
    assert th.potential_drift_bound(*given) == pytest.approx(float(second), **close)


def test_a_margin_beyond_h_makes_the_dual_constant_larger():
    assert th.dual_constant(PAPER, 1.0) == pytest.approx((5 + 8) ** 2)
    assert th.dual_constant(PAPER, 1.0, margin=26_369.0) == pytest.approx((5 + 26_369 + 8) ** 2)


def test_the_exponent_of_the_primal_constant_is_53_in_the_papers_first_episode():
    assert th.composite_bound(PAPER, 1.0) == pytest.approx(5 * (1 + 8 + math.log(5)), **close)
    assert th.dual_side(PAPER) == 8.0


@PROBLEMS
def test_the_first_potential_is_at_most_what_uniform_and_zero_give(problem):
    _S, A, H, m, X = sizes(problem)
    assert th.initial_potential_bound(problem) == pytest.approx(
        float(H * mp.log(A) + m * (4 * H / X) ** 2 / 2), **close
    )


# -- confidence --------------------------------------------------------------------------------------------


@PROBLEMS
def test_the_widths_of_thresholds_are_the_appendixs(problem):
    _S, _A, H, m, _X = sizes(problem)
    one = mp.sqrt(H * mp.log(2 / mp.mpf(0.1)) / (2 * 37))
    assert th.threshold_width(problem.horizon, 37, 0.1) == pytest.approx(float(one), **close)
    many = mp.sqrt(H * mp.log(2 * m * 1000 / mp.mpf(0.1)) / (2 * 37))
    assert th.uniform_threshold_width(problem, 37, 1000, 0.1) == pytest.approx(float(many), **close)


@PROBLEMS
def test_the_estimation_errors_are_bounded_as_in_the_lemma(problem):
    S, A, H, m, X = sizes(problem)
    T, Tp, delta = mp.mpf(80_000), mp.mpf(500), mp.mpf(0.1)
    L_r, L_p = mp.log(2 * S * A * H * (m + 1) * T / (delta / 4)) / 2, 2 * S + 2 * mp.log(S * A * H * T / (delta / 4))
    G = 6 * H * S * A + 2 * H * mp.sqrt(S * A * Tp) + 2 * H * S * A * mp.log(Tp) + 5 * mp.log(2 * H * Tp / delta)
    assert th.visit_bound(problem, 500, 0.1) == pytest.approx(float(G), **close)
    found = th.estimation_bounds(problem, 500, 80_000, 0.1)
    mean = (2 * mp.sqrt(L_r) + 2 * H * mp.sqrt(L_p)) * G
    entropy = 2 * H * mp.log(A) * mp.sqrt(L_p) * G
    assert found == pytest.approx((float(mean), float(mean), float(entropy)), **close)
    whole = mean + 8 * m * H / X * mean + entropy + 4 * m * H / X * mp.sqrt(2 * H * mp.log(2 * m * T / delta) * Tp)
    assert th.discrepancy_bound_complete(problem, 500, 80_000, 0.1) == pytest.approx(float(whole), **close)
    leading = c_b(problem) * mp.sqrt(Tp * mp.log(S * A * H * T / (delta / 4)))
    assert th.discrepancy_bound(problem, 500, 80_000, 0.1) == pytest.approx(float(leading), **close)


@PROBLEMS
def test_the_corrected_constant_adds_the_entropy_with_its_logarithm(problem):
    """The leading T' term of the lemma's bound on the entropy error, sqrt(L_p) split as the paper splits it."""
    S, A, H, _m, _X = sizes(problem)
    added = 2 * H * mp.log(A) * (mp.sqrt(2 * S) + mp.sqrt(2)) * 2 * H * mp.sqrt(S * A)
    found = th.corrected_error_constant(problem) - th.error_constant(problem)
    assert found == pytest.approx(float(added), rel=1e-9)


# -- Theorem 1, term by term -------------------------------------------------------------------------------


@PROBLEMS
@pytest.mark.parametrize(("delta", "scale"), [(0.1, 1.0), (0.01, 1e-3), (1.0, 1e-4)])
def test_the_burn_in_ends_with_the_very_first_episode_of_a_small_margin(problem, delta, scale):
    S, A, H, _m, X = sizes(problem)

    def margin(t):
        coefficient = mp.mpf(scale) * mp.mpf(18) / 5 * mp.sqrt(H**3 * c_b(problem))
        return coefficient * mp.mpf(t) ** (-mp.mpf(1) / 6) * mp.log(4 * S * A * H * t / mp.mpf(delta)) ** mp.mpf(0.25)

    t = th.burn_in_episode(problem, delta, scale)
    assert margin(t) <= X / 2
    assert t == 1 or margin(t - 1) > X / 2
    assert float(t) == pytest.approx(th.burn_in(problem, delta, scale), rel=1e-8, abs=1.0)


def test_a_margin_of_nothing_has_no_burn_in():
    assert th.burn_in_episode(PAPER, 0.1, 0.0) == 1
    assert th.burn_in_episode(PAPER, 0.1) == th.burn_in_episode(PAPER, 0.1, 1.0)  # as stated, nothing is scaled


@PROBLEMS
def test_the_coefficients_of_section_4_4(problem):
    _S, A, H, m, X = sizes(problem)
    phi = H * mp.log(A) + m * (4 * H / X) ** 2 / 2
    step = H * big_c(problem, mp.mpf(1), mp.mpf(1)) + big_d(problem, mp.mpf(1))
    expected = (mp.sqrt(H**3 * 2 * phi), mp.sqrt(H**3 * step), mp.sqrt(2 * H**3), 4 * H / X)
    assert th.coefficients(problem) == pytest.approx([float(mp.log(x)) for x in expected], **close)
    K = 3 * mp.sqrt(7) / mp.mpf(2) ** (mp.mpf(2) / 3) * H ** mp.mpf(1.5) * mp.sqrt(step)
    assert th.log_optimisation_coefficient(problem) == pytest.approx(float(mp.log(K)), **close)


@PROBLEMS
def test_the_terms_of_the_regret_add_up(problem):
    S, A, H, _m, X = sizes(problem)
    T, delta = mp.mpf(10) ** 30, mp.mpf(0.1)
    root = mp.log(S * A * H * T / (delta / 4)) ** mp.mpf(0.25)
    c = [mp.exp(mp.mpf(x)) for x in th.coefficients(problem)]
    start = th.burn_in_episode(problem, 0.1)
    expected = [
        (start - 1) * H,
        c[0] * 2 * mp.sqrt(2 * T),
        mp.exp(th.log_optimisation_coefficient(problem)) * T ** (mp.mpf(2) / 3),
        mp.mpf(12) / 5 * mp.sqrt(2 * H**3 * c_b(problem)) * root * T ** (mp.mpf(5) / 6),
        mp.mpf(6) / 5 * mp.log(A) * H * T ** (mp.mpf(5) / 6),
        H / X * mp.mpf(18) / 5 * mp.sqrt(H**3 * c_b(problem)) * root * mp.mpf(6) / 5 * T ** (mp.mpf(5) / 6),
    ]
    found = th.regret_terms(problem, float(mp.log(T)), 0.1)
    assert found[:-1] == pytest.approx([float(mp.log(x)) for x in expected], rel=1e-10)
    assert found.total == pytest.approx(float(mp.log(mp.fsum(expected))), rel=1e-10)


@PROBLEMS
def test_the_regret_bound_falls_below_t_h_where_it_says(problem):
    start, H = th.regret_bound_start(problem, 0.1), math.log(problem.horizon)
    assert th.regret_terms(problem, start * 1.001, 0.1).total < start * 1.001 + H
    assert th.regret_terms(problem, start * 0.999, 0.1).total > start * 0.999 + H


def test_the_regret_bound_speaks_from_10_to_the_45_on_at_the_papers_size():
    assert th.regret_bound_start(PAPER, 0.1) / math.log(10) == pytest.approx(45.5, abs=0.2)


@PROBLEMS
def test_the_parts_of_the_margin_add_up_to_at_most_the_margin(problem):
    parts = th.margin_parts(problem)
    rest = parts.initial + parts.optimisation + parts.regularisation
    assert parts.statistical + rest == pytest.approx(th.margin_coefficient(problem), **close)


def test_the_optimisation_error_is_below_its_part_of_the_margin_from_10_to_the_78_on_only():
    """C as the proof takes it, at the first episode."""
    initial, optimisation = th.dominance_episodes(PAPER)
    assert initial == 0.0
    c2 = mp.sqrt(mp.mpf(5) ** 3 * (5 * big_c(PAPER, mp.mpf(1), mp.mpf(1)) + big_d(PAPER, mp.mpf(1))))
    spare = (mp.sqrt(125 * c_b(PAPER)) / 5 - 8) / 2
    exact = (c2 * mp.sqrt(7 * mp.mpf(2) ** (mp.mpf(2) / 3)) / spare) ** 6
    assert optimisation == pytest.approx(float(mp.log(exact)), rel=1e-10)
    assert 77 < optimisation / math.log(10) < 79


@pytest.mark.parametrize("start", [1, 2, 4])
def test_the_burn_in_of_the_regret_is_what_every_learner_loses_at_most(start):
    skipped = th.regret_terms(PAPER, 20.0, 0.1, start)[0]
    assert skipped == (pytest.approx(math.log((start - 1) * 5)) if start > 1 else -math.inf)


@pytest.mark.parametrize("actions", [1, 2])
def test_entropy_costs_regret_where_there_is_a_choice(actions):
    one = fd.Problem(states=3, actions=actions, horizon=2, initial=0, thresholds=[1.0], slater_gap=1.0)
    cost = th.regret_terms(one, 20.0, 0.1, 1)[4]
    expected = math.log(6 / 5 * 2 * math.log(2)) + 20.0 * 5 / 6
    assert cost == (pytest.approx(expected, rel=1e-12) if actions == 2 else -math.inf)


def test_a_part_of_the_margin_that_is_not_positive_covers_nothing_and_a_large_one_all():
    def one_step(states, actions=2):
        return fd.Problem(states=states, actions=actions, horizon=1, initial=0, thresholds=[0.0], slater_gap=1.0)

    assert -1.0 < th.margin_parts(one_step(1)).initial < 0.0 < th.margin_parts(one_step(3)).initial < 1.0
    assert th.dominance_episodes(one_step(1)) == (math.inf, math.inf)
    spare = (mp.sqrt(c_b(one_step(3))) / 5 - 4) / 2
    initial, optimisation = th.dominance_episodes(one_step(3))
    c1 = mp.sqrt(2 * (mp.log(2) + 8))
    at = mp.exp(mp.mpf(initial))
    assert float(c1 * (at + 1) ** mp.mpf(-0.5) / (spare * at ** (-mp.mpf(1) / 6))) == pytest.approx(1.0, rel=1e-9)
    assert optimisation < math.inf
    assert th.dominance_episodes(one_step(10**6, 100), 1e-9, 1e-9) == (0.0, 0.0)


def test_the_margins_log_t_covers_the_bounds_log_t_of_the_last_episode_until_about_10_to_the_31():
    size = mp.mpf(4 * 20 * 5 * 5) / mp.mpf(0.1)
    edge = mp.log(size) * ((mp.mpf(17) / 10) ** 4 - 1)
    assert 31 < float(edge / mp.log(10)) < 32
    assert th.statistical_dominance_episode(PAPER, float(edge) * 0.999, 0.1) == 0.0
    assert th.statistical_dominance_episode(PAPER, 2 * float(edge), 0.1) == pytest.approx(
        float((mp.mpf(10) / 17) ** 4 * edge), rel=1e-9
    )


# -- rates -------------------------------------------------------------------------------------------------


def test_the_initial_term_decays_as_the_root_of_t_up_to_any_episode():
    t = np.array([1.0, 2.0, 10.0, 1e6, 1e27])
    expected = [float(mp.exp(-mp.harmonic(mp.mpf(x)) / 2)) for x in t]
    np.testing.assert_allclose(th.initial_decay(t), expected, rtol=1e-12)
    assert th.initial_decay(1e27) * math.sqrt(1e27) == pytest.approx(math.exp(-np.euler_gamma / 2), rel=1e-10)


def test_the_optimisation_sum_tends_to_three_and_stays_below_its_constant():
    t = np.arange(1, 20_001)
    sums = th.optimisation_sums(t ** (-5 / 6), t ** (-1 / 6))
    slow = [
        sum(j ** (-5 / 3) * math.exp(-sum(1 / k for k in range(j + 1, n + 1))) for j in range(1, n + 1))
        for n in (1, 2, 7)
    ]
    np.testing.assert_allclose(sums[[0, 1, 6]], slow, rtol=1e-12)
    scaled = sums * t ** (2 / 3)
    assert scaled.max() < th.OPTIMISATION_CONSTANT == pytest.approx(11.11, abs=0.01)
    assert scaled[-1] == pytest.approx(3.0, abs=0.1)


def test_the_weights_of_the_statistical_error_fall_twice_before_they_rise():
    t = np.arange(1, 61)
    weights = th.step_weights(t ** (-5 / 6), t ** (-1 / 6))
    slow = [j ** (-5 / 6) * math.exp(-sum(1 / k for k in range(j + 1, 61))) for j in t]
    np.testing.assert_allclose(weights, slow, rtol=1e-12)
    ratio = weights[1:] / weights[:-1]
    assert ratio[:2] == pytest.approx([0.9254, 0.9955], abs=1e-4)
    assert (ratio[2:] > 1).all()


def test_the_recursive_sum_of_constant_schedules_is_geometric():
    eta, tau, t = 0.1**3, 0.1, 5_000
    slow = mp.fsum(mp.mpf(eta) ** 2 * mp.exp(-(t - j) * mp.mpf(eta) * mp.mpf(tau)) for j in range(1, t + 1))
    assert th.recursive_sum(eta, tau, t) == pytest.approx(float(slow), rel=1e-12)
    assert th.recursive_sum(eta, 0.0, t) == pytest.approx(t * eta**2)
    limits = [th.recursive_sum_limit(e**3, e) / e**2 for e in (0.1, 0.01, 0.001)]
    assert limits == pytest.approx([1.0, 1.0, 1.0], rel=1e-4)
    assert th.recursive_sum(eta, tau, 10**9) == pytest.approx(th.recursive_sum_limit(eta, tau), rel=1e-12)
    with pytest.raises(fd.ValidationError, match="without contraction"):
        th.recursive_sum_limit(0.1, 0.0)


def test_dominance_starts_where_two_powers_cross():
    assert th.dominance_start(lambda x: 3.0 - 0.5 * x, lambda x: -x / 6.0) == pytest.approx(9.0)
    assert th.dominance_start(lambda x: -1.0 - x, lambda x: 0.0) == 0.0
    assert th.dominance_start(lambda x: 1.0, lambda x: 0.0) == math.inf


# -- Lemmas 1 and 2 as formulas ----------------------------------------------------------------------------


def test_lemma_1_is_the_sum_it_is_stated_as():
    rng = np.random.default_rng(0)
    eta, tau, error, delta = rng.random((4, 12))
    slow = []
    for t in range(1, 13):
        decay = [math.exp(-sum(eta[k] * tau[k] for k in range(j + 1, t))) for j in range(t)]
        start = math.exp(-sum(eta[k] * tau[k] for k in range(t))) * 0.7
        slow.append(start + sum(decay[j] * (error[j] + eta[j] * delta[j]) for j in range(t)))
    np.testing.assert_allclose(th.convergence_bound(0.7, eta, tau, error, delta), slow, rtol=1e-12)
    with pytest.raises(fd.ValidationError, match="they must all be"):
        th.convergence_bound(0.7, eta, tau, error[:3])


def test_a_step_whose_error_no_float_holds_makes_the_bound_infinite_from_there_on():
    bound = th.convergence_bound(0.7, [0.5, 0.5, 0.5], [1.0, 1.0, 1.0], [0.1, math.inf, 0.1])
    assert np.isinf(bound).tolist() == [False, True, True]


def test_one_step_contracts_and_adds():
    assert th.contraction(2.0, 0.5, 0.1, 0.3, delta=0.4) == pytest.approx(0.95 * 2 + 0.3 + 0.2)
    assert th.contraction(2.0, 0.5, 0.1, 0.3) == pytest.approx(0.95 * 2 + 0.3)


@PROBLEMS
def test_lemma_2_is_its_two_lines(problem):
    _S, A, H, _m, X = sizes(problem)
    phi, tau, eps = 0.02, 0.1, 0.05
    first = H ** mp.mpf(1.5) * mp.sqrt(2 * mp.mpf(phi)) + mp.mpf(tau) * H * mp.log(A) + H / X * mp.mpf(eps)
    second = H ** mp.mpf(1.5) * mp.sqrt(2 * mp.mpf(phi)) + mp.mpf(tau) * 4 * H / X - mp.mpf(eps)
    assert th.reward_bound(problem, phi, tau, eps) == pytest.approx(float(first), **close)
    assert th.violation_bound(problem, phi, tau, eps) == pytest.approx(float(second), **close)
    assert th.violation_bound(problem, 0.0, 0.0, 1.0) == 0.0


def test_the_multiplier_is_inside_its_box_once_the_weight_is_below_one_over_log_a():
    half = PAPER.slater_gap / 2
    assert th.dual_optimum_bound(PAPER, 0.999 / math.log(5), half) < th.dual_side(PAPER)
    assert th.dual_optimum_bound(PAPER, 1.001 / math.log(5), half) > th.dual_side(PAPER)
    assert th.dual_optimum_bound(PAPER, 0.1, 2.5) == math.inf


# -- Theorem 2 ---------------------------------------------------------------------------------------------


@PROBLEMS
@pytest.mark.parametrize(("eta", "tau", "steps"), [(0.001, 0.1, 40_000), (1e-5, 0.05, 700)])
def test_the_last_iterates_bounds_are_the_appendixs(problem, eta, tau, steps):
    _S, A, H, m, X = sizes(problem)
    e, w, t, margin = mp.mpf(eta), mp.mpf(tau), mp.mpf(steps), mp.mpf(0.07)
    first = H ** mp.mpf(1.5) * mp.exp(-t * e * w / 2) * mp.sqrt(2 * (H * mp.log(A) + m * (4 * H / X) ** 2 / 2))
    total = e**2 * (1 - mp.exp(-t * e * w)) / (1 - mp.exp(-e * w))
    steps_add = H ** mp.mpf(1.5) * mp.sqrt((H * big_c(problem, e, w) + big_d(problem, w)) * total)
    found = th.last_iterate_terms(problem, eta, tau, 0.07, steps)
    expected = (first, steps_add, w * H * mp.log(A), H / X * margin, w * 4 * H / X)
    assert found == pytest.approx([float(x) for x in expected], rel=1e-10)
    assert found.gap == pytest.approx(float(sum(expected[:4])), rel=1e-10)
    need = float(expected[0] + expected[1] + expected[4])
    assert th.zero_violation_margin(problem, eta, tau, steps) == pytest.approx(need, rel=1e-10)
    assert found.violation(0.5 * need) == pytest.approx(0.5 * need, rel=1e-10)
    assert found.violation(1.01 * need) == 0.0


def test_where_no_float_holds_the_constant_the_last_iterates_bound_is_infinite():
    assert th.last_iterate_terms(NARROW, 1.0, 0.5, 0.0, 10).optimisation == math.inf
    assert th.last_iterate_terms(PAPER, 0.0, 0.5, 0.0, 10).optimisation == 0.0
