"""The monitor: an alarm when there is a reason, and hardly ever otherwise."""

import math

import numpy as np
import pytest
from tests import naive_certificates as naive

import flexdome as fd
from flexdome.certificates import LowerSequence, monitor_kernels
from flexdome.certificates import kernels as sequences
from flexdome.certificates.monitor import SCALES
from flexdome.errors import ValidationError


def one_step(thresholds, m=1):
    return fd.Problem(1, 1, 1, 0, thresholds, 0.01)


def episode(x, reward=0.5, thresholds=None):
    utilities = np.atleast_1d(np.asarray(x, dtype=float))[:, None]
    return fd.Episode(np.zeros(1, int), np.zeros(1, int), np.array([reward]), utilities, thresholds)


def feed(monitor, xs, rewards=None):
    for k, x in enumerate(xs):
        monitor.observe(episode(x, 0.5 if rewards is None else rewards[k]))
    return monitor


def test_the_alarm_is_raised_when_the_upper_sequence_falls_below_the_threshold():
    xs = (np.random.default_rng(0).random(400) < 0.4).astype(float)
    monitor = feed(fd.Monitor(one_step([0.55]), 0.1), xs)
    missing = naive.capital((1.0 - xs).tolist(), 1.0 - 0.55, 0.05)
    first = next(t for t, k in enumerate(missing, 1) if k >= 20.0)
    assert [(a.kind, a.constraint, a.episode) for a in monitor.alarms] == [("violation", 0, first)]
    assert "below its threshold, 0.55, with confidence 0.9" in monitor.alarm.message
    sequence = LowerSequence(0.05, also=[1.0 - 0.55])
    sequence.extend(1.0 - xs)
    assert monitor.upper == pytest.approx([1.0 - sequence.bound])
    assert monitor.episodes == 400


def test_blocks_are_empirical_bernstein_sequences_that_start_anew():
    rng = np.random.default_rng(1)
    xs, delta = 0.3 * rng.random(290) + np.repeat([0.1, 0.2, 0.7], (100, 100, 90)), 0.2
    monitor = feed(fd.Monitor(one_step([0.0]), delta), xs)
    share = delta / 2 / (3 * 2)
    low = [0.0]
    for k, block in enumerate((xs[:100], xs[100:200], xs[200:]), 1):
        low.append(naive.bernstein(block.tolist(), 0.5 * share * 6 / (math.pi * k) ** 2)[-1])
    low.append(naive.bernstein(xs.tolist(), 0.5 * share * 6 / math.pi**2)[-1])
    assert max(low) == low[3]  # the third of the short blocks
    assert monitor._reference[1, 0] == pytest.approx(max(low), rel=1e-9)
    assert SCALES == (100, 1_000, 10_000)


def test_the_shares_of_all_blocks_sum_to_one():
    total = sum(monitor_kernels.share_of_block(float(k)) for k in range(1, 100_001))
    assert total == pytest.approx(1.0, abs=1e-5)
    assert total < 1.0


@pytest.mark.parametrize("runs", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_policy_that_just_meets_its_thresholds_rarely_raises_the_alarm(runs):
    rng, delta, wrong = np.random.default_rng(2), 0.3, 0
    for _ in range(runs):
        monitor = fd.Monitor(one_step([0.5, 0.3]), delta)
        for x, y, z in rng.random((300, 3)):
            monitor.observe(episode([x, float(y < 0.3)], z))
        wrong += monitor.alarm is not None
    assert wrong / runs <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)


def test_a_change_is_seen_and_named():
    rng = np.random.default_rng(3)
    xs = np.r_[rng.beta(8, 8, 1500), rng.beta(8, 5, 1500)]
    monitor = feed(fd.Monitor(one_step([0.3]), 0.05), xs)
    assert [(a.kind, a.constraint) for a in monitor.alarms] == [("change", 0)]
    assert 1500 < monitor.alarm.episode < 1900
    assert "has changed" in monitor.alarm.message
    reward = feed(fd.Monitor(one_step([0.3]), 0.05), np.full(600, 0.5), np.r_[np.full(300, 0.2), np.full(300, 0.6)])
    assert [(a.kind, a.constraint) for a in reward.alarms] == [("change", -1)]


def test_a_small_change_is_seen_by_a_long_block():
    rng = np.random.default_rng(4)
    xs = np.r_[rng.beta(8, 8, 10_000), rng.beta(8, 8, 10_000) + 0.03].clip(0, 1)
    monitor = feed(fd.Monitor(one_step([0.3]), 0.05), xs)
    assert [a.kind for a in monitor.alarms] == ["change"]
    assert monitor.alarm.episode > 10_000


def test_an_alarm_comes_back_once_and_stays_until_the_reset():
    monitor = fd.Monitor(one_step([0.9]), 0.05)
    raised = [monitor.observe(episode(0.0)) for _ in range(50)]
    assert sum(alarm is not None for alarm in raised) == 1
    assert monitor.alarms == tuple(alarm for alarm in raised if alarm is not None)
    monitor.reset()
    assert monitor.alarms == ()
    assert monitor.alarm is None
    assert monitor.episodes == 0
    assert monitor.upper.tolist() == [1.0]
    again = [monitor.observe(episode(0.0)) for _ in range(50)]
    assert again == raised


