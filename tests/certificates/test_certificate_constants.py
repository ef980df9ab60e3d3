"""Every number in the formulas of a certificate, held to one that was found another way."""

import math

import numpy as np
import pytest
from tests import naive_certificates as naive

import flexdome as fd
from flexdome.certificates import LowerSequence, Recorded, certify_mixture, certify_seen, kernels, weight_kernels
from flexdome.certificates.methods import _model_more, _sampled_more, _Side
from flexdome.certificates.model_set import Seen
from flexdome.certificates.sequences import betting_lower
from flexdome.certificates.thresholds import as_laws
from flexdome.certificates.verdict import NOT_YET, SAFE, UNSAFE, Verdict, decide
from flexdome.cmdp.units import Units
from flexdome.errors import ValidationError

H = 2
ONE = np.ones((H, 1, 1))


def lower(xs, a):
    """The largest mean that betting refutes at level a, by bisection: the capital falls in the mean."""
    xs = list(map(float, xs))
    lam = naive.bets(xs, a)

    def refuted(mean):
        capital = best = 1.0
        for bet, x in zip(lam, xs, strict=False):
            capital *= 1.0 + min(bet, 0.5 / mean) * (x - mean)
            best = max(best, capital)
        return best >= 1.0 / a

    low, high = 0.0, 1.0
    for _ in range(45):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def one_state(thresholds, utilities, rewards=None, samples=None):
    """A problem of one state, one action and two steps, and n episodes with ``utilities`` (n, m, 2)."""
    problem = fd.Problem(1, 1, H, 0, thresholds, 1e-12)
    d = np.asarray(utilities, dtype=float)
    n = d.shape[0]
    none = np.zeros((n, H), int)
    r = np.full((n, H), 0.5) if rewards is None else rewards
    return problem, Recorded.from_arrays(problem, none, none, r, d, samples)


# -- episodes of the policy itself --------------------------------------------------------------------------------


def test_every_side_has_one_share_of_delta():
    rng = np.random.default_rng(0)
    d, r = rng.random((50, 2, H)), rng.random((50, H)) ** 2
    problem, log = one_state([0.9, 0.5], d, r)
    said = fd.certify(ONE, problem, log, 0.3)
    each = 0.3 / 6
    for (low, high), x in zip(
        [said.value, *zip(said.lower, said.upper, strict=True)], [r, d[:, 0], d[:, 1]], strict=True
    ):
        mean = x.sum(axis=1) / 2
        assert low == pytest.approx(2 * lower(mean, each), abs=1e-6)
        assert high == pytest.approx(2 - 2 * lower(1 - mean, each), abs=1e-6)
    assert said.shares == pytest.approx({"value": 0.1, "utilities": 0.2, "thresholds": 0.0}, rel=1e-12)
    assert said.episodes == 50
    assert [verdict.constraint for verdict in said.verdicts] == [0, 1]


def test_a_sampled_threshold_takes_two_shares_and_one_that_is_only_unknown_none():
    rng = np.random.default_rng(1)
    d, samples = rng.random((50, 3, H)), np.tile(rng.random((50, 1)), (1, 3))
    problem, log = one_state([math.nan, math.nan, 0.3], d, samples=samples)
    said = fd.certify(ONE, problem, log, 0.3, threshold_range=[(-1.0, 1.5), (math.nan, math.nan), (0.0, 1.0)])
    each = 0.3 / 10
    assert said.shares == pytest.approx({"value": 2 * each, "utilities": 6 * each, "thresholds": 2 * each}, rel=1e-12)
    sampled, silent, known = said.verdicts
    unit = (samples[:, 0] + 1.0) / 2.5
    assert sampled.threshold_lower == pytest.approx(max(2.5 * lower(unit, each) - 1.0, 0.0), abs=1e-6)
    assert sampled.threshold_upper == pytest.approx(1.5 - 2.5 * lower(1.0 - unit, each), abs=1e-6)
    assert sampled.why == ""
    assert (silent.threshold_lower, silent.threshold_upper, silent.verdict) == (0.0, 2.0, "vacuous")
    assert "threshold_range" in silent.why
    assert (known.threshold_lower, known.threshold_upper) == (0.3, 0.3)
    assert known.lower == pytest.approx(2 * lower(d[:, 2].mean(axis=1), each), abs=1e-6)


