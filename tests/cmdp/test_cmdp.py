"""The CMDP: what it takes, what it refuses and in which words, and that nothing changes it afterwards."""

from __future__ import annotations

import copy
import pickle
import re
import weakref
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from strategies import SEEDS, Arguments, arguments, build, cmdps

S, A, H, M = 3, 2, 4, 2
ARRAYS = ("transitions", "rewards", "utilities", "initial")


def valid() -> Arguments:
    """Arguments of a small CMDP with H, S, A, m all different."""
    rng = np.random.default_rng(0)
    return {
        "transitions": rng.dirichlet(np.ones(S), size=(H, S, A)),
        "rewards": rng.random((H, S, A)),
        "utilities": rng.random((M, H, S, A)),
        "thresholds": [0.5, 1.0],
        "initial": np.array([0.25, 0.0, 0.75]),
    }


def sparse(K: int = 2) -> Arguments:
    rng = np.random.default_rng(1)
    made = valid()
    del made["transitions"]
    made["probabilities"] = rng.dirichlet(np.ones(K), size=(H, S, A))
    made["next_states"] = rng.integers(0, S, size=(H, S, A, K))
    return made


def in_costs() -> Arguments:
    made = valid()
    made["costs"], made["limits"] = made.pop("utilities"), made.pop("thresholds")
    return made


def with_entry(array: np.ndarray, index: tuple[int, ...], value: float) -> np.ndarray:
    changed = np.array(array)
    changed[index] = value
    return changed


def refusal(made: Arguments) -> str | None:
    """The message with which building fails, if it does."""
    try:
        build(made)
    except fd.ValidationError as error:
        return str(error)
    return None


def refused(made: Arguments, *parts: str) -> None:
    """Building fails, and the message contains each of ``parts``."""
    message = refusal(made)
    assert message is not None
    for part in parts:
        assert part in message


# -- what is taken --------------------------------------------------------------------------------------


def test_the_arrays_come_back_as_they_were_given() -> None:
    made = valid()
    cmdp = build(made)
    for field in ARRAYS:
        np.testing.assert_array_equal(getattr(cmdp, field), made[field])


def test_the_sizes_are_those_of_the_arrays() -> None:
    cmdp = build(valid())
    assert (cmdp.states, cmdp.actions, cmdp.horizon, cmdp.constraints) == (S, A, H, M)


@given(arguments(sparse=False))
def test_stationary_arrays_are_repeated_at_every_step(made: Arguments) -> None:
    cmdp = build(made)
    for field, ndim in (("transitions", 4), ("rewards", 3), ("utilities", 4)):
        given = made[field]
        if given.ndim < ndim:
            given = np.expand_dims(given, 1 if field == "utilities" else 0)
        np.testing.assert_array_equal(getattr(cmdp, field), np.broadcast_to(given, getattr(cmdp, field).shape))


@given(arguments(sparse=False))
def test_a_cmdp_is_stationary_only_when_no_array_has_a_step_axis(made: Arguments) -> None:
    staged = made["transitions"].ndim == 4 or made["rewards"].ndim == 3 or made["utilities"].ndim == 4
    assert build(made).stationary is not staged


@pytest.mark.parametrize("sizes", [(1, 2, 3), (2, 1, 3), (2, 2, 1), (1, 1, 1)], ids="S={0[0]},A={0[1]},H={0[2]}".format)
def test_a_single_state_action_or_step_works(sizes: tuple[int, int, int]) -> None:
    states, actions, horizon = sizes
    p = np.full((horizon, states, actions, states), 1.0 / states)
    cmdp = fd.CMDP(p, np.ones(p.shape[:3]), np.ones((1, *p.shape[:3])), 0.5, 0)
    assert (cmdp.states, cmdp.actions, cmdp.horizon) == sizes
    assert cmdp.problem().slater_gap == pytest.approx(horizon - 0.5)


def test_an_initial_state_becomes_a_point_distribution() -> None:
    np.testing.assert_array_equal(build({**valid(), "initial": 2}).initial, [0.0, 0.0, 1.0])


@pytest.mark.parametrize("state", [np.int64(2), np.uint8(2), np.array(2)], ids=["int64", "uint8", "0-d"])
def test_an_initial_state_may_be_any_whole_number(state: Any) -> None:
    assert build({**valid(), "initial": state}).initial[2] == 1.0


