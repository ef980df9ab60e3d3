"""What every registered learner offers to someone without a simulator: act, status, export."""

from __future__ import annotations

import numpy as np
import pytest

import flexdome as fd

CMDP = fd.make_cmdp("factored-v1")
IDS = tuple(fd.LEARNERS)


def made(id: str, episodes: int = 6, seed: int = 4):
    options = {"safe_policy": fd.safe_policy(CMDP, 0.5)} if "safe policy" in fd.LEARNERS[id].needs else {}
    learner = fd.make_learner(id, CMDP.problem(), episodes=50, seed=seed, **options)
    fd.simulate(learner, CMDP, episodes=episodes)
    return learner


@pytest.mark.parametrize("id", IDS)
def test_every_learner_acts_says_how_it_stands_and_leaves_as_a_file(id, tmp_path):
    learner = made(id)
    before = learner.policy.copy()
    actions = [[learner.act(h, s) for s in range(3)] for h in range(6)]
    assert actions == [[learner.act(h, s) for s in range(3)] for h in range(6)]  # asking changes nothing
    assert all(before[h, s, actions[h][s]] > 0.0 for h in range(6) for s in range(3))
    status = learner.status()
    assert status.episode == 7
    assert np.array_equal(status.thresholds, learner.beliefs().thresholds)
    assert "episode 7" in str(status)
    assert "constraint 0" in str(status)
    assert not any(word in str(status) for word in ("multiplier", "dual", "heat"))
    assert "multiplier" in status.text(verbose=True)
    learner.export(tmp_path / "policy.npz")
    assert np.array_equal(fd.Policy.load(tmp_path / "policy.npz").policy, before)
    assert np.array_equal(learner.policy, before)
    learner.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    assert actions == [[again.act(h, s) for s in range(3)] for h in range(6)]


def test_actions_follow_the_policy_over_episodes_and_seeds():
    """3,000 draws at one (h, s), from 60 seeds and 50 episodes: within five standard deviations."""
    drawn = []
    for seed in range(60):
        learner = fd.FlexDOME(CMDP.problem(), episodes=50, seed=seed)
        for t in range(50):
            learner.episode = t
            drawn.append(learner.act(2, 1))
    assert abs(np.mean(drawn) - 0.5) < 5 * np.sqrt(0.25 / 3000)


def test_steps_of_one_episode_are_drawn_by_themselves():
    learner = fd.FlexDOME(CMDP.problem(), episodes=2000)
    pairs = []
    for t in range(2000):
        learner.episode = t
        pairs.append((learner.act(0, 0), learner.act(1, 0)))
    counts = np.unique(pairs, axis=0, return_counts=True)[1]
    assert (np.abs(counts / 2000 - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 2000)).all()


@pytest.mark.parametrize(("h", "s", "message"), [(6, 0, "h is 6"), (0, 3, "s is 3"), (0.0, 1, "h is 0.0")])
def test_there_is_no_action_where_there_is_no_state(h, s, message):
    with pytest.raises(fd.ValidationError, match=message):
        made("flexdome").act(h, s)


def test_a_learner_that_is_short_by_its_own_belief_says_so():
    cmdp = fd.make_cmdp("independent-v1")
    learner = fd.FlexDOME(cmdp.problem(), episodes=80_000)
    assert "nothing was seen yet" in str(learner.status())
    history = fd.simulate(learner, cmdp, episodes=1000)
    status = learner.status()
    assert history.violation[0, -1] > 0.1  # it is unsafe in truth
    assert status.short.tolist() == [True]
    text = str(status)
    assert "NOT SAFE by the learner's own belief: constraint 0 falls short" in text
    assert f"short by {-status.slack[0]:.3g}" in text
    assert "constraint 0 must weigh more" in text
    assert "never tried" in text
    assert "multiplier" not in text
    assert "multiplier" in status.text(verbose=True)


def test_a_learner_that_meets_its_thresholds_claims_no_proof():
    learner = made("flexdome", 40)
    learner.set_thresholds([0.01])
    assert "believed to meet every threshold, which is not a proof" in str(learner.status())
    learner.set_thresholds([np.nan])
    assert "estimated threshold" in str(learner.status())
    learner.episode = 60
    assert "past the episodes that it was planned for" in str(learner.status())