def test_a_threshold_that_is_refuted_settles_it_however_little_is_between():
    x = np.random.default_rng(2).random(60)
    d = np.stack([x, x], axis=-1)[:, None]
    each = 0.1 / 4
    for alpha, verdict in (
        (2 * lower(x, each) - 2e-9, "certified safe"),
        (2 * lower(x, each) + 2e-9, "not yet"),
        (2 - 2 * lower(1 - x, each) + 2e-9, "certified unsafe"),
        (2 - 2 * lower(1 - x, each) - 2e-9, "not yet"),
    ):
        problem, log = one_state([alpha], d)
        (said,) = fd.certify(ONE, problem, log, 0.1).verdicts
        assert said.verdict == verdict
        assert bool(said.lower >= alpha) is (verdict == "certified safe")
        assert bool(said.upper < alpha) is (verdict == "certified unsafe")
        assert said.lower == pytest.approx(2 * lower(x, each), abs=1e-6)
        assert said.upper == pytest.approx(2 - 2 * lower(1 - x, each), abs=1e-6)


def test_a_threshold_that_is_refuted_is_not_lost_to_the_rounding_of_nineteenths():
    x, policy = np.random.default_rng(2).random(60), np.ones((19, 1, 1))
    each, none = 0.1 / 4, np.zeros((60, 19), int)
    d = np.repeat(x[:, None], 19, axis=1)
    for end, verdict in ((19 * lower(x, each) - 3e-8, "safe"), (19 - 19 * lower(1 - x, each) + 3e-8, "unsafe")):
        near = [end + k * 1e-12 * (1 if verdict == "unsafe" else -1) for k in range(400)]
        if verdict == "safe":
            lost = [alpha for alpha in near if 19.0 * (alpha / 19.0) < alpha]
        else:
            lost = [alpha for alpha in near if 19.0 * (1.0 - (1.0 - alpha / 19.0)) >= alpha]
        for alpha in lost[:3]:
            problem = fd.Problem(1, 1, 19, 0, [alpha], 1e-12)
            (said,) = fd.certify(policy, problem, Recorded.from_arrays(problem, none, none, d, d), 0.1).verdicts
            assert said.verdict == f"certified {verdict}"
        assert lost


def test_the_bounds_on_the_reward_know_nothing_of_thresholds():
    x = np.random.default_rng(2).random(60)
    r, each = np.stack([x, x], axis=-1), 0.1 / 4
    values = set()
    for alpha in (0.1, 2 * lower(x, each) - 2e-9, 2 - 2 * lower(1 - x, each) + 2e-9):
        problem, log = one_state([alpha], r[:, None], r)
        values.add(fd.certify(ONE, problem, log, 0.1).value)
    assert len(values) == 1


def test_no_threshold_is_refuted_by_nothing():
    problem, log = one_state([2.0, 0.0], np.zeros((0, 2, H)))
    perfect, free = fd.certify(ONE, problem, log, 0.5).verdicts
    assert (perfect.lower, perfect.upper, perfect.verdict) == (0.0, 2.0, "vacuous")
    assert (free.lower, free.upper, free.verdict) == (0.0, 2.0, "certified safe")


# -- one observation ----------------------------------------------------------------------------------------------


def test_means_are_cut_at_one_where_observations_are_above():
    xs = [2.0, 1.5, 0.0, 3.0, 2.5, 1.0, 2.0, 4.0]
    for method, naive_path in (("bernstein", naive.bernstein(xs, 0.4)), ("betting", None)):
        sequence = LowerSequence(0.4, method, points=8)
        path = sequence.path(xs)
        means = [min((0.5 + sum(xs[:i])) / (i + 1), 1.0) for i in range(1, 9)]
        squares = sum((x - mean) ** 2 for x, mean in zip(xs, means, strict=True))
        assert sequence.state[kernels.SQUARES] == pytest.approx(squares, rel=1e-12)
        if naive_path:
            assert path[-1] > 0.3
            np.testing.assert_allclose(path, naive_path, rtol=1e-9)