def test_an_initial_distribution_may_have_holes() -> None:
    assert build(valid()).initial[1] == 0.0


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble, ">f8"])
def test_zeros_and_ones_of_any_real_type_give_the_same_cmdp(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    p, r, d = (
        np.eye(S)[rng.integers(0, S, (H, S, A))],
        rng.integers(0, 2, (S, A)),
        rng.integers(0, 2, (1, S, A)),
    )
    plain = fd.CMDP(p, r, d, 1, 0)
    other = fd.CMDP(p.astype(dtype), r.astype(dtype), d.astype(dtype), 1, 0)
    for field in ARRAYS:
        np.testing.assert_array_equal(getattr(other, field), getattr(plain, field))


def test_nested_lists_are_taken() -> None:
    made = {field: value.tolist() if isinstance(value, np.ndarray) else value for field, value in valid().items()}
    np.testing.assert_array_equal(build(made).transitions, valid()["transitions"])


@pytest.mark.parametrize(
    "scramble",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
        lambda x: np.flip(x)[(slice(None, None, -1),) * x.ndim],
    ],
    ids=["fortran", "strided", "reversed"],
)
def test_memory_layout_does_not_matter(scramble: Any) -> None:
    made = valid()
    cmdp = build({**made, **{field: scramble(made[field]) for field in ARRAYS}})
    for field in ARRAYS:
        np.testing.assert_array_equal(getattr(cmdp, field), made[field])
        assert getattr(cmdp, field).flags.c_contiguous


@given(SEEDS)
def test_rows_in_single_precision_are_renormalised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = {**valid(), "transitions": rng.dirichlet(np.ones(S), size=(H, S, A)).astype(np.float32)}
    p = build(made).transitions
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(p, made["transitions"], rtol=1e-5)


def test_rows_in_double_precision_are_left_as_they_are() -> None:
    made = valid()
    made["transitions"][0, 0, 0] *= 1.0 + 5e-10
    np.testing.assert_array_equal(build(made).transitions, made["transitions"])


@pytest.mark.parametrize(
    "thresholds", [1, 1.0, [1.0], (1.0,), np.array([1]), np.float32(1), np.array(1.0), fd.Threshold.fixed(1)]
)
def test_a_single_threshold_may_come_with_or_without_a_list(thresholds: Any) -> None:
    made = valid()
    cmdp = build({**made, "utilities": made["utilities"][:1], "thresholds": thresholds})
    assert cmdp.thresholds == (fd.Threshold.fixed(1.0),)


def test_alpha_is_the_mean_of_each_law() -> None:
    laws = [fd.Threshold.uniform(0.0, 3.0), fd.Threshold.normal(-1.0, 1.0, clip=(0.0, 4.0))]
    assert build({**valid(), "thresholds": laws}).alpha.tolist() == [law.mean for law in laws]


def test_a_law_may_give_samples_outside_the_range_of_utilities() -> None:
    law = fd.Threshold.normal(2.0, 50.0)
    assert build({**valid(), "thresholds": [law, 0.0]}).thresholds[0] == law


@pytest.mark.parametrize("value", [0.0, float(H)])
def test_a_threshold_on_the_border_is_taken(value: float) -> None:
    assert build({**valid(), "thresholds": [value, 1.0]}).alpha[0] == value


def test_the_text_of_a_cmdp_says_its_name_and_sizes() -> None:
    text = repr(build({**sparse(), "name": "pump"}))
    assert text == "CMDP('pump', S=3, A=2, H=4, m=2, sparse, 2 successors, alpha=[0.5 1. ])"


# -- what is refused ------------------------------------------------------------------------------------

P, R, D = valid()["transitions"], valid()["rewards"], valid()["utilities"]

