"""Certificates: what each method says is right, and is not said where it is not."""

import math

import numpy as np
import pytest
from tests import naive_certificates as naive

import flexdome as fd
from flexdome.certificates import LowerSequence, Recorded, certify_seen, check_promise, load_episodes, save_episodes
from flexdome.certificates.model_kernels import least_value
from flexdome.certificates.model_set import Seen, model_set, values_over
from flexdome.certificates.promise import broken_promise
from flexdome.errors import FileFormatError, ValidationError


def small(m=1, noise="none", seed=0, thresholds=None, initial=0, S=3, A=2, H=3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(S), size=(H, S, A))
    f = rng.random((1 + m, H, S, A))
    alpha = thresholds if thresholds is not None else [0.3] * m
    return fd.CMDP(p, f[0], f[1:], alpha, initial, noise=noise)


def problem_of(cmdp, **options):
    return cmdp.problem(slater_gap=0.01, **options)


def some_policy(cmdp, seed=1, floor=0.1):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.ones(cmdp.actions), size=(cmdp.horizon, cmdp.states)) + floor
    return pi / pi.sum(axis=-1, keepdims=True)


def in_bounds(certificate, truth):
    low, high = certificate.value
    return (
        low <= truth.value <= high
        and (certificate.lower <= truth.utilities).all()
        and (truth.utilities <= certificate.upper).all()
    )


def episode(log, k):
    return fd.Episode(log.states[k], log.actions[k], log.observed[k, 0], log.observed[k, 1:])


# -- what is said -------------------------------------------------------------------------------------------------


def test_a_safe_policy_is_certified_safe_and_an_unsafe_one_unsafe():
    cmdp = small()
    pi = some_policy(cmdp)
    truth = fd.evaluate(cmdp, pi)
    log = fd.play(pi, cmdp, 3000, seed=2)
    for offset, expected in ((-0.3, "certified safe"), (0.3, "certified unsafe")):
        problem = fd.Problem(3, 2, 3, 0, [truth.utilities[0] + offset], 0.01)
        certificate = fd.certify(pi, problem, log)
        assert [verdict.verdict for verdict in certificate.verdicts] == [expected]
        assert certificate.safe is (offset < 0)
        assert certificate.unsafe is (offset > 0)
        assert in_bounds(certificate, truth)
        assert certificate.verdicts[0].more is None


def test_a_threshold_that_is_met_exactly_is_not_settled():
    cmdp = small()
    pi = some_policy(cmdp)
    truth = fd.evaluate(cmdp, pi)
    problem = fd.Problem(3, 2, 3, 0, truth.utilities, 0.01)
    (verdict,) = fd.certify(pi, problem, fd.play(pi, cmdp, 500, seed=3)).verdicts
    assert verdict.verdict == "not yet"


def test_not_yet_says_how_many_more_episodes_and_is_about_right():
    cmdp = small()
    pi = some_policy(cmdp)
    alpha = fd.evaluate(cmdp, pi).utilities - 0.15
    problem = fd.Problem(3, 2, 3, 0, alpha, 0.01)
    ratios = []
    for seed in range(20):
        log = fd.play(pi, cmdp, 4000, seed=seed)
        first = _first(log, 60)
        (verdict,) = fd.certify(pi, problem, first).verdicts
        sequence = LowerSequence(0.05 / 4, also=alpha / 3)
        path = sequence.path(log.observed[:, 1].mean(axis=1))
        needed = int(np.argmax(path >= alpha[0] / 3)) + 1 - 60
        if verdict.verdict == "not yet" and verdict.more is not None:
            ratios.append(verdict.more / max(needed, 1))
    assert len(ratios) >= 12
    assert 1 / 3 < np.median(ratios) < 3


def _first(log, n):
    return Recorded(log.problem, log.states[:n], log.actions[:n], log.observed[:n], log.thresholds[:n])


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("chosen", [False, True])
def test_of_no_or_one_episode_nothing_is_said(n, chosen):
    cmdp = small()
    pi = some_policy(cmdp)
    certificate = fd.certify(pi, problem_of(cmdp), fd.play(pi, cmdp, n), chosen_from_data=chosen)
    assert certificate.verdicts[0].verdict == "vacuous"
    assert not certificate.safe
    assert not certificate.unsafe
    assert "vacuous" in str(certificate)
    assert certificate.value == (0.0, 3.0)
    assert certificate.episodes == n