def test_a_capital_of_one_over_the_level_refutes():
    level = math.log(8.0)
    grid = np.array([[0.25, 0.5, 0.75], [2.0, 1.0, 2 / 3]])
    for factor, bound in ((1.0, 0.5), (1.0 - 1e-12, 0.25)):
        state, capital = np.zeros(kernels.SIZE), np.array([9.0, np.exp(level) * factor, 1.0])
        assert kernels.betting(state, capital, grid, 0.5, level) == bound  # against 0.5 the capital stays
    xs = np.array([1.0])  # the capital against 0.4 is 1 + (0.5 / 0.4) 0.6
    for level, reached in ((math.log(1.75), True), (math.log(1.75) + 1e-9, False)):
        bound, capital = kernels.betting_bound(np.zeros(kernels.SIZE), xs, level, 0.4, np.empty(1))
        assert capital == pytest.approx(1.75, rel=1e-15)
        assert bool(bound >= 0.4) is reached


def test_of_a_grid_that_is_worthless_no_more_is_given_up_than_there_is():
    sequence = LowerSequence(0.05, points=2)
    sequence.extend(np.zeros(2000))
    assert sequence.state[kernels.DEAD] == 1.0
    assert sequence.capital[0] < 1e-200
    sequence.extend(np.ones(50))
    assert (sequence.bound, sequence.state[kernels.DEAD]) == (0.0, 1.0)


def test_nothing_is_known_of_a_mean_without_observations():
    assert kernels.mixture_width(0.0, 3.0, 0.5, 50.0) == math.inf
    assert kernels.betting_bound(np.zeros(kernels.SIZE), np.zeros(0), 3.0, 0.5, np.empty(0)) == (0.0, 1.0)


def test_a_refuted_mean_is_found_within_9_to_the_minus_7():
    rng = np.random.default_rng(5)
    for _ in range(60):
        xs, a = rng.random(12), float(rng.uniform(0.05, 0.6))
        exact = lower(xs, a)
        assert exact - 9.0**-7 - 1e-12 <= betting_lower(xs, a) <= exact + 1e-12


@pytest.mark.parametrize("target", [0.0, 1.0, 1.5, -0.5, math.nan])
def test_a_target_that_no_bet_is_made_against_is_not_refuted(target):
    bound, capital = kernels.betting_bound(np.zeros(kernels.SIZE), np.full(40, 3.0), 1.0, target, np.empty(40))
    assert capital == 1.0
    assert 0.99 < bound < 1.0


# -- how many more ------------------------------------------------------------------------------------------------


