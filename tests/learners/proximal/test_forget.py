"""ProxDOME on a plant that changes: what is forgotten, when, and that nothing is where nothing is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.proximal.memory import Memory
from runs import World, small_cmdp


def episode(total: float, H: int = 4) -> tuple[np.ndarray, ...]:
    return (
        np.zeros(H + 1, dtype=np.int64),
        np.zeros(H, dtype=np.int64),
        np.zeros(H),
        np.full((1, H), total / H),
        np.zeros((0, 0)),
    )


def test_what_is_older_than_the_window_is_forgotten() -> None:
    memory = Memory(32, 1)
    for k in range(35):
        memory.add(episode(1.0 + k % 2), np.array([1.5]), np.array([0.1]))
        assert not memory.cut()
    memory.add(episode(2.0), np.array([1.5]), np.array([0.1]))
    assert memory.cut()
    assert len(memory.data) == len(memory.misses) == 32


@pytest.mark.parametrize(("realised", "kept"), [(1.5, 64), (0.9, 16)])
def test_predictions_and_realised_sums_that_part_are_noticed(realised: float, kept: int) -> None:
    rng, memory = np.random.default_rng(0), Memory(1000, 1)
    for k in range(64):
        mean = 1.5 if k < 48 else realised
        memory.add(episode(mean + 0.1 * rng.normal()), np.array([1.5]), np.array([0.01]))
    assert memory.cut() == (kept < 64)
    assert len(memory.data) == kept


def test_what_was_shown_safe_is_revoked_when_the_plant_has_changed() -> None:
    before = small_cmdp(3, fraction=0.5, noise="none")
    after = fd.CMDP(before.transitions, before.rewards, 0.6 * before.utilities, before.alpha, before.initial)
    learner, deaf = fd.ProxDOME(before.problem(), forget=400), fd.ProxDOME(before.problem())
    for one in (learner, deaf):
        fd.simulate(one, before, episodes=300, seed=1)
        assert one.status().safe.all()
        fd.simulate(one, after, episodes=60, seed=2)
    assert learner.memory is not None
    assert len(learner.memory.data) < 100
    expected = float(learner.status().utilities[0])
    assert expected < 0.9 * float(deaf.status().utilities[0])


def test_with_a_window_longer_than_the_run_nothing_changes() -> None:
    cmdp = small_cmdp(4, m=2)
    kept, plain = fd.ProxDOME(cmdp.problem(), forget=10_000), fd.ProxDOME(cmdp.problem())
    one, other = (fd.simulate(learner, cmdp, episodes=120, seed=3) for learner in (kept, plain))
    assert kept.policy.tobytes() == plain.policy.tobytes()
    np.testing.assert_allclose(one.reward_gap, other.reward_gap, rtol=0.0, atol=1e-12)  # evaluated elsewhere


def test_a_learner_that_forgets_is_saved_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    cmdp = small_cmdp(4, m=2)
    learner = fd.ProxDOME(cmdp.problem(), forget=40)
    learner.preload([World(cmdp, 2).play(np.full((4, 5, 3), 1 / 3)) for _ in range(7)])
    fd.simulate(learner, cmdp, episodes=90, seed=3)
    assert learner.own.logged[0] < 0
    learner.save(tmp_path / "learner")
    loaded = fd.load_learner(tmp_path / "learner")
    assert isinstance(loaded, fd.ProxDOME)
    for one in (learner, loaded):
        fd.simulate(one, cmdp, episodes=60, seed=4)
    assert loaded.policy.tobytes() == learner.policy.tobytes()
    assert (loaded.visits == learner.visits).all()


def test_forgetting_does_not_let_the_multipliers_begin_again() -> None:
    cmdp = small_cmdp(4, m=2)
    learner = fd.ProxDOME(cmdp.problem(), forget=40)
    fd.simulate(learner, cmdp, episodes=44, seed=3)
    lam, begins = learner.multipliers, []
    assert lam.max() > 0.0
    learner._plan = lambda: begins.append((learner.multipliers, learner.own.since[0]))  # type: ignore[method-assign]
    fd.simulate(learner, cmdp, episodes=1, seed=3)  # the 45th: forty are left
    assert len(begins) == 3
    assert begins[0][1] == 41  # so that the plan of "episode 41" does not count mixtures since the first
    assert begins[0][0].max() > 0.0


@pytest.mark.parametrize("forget", [0, 15, 2.5, "many", True])
def test_a_window_that_makes_no_sense_is_refused(forget: object) -> None:
    with pytest.raises(fd.ValidationError, match="forget"):
        fd.ProxDOME(small_cmdp(4).problem(), forget=forget)  # type: ignore[arg-type]
