"""What ProxDOME counts of its own episodes: the share whose sums fall short, in memory, in files and in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flexdome as fd
from flexdome.cmdp.archive import read_archive, write_archive
from runs import World, small_cmdp


@pytest.mark.parametrize("m", [1, 2])
def test_the_share_of_own_episodes_below_the_threshold_is_that_of_the_history(m: int) -> None:
    cmdp = small_cmdp(4, m=m, noise="bernoulli")
    learner = fd.ProxDOME(cmdp.problem())
    assert np.isnan(learner.status().share_below).all()
    assert "fell short" not in str(learner.status())
    history = fd.simulate(learner, cmdp, episodes=300)
    status = learner.status()
    assert (status.played == 300).all()
    assert status.share_below == pytest.approx(history.share_below, abs=1e-12)
    assert (status.share_below > 0.0).any()
    assert "300 episodes played, whose own sums fell short: constraint 0 in " in str(status)


def test_a_sum_that_is_the_threshold_but_for_rounding_is_not_below() -> None:
    each = np.array([[0.1], [0.1 - 1e-8], [0.2]])  # of three states, none of which is ever left
    cmdp = fd.CMDP(np.eye(3)[:, None], np.zeros((3, 1)), [each], [1.0], [0.4, 0.3, 0.3], horizon=10)
    learner = fd.ProxDOME(cmdp.problem())
    history = fd.simulate(learner, cmdp, episodes=50)
    short = float((np.abs(history.realised[1] - (1.0 - 1e-7)) < 1e-9).mean())
    assert 0.1 < short < 0.5
    assert (history.realised[1] < 1.0).mean() > short
    assert history.share_below.tolist() == learner.status().share_below.tolist() == [short]


def test_a_log_is_not_played_and_an_observed_episode_is() -> None:
    cmdp = small_cmdp(4)
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
    learner.preload([world.play(learner.policy) for _ in range(20)])
    assert learner.status().played.tolist() == [0.0]
    short = 0
    for _ in range(40):
        episode = world.play(learner.policy)
        short += int(np.sum(episode.utilities[0]) < cmdp.alpha[0])
        learner.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities))
    assert learner.status().played.tolist() == [40.0]
    assert learner.status().below.tolist() == [float(short)]


def test_an_episode_is_held_to_the_threshold_there_was() -> None:
    cmdp = small_cmdp(4)
    learner, world = fd.ProxDOME(cmdp.problem(slater_gap=0.01)), World(cmdp)
    for alpha in (0.0, cmdp.horizon - 0.02):
        learner.set_thresholds([alpha])
        for _ in range(10):
            episode = world.play(learner.policy)
            learner.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities))
    assert learner.status().below.tolist() == [10.0]


def test_forgetting_episodes_does_not_forget_how_they_went() -> None:
    cmdp = small_cmdp(4)
    learner = fd.ProxDOME(cmdp.problem(), forget=16)
    history = fd.simulate(learner, cmdp, episodes=60)
    assert learner.status().played.tolist() == [60.0]
    assert learner.status().share_below == pytest.approx(history.share_below, abs=1e-12)


def test_a_file_of_version_5_loads_and_counts_from_then_on(tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2, noise="bernoulli")
    learner, path = fd.ProxDOME(cmdp.problem()), tmp_path / "learner"
    fd.simulate(learner, cmdp, episodes=50)
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    new = ("state.judged", "state.below", "state.promise")
    write_archive(path, header, {name: a for name, a in arrays.items() if name not in new})
    loaded = fd.load_learner(path)
    assert isinstance(loaded, fd.ProxDOME)
    assert loaded.status().played.tolist() == [0.0, 0.0]
    one, other = fd.simulate(learner, cmdp, episodes=50), fd.simulate(loaded, cmdp, episodes=50)
    assert one.realised.tobytes() == other.realised.tobytes()
    assert loaded.status().played.tolist() == [50.0, 50.0]
    assert learner.status().played.tolist() == [100.0, 100.0]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("judged", 51.0, r"state.judged\[0\] is 51"),
        ("below", 50.5, "state.below"),
        ("below", 51.0, r"state.below\[0\] must not exceed judged"),
        ("promise", -1.0, r"state.promise\[0, 0\] must have counts"),
    ],
)
def test_counts_that_cannot_be_are_refused(name: str, value: float, message: str, tmp_path: Path) -> None:
    cmdp, path = small_cmdp(5), tmp_path / "learner"
    learner = fd.ProxDOME(cmdp.problem())
    fd.simulate(learner, cmdp, episodes=50)
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    arrays[f"state.{name}"] = np.full(arrays[f"state.{name}"].shape, value)
    write_archive(path, header, arrays)
    with pytest.raises(fd.FileFormatError, match=message):
        fd.load_learner(path)


@pytest.mark.parametrize("environment", ["independent-v1", "multi-v1"])
def test_more_of_a_log_takes_no_verdict_back(environment: str) -> None:
    shown = 0
    for seed in range(6):
        cmdp = fd.make_cmdp(environment, seed=seed, states=5, actions=3)
        careful, world = fd.safe_policy(cmdp, 0.8 * fd.slater_gap(cmdp)).policy, World(cmdp, seed)
        log, before = [world.play(careful) for _ in range(1600)], False
        for length in (100, 400, 1600):
            learner = fd.ProxDOME(cmdp.problem())
            learner.preload(log[:length])
            now = bool(learner.status().safe.all())
            assert now or not before, (seed, length)
            before = now
            shown += now
    assert shown >= 10  # nothing is shown with hope for what was never tried


def test_where_constraints_conflict_the_account_names_them() -> None:
    base = small_cmdp(2, m=2)
    best = [fd.baselines(base).safest[i][1].utilities[i] + 0.2 for i in range(2)]
    problem = fd.Problem(states=5, actions=3, horizon=4, initial=0, thresholds=best, slater_gap=0.1)
    learner, world = fd.ProxDOME(problem), World(base)
    for _ in range(3000):
        episode = world.play(learner.policy)
        learner.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities))
        if learner.status().infeasible:
            break
    assert "no policy meets these thresholds" in str(learner.status())
    assert ", constraints 0 and 1 conflict" in str(learner.status())
