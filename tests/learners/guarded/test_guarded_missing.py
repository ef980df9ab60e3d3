"""Samples of a utility that are missing: no bound rises by one, and the theorem holds whatever the reason is."""

from __future__ import annotations

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import kernels as sequences
from flexdome.learners.guarded.guard import Guarded
from flexdome.learners.guarded.planner import sketch
from flexdome.learners.seen.dense import dense
from flexdome.planning import slater_gap
from runs import World, small_cmdp

CMDP = small_cmdp(1, S=3, A=2, H=3, m=2)
SAFE = fd.safe_policy(CMDP, 0.5 * slater_gap(CMDP))


def sure(**options):
    return fd.SureDOME(CMDP.problem(), episodes=400, safe_policy=SAFE, **options)


def guard(inside="optcmdp-bonus"):
    return Guarded(CMDP.problem(), episodes=400, inside=inside, options={"replan": "doubling"}, safe_policy=SAFE)


def with_utilities(e, utilities):
    return fd.Episode(e.states, e.actions, e.rewards, utilities, e.thresholds)


def with_gaps(e, rng, rate):
    return with_utilities(e, np.where(rng.random(np.shape(e.utilities)) < rate, np.nan, e.utilities))


@pytest.mark.parametrize("make", [sure, guard])
def test_a_missing_sample_counts_as_nothing_for_a_bound_and_as_all_for_a_refutation(make):
    """Against a twin that is told 0 (or 1, by the safe policy) in its place: the same sequences, bit for bit."""
    learner, twin = make(), make()
    world, rng = World(CMDP, 3), np.random.default_rng(4)
    seen = set()
    for _ in range(120):
        drawn = learner._drawn
        assert drawn == twin._drawn
        seen.add(drawn > 0)
        episode = with_gaps(world.play(learner.policy), rng, 0.2)
        worst = np.where(np.isnan(episode.utilities), float(drawn == 0), episode.utilities)
        learner.observe(episode)
        rewards = (np.asarray(episode.rewards).sum(), worst.sum(axis=1))
        twin.ledger.observe(drawn, float(rewards[0]), rewards[1])
        np.testing.assert_allclose(
            learner.ledger.book.rows[drawn, :, sequences.TOTAL], twin.ledger.book.rows[drawn, :, sequences.TOTAL]
        )
        assert (learner.ledger.book.bound[drawn] == twin.ledger.book.bound[drawn]).all()
        twin = make()  # the same state, by its arrays: only what one episode does is compared
        for mine, its in zip(learner.ledger.book, twin.ledger.book, strict=True):
            its[...] = mine
        twin._played[:] = learner._played
    assert seen == {False, True}


def test_bounds_hold_where_the_sensor_fails_when_things_are_bad():
    """Low utilities are never seen: a mean over what was seen would be far too high, and the bounds are not."""
    problem = CMDP.problem()
    wrong = shown = 0
    for seed in range(12):
        learner, world = fd.SureDOME(problem, 300, seed, safe_policy=SAFE, delta=0.1), World(CMDP, seed)
        for _ in range(300):
            e = world.play(learner.policy)
            d = np.asarray(e.utilities)
            learner.observe(with_utilities(e, np.where(d < 0.5, np.nan, d)))
        for one in learner.ledger.policies[1:]:
            true = fd.evaluate(CMDP, one.policy).utilities
            wrong += int((one.bound > true).any())
            shown += int((one.bound > 0.0).any())
    assert shown > 0
    assert wrong == 0


def test_a_plan_takes_means_over_the_samples_there_are():
    problem, learner = CMDP.problem(), sure()
    world = World(CMDP, 5)
    whole = [world.play(problem.uniform) for _ in range(8)]
    holes = [with_gaps(e, np.random.default_rng(k), 0.3) for k, e in enumerate(whole)]
    learner.preload(holes)
    told = sketch(problem, dense(learner.tally))
    h, s, a = 0, int(whole[0].states[0]), int(whole[0].actions[0])
    mine = [e.utilities[1][0] for e in holes if (e.states[0], e.actions[0]) == (s, a)]
    kept = [x for x in mine if not np.isnan(x)]
    assert 0 < len(kept) < len(mine)
    assert told.f[2, h, s, a] == pytest.approx(np.mean(kept))
    assert told.doubt[2, h, s, a] == pytest.approx(np.sqrt(3 / len(kept)))
    assert told.doubt[0, h, s, a] == pytest.approx(np.sqrt(3 / len(mine)))
    never = dense(learner.tally)
    never.samples[1] = never.sums[1] = 0.0
    assert not sketch(problem, never).seen[1].any()


@pytest.mark.parametrize("make", [sure, guard])
def test_files_keep_what_is_missing_and_both_go_on_alike(make, tmp_path):
    learner, world, rng = make(), World(CMDP, 6), np.random.default_rng(7)
    for _ in range(30):
        learner.observe(with_gaps(world.play(learner.policy), rng, 0.2))
    learner.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    for _ in range(30):
        episode = with_gaps(world.play(learner.policy), rng, 0.2)
        learner.observe(episode)
        again.observe(episode)
        assert (learner.policy == again.policy).all()
    assert (learner.ledger.book.capital == again.ledger.book.capital).all()


def test_a_learner_inside_that_takes_none_refuses_and_nothing_changes():
    class Strict(fd.LEARNERS["optcmdp-bonus"].load()):
        gaps = False

    learner = fd.Guard(Strict(CMDP.problem(), episodes=50), SAFE)
    before = learner.state()
    with pytest.raises(fd.ValidationError, match="Strict takes no episode with a missing sample"):
        learner.observe(with_gaps(World(CMDP, 1).play(learner.policy), np.random.default_rng(0), 0.9))
    assert all((before[name] == array).all() for name, array in learner.state().items())