def test_a_threshold_of_zero_is_met_by_every_policy_and_one_of_the_horizon_only_by_perfection():
    cmdp = small()
    pi = some_policy(cmdp)
    log = fd.play(pi, cmdp, 1)
    assert fd.certify(pi, fd.Problem(3, 2, 3, 0, [0.0], 0.01), log).safe
    (verdict,) = fd.certify(pi, fd.Problem(3, 2, 3, 0, [3.0], 1e-12), log).verdicts
    assert verdict.verdict == "vacuous"
    perfect = fd.CMDP(np.ones((1, 1, 1)), [[0.5]], [[[1.0]]], [3.0], 0, horizon=3)
    one = np.ones((3, 1, 1))
    (verdict,) = fd.certify(one, fd.Problem(1, 1, 3, 0, [3.0], 1e-12), fd.play(one, perfect, 500)).verdicts
    assert verdict.verdict == "not yet"


@pytest.mark.parametrize("what", ["the reward", "constraint 1", "the threshold of constraint 1"])
def test_any_bounds_that_cross_head_the_certificate_and_withhold_safe_of_all(what):
    sampled = "threshold" in what
    problem = fd.Problem(1, 1, 1, thresholds=[0.2, np.nan if sampled else 0.2])
    n = 400
    high, falling = np.full(n, 0.9), np.repeat([0.9, 0.1], n // 2)
    rewards = falling if what == "the reward" else high
    second = falling if what == "constraint 1" else high
    samples = np.stack([high, falling], axis=1) if sampled else None
    utilities = np.stack([high, second], axis=1)[..., None]
    zeros = np.zeros((n, 1), dtype=np.int64)
    data = Recorded.from_arrays(problem, zeros, zeros, rewards[:, None], utilities, samples)
    said = fd.certify(np.ones((1, 1, 1)), problem, data, threshold_range=(0.0, 1.0))
    head = str(said).splitlines()[0]
    assert said.crossed == (what,)
    assert head.startswith(f"the episodes are not of one policy in one unchanging plant: the bounds of {what} cross")
    assert not said.safe
    assert "certified safe" not in str(said)
    assert said.verdicts[0].lower >= 0.2


def test_a_model_that_is_known_whole_does_not_cross_by_rounding():
    cmdp = fd.make_cmdp("multi-v1", states=7, actions=3, horizon=9)
    problem = cmdp.problem(reveal=("rewards", "utilities", "transitions"))
    for seed in range(20):
        policy = np.random.default_rng(seed).dirichlet(np.ones(3), (9, 7))
        assert fd.certify(policy, problem, [], method="model").crossed == ()


def test_bounds_that_cross_certify_nothing():
    problem = fd.Problem(1, 1, 1, 0, [0.5], 0.1)
    totals = np.r_[np.ones(2000), np.zeros(20_000)][:, None]
    n = totals.size
    log = Recorded.from_arrays(problem, np.zeros((n, 1), int), np.zeros((n, 1), int), totals, totals)
    (verdict,) = fd.certify(np.ones((1, 1, 1)), problem, log).verdicts
    assert verdict.verdict == "not yet"
    assert "cross" in str(verdict)


def test_delta_at_its_limits():
    cmdp = small()
    pi = some_policy(cmdp)
    log, truth = fd.play(pi, cmdp, 3000), fd.evaluate(cmdp, pi)
    widths = []
    for delta in (1.0, 0.05, 1e-100):
        for chosen in (False, True):
            certificate = fd.certify(pi, problem_of(cmdp), log, delta, chosen_from_data=chosen)
            assert certificate.delta == delta
            assert sum(certificate.shares.values()) == pytest.approx(delta, rel=1e-12)
            if not chosen:
                widths.append(certificate.upper[0] - certificate.lower[0])
            if delta < 1.0:
                assert in_bounds(certificate, truth)
    assert widths[0] < widths[1] < widths[2]
    for delta in (0.0, -0.1, 1.1, math.nan, 1e-200):
        with pytest.raises(ValidationError, match="delta is"):
            fd.certify(pi, problem_of(cmdp), log, delta)


def test_three_constraints_each_have_a_verdict():
    cmdp = small(m=3, thresholds=[0.1, 0.1, 0.1])
    pi = some_policy(cmdp)
    truth = fd.evaluate(cmdp, pi)
    alpha = truth.utilities + np.array([-0.4, 0.4, 0.0])
    certificate = fd.certify(pi, fd.Problem(3, 2, 3, 0, alpha, 0.01), fd.play(pi, cmdp, 3000))
    assert [v.verdict for v in certificate.verdicts] == ["certified safe", "certified unsafe", "not yet"]
    assert in_bounds(certificate, truth)
    assert certificate.unsafe
    assert not certificate.safe


@pytest.mark.parametrize("method", ["episodes", "model"])
def test_noise_and_an_initial_distribution_are_no_obstacle(method):
    cmdp = small(noise="bernoulli", initial=[0.2, 0.5, 0.3])
    pi = some_policy(cmdp)
    certificate = fd.certify(pi, problem_of(cmdp), fd.play(pi, cmdp, 4000), method=method)
    assert in_bounds(certificate, fd.evaluate(cmdp, pi))
    assert certificate.upper[0] - certificate.lower[0] < (0.4 if method == "episodes" else 3.0)


# -- who played, and who chose ------------------------------------------------------------------------------------


def test_a_policy_chosen_from_the_data_has_the_model_alone():
    cmdp = small()
    pi = some_policy(cmdp)
    log = fd.play(pi, cmdp, 50)
    assert fd.certify(pi, problem_of(cmdp), log).method == "episodes"
    assert fd.certify(pi, problem_of(cmdp), log, played_by=pi).method == "reweighted"
    chosen = fd.certify(pi, problem_of(cmdp), log, chosen_from_data=True)
    assert chosen.method == "model"
    assert "chosen from the same episodes" in chosen.assumptions
    for method in ("episodes", "reweighted"):
        with pytest.raises(ValidationError, match="must be 'model'"):
            fd.certify(pi, problem_of(cmdp), log, chosen_from_data=True, method=method)
    with pytest.raises(ValidationError, match="played_by is given"):
        fd.certify(pi, problem_of(cmdp), log, played_by=pi, method="episodes")


def test_episodes_that_the_policy_cannot_have_played_are_refused():
    cmdp = small()
    pi = np.zeros((3, 3, 2))
    pi[..., 0] = 1.0
    log = fd.play(some_policy(cmdp), cmdp, 20)
    with pytest.raises(ValidationError, match=r"episodes\[\d+\] takes action 1 in state \d at step \d, which policy"):
        fd.certify(pi, problem_of(cmdp), log)
    with pytest.raises(ValidationError, match="which played_by never does"):
        fd.certify(some_policy(cmdp), problem_of(cmdp), log, played_by=pi)


def test_reweighting_by_oneself_is_the_plain_certificate():
    cmdp = small(m=2, thresholds=[0.3, 0.3])
    pi = some_policy(cmdp)
    log = fd.play(pi, cmdp, 500)
    own, weighted = fd.certify(pi, problem_of(cmdp), log), fd.certify(pi, problem_of(cmdp), log, played_by=pi)
    np.testing.assert_allclose(weighted.lower, own.lower, atol=1e-6)
    np.testing.assert_allclose(weighted.upper, own.upper, atol=1e-6)


def test_weights_are_products_of_ratios_clipped():
    cmdp = small(m=2, thresholds=[0.3, 0.3])
    pi, b = some_policy(cmdp, 1), some_policy(cmdp, 2)
    log = fd.play(b, cmdp, 40)
    for clip in (0.5, 2.0, 1e9):
        certificate = fd.certify(pi, problem_of(cmdp), log, 0.9, played_by=b, clip=clip)
        for j in range(3):
            totals = []
            for k in range(40):
                ratio, total = 1.0, 0.0
                for h in range(3):
                    s, a = log.states[k, h], log.actions[k, h]
                    ratio *= pi[h, s, a] / b[h, s, a]
                    total += min(ratio, clip) * log.observed[k, j, h] / 3.0
                totals.append(total)
            lower = certificate.value[0] if j == 0 else certificate.lower[j - 1]
            near = [lower / 3.0 - 1e-9, lower / 3.0 + 1e-6]
            assert naive.betting(totals, 0.9 / 6, near)[-1] == near[0]


def test_a_policy_for_each_episode_is_that_policy_for_all():
    cmdp = small()
    pi, b = some_policy(cmdp, 1), some_policy(cmdp, 2)
    log = fd.play(b, cmdp, 300)
    one = fd.certify(pi, problem_of(cmdp), log, played_by=b)
    each = fd.certify(pi, problem_of(cmdp), log, played_by=np.repeat(b[None], 300, axis=0))
    assert one.value == each.value
    assert (one.lower == each.lower).all()


def test_what_the_other_policy_never_does_lowers_the_bound_and_does_not_break_it():
    cmdp = small()
    pi = some_policy(cmdp)
    narrow = np.zeros_like(pi)
    narrow[..., 0] = 1.0
    certificate = fd.certify(pi, problem_of(cmdp), fd.play(narrow, cmdp, 3000), played_by=narrow)
    assert in_bounds(certificate, fd.evaluate(cmdp, pi))
    assert certificate.lower[0] > 0.0


# -- coverage -----------------------------------------------------------------------------------------------------


def wrong_runs(method, runs, n, delta, m=1):
    wrong = 0
    for seed in range(runs):
        cmdp = small(m=m, seed=seed % 10, noise="bernoulli" if seed % 2 else "none", thresholds=[0.3] * m)
        pi, b = some_policy(cmdp, 1), some_policy(cmdp, 2)
        log = fd.play(pi if method == "episodes" else b, cmdp, n, seed=seed)
        other = b if method == "reweighted" else None
        certificate = fd.certify(pi, problem_of(cmdp), log, delta, other, method=method)
        wrong += not in_bounds(certificate, fd.evaluate(cmdp, pi))
    return wrong / runs


@pytest.mark.parametrize("method", ["episodes", "reweighted", "model"])
def test_bounds_hold_together_in_all_but_delta_of_the_runs(method):
    assert wrong_runs(method, 100, 200, 0.3) <= 0.3 + 3 * math.sqrt(0.21 / 100)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("method", ["episodes", "reweighted", "model"])
def test_bounds_hold_together_over_thousands_of_runs(method, delta, m):
    runs = 2000
    assert wrong_runs(method, runs, 400, delta, m) <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)