def test_thresholds_at_their_limits_raise_no_alarm_without_a_reason():
    nothing = feed(fd.Monitor(one_step([0.0]), 0.5), np.zeros(300))
    assert nothing.alarms == ()
    perfect = feed(fd.Monitor(fd.Problem(1, 1, 1, 0, [1.0], 1e-10), 0.5), np.ones(300))
    assert perfect.alarms == ()
    less = feed(fd.Monitor(fd.Problem(1, 1, 1, 0, [1.0], 1e-10), 0.5), np.full(300, 0.9))
    assert [a.kind for a in less.alarms] == ["violation"]


@pytest.mark.parametrize("declared", [{"threshold_range": (0.0, 1.0)}, {"threshold_scale": 0.5}])
def test_sampled_thresholds_have_bounds_of_their_own(declared):
    rng = np.random.default_rng(5)
    problem = one_step([math.nan])
    violating, meeting = fd.Monitor(problem, 0.1, **declared), fd.Monitor(problem, 0.1, **declared)
    for sample in (rng.random(2500) < 0.6).astype(float):
        violating.observe(episode(0.45, thresholds=np.array([sample])))
        meeting.observe(episode(0.65, thresholds=np.array([sample])))
    assert [a.kind for a in violating.alarms] == ["violation"]
    assert "at least" in violating.alarm.message
    assert meeting.alarms == ()


def test_thresholds_of_an_unknown_law_are_refused():
    with pytest.raises(ValidationError, match=r"thresholds\[1\] is nan.*threshold_range"):
        fd.Monitor(one_step([0.5, math.nan]))
    with pytest.raises(ValidationError, match=r"delta is 0\.0"):
        fd.Monitor(one_step([0.5]), 0.0)
    with pytest.raises(ValidationError, match="problem is a"):
        fd.Monitor(3)


@pytest.mark.parametrize("delta", [1e-100, 1.0])
def test_delta_at_its_limits(delta):
    monitor = feed(fd.Monitor(one_step([0.9]), delta), np.zeros(2000))
    assert [a.kind for a in monitor.alarms] == ["violation"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (episode(math.inf), r"utilities\[0, 0\] is inf"),
        (episode(0.5, reward=math.nan), r"rewards\[0\] is nan"),
        (episode(1.5), r"utilities\[0, 0\] is 1.5"),
        (episode(0.5, reward=-0.1), r"rewards\[0\] is -0.1"),
        (episode([0.5, 0.5]), "utilities has shape"),
        (None, "episode is None"),
    ],
)
def test_a_bad_episode_is_refused_and_changes_nothing(bad, message):
    monitor = feed(fd.Monitor(one_step([0.5]), 0.05), [0.4, 0.6])
    before = monitor._states.copy(), monitor._blocks.copy(), monitor._capitals.copy()
    with pytest.raises(ValidationError, match=message):
        monitor.observe(bad)
    after = monitor._states, monitor._blocks, monitor._capitals
    assert all((x == y).all() for x, y in zip(before, after, strict=True))
    assert monitor.episodes == 2


def test_lists_and_other_numbers_are_taken_as_arrays():
    quick, slow = fd.Monitor(one_step([0.5])), fd.Monitor(one_step([0.5]))
    for x in (0.25, 0.75, 1.0):
        quick.observe(episode(x))
        slow.observe(fd.Episode([0], [0], [0.5], [x]))
    assert (quick._states == slow._states).all()


def test_a_safe_policy_that_is_not_safe_raises_the_alarm():
    cmdp = fd.make_cmdp("media-v1")
    pi = fd.baselines(cmdp).best[0]
    assert fd.evaluate(cmdp, pi).utilities[0] < cmdp.alpha[0]
    log = fd.play(pi, cmdp, 2000, seed=1)
    monitor = fd.Monitor(cmdp.problem(), 0.01)
    for k in range(2000):
        if monitor.observe(fd.Episode(log.states[k], log.actions[k], log.observed[k, 0], log.observed[k, 1:])):
            break
    assert monitor.alarm.kind == "violation"


def test_a_missing_sample_raises_no_alarm_and_hides_no_other():
    """It counts as 1 for a violation; the blocks of a change pass over its episode, and others see what they saw."""
    rng = np.random.default_rng(5)
    xs, gone = rng.random((2, 600)), rng.random(600) < 0.3
    problem = one_step([0.0, 0.0], m=2)
    holes, twin = fd.Monitor(problem, 0.1), fd.Monitor(problem, 0.1)
    for k in range(600):
        holes.observe(episode([math.nan if gone[k] else xs[0, k], xs[1, k]]))
        twin.observe(episode([1.0 if gone[k] else xs[0, k], xs[1, k]]))
    assert (holes.upper == twin.upper).all()
    assert not holes.alarms
    assert holes._blocks[1, 1, sequences.COUNT] == np.count_nonzero(~gone)
    assert holes._blocks[2, 1, sequences.COUNT] == 600
    assert (holes._blocks[2] == twin._blocks[2]).all()
    for _ in range(3000):
        holes.observe(episode([math.nan, 0.01]))
    assert {(a.kind, a.constraint) for a in holes.alarms} == {("change", 1)}