REFUSALS: dict[str, tuple[Arguments, str]] = {
    "a row that sums to less": (
        {"transitions": with_entry(P, (1, 2, 0), [0.5, 0.25, 0.0])},
        "transitions[1, 2, 0] sums to 0.75; it must sum to one within 1e-09",
    ),
    "a row that sums to a little more": (
        {"transitions": with_entry(P, (3, 0, 1), [0.5, 0.5, 2e-9])},
        "transitions[3, 0, 1] sums to 1.000000002; it must sum to one within 1e-09",
    ),
    "a row of huge numbers": (
        {"transitions": with_entry(P, (0, 0, 0), 1.5e308)},
        "transitions[0, 0, 0] sums to inf; it must sum to one within 1e-09",
    ),
    "a bad row in single precision": (
        {"transitions": with_entry(P, (0, 1, 1), [0.5, 0.25, 0.0]).astype(np.float32)},
        "transitions[0, 1, 1] sums to 0.75; it must sum to one within 1e-05",
    ),
    "a stationary bad row": (
        {"transitions": with_entry(P[0], (2, 1), [0.5, 0.25, 0.0])},
        "transitions[2, 1] sums to 0.75; it must sum to one within 1e-09",
    ),
    "a negative probability": (
        {"transitions": with_entry(P, (1, 2, 0), [1.25, -0.25, 0.0])},
        "transitions[1, 2, 0, 1] is -0.25; a probability must not be negative",
    ),
    "a probability that is nan": (
        {"transitions": with_entry(P, (1, 2, 0, 1), np.nan)},
        "transitions[1, 2, 0, 1] is nan; it must be finite",
    ),
    "an infinite probability": (
        {"transitions": with_entry(P, (0, 0, 1, 2), np.inf)},
        "transitions[0, 0, 1, 2] is inf; it must be finite",
    ),
    "transitions with a number of axes that means nothing": (
        {"transitions": np.ones((S, S))},
        "transitions has shape (3, 3); it must be (H, S, A, S) or, stationary, (S, A, S)",
    ),
    "transitions to another number of states": (
        {"transitions": np.full((H, S, A, 4), 0.25)},
        "transitions has shape (4, 3, 2, 4); it must be (H, S, A, S) or, stationary, (S, A, S)",
    ),
    "transitions without actions": (
        {"transitions": np.ones((H, S, 0, S))},
        "transitions has shape (4, 3, 0, 3); it must be (H, S, A, S) or, stationary, (S, A, S)",
    ),
    "transitions without steps": (
        {"transitions": np.ones((0, S, A, S))},
        "transitions has shape (0, 3, 2, 3); it must be (H, S, A, S) or, stationary, (S, A, S)",
    ),
    "ragged transitions": (
        {"transitions": [[[1.0]], [[1.0, 0.0]]]},
        "transitions is not a rectangular array",
    ),
    "a reward above one": (
        {"rewards": with_entry(R, (3, 2, 1), 1.0 + 2e-9)},
        "rewards[3, 2, 1] is 1.000000002; it must lie in [0, 1]",
    ),
    "a negative reward": (
        {"rewards": with_entry(R, (0, 1, 1), -0.1)},
        "rewards[0, 1, 1] is -0.1; it must lie in [0, 1]",
    ),
    "a reward that is nan": (
        {"rewards": with_entry(R, (0, 1, 1), np.nan)},
        "rewards[0, 1, 1] is nan; it must be finite",
    ),
    "a stationary reward above one": (
        {"rewards": with_entry(R[0], (2, 1), 7.0)},
        "rewards[2, 1] is 7.0; it must lie in [0, 1]",
    ),
    "an integer reward above one": (
        {"rewards": np.full((S, A), 2)},
        "rewards[0, 0] is 2.0; it must lie in [0, 1]",
    ),
    "rewards for other actions": (
        {"rewards": np.ones((H, S, 3))},
        "rewards has shape (4, 3, 3); it must be (H, 3, 2) or (3, 2)",
    ),
    "a reward that is None": (
        {"rewards": [[0.0, 0.0], [0.0, None], [0.0, 0.0]]},
        "rewards[1, 1] is None; it must be a real number",
    ),
    "rewards of words": ({"rewards": [["a", "b"]]}, "rewards has dtype <U1; it must hold real numbers"),
    "complex rewards": ({"rewards": R * 1j}, "rewards has dtype complex128; it must hold real numbers"),
    "rewards as fractions": (
        {"rewards": [[Fraction(1, 2)]]},
        "rewards has dtype object; it must hold real numbers",
    ),
    "a masked reward": (
        {"rewards": np.ma.array(R, mask=with_entry(R * 0, (2, 1, 0), 1))},
        "rewards[2, 1, 0] is masked; every entry must be a number",
    ),
    "a utility above one": (
        {"utilities": with_entry(D, (1, 3, 2, 0), 1.5)},
        "utilities[1, 3, 2, 0] is 1.5; it must lie in [0, 1]",
    ),
    "a utility that is infinite": (
        {"utilities": with_entry(D, (1, 3, 2, 0), -np.inf)},
        "utilities[1, 3, 2, 0] is -inf; it must be finite",
    ),
    "utilities without the axis of constraints": (
        {"utilities": np.ones((S, A))},
        "utilities has shape (3, 2); it must be (m, H, 3, 2) or (m, 3, 2)",
    ),
    "steps where constraints belong": (
        {"utilities": np.ones((H, S, A))},
        "thresholds has 2 entries; it must have m = 4, as utilities has shape (4, 3, 2)",
    ),
    "no constraint": (
        {"utilities": np.ones((0, H, S, A)), "thresholds": []},
        "utilities has shape (0, 4, 3, 2), m = 0 constraints; m must be at least 1",
    ),
    "horizons that disagree": (
        {"rewards": np.ones((5, S, A))},
        "transitions has 4 steps, rewards has 5 steps, utilities has 4 steps; they must agree on one H",
    ),
    "a horizon that disagrees": (
        {"horizon": 3},
        "utilities has 4 steps, horizon is 3; they must agree on one H",
    ),
    "no steps": (
        {"transitions": P[0], "rewards": np.ones((0, S, A)), "utilities": D[:, 0]},
        "rewards has 0 steps; they must agree on one H of at least 1",
    ),
    "no horizon": (
        {"transitions": P[0], "rewards": R[0], "utilities": D[:, 0]},
        "horizon is None; it must be given when every array is stationary",
    ),
    "a horizon of zero": ({"horizon": 0}, "horizon is 0; it must be between 1 and 2147483647"),
    "a horizon that is a float": ({"horizon": 4.0}, "horizon is 4.0; it must be a whole number"),
    "a horizon that is a truth value": ({"horizon": True}, "horizon is True; it must be a whole number"),
    "a horizon of thousands of digits": (
        {"horizon": 10**5000},
        "horizon is a very large int; it must be between",
    ),
    "a horizon beyond memory": (
        {
            "transitions": P[0],
            "rewards": R[0],
            "utilities": np.ones((10_000, S, A)),  # beyond the address space, not only beyond the machine
            "thresholds": [0] * 10_000,
            "horizon": 2**31 - 1,
        },
        "horizon is 2147483647; the rewards and utilities, (10001, 2147483647, 3, 2) numbers, must fit",
    ),
    "a threshold above H": (
        {"thresholds": [0.5, 4.5]},
        "thresholds[1] is 4.5; it must lie in [0, H] = [0, 4]",
    ),
    "a threshold a little above H": (
        {"thresholds": [np.nextafter(4.0, 5.0), 0.5]},
        "thresholds[0] is 4.000000000000001; it must lie in [0, H] = [0, 4]",
    ),
    "a negative threshold": (
        {"thresholds": [-1, 0.5]},
        "thresholds[0] is -1.0; it must lie in [0, H] = [0, 4]",
    ),
    "a law with its mean above H": (
        {"thresholds": [0.5, fd.Threshold.uniform(4.0, 5.0)]},
        "thresholds[1] has mean 4.5; it must lie in [0, H] = [0, 4]",
    ),
    "a threshold that is nan": ({"thresholds": [0.5, np.nan]}, "thresholds[1] is nan; it must be finite"),
    "a threshold that is a word": (
        {"thresholds": [0.5, "1"]},
        "thresholds[1] is '1'; it must be a single number",
    ),
    "a threshold that is a truth value": (
        {"thresholds": [0.5, True]},
        "thresholds[1] is True; it must be a single number",
    ),
    "a threshold that is a list": (
        {"thresholds": [[0.5], [1]]},
        "thresholds[0] is [0.5]; it must be a single number",
    ),
    "thresholds that are a word": (
        {"thresholds": "11"},
        "thresholds is '11'; it must hold 2 numbers or Threshold laws",
    ),
    "thresholds without order": ({"thresholds": {0.5, 1.0}}, "it must hold 2 numbers or Threshold laws"),
    "too few thresholds": (
        {"thresholds": 0.5},
        "thresholds has 1 entries; it must have m = 2, as utilities has shape (2, 4, 3, 2)",
    ),
    "an initial state that is none": ({"initial": 3}, "initial is 3; it must be between 0 and 2"),
    "an initial state counted from the end": ({"initial": -1}, "initial is -1; it must be between 0 and 2"),
    "an initial state that is a float": ({"initial": 1.0}, "initial is 1.0; it must be a whole number"),
    "initial probabilities of other states": (
        {"initial": [0.5, 0.5]},
        "initial has shape (2,); it must be a state or have shape (3,)",
    ),
    "initial probabilities that miss some mass": (
        {"initial": [0.5, 0.25, 0.0]},
        "initial sums to 0.75; it must sum to one within 1e-09",
    ),
    "a negative initial probability": (
        {"initial": [1.5, -0.5, 0.0]},
        "initial[1] is -0.5; a probability must not be negative",
    ),
    "an initial hole that is nan": ({"initial": [1.0, np.nan, 0.0]}, "initial[1] is nan; it must be finite"),
    "ragged initial probabilities": ({"initial": [1.0, [0.0]]}, "initial is not a rectangular array"),
    "unknown noise": ({"noise": "gauss"}, "noise is 'gauss'; it must be 'none' or 'bernoulli'"),
    "noise that is an array": ({"noise": np.ones(2)}, "it must be 'none' or 'bernoulli'"),
    "a name that is a number": ({"name": 3}, "name is 3; it must be a string"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_field_the_index_the_value_and_the_rule(case: str) -> None:
    change, message = REFUSALS[case]
    refused({**valid(), **change}, message)


@given(st.data(), arguments(sparse=False))
def test_any_single_bad_number_is_found_at_its_index(data: st.DataObject, made: Arguments) -> None:
    field = data.draw(st.sampled_from(("transitions", "rewards", "utilities")))
    index = tuple(data.draw(st.integers(0, n - 1)) for n in made[field].shape)
    value = data.draw(st.sampled_from((np.nan, np.inf, -np.inf, -0.5, -2e-9)))
    made[field] = with_entry(made[field], index, value)
    refused(made, f"{field}[{', '.join(map(str, index))}] is {value!r};")


@given(st.data(), arguments(sparse=False, max_states=6))
def test_any_row_off_by_more_than_the_tolerance_is_found_at_its_index(data: st.DataObject, made: Arguments) -> None:
    p = made["transitions"]
    index = tuple(data.draw(st.integers(0, n - 1)) for n in p.shape[:-1])
    p[index] *= 1.0 + data.draw(st.floats(2e-9, 1.0)) * data.draw(st.sampled_from((-1, 1)))
    refused(made, f"transitions[{', '.join(map(str, index))}] sums to", "it must sum to one within 1e-09")


def test_a_validation_error_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="noise"):
        build({**valid(), "noise": "loud"})


# -- read-only ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [valid, sparse, in_costs])
def test_changing_the_given_arrays_afterwards_changes_nothing(make: Any) -> None:
    made = make()
    cmdp, kept = build(made), build(make())
    for value in made.values():
        if isinstance(value, np.ndarray):
            value[...] = 0
    for ours, theirs in zip(cmdp.model, kept.model, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(cmdp.costs, kept.costs)


def exposed(cmdp: fd.CMDP) -> dict[str, np.ndarray]:
    """Every array that a CMDP hands out."""
    arrays = {field: getattr(cmdp, field) for field in ("rewards", "utilities", "costs", "initial", "alpha")}
    arrays |= {f"model.{field}": getattr(cmdp.model, field) for field in ("p", "nxt", "f", "mu")}
    return arrays if cmdp.is_sparse else {**arrays, "transitions": cmdp.transitions}


@given(st.one_of(cmdps(), cmdps(costs=True)))
def test_no_array_can_be_written(cmdp: fd.CMDP) -> None:
    for field, array in exposed(cmdp).items():
        assert not array.flags.writeable, field


@given(st.one_of(cmdps(), cmdps(costs=True)))
def test_no_array_can_be_made_writeable_again(cmdp: fd.CMDP) -> None:
    for array in exposed(cmdp).values():
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("field", ["rewards", "thresholds", "horizon", "noise", "a_new_field", "_contents"])
def test_no_attribute_can_be_set(field: str) -> None:
    with pytest.raises(AttributeError, match=f"{field} cannot be set: a CMDP is read-only"):
        setattr(build(valid()), field, 1)


def test_a_cmdp_can_be_referred_to_weakly() -> None:
    cmdp = build(valid())
    assert weakref.ref(cmdp)() is cmdp


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])  # noqa: S301
@pytest.mark.parametrize("make", [valid, sparse, in_costs])
def test_copies_and_pickles_are_the_same_and_as_read_only(make: Any, twin: Any) -> None:
    cmdp = build(make())
    other = twin(cmdp)
    assert (other.thresholds, other.limits, other.noise) == (cmdp.thresholds, cmdp.limits, cmdp.noise)
    for field, array in exposed(cmdp).items():
        np.testing.assert_array_equal(exposed(other)[field], array)
        with pytest.raises(ValueError, match="WRITEABLE"):
            exposed(other)[field].flags.writeable = True


