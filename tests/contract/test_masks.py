"""Every registered learner under a mask of allowed actions."""

from __future__ import annotations

import numpy as np
import pytest

import flexdome as fd
from flexdome.simulation.mask_rule import _masked, forbidden_actions_are_left_alone
from flexdome.simulation.rules import Subject
from runs import small_cmdp


def subject(id: str) -> Subject:
    learner, cmdp = fd.LEARNERS[id].load(), small_cmdp(S=3, A=3, H=3)
    options = {}
    if "safe policy" in fd.LEARNERS[id].needs:
        options["safe_policy"] = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    return Subject(learner, cmdp, options, fd.LEARNERS[id].randomises)


@pytest.mark.parametrize("id", list(fd.LEARNERS))
def test_every_learner_leaves_forbidden_actions_alone(id):
    forbidden_actions_are_left_alone(subject(id))


@pytest.mark.parametrize("id", list(fd.LEARNERS))
def test_every_learner_keeps_to_a_mask(id):
    masked = _masked(subject(id))
    learner = masked.make()
    history = fd.simulate(learner, masked.cmdp, seed=3, snapshots=[1, 30, 61])
    for snapshot in history.snapshots.values():
        assert (snapshot.policy[~masked.problem.allowed] == 0.0).all()
    assert (learner.visits[~masked.problem.allowed] == 0.0).all()
    assert np.isfinite(history.reward_gap).all()
    assert (history.reward_gap >= -fd.baselines(masked.cmdp).best[1].value).all()
    drawn = {learner.act(h, s) for h in range(3) for s in range(3)}
    assert drawn <= {0, 1, 2}
