"""A sample that is missing: not counted by those who can, refused by name by the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from runs import World, small_cmdp

CMDP = small_cmdp(1, S=3, A=2, H=3, m=2)
CAN = [id for id in fd.LEARNERS if fd.LEARNERS[id].load().gaps]  # a guard can if the one inside can


def made(id: str) -> Any:
    options = {}
    if "safe policy" in fd.LEARNERS[id].needs:
        options["safe_policy"] = fd.safe_policy(CMDP, 0.5 * fd.slater_gap(CMDP))
    return fd.make_learner(id, CMDP.problem(), episodes=60, **options)


def episodes(count: int) -> list[fd.Episode]:
    world = World(CMDP, 4)
    return [world.play(fd.baselines(CMDP).uniform[0]) for _ in range(count)]


def gap(e: fd.Episode, i: int, h: int) -> fd.Episode:
    utilities = np.array(e.utilities)
    utilities[i, h] = np.nan
    return fd.Episode(e.states, e.actions, e.rewards, utilities, e.thresholds)


def test_those_who_can_are_those_that_are_named() -> None:
    assert set(CAN) == {
        "optcmdp", "optcmdp-bonus", "optdual", "optaug", "optpess-lp", "dope", "sv-ops", "s-ops", "omdpd", "suredome",
        "proxdome", "guard", "flexdome", "optprimaldual", "uopt-rpgpd", "rpd-oe", "optpess-pd", "anchordome",
    }  # fmt: skip


@pytest.mark.parametrize("id", CAN)
def test_a_missing_sample_changes_the_mean_of_its_own_cell_alone(id: str, tmp_path: Any) -> None:
    one, other = made(id), made(id)
    data = episodes(6)
    one.preload(data)
    other.preload([*data[:5], gap(data[5], 1, 2)])
    h, s, a = 2, int(data[5].states[2]), int(data[5].actions[2])
    a_, b_ = (learner.seen_counts() for learner in (one, other))
    assert (a_.visits == b_.visits).all()
    assert (a_.successors == b_.successors).all()
    assert a_.missing is None
    assert [tuple(map(int, where)) for where in np.argwhere(b_.missing)] == [(2, h, s, a)]
    differs = [tuple(map(int, where)) for where in np.argwhere(a_.sums != b_.sums)]
    assert differs in ([], [(2, h, s, a)])
    seen = [e.utilities[1][2] for e in data[:5] if (e.states[2], e.actions[2]) == (s, a)]
    assert b_.visits[h, s, a] - b_.missing[2, h, s, a] == len(seen)
    mean = other.utility_means()
    if mean is not None:
        np.testing.assert_allclose(mean[1, h, s, a], np.mean(seen) if seen else np.nan)
    other.observe(gap(data[0], 0, 0))
    other.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    for learner in (other, again):
        learner.observe(gap(data[1], 0, 1))
    assert (other.policy == again.policy).all()
    other.certify()
    with pytest.raises(fd.ValidationError, match=r"rewards\[0\] is nan"):
        other.observe(fd.Episode(data[0].states, data[0].actions, [np.nan, 0, 0], data[0].utilities))


@pytest.mark.parametrize("id", [id for id in fd.LEARNERS if id not in CAN])
def test_the_others_say_that_they_cannot(id: str) -> None:
    learner = made(id)
    before = learner.policy.copy()
    name = type(learner).__name__
    with pytest.raises(fd.ValidationError, match=rf"utilities\[1, 2\] is nan.*{name} takes no episode with a missing"):
        learner.observe(gap(episodes(1)[0], 1, 2))
    assert (learner.policy == before).all()
