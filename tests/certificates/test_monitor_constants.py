"""Every number of a monitor, a set of models and a confidence sequence, held to a slow twin or worked by hand."""

import math

import numpy as np
import pytest
from tests import naive_certificates as naive

import flexdome as fd
from flexdome.certificates import (
    LowerSequence,
    Recorded,
    Sequence,
    certify_seen,
    check_promise,
    load_episodes,
    save_episodes,
)
from flexdome.certificates.model_set import Seen, _log_sets, model_set, values_over
from flexdome.certificates.sequences import betting_grid, betting_lower
from flexdome.certificates.thresholds import as_laws
from flexdome.errors import ValidationError

H = 2


def bernstein(xs, a):
    """The running largest lower bound, one observation after the other."""
    level, grown, total, bets, gains, price, best, path = math.log(1 / a), 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, []
    for t, x in enumerate(map(float, xs), 1):
        lam = min(math.sqrt(2 * level / grown / math.log(t + 1)), 1 / 2)
        before = (1 / 2 + total) / t
        bets, gains, total = bets + lam, gains + lam * x, total + x
        price += (x - before) ** 2 * (-math.log(1 - lam) - lam)
        grown += (x - (1 / 2 + total) / (t + 1)) ** 2
        best = max(best, (gains - level - price) / bets)
        path.append(best)
    return path


def intersection(xs, delta, m):
    """The running interval that all blocks of one variable have in common."""
    low, high, n = np.zeros(len(xs)), np.ones(len(xs)), len(xs)
    for length in (100, 1000, 10_000):
        for k in range(math.ceil(n / length)):
            part = xs[k * length : (k + 1) * length]
            a = delta / 2 / 3 / (1 + m) * 6 / math.pi**2 / (k + 1) ** 2 / 2
            at = slice(k * length, k * length + len(part))
            low[at] = np.maximum(low[at], bernstein(part, a))
            high[at] = np.minimum(high[at], 1 - np.array(bernstein([1 - x for x in part], a)))
    return np.maximum.accumulate(low), np.minimum.accumulate(high)


def first(where):
    return int(np.argmax(where)) + 1 if where.any() else 0


def fed(monitor, r, d, samples=None):
    """The episodes at which something came back."""
    said = {}
    for k in range(len(r)):
        alpha = None if samples is None else samples[k]
        one = monitor.observe(fd.Episode(np.zeros(H, int), np.zeros(H, int), r[k], d[k], alpha))
        if one is not None:
            said[k + 1] = one
    return said


def test_a_monitor_is_its_formulas():
    rng, n, m, delta = np.random.default_rng(3), 330, 2, 0.2
    r, d = 0.2 * rng.random((n, H)), 0.3 * rng.random((n, m, H))
    r[210:] += 0.6
    d[:130, 1] += 0.6
    d[:, 0] += 0.3
    alpha = np.array([1.0, 0.4])
    monitor = fd.Monitor(fd.Problem(1, 1, H, 0, alpha, 0.01), delta)
    said = fed(monitor, r, d)
    expected = {}
    for j, x in enumerate([r.mean(axis=1), d[:, 0].mean(axis=1), d[:, 1].mean(axis=1)]):
        low, high = intersection(x.tolist(), delta, m)
        assert monitor._reference[j] == pytest.approx([low[-1], high[-1]], rel=1e-9)
        expected["change", j - 1] = first(low > high)
        if j > 0:
            missing = naive.capital((1 - x[:150]).tolist(), 1 - alpha[j - 1] / H, delta / 2 / m)
            expected["violation", j - 1] = first(np.array(missing) >= 2 * m / delta)
    assert expected["violation", 1] == expected["change", 0] == 0
    assert expected["change", -1] > 210 > expected["change", 1] > 130 > expected["violation", 0] > 0
    assert {(a.kind, a.constraint): a.episode for a in monitor.alarms} == {k: t for k, t in expected.items() if t}
    assert {t: a.kind for t, a in said.items()} == {a.episode: a.kind for a in monitor.alarms}
    assert monitor.alarm.kind == "violation"
    sequence = LowerSequence(delta / 2 / m, also=[1 - 0.5, 1 - 0.2])
    sequence.extend(1 - d[:, 0].mean(axis=1))
    assert monitor.upper[0] == pytest.approx(2 - 2 * sequence.bound, rel=1e-12)
    assert "utility 0 is below its threshold, 1, with confidence 0.8: by how much is" in monitor.alarm.message
    changes = {a.constraint: a.message for a in monitor.alarms if a.kind == "change"}
    assert "mean of the reward is" in changes[-1]
    assert "mean of utility 1 is" in changes[1]


