"""One threshold known, the other estimated: samples of the known one are not needed, by any learner."""

import numpy as np
import pytest

import flexdome as fd


@pytest.mark.parametrize("name", sorted(fd.LEARNERS))
def test_a_known_threshold_needs_no_samples(name, tmp_path):
    cmdp = fd.make_cmdp("multi-v1", seed=0, states=4, actions=2, horizon=3, constraints=2)
    problem = fd.Problem(
        states=4,
        actions=2,
        horizon=3,
        initial=cmdp.initial,
        thresholds=[cmdp.alpha[0], np.nan],
        slater_gap=fd.slater_gap(cmdp),
    )
    options = {}
    if "safe policy" in fd.LEARNERS[name].needs:
        options["safe_policy"] = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    with_samples, without = (fd.make_learner(name, problem, episodes=50, **options) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(8):
        states, actions = rng.integers(4, size=4), rng.integers(2, size=3)
        states[0] = int(np.argmax(cmdp.initial))
        rewards, utilities = rng.random(3), rng.random((2, 3))
        samples = rng.random((2, 3))
        with_samples.observe(fd.Episode(states, actions, rewards, utilities, samples))
        samples[0] = np.nan
        without.observe(fd.Episode(states, actions, rewards, utilities, samples))
    np.testing.assert_array_equal(with_samples.policy, without.policy)
    np.testing.assert_array_equal(with_samples.multipliers, without.multipliers)
    assert np.isfinite(without.beliefs().thresholds).all()
    without.save(tmp_path / "learner.npz")
    np.testing.assert_array_equal(fd.load_learner(tmp_path / "learner.npz").policy, without.policy)
    without.set_thresholds([np.nan, np.nan])  # none was seen of the first one
    assert np.isfinite(without.beliefs().thresholds).all()
