"""The mask of allowed actions: what it may be, where it is kept, and what it refuses."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd

H, S, A = 3, 2, 3
MASK = np.array([[True, False, True], [True, True, False]])


def cmdp(**options: Any) -> fd.CMDP:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(S), size=(S, A))
    return fd.CMDP(p, rng.random((S, A)), rng.random((1, S, A)), [0.5], 0, horizon=H, **options)


def problem(**options: Any) -> fd.Problem:
    return fd.Problem(S, A, H, 0, [0.5], 0.5, **options)


@pytest.mark.parametrize("make", [cmdp, problem])
def test_a_mask_is_kept_for_every_step_and_read_only(make: Any) -> None:
    for given in (MASK, MASK.tolist(), np.repeat(MASK[None], H, axis=0)):
        kept = make(allowed=given).allowed
        assert kept.shape == (H, S, A)
        assert kept.dtype == np.bool_
        assert (kept == MASK).all()
        with pytest.raises(ValueError, match="read-only"):
            kept[0, 0, 0] = False
    assert make().allowed is None
    assert make(allowed=np.ones((S, A), dtype=bool)).allowed is None


@pytest.mark.parametrize("make", [cmdp, problem])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (MASK.astype(int), "allowed has dtype int64; it must hold True and False"),
        (MASK[:1], r"allowed has shape \(1, 3\); it must be \(3, 2, 3\) or \(2, 3\)"),
        (np.array([[True] * 3, [False] * 3]), r"allowed\[1\] is \[False, False, False\]; at least one action"),
        (np.zeros((H, S, A), dtype=bool), r"allowed\[0, 0\] is .*; at least one action must be allowed"),
        ("all", "allowed has dtype"),
    ],
)
def test_a_mask_that_makes_no_sense_is_refused(make: Any, given: Any, message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        make(allowed=given)


def test_the_mask_goes_with_the_model_into_its_problem_and_every_copy(tmp_path: Path) -> None:
    made = cmdp(allowed=MASK)
    assert made.stationary
    sparse = fd.CMDP.from_successors(
        np.broadcast_to(np.arange(S), (S, A, S)), made.model.p[0], made.rewards, made.utilities, [0.5], 0, allowed=MASK
    )
    costs = fd.CMDP.from_costs(made.model.p[0], made.rewards, made.costs, [1.0], 0, allowed=MASK)
    for k, one in enumerate([made, sparse, sparse.to_dense(), costs, copy.deepcopy(made)]):
        assert (one.problem(slater_gap=0.01).allowed == MASK).all()
        fd.save_cmdp(one, tmp_path / f"{k}.cmdp")
        back = fd.load_cmdp(tmp_path / f"{k}.cmdp").allowed
        assert back is not None
        assert (back == MASK).all()
    assert (copy.deepcopy(made.problem()).allowed == MASK).all()


def test_a_forbidden_action_in_an_episode_is_an_error() -> None:
    episode = fd.Episode([0, 1, 0], [0, 2, 0], np.zeros(H), np.zeros((1, H)))
    with pytest.raises(fd.ValidationError, match=r"actions\[1\] is 2; that action is not allowed at step 1 in state 1"):
        episode.checked(problem(allowed=MASK))
    episode.checked(problem())


def test_a_learner_that_keeps_to_no_mask_refuses_one() -> None:
    class Careless(fd.FlexDOME):
        masks = False

    with pytest.raises(fd.ValidationError, match="Careless does not keep to a mask of actions"):
        Careless(problem(allowed=MASK), episodes=10)


def test_a_learner_that_may_do_what_the_cmdp_forbids_is_refused() -> None:
    learner = fd.FlexDOME(cmdp().problem(), episodes=10)
    with pytest.raises(fd.ValidationError, match="the learner's problem allows actions that the CMDP does not"):
        fd.simulate(learner, cmdp(allowed=MASK))
