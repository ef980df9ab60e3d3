"""Learners that solve a program against twins whose formulas and constants are their own."""

import numpy as np
import pytest

import flexdome as fd
from naive_program_learners import TWINS
from naive_programs import dense_program
from runs import World, small_cmdp

EVERYTHING = ("rewards", "utilities", "transitions")
K, DELTA = 400, 0.07


def data(cmdp, count, seed=1):
    """Episodes of the uniform policy."""
    world, uniform = World(cmdp, seed), fd.baselines(cmdp).uniform[0]
    return [world.play(uniform) for _ in range(count)]


def with_gaps(episodes, share):
    """The same episodes with that share of the utilities missing."""
    rng, found = np.random.default_rng(8), []
    for e in episodes:
        utilities = np.array(e.utilities)
        utilities[rng.random(utilities.shape) < share] = np.nan
        found.append(fd.Episode(e.states, e.actions, e.rewards, utilities, e.thresholds))
    return found


def agree(learner, expected):
    """The plan of a learner is its twin's: values, multipliers, a policy that is worth as much, and the widths."""
    if learner.problem.allowed is not None:
        assert (learner.policy[~learner.problem.allowed] == 0.0).all()
    size = max(1.0, np.abs(expected.values).max())
    np.testing.assert_allclose(learner.planned_values, expected.values, rtol=0, atol=2e-7 * size)
    price = max(1.0, np.abs(expected.multipliers).max())
    np.testing.assert_allclose(learner.multipliers, expected.multipliers, rtol=0, atol=2e-6 * price)
    beliefs = learner.beliefs()
    np.testing.assert_allclose(beliefs.widths, expected.widths, rtol=1e-12)
    assert beliefs.value == learner.planned_values[0]
    assert (beliefs.utilities == learner.planned_values[1:]).all()
    assert (beliefs.margin == np.zeros(learner.problem.constraints)).all()
    if expected.safe is not None:
        assert (learner.policy == expected.safe).all()
        assert learner._notes() == {"baseline": 1.0}
        return
    assert learner._notes() in ({}, {"baseline": 0.0})
    program = expected.program
    best = dense_program(**program)
    room = 1e-7 * max(1.0, np.abs(program["f"]).max())
    own = dense_program(**{**program, "alpha": program["alpha"] - room}, policy=learner.policy)
    if program.get("largest_slack"):
        slack = [(answer.values[1:] - program["alpha"]).min() for answer in (own, best)]
        assert slack[0] == pytest.approx(slack[1], abs=10 * room)
    else:
        slip = 1.0 + expected.multipliers.sum()
        assert own.values[0] == pytest.approx(best.values[0], abs=10 * room * slip)


def compare(
    name,
    options,
    *,
    logged=60,
    played=2,
    sizes=(3, 2, 3, 1),
    reveal=(),
    law="known",
    fraction=0.8,
    seed=0,
    masked=False,
    gaps=0.0,
):
    """Both see the same episodes; logged ones only where a plan follows from what was seen alone."""
    S, A, H, m = sizes
    cmdp = small_cmdp(seed, S=S, A=A, H=H, m=m, law=law, fraction=fraction, masked=masked)
    problem = cmdp.problem(reveal=reveal, hide=() if law == "known" else ("thresholds",))
    if "safe policy" in fd.LEARNERS[name].needs:
        options = {"safe_policy": fd.safe_policy(cmdp, 0.6 * fd.slater_gap(cmdp)), **options}
    learner = fd.make_learner(name, problem, episodes=K, delta=DELTA, **options)
    log = with_gaps(data(cmdp, logged), gaps) if learner.anew else []
    learner.preload(log)
    seen, twin = list(log), TWINS[name]
    phase = {"played": 0} if name == "dope" else {}
    agree(learner, twin(problem, seen, K, DELTA, **options, **phase))
    kinds = []
    for k, episode in enumerate(with_gaps(data(cmdp, played, seed=2), gaps)):
        learner.observe(episode)
        seen.append(episode)
        if name == "dope":
            phase = {"played": k + 1}
        expected = twin(problem, seen, K, DELTA, **options, **phase)
        agree(learner, expected)
        kinds.append("safe" if expected.safe is not None else "slack" if "largest_slack" in expected.program else "")
    return kinds


PLANS = [
    {},
    {"tuning": "practical"},
    {"bonus_scale": 0.02},
    {"bonus_scale": 0.1, "unvisited": "optimistic"},
    {"tuning": "practical", "bonus_scale": 1e-3, "unvisited": "paper"},
]
BALLS = [{**options, "confidence": "l1"} for options in PLANS]
WORLDS = [
    {},
    {"logged": 0},
    {"logged": 4, "sizes": (2, 2, 3, 2)},
    {"logged": 12, "reveal": ("rewards",)},
    {"logged": 12, "reveal": ("utilities",), "sizes": (2, 2, 2, 2)},
    {"logged": 12, "reveal": ("transitions",)},
    {"logged": 12, "law": "steps", "sizes": (2, 3, 2, 2)},
]


def some(options, worlds, every=4):
    """Every fourth pair of an option and a world: with 5 or 10 options and 7 worlds all of both are there."""
    return [pair for k, pair in enumerate((o, w) for o in options for w in worlds) if k % every == 0]