def test_sampled_thresholds_of_a_monitor_are_its_formulas():
    rng, n, delta = np.random.default_rng(4), 90, 0.2
    d = np.full((n, 3, H), 0.2)
    d[:, 0] = 0.9
    samples = np.empty((n, 3, H))
    samples[:, 1] = rng.uniform(1.0, 2.5, (n, 1))
    samples[:, 2] = 1.4 + 0.1 * rng.standard_normal((n, 1))
    samples[:, 0] = math.nan
    problem = fd.Problem(1, 1, H, 0, [0.5, math.nan, math.nan], 0.01)
    declared = {
        "threshold_range": [(0.0, 1.0), (-1.0, 3.0), (math.nan, math.nan)],
        "threshold_scale": [math.nan, math.nan, 0.1],
    }
    monitor = fd.Monitor(problem, delta, **declared)
    share = 0.1 / 5
    np.testing.assert_allclose(monitor._limits, [-math.log(share), 0.1 / 12, 0.75, math.inf, math.inf], rtol=1e-12)
    utility, wide = LowerSequence(share, also=[0.75]), LowerSequence(share)
    expected, thresholds = {}, {}
    alphas = samples[:, 1:].mean(axis=2)
    for t in range(1, n + 1):
        utility.update(0.8)
        wide.update((alphas[t - 1, 0] + 1.0) / 4.0)
        thresholds[1] = max(0.0, -1.0 + 4.0 * wide.bound)
        thresholds[2] = max(0.0, alphas[:t, 1].mean() - naive.normal_mixture(t, 2 * share, 0.1, 50.0))
        for i in (1, 2):
            if 2 - 2 * utility.bound < thresholds[i]:
                expected.setdefault(i, t)
    said = fed(monitor, np.full((n, H), 0.5), d, np.where(np.isnan(samples), 0.5, samples))
    assert {a.constraint: a.episode for a in monitor.alarms} == expected
    assert set(said) == set(expected.values())
    assert [monitor._threshold(i) for i in range(3)] == pytest.approx([0.5, thresholds[1], thresholds[2]], rel=1e-9)
    assert ", at least " in monitor.alarm.message


def test_before_any_sample_is_high_a_threshold_is_at_least_zero():
    problem = fd.Problem(1, 1, H, 0, [math.nan], 0.01)
    monitor = fd.Monitor(problem, 0.1, threshold_scale=5.0)
    fed(monitor, np.full((2, H), 0.5), np.full((2, 1, H), 0.5), np.full((2, 1, H), 0.3))
    assert monitor._threshold(0) == 0.0


def test_a_missing_sample_is_one_where_a_violation_is_looked_for_and_passed_over_where_a_change_is():
    rng = np.random.default_rng(6)
    d, gone = rng.random((60, 1, H)), rng.random((60, 1, H)) < 0.3
    monitor = fd.Monitor(fd.Problem(1, 1, H, 0, [0.4], 0.01), 0.1)
    fed(monitor, np.full((60, H), 0.5), np.where(gone, math.nan, d))
    sequence = LowerSequence(0.05, also=[0.8])
    sequence.extend(1.0 - np.where(gone, 1.0, d).mean(axis=(1, 2)))
    assert monitor.upper[0] == pytest.approx(2 - 2 * sequence.bound, rel=1e-12)
    whole = d[~gone.any(axis=(1, 2))].mean(axis=(1, 2))
    low = bernstein(whole, 0.1 / 2 / 3 / 2 * 6 / math.pi**2 / 2)[-1]
    assert 10 < len(whole) < 50
    assert monitor._reference[1, 0] == pytest.approx(low, rel=1e-9)


def test_intervals_with_one_point_in_common_are_no_change():
    for low, high, kinds in ((0.5, 0.5, []), (0.5 + 1e-12, 0.5, ["change"])):
        monitor = fd.Monitor(fd.Problem(1, 1, H, 0, [0.0], 0.01))
        monitor._reference[1] = low, high
        fed(monitor, np.full((1, H), 0.5), np.full((1, 1, H), 0.5))
        assert [alarm.kind for alarm in monitor.alarms] == kinds


def test_two_alarms_of_one_episode_are_both_told():
    monitor = fd.Monitor(fd.Problem(1, 1, H, 0, [1.5, 1.5, 1.5], 0.01))
    said = fed(monitor, np.full((60, H), 0.5), np.full((60, 3, H), 0.1))
    assert sorted(a.constraint for a in monitor.alarms) == [0, 1, 2]
    assert {a.episode for a in monitor.alarms} == set(said)
    assert next(iter(said.values())) is monitor.alarm


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("side", ["limit", "threshold"])
def test_an_alarm_is_told_from_the_users_side(side, sampled):
    total = math.nan if sampled else 1.0 if side == "limit" else 7.0
    plant = fd.Problem(
        1, 1, H, 0, reward=fd.Quantity("yield", 0.0, 1.0), subject_to=[fd.Quantity("dose", 0.0, 4.0, **{side: total})],
        slater_gap=0.01,
    )  # fmt: skip
    monitor = fd.Monitor(plant, 0.1, **({"threshold_scale": 0.01} if sampled else {}))
    dose, sample = (3.0, 1.0) if side == "limit" else (1.0, 7.0)
    none = np.zeros(H, int)
    for _ in range(200):
        monitor.observe(fd.Episode(none, none, [0.5] * H, [[dose] * H], [[sample] * H] if sampled else None))
    where, least, most = ("above", "at most", "at least") if side == "limit" else ("below", "at least", "at most")
    assert f"dose is {where} its {side}," in monitor.alarm.message
    assert (f"{side}, {least} " in monitor.alarm.message) is sampled
    assert f": it is {most} " in monitor.alarm.message


