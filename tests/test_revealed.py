"""What a problem reveals beside its thresholds, in the hands of the primal-dual family."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from naive_revealed import NaiveRevealed, NaiveRevealedAnchor
from runs import Observed, World, learned, same_history, small_cmdp

PARTS = ("rewards", "utilities", "transitions")
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
    twin = (NaiveRevealedAnchor if id == "anchordome" else NaiveRevealed)(learner)
    world = World(cmdp)
    for _ in range(60):
        np.testing.assert_allclose(learner.policy, np.exp(twin.log_pi), atol=1e-9)
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("id", "options"), FAMILY, ids=NAMES)
@pytest.mark.parametrize("reveal", [("rewards", "utilities"), ("rewards", "transitions"), PARTS], ids="-".join)
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


@pytest.mark.parametrize(("id", "options"), FAMILY, ids=NAMES)
@pytest.mark.parametrize("reveal", [("rewards", "utilities"), PARTS], ids="-".join)
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
    """A CMDP that tells everything."""

    def problem(self, *args: Any, **options: Any) -> fd.Problem:
        return super().problem(*args, **{**options, "reveal": PARTS})


@pytest.mark.parametrize("id", ["flexdome", "optprimaldual", "uopt-rpgpd", "rpd-oe", "optpess-pd", "anchordome"])
def test_a_learner_that_is_told_everything_passes_the_checker(id: str) -> None:
    cmdp = small_cmdp(m=2)
    told = Told(cmdp.transitions, cmdp.rewards, cmdp.utilities, cmdp.alpha, 0)
    assert len(fd.check_learner(fd.LEARNERS[id].load(), told)) >= 9


@pytest.mark.parametrize(("id", "options"), FAMILY, ids=NAMES)
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


@pytest.mark.parametrize("reveal", [("rewards", "utilities"), PARTS], ids="-".join)
def test_a_file_that_does_not_fit_what_is_known_is_refused(reveal: tuple[str, ...], tmp_path: Path) -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp, "flexdome", reveal)
    fd.simulate(learner, cmdp, episodes=10)
    learner.model.core.state_of[1, :2] = 1, 0
    learner.save(tmp_path / "learner")
    with pytest.raises(fd.FlexDOMEError, match="is not the state of its cell"):
        fd.load_learner(tmp_path / "learner")
    blind = fd.FlexDOME(cmdp.problem(), episodes=60)
    fd.simulate(blind, cmdp, episodes=3)
    blind._problem = cmdp.problem(reveal=reveal)
    blind.save(tmp_path / "learner")
    with pytest.raises(fd.FlexDOMEError, match="n_cells must be 5 at every step"):
        fd.load_learner(tmp_path / "learner")