# -- the cost form --------------------------------------------------------------------------------------


@given(arguments(costs=True, laws=True))
def test_costs_come_back_bit_for_bit(made: Arguments) -> None:
    costs = build(made).costs
    given = made["costs"] if made["costs"].ndim == 4 else made["costs"][:, None]
    assert costs.tobytes() == np.broadcast_to(given, costs.shape).tobytes()


@given(arguments(costs=True, laws=True))
def test_limits_come_back_as_the_same_laws(made: Arguments) -> None:
    laws = [x if isinstance(x, fd.Threshold) else fd.Threshold.fixed(x) for x in made["limits"]]
    assert list(build(made).limits) == laws


def test_costs_in_single_precision_come_back_bit_for_bit() -> None:
    costs = np.random.default_rng(3).random((M, H, S, A), dtype=np.float32)
    assert build({**in_costs(), "costs": costs}).costs.astype(np.float32).tobytes() == costs.tobytes()


@given(arguments(costs=True, laws=True))
def test_utilities_are_one_minus_costs(made: Arguments) -> None:
    cmdp = build(made)
    np.testing.assert_array_equal(cmdp.utilities, 1.0 - cmdp.costs)


@given(arguments(costs=True, laws=True))
def test_thresholds_are_the_horizon_minus_the_limits(made: Arguments) -> None:
    cmdp = build(made)
    expected = [cmdp.horizon - law.mean for law in cmdp.limits]
    np.testing.assert_allclose(cmdp.alpha, expected, rtol=0, atol=1e-14 * cmdp.horizon)


