"""Episodes as an engineer hands them over: every accepted form, and episodes that ended early."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flexdome as fd

S, A, H = 4, 3, 5


def problem(*thresholds: float, horizon: int = H) -> fd.Problem:
    return fd.Problem(S, A, horizon, 0, thresholds or (1.0,), 0.5)


def episode(**changes: Any) -> fd.Episode:
    plain = {"states": [0, 1, 2, 3, 0, 1], "actions": [0, 1, 2, 0, 1], "rewards": [0.0, 0.25, 0.5, 0.75, 1.0]}
    return fd.Episode(**{**plain, "utilities": [[0.5] * H], **changes})


# -- what is accepted -----------------------------------------------------------------------------------


def test_an_episode_comes_out_as_the_kernels_take_it() -> None:
    states, actions, rewards, utilities, thresholds = episode().checked(problem())
    assert [array.dtype for array in (states, actions)] == [np.int64] * 2
    assert [array.dtype for array in (rewards, utilities, thresholds)] == [np.float64] * 3
    assert states.tolist() == [0, 1, 2, 3, 0, 1]
    assert actions.tolist() == [0, 1, 2, 0, 1]
    assert rewards.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert utilities.tolist() == [[0.5] * H]
    assert thresholds.size == 0


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", ">i8"])
def test_states_may_be_whole_numbers_of_any_type(dtype: str) -> None:
    states = np.array([0, 1, 2, 3, 0, 1], dtype=dtype)
    assert episode(states=states).checked(problem())[0].tolist() == [0, 1, 2, 3, 0, 1]


def test_the_utilities_of_one_constraint_may_be_flat() -> None:
    assert episode(utilities=[0.5] * H).checked(problem())[3].shape == (1, H)


def test_flat_utilities_of_two_constraints_are_refused() -> None:
    with pytest.raises(fd.ValidationError, match=r"utilities has shape \(5,\); it must be \(2, 5\)"):
        episode(utilities=[0.5] * H).checked(problem(1.0, 1.0))


def test_observations_may_be_zero_and_one_as_booleans() -> None:
    assert episode(rewards=[True, False, True, True, False]).checked(problem())[2].tolist() == [1, 0, 1, 1, 0]


def test_one_threshold_sample_stands_for_every_step() -> None:
    got = episode(utilities=np.ones((2, H)), thresholds=[0.5, 7.0]).checked(problem(math.nan, math.nan))[4]
    assert got.tolist() == [[0.5] * H, [7.0] * H]


def test_thresholds_of_every_step_are_kept() -> None:
    samples = np.arange(2.0 * H).reshape(2, H) - 3.0
    got = episode(utilities=np.ones((2, H)), thresholds=samples).checked(problem(math.nan, 1.0))[4]
    assert got.tolist() == samples.tolist()


def test_with_as_many_steps_as_constraints_thresholds_of_each_step_are_told_by_their_axes() -> None:
    square = fd.Problem(S, A, 2, 0, [math.nan, math.nan], 0.5)
    given_ = {"states": [0, 1], "actions": [0, 0], "rewards": [0, 0], "utilities": np.ones((2, 2))}
    assert fd.Episode(**given_, thresholds=[1.0, 2.0]).checked(square)[4].tolist() == [[1, 1], [2, 2]]
    assert fd.Episode(**given_, thresholds=[[1.0, 2.0], [3.0, 4.0]]).checked(square)[4].tolist() == [[1, 2], [3, 4]]


def test_a_sample_beyond_1e100_counts_as_that_much() -> None:
    got = episode(thresholds=[-1.7e308]).checked(problem(math.nan))[4]
    assert got.tolist() == [[-1e100] * H]


def test_an_episode_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        episode().states = [0]  # type: ignore[misc]


# -- episodes that ended early --------------------------------------------------------------------------


def test_an_early_end_is_filled_with_the_absorbing_state() -> None:
    early = fd.Episode.padded(H, 3, states=[0, 1], actions=[2, 1], rewards=[0.5, 0.25], utilities=[[1.0, 0.75]])
    states, actions, rewards, utilities, _ = early.checked(problem())
    assert states.tolist() == [0, 1, 3, 3, 3, 3]
    assert actions.tolist() == [2, 1, 0, 0, 0]
    assert rewards.tolist() == [0.5, 0.25, 0, 0, 0]
    assert utilities.tolist() == [[1.0, 0.75, 0, 0, 0]]


def test_the_steps_that_did_not_happen_earn_what_the_caller_says() -> None:
    early = fd.Episode.padded(3, 1, [0], [0], [0.5], [[0.25], [0.5]], reward=0.125, utility=1.0)
    _, _, rewards, utilities, _ = early.checked(problem(1.0, 1.0, horizon=3))
    assert rewards.tolist() == [0.5, 0.125, 0.125]
    assert utilities.tolist() == [[0.25, 1, 1], [0.5, 1, 1]]


def test_the_state_after_the_last_action_is_ignored() -> None:
    states = [fd.Episode.padded(H, 3, s, [2, 1], [0, 0], [0, 0]).checked(problem())[0] for s in ([0, 1], [0, 1, 2])]
    assert states[0].tolist() == states[1].tolist()


def test_an_episode_that_ran_its_course_is_not_changed() -> None:
    samples = np.arange(float(H))[None]
    whole = fd.Episode.padded(H, 3, [0, 1, 2, 3, 0], [0, 1, 2, 0, 1], [0.5] * H, [0.25] * H, samples)
    states, actions, rewards, utilities, thresholds = whole.checked(problem(math.nan))
    assert states[:-1].tolist() == [0, 1, 2, 3, 0]
    assert (actions.tolist(), rewards.tolist()) == ([0, 1, 2, 0, 1], [0.5] * H)
    assert utilities.tolist() == [[0.25] * H]
    assert thresholds.tolist() == samples.tolist()


def test_an_early_episodes_threshold_weighs_as_much_as_any_other() -> None:
    """The steps that did not happen take the mean of the samples that were seen: H samples with that mean."""
    one = fd.Episode.padded(H, 3, [0], [0], [0.0], [0.0], [2.0]).checked(problem(math.nan))[4]
    each = fd.Episode.padded(H, 3, [0, 1], [0, 0], [0, 0], [0, 0], [[1.0, 4.0]]).checked(problem(math.nan))[4]
    assert one.tolist() == [[2.0] * H]
    assert each.tolist() == [[1.0, 4.0, 2.5, 2.5, 2.5]]


@given(n=st.integers(1, H), m=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_any_early_episode_is_one_a_learner_takes(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    early = fd.Episode.padded(
        H,
        3,
        [0, *rng.integers(0, S, n - 1)],
        rng.integers(0, A, n),
        rng.random(n),
        rng.random((m, n)),
        rng.normal(size=(m, n)),
    )
    learner = fd.FlexDOME(problem(*[math.nan] * m), episodes=10)
    learner.observe(early)
    visits = learner.beliefs().visits
    assert (visits.sum(axis=(1, 2)) == 1).all()
    assert (visits[n:, 3, 0] == 1).all()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "more actions than steps": ({"actions": [0] * 6, "states": [0] * 6}, "actions has length 6; it must not exceed"),
    "no actions": ({"actions": [], "states": []}, "actions is empty; an episode has at least one step"),
    "actions that are a number": ({"actions": 1}, "actions has shape (); it must have one entry for each step"),
    "ragged actions": ({"actions": [[0], [1, 2]]}, "actions is not a rectangular array"),
    "a state too few": ({"states": [0]}, "states has length 1; it must be 2, as actions has, or 3"),
    "states too many": ({"states": [0, 1, 2, 3]}, "states has length 4; it must be 2, as actions has, or 3"),
    "a reward too few": ({"rewards": [0.5]}, "rewards does not have one entry for each of the 2 actions"),
    "utilities of more steps": ({"utilities": [[0.5] * 3]}, "utilities does not have one entry for each of the 2"),
    "a reward that is nan": ({"rewards": [0.5, math.nan]}, "rewards[1] is nan; it must be finite"),
    "utilities that are words": ({"utilities": [["a", "b"]]}, "utilities has dtype <U1"),
    "no horizon": ({"horizon": 0}, "horizon is 0; it must be between 1 and 67108864"),
    "an absorbing state below zero": ({"absorbing": -1}, "absorbing is -1; it must be between 0 and"),
    "an absorbing word": ({"absorbing": "end"}, "absorbing is 'end'; it must be a whole number"),
    "a padding reward above one": ({"reward": 2.0}, "reward is 2.0; it must be in [0, 1]"),
    "a padding utility that is nan": ({"utility": math.nan}, "utility is nan; it must be finite"),
    "thresholds that are a number": ({"thresholds": 1.0}, "thresholds has shape (); it must be (m,) or (m, 2)"),
    "thresholds of other steps": ({"thresholds": [[1.0] * 3]}, "thresholds has shape (1, 3); it must be (m,) or"),
    "thresholds that are inf": ({"thresholds": [math.inf]}, "thresholds[0] is inf; it must be finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_early_episode_that_makes_no_sense_is_refused(case: str) -> None:
    changes, message = BAD[case]
    good = {"horizon": H, "absorbing": 3, "states": [0, 1], "actions": [0, 1], "rewards": [0.5] * 2}
    with pytest.raises(fd.ValidationError) as caught:
        fd.Episode.padded(**{**good, "utilities": [[0.5] * 2], **changes})
    assert message in str(caught.value)


def test_an_absorbing_state_that_the_problem_does_not_have_is_refused_when_observed() -> None:
    early = fd.Episode.padded(H, 9, [0], [0], [0.0], [0.0])
    with pytest.raises(fd.ValidationError, match=r"states\[1\] is 9; it must lie in 0 to 3"):
        fd.FlexDOME(problem()).observe(early)


def test_a_known_threshold_needs_no_sample_where_another_is_estimated() -> None:
    mixed = problem(math.nan, 1.0)
    for samples in ([0.5, math.nan], [[0.5] * H, [math.nan] * H]):
        got = episode(utilities=np.ones((2, H)), thresholds=samples).checked(mixed)[4]
        assert got[0].tolist() == [0.5] * H
        assert np.isnan(got[1]).all()


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([math.nan, 0.5], "thresholds[0] is nan; it must be finite"),
        ([0.5, math.inf], "thresholds[1] is inf; it must be finite"),
        ([math.nan], "thresholds[0] is nan; it must be finite"),
    ],
)
def test_an_estimated_threshold_needs_a_sample(samples: list[float], message: str) -> None:
    with pytest.raises(fd.ValidationError) as caught:
        episode(utilities=np.ones((2, H)), thresholds=samples).checked(problem(math.nan, 1.0))
    assert message in str(caught.value)


def test_each_utility_of_an_ended_episode_has_its_own_value():
    early = fd.Episode.padded(3, 1, [0], [0], [0.5], [[0.25], [0.5]], utility=[1.0, 0.0])
    assert early.utilities.tolist() == [[0.25, 1.0, 1.0], [0.5, 0.0, 0.0]]
    for bad, message in (([1.0], "utility has shape"), ([0.0, 2.0], r"utility\[1\] is 2.0")):
        with pytest.raises(fd.ValidationError, match=message):
            fd.Episode.padded(3, 1, [0], [0], [0.5], [[0.25], [0.5]], utility=bad)