def needed(n, total, squares, log_capital, mean, level):
    """As many steps as the docstring says, each of one episode or of a thirty-second of those there are."""
    ahead, spread, grown, t = total / n - mean, (1 / 4 + squares) / (n + 1), 1 / 4 + squares, n
    while log_capital < level:
        step = max(1, t // 32)
        bet = min(math.sqrt(2 * level / grown / math.log(t + 2)), 1 / mean / 2)
        log_capital += step * (bet * ahead - bet**2 / 2 * (spread + ahead**2))
        grown += step * spread
        t += step
    return t - n


@pytest.mark.parametrize(
    ("n", "mean", "squares", "target", "log_capital"),
    [
        (20, 0.62, 1.1, 0.5, 0.3),
        (20, 0.95, 0.02, 0.85, 0.0),
        (40, 0.9, 0.3, 0.8, -1.0),
        (1000, 0.52, 60.0, 0.5, 0.7),
        (5000, 0.31, 400.0, 0.3, -2.0),
        (30, 0.9, 0.4, 0.2, 4.59),
    ],
)
def test_the_forecast_is_its_recursion(n, mean, squares, target, log_capital):
    state = np.zeros(kernels.SIZE)
    state[[kernels.COUNT, kernels.TOTAL, kernels.SQUARES]] = n, n * mean, squares
    level = math.log(100.0)
    found = kernels.episodes_needed(state, log_capital, target, level, 1e12)
    assert found == needed(n, n * mean, squares, log_capital, target, level) > 0
    assert kernels.episodes_needed(state, level + 0.1, target, level, 1e12) == 0.0
    assert kernels.episodes_needed(state, log_capital, mean + 0.01, level, 777.0) == 777.0
    assert kernels.episodes_needed(state, log_capital, target, level, 0.5) == 0.5
    assert kernels.episodes_needed(state, log_capital, target, level, found + 0.5) == found


def test_a_forecast_of_few_observations_knows_how_many_they_are():
    state = np.zeros(kernels.SIZE)
    state[[kernels.COUNT, kernels.TOTAL, kernels.SQUARES]] = 1.0, 0.7, 0.1
    assert kernels.episodes_needed(state, -6.0, 0.3, 0.3, 1e12) == needed(1, 0.7, 0.1, -6.0, 0.3, 0.3) == 95


def test_a_capital_that_is_enough_needs_no_more_unless_the_mean_is_not_ahead():
    state = np.zeros(kernels.SIZE)
    state[[kernels.COUNT, kernels.TOTAL, kernels.SQUARES]] = 20.0, 10.0, 1.0
    assert kernels.episodes_needed(state, 3.0, 0.4, 3.0, 777.0) == 0.0
    for mean in (0.5, 0.6):
        assert kernels.episodes_needed(state, 4.0, mean, 3.0, 777.0) == 777.0


def test_a_forecast_begins_with_the_capital_that_there_is_against_the_threshold():
    x = np.tile([0.5, 0.7], 15)
    problem, log = one_state([1.1], np.stack([x, x], axis=-1)[:, None])
    (verdict,) = fd.certify(ONE, problem, log, 0.04).verdicts
    capital = naive.capital(x.tolist(), 0.55, 0.01)[-1]
    means = np.array([(0.5 + x[:i].sum()) / (i + 1) for i in range(1, 31)])
    expected = needed(30, x.sum(), ((x - means) ** 2).sum(), math.log(capital), 0.55, math.log(100.0))
    assert verdict.more == expected
    problem, log = one_state([1.3], np.stack([x, x], axis=-1)[:, None])  # the same from the other side
    (verdict,) = fd.certify(ONE, problem, log, 0.04).verdicts
    capital = naive.capital((1 - x).tolist(), 0.35, 0.01)[-1]
    assert verdict.more == needed(30, (1 - x).sum(), ((x - means) ** 2).sum(), math.log(capital), 0.35, math.log(100.0))


@pytest.mark.parametrize("scale", [0.01, 4.0])
@pytest.mark.parametrize("level", [0.4, 0.2])
def test_the_forecast_for_a_sampled_threshold_is_that_of_the_slower_half(scale, level):
    x, alpha = np.tile([level, level + 0.2], 20), np.tile([0.7, 0.9], 20)
    problem, log = one_state([math.nan], np.stack([x, x], axis=-1)[:, None], samples=alpha[:, None])
    (verdict,) = fd.certify(ONE, problem, log, 0.06, threshold_scale=scale).verdicts
    share, unit = 0.06 / 6, level + 0.1
    room = abs(unit - 0.4)  # 0.1 above, or 0.1 below
    side = x if unit > 0.4 else 1 - x
    means = np.array([(0.5 + side[:i].sum()) / (i + 1) for i in range(1, 41)])
    need = needed(40, side.sum(), ((side - means) ** 2).sum(), 0.0, side.mean() - room / 2, -math.log(share))
    count = 40.0
    while naive.normal_mixture(count, 2 * share, scale, 50.0) > room:  # half the room, times H
        count *= 1.1
    assert (need > count - 40) is (scale < 1.0)
    assert verdict.more == int(max(need, count - 40))


@pytest.mark.parametrize("target", [0.0, 1.0, 1.5])
def test_no_number_is_named_against_a_mean_that_no_bet_is_made_against(target):
    for x in (0.5, 1.8):
        assert _Side(np.full(9, x), 3.0, target).more() == 1e12
        assert _Side(np.full(9, x), 3.0, 0.3).more(target) == 1e12
    assert _Side(np.full(9, 0.5), 3.0, 0.3).more() < 1e12
    assert _Side(np.zeros(0), 3.0, 0.3).more() == 1e12


def test_one_episode_is_enough_for_a_forecast():
    assert _Side(np.array([0.9]), 3.0, 0.3).more() == needed(1, 0.9, 0.04, math.log(1.0 + 0.6 * 5 / 3), 0.3, 3.0) > 0
    laws = as_laws(fd.Problem(1, 1, H, 0, [math.nan], 0.1), None, 0.5)
    sides = [_Side(np.array([x]), 3.0, math.nan) for x in (0.9, 0.1)]
    more = _sampled_more(laws, 0, np.array([[0.6]]), sides, 0.01, 2.0)
    assert more == pytest.approx(max(needed(1, 0.9, 0.04, 0.0, 0.6, 3.0), 1.1**32 - 1.0))
    assert naive.normal_mixture(1.1**32, 0.02, 0.5, 50.0) < 0.6 < naive.normal_mixture(1.1**31, 0.02, 0.5, 50.0)
    assert _sampled_more(laws, 0, np.zeros((0, 1)), sides, 0.01, 2.0) == 1e12


@pytest.mark.parametrize("first", [True, False])
def test_a_known_and_a_sampled_threshold_have_each_its_own_forecast(first):
    x, alpha = np.tile([0.4, 0.6], 20), np.tile([0.7, 0.9], 20)
    d = np.stack([x, x], axis=-1)[:, None]
    (alone,) = fd.certify(ONE, *one_state([math.nan], d, samples=alpha[:, None]), 0.06, threshold_scale=1.0).verdicts
    problem, log = one_state([1.1], d)
    (known,) = fd.certify(ONE, problem, log, 0.04).verdicts
    thresholds, both = ([math.nan, 1.1] if first else [1.1, math.nan]), np.repeat(d, 2, axis=1)
    problem, log = one_state(thresholds, both, samples=np.stack([alpha, alpha], axis=-1))
    said = fd.certify(ONE, problem, log, 0.08, threshold_scale=1.0).verdicts  # 0.01 for each side, as above
    assert [verdict.more for verdict in said] == ([alone.more, known.more] if first else [known.more, alone.more])
    assert None not in (alone.more, known.more)
    assert alone.more != known.more


def test_half_the_width_of_a_range_is_its_scale_in_a_forecast():
    x, alpha = np.tile([0.6, 0.8], 20), np.tile([0.7, 0.9], 20)
    log = {}
    for declared in ({"threshold_scale": 4.0}, {"threshold_range": (-3.5, 4.5)}):
        problem, episodes = one_state([math.nan], np.stack([x, x], axis=-1)[:, None], samples=alpha[:, None])
        (verdict,) = fd.certify(ONE, problem, episodes, 0.06, **declared).verdicts
        log[next(iter(declared))] = verdict.more
    assert log["threshold_scale"] == log["threshold_range"] > 1000


def test_no_number_is_named_where_utility_and_threshold_are_one():
    x = np.tile([0.25, 0.75], 20)
    problem, log = one_state([math.nan], np.stack([x, x], axis=-1)[:, None], samples=np.ones((40, 1)))
    (verdict,) = fd.certify(ONE, problem, log, 0.06, threshold_scale=0.1).verdicts
    assert verdict.verdict == "not yet"
    assert verdict.more is None


@pytest.mark.parametrize(
    ("centre", "bounds", "alpha", "more"),
    [
        (0.6, (0.4, 0.9), (0.5, 0.5), 300.0),  # (0.2 / 0.1)^2 - 1
        (0.6, (0.4, 0.9), (0.2, 0.55), 1500.0),  # (0.2 / 0.05)^2 - 1
        (0.3, (0.1, 0.6), (0.5, 0.7), 125.0),  # (0.3 / 0.2)^2 - 1
        (0.5, (0.1, 0.6), (0.5, 0.5), 1e12),
        (0.5, (0.1, 0.6), (0.4, 0.6), 1e12),
    ],
)
def test_widths_over_models_fall_like_one_over_the_root(centre, bounds, alpha, more):
    assert _model_more(100, centre, bounds, alpha) == pytest.approx(more, rel=1e-9)
    assert _model_more(0, centre, bounds, alpha) == 1e12


# -- weights, mixtures, and who cannot have played ----------------------------------------------------------------


def two_actions(n=3, H=2, S=2, m=1):
    problem = fd.Problem(S, 2, H, 0, [0.5] * m, 0.01)
    states = np.zeros((n, H), int)
    actions = np.zeros((n, H), int)
    return problem, states, actions, np.full((n, H), 0.5), np.full((n, m, H), 0.5)


def test_weights_end_at_100_unless_told():
    problem, s, a, r, d = two_actions(40, H=1)
    r /= 250.0
    pi, b = np.zeros((1, 2, 2)), np.zeros((1, 2, 2))
    pi[..., 0], b[..., 0], b[..., 1] = 1.0, 1 / 1024, 1023 / 1024
    a[4:] = 1
    log = Recorded.from_arrays(problem, s, a, r, d)
    said = {
        clip: fd.certify(pi, problem, log, 0.9, b, **({} if clip is None else {"clip": clip}))
        for clip in (None, 99.0, 100.0, 101.0)
    }
    assert said[None].value == said[100.0].value
    assert said[99.0].value[0] != said[100.0].value[0] != said[101.0].value[0]


def test_the_first_episode_that_a_policy_cannot_have_played_is_named():
    for at in (0, 0), (0, 1), (2, 0), (1, 1):
        problem, s, a, r, d = two_actions()
        s[at], a[at] = (0 if at[1] == 0 else 1), 1
        pi = np.zeros((2, 2, 2))
        pi[..., 0] = 1.0
        log = Recorded.from_arrays(problem, s, a, r, d)
        rule = rf"episodes\[{at[0]}\] takes action 1 in state {s[at]} at step {at[1]}, which "
        with pytest.raises(ValidationError, match=rule + "policy never does"):
            fd.certify(pi, problem, log)
        each = np.stack([pi, pi, pi])
        with pytest.raises(ValidationError, match=rule + "played_by never does"):
            fd.certify(pi, problem, log, played_by=each)
        each[at[0]] = 0.5
        assert fd.certify(pi, problem, log, played_by=each).method == "reweighted"


def test_two_episodes_have_the_weights_of_their_own_policies():
    _, s, a, r, d = two_actions(2, H=1)
    a[1] = 1
    pi = np.full((1, 2, 2), 0.5)
    own = np.array([[[[0.8, 0.2]] * 2], [[[0.1, 0.9]] * 2]])
    totals = np.empty((2, 2, 2))
    weight_kernels.weighted_totals(pi, own, s, a, np.stack([r, d[:, 0]], axis=1), 9.0, totals)
    np.testing.assert_allclose(totals, np.broadcast_to([0.5 * 0.5 / 0.8, 0.5 * 0.5 / 0.9], (2, 2, 2)))
    own[1, ..., 1], own[1, ..., 0] = 0.0, 1.0
    assert weight_kernels.impossible(own, s, a) == 1


def test_a_mixture_may_have_played_what_one_of_its_policies_does():
    problem, s, a, r, d = two_actions(5, m=2)
    a[1:3] = 1
    policies = np.zeros((2, 2, 2, 2))
    policies[0, ..., 0] = policies[1, ..., 1] = 1.0
    log = Recorded.from_arrays(problem, s, a, r, d)
    mixed = certify_mixture(policies, problem, log, 0.1)
    assert mixed.value == fd.certify(np.full((2, 2, 2), 0.5), problem, log, 0.1).value
    assert mixed.method == "episodes"
    with pytest.raises(ValidationError, match=r"episodes\[1\] takes action 1 in state 0 at step 0, which policy"):
        certify_mixture(policies[:1], problem, log, 0.1)
    wide = np.zeros((3, 2, 2, 2))
    wide[..., 0] = 1.0
    wide[2, 1] = 0.5  # the third of them, in the second step
    with pytest.raises(ValidationError, match=r"episodes\[1\] takes action 1 in state 0 at step 0"):
        certify_mixture(wide, problem, log, 0.1)


def test_policies_of_the_players_are_one_or_one_for_each():
    problem, s, a, r, d = two_actions(3, H=2, S=2)
    log = Recorded.from_arrays(problem, s, a, r, d)
    pi = np.full((2, 2, 2), 0.5)
    for given in (pi, np.stack([pi] * 3), pi.tolist(), np.stack([pi] * 3).tolist(), pi.astype(np.float32)):
        assert fd.certify(pi, problem, log, played_by=given).value == fd.certify(pi, problem, log).value
    for bad in (pi[None], np.stack([pi] * 2), pi[:, :, :1], pi[None, None]):
        with pytest.raises(ValidationError, match="played_by has shape"):
            fd.certify(pi, problem, log, played_by=bad)
    for bad in (0.9 * pi, 0.9 * np.stack([pi] * 3)):
        with pytest.raises(ValidationError, match=r"played_by.* sums to"):
            fd.certify(pi, problem, log, played_by=bad)


def test_rows_of_the_players_are_rows_over_actions():
    problem, s, a, r, d = two_actions(3, H=1, S=3)
    log = Recorded.from_arrays(problem, s, a, r, d)
    pi = np.full((1, 3, 2), 0.5)
    assert fd.certify(pi, problem, log, played_by=pi).method == "reweighted"
    folded = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]).reshape(1, 3, 2)  # two rows of three would be distributions
    with pytest.raises(ValidationError, match=r"played_by\[0, 2\] sums to 0"):
        fd.certify(pi, problem, log, played_by=folded)