def test_the_best_looking_of_many_policies_is_covered_by_the_model():
    """The winner of a choice from the same data is overestimated by plug-in values, and not by the certificate."""
    wrong, flattered = 0, 0
    for seed in range(30):
        cmdp = small(seed=seed, noise="bernoulli")
        problem = problem_of(cmdp)
        log = fd.play(some_policy(cmdp), cmdp, 60, seed=seed)
        models = model_set(problem, log, 0.2)
        policies = [np.eye(2)[np.random.default_rng(k).integers(2, size=(3, 3))] for k in range(60)]
        centres = [values_over(problem, models, pi)[2][1] for pi in policies]
        best = policies[int(np.argmax(centres))]
        truth = fd.evaluate(cmdp, best).utilities[0]
        certificate = fd.certify(best, problem, log, 0.2, chosen_from_data=True)
        wrong += not certificate.lower[0] <= truth <= certificate.upper[0]
        flattered += max(centres) > truth
    assert flattered > 15
    assert wrong <= 0.2 * 30


# -- the set of models --------------------------------------------------------------------------------------------


def test_the_least_value_over_the_set_is_that_of_a_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(20):
        H, S, A = 3, 4, 2
        p = rng.dirichlet(np.full(S, 0.4), size=(H, S, A))
        p[0, 1, 0] = 0.0
        half = rng.random((H, S, A)) * rng.choice([0.2, 1.3], size=(H, S, A))
        low, mu = rng.random((H, S, A)), rng.dirichlet(np.ones(S))
        pi = rng.dirichlet(np.ones(A), size=(H, S))
        half[0, 1, 0] = np.inf
        ours = least_value(pi, mu, low, p, half, np.zeros((2, S)))
        assert ours == pytest.approx(naive.least_value(pi, mu, low, p, half), abs=1e-8)