# On paper the means of these laws are on the border, in double precision they lie across it.
ACROSS = [(1, 1e-9), (2, 7e-4), (2, 2e-9)]


@pytest.mark.parametrize(("horizon", "width"), ACROSS)
def test_a_law_across_the_border_by_rounding_has_its_alpha_on_the_border(horizon: int, width: float) -> None:
    law = fd.Threshold.normal(horizon, width, clip=(horizon - width, horizon + width))
    assert law.mean > horizon
    cmdp = fd.CMDP(np.ones((1, 1, 1)), [[0]], [[[0]]], law, 0, horizon=horizon)
    assert cmdp.alpha[0] == horizon


@pytest.mark.parametrize(("horizon", "width"), ACROSS)
def test_a_limit_on_the_border_has_its_alpha_on_the_border(horizon: int, width: float) -> None:
    law = fd.Threshold.normal(0.0, width, clip=(-width, width))
    cmdp = fd.CMDP.from_costs(np.ones((1, 1, 1)), [[0]], [[[0]]], law, 0, horizon=horizon)
    assert cmdp.thresholds[0].mean > horizon
    assert cmdp.alpha[0] == horizon


def test_a_cmdp_of_utilities_has_costs_and_limits_too() -> None:
    cmdp = build(valid())
    np.testing.assert_array_equal(cmdp.costs, 1.0 - cmdp.utilities)
    assert [law.mean for law in cmdp.limits] == [3.5, 3.0]


