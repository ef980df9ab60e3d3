"""Names and units: what a user declares once, what learners see, and what is told."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flexdome as fd
from flexdome.cmdp.episode import Scaled
from flexdome.learners.export import policy_of

YIELD = fd.Quantity("yield", 2.0, 10.0, "mg")
OVER = fd.Quantity("overdose", 0.0, 4.0, "mg/l", limit=6.0, room=2.0)
FLOW = fd.Quantity("flow", 10.0, 30.0, "ml", threshold=55.0, room=10.0)


def plant(**changes: Any) -> fd.Problem:
    given: dict[str, Any] = {
        "states": ["low", "normal", "high"],
        "actions": ["off", "on"],
        "horizon": 3,
        "initial": "normal",
        "reward": YIELD,
        "subject_to": [OVER, FLOW],
    }
    return fd.Problem(**{**given, **changes})


def episode(**changes: Any) -> fd.Episode:
    given: dict[str, Any] = {
        "states": ["normal", "high", "low"],
        "actions": ["on", "off", "off"],
        "rewards": [10.0, 2.0, 4.0],
        "utilities": [[1.0, 4.0, 0.0], [10.0, 20.0, 30.0]],
    }
    return fd.Episode(**{**given, **changes})


def test_limits_and_thresholds_become_thresholds_of_utilities() -> None:
    problem = plant()
    assert (problem.states, problem.actions, problem.constraints) == (3, 2, 2)
    assert problem.initial.tolist() == [0.0, 1.0, 0.0]
    # 3 steps: an overdose of 6 of at most 12 is a cost of 1.5 of 3; a flow of 55 between 30 and 90 is 1.25 of 3.
    np.testing.assert_allclose(problem.thresholds, [1.5, 1.25], rtol=1e-15)
    assert problem.slater_gap == pytest.approx(min(2.0 / 4.0, 10.0 / 20.0))


def test_an_episode_in_names_and_units_is_one_in_numbers() -> None:
    states, actions, rewards, utilities, _ = episode().checked(plant())
    assert states.tolist() == [1, 2, 0, 0]
    assert actions.tolist() == [1, 0, 0]
    np.testing.assert_allclose(rewards, [1.0, 0.0, 0.25])
    np.testing.assert_allclose(utilities, [[0.75, 0.0, 1.0], [0.0, 0.5, 1.0]])
    same = Scaled([1, 2, 0, 0], [1, 0, 0], rewards, utilities).checked(plant())
    assert all(
        (a == b).all() for a, b in zip(same, (states, actions, rewards, utilities, np.zeros((0, 0))), strict=True)
    )


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(1, 50), st.floats(0.0, 1.0), st.booleans())
def test_units_go_in_and_out(low: float, width: float, horizon: int, share: float, cost: bool) -> None:
    total = (low + share * width) * horizon
    one = (
        fd.Quantity("x", low, low + width, limit=total) if cost else fd.Quantity("x", low, low + width, threshold=total)
    )
    size = horizon * (abs(low) + width)
    alpha = one.value(total, horizon)
    assert alpha == pytest.approx(horizon * (1.0 - share if cost else share), abs=1e-9 * size / width)
    assert one.total(alpha, horizon) == pytest.approx(total, abs=1e-12 * size)
    assert one.measured(one.scaled(low + share * width)) == pytest.approx(low + share * width, abs=1e-12 * size)
    problem = fd.Problem(2, 2, horizon, 0, subject_to=[one])
    again = problem.changed()
    assert again.subject_to == problem.subject_to  # nothing drifts
    assert (again.thresholds == problem.thresholds).all()
    assert fd.Quantity.from_stored(one.stored()) == one


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": [10.0, 2.0, 11.0]}, r"rewards\[2\] is 11.0; yield must lie in \[2, 10\] mg"),
        (
            {"utilities": [[1.0, 4.5, 0.0], [10, 20, 30]]},
            r"utilities\[0, 1\] is 4.5; overdose must lie in \[0, 4\] mg/l",
        ),
        ({"states": ["normal", "hihg", "low"]}, "unknown states\\[1\\] 'hihg'; did you mean high"),
        ({"actions": ["on", "off", "up"]}, "unknown actions\\[2\\] 'up'"),
        ({"states": ["low", "high", "low"]}, r"states\[0\] is 0; the problem says that no episode begins there"),
    ],
)
def test_what_is_wrong_with_an_episode_is_said_in_units(changes: Any, message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        episode(**changes).checked(plant())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": ["low", "low"]}, r"states\[0\] is 'low', as another is"),
        ({"states": ["low", 3]}, r"states\[1\] is 3; it must be a string"),
        ({"initial": "nowhere"}, "unknown initial 'nowhere'"),
        ({"thresholds": [1.0]}, "thresholds has 1 entries; subject_to has 2 quantities"),
        ({"subject_to": [YIELD]}, r"subject_to\[0\], yield, has no limit and no threshold"),
        ({"subject_to": [OVER, OVER]}, "names must differ"),
        ({"subject_to": ()}, "thresholds is missing"),
        ({"reward": OVER}, "reward, overdose, has a limit or a threshold"),
        (
            {"subject_to": [fd.Quantity("x", 0, 1, "h", limit=4.0)]},
            "x: limit is 4 h; the total of 3 steps lies between",
        ),
        ({"end": "gone"}, "unknown end 'gone'"),
        ({"state_names": ["a", "b"], "states": 3}, "state_names has 2 entries; states is 3"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes: Any, message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        plant(**changes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "x", "low": 1.0, "high": 1.0}, "low must be less"),
        ({"name": "x", "limit": 1.0, "threshold": 1.0}, "one of them at most"),
        ({"name": "x", "room": 1.0}, "room is 1.0; it must be None"),
        ({"name": "", "room": 1.0}, "must be called something"),
        ({"name": "x", "after": 2.0}, "x: after is 2.0"),
        ({"name": "x", "limit": math.inf}, "x: limit"),
    ],
)
def test_a_quantity_that_makes_no_sense_is_refused(given: Any, message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        fd.Quantity(**given)


def test_a_rounding_error_out_of_range_is_its_end_and_more_is_refused() -> None:
    plain = fd.Problem(2, 2, 2, 0, [1.0], 0.5)
    _, _, rewards, utilities, _ = fd.Episode([0, 1], [0, 0], [1.0 + 1e-10, -1e-10], [[1.0 + 1e-12, 0.3]]).checked(plain)
    assert rewards.tolist() == [1.0, 0.0]
    assert utilities.tolist() == [[1.0, 0.3]]
    for bad in (1.0 + 1e-8, -1e-8):
        with pytest.raises(fd.ValidationError, match=r"rewards\[1\]"):
            fd.Episode([0, 1], [0, 0], [0.5, bad], [[1.0, 0.3]]).checked(plain)
    cmdp = fd.CMDP(np.ones((1, 1, 1, 1)), [[[1.0 + 1e-12]]], [[[[-1e-15]]]], [0.0], 0)
    assert (cmdp.rewards.item(), cmdp.utilities.item()) == (1.0, 0.0)


def test_an_episode_that_ended_is_filled_up_where_the_problem_says_so() -> None:
    allowed = np.ones((3, 3, 2), dtype=bool)
    allowed[:, 0, 0] = False
    problem = plant(end="low", allowed=allowed)
    short = episode(states=["normal"], actions=["on"], rewards=[10.0], utilities=[[1.0], [10.0]])
    states, actions, rewards, utilities, _ = short.checked(problem)
    assert states.tolist() == [1, 0, 0, 0]
    assert actions.tolist() == [1, 1, 1]  # off is forbidden there
    np.testing.assert_allclose(rewards, [1.0, 0.0, 0.0])  # 0 is not a yield that there can be: 2 is nearest
    np.testing.assert_allclose(utilities, [[0.75, 1.0, 1.0], [0.0, 0.0, 0.0]])  # no cost after the end, and no flow
    with pytest.raises(fd.ValidationError, match=r"actions has shape \(1,\); it must be \(3,\)"):
        short.checked(plant())


def test_the_slater_gap_is_asked_for_by_those_alone_who_need_it() -> None:
    bare = plant(subject_to=[fd.Quantity("overdose", 0.0, 4.0, "mg/l", limit=6.0)])
    assert bare.known_slater_gap is None
    assert copy.deepcopy(bare).known_slater_gap is None
    fd.ProxDOME(bare, episodes=10)
    with pytest.raises(fd.ValidationError, match=r"slater_gap is missing; .* room to each quantity"):
        fd.FlexDOME(bare, episodes=10)
    assert "slater_gap=None" in repr(bare)


def test_new_limits_are_taken_in_units(tmp_path: Any) -> None:
    learner = fd.ProxDOME(plant(), episodes=10)
    learner.observe(episode())
    learner.set_thresholds([9.0, 60.0])
    np.testing.assert_allclose(learner.problem.thresholds, [3 - 9.0 / 4.0, 1.5])
    assert learner.problem.subject_to[0].limit == 9.0
    assert learner.problem.subject_to[1].threshold == 60.0
    with pytest.raises(fd.ValidationError, match="overdose: limit is 13 mg/l"):
        learner.set_thresholds([13.0, 60.0])
    learner.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    for name in ("state_names", "action_names", "reward", "subject_to", "end", "known_slater_gap"):
        assert getattr(again.problem, name) == getattr(learner.problem, name)
    assert str(again.status()) == str(learner.status())
    again.observe(episode())


def test_everything_is_told_in_units(tmp_path: Any) -> None:
    problem = plant()
    learner = fd.FlexDOME(problem, episodes=50, tuning="practical")
    for _ in range(30):
        learner.observe(episode())
    text = str(learner.status())
    assert "overdose: believed to be" in text
    assert "limit 6 mg/l" in text
    assert "flow: believed to be" in text
    assert "threshold 55 ml" in text
    assert "constraint 0" not in text
    seen = fd.certify(np.full((3, 3, 2), 0.5), problem, [episode()] * 40, delta=0.1)
    assert "overdose: certified safe; in [0, " in str(seen) or "overdose: not yet; in [" in str(seen)
    assert "] mg/l, limit 6 mg/l" in str(seen)
    assert "reward in [" in str(seen)
    assert "] mg" in str(seen)
    monitor = fd.Monitor(plant(subject_to=[fd.Quantity("overdose", 0.0, 4.0, "mg/l", limit=1.0)]), delta=0.1)
    bad = episode(utilities=[[4.0, 4.0, 4.0]])
    while monitor.observe(bad) is None:
        assert monitor.episodes < 100
    assert "overdose is above its limit, 1 mg/l" in monitor.alarm.message
    learner.export(tmp_path / "policy.json")
    policy = fd.Policy.load(tmp_path / "policy.json")
    assert policy.act(0, "normal", 0.5) in ("off", "on")
    assert policy.act(0, 1, 0.5) in (0, 1)
    explained = policy.explain(0, "normal")
    assert explained.startswith("step 0, normal: seen 30 times")
    assert "overdose 1 mg/l, flow 10 ml" in explained
    assert "1 mg/l of overdose is worth" in explained
    assert learner.act(0, "normal") in ("off", "on")
    assert learner.act(0, 1) in (0, 1)


def test_a_guard_and_what_is_inside_understand_the_same_units() -> None:
    problem = plant()
    safe = fd.SafePolicy(np.full((3, 3, 2), 0.5), [2.5, 2.5])
    for learner in (
        fd.SureDOME(problem, episodes=50, safe_policy=safe),
        fd.Guard(fd.ProxDOME(problem, episodes=50), safe),
    ):
        learner.preload([episode()])
        for _ in range(3):
            learner.observe(episode(utilities=[[0.0, 0.0, 0.0], [30.0, 30.0, 30.0]]))
        text = str(learner.status())
        assert "overdose: at most" in text
        assert "flow: at least" in text
        assert "estimated reward" in text
        learner.set_thresholds([8.0, 40.0])
        np.testing.assert_allclose(learner.problem.thresholds, [1.0, 0.5])
        inside = getattr(learner, "learner", learner)  # SureDOME plans by itself
        assert inside.problem.thresholds[0] <= 2.5
        assert (inside.visits.sum(axis=(1, 2)) == 4).all()


def test_simulation_needs_no_units() -> None:
    cmdp = fd.make_cmdp("factored-v1")
    told = fd.Quantity("moves", 0.0, 5.0, "m", limit=15.0)
    problem = fd.Problem(3, 2, 6, cmdp.initial, subject_to=[told], reward=fd.Quantity("pay", -1, 1), slater_gap=1.0)
    plain = fd.Problem(3, 2, 6, cmdp.initial, problem.thresholds, 1.0)
    for name in ("flexdome", "optcmdp", "suredome"):
        options = {"safe_policy": fd.safe_policy(cmdp, 0.5)} if name == "suredome" else {}
        one, other = (fd.make_learner(name, given, episodes=30, **options) for given in (problem, plain))
        a, b = (fd.simulate(learner, cmdp, seed=1) for learner in (one, other))
        assert (a.reward_gap == b.reward_gap).all()
        assert (one.policy == other.policy).all()


def test_numbers_go_out_in_units_and_come_in_again() -> None:
    units = plant().units
    values = np.array([[2.0, 1.5], [0.0, 3.0]])
    totals = units.totals(values)
    np.testing.assert_allclose(totals, [[4.0, 60.0], [12.0, 90.0]])
    np.testing.assert_allclose(units.values(totals), values)
    assert units.earning(3.0) == pytest.approx(30.0)
    bare = fd.Problem(2, 2, 3, 0, [1.0], 0.1).units
    np.testing.assert_array_equal(bare.totals([1.5]), [1.5])
    assert bare.earning(0.25) == 0.25
    with pytest.raises(fd.ValidationError, match=r"totals has shape \(3,\); it must end in 2"):
        units.values([1.0, 2.0, 3.0])


def test_a_certificate_gives_its_bounds_in_units() -> None:
    said = fd.certify(np.full((3, 3, 2), 0.5), plant(), [episode()] * 40, delta=0.1)
    assert list(said.measured) == ["yield", "overdose", "flow"]
    low, high = said.measured["overdose"]
    assert f"overdose: {said.verdicts[0].verdict}; in [{low:.4g}, {high:.4g}] mg/l" in str(said)
    assert low < 5.0 < high


def test_a_belief_that_cannot_be_is_not_told_as_a_number() -> None:
    learner = fd.make_learner("optcmdp-bonus", plant(), episodes=50)
    learner.observe(episode())
    status = learner.status()
    assert status.utilities[0] > 3.0
    assert "nothing can be said of safety yet" in str(status)
    assert "overdose: hoped to be 0 mg/l, the best there is, limit 6 mg/l\n" in str(status)
    feared = dataclasses.replace(status, utilities=np.array([-1.0, 2.0]))
    assert "overdose: feared to be 12 mg/l, the worst there is, limit 6 mg/l\n" in str(feared)
    assert "NOT SAFE" in str(feared)


def test_what_is_forbidden_is_explained_as_that(tmp_path: Any) -> None:
    allowed = np.ones((3, 3, 2), dtype=bool)
    allowed[1, 2, 1] = False
    for mask, free in ((allowed[1], 1), (allowed, 0)):
        learner = fd.make_learner("optcmdp-bonus", plant(allowed=mask), episodes=50)
        for suffix in ("json", "csv", "npz"):
            learner.export(tmp_path / f"policy.{suffix}")
            policy = fd.Policy.load(tmp_path / f"policy.{suffix}")
            assert "  on: not allowed" in policy.explain(1, "high")
            assert "not allowed" not in policy.explain(1, "normal")
            assert ("not allowed" in policy.explain(0, "high")) == bool(free)
    assert repr(policy) == "Policy(H, S, A = 3, 3, 2, learner optcmdp-bonus, episode 0)"
    assert len(repr(learner.beliefs())) < 300


def test_what_other_steps_have_shown_is_not_called_unknown() -> None:
    learner = fd.ProxDOME(plant(stationary=True), episodes=20)
    learner.observe(episode())
    learner.observe(episode(states=["normal", "low", "high"]))
    policy = policy_of(learner)
    assert "step 0, high: never seen at this step; what is known of it was seen at others" in policy.explain(0, "high")
    assert "step 0, normal: seen 2 times" in policy.explain(0, "normal")
