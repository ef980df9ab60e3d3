"""Samples that are missing: the primal-dual family against its twins, whose formulas are their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from naive_peers import TWINS
from runs import Observed, World, bits, learned, same_history, small_cmdp

OPTIONS: dict[str, dict[str, Any]] = {
    "uopt-rpgpd": {"bonus_scale": 0.01},
    "optprimaldual": {"policy_step": 0.3, "bonus_scale": 0.01},
}
CMDP = small_cmdp(3, S=4, A=3, H=3, m=2, law="steps", noise="bernoulli")
FORMS = [(name, {}) for name in TWINS] + [("flexdome", {"tuning": "practical"}), ("flexdome", {"bonus_scale": 0.1})]


def with_gaps(episode: fd.Episode, rng: np.random.Generator) -> fd.Episode:
    """Every third sample of a utility is missing, and the second utility's in the first action of the last step."""
    utilities = np.array(episode.utilities)
    utilities[rng.random(utilities.shape) < 1 / 3] = np.nan
    if episode.actions[-1] == 0:
        utilities[1, -1] = np.nan
    return fd.Episode(episode.states, episode.actions, episode.rewards, utilities, episode.thresholds)


@pytest.mark.parametrize("reveal", [(), ("rewards",), ("utilities",), ("transitions",)])
@pytest.mark.parametrize(("name", "more"), FORMS)
def test_a_learner_and_its_twin_agree_on_episodes_with_gaps(name: str, more: Any, reveal: Any) -> None:
    problem = CMDP.problem(slater_gap=0.4, reveal=reveal)
    options = {**OPTIONS.get(name, {}), **more}
    learner, twin = fd.make_learner(name, problem, episodes=60, **options), TWINS[name](problem, episodes=60, **options)
    world, rng = World(CMDP, 3), np.random.default_rng(5)
    for _ in range(60):
        episode = with_gaps(world.play(learner.policy), rng)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.policy, twin.policy, rtol=0, atol=1e-9)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=0, atol=1e-9)
    told = learner.beliefs()
    np.testing.assert_allclose([told.value, *told.utilities], twin.values(), rtol=0, atol=1e-9)
    assert twin.missing[1:].any()


@pytest.mark.parametrize("name", list(TWINS))
def test_a_run_goes_on_from_gaps_with_the_bits_of_observe_and_of_its_file(name: str, tmp_path: Path) -> None:
    world, rng = World(CMDP, 3), np.random.default_rng(5)
    data = [with_gaps(world.play(fd.baselines(CMDP).uniform[0]), rng) for _ in range(20)]
    problem = CMDP.problem(slater_gap=0.4)
    fast, slow = (fd.make_learner(name, problem, episodes=80, **OPTIONS.get(name, {})) for _ in range(2))
    for learner in (fast, slow):
        learner.preload(data[:10])
        for episode in data[10:]:
            learner.observe(episode)
    fast.save(tmp_path / "learner.npz")
    loaded = fd.load_learner(tmp_path / "learner.npz")
    one, other, third = (fd.simulate(x, CMDP, 40, seed=1) for x in (fast, Observed(slow), loaded))
    assert same_history(one, third)
    assert one.multipliers.tobytes() == other.multipliers.tobytes()
    assert learned(fast) == learned(slow)
    state, again = fast.state(), loaded.state()
    assert state["missing"].sum() > 20
    assert all((state[key] == again[key]).all() for key in state)


def test_the_width_that_is_told_of_a_utility_is_that_of_its_samples_where_the_reward_is_known() -> None:
    # One cell, K = 100, delta = 0.1: four visits, one sample: sqrt(2 log 12000) + (14/3) log(6000) / 4 (Efroni et al.).
    problem = fd.Problem(1, 1, 1, [1.0], [0.2], 0.4, rewards=[[[0.5]]])
    learner = fd.make_learner("optprimaldual", problem, episodes=100, delta=0.1)
    for utility in (np.nan, 0.6, np.nan, np.nan):
        learner.observe(fd.Episode([0, 0], [0], [0.5], [[utility]]))
    assert learner.beliefs().widths.item() == pytest.approx(14.48363782029834, rel=1e-12)


def test_a_learner_that_misses_nothing_keeps_no_room_for_it_and_writes_none() -> None:
    learner = fd.FlexDOME(CMDP.problem(slater_gap=0.4), episodes=30)
    learner.preload([World(CMDP, 3).play(fd.baselines(CMDP).uniform[0])])
    fd.simulate(learner, CMDP)
    assert learner.model.core.counts.missing.size == 0
    assert "missing" not in learner.state()


def test_a_file_that_misses_more_than_was_visited_is_refused() -> None:
    learner = fd.FlexDOME(CMDP.problem(slater_gap=0.4), episodes=30)
    learner.observe(with_gaps(World(CMDP, 3).play(learner.policy), np.random.default_rng(0)))
    state, before = learner.state(), bits(learner)
    again = fd.FlexDOME(CMDP.problem(slater_gap=0.4), episodes=30)
    for value, wrong in ((2.0, "exceeds the number of visits"), (0.5, "whole"), (-1.0, "missing")):
        bad = {**state, "missing": state["missing"].copy()}
        bad["missing"][0, np.argmax(state["n_visits"])] = value
        with pytest.raises(fd.ValidationError, match=wrong):
            again.restore(bad)
    full = {**state, "missing": np.tile(state["n_visits"], (2, 1)), "sum_d": np.tile(state["n_visits"], (2, 1))}
    with pytest.raises(fd.ValidationError, match="visits with a sample"):
        again.restore(full)
    assert bits(learner).keys() == before.keys()


def test_a_certificate_takes_what_is_missing_for_the_worst() -> None:
    whole, gaps = (fd.FlexDOME(CMDP.problem(slater_gap=0.4), episodes=30) for _ in range(2))
    world, rng = World(CMDP, 3), np.random.default_rng(5)
    data = [world.play(fd.baselines(CMDP).uniform[0]) for _ in range(30)]
    whole.preload(data)
    gaps.preload([with_gaps(episode, rng) for episode in data])
    assert (gaps.seen_counts().visits == whole.seen_counts().visits).all()
    assert gaps.seen_counts().missing[1:].sum() > 30
    assert whole.seen_counts().missing is None
    means = gaps.utility_means()
    seen = gaps.seen_counts()
    n = seen.visits - seen.missing[1:]
    np.testing.assert_allclose(means[n > 0], seen.sums[1:][n > 0] / n[n > 0])
    assert np.isnan(means[n == 0]).all()