# -- samples that are missing -------------------------------------------------------------------------------------


def test_how_much_is_missing_is_said_of_each_constraint():
    d = np.full((8, 3, H), 0.5)
    d[:4, 0, 0] = math.nan
    d[0, 2, 1] = math.nan
    problem, log = one_state([0.5, 0.5, 0.5], d)
    first, second, third = fd.certify(ONE, problem, log).verdicts
    assert first.why.endswith("25 % of its samples are missing and count as the worst")
    assert "missing" not in second.why
    assert third.why.endswith("6.25 % of its samples are missing and count as the worst")
    gone = np.zeros((4, H, 1, 1))
    gone[1, 0], gone[3, 1] = 3.0, 1.0
    seen = Seen(
        np.full((H, 1, 1), 8.0), np.full((4, H, 1, 1), 2.0), np.array([8.0, 0.0]).reshape(H, 1, 1, 1), np.zeros(3),
        np.zeros(3), 8, gone,
    )  # fmt: skip
    first, second, third = certify_seen(np.ones(1), ONE[None], problem, seen, 0.05).verdicts
    assert first.why.endswith("18.8 % of its samples are missing and count as the worst")
    assert "missing" not in second.why
    assert third.why.endswith("6.25 % of its samples are missing and count as the worst")


def test_one_sample_that_is_missing_of_one_is_all_of_them():
    problem = fd.Problem(1, 1, 1, 0, [0.5], 0.1)
    gone = np.array([0.0, 1.0]).reshape(2, 1, 1, 1)
    seen = Seen(np.ones((1, 1, 1)), np.zeros((2, 1, 1, 1)), np.zeros((1, 1, 1, 1)), np.zeros(1), np.zeros(1), 1, gone)
    (verdict,) = certify_seen(np.ones(1), np.ones((1, 1, 1, 1)), problem, seen, 0.05).verdicts
    assert verdict.why.endswith("; 100 % of its samples are missing and count as the worst")
    nothing = seen._replace(visits=np.zeros((1, 1, 1)), missing=np.zeros((2, 1, 1, 1)), episodes=0)
    (verdict,) = certify_seen(np.ones(1), np.ones((1, 1, 1, 1)), problem, nothing, 0.05).verdicts
    assert "missing" not in verdict.why