def test_only_a_cmdp_of_costs_says_that_it_is_one() -> None:
    assert (build(in_costs()).is_cost_form, build(valid()).is_cost_form) == (True, False)


COST_REFUSALS: dict[str, tuple[Arguments, str]] = {
    "a limit above H": ({"limits": [0.5, 4.5]}, "limits[1] is 4.5; it must lie in [0, H] = [0, 4]"),
    "a negative limit": ({"limits": [-0.5, 1.0]}, "limits[0] is -0.5; it must lie in [0, H] = [0, 4]"),
    "a limit that is nan": ({"limits": [1.0, np.nan]}, "limits[1] is nan; it must be finite"),
    "a limit law with its mean above H": (
        {"limits": [fd.Threshold.normal(9.0, 1.0), 1.0]},
        "limits[0] has mean 9.0; it must lie in [0, H] = [0, 4]",
    ),
    "too many limits": (
        {"limits": [1, 1, 1]},
        "limits has 3 entries; it must have m = 2, as costs has shape (2, 4, 3, 2)",
    ),
    "a cost above one": (
        {"costs": with_entry(D, (1, 0, 2, 1), 1.25)},
        "costs[1, 0, 2, 1] is 1.25; it must lie in [0, 1]",
    ),
    "costs of another shape": (
        {"costs": np.ones((M, H, S, 3))},
        "costs has shape (2, 4, 3, 3); it must be (m, H, 3, 2) or (m, 3, 2)",
    ),
    "costs with other steps": (
        {"costs": np.ones((M, 6, S, A))},
        "transitions has 4 steps, rewards has 4 steps, costs has 6 steps; they must agree on one H",
    ),
    "no constraint": (
        {"costs": np.ones((0, S, A)), "limits": []},
        "costs has shape (0, 3, 2), m = 0 constraints; m must be at least 1",
    ),
    "successors without their probabilities": (
        {"next_states": np.zeros((H, S, A, 1), dtype=int)},
        "next_states has shape (4, 3, 2, 1); it must have that of transitions, (4, 3, 2, 3)",
    ),
}


