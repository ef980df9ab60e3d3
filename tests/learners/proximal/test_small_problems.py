"""ProxDOME beside its twin on problems so small that plain Python runs them: every branch of the plan, in seconds.

The kernels' formulas are changed one at a time (``make mutants``) under these; each case is there for a branch that the
others do not take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from naive_proxdome import NaiveProxDOME, distance, seen
from runs import World, small_cmdp

CLOSE = 1e-9
SIZE: dict[str, Any] = {"S": 3, "A": 2, "H": 3}
START = np.array([0.5, 0.0, 0.5])
CASES: dict[str, dict[str, Any]] = {
    "one constraint": {},
    "two constraints, zero and one": {"m": 2, "noise": "bernoulli"},
    "three constraints, hard to meet": {"m": 3, "fraction": 1.02},
    "hidden thresholds": {"m": 2, "law": "hidden", "initial": START},
    "a sample of the threshold a step": {"law": "steps", "noise": "bernoulli"},
    "steps shared": {"m": 2, "stationary": True, "noise": "bernoulli", "fraction": 1.02},
    "a mask": {"m": 2, "masked": True, "A": 3},
    "steps shared, a mask": {"stationary": True, "masked": True, "A": 3, "noise": "bernoulli"},
    "more states than a vector has lanes": {"S": 11, "H": 2, "noise": "bernoulli", "fraction": 1.02},
    "one step": {"H": 1, "S": 2, "m": 2, "noise": "bernoulli"},
    "thresholds that no policy meets": {"m": 2, "fraction": 1.35},
}


@pytest.mark.parametrize("case", CASES)
def test_a_small_problem_follows_the_twin(case: str) -> None:
    cmdp = small_cmdp(3, **{**SIZE, **CASES[case]})
    hide = ("thresholds",) if CASES[case].get("law") == "hidden" else ()
    learner = fd.ProxDOME(cmdp.problem(slater_gap=0.1, hide=hide))
    twin, world = NaiveProxDOME(learner.problem), World(cmdp, 1)
    for _ in range(60):
        assert distance(learner, twin) < CLOSE
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)


@pytest.mark.parametrize("reveal", [("transitions",), ("rewards",), ("utilities",), ("rewards", "utilities")])
@pytest.mark.parametrize("stationary", [False, True])
def test_a_small_problem_of_which_a_part_is_known_follows_the_twin(reveal: tuple[str, ...], stationary: bool) -> None:
    cmdp = small_cmdp(3, m=2, stationary=stationary, noise="bernoulli", fraction=1.02, **SIZE)
    learner, world = fd.ProxDOME(cmdp.problem(reveal=reveal)), World(cmdp, 1)
    twin = NaiveProxDOME(learner.problem)
    for _ in range(30):
        assert distance(learner, twin) < CLOSE
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)


@pytest.mark.parametrize("stationary", [False, True])
def test_a_small_problem_after_a_log_follows_the_twin(stationary: bool) -> None:
    cmdp = small_cmdp(5, m=2, stationary=stationary, noise="bernoulli", fraction=0.9, initial=START, **SIZE)
    controller = fd.safe_policy(cmdp, 0.3 * fd.slater_gap(cmdp)).policy
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp, 1)
    twin, log = NaiveProxDOME(learner.problem), [world.play(controller) for _ in range(4)]
    learner.preload(log)
    twin.preload(log)
    for _ in range(45):
        assert distance(learner, twin) < CLOSE
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)


@pytest.mark.parametrize("stationary", [False, True])
def test_a_small_problem_with_samples_missing_follows_the_twin(stationary: bool) -> None:
    cmdp = small_cmdp(3, m=2, stationary=stationary, noise="bernoulli", **SIZE)
    learner, world, rng = fd.ProxDOME(cmdp.problem()), World(cmdp, 1), np.random.default_rng(2)
    twin = NaiveProxDOME(learner.problem)
    for t in range(40):
        assert distance(learner, twin) < CLOSE
        e = seen(world, learner)
        d = np.where(rng.random((2, cmdp.horizon)) < (0.3 if t % 3 else 0.9), np.nan, e.utilities)
        episode = fd.Episode(e.states, e.actions, e.rewards, d, e.thresholds)
        learner.observe(episode)
        twin.observe(episode)