# -- verdicts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "alpha", "verdict"),
    [
        ((0.5, 0.9), (0.4, 0.5), "certified safe"),
        ((0.5, 0.9), (0.4, 0.5 + 1e-9), "not yet"),
        ((0.1, 0.4), (0.4, 0.5), "not yet"),
        ((0.1, 0.4 - 1e-9), (0.4, 0.5), "certified unsafe"),
        ((0.6, 0.6), (0.6, 0.6), "certified safe"),
        ((0.7, 0.6), (0.1, 0.2), "not yet"),
        ((0.0, 4.0), (0.4, 0.5), "vacuous"),
        ((3e-12, 4.0 - 3e-12), (0.4, 0.5), "vacuous"),
        ((5e-12, 4.0), (0.4, 0.5), "not yet"),
        ((0.0, 4.0 - 5e-12), (0.4, 0.5), "not yet"),
        ((0.0, 4.0), (0.0, 0.0), "certified safe"),
    ],
)
def test_a_verdict_turns_where_its_rule_says(bounds, alpha, verdict):
    said = decide(2, Units(None, (), 4), bounds, alpha, 7.9)
    assert said.verdict == verdict
    assert (said.constraint, said.lower, said.upper) == (2, *bounds)
    assert (said.threshold_lower, said.threshold_upper) == alpha
    assert said.more == (7 if verdict == "not yet" and bounds[0] <= bounds[1] else None)
    assert ("cross" in said.why) is (bounds[0] > bounds[1])