@pytest.mark.parametrize("case", COST_REFUSALS)
def test_a_refusal_in_the_cost_form_speaks_of_costs_and_limits(case: str) -> None:
    change, message = COST_REFUSALS[case]
    refused({**in_costs(), **change}, message)


# -- sparse models --------------------------------------------------------------------------------------


def dense_by_hand(made: Arguments) -> np.ndarray:
    """Successor lists as a dense array, one entry at a time."""
    p, nxt = made["probabilities"], made["next_states"]
    dense = np.zeros((*p.shape[:-1], p.shape[-3]))
    for index in np.ndindex(p.shape):
        dense[(*index[:-1], nxt[index])] += p[index]
    return dense


@given(arguments(sparse=True))
def test_to_dense_has_the_same_numbers(made: Arguments) -> None:
    dense = build(made).to_dense()
    np.testing.assert_array_equal(dense.transitions, np.broadcast_to(dense_by_hand(made), dense.transitions.shape))


@given(cmdps(sparse=True))
def test_to_dense_changes_nothing_but_the_transitions(cmdp: fd.CMDP) -> None:
    dense = cmdp.to_dense()
    assert (dense.thresholds, dense.noise, dense.stationary) == (cmdp.thresholds, cmdp.noise, cmdp.stationary)
    np.testing.assert_array_equal(dense.model.f, cmdp.model.f)
    np.testing.assert_array_equal(dense.initial, cmdp.initial)


def test_to_dense_keeps_the_cost_form() -> None:
    made = {
        **in_costs(),
        "next_states": np.zeros((H, S, A, 1), dtype=int),
        "transitions": np.ones((H, S, A, 1)),
    }
    cmdp = build(made)
    assert cmdp.to_dense().limits == cmdp.limits
    assert cmdp.to_dense().costs.tobytes() == made["costs"].tobytes()


def test_a_dense_cmdp_is_its_own_dense_form() -> None:
    cmdp = build(valid())
    assert cmdp.to_dense() is cmdp


def test_a_sparse_cmdp_has_no_array_of_transitions() -> None:
    with pytest.raises(fd.ValidationError, match=r"successor lists; see model or to_dense\(\)"):
        _ = build(sparse()).transitions


def test_a_single_successor_works() -> None:
    cmdp = build(sparse(K=1))
    assert cmdp.is_sparse
    np.testing.assert_array_equal(cmdp.model.nxt, sparse(K=1)["next_states"])


@pytest.mark.parametrize("padding", [-1, S, 2**40, -(2**62)])
def test_padding_may_name_any_state(padding: int) -> None:
    made = sparse()
    made["probabilities"][..., :] = 1.0, 0.0
    clean = build(made).to_dense().transitions
    made["next_states"][..., 1] = padding
    np.testing.assert_array_equal(build(made).to_dense().transitions, clean)


def test_a_state_listed_twice_gets_the_sum() -> None:
    made = sparse()
    made["next_states"][1, 2, 0] = 1, 1
    assert build(made).to_dense().transitions[1, 2, 0].tolist() == [
        0.0,
        made["probabilities"][1, 2, 0].sum(),
        0.0,
    ]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, ">i4"])
