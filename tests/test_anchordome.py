"""AnchorDOME: against its slow twin, in files, and at its fixed point."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.anchordome import AnchorDOME
from naive_proxdome import NaiveAnchor
from runs import World, learned, problem_of, same_history, small_cmdp


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"m": 3},
        {"law": "hidden"},
        {"law": "steps", "m": 2, "noise": "bernoulli"},
        {"initial": np.array([0.5, 0.0, 0.3, 0.2, 0.0])},
    ],
)
def test_the_learner_follows_its_twin(options: dict[str, Any]) -> None:
    cmdp = small_cmdp(3, **{"fraction": 1.02, **options})
    learner = AnchorDOME(problem_of(cmdp, options.get("law", "known")), margin_scale=0.5)
    twin, world = NaiveAnchor(learner), World(cmdp)
    for _ in range(300):
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        assert np.abs(learner.policy - twin.policy).max() < 1e-9
        assert np.abs(learner.multipliers - twin.lam).max() < 1e-9


def test_a_saved_learner_continues_bit_for_bit(tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2, law="steps")
    learner = AnchorDOME(cmdp.problem(), episodes=300, anchor_rate=0.05)
    learner.preload([World(cmdp, 2).play(np.full((4, 5, 3), 1 / 3)) for _ in range(7)])
    fd.simulate(learner, cmdp, episodes=40)
    learner.save(tmp_path / "learner")
    loaded = fd.load_learner(tmp_path / "learner")
    assert learned(loaded) == learned(learner)
    assert same_history(*(fd.simulate(x, cmdp, episodes=40) for x in (learner, loaded)))
    assert learned(loaded) == learned(learner)


def test_the_anchor_lets_the_policy_reach_the_optimum_without_fading_regularisation() -> None:
    p = np.zeros((2, 3, 2, 3))
    p[0, 0, 0, 1] = p[0, 0, 1, 2] = p[0, 1, :, 0] = p[0, 2, :, 0] = 1.0
    p[1, :, :, 0] = 1.0
    r, d = np.zeros((2, 3, 2)), np.zeros((1, 2, 3, 2))
    r[1, 1], d[0, 1, 2] = 1.0, 1.0
    cmdp = fd.CMDP(p, r, d, [0.4], 0)  # the optimum is 0.6, lam* = 1
    learner = AnchorDOME(cmdp.problem(), episodes=6000, margin_scale=1.0)
    fd.simulate(learner, cmdp, evaluate_every=1000)
    assert learner.policy[0, 0, 1] == pytest.approx(0.4, abs=0.05)
    assert learner.multipliers[0] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("options", [{"anchor_rate": 2.0}, {"step_size": -1.0}, {"margin_scale": math.nan}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(fd.ValidationError, match=next(iter(options))):
        AnchorDOME(fd.make_cmdp("media-v1").problem(), **options)


@pytest.mark.parametrize("bad", [None, 3, [3]])
def test_a_log_that_holds_no_episodes_is_refused(bad: Any) -> None:
    learner = AnchorDOME(fd.make_cmdp("media-v1").problem())
    with pytest.raises(fd.ValidationError, match=r"series of Episodes|must be an Episode"):
        learner.preload(bad)