def test_a_number_of_episodes_is_one_at_least_and_named_up_to_10_to_the_12():
    for more, named in ((0.2, 1), (1.0, 1), (2.0, 2), (1e12 - 1.0, 10**12 - 1), (1e12, None)):
        assert decide(0, Units(None, (), 1), (0.2, 0.8), (0.5, 0.5), more).more == named
    silent = decide(0, Units(None, (), 1), (0.2, 0.8), (0.0, 1.0), 5.0, "nothing is known")
    assert (silent.verdict, silent.why, silent.more) == ("vacuous", "nothing is known", None)


def test_a_verdict_tells_of_more_episodes_where_they_would_help():
    told = {
        (verdict, more, why): str(Verdict(0, verdict, 0.2, 0.8, 0.5, 0.5, more, why))
        for verdict in ("not yet", "certified safe")
        for more in (None, 1234)
        for why in ("", "the bounds cross")
    }
    for (verdict, more, why), text in told.items():
        assert ("about 1,234 more episodes would settle it" in text) is (verdict == "not yet" and more is not None)
        assert ("no number of such episodes" in text) is (verdict == "not yet" and more is None and not why)
        assert text.endswith("; the bounds cross") is bool(why)


def test_a_verdict_tells_of_confidence_and_of_bounds():
    assert "threshold 0.5" in str(Verdict(0, "not yet", 0.2, 0.8, 0.5, 0.5))
    assert "threshold in" in str(Verdict(0, "not yet", 0.2, 0.8, 0.4, 0.5))
    problem, log = one_state([0.5], np.full((300, 1, H), 0.9))
    assert str(fd.certify(ONE, problem, log, 0.25)).startswith("safe with confidence 0.75,")
    problem, log = one_state([0.5], np.full((300, 1, H), 0.1))
    assert str(fd.certify(ONE, problem, log, 0.25)).startswith("UNSAFE with confidence 0.75,")
    problem, log = one_state([0.5], np.full((3, 1, H), 0.25))
    assert str(fd.certify(ONE, problem, log, 0.25)).startswith("not certified (confidence 0.75)")