def test_an_alarm_names_no_bound_that_is_its_limit():
    plant = fd.Problem(1, 1, H, 0, subject_to=fd.Quantity("drug used", 0.0, 1000.0, "ml", limit=1350.0))
    monitor, none = fd.Monitor(plant, 1e-15), np.zeros(H, int)
    while not monitor.alarms:
        monitor.observe(fd.Episode(none, none, [0.5] * H, [[676.5 + 5.0 * (-1) ** monitor.episodes] * H]))
    assert monitor.alarm.message == (
        "drug used is above its limit, 1350 ml, with confidence 1 - 1e-15: by how much is not known yet"
    )


def test_an_alarm_has_the_digits_that_tell_a_bound_from_its_limit(monkeypatch):
    plant = fd.Problem(1, 1, H, 0, subject_to=fd.Quantity("drug used", 0.0, 1000.0, "ml", limit=1350.0))
    monitor, none = fd.Monitor(plant, 0.5), np.zeros(H, int)
    monkeypatch.setattr(fd.Monitor, "upper", plant.units.values([1350.04])[:, None][0])
    while not monitor.alarms:
        monitor.observe(fd.Episode(none, none, [0.5] * H, [[900.0] * H]))
    assert monitor.alarm.message.endswith("limit, 1350 ml, with confidence 0.5: it is at least 1350.04 ml")


def test_a_change_names_what_changed():
    bound = fd.Quantity("out of band", 0.0, 1.0, limit=1.9)
    plant = fd.Problem(1, 1, H, 0, reward=fd.Quantity("yield", 0.0, 1.0), subject_to=bound)
    monitor, none = fd.Monitor(plant, 0.1), np.zeros(H, int)
    for k in range(1000):
        low = 0.9 if k < 300 else 0.1
        monitor.observe(fd.Episode(none, none, [low] * H, [[low] * H]))
    told = {alarm.constraint: alarm.message for alarm in monitor.alarms}
    assert told[-1].startswith("the mean of yield is not what it was")
    assert told[0].startswith("the mean of out of band is not what it was")


def test_a_sample_outside_its_own_range_is_refused_whole():
    monitor = fd.Monitor(fd.Problem(1, 1, H, 0, [math.nan] * 3, 0.01), threshold_range=[(0, 0.5), (1, 1.5), (1.6, 2)])
    r, d = np.full((1, H), 0.5), np.full((1, 3, H), 0.5)
    good = np.repeat([0.0, 1.5, 1.6], H).reshape(1, 3, H)
    fed(monitor, r, d, good)
    for i, x in ((0, 0.6), (1, 0.9), (2, 1.5)):
        bad = good.copy()
        bad[0, i] = x
        with pytest.raises(ValidationError, match=rf"thresholds\[0, {i}\] is {x}"):
            fed(monitor, r, d, bad)
    assert monitor.episodes == 1


def test_delta_is_a_twentieth_unless_told():
    assert fd.Monitor(fd.Problem(1, 1, H, 0, [0.5], 0.01)).delta == 0.05
    assert LowerSequence().log_level == pytest.approx(math.log(20))
    both = Sequence()
    assert both.below.delta == both.above.delta == 0.025
    assert (both.low, both.high) == (0.0, 1.0)


@pytest.mark.parametrize("field", ["rewards", "utilities"])
def test_a_monitor_takes_what_lies_between_0_and_1_ends_included(field):
    monitor = fd.Monitor(fd.Problem(1, 1, H, 0, [0.5], 0.01))
    given = {"rewards": np.full(H, 0.5), "utilities": np.full((1, H), 0.5)}
    for x in (0.0, 1.0):
        monitor.observe(fd.Episode(np.zeros(H, int), np.zeros(H, int), **{**given, field: 0 * given[field] + x}))
    for x in (-0.01, 1.01):
        for h in range(H):
            bad = given[field].copy()
            bad[..., h] = x
            with pytest.raises(ValidationError, match=field):
                monitor.observe(fd.Episode(np.zeros(H, int), np.zeros(H, int), **{**given, field: bad}))
    assert monitor.episodes == 2


def test_a_monitor_takes_episodes_of_its_own_shape_alone():
    monitor = fd.Monitor(fd.Problem(1, 1, H, 0, [0.5, 0.5], 0.01))
    none = np.zeros(H, int)
    for rewards, utilities, name in (
        ((H + 1,), (2, H), "rewards"),
        ((1, H), (2, H), "rewards"),
        ((H,), (2, H + 1), "utilities"),
        ((H,), (3, H), "utilities"),
        ((H,), (H,), "utilities"),
    ):
        with pytest.raises(ValidationError, match=f"{name} has shape"):
            monitor.observe(fd.Episode(none, none, np.full(rewards, 0.5), np.full(utilities, 0.5)))
    assert monitor.episodes == 0


# -- sequences ----------------------------------------------------------------------------------------------------


def test_a_grid_has_its_points_and_those_of_interest_between_nothing_and_one():
    also = [0.3, 0.0, 7e-301, 1e-300, 1.5e-300, 1.0, 2.0, -0.5]
    means, bets = betting_grid(4, also)
    assert means.tolist() == [1.5e-300, 0.25, 0.3, 0.5, 0.75]
    assert bets.tolist() == [0.5 / mean for mean in means.tolist()]
    assert betting_grid(2)[0].tolist() == [0.5]
    assert betting_grid().shape == (2, 511)
    assert betting_grid(2**20).shape == (2, 2**20 - 1)
    for points in (1, 2**20 + 1):
        with pytest.raises(ValidationError, match="points is"):
            betting_grid(points)