def test_widths_are_the_mixtures_at_their_shares():
    cmdp = small(m=2, thresholds=[0.3, 0.3])
    H, S, A, m, delta = 3, 3, 2, 2, 0.1
    log = fd.play(some_policy(cmdp), cmdp, 200)
    visits, nxt, sums = np.zeros((H, S, A)), np.zeros((H, S, A, S)), np.zeros((1 + m, H, S, A))
    for k in range(200):
        for h in range(H):
            at = h, log.states[k, h], log.actions[k, h]
            visits[at] += 1
            sums[(slice(None), *at)] += log.observed[k, :, h]
            if h + 1 < H:
                nxt[(*at, log.states[k, h + 1])] += 1
    models = model_set(problem_of(cmdp), log, delta)
    assert (models.visits == visits).all()
    pairs = (H - 1) * S * A * len(naive.sets_of_states(S))
    for h, s, a in np.ndindex(H - 1, S, A):
        wide = naive.normal_mixture(visits[h, s, a], delta / 2 / pairs, 0.5, 50.0) if visits[h, s, a] else math.inf
        assert models.moved[h, s, a] == pytest.approx(min(wide, 1.0), rel=1e-8)
        if visits[h, s, a]:
            assert models.p[h, s, a] == pytest.approx(nxt[h, s, a] / visits[h, s, a])
    each = delta / 2 / (2 * (1 + m) * H * S * A)
    at = tuple(np.argwhere(visits == visits.max())[0])
    seen = [log.observed[k, 1, at[0]] for k in range(200) if (log.states[k, at[0]], log.actions[k, at[0]]) == at[1:]]
    assert models.low[(1, *at)] == pytest.approx(naive.bernstein(seen, each)[-1], rel=1e-9, abs=1e-12)
    assert models.high[(1, *at)] == pytest.approx(1 - naive.bernstein([1 - x for x in seen], each)[-1], rel=1e-9)
    counted = model_set(problem_of(cmdp), Seen(visits, sums, nxt, np.zeros(m), np.zeros(m), 200), delta)
    assert (counted.moved == models.moved).all()
    wide = naive.normal_mixture(visits[at], 2 * each, 0.5, 50.0)
    assert counted.low[(1, *at)] == pytest.approx(max(sums[(1, *at)] / visits[at] - wide, 0.0), abs=1e-9)
    assert counted.high[(1, *at)] == pytest.approx(min(sums[(1, *at)] / visits[at] + wide, 1.0), abs=1e-9)


