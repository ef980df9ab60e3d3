"""A first state that nobody told: every learner counts where episodes begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from runs import World, small_cmdp

START = np.array([0.5, 0.0, 0.5, 0.0])
CMDP = small_cmdp(2, S=4, A=2, H=3, initial=START)
TOLD = CMDP.problem()
ASKED = fd.Problem(4, 2, 3, None, TOLD.thresholds, TOLD.slater_gap)


def made(id: str, problem: fd.Problem) -> Any:
    options = {}
    if "safe policy" in fd.LEARNERS[id].needs:
        options["safe_policy"] = fd.safe_policy(CMDP, 0.5 * fd.slater_gap(CMDP))
    return fd.make_learner(id, problem, episodes=60, **options)


def log(count: int) -> list[fd.Episode]:
    """Episodes that begin in turn in states 0 and 2, so that their shares are those that were told."""
    world, found = World(CMDP, 3), []
    while len(found) < count:
        one = world.play(fd.baselines(CMDP).uniform[0])
        if one.states[0] == (0, 2)[len(found) % 2]:
            found.append(one)
    return found


@pytest.mark.parametrize("id", list(fd.LEARNERS))
def test_every_learner_finds_out_where_episodes_begin(id: str, tmp_path: Any) -> None:
    one, other, same = made(id, ASKED), made(id, TOLD), made(id, ASKED)
    data = log(20)
    for learner in (one, other):
        learner.preload(data)
    np.testing.assert_allclose(one.learner.initial() if id == "guard" else one.initial(), START)
    assert ASKED.initial_estimated
    np.testing.assert_allclose(one.policy, other.policy, atol=1e-12)  # after as many as were told, as if it were told
    # A run through simulate is one through observe, and a file goes on.
    fd.simulate(one, CMDP, episodes=8, seed=5)
    fd.simulate(same, CMDP, episodes=8, seed=5)
    one.save(tmp_path / "one.npz")
    again = fd.load_learner(tmp_path / "one.npz")
    assert again.problem.initial_estimated
    for learner in (one, again):
        fd.simulate(learner, CMDP, episodes=6, seed=5)
    assert (one.policy == again.policy).all()
    assert one.beliefs().value == again.beliefs().value


def test_what_is_not_told_is_not_certified_from_counts() -> None:
    learner = made("proxdome", ASKED)
    learner.preload(log(6))
    with pytest.raises(fd.ValidationError, match="initial is None, to be estimated; method 'model' needs"):
        learner.certify()
    assert learner.certify(episodes=[]).episodes == 0