def test_a_sequence_takes_levels_between_10_to_the_minus_300_and_1():
    assert LowerSequence(1e-300).log_level == pytest.approx(300 * math.log(10))
    assert LowerSequence(1 - 1e-9).delta < 1.0
    for delta in (7e-301, 1.0, 1.5):
        with pytest.raises(ValidationError, match="delta is"):
            LowerSequence(delta)


def test_a_lower_sequence_takes_what_is_not_negative():
    sequence = LowerSequence(0.05, points=4)
    sequence.update(0.0)
    sequence.extend([0.0, 7.0])
    assert sequence.path([0.0, 3.0]).shape == (2,)
    assert sequence.count == 5
    for take, name in ((lambda: sequence.update(-0.5), "x is"), (lambda: sequence.extend([-0.5]), "xs"),
                       (lambda: sequence.path([-0.5]), "xs")):  # fmt: skip
        with pytest.raises(ValidationError, match=name):
            take()
    with pytest.raises(ValidationError, match="x is"):
        sequence.update(-1e-9)


@pytest.mark.parametrize("method", ["betting", "bernstein"])
def test_a_sequence_is_two_of_its_units(method):
    xs = 3.0 + 4.0 * np.random.default_rng(0).random(60)
    both = Sequence(0.1, 3.0, 7.0, method, points=32, also=[4.4])
    below, above = (LowerSequence(0.05, method, 32, [also]) for also in (0.35, 0.65))
    unit = (xs - 3.0) / 4.0
    low, high = both.path(xs)
    np.testing.assert_allclose(low, 3.0 + 4.0 * below.path(unit), rtol=1e-12)
    np.testing.assert_allclose(high, 7.0 - 4.0 * above.path(1.0 - unit), rtol=1e-12)
    assert (both.lower, both.upper) == (low[-1], high[-1])
    assert both.below.grid.shape == both.above.grid.shape == (2, 32)
    np.testing.assert_allclose(both.below.grid, below.grid, rtol=1e-12)
    np.testing.assert_allclose(both.above.grid, above.grid, rtol=1e-12)
    again = Sequence(0.1, 3.0, 7.0, method, points=32, also=[4.4])
    again.extend(xs)
    assert (again.lower, again.upper) == (both.lower, both.upper)
    again.update(3.0)
    again.update(7.0)
    assert again.count == 62


def test_a_sequence_has_a_width():
    for high in (0.5, 0.4):
        with pytest.raises(ValidationError, match="high is"):
            Sequence(0.1, 0.5, high)


# -- thresholds ---------------------------------------------------------------------------------------------------


def sampled_problem(m=2):
    return fd.Problem(1, 1, H, 0, [math.nan] * m, 0.01)


def test_what_is_declared_is_of_all_thresholds_or_of_each():
    one = as_laws(sampled_problem(3), (0.5, 1.5), 0.25)
    assert (one.low.tolist(), one.high.tolist(), one.scale.tolist()) == ([0.5] * 3, [1.5] * 3, [0.25] * 3)
    each = as_laws(sampled_problem(2), [(0.5, 1.5), (-1.0, 4.0)], [0.0, 2.0])
    assert (each.low.tolist(), each.high.tolist(), each.scale.tolist()) == ([0.5, -1.0], [1.5, 4.0], [0.0, 2.0])
    assert (each.shares, one.shares) == (4, 6)
    for bad in ([(0.5, 1.5)], [(0.0, 1.0), (2.0, 2.0)], [0.0, 1.0, 2.0]):
        with pytest.raises(ValidationError, match="threshold_range"):
            as_laws(sampled_problem(2), bad, None)
    for bad in ([1.0], [0.5, -0.1], [0.5, math.inf]):
        with pytest.raises(ValidationError, match="threshold_scale"):
            as_laws(sampled_problem(2), None, bad)


def test_thresholds_are_bounded_by_what_was_sampled_of_them():
    wide = as_laws(sampled_problem(1), (0.2, 1.8), None)
    xs = np.random.default_rng(1).uniform(0.2, 1.8, 400)
    lower, upper = wide.bounds(xs[:, None], 0.01)
    assert lower[0] == pytest.approx(0.2 + 1.6 * betting_lower((xs - 0.2) / 1.6, 0.01), rel=1e-12)
    assert upper[0] == pytest.approx(1.8 - 1.6 * betting_lower((1.8 - xs) / 1.6, 0.01), rel=1e-9)
    normal = as_laws(sampled_problem(1), None, 0.05)
    lower, upper = normal.bounds(xs[:1, None], 0.4)
    width = naive.normal_mixture(1, 0.8, 0.05, 50.0)
    assert (lower[0], upper[0]) == pytest.approx((max(xs[0] - width, 0.0), min(xs[0] + width, 2.0)), rel=1e-9)
    sums = {"normal": normal.bounds_from_sums(np.array([1.0]), np.ones(1), 0.4)}
    sums["wide"] = wide.bounds_from_sums(np.array([70.0]), np.full(1, 70.0), 0.01)
    assert (1.0 - sums["normal"][0][0], sums["normal"][1][0] - 1.0) == pytest.approx((width, width), rel=1e-9)
    width = naive.normal_mixture(70, 0.02, 0.8, 50.0)
    assert (1.0 - sums["wide"][0][0], sums["wide"][1][0] - 1.0) == pytest.approx((width, width), rel=1e-9)
    for nothing in (normal.bounds(np.zeros((0, 1)), 0.1), normal.bounds_from_sums(np.zeros(1), np.zeros(1), 0.1)):
        assert [float(end[0]) for end in nothing] == [0.0, 2.0]


