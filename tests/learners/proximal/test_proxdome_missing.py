"""ProxDOME with samples of a utility that are missing: held to its twin, kept in files, and no bit without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from naive_proxdome import NaiveProxDOME
from runs import World, small_cmdp

CASES: dict[str, dict[str, Any]] = {
    "two constraints": {"m": 2},
    "zero and one": {"m": 2, "noise": "bernoulli"},
    "steps shared": {"m": 2, "stationary": True},
}


def cmdp_of(stationary: bool = False, **options: Any) -> fd.CMDP:
    base = small_cmdp(3, S=4, A=2, H=3, **options)
    if not stationary:
        return base
    dense = base.to_dense()
    return fd.CMDP(dense.transitions[0], dense.rewards[0], dense.utilities[:, 0], dense.alpha, base.initial, horizon=3)


def with_gaps(e: fd.Episode, rng: np.random.Generator, rate: float = 0.3) -> fd.Episode:
    utilities = np.array(e.utilities)
    utilities[rng.random(utilities.shape) < rate] = np.nan
    return fd.Episode(e.states, e.actions, e.rewards, utilities, e.thresholds)


@pytest.mark.parametrize("case", CASES)
def test_the_learner_is_its_twin_with_samples_missing(case: str) -> None:
    cmdp = cmdp_of(**CASES[case])
    learner, world, rng = fd.ProxDOME(cmdp.problem(), episodes=100), World(cmdp, 1), np.random.default_rng(2)
    twin = NaiveProxDOME(learner.problem)
    for k in range(60):
        episode = with_gaps(world.play(learner.policy), rng, 0.3 if k % 3 else 0.9)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.own.pools[0], twin.noise, atol=1e-9)
        np.testing.assert_allclose(learner.policy, twin.policy, atol=1e-6)
        np.testing.assert_allclose(learner.own.report.numbers[: twin.report.size], twin.report, atol=1e-6)
    counts = learner.model.core.counts
    assert ((counts.n_visits > 0) & (learner.model.samples() == 0)).any() or case != "two constraints"


def test_the_errors_of_a_mean_are_those_of_its_own_samples() -> None:
    """Ten visits of which seven lack a utility: the error of that utility is near that of three visits."""
    cmdp = cmdp_of(m=2, noise="bernoulli")
    problem, world = cmdp.problem(), World(cmdp, 5)
    log = [world.play(problem.uniform) for _ in range(200)]
    rng = np.random.default_rng(3)
    holes = []
    for e in log:
        utilities = np.array(e.utilities)
        utilities[1, rng.random(3) < 0.7] = np.nan
        holes.append(fd.Episode(e.states, e.actions, e.rewards, utilities))
    whole, part = fd.ProxDOME(problem, episodes=10), fd.ProxDOME(problem, episodes=10)
    whole.preload(log)
    part.preload(holes)
    tried = whole.model.core.counts.n_visits > 20
    ratio = part.own.s2[1, tried] / whole.own.s2[1, tried]
    assert 1.8 < np.median(ratio) < 5.5
    assert 0.5 < np.median(part.own.s2[0, tried] / whole.own.s2[0, tried]) < 1.5


@pytest.mark.parametrize("options", [{}, {"forget": 16}])
def test_files_and_forgetting_keep_what_is_missing(options: dict[str, Any], tmp_path: Any) -> None:
    cmdp = cmdp_of(m=2)
    learner, world, rng = fd.ProxDOME(cmdp.problem(), episodes=80, **options), World(cmdp, 6), np.random.default_rng(7)
    for _ in range(20):
        learner.observe(with_gaps(world.play(learner.policy), rng))
    learner.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    for _ in range(20):
        episode = with_gaps(world.play(learner.policy), rng)
        learner.observe(episode)
        again.observe(episode)
        assert (learner.policy == again.policy).all()
    if options:
        counts = learner.model.core.counts
        assert 0 < counts.missing.sum() < 0.6 * counts.n_visits.sum()
    else:
        learner.certify()
        histories = [fd.simulate(one, cmdp, episodes=30, seed=3) for one in (learner, again)]
        assert (histories[0].reward_gap == histories[1].reward_gap).all()


def test_room_for_missing_samples_changes_no_bit() -> None:
    cmdp = cmdp_of(m=2, noise="bernoulli")
    one, other, world = (
        fd.ProxDOME(cmdp.problem(), episodes=50),
        fd.ProxDOME(cmdp.problem(), episodes=50),
        World(cmdp, 8),
    )
    other.model.expect_missing()
    for _ in range(50):
        episode = world.play(one.policy)
        one.observe(episode)
        other.observe(episode)
    assert (one.policy == other.policy).all()
    assert (one.own.s2 == other.own.s2).all()