def test_steps_that_are_alike_are_counted_together():
    rng = np.random.default_rng(4)
    p, f = rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((2, 3, 2))
    cmdp = fd.CMDP(p, f[0], f[1:], 0.3, 0, horizon=4)
    assert cmdp.stationary
    pi = some_policy(cmdp)
    log = fd.play(pi, cmdp, 2000)
    together = fd.certify(pi, problem_of(cmdp), log, chosen_from_data=True)
    apart_problem = fd.Problem(3, 2, 4, 0, [0.3], 0.01)
    apart = fd.certify(pi, apart_problem, log, chosen_from_data=True)
    truth = fd.evaluate(cmdp, pi)
    assert in_bounds(together, truth)
    assert in_bounds(apart, truth)
    assert together.upper[0] - together.lower[0] < apart.upper[0] - apart.lower[0]


def test_a_learners_steps_that_are_alike_are_counted_together():
    rng = np.random.default_rng(4)
    p, f = rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((2, 3, 2))
    cmdp = fd.CMDP(p, f[0], f[1:], 0.3, 0, horizon=4)
    learner = fd.FlexDOME(problem_of(cmdp), episodes=400)
    fd.simulate(learner, cmdp)
    assert learner.certify().episodes == 400
    assert learner.certify().lower[0] <= fd.evaluate(cmdp, learner.policy).utilities[0] <= learner.certify().upper[0]


def test_what_is_revealed_is_not_in_doubt():
    cmdp = small()
    pi = some_policy(cmdp)
    everything = problem_of(cmdp, reveal=("rewards", "utilities", "transitions"))
    certificate = fd.certify(pi, everything, [], chosen_from_data=True)
    truth = fd.evaluate(cmdp, pi)
    assert certificate.lower[0] == pytest.approx(truth.utilities[0], abs=1e-12)
    assert certificate.upper[0] == pytest.approx(truth.utilities[0], abs=1e-12)
    assert certificate.value == pytest.approx((truth.value, truth.value), abs=1e-12)


def test_one_state_leads_to_itself():
    cmdp = fd.CMDP(np.ones((1, 2, 1)), [[0.2, 0.8]], [[[0.7, 0.1]]], 0.5, 0, horizon=4)
    pi = some_policy(cmdp)
    certificate = fd.certify(pi, problem_of(cmdp), fd.play(pi, cmdp, 3000), chosen_from_data=True)
    truth = fd.evaluate(cmdp, pi)
    assert in_bounds(certificate, truth)
    assert certificate.upper[0] - certificate.lower[0] < 0.1


# -- sampled thresholds -------------------------------------------------------------------------------------------


def test_samples_of_an_unknown_law_say_nothing():
    cmdp = small(thresholds=[fd.Threshold.normal(0.4, 0.5)])
    pi = some_policy(cmdp)
    problem = problem_of(cmdp)
    log = fd.play(pi, cmdp, 2000, problem=problem)
    certificate = fd.certify(pi, problem, log)
    assert certificate.verdicts[0].verdict == "vacuous"
    assert "threshold_range" in str(certificate)
    declared = fd.certify(pi, problem, log, threshold_scale=0.5)
    (verdict,) = declared.verdicts
    assert verdict.threshold_lower <= 0.4 <= verdict.threshold_upper
    assert verdict.verdict == "certified safe"
    assert declared.shares["thresholds"] == pytest.approx(0.05 / 3)


@pytest.mark.parametrize("chosen", [False, True])
def test_samples_in_a_range_are_bounded_on_both_sides(chosen):
    law = fd.Threshold.bernoulli(0.25, 2.0)
    cmdp = small(thresholds=[law, 0.2], m=2)
    pi = some_policy(cmdp)
    problem = problem_of(cmdp)
    log = fd.play(pi, cmdp, 4000, problem=problem)
    certificate = fd.certify(pi, problem, log, threshold_range=(0.0, 2.0), chosen_from_data=chosen)
    sampled, known = certificate.verdicts
    assert 0.4 < sampled.threshold_lower < 0.5 < sampled.threshold_upper < 0.6
    assert known.threshold_lower == known.threshold_upper == 0.2
    with pytest.raises(ValidationError, match=r"thresholds\[\d+, 0\] is 2.0; threshold_range"):
        fd.certify(pi, problem, log, threshold_range=(0.0, 1.0))


def test_sub_gaussian_samples_have_the_normal_mixture_at_their_share():
    cmdp = small(thresholds=[fd.Threshold.normal(1.4, 0.3)])
    problem, pi = problem_of(cmdp), some_policy(cmdp)
    log = fd.play(pi, cmdp, 900, problem=problem)
    width = naive.normal_mixture(900, 2 * 0.06 / 6, 0.3, 50.0)
    for chosen in (False, True):
        (verdict,) = fd.certify(pi, problem, log, 0.06, threshold_scale=0.3, chosen_from_data=chosen).verdicts
        middle = log.thresholds.mean()
        assert verdict.threshold_lower == pytest.approx(middle - width, abs=1e-9)
        assert verdict.threshold_upper == pytest.approx(middle + width, abs=1e-9)


