"""Watched runs: the record is what slow sums give, and the success event is what the paper says it is."""

import math

import numpy as np
import pytest
from tests import naive

import flexdome as fd
from flexdome import theory as th
from flexdome.audit.instrument import instrumented_run
from flexdome.audit.learned import (
    Watched,
    discrepancies,
    estimation_findings,
    event_findings,
    learning_findings,
    statistical_findings,
)
from flexdome.audit.threshold_samples import threshold_findings

DELTA = 0.1


def noisy(seed):
    """0/1 observations and thresholds drawn at every step: every estimate is one."""
    p, f, mu = naive.random_cmdp_arrays(seed, S=3, A=2, H=3)
    law = fd.Threshold.uniform(0.0, 1.0, per="step")
    return fd.CMDP(p, f[0], f[1:], [law], mu, noise="bernoulli")


def watched(seed, scale=1.0, episodes=25, **options):
    cmdp = noisy(seed % 5)
    record, history, learner = instrumented_run(cmdp, cmdp.problem(), episodes, seed, DELTA, scale, **options)
    schedules, kept = learner.schedules, history.snapshots
    run = Watched(f"seed {seed}", cmdp, cmdp.problem(), schedules, DELTA, record, history.multipliers, kept)
    return run, learner, cmdp


@pytest.fixture(scope="module")
def unscaled():
    return [watched(seed)[0] for seed in range(20)]


@pytest.fixture(scope="module")
def scaled():
    return [watched(seed, 1e-3, margin_scale=5e-5)[0] for seed in range(20)]


@pytest.mark.parametrize("seed", range(3))
def test_the_record_is_what_the_learner_believed_and_what_was_true(seed):
    cmdp = noisy(seed)
    _, learner, _ = watched(seed, 0.01, episodes=40)
    plain = fd.FlexDOME(cmdp.problem(), episodes=40, delta=DELTA, bonus_scale=0.01)
    history = fd.simulate(plain, cmdp, seed=seed)
    record = learner.record
    np.testing.assert_allclose(record.estimated[:, 0], history.diagnostics["value"], rtol=1e-9)
    np.testing.assert_allclose(record.estimated[:, 1], history.diagnostics["utilities"][0], rtol=1e-9)
    np.testing.assert_allclose(record.true[:, 0], fd.solve(cmdp).value - history.reward_gap, rtol=1e-9)
    np.testing.assert_allclose(
        record.alpha_error[1:, 0], np.abs(history.diagnostics["thresholds"][0, 1:] - cmdp.alpha[0]), rtol=1e-9
    )
    assert math.isnan(record.alpha_error[0, 0])
    assert (learner.policy == plain.policy).all()
    policy = np.full((3, 3, 2), 0.5)
    entropy = naive.evaluate(cmdp.transitions, -np.log(policy)[None], cmdp.initial, policy)[0]
    assert record.true[0, -1] == pytest.approx(entropy)


def test_events_fail_when_an_error_reaches_its_width():
    """Slow: what each cell's error and width are in the last episode."""
    run, learner, cmdp = watched(4, 0.2, episodes=50)
    twin, T = learner.twin, 50
    replay, _, _ = instrumented_run(cmdp, cmdp.problem(), 50, 4, DELTA, 0.2)
    L_r = 0.5 * math.log(2 * 3 * 2 * 3 * 2 * T / (DELTA / 4))
    worst = 0.0
    for h in range(3):
        for s in range(3):
            for a in range(2):
                n = max(twin.N[h, s, a], 1.0)
                worst = max(worst, abs(twin.sums[0, h, s, a] / n - cmdp.rewards[h, s, a]) / (0.2 * math.sqrt(L_r / n)))
    assert replay.worst["rewards"] >= worst * (1 - 1e-9) or worst == pytest.approx(replay.worst["rewards"])
    assert ("rewards" in replay.first_failure) == (replay.worst["rewards"] >= 1.0)
    assert replay.first_failure == run.record.first_failure


def test_the_success_event_holds_with_unscaled_bonuses_and_not_with_scaled_ones(unscaled, scaled):
    words = {f.key: f.word for f in event_findings(unscaled, "x")}
    assert words == dict.fromkeys(
        ("event-thresholds", "event-rewards", "event-utilities", "event-transitions", "event-visits"), "holds"
    )
    words = {f.key: f.word for f in event_findings(scaled, "x")}
    assert words["event-rewards"] == words["event-utilities"] == words["event-transitions"] == "fails"
    assert words["event-thresholds"] == words["event-visits"] == "holds"


def test_discrepancies_are_the_appendixs_sum(scaled):
    run = scaled[2]
    found, lemma1 = discrepancies(run), discrepancies(run, thresholds=False)
    t = 17
    error = run.record.estimated[t - 1] - run.record.true[t - 1]
    lam, side = run.multipliers[0, t - 1], 4 * 3 / run.problem.slater_gap
    slow = error[0] + lam * error[1] + t ** (-1 / 6) * error[2] + side * error[1]
    assert lemma1[t - 1] == pytest.approx(slow)
    assert found[t - 1] == pytest.approx(slow + lam * run.record.alpha_error[t - 1, 0])


def test_one_step_of_a_learner_is_within_lemma_1_on_twenty_runs_and_both_sums_are_its_own(scaled):
    both = learning_findings(scaled, "x")
    assert [finding.key for finding in both] == ["lemma-1-learning", "lemma-1-learning-published"]
    assert "fails" not in {finding.word for finding in both}
    one, run = both[0].series[3], scaled[3]
    k = int(np.flatnonzero(one.t == 10)[0])
    tau, eps = 10 ** (-1 / 6), float(run.schedules.margin(10.0))
    there = run.snapshots[10]
    phi = th.potential(run.cmdp, there.policy, there.multipliers, fd.saddle_point(run.cmdp, tau, eps)).total
    added = th.step_error(run.problem, 10 ** (-5 / 6), tau) + 10 ** (-5 / 6) * discrepancies(run)[9]
    assert one.right[k] == pytest.approx(0.9 * phi + added, rel=1e-6)


def test_errors_of_estimation_are_within_their_bounds_and_optimism_is_lost_with_the_scale(unscaled, scaled):
    for runs, optimistic in ((unscaled, "holds"), (scaled, "fails")):
        words = {f.key: f.word for f in estimation_findings(runs, "x") + statistical_findings(runs, "x")}
        assert words.pop("optimism") == optimistic
        assert words.pop("truncated-composite") == "fails"
        assert words.pop("monotone-weights") == "fails"
        assert set(words.values()) <= {"holds", "vacuous"}
        assert words["value-difference"] == "holds"


def test_samples_within_their_range_concentrate_and_wild_ones_do_not():
    tame, p = noisy(0), naive.random_cmdp_arrays(0, S=3, A=2, H=3)
    found = threshold_findings(tame, tame.problem(), 300, DELTA, range(40), "x")
    assert [f.word for f in found] == ["holds", "holds"]
    wild = fd.CMDP(p[0], p[1][0], p[1][1:], [fd.Threshold.normal(0.5, 20.0)], p[2])
    found = threshold_findings(wild, wild.problem(), 300, DELTA, range(40), "x")
    assert [f.word for f in found] == ["fails", "fails"]
    assert "one draw an episode" in found[0].note
    fixed = fd.make_cmdp("media-v1")
    assert threshold_findings(fixed, fixed.problem(), 300, DELTA, range(3), "x") == []
