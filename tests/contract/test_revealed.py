"""What a problem reveals beside its thresholds, in the hands of the primal-dual family and of ProxDOME."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from naive_peers import TWINS
from naive_proxdome import NaiveProxDOME
from runs import Observed, World, learned, same_history, small_cmdp

PARTS = ("rewards", "utilities", "transitions")
MEANS = ("rewards", "utilities")
SOME = [part for k in (1, 2, 3) for part in combinations(PARTS, k)]
FAMILY: list[tuple[str, dict[str, Any]]] = [
    ("flexdome", {"bonus_scale": 0.05}),
    ("flexdome", {"tuning": "practical", "bonus_scale": 0.05}),
    ("optprimaldual", {"tuning": "practical", "bonus_scale": 1e-3, "dual_step": 1.0, "unvisited": "paper"}),
    ("optprimaldual", {"tuning": "practical", "bonus_scale": 1e-3, "dual_step": 1.0, "dual_policy": "next"}),
    ("uopt-rpgpd", {"bonus_scale": 1e-2}),
    ("uopt-rpgpd", {"bonus_scale": 1e-2, "notebook_slips": True}),
    ("rpd-oe", {"tuning": "practical", "bonus_scale": 0.05, "unvisited": "paper"}),
    ("rpd-oe", {"tuning": "practical", "bonus_scale": 0.05}),
    ("optpess-pd", {"tuning": "practical", "bonus_scale": 1e-2, "unvisited": "paper"}),
    ("optpess-pd", {"tuning": "practical", "bonus_scale": 1e-2}),
    ("anchordome", {"bonus_scale": 0.05}),
]
NAMES = [f"{id}-{k}" for k, (id, _) in enumerate(FAMILY)]
# Kernels of their own, which take a quarter of a minute to compile; their formulas are held to the twin above all.
SLIPS = [name for name, (_, options) in zip(NAMES, FAMILY, strict=True) if "notebook_slips" in options]
ALL = [
    pytest.param(id, options, id=name, marks=[pytest.mark.slow] * (name in SLIPS))
    for (id, options), name in zip([*FAMILY, ("proxdome", {})], [*NAMES, "proxdome"], strict=True)
]


def learner_of(cmdp: fd.CMDP, id: str, reveal: tuple[str, ...], **options: Any) -> Any:
    return fd.make_learner(id, cmdp.problem(reveal=reveal), **{"episodes": 60, **options})


@pytest.mark.parametrize("reveal", SOME, ids="-".join)
@pytest.mark.parametrize(("id", "options"), FAMILY, ids=NAMES)
def test_every_learner_that_is_told_something_agrees_with_its_slow_twin(
    id: str, options: dict[str, Any], reveal: tuple[str, ...]
) -> None:
    if id == "optpess-pd" and "transitions" in reveal and "rewards" not in reveal:
        pytest.skip("what it plans by is equal but for rounding, which decides between equals")
    cmdp = small_cmdp(S=5, A=2, H=3, m=2, noise="bernoulli", law="steps")
    learner = learner_of(cmdp, id, reveal, **options)
    twin = TWINS[id](learner.problem, **{"episodes": 60, **options})
    world = World(cmdp)
    for _ in range(60):
        np.testing.assert_allclose(learner.policy, twin.policy, atol=1e-9)
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("id", "options"), ALL)
@pytest.mark.parametrize("reveal", [MEANS, ("rewards", "transitions"), PARTS], ids="-".join)
def test_observe_is_simulate_and_a_saved_learner_continues_bit_for_bit(
    id: str, options: dict[str, Any], reveal: tuple[str, ...], tmp_path: Path
) -> None:
    cmdp = small_cmdp(m=2, noise="bernoulli", law="steps")
    through, seen = learner_of(cmdp, id, reveal, **options), learner_of(cmdp, id, reveal, **options)
    whole = fd.simulate(through, cmdp, seed=1)
    observed = fd.simulate(Observed(seen), cmdp, seed=1)
    assert np.array_equal(whole.reward_gap, observed.reward_gap)
    assert learned(through) == learned(seen)
    cut = learner_of(cmdp, id, reveal, **options)
    first = fd.simulate(cut, cmdp, episodes=23, seed=1)
    cut.save(tmp_path / "learner")
    again = fd.load_learner(tmp_path / "learner")
    assert same_history(first + fd.simulate(again, cmdp, seed=1), whole)
    assert learned(again) == learned(through)


@pytest.mark.parametrize(("id", "options"), ALL)
@pytest.mark.parametrize("reveal", [MEANS, PARTS], ids="-".join)
def test_logs_thresholds_and_files_before_the_first_episode_keep_what_is_known(
    id: str, options: dict[str, Any], reveal: tuple[str, ...], tmp_path: Path
) -> None:
    cmdp = small_cmdp()
    world = World(cmdp)
    log = [world.play(np.full((4, 5, 3), 1 / 3)) for _ in range(20)]
    learner = learner_of(cmdp, id, reveal, **options)
    learner.preload(log)
    learner.set_thresholds(0.5 * cmdp.alpha)
    learner.save(tmp_path / "learner")
    again = fd.load_learner(tmp_path / "learner")
    for one in (learner, again):
        assert one.visits.sum() == 20 * 4
        assert one.beliefs().thresholds == pytest.approx(0.5 * cmdp.alpha, abs=0)
        fd.simulate(one, cmdp)
    assert learned(again) == learned(learner)


class Told(fd.CMDP):
    """A CMDP that tells its means, in arrays of the learner's own. (Who knows all learns nothing from a run's seed.)"""

    def problem(self, *args: Any, **options: Any) -> fd.Problem:
        told = super().problem(*args, **{**options, "reveal": MEANS})
        return replace(told, **{part: np.array(getattr(told, part)) for part in MEANS})


@pytest.mark.parametrize("id", sorted({"proxdome", *(id for id, _ in FAMILY)}))
def test_a_learner_that_is_told_all_means_passes_the_checker(id: str) -> None:
    cmdp = small_cmdp(m=2, law="steps")
    told = Told(cmdp.transitions, cmdp.rewards, cmdp.utilities, cmdp.thresholds, 0)
    assert len(fd.check_learner(fd.LEARNERS[id].load(), told)) >= 9


@pytest.mark.parametrize(("id", "options"), ALL)
def test_who_knows_everything_believes_the_truth_at_once(id: str, options: dict[str, Any]) -> None:
    cmdp = small_cmdp(m=2, H=3)
    learner = learner_of(cmdp, id, PARTS, **options)
    for _ in range(2):
        told, truth = learner.beliefs(), fd.evaluate(cmdp, learner.policy)
        assert told.value == pytest.approx(truth.value, abs=1e-12)
        assert told.utilities == pytest.approx(truth.utilities, abs=1e-12)
        assert not told.widths.any()
        fd.simulate(learner, cmdp, episodes=30)


def test_the_policy_of_a_state_moves_before_its_first_visit() -> None:
    cmdp = small_cmdp()
    for reveal in SOME:
        learner = learner_of(cmdp, "flexdome", reveal)
        fd.simulate(learner, cmdp, episodes=3)
        never = learner.visits.sum(axis=-1) == 0
        assert never.any()
        assert np.ptp(learner.policy[never], axis=-1).max() > 0.01


@pytest.mark.parametrize("reveal", [MEANS, PARTS], ids="-".join)
def test_a_file_that_does_not_fit_what_is_known_is_refused(reveal: tuple[str, ...], tmp_path: Path) -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp, "flexdome", reveal)
    fd.simulate(learner, cmdp, episodes=10)
    learner.model.core.counts.state_of[1, :2] = 1, 0
    learner.save(tmp_path / "learner")
    with pytest.raises(fd.FlexDOMEError, match="is not the state of its cell"):
        fd.load_learner(tmp_path / "learner")
    blind = fd.FlexDOME(cmdp.problem(), episodes=60)
    fd.simulate(blind, cmdp, episodes=3)
    blind._problem = cmdp.problem(reveal=reveal)
    blind.save(tmp_path / "learner")
    with pytest.raises(fd.FlexDOMEError, match="n_cells must be 5 at every step"):
        fd.load_learner(tmp_path / "learner")


@pytest.mark.parametrize("reveal", SOME, ids="-".join)
@pytest.mark.parametrize("kind", [{"m": 2}, {"stationary": True}], ids=["two constraints", "stationary"])
def test_proxdome_follows_its_twin_whatever_it_is_told(reveal: tuple[str, ...], kind: dict[str, Any]) -> None:
    cmdp = small_cmdp(S=4, A=2, H=3, noise="bernoulli", law="steps", **kind)
    learner = fd.ProxDOME(cmdp.problem(reveal=reveal), episodes=60)
    twin, world = NaiveProxDOME(learner.problem), World(cmdp)
    for _ in range(60):
        np.testing.assert_allclose(learner.policy, twin.policy, atol=1e-9)
        numbers = learner.own.report.numbers[: twin.report.size]
        np.testing.assert_allclose(numbers, twin.report, rtol=1e-9, atol=1e-9)
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)


@pytest.mark.parametrize("environment", ["paper-v1", "independent-v1", "multi-v1", "tight-v1", "media-v1", "three"])
def test_proxdome_plays_the_optimum_from_the_first_episode_where_everything_is_known(environment: str) -> None:
    cmdp = small_cmdp(m=3, fraction=1.1) if environment == "three" else fd.make_cmdp(environment, seed=2)
    learner = fd.ProxDOME(cmdp.problem(reveal=PARTS), episodes=5)
    history = fd.simulate(learner, cmdp)
    assert np.abs(history.reward_gap).max() <= 1e-6
    assert history.violation.max() <= 1e-9
    assert learner.status().safe.all()


def test_proxdome_meets_a_known_utility_exactly_while_it_learns_the_reward() -> None:
    cmdp = fd.make_cmdp("independent-v1", seed=1)
    parts: tuple[tuple[str, ...], ...] = ((), ("utilities", "transitions"))
    first, second = (fd.simulate(fd.ProxDOME(cmdp.problem(reveal=reveal), episodes=400), cmdp) for reveal in parts)
    assert second.violation[0, 20:].max() <= 1e-6 * cmdp.horizon  # before, multipliers of at most sqrt(t) are too small
    assert second.strong_violation[-1] < 0.1 * first.strong_violation[-1]
    assert second.strong_regret[-1] < 0.5 * first.strong_regret[-1]


def test_proxdome_aims_at_the_utilities_where_known_thresholds_cannot_be_met() -> None:
    cmdp = small_cmdp()
    learner = fd.ProxDOME(cmdp.problem(reveal=PARTS), episodes=50)
    learner.set_thresholds([3.99], slater_gap=1e-3)
    assert not learner.choices.certain
    assert "shown safe" in str(learner.status())
    before = fd.evaluate(cmdp, learner.policy).utilities[0]
    fd.simulate(learner, cmdp, episodes=50)
    assert fd.evaluate(cmdp, learner.policy).utilities[0] > before
    learner.set_thresholds(cmdp.alpha)
    assert learner.choices.certain
    assert fd.evaluate(cmdp, learner.policy).value == pytest.approx(fd.solve(cmdp).value, abs=1e-6)


@pytest.mark.slow
def test_in_the_setting_of_the_notebook_the_violation_of_uopt_rpgpd_is_about_a_thousand() -> None:
    # Rewards and utilities known, transitions learned, bonus scale 1e-3, the notebook's slips, 5,000 episodes; its one
    # instance is one of another generator, so 24 of ours stand for it. Measured: mean 1,036, 875 to 1,243.
    found = []
    for seed in range(24):
        cmdp = fd.make_cmdp("kitamura-v1", seed=seed)
        problem = cmdp.problem(reveal=MEANS)
        learner = fd.make_learner("uopt-rpgpd", problem, episodes=5000, bonus_scale=1e-3, notebook_slips=True)
        found.append(fd.simulate(learner, cmdp, seed=seed).strong_violation[-1])
    assert 990 <= np.mean(found) <= 1080
    assert min(found) >= 800
    assert max(found) <= 1300


@pytest.mark.parametrize("name", ["flexdome", "optprimaldual", "uopt-rpgpd", "rpd-oe"])
@pytest.mark.parametrize("m", [1, 2])
def test_known_rewards_leave_the_widths_of_utilities_as_they_are(name: str, m: int) -> None:
    cmdp = small_cmdp(S=4, A=3, H=3, m=m)
    world = World(cmdp)
    log = [world.play(np.full((3, 4, 3), 1 / 3)) for _ in range(40)]
    widths = []
    for reveal in ((), ("rewards",)):
        learner = fd.make_learner(name, cmdp.problem(reveal=reveal), episodes=100)
        learner.preload(log)
        widths.append(learner.beliefs().widths)
    np.testing.assert_allclose(*widths, rtol=1e-12)
    assert widths[0].std() > 0