def test_a_learners_samples_are_bounded_from_their_sum():
    cmdp = small(thresholds=[fd.Threshold.uniform(1.0, 2.0)])
    problem, pi = problem_of(cmdp), some_policy(cmdp)
    log = fd.play(pi, cmdp, 900, problem=problem)
    seen = Seen(
        np.zeros((3, 3, 2)),
        np.zeros((2, 3, 3, 2)),
        np.zeros((3, 3, 2, 3)),
        log.thresholds.sum(axis=0),
        np.full(1, 900.0),
        900,
    )
    (verdict,) = certify_seen(np.ones(1), pi[None], problem, seen, 0.06, threshold_range=(1.0, 2.0)).verdicts
    width = naive.normal_mixture(900, 2 * 0.06 / 6, 0.5, 50.0)
    assert verdict.threshold_lower == pytest.approx(log.thresholds.mean() - width, abs=1e-9)
    assert verdict.threshold_upper == pytest.approx(log.thresholds.mean() + width, abs=1e-9)


def test_sampled_thresholds_have_a_forecast():
    cmdp = small(thresholds=[fd.Threshold.uniform(0.0, 2.0)])
    pi = some_policy(cmdp)
    alpha = float(fd.evaluate(cmdp, pi).utilities[0]) - 0.15
    cmdp = small(thresholds=[fd.Threshold.uniform(alpha - 0.5, alpha + 0.5)])
    problem = problem_of(cmdp)
    log = fd.play(pi, cmdp, 200, problem=problem)
    (verdict,) = fd.certify(pi, problem, log, threshold_range=(alpha - 0.5, alpha + 0.5)).verdicts
    assert verdict.verdict == "not yet"
    assert 100 < verdict.more < 100_000


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("threshold_range", (1.0, 1.0), "low must be less"),
        ("threshold_range", (0.0, math.inf), "low must be less"),
        ("threshold_range", [0.0], "has shape"),
        ("threshold_scale", -1.0, "not negative"),
        ("threshold_scale", [1.0, 1.0], "has shape"),
        ("clip", -1.0, "clip is"),
        ("chosen_from_data", 1, "True or False"),
        ("method", "guess", "method is 'guess'"),
    ],
)
def test_options_are_checked(option, value, message):
    cmdp = small(thresholds=[fd.Threshold.normal(0.4, 0.5)])
    problem = problem_of(cmdp)
    pi = some_policy(cmdp)
    with pytest.raises(ValidationError, match=message):
        fd.certify(pi, problem, fd.play(pi, cmdp, 3, problem=problem), **{option: value})


# -- bad input ----------------------------------------------------------------------------------------------------


def test_bad_episodes_are_named():
    cmdp = small()
    problem, pi = problem_of(cmdp), some_policy(cmdp)
    log = fd.play(pi, cmdp, 3)
    good = [episode(log, k) for k in range(3)]
    assert fd.certify(pi, problem, good).value == fd.certify(pi, problem, log).value
    bad = fd.Episode(log.states[0], log.actions[0], [0.1, math.nan, 0.2], log.observed[0, 1:])
    with pytest.raises(ValidationError, match=r"episodes\[1\]: rewards\[1\] is nan"):
        fd.certify(pi, problem, [good[0], bad])
    with pytest.raises(ValidationError, match=r"episodes\[0\] is 3"):
        fd.certify(pi, problem, [3])
    with pytest.raises(ValidationError, match="episodes is 3"):
        fd.certify(pi, problem, 3)
    with pytest.raises(ValidationError, match=r"policy\[0, 0\] sums to"):
        fd.certify(pi * 0.9, problem, good)
    with pytest.raises(ValidationError, match="policy has shape"):
        fd.certify(pi[0], problem, good)
    with pytest.raises(ValidationError, match="problem is a CMDP"):
        fd.certify(pi, cmdp, good)
    with pytest.raises(ValidationError, match=r"\(S, A, H, m\) = \(3, 2, 3, 1\)"):
        fd.certify(np.ones((2, 1, 1)), fd.Problem(1, 1, 2, 0, [0.5], 0.1), log)
    with pytest.raises(ValidationError, match="played_by has shape"):
        fd.certify(pi, problem, good, played_by=pi[None].repeat(2, axis=0))


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("states", lambda x: x + 3, r"states\[0, 0\] is 3"),
        ("actions", lambda x: x.astype(float), "actions has dtype"),
        ("rewards", lambda x: x + 1.0, r"rewards\[0, 0\] is 1"),
        ("utilities", lambda x: x[:, :, :2], "utilities has shape"),
        ("utilities", lambda x: x + math.inf, r"utilities\[0, 0, 0\] is inf"),
        ("rewards", lambda x: x * math.nan, r"rewards\[0, 0\] is nan"),
    ],
)
def test_a_file_of_bad_episodes_is_refused(field, change, message, tmp_path):
    cmdp = small()
    log = fd.play(some_policy(cmdp), cmdp, 4)
    arrays = {
        "states": log.states,
        "actions": log.actions,
        "rewards": log.observed[:, 0],
        "utilities": log.observed[:, 1:],
    }
    arrays[field] = np.ascontiguousarray(change(arrays[field]))
    np.savez(tmp_path / "log.npz", **arrays)
    with pytest.raises(FileFormatError, match=message):
        load_episodes(tmp_path / "log.npz", problem_of(cmdp))