def test_samples_at_the_ends_of_their_range_are_in_it():
    laws = as_laws(sampled_problem(2), [(0.0, 1.0), (0.5, 1.5)], None)
    laws.bounds(np.array([[0.0, 0.5], [1.0, 1.5]]), 0.1)
    for at, x in ((0, -0.1), (1, 1.6)):
        samples = np.array([[0.0, 0.5], [1.0, 1.5], [0.5, 0.7]])
        samples[2, at] = x
        with pytest.raises(ValidationError, match=rf"thresholds\[2, {at}\] is {x}"):
            laws.bounds(samples, 0.1)


# -- sets of models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("S", "sets"), [(1, 1), (2, 1), (3, 3), (4, 7), (11, 1023)])
def test_sets_of_states_are_counted_without_their_complements(S, sets):
    assert _log_sets(S) == pytest.approx(math.log(sets), abs=1e-12)


def counted(H=3, S=2, A=1, m=1, seed=0):
    """Counts of 200 visits to each cell, with a missing sample here and there."""
    rng = np.random.default_rng(seed)
    visits, missing = np.full((H, S, A), 200.0), np.zeros((1 + m, H, S, A))
    missing[1] = rng.integers(0, 30, (H, S, A))
    sums = rng.random((1 + m, H, S, A)) * (visits - missing)
    successors = np.zeros((H, S, A, S))
    for at in np.ndindex(H - 1, S, A):
        successors[at] = rng.multinomial(200, np.full(S, 1 / S))
    return Seen(visits, sums, successors, np.zeros(m), np.zeros(m), 200, missing)


@pytest.mark.parametrize("H", [1, 2, 3])
@pytest.mark.parametrize("stationary", [False, True])
def test_counts_make_the_widths_of_their_shares(stationary, H):
    S, A, m, delta = 2, 2, 1, 0.1
    problem = fd.Problem(S, A, H, 0, [0.5], 0.01, stationary=stationary)
    seen = counted(H, S, A, m)
    models = model_set(problem, seen, delta)
    L, n = (1, H * 200.0) if stationary else (H, 200.0)
    pooled = [axis.sum(axis=k, keepdims=True) if stationary else axis for axis, k in
              ((seen.sums, 1), (seen.missing, 1), (seen.successors, 0))]  # fmt: skip
    sums, missing, successors = pooled
    wide = naive.normal_mixture(n, 2 * (delta / 2) / (2 * (1 + m) * L * S * A), 0.5, 50.0)
    np.testing.assert_allclose(models.low, np.maximum(sums / n - wide, 0.0), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(models.high, np.minimum((sums + missing) / n + wide, 1.0), rtol=1e-8)
    np.testing.assert_allclose(models.mean, (sums + missing / 2) / n, rtol=1e-12)
    rows = 4 if stationary or H < 3 else 8
    for at in np.ndindex(L, S, A):
        seen_after = successors[at].sum()
        if seen_after:
            half = naive.normal_mixture(seen_after, delta / 2 / rows, 0.5, 50.0)  # one set of two states
            assert models.moved[at] == pytest.approx(half, rel=1e-8)
            np.testing.assert_allclose(models.p[at], successors[at] / seen_after)
        else:
            assert models.moved[at] == 1.0
            assert not models.p[at].any()


def test_one_visit_is_seen():
    problem = fd.Problem(2, 1, 2, 0, [0.5], 0.01)
    visits, sums, nxt = np.zeros((2, 2, 1)), np.zeros((2, 2, 2, 1)), np.zeros((2, 2, 1, 2))
    visits[0, 0, 0], sums[:, 0, 0, 0], nxt[0, 0, 0, 1] = 1.0, (0.3, 0.8), 1.0
    models = model_set(problem, Seen(visits, sums, nxt, np.zeros(1), np.zeros(1), 1), 0.1)
    assert models.mean[:, 0, 0, 0].tolist() == [0.3, 0.8]
    assert models.p[0, 0, 0].tolist() == [0.0, 1.0]


def test_an_action_never_tried_leads_to_the_one_state_there_is():
    problem = fd.Problem(1, 2, 2, 0, [0.5], 0.01)
    visits, sums = np.zeros((2, 1, 2)), np.zeros((2, 2, 1, 2))
    visits[1, 0, 0], sums[:, 1, 0, 0] = 900.0, 450.0
    models = model_set(problem, Seen(visits, sums, np.zeros((2, 1, 2, 1)), np.zeros(1), np.zeros(1), 900), 0.1)
    policy = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])  # one never tried, and then one that is known
    wide = naive.normal_mixture(900.0, 0.1 / (2 * 2 * 2 * 2), 0.5, 50.0)
    least, largest, centre = values_over(problem, models, policy)
    assert least == pytest.approx(0.5 - wide, rel=1e-8)
    assert largest == pytest.approx(1.5 + wide, rel=1e-8)
    assert centre == pytest.approx(1.0)


