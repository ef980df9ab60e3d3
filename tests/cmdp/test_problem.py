"""What a learner may know: CMDP.problem, and problems written by hand."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.cmdp.problem import DENSE_LIMIT
from strategies import cmdps

REVEALABLE = ("thresholds", "rewards", "utilities", "transitions")


def choice(*thresholds: Any, horizon: int = 4) -> fd.CMDP:
    """One state; action 0 earns reward 1, action i earns utility i and no reward."""
    m = len(thresholds)
    utilities = np.eye(m + 1)[1:, None, :]
    return fd.CMDP(np.ones((1, m + 1, 1)), np.eye(m + 1)[:1], utilities, list(thresholds), 0, horizon=horizon)


def by_hand(**changes: Any) -> fd.Problem:
    given = {
        "states": 3,
        "actions": 2,
        "horizon": 4,
        "initial": 0,
        "thresholds": [1.0, 2.0],
        "slater_gap": 0.5,
    }
    return fd.Problem(**{**given, **changes})


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# -- what a CMDP tells ----------------------------------------------------------------------------------


@settings(max_examples=50)
@given(cmdps())
def test_a_problem_has_the_sizes_of_its_cmdp(cmdp: fd.CMDP) -> None:
    problem = cmdp.problem(slater_gap=1e-3)
    for field in ("states", "actions", "horizon", "constraints", "stationary"):
        assert getattr(problem, field) == getattr(cmdp, field)
    np.testing.assert_array_equal(problem.initial, cmdp.initial)


@settings(max_examples=50)
@given(cmdps(), st.sets(st.sampled_from(REVEALABLE)))
def test_a_problem_holds_the_arrays_that_are_revealed_and_no_others(cmdp: fd.CMDP, reveal: set[str]) -> None:
    problem = cmdp.problem(slater_gap=1e-3, reveal=reveal)
    for field in ("rewards", "utilities", "transitions"):
        if field in reveal:
            np.testing.assert_array_equal(getattr(problem, field), getattr(cmdp.to_dense(), field))
        else:
            assert getattr(problem, field) is None


def test_fixed_thresholds_are_known() -> None:
    problem = choice(1.0, 2.0).problem()
    assert problem.thresholds.tolist() == [1.0, 2.0]
    assert problem.thresholds_known


def test_hidden_thresholds_are_unknown() -> None:
    problem = choice(1.0, 2.0).problem(hide=("thresholds",))
    assert np.isnan(problem.thresholds).all()
    assert not problem.thresholds_known


def test_only_stochastic_thresholds_are_unknown() -> None:
    problem = choice(1.0, fd.Threshold.uniform(0.0, 3.0)).problem()
    np.testing.assert_array_equal(problem.thresholds, [1.0, np.nan])
    assert not problem.thresholds_known


def test_revealed_thresholds_are_means() -> None:
    law = fd.Threshold.normal(1.0, 2.0, clip=(0.0, 3.0))
    problem = choice(1.0, law).problem(reveal=("thresholds",))
    assert problem.thresholds.tolist() == [1.0, law.mean]
    assert problem.thresholds_known


@pytest.mark.parametrize("names", [["thresholds"], ("thresholds",), {"thresholds"}, {"thresholds": 1}.keys()])
def test_what_to_hide_may_be_any_collection(names: Any) -> None:
    assert not choice(1.0).problem(hide=names).thresholds_known


def test_the_exact_slater_gap_is_passed_on_and_flagged() -> None:
    problem = choice(1.0, 2.0, horizon=4).problem()  # 4 steps for 1 + gap and 2 + gap
    assert problem.slater_gap == pytest.approx(0.5)
    assert problem.slater_gap_exact


def test_a_given_slater_gap_is_passed_on_and_not_flagged() -> None:
    problem = choice(1.0).problem(slater_gap=0.25)
    assert problem.slater_gap == 0.25
    assert not problem.slater_gap_exact


def test_an_infeasible_cmdp_has_no_problem_with_an_exact_gap() -> None:
    with pytest.raises(fd.InfeasibleError, match=r"thresholds\[0\] = 3, thresholds\[1\] = 2 cannot be met together"):
        choice(3.0, 2.0).problem()


def test_the_error_of_an_infeasible_cmdp_says_by_how_much() -> None:
    with pytest.raises(fd.InfeasibleError) as caught:
        choice(3.0, 2.0).problem()
    assert caught.value.shortfall == pytest.approx(0.5)


def test_thresholds_that_leave_no_room_are_refused_with_the_remedy() -> None:
    with pytest.raises(fd.ValidationError, match=r"slater_gap is exactly 0 .* it must be positive.* lower a threshold"):
        choice(2.0, 2.0).problem()


def test_revealed_arrays_are_shared_with_the_cmdp() -> None:
    cmdp = choice(1.0)
    problem = cmdp.problem(reveal=REVEALABLE)
    for field in ("rewards", "utilities", "transitions"):
        assert np.shares_memory(getattr(problem, field), getattr(cmdp, field))


def test_transitions_of_a_large_sparse_model_are_not_revealed() -> None:
    states = int(DENSE_LIMIT**0.5) + 1
    nxt, ones = np.zeros((states, 1, 1), dtype=int), np.ones((1, states, 1))
    cmdp = fd.CMDP.from_successors(nxt, ones[0, ..., None], ones[0], ones, 0.5, 0, horizon=1)
    with pytest.raises(fd.ValidationError, match=r"'transitions'.* 16785409 numbers when dense.*to_dense\(\)"):
        cmdp.problem(slater_gap=0.1, reveal=("transitions",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reveal": "rewards"}, r"reveal is 'rewards'; it must be a collection such as \('rewards',\)"),
        ({"reveal": None}, r"reveal is None; it must be a collection such as \('thresholds',\)"),
        ({"reveal": ["rewards", "truth"]}, r"reveal\[1\] is 'truth'; it must be one of thresholds, rewards"),
        ({"reveal": [0]}, r"reveal\[0\] is 0; it must be one of thresholds, rewards"),
        ({"hide": ["rewards"]}, r"hide\[0\] is 'rewards'; it must be one of thresholds"),
        ({"hide": "thresholds"}, r"hide is 'thresholds'; it must be a collection such as \('thresholds',\)"),
        ({"hide": ["thresholds"], "reveal": ["thresholds"]}, "thresholds cannot be both revealed and hidden"),
        ({"slater_gap": 0.0}, "slater_gap is 0.0; it must be positive"),
        ({"slater_gap": -1}, "slater_gap is -1.0; it must be positive"),
        ({"slater_gap": 3.5}, r"slater_gap is 3.5; it must be .* at most H - max thresholds = 3"),
        ({"slater_gap": np.nan}, "slater_gap is nan; it must be finite"),
        ({"slater_gap": "0.5"}, "slater_gap is '0.5'; it must be a single number"),
        ({"slater_gap": True}, "slater_gap is True; it must be a single number"),
        ({"slater_gap": [0.5]}, r"slater_gap is \[0.5\]; it must be a single number"),
    ],
)
def test_a_bad_wish_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        choice(1.0).problem(**options)


# -- by hand --------------------------------------------------------------------------------------------


def test_a_problem_can_be_written_by_hand() -> None:
    problem = by_hand()
    assert (problem.constraints, problem.initial.tolist(), problem.slater_gap_exact) == (
        2,
        [1.0, 0.0, 0.0],
        False,
    )


@pytest.mark.parametrize("thresholds", [2.5, np.float32(2.5), np.array(2.5), [2.5], (2.5,)])
def test_a_single_threshold_may_come_with_or_without_a_list(thresholds: Any) -> None:
    assert by_hand(thresholds=thresholds).thresholds.tolist() == [2.5]


def test_an_unknown_threshold_is_nan() -> None:
    problem = by_hand(thresholds=[np.nan, 1])
    assert not problem.thresholds_known
    assert problem.thresholds[1] == 1.0


def test_the_slater_gap_may_take_all_the_room_that_known_thresholds_leave() -> None:
    assert by_hand(thresholds=[np.nan, 1.0], slater_gap=3.0).slater_gap == 3.0


def test_revealed_arrays_may_be_lists() -> None:
    assert by_hand(rewards=[[[0, 1]] * 3] * 4).rewards.sum() == 12


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("initial", np.array([0.5, 0.5, 0.0])),
        ("thresholds", np.array([1.0, 2.0])),
        ("rewards", np.ones((4, 3, 2))),
        ("utilities", np.ones((2, 4, 3, 2))),
        ("transitions", np.full((4, 3, 2, 3), 1 / 3)),
    ],
)
def test_arrays_are_copied_and_read_only(field: str, array: np.ndarray) -> None:
    kept = array.copy()
    problem = by_hand(**{field: array})
    array[...] = 0.125
    np.testing.assert_array_equal(getattr(problem, field), kept)
    with pytest.raises(ValueError, match="WRITEABLE"):
        getattr(problem, field).flags.writeable = True


def test_a_read_only_view_of_an_array_that_can_change_is_copied() -> None:
    rewards = np.ones((4, 3, 2))
    problem = by_hand(rewards=read_only(rewards.view()))
    rewards[...] = 0.5
    assert (problem.rewards == 1.0).all()


def test_a_read_only_array_on_memory_that_can_change_is_copied() -> None:
    memory = bytearray(np.ones((4, 3, 2)).tobytes())
    problem = by_hand(rewards=read_only(np.ndarray((4, 3, 2), buffer=memory)))
    memory[:] = bytes(len(memory))
    assert (problem.rewards == 1.0).all()


def test_transitions_in_single_precision_are_renormalised() -> None:
    p = np.random.default_rng(5).dirichlet(np.ones(3), (4, 3, 2)).astype(np.float32)
    np.testing.assert_allclose(by_hand(transitions=p).transitions.sum(axis=-1), 1.0, rtol=0, atol=1e-15)


def test_a_problem_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        by_hand().slater_gap = 1.0  # type: ignore[misc]


def test_a_pickled_problem_is_the_same_and_as_read_only() -> None:
    problem = choice(1.0, fd.Threshold.normal(1.0, 1.0)).problem(reveal=("rewards", "transitions"))
    other = pickle.loads(pickle.dumps(problem))  # noqa: S301
    for field in fd.Problem.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(other, field), getattr(problem, field))
    for field in ("initial", "thresholds", "rewards", "transitions"):
        with pytest.raises(ValueError, match="WRITEABLE"):
            getattr(other, field).flags.writeable = True


ONES = np.ones((4, 3, 2))
STEADY = np.full((4, 3, 2, 3), 1 / 3)


def changed(array: np.ndarray, index: tuple[int, ...], value: Any) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "no states": ({"states": 0}, "states is 0; it must be between 1 and 2147483647"),
    "half an action": ({"actions": 1.5}, "actions is 1.5; it must be a whole number"),
    "a horizon in words": ({"horizon": "4"}, "horizon is '4'; it must be a whole number"),
    "an initial state that is none": ({"initial": 3}, "initial is 3; it must be between 0 and 2"),
    "initial probabilities of other states": (
        {"initial": [0.5, 0.5]},
        "initial has shape (2,); it must be a state or have shape (3,)",
    ),
    "a threshold above H": (
        {"thresholds": [1.0, 4.5]},
        "thresholds[1] is 4.5; it must lie in [0, H] = [0, 4], or be nan where it is to be estimated",
    ),
    "a negative threshold": ({"thresholds": -1}, "thresholds[0] is -1.0; it must lie in [0, H] = [0, 4]"),
    "an infinite threshold": ({"thresholds": np.inf}, "thresholds[0] is inf; it must lie in [0, H] = [0, 4]"),
    "a threshold that is None": (
        {"thresholds": [1, None]},
        "thresholds[1] is None; it must be a real number",
    ),
    "a threshold in words": ({"thresholds": ["1"]}, "thresholds has dtype <U1; it must hold real numbers"),
    "a law": (
        {"thresholds": [fd.Threshold.fixed(1)]},
        "clip=None); it must be a real number",
    ),
    "no thresholds": ({"thresholds": []}, "thresholds has shape (0,); it must be (m,) with m at least 1"),
    "a matrix of thresholds": (
        {"thresholds": [[1.0], [1.0]]},
        "thresholds has shape (2, 1); it must be (m,) with m at least 1",
    ),
    "no gap": ({"slater_gap": 0}, "slater_gap is 0.0; it must be positive"),
    "a gap that is not there": (
        {"slater_gap": 2.5},
        "slater_gap is 2.5; it must be positive and at most H - max thresholds = 2",
    ),
    "a gap in words": ({"slater_gap": "some"}, "slater_gap is 'some'; it must be a single number"),
    "a flag in words": ({"stationary": "yes"}, "stationary is 'yes'; it must be True or False"),
    "a flag as a number": ({"slater_gap_exact": 1}, "slater_gap_exact is 1; it must be True or False"),
    "rewards of another shape": ({"rewards": ONES[0]}, "rewards has shape (3, 2); it must be (4, 3, 2)"),
    "a reward that is nan": (
        {"rewards": changed(ONES, (3, 2, 1), np.nan)},
        "rewards[3, 2, 1] is nan; it must be finite",
    ),
    "a read-only reward that is nan": (
        {"rewards": read_only(changed(ONES, (3, 2, 1), np.nan))},
        "rewards[3, 2, 1] is nan; it must lie in [0, 1]",
    ),
    "a utility above one": (
        {"utilities": changed(np.stack([ONES, ONES]), (1, 0, 2, 1), 1.5)},
        "utilities[1, 0, 2, 1] is 1.5; it must lie in [0, 1]",
    ),
    "utilities of one constraint": (
        {"utilities": ONES[None]},
        "utilities has shape (1, 4, 3, 2); it must be (2, 4, 3, 2)",
    ),
    "a row that does not sum to one": (
        {"transitions": changed(STEADY, (2, 1, 0), [0.5, 0.25, 0.0])},
        "transitions[2, 1, 0] sums to 0.75; it must sum to one within 1e-09",
    ),
    "a read-only probability that is nan": (
        {"transitions": read_only(changed(STEADY, (2, 1, 0, 1), np.nan))},
        "transitions[2, 1, 0] sums to nan; it must sum to one within 1e-09",
    ),
    "stationary rewards that change": (
        {"stationary": True, "rewards": changed(ONES, (3, 2, 1), 0.0)},
        "rewards differs between steps; it must not where stationary is True",
    ),
    "stationary utilities that change": (
        {"stationary": True, "utilities": changed(np.stack([ONES, ONES]), (1, 3), 0.0)},
        "utilities differs between steps; it must not where stationary is True",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_field_the_index_the_value_and_the_rule(case: str) -> None:
    change, message = REFUSALS[case]
    with pytest.raises(fd.ValidationError) as caught:
        by_hand(**change)
    assert message in str(caught.value)