def test_episodes_come_back_from_their_file(tmp_path):
    cmdp = small(m=2, thresholds=[fd.Threshold.normal(0.4, 0.5), 0.3])
    problem, pi = problem_of(cmdp), some_policy(cmdp)
    log = fd.play(pi, cmdp, 7, problem=problem)
    save_episodes(tmp_path / "log.npz", problem, log, played_by=pi)
    again, other = load_episodes(tmp_path / "log.npz", problem)
    for name in ("states", "actions", "observed", "thresholds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(log, name))
    assert (other == pi).all()
    np.savez(tmp_path / "other.npz", states=log.states)
    with pytest.raises(FileFormatError, match="lacks actions"):
        load_episodes(tmp_path / "other.npz", problem)
    (tmp_path / "junk.npz").write_bytes(b"junk")
    with pytest.raises(FileFormatError, match="damaged"):
        load_episodes(tmp_path / "junk.npz", problem)


# -- learners and promises ----------------------------------------------------------------------------------------


def test_what_a_learner_has_seen_is_what_was_played():
    cmdp = small()
    problem, pi = problem_of(cmdp), some_policy(cmdp)
    log = fd.play(pi, cmdp, 300)
    for name in ("flexdome", "optcmdp-bonus"):
        learner = fd.make_learner(name, problem, episodes=300)
        learner.preload([episode(log, k) for k in range(300)])
        seen = learner.seen_counts()
        models, ours = model_set(problem, log, 0.1), model_set(problem, seen, 0.1)
        assert (ours.visits == models.visits).all()
        assert (ours.p == models.p).all()
        np.testing.assert_allclose(ours.mean[:, models.visits > 0], models.mean[:, models.visits > 0], rtol=1e-12)
        certificate = learner.certify(0.1)
        assert certificate.method == "model"
        assert certificate.episodes == 300
        assert in_bounds(certificate, fd.evaluate(cmdp, learner.policy))


def test_fresh_episodes_certify_a_learners_policy():
    cmdp = small(thresholds=[0.5])
    learner = fd.FlexDOME(problem_of(cmdp), episodes=200)
    fd.simulate(learner, cmdp)
    certificate = learner.certify(0.05, fd.play(learner.policy, cmdp, 2000, seed=9))
    assert certificate.method == "episodes"
    assert certificate.safe
    assert in_bounds(certificate, fd.evaluate(cmdp, learner.policy))


def test_a_learner_without_counts_asks_for_episodes():
    class Plain(fd.FlexDOME):
        seen_counts = fd.learners.Learner.seen_counts

    cmdp = small()
    with pytest.raises(ValidationError, match="Plain keeps no counts; pass episodes"):
        Plain(problem_of(cmdp), episodes=5).certify()


@pytest.mark.slow
def test_steps_that_proxdome_shares_are_counted_once():
    rng = np.random.default_rng(4)
    p, f = rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((2, 3, 2))
    cmdp = fd.CMDP(p, f[0], f[1:], 0.3, 0, horizon=4)
    problem, pi = problem_of(cmdp), some_policy(cmdp)
    log = fd.play(pi, cmdp, 200)
    learner = fd.ProxDOME(problem, episodes=300)
    learner.preload([episode(log, k) for k in range(200)])
    models, ours = model_set(problem, log, 0.1), model_set(problem, learner.seen_counts(), 0.1)
    assert (ours.visits == models.visits).all()
    assert (ours.p == models.p).all()
    assert learner.certify().episodes == 200


def test_a_safe_policy_that_is_not_safe_is_found_out():
    cmdp = small()
    pi = some_policy(cmdp)
    truth = fd.evaluate(cmdp, pi).utilities
    log = fd.play(pi, cmdp, 3000)
    problem = fd.Problem(3, 2, 3, 0, truth - 0.2, 0.01)
    assert check_promise(fd.SafePolicy(pi, truth), problem, log).safe
    with pytest.raises(ValidationError, match=r"safe_policy.utilities\[0\] is .* less than what was promised"):
        check_promise(fd.SafePolicy(pi, truth + 0.3), problem, log)
    unsafe = fd.Problem(3, 2, 3, 0, truth + 0.2, 0.01)
    with pytest.raises(ValidationError, match="less than the threshold"):
        check_promise(fd.SafePolicy(pi, truth + 0.3), unsafe, log)


def test_a_broken_promise_is_told_in_the_users_units_with_the_digits_that_show_it():
    drug = fd.Quantity("drug used", 0.0, 150.0, "ml", limit=1350.0)
    units = fd.Problem(1, 1, 16, 0, subject_to=drug).units
    assert str(broken_promise(units, 0, 8.0, 7.9998, 165, 1e-6)) == (
        "safe_policy.utilities[0] is 8, drug used at most 1200 ml; its 165 episodes show at least 1200.03 ml with "
        "confidence 0.999999: more than what was promised"
    )
    plain = broken_promise(fd.Problem(1, 1, 16, 0, [1.0]).units, 0, 8.0, 7.9998, 1, 1e-15, 7.9999)
    assert str(plain) == (
        "safe_policy.utilities[0] is 8; its 1 episode shows at most 7.9998 with confidence 1 - 1e-15: less than the "
        "threshold, 7.9999"
    )


def test_numbers_in_words_are_not_rounded_to_nonsense():
    cmdp = small()
    pi = some_policy(cmdp)
    head = str(fd.certify(pi, problem_of(cmdp), fd.play(pi, cmdp, 1), 1e-15)).splitlines()[0]
    assert head == "not certified (confidence 1 - 1e-15), from 1 episode by method 'episodes'"


# -- samples that are missing -------------------------------------------------------------------------------------


def holed(log, low_alone=False, seed=0):
    """A quarter of all utilities missing, or all that are low: the worst reason there is."""
    observed = log.observed.copy()
    d = observed[:, 1:]
    gone = d < 0.5 if low_alone else np.random.default_rng(seed).random(d.shape) < 0.25
    d[gone] = math.nan
    return [
        fd.Episode(s, a, f[0], f[1:])
        for s, a, f in zip(log.states.tolist(), log.actions.tolist(), observed, strict=True)
    ]


@pytest.mark.parametrize("options", [{}, {"played_by": True}, {"method": "model"}])
def test_a_missing_sample_is_0_from_below_and_1_from_above(options):
    cmdp = small(m=2)
    pi, problem = some_policy(cmdp), problem_of(cmdp)
    given = {**options, **({"played_by": pi} if "played_by" in options else {})}
    episodes = holed(fd.play(pi, cmdp, 400, seed=2))

    def filled(x):
        return [
            fd.Episode(e.states, e.actions, e.rewards, np.where(np.isnan(e.utilities), x, e.utilities))
            for e in episodes
        ]

    holes, zeros, ones = (fd.certify(pi, problem, log, **given) for log in (episodes, filled(0.0), filled(1.0)))
    assert (holes.lower == zeros.lower).all()
    assert (holes.upper == ones.upper).all()
    assert holes.value == zeros.value
    assert "2" in holes.verdicts[0].why
    assert holes.verdicts[0].why.endswith(" % of its samples are missing and count as the worst")
    assert "missing" not in str(zeros)


@pytest.mark.parametrize("options", [{}, {"played_by": True}, {"method": "model"}])
def test_bounds_hold_where_a_sensor_fails_when_things_are_bad(options):
    cmdp = small(m=2)
    pi, problem = some_policy(cmdp), problem_of(cmdp)
    given = {**options, **({"played_by": pi} if "played_by" in options else {})}
    for seed in range(5):
        log = fd.play(pi, cmdp, 2000, seed=seed)
        said = fd.certify(pi, problem, holed(log, low_alone=True), **given)
        assert in_bounds(said, fd.evaluate(cmdp, pi))
        assert (said.lower > 0.0).any()


def test_counts_with_missing_samples_are_those_of_the_worst_case():
    cmdp = small(m=2)
    problem = problem_of(cmdp)
    learners = [fd.make_learner("optcmdp-bonus", problem, episodes=50) for _ in range(3)]
    episodes = holed(fd.play(problem.uniform, cmdp, 300, seed=4))
    for learner, x in zip(learners, (math.nan, 0.0, 1.0), strict=True):
        learner.preload(
            [
                fd.Episode(e.states, e.actions, e.rewards, np.where(np.isnan(e.utilities), x, e.utilities))
                for e in episodes
            ]
        )
    pi = some_policy(cmdp)
    holes, zeros, ones = (
        certify_seen(np.ones(1), pi[None], problem, learner.seen_counts(), 0.1) for learner in learners
    )
    assert (holes.lower == zeros.lower).all()
    np.testing.assert_allclose(holes.upper, ones.upper, rtol=1e-12)
    assert in_bounds(holes, fd.evaluate(cmdp, pi))