def test_the_rounding_of_a_mean_puts_no_sample_outside_of_its_range():
    """Three times 0.1 have a mean above 0.1, and three times 1.4 one below 1.4."""
    problem = fd.Problem(2, 2, 3, 0, [math.nan], 0.01)
    laws = as_laws(problem, (0.1, 1.4), None)
    ends = np.array([np.mean([1.4] * 3) - 1.0e-16, np.mean([0.1] * 3), 1.4 + 1e-13, 0.1 - 1e-13])
    assert laws.checked(ends, 0).tolist() == [ends[0], ends[1], 1.4, 0.1]
    for value in (1.4 + 3e-12, 0.1 - 3e-12):
        with pytest.raises(fd.ValidationError, match=r"thresholds\[2, 0\] is .*samples lie in \[0\.1, 1\.4\]"):
            laws.checked(np.array([0.5, 0.6, value]), 0)


def test_bounds_of_a_threshold_that_cross_decide_nothing_and_equal_ones_do():
    units = Units(None, (), 3)
    crossed = decide(0, units, (1.5, 2.5), (2.0, 1.0), math.inf)
    assert crossed.verdict == NOT_YET
    assert "the bounds of its threshold cross" in crossed.why
    assert decide(0, units, (1.5, 2.5), (1.0, 1.0), math.inf).verdict == SAFE


def test_a_policy_that_played_belongs_to_reweighting_and_to_no_other_method():
    problem, log = one_state([0.5], np.full((4, 1, H), 0.9))
    with pytest.raises(ValidationError, match="played_by is given; with method 'episodes' it must be None"):
        fd.certify(ONE, problem, log, played_by=ONE, method="episodes")
    with pytest.raises(ValidationError, match="played_by is None; with method 'reweighted' it must be the policy that"):
        fd.certify(ONE, problem, log, method="reweighted")


def test_an_upper_bound_is_below_the_threshold_of_its_own_constraint():
    d = np.stack([np.full((400, H), 0.9), np.full((400, H), 0.5)], axis=1)
    problem, log = one_state([0.1, 1.06], d)  # the second is refuted; the first one's threshold is far below it
    said = fd.certify(ONE, problem, log)
    assert [verdict.verdict for verdict in said.verdicts] == [SAFE, UNSAFE]
    assert 1.0 < said.upper[1] < 1.06


def test_a_promise_that_is_kept_is_held_for_broken_once_in_a_million_lives():
    assert kernels.REFUTED == 1e-6