@pytest.mark.parametrize("n", [3.0, 20.0])
def test_counts_of_few_visits_say_little(n):
    problem = fd.Problem(1, 1, 1, 0, [0.5], 0.01)
    sums = n * np.array([0.9, 0.2]).reshape(2, 1, 1, 1)
    seen = Seen(np.full((1, 1, 1), n), sums, np.zeros((1, 1, 1, 1)), np.zeros(1), np.zeros(1), int(n))
    models = model_set(problem, seen, 0.1)
    wide = naive.normal_mixture(n, 2 * (0.1 / 2) / (2 * 2), 0.5, 50.0)
    assert (wide > 1.0) is (n == 3.0)
    assert models.low.ravel() == pytest.approx([max(0.9 - wide, 0.0), max(0.2 - wide, 0.0)], rel=1e-8)
    assert models.high.ravel() == pytest.approx([1.0, min(0.2 + wide, 1.0)], rel=1e-8)


def test_a_sample_that_is_missing_counts_as_a_half_in_the_middle():
    problem = fd.Problem(1, 1, H, 0, [0.5], 0.01)
    none = np.zeros((2, H), int)
    log = Recorded.from_arrays(problem, none, none, [[0.3, 0.4], [0.5, 0.8]], [[0.6, math.nan], [0.2, math.nan]])
    models = model_set(problem, log, 0.1)
    np.testing.assert_allclose(models.mean.reshape(2, H), [[0.4, 0.6], [0.4, 0.5]], rtol=1e-12)
    assert (models.visits == 2.0).all()


def test_all_of_delta_is_the_means_where_transitions_are_revealed():
    H, S, A, m, delta = 3, 2, 1, 1, 0.1
    p = np.full((H, S, A, S), 0.5)
    problem = fd.Problem(S, A, H, 0, [0.5], 0.01, transitions=p)
    seen = counted(H, S, A, m)
    models = model_set(problem, seen, delta)
    wide = naive.normal_mixture(200.0, 2 * delta / (2 * (1 + m) * H * S * A), 0.5, 50.0)
    np.testing.assert_allclose(models.low, np.maximum(seen.sums / 200 - wide, 0.0), rtol=1e-8, atol=1e-12)
    assert not models.moved.any()
    assert (models.p == 0.5).all()
    revealed = fd.Problem(S, A, H, 0, [0.5], 0.01, rewards=np.full((H, S, A), 0.25))
    means = model_set(revealed, seen, delta)
    assert (means.low[0] == 0.25).all()
    assert (means.high[0] == 0.25).all()
    assert (means.mean[0] == 0.25).all()
    assert (means.low[1] < means.mean[1]).all()


def test_what_was_never_seen_is_anything():
    H, S, A = 3, 2, 1
    problem = fd.Problem(S, A, H, 0, [0.5], 0.01)
    none = np.zeros((H, S, A))
    seen = Seen(none, np.zeros((2, H, S, A)), np.zeros((H, S, A, S)), np.zeros(1), np.zeros(1), 0)
    models = model_set(problem, seen, 0.1)
    assert (models.low == 0.0).all()
    assert (models.high == 1.0).all()
    assert (models.mean == 0.5).all()
    assert (models.moved == 1.0).all()
    least, largest, centre = values_over(problem, models, np.ones((H, S, A)))
    assert (least.tolist(), largest.tolist(), centre.tolist()) == ([0.0, 0.0], [3.0, 3.0], [1.5, 1.5])


def test_values_over_a_set_by_hand():
    """Two states; from each, state 0 follows with 0.7, and 0.2 of it may be elsewhere."""
    problem = fd.Problem(2, 1, 2, 0, [0.5], 0.01)
    p = np.tile([0.7, 0.3], (2, 2, 1, 1))
    low = np.array([[[0.1], [0.2]], [[0.8], [0.3]]])
    f = np.stack([low, low])
    models = type(model_set(problem, counted(2, 2), 0.1))(
        np.full((2, 2, 1), 9.0), p, np.full((2, 2, 1), 0.2), f + 0.05, f, f + 0.1
    )
    least, largest, centre = values_over(problem, models, np.ones((2, 2, 1)))
    assert least == pytest.approx(0.1 + 0.5 * 0.8 + 0.5 * 0.3)
    assert largest == pytest.approx(0.2 + 0.9 * 0.9 + 0.1 * 0.4)
    assert centre == pytest.approx(0.15 + 0.7 * 0.85 + 0.3 * 0.35)
    models.p[0, 0], models.moved[0, 0] = 0.0, 1.0  # never seen: it leads to the worst
    least, largest, centre = values_over(problem, models, np.ones((2, 2, 1)))
    assert least == pytest.approx(0.1 + 0.3)
    assert largest == pytest.approx(0.2 + 0.9)
    assert centre == pytest.approx(0.15 + 0.35)


def test_too_many_counts_are_refused_before_there_is_memory_for_them():
    problem = fd.Problem(8193, 2, 1, 0, [0.5], 0.01)
    with pytest.raises(ValidationError, match="1 x 8193 x 2 x 8193 transitions"):
        fd.certify(problem.uniform, problem, [], chosen_from_data=True)