@pytest.mark.parametrize(("options", "world"), some(PLANS, WORLDS))
def test_optcmdp_bonus_plans_as_its_twin(options, world):
    compare("optcmdp-bonus", options, **world)


@pytest.mark.parametrize(("options", "world"), some(PLANS + BALLS, WORLDS))
def test_optcmdp_plans_as_its_twin(options, world):
    compare("optcmdp", options, **world)


def test_the_twins_reach_programs_without_a_solution():
    options = {"tuning": "practical", "unvisited": "paper"}
    for name in ("optcmdp", "optcmdp-bonus"):
        assert compare(name, options, logged=1, fraction=1.2) == ["slack", "slack"]


STEPS = [
    {"replan": 1},
    {"tuning": "practical"},
    {"bonus_scale": 0.02, "dual_step": 0.7},
    {"tuning": "practical", "dual_step": 0.9, "confidence": "l1"},
    {"bonus_scale": 0.05, "dual_bound": 40.0, "unvisited": "optimistic"},
]


# Utilities alone known: in the first episode every policy is a best response, and its step is anyone's.
DUALS = [w if w.get("reveal") != ("utilities",) else {**w, "reveal": ("rewards", "utilities")} for w in WORLDS]


@pytest.mark.parametrize(("options", "world"), some(STEPS, DUALS))
def test_optdual_steps_as_its_twin(options, world):
    compare("optdual", options, played=4, **world)


@pytest.mark.parametrize("replan", [2, 3])
def test_optdual_steps_in_every_episode_with_the_set_of_its_last_plan(replan):
    compare("optdual", {"replan": replan, "bonus_scale": 0.02, "dual_step": 0.7}, played=7)


LAGRANGIANS = [
    {},
    {"tuning": "practical"},
    {"bonus_scale": 0.02, "baseline_episodes": 1},
    {"tuning": "practical", "penalty": 0.3, "baseline_episodes": 2, "confidence": "l1"},
    {"bonus_scale": 0.05, "baseline_episodes": 0, "unvisited": "optimistic"},
]
ONE = [world for world in WORLDS if world.get("sizes", (0, 0, 0, 1))[3] == 1]


@pytest.mark.parametrize(("options", "world"), some(LAGRANGIANS, [*ONE, {"law": "steps"}], 3))
def test_optaug_steps_as_its_twin(options, world):
    compare("optaug", options, played=3, **world)


SAFE = [{}, {"tuning": "practical"}, {"bonus_scale": 1e-3}, {"bonus_scale": 0.3}]
SAFE.append({"tuning": "practical", "bonus_scale": 1e-4})


@pytest.mark.parametrize(("options", "world"), some(SAFE, [*WORLDS[:-1], {"reveal": EVERYTHING}], 3))
def test_optpess_lp_plans_as_its_twin(options, world):
    compare("optpess-lp", options, **world)


PHASES = [{}, {"tuning": "practical"}, {"bonus_scale": 1e-3, "baseline_episodes": 1}, {"baseline_episodes": 0}]


@pytest.mark.parametrize(("options", "world"), some(PHASES, [*WORLDS, {"reveal": EVERYTHING}], 3))
def test_dope_plans_as_its_twin(options, world):
    compare("dope", options, **world)


@pytest.mark.parametrize("reveal", [("rewards", "transitions"), ("utilities", "transitions")])
@pytest.mark.parametrize(("name", "more"), [("optpess-lp", {}), ("dope", {"baseline_episodes": 0})])
def test_the_reward_is_widened_for_whatever_is_not_known(name, more, reveal):
    assert compare(name, {"bonus_scale": 1e-3, **more}, reveal=reveal) == ["", ""]


MASKED = [
    ("optcmdp", {"bonus_scale": 0.02}),
    ("optcmdp", {"bonus_scale": 0.1, "unvisited": "optimistic", "confidence": "l1"}),
    ("optcmdp-bonus", {"bonus_scale": 0.02}),
    ("optdual", {"bonus_scale": 0.02, "dual_step": 0.7}),
    ("optaug", {"bonus_scale": 0.02, "baseline_episodes": 1}),
    ("optpess-lp", {"bonus_scale": 1e-3}),
    ("dope", {"bonus_scale": 1e-3, "baseline_episodes": 0}),
]


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(("name", "options"), MASKED)
def test_every_learner_of_a_program_plans_under_a_mask_as_its_twin(name, options, seed):
    for logged in (0, 40):
        compare(name, options, logged=logged, sizes=(2, 3, 3, 1), seed=seed, masked=True)


@pytest.mark.parametrize("options", [{"bonus_scale": 0.02}, {"bonus_scale": 0.1, "unvisited": "optimistic"}])
@pytest.mark.parametrize("name", ["optcmdp", "optcmdp-bonus", "optdual"])
def test_a_sample_that_is_missing_does_not_count_and_the_rest_does(name, options):
    for logged in (4, 40):
        compare(name, options, logged=logged, sizes=(2, 2, 3, 2), gaps=0.3)


@pytest.mark.parametrize(("name", "more"), [("optpess-lp", {}), ("dope", {"baseline_episodes": 0})])
def test_the_safe_ones_count_the_samples_of_a_mean_and_not_the_visits(name, more):
    for seed in range(2):
        assert compare(name, {"bonus_scale": 1e-3, **more}, logged=60, seed=seed, gaps=0.3) == ["", ""]