def test_successors_of_any_whole_type_give_the_same_cmdp(dtype: Any) -> None:
    made = sparse()
    other = {**made, "next_states": made["next_states"].astype(dtype)}
    np.testing.assert_array_equal(build(other).model.nxt, build(made).model.nxt)


@given(arguments(sparse=True, laws=True))
def test_a_sparse_cmdp_has_the_values_of_its_dense_twin(made: Arguments) -> None:
    cmdp = build(made)
    uniform = np.full((cmdp.horizon, cmdp.states, cmdp.actions), 1.0 / cmdp.actions)
    ours, dense = fd.evaluate(cmdp, uniform), fd.evaluate(cmdp.to_dense(), uniform)
    np.testing.assert_allclose([ours.value, *ours.utilities], [dense.value, *dense.utilities], rtol=1e-12)


def test_a_large_sparse_model_is_not_made_dense() -> None:
    large = 20_000  # dense it would take 3.2 GB
    nxt = np.arange(large)[:, None, None]
    cmdp = fd.CMDP.from_successors(
        nxt, np.ones((large, 1, 1)), np.ones((large, 1)), np.ones((1, large, 1)), 1, 0, horizon=2
    )
    assert cmdp.model.p.size == large


SPARSE_REFUSALS: dict[str, tuple[Arguments, str]] = {
    "a state beyond the last": (
        {"next_states": with_entry(sparse()["next_states"], (3, 0, 1, 1), S)},
        "next_states[3, 0, 1, 1] is 3; it must be between 0 and 2 where its probability is positive",
    ),
    "a negative state": (
        {"next_states": with_entry(sparse()["next_states"], (0, 2, 1, 0), -1)},
        "next_states[0, 2, 1, 0] is -1; it must be between 0 and 2 where its probability is positive",
    ),
    "states as floats": (
        {"next_states": sparse()["next_states"].astype(float)},
        "next_states has dtype float64; it must hold whole numbers",
    ),
    "states as truth values": (
        {"next_states": sparse()["next_states"].astype(bool)},
        "next_states has dtype bool; it must hold whole numbers",
    ),
    "ragged lists": ({"next_states": [[0], [0, 1]]}, "next_states is not a rectangular array"),
    "lists of another length": (
        {"next_states": np.zeros((H, S, A, 3), dtype=int)},
        "next_states has shape (4, 3, 2, 3); it must have that of probabilities, (4, 3, 2, 2)",
    ),
    "probabilities with a number of axes that means nothing": (
        {"probabilities": np.ones((S, A)), "next_states": np.zeros((S, A), dtype=int)},
        "probabilities has shape (3, 2); it must be (H, S, A, K) or, stationary, (S, A, K)",
    ),
    "no successors": (
        {"probabilities": np.ones((H, S, A, 0)), "next_states": np.zeros((H, S, A, 0), dtype=int)},
        "probabilities has shape (4, 3, 2, 0); it must be (H, S, A, K) or, stationary, (S, A, K)",
    ),
    "a row that sums to less": (
        {"probabilities": with_entry(sparse()["probabilities"], (1, 1, 1), [0.5, 0.25])},
        "probabilities[1, 1, 1] sums to 0.75; it must sum to one within 1e-09",
    ),
    "a negative probability": (
        {"probabilities": with_entry(sparse()["probabilities"], (1, 1, 1), [1.5, -0.5])},
        "probabilities[1, 1, 1, 1] is -0.5; a probability must not be negative",
    ),
    "horizons that disagree": (
        {"rewards": np.ones((5, S, A))},
        "probabilities has 4 steps, rewards has 5 steps",
    ),
}


@pytest.mark.parametrize("case", SPARSE_REFUSALS)
def test_a_refusal_of_successors_names_the_field_the_index_the_value_and_the_rule(case: str) -> None:
    change, message = SPARSE_REFUSALS[case]
    refused({**sparse(), **change}, message)


@settings(max_examples=200)
@given(
    st.sampled_from((*valid(), "horizon", "noise", "name")),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=8,
    ),
)
def test_nonsense_in_any_argument_is_taken_or_refused_with_its_name(field: str, nonsense: Any) -> None:
    message = refusal({**valid(), field: nonsense})
    assert message is None or re.search(rf"\b{field}\b", message)