def test_a_mixture_is_bounded_by_its_weights():
    problem = fd.Problem(1, 2, 1, 0, [0.5], 0.01)
    visits, sums = np.array([[[50.0, 20.0]]]), np.array([[[[45.0, 2.0]]], [[[5.0, 16.0]]]])
    seen = Seen(visits, sums, np.zeros((1, 1, 2, 1)), np.zeros(1), np.zeros(1), 70)
    policies = np.array([[[[1.0, 0.0]]], [[[0.0, 1.0]]]])
    alone = [certify_seen(np.ones(1), one[None], problem, seen, 0.1) for one in policies]
    both = certify_seen(np.array([0.3, 0.7]), policies, problem, seen, 0.1)
    assert both.value == pytest.approx(0.3 * np.array(alone[0].value) + 0.7 * np.array(alone[1].value))
    assert both.lower == pytest.approx(0.3 * alone[0].lower + 0.7 * alone[1].lower)
    assert both.shares == pytest.approx({"model": 0.1, "thresholds": 0.0})
    assert both.episodes == 70


def test_each_constraint_has_the_bounds_and_the_forecast_of_its_own_counts():
    sums, n, alpha = np.array([10.0, 20.0, 30.0, 40.0]), 50.0, [0.35, 0.66, 0.7]
    problem = fd.Problem(1, 1, 1, 0, alpha, 0.01)
    seen = Seen(np.full((1, 1, 1), n), sums.reshape(4, 1, 1, 1), np.zeros((1, 1, 1, 1)), np.zeros(3), np.zeros(3), 50)
    said = certify_seen(np.ones(1), np.ones((1, 1, 1, 1)), problem, seen, 0.1)
    wide = naive.normal_mixture(n, 2 * (0.1 / 2) / (2 * 4), 0.5, 50.0)
    assert said.value == pytest.approx((max(0.2 - wide, 0.0), 0.2 + wide), rel=1e-8)
    for i, verdict in enumerate(said.verdicts):
        mean = sums[1 + i] / n
        assert verdict.constraint == i
        assert (verdict.lower, verdict.upper) == pytest.approx((mean - wide, min(mean + wide, 1.0)), rel=1e-8)
        width = wide if mean > alpha[i] else min(mean + wide, 1.0) - mean
        assert verdict.more == pytest.approx(n * ((width / abs(mean - alpha[i])) ** 2 - 1.0), abs=1.0)


def test_a_sampled_threshold_takes_its_shares_from_the_models():
    problem = fd.Problem(1, 1, 2, 0, [math.nan, 0.5], 0.01)
    seen = Seen(
        np.full((2, 1, 1), 40.0), np.full((3, 2, 1, 1), 20.0), np.array([40.0, 0.0]).reshape(2, 1, 1, 1),
        np.array([36.0, 0.0]), np.array([40.0, 0.0]), 40,
    )  # fmt: skip
    said = certify_seen(np.ones(1), np.ones((1, 2, 1, 1)), problem, seen, 0.16, threshold_scale=0.1)
    assert said.shares == pytest.approx({"model": 0.12, "thresholds": 0.04}, rel=1e-12)
    width = naive.normal_mixture(40, 2 * 0.02, 0.1, 50.0)
    assert said.verdicts[0].threshold_lower == pytest.approx(0.9 - width, rel=1e-9)
    wide = naive.normal_mixture(40, 2 * 0.06 / (2 * 3 * 2), 0.5, 50.0)
    assert said.lower == pytest.approx([2 * (0.5 - wide)] * 2, rel=1e-8)


def test_a_promise_is_broken_below_it_alone():
    problem = fd.Problem(1, 1, H, 0, [0.1], 0.01)
    none, ones = np.zeros((80, H), int), np.ones((H, 1, 1))
    log = Recorded.from_arrays(problem, none, none, np.full((80, H), 0.5), np.full((80, H), 0.5))
    said = check_promise(fd.SafePolicy(ones, [0.9]), problem, log)
    assert said.delta == 0.05
    assert 1.0 < said.upper[0] < 1.9
    check_promise(fd.SafePolicy(ones, said.upper), problem, log)
    with pytest.raises(ValidationError, match="less than what was promised"):
        check_promise(fd.SafePolicy(ones, np.nextafter(said.upper, 2.0)), problem, log)


# -- recorded episodes --------------------------------------------------------------------------------------------


