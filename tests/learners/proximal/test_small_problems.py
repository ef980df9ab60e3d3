"""ProxDOME beside its twin on problems so small that plain Python runs them: every branch of the plan, in seconds.

The kernels' formulas are changed one at a time (``make mutants``) under these; each case is there for a branch that the
others do not take.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from naive_proxdome import NaiveProxDOME, counted, distance, seen, weight_by_hand
from runs import World, small_cmdp

CLOSE = 1e-9
SIZE: dict[str, Any] = {"S": 3, "A": 2, "H": 3}
START = np.array([0.5, 0.0, 0.5])
CASES: dict[str, dict[str, Any]] = {
    "one constraint": {"seed": 5, "fraction": 0.9},
    "one constraint, bisected from above": {"seed": 16, "S": 2, "H": 2, "fraction": 1.1},
    "two constraints, zero and one": {"m": 2, "noise": "bernoulli", "scale": 1.7},
    "three constraints, hard to meet": {"m": 3, "fraction": 1.02},
    "hidden thresholds": {"m": 2, "law": "hidden", "initial": START},
    "a sample of the threshold a step": {"law": "steps", "noise": "bernoulli"},
    "steps shared": {"m": 2, "stationary": True, "noise": "bernoulli", "fraction": 1.02, "H": 4, "scale": 1.4},
    "a mask": {"m": 2, "masked": True, "A": 3},
    "steps shared, a mask": {"stationary": True, "masked": True, "A": 3, "noise": "bernoulli"},
    "more states than a vector has lanes": {"S": 11, "H": 2, "noise": "bernoulli", "fraction": 1.02},
    "one step": {"H": 1, "S": 2, "m": 2, "noise": "bernoulli"},
    "thresholds that no policy meets": {"m": 2, "fraction": 1.35},
    "a small margin": {"m": 2, "noise": "bernoulli", "fraction": 1.02, "margin": 0.3},
    "observations that say little": {"m": 2, "noise": "bernoulli", "spread": 0.1, "fraction": 0.97},
    "observations that say little, steps shared": {
        "m": 2,
        "noise": "bernoulli",
        "spread": 0.1,
        "stationary": True,
        "fraction": 1.0,
    },
}


AFTER_A_LOG: dict[str, dict[str, Any]] = {
    "steps apart": {"seed": 5, "fraction": 0.9},
    "steps shared": {"seed": 5, "fraction": 0.9, "stationary": True},
    "observations that say little": {"seed": 0, "fraction": 0.6, "spread": 0.1, "stationary": True},
    "the same, hard to meet": {"seed": 0, "fraction": 1.0, "spread": 0.1, "stationary": True},
    "one constraint": {"seed": 1, "m": 1, "fraction": 0.9, "noise": "none"},
    "samples missing": {"seed": 5, "fraction": 0.9, "lost": 0.6},
    "a first state that was not seen": {"seed": 5, "fraction": 0.9, "initial": np.array([0.8, 0.0, 0.2])},
}

FROM_A_FILE = {
    case: CASES[case]
    for case in ("one constraint", "hidden thresholds", "steps shared, a mask", "observations that say little")
}
FROM_A_FILE["known utilities"] = {
    "m": 2,
    "A": 3,
    "noise": "bernoulli",
    "spread": 0.4,
    "scale": 1.3,
    "reveal": ("utilities",),
}


def follow(learner: fd.ProxDOME, twin: NaiveProxDOME, world: World, episodes: int, lost: Any = None) -> None:
    """Both observe the same episodes, of which ``lost(t, d)`` says which utilities are missing."""
    for t in range(episodes):
        assert distance(learner, twin) < CLOSE
        e = seen(world, learner)
        if lost is not None:
            e = fd.Episode(e.states, e.actions, e.rewards, np.where(lost(t, e.utilities), np.nan, e.utilities))
        learner.observe(e)
        twin.observe(e)
    assert counted(learner, twin)


def problem_of(cmdp: fd.CMDP, law: str = "known", **options: Any) -> fd.Problem:
    return cmdp.problem(slater_gap=0.1, hide=("thresholds",) if law == "hidden" else (), **options)


def made(
    seed: int = 3, scale: float = 1.0, margin: float | None = None, reveal: tuple[str, ...] = (), **options: Any
) -> tuple[fd.ProxDOME, NaiveProxDOME, World]:
    """A learner of a small problem whose rewards are said to be up to ``scale``, its twin, and their world."""
    cmdp = small_cmdp(seed, **{**SIZE, **options})
    problem = problem_of(cmdp, options.get("law", "known"), reveal=reveal)
    learner = fd.ProxDOME(problem, reward_scale=scale, margin_scale=margin)
    return learner, NaiveProxDOME(problem, b_0=scale, c_margin=1.3 if margin is None else margin), World(cmdp, 1)


@pytest.mark.parametrize("case", CASES)
def test_a_small_problem_follows_the_twin(case: str) -> None:
    learner, twin, world = made(**CASES[case])
    follow(learner, twin, world, 60)


@pytest.mark.parametrize(
    ("reveal", "fraction"),
    [
        (("transitions",), 1.02),
        (("rewards",), 1.02),
        (("utilities",), 1.02),
        (("rewards", "utilities"), 1.02),
        (("transitions", "rewards"), 1.02),
        (("transitions", "utilities"), 1.35),  # no policy meets that, and no utility is in doubt
    ],
)
@pytest.mark.parametrize("stationary", [False, True])
def test_a_small_problem_of_which_a_part_is_known_follows_the_twin(
    reveal: tuple[str, ...], fraction: float, stationary: bool
) -> None:
    options: dict[str, Any] = {"stationary": stationary, "fraction": fraction}
    options |= {"unit": 0.05, "spread": 0.4} if reveal == ("utilities",) else {"noise": "bernoulli"}
    learner, twin, world = made(m=2, scale=1.0 if stationary else 1.3, reveal=reveal, **options)
    follow(learner, twin, world, 30)


def test_a_small_problem_of_which_all_but_the_thresholds_is_known_follows_the_twin() -> None:
    learner, twin, world = made(m=2, law="hidden", reveal=("transitions", "rewards", "utilities"))
    follow(learner, twin, world, 20)


def test_a_small_problem_with_a_mask_of_which_a_part_is_known_follows_the_twin() -> None:
    learner, twin, world = made(m=2, noise="bernoulli", A=3, masked=True, reveal=("rewards",))
    follow(learner, twin, world, 25)
    visits, may = learner.visits, learner.problem.allowed
    assert may is not None
    never = may & (visits == 0) & (visits.sum(-1, keepdims=True) > 0)
    assert learner.status().untried == never.sum() > 0


@pytest.mark.parametrize("case", AFTER_A_LOG)
def test_a_small_problem_after_a_log_follows_the_twin(case: str) -> None:
    options: dict[str, Any] = {**SIZE, "m": 2, "noise": "bernoulli", "initial": START, **AFTER_A_LOG[case]}
    lost, rng = options.pop("lost", 0.0), np.random.default_rng(2)
    cmdp = small_cmdp(**options)
    learner, world = fd.ProxDOME(problem_of(cmdp)), World(cmdp, 1)
    controller = np.full((cmdp.horizon, cmdp.states, cmdp.actions), 1.0 / cmdp.actions)
    if options["fraction"] < 1.0:
        controller = fd.safe_policy(cmdp, 0.3 * fd.slater_gap(cmdp)).policy
    twin, log = NaiveProxDOME(learner.problem), [world.play(controller) for _ in range(4)]
    learner.preload(log)
    twin.preload(log)
    follow(learner, twin, world, 42, (lambda t, d: rng.random(d.shape) < lost) if lost else None)


@pytest.mark.parametrize("stationary", [False, True])
def test_a_small_problem_with_samples_missing_follows_the_twin(stationary: bool) -> None:
    learner, twin, world = made(m=2, stationary=stationary, noise="bernoulli")
    rng = np.random.default_rng(2)
    follow(learner, twin, world, 40, lambda t, d: rng.random(d.shape) < (0.3 if t % 3 else 0.9))


@pytest.mark.parametrize("case", FROM_A_FILE)
def test_a_learner_from_a_file_follows_the_twin(case: str, tmp_path: Path) -> None:
    learner, twin, world = made(**FROM_A_FILE[case])
    follow(learner, twin, world, 46)
    learner.save(tmp_path / "learner")
    loaded = fd.load_learner(tmp_path / "learner")
    assert isinstance(loaded, fd.ProxDOME)
    follow(loaded, twin, world, 14)


@pytest.mark.parametrize(
    "options",
    [
        {"m": 2, "noise": "bernoulli", "initial": START},
        {"m": 2, "noise": "bernoulli", "law": "hidden"},
        {"m": 1, "stationary": True, "fraction": 0.6},
    ],
)
def test_beside_a_safe_policy_the_weight_is_the_largest_that_is_safe_in_the_worst_case(options: dict[str, Any]) -> None:
    cmdp = small_cmdp(3, **{**SIZE, "fraction": 0.7, **options})
    safe, world = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp)), World(cmdp, 1)
    learner = fd.ProxDOME(problem_of(cmdp, options.get("law", "known")), safe_policy=safe)
    weights = []
    for _ in range(60):
        weights.append(learner.status().weight)
        assert weights[-1] == pytest.approx(weight_by_hand(learner), abs=1e-9)
        learner.observe(seen(world, learner))
    assert len(set(weights)) > 10


def test_after_a_long_log_more_standard_errors_are_asked_for() -> None:
    learner, twin, world = made(m=2, S=2, H=2, noise="bernoulli", fraction=1.02)
    log = [seen(world, learner) for _ in range(260)]
    learner.preload(log)
    twin.preload(log)
    assert twin.z > np.sqrt(5.5)
    follow(learner, twin, world, 4)