def test_episodes_in_arrays_have_the_shapes_of_the_file():
    problem = fd.Problem(3, 2, H, 0, [0.5], 0.01)
    states, actions = np.array([[0, 2], [0, 1], [0, 0]]), np.array([[1, 0], [0, 1], [1, 1]])
    r, d = np.array([[0.1, 0.2], [0.3, 0.4], [0.0, 1.0]]), np.array([[0.5, 0.6], [0.7, 0.8], [1.0, 0.0]])
    log = Recorded.from_arrays(problem, states, actions, r, d)
    assert log.states.tolist() == [[0, 2, 0], [0, 1, 0], [0, 0, 0]]
    assert log.actions.tolist() == actions.tolist()
    assert log.observed.tolist() == [[[0.1, 0.2], [0.5, 0.6]], [[0.3, 0.4], [0.7, 0.8]], [[0.0, 1.0], [1.0, 0.0]]]
    assert len(log) == 3
    full = Recorded.from_arrays(problem, np.array([[0, 2, 1], [0, 1, 2], [0, 0, 0]]), actions, r, d[:, None])
    assert full.states[:, 2].tolist() == [1, 2, 0]
    assert full.observed.tolist() == log.observed.tolist()
    one_by_one = [fd.Episode(full.states[k], actions[k], r[k], d[k]) for k in range(3)]
    again = Recorded.from_episodes(problem, one_by_one)
    for name in ("states", "actions", "observed"):
        assert getattr(again, name).tolist() == getattr(full, name).tolist()
    with pytest.raises(ValidationError, match="actions has shape"):
        Recorded.from_arrays(problem, states, 1, r, d)
    two = fd.Problem(3, 2, H, 0, [0.5, 0.5], 0.01)
    with pytest.raises(ValidationError, match="utilities has shape"):
        Recorded.from_arrays(two, states, actions, r, d)
    for field, bad, where in (
        ("states", np.array([[0, 3], [0, 1], [0, 0]]), r"states\[0, 1\] is 3"),
        ("states", np.array([[0, 2], [0, -1], [0, 0]]), r"states\[1, 1\] is -1"),
        ("actions", np.array([[1, 0], [2, 1], [0, 0]]), r"actions\[1, 0\] is 2; it must lie in 0 to 1"),
        ("actions", np.array([[1, 0], [2, 3], [0, 0]]), r"actions\[1, 0\] is 2"),
    ):
        given = {"states": states, "actions": actions, field: bad}
        with pytest.raises(ValidationError, match=where):
            Recorded.from_arrays(problem, given["states"], given["actions"], r, d)


def test_samples_of_a_step_are_averaged_over_the_episode():
    problem = fd.Problem(1, 1, H, 0, [math.nan, 0.5, 0.5], 0.01)
    none, r, d = np.zeros((3, H), int), np.full((3, H), 0.5), np.full((3, 3, H), 0.5)
    steps = np.arange(18.0).reshape(3, 3, H)
    log = Recorded.from_arrays(problem, none, none, r, d, steps)
    assert log.thresholds[:, 0].tolist() == [0.5, 6.5, 12.5]
    assert np.isnan(log.thresholds[:, 1:]).all()
    whole = Recorded.from_arrays(problem, none, none, r, d, steps[:, :, 0])
    assert whole.thresholds[:, 0].tolist() == [0.0, 6.0, 12.0]
    for at in ((1, 0, 1), (2, 0, 0)):
        bad = steps.copy()
        bad[at] = math.inf
        bad[2, 0, 1] = math.nan
        with pytest.raises(ValidationError, match=rf"thresholds\[{at[0]}, 0\] is"):
            Recorded.from_arrays(problem, none, none, r, d, bad)
    unread = steps.copy()
    unread[:, 1] = math.nan
    assert Recorded.from_arrays(problem, none, none, r, d, unread).thresholds[0, 0] == 0.5
    for shape in ((3, 1), (3, 3, 3), (2, 3)):
        with pytest.raises(ValidationError, match="thresholds has shape"):
            Recorded.from_arrays(problem, none, none, r, d, np.zeros(shape))
    one = fd.Episode([0, 0], [0, 0], r[0], d[0], steps[1])
    assert Recorded.from_episodes(problem, [one, one]).thresholds[:, 0].tolist() == [6.5, 6.5]


def test_a_missing_sample_is_0_at_least_and_1_at_most():
    problem = fd.Problem(1, 1, H, 0, [0.5], 0.01)
    none = np.zeros((1, H), int)
    log = Recorded.from_arrays(problem, none, none, [[0.3, 0.4]], [[math.nan, 0.6]])
    least, most = log.least_and_most()
    assert least.tolist() == [[[0.3, 0.4], [0.0, 0.6]]]
    assert most.tolist() == [[[0.3, 0.4], [1.0, 0.6]]]


def test_a_file_holds_rewards_and_utilities_apart(tmp_path):
    problem = fd.Problem(2, 2, H, 0, [0.5, 0.5], 0.01)
    r, d = np.array([[0.1, 0.2]]), np.array([[[0.3, 0.4], [0.5, 0.6]]])
    pi = np.full((H, 2, 2), 0.5)
    save_episodes(tmp_path / "a.npz", problem, Recorded.from_arrays(problem, [[0, 1, 1]], [[0, 1]], r, d), pi)
    with np.load(tmp_path / "a.npz") as file:
        assert file["rewards"].tolist() == r.tolist()
        assert file["utilities"].tolist() == d.tolist()
        assert file["played_by"].tolist() == pi.tolist()
    log, played_by = load_episodes(tmp_path / "a.npz", problem)
    assert log.observed.tolist() == [[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]]
    assert played_by.tolist() == pi.tolist()


def test_the_centre_takes_the_worst_after_an_action_never_seen_and_not_after_its_neighbour():
    problem = fd.Problem(2, 2, 2, 0, [0.5], 0.01)
    p = np.tile([0.7, 0.3], (2, 2, 2, 1))
    p[0, 0, 0] = 0.0  # never seen
    f = np.zeros((2, 2, 2, 2))
    f[:, 1, 0], f[:, 1, 1] = 0.8, 0.3
    models = type(model_set(problem, counted(2, 2, 2), 0.1))(np.full((2, 2, 2), 9.0), p, np.zeros((2, 2, 2)), f, f, f)
    first, second = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    first[..., 0] = second[..., 1] = 1.0
    assert values_over(problem, models, first)[2] == pytest.approx(0.3)
    assert values_over(problem, models, second)[2] == pytest.approx(0.7 * 0.8 + 0.3 * 0.3)
