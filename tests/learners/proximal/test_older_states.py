"""States of older versions of ProxDOME: what each array becomes, number by number, and the bounds of what is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.proximal.proxdome import ProxDOME
from naive_proxdome import seen
from runs import World, small_cmdp

M = 2


def learned(log: int = 0, episodes: int = 8, **options: Any) -> ProxDOME:
    """A learner of three states after a log and some episodes."""
    cmdp = small_cmdp(3, 3, 2, 3, **{"m": M, "noise": "bernoulli", **options})
    learner, world = fd.ProxDOME(cmdp.problem(slater_gap=0.1)), World(cmdp, 1)
    learner.preload([seen(world, learner) for _ in range(log)])
    for _ in range(episodes):
        learner.observe(seen(world, learner))
    return learner


def again(learner: ProxDOME, state: dict[str, Any]) -> ProxDOME:
    """A learner of the same problem with that state."""
    other = fd.ProxDOME(learner.problem)
    other.episode = learner.episode
    other._played[:] = learner._played
    other.restore(state)
    return other


def without(state: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: part for name, part in state.items() if name not in names}


def test_a_state_comes_back_with_every_array() -> None:
    learner = learned(log=3)
    state, other = learner.state(), again(learner, learner.state()).state()
    assert set(state) == set(other)
    for name, part in state.items():
        np.testing.assert_array_equal(part, other[name], err_msg=name)
    assert state["values"].shape[-1] == M + 2
    assert state["pooled"].shape == (1 + M, 3)
    assert state["shared"].shape == (M, 3)
    assert state["promise"].shape[0] == M


def test_version_6_did_not_know_since_when_mixtures_were_played() -> None:
    learner = learned(log=3)
    state = learner.state()
    assert again(learner, without(state, "since")).own.since[0] == 8 + 1 + 3
    assert again(learner, without(state, "since")).state()["since"].shape == (1,)


def test_version_5_did_not_count_its_sums() -> None:
    learner = learned()
    other = again(learner, without(learner.state(), "judged", "below", "promise"))
    assert other.own.judged.tolist() == other.own.below.tolist() == [0.0, 0.0]
    assert not other.own.promise[1:].any()


def test_version_4_did_not_shrink_and_the_next_plan_looks_at_all_rows_again() -> None:
    learner = learned()
    other = again(learner, without(learner.state(), "pools", "judged", "below", "promise", "since"))
    assert not other.own.pools.any()
    assert other.own.clock.tolist() == [0]
    sums, n = learner.model.core.counts.sum_d, np.maximum(learner.model.core.counts.n_visits, 1.0)
    base = other.model.core.work.base.reshape(-1, other.model.W)
    visited = learner.model.core.counts.n_visits > 0
    assert base[visited, 1] == pytest.approx((sums[0] / n)[visited])  # not shrunk


def of_version_3(learner: ProxDOME) -> dict[str, Any]:
    """Its state as version 3 had it: numbers told in a row, with the heat, and no units."""
    new = ("lucky", "doubts", "luck", "shared", "kept", "has_kept", "share", "report", "pools", "judged", "below")
    state = without(learner.state(), *new, "promise", "since")
    old = {name: part for name, part in state.items() if not name.startswith("scale_")}
    numbers = learner.own.report.numbers
    return {**old, "told": np.concatenate([numbers[:11], [1.0], numbers[11:14]]), "heat": np.array([4.0])}


@pytest.mark.parametrize("safe", [0.0, 1.0])
def test_version_3_told_its_numbers_in_a_row_and_had_no_units(safe: float) -> None:
    learner = learned()
    old = of_version_3(learner)
    old["told"][9:] = [5.0, 0.25, 1.0, safe, 7.0, 1.0]  # trials, temperature, heat, safe, untried, solved
    other = again(learner, old)
    report, was = other.own.report, learner.own.report
    for name in ("value", "utilities", "errors", "margin", "thresholds"):
        np.testing.assert_array_equal(getattr(report, name), getattr(was, name))
    assert (report.trials[0], report.temperature[0], report.safe[0]) == (5.0, 0.25, safe)
    assert (report.untried[0], report.solved[0]) == (7.0, 1.0)
    assert (report.ceiling[0], report.first[0], report.share[0], report.weight[0]) == (0.0, 0.0, 1.0, 1.0)
    assert other.own.clock.tolist() == [0]
    assert other.own.has_kept.tolist() == [int(safe)]
    assert other.own.share.tolist() == [0.5]
    assert other.own.since.tolist() == [9]
    for name in ("lucky", "doubts", "luck", "pools"):
        assert not getattr(other.own, name).any(), name
    assert not other.own.pooled[1 + M :].any()
    np.testing.assert_array_equal(other.state()["kept"], learner.state()["logits"])
    n = learner.model.core.counts.n_visits
    means = (learner.model.core.counts.sum_d / np.maximum(n, 1.0))[:, n > 0]
    assert other.own.scales.high == pytest.approx(means.max(axis=1))
    assert other.own.scales.mean == pytest.approx(means.mean(axis=1))
    assert other.own.scales.m2 == pytest.approx(means.shape[1] * means.var(axis=1))
    assert other.own.scales.count.tolist() == [float(means.shape[1])] * M


@pytest.mark.parametrize("name", ["told", "n_visits", "sum_d", "logits"])
def test_half_a_state_of_version_3_is_refused(name: str) -> None:
    learner = learned()
    with pytest.raises(fd.ValidationError, match="that of version 3, and not all of it is there"):
        again(learner, without(of_version_3(learner), name))


@pytest.mark.parametrize("change", [{"told": np.zeros(14)}, {"told": np.zeros(16)}, {"n_visits": np.zeros((2, 2))}])
def test_a_state_of_version_3_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    learner = learned()
    with pytest.raises(fd.ValidationError, match="that of version 3, and not all of it is there"):
        again(learner, {**of_version_3(learner), **change})


BOUNDS = [
    ("m2_r", 0.0, None), ("m2_d", 0.0, None), ("seen", 0.0, None), ("m2_alpha", 0.0, None), ("s2", 0.0, None),
    ("lucky", 0.0, None), ("doubts", 0.0, None), ("luck", 0.0, None), ("optimistic", 0.0, None),
    ("kept", None, 1e-6), ("has_kept", 0.0, 2.0), ("share", 1.0 / 64.0, 0.5), ("since", 0.0, None),
    ("pooled", 0.0, None), ("clock", 0.0, None), ("below", 0.0, None), ("judged", 0.0, 8.0), ("scale_count", 0.0, None),
    ("scale_m2", 0.0, None), ("scale_width", 1e-300, None), ("logged", -8.0, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "low", "high"), BOUNDS)
def test_what_is_outside_of_its_range_is_refused(name: str, low: float | None, high: float | None) -> None:
    learner = learned()
    state = learner.state()
    whole = state[name].dtype.kind in "iu" or name in ("seen", "judged", "below")
    beyond = [] if low is None else [low - (1.0 if whole or name == "logged" else 1e-9 + 0.1 * low)]
    beyond += [] if high is None else [high + (1.0 if whole else 0.1 * high)]
    for value in beyond:
        bad = state[name].astype(np.float64)
        bad[(-1,) * bad.ndim] = value
        with pytest.raises(fd.ValidationError, match=rf"state\.{name}"):
            again(learner, {**state, name: bad})


def test_where_steps_are_shared_their_cells_are_the_same() -> None:
    learner = learned(stationary=True)
    again(learner, learner.state())
    with pytest.raises(fd.ValidationError, match=r"n_cells differs between steps|state"):
        again(learner, {**learner.state(), "n_cells": np.array([3, 3, 2])})


def test_a_learner_that_forgot_has_fewer_episodes_in_its_state_than_it_has_played() -> None:
    cmdp = small_cmdp(3, 3, 2, 3, m=M, noise="bernoulli")
    learner, world = fd.ProxDOME(cmdp.problem(slater_gap=0.1), forget=16), World(cmdp, 1)
    for _ in range(19):
        learner.observe(seen(world, learner))
    assert learner.own.logged[0] == -2  # of the 18th episode on sixteen are left
    state = {name: part for name, part in learner.state().items() if not name.startswith("memory_")}
    other = again(learner, state)
    assert other.own.logged[0] == -2
    np.testing.assert_array_equal(other.policy, learner.policy)
    with pytest.raises(fd.ValidationError, match="state"):  # seventeen episodes are in the counts, and not nineteen
        again(learner, {**state, "logged": np.array([0])})


@pytest.mark.parametrize("part", [0, 1])
def test_noise_and_its_ratio_are_not_below_zero(part: int) -> None:
    learner = learned()
    pools = learner.state()["pools"].copy()
    pools[part, 0, 0] = -1e-9
    with pytest.raises(fd.ValidationError, match=rf"state\.pools\[{part}, 0, 0\] must not be below 0"):
        again(learner, {**learner.state(), "pools": pools})


@pytest.mark.parametrize("i", range(M))
@pytest.mark.parametrize("k", range(3))
def test_counts_totals_and_squares_of_a_promise_are_not_below_zero(i: int, k: int) -> None:
    learner = learned()
    promise = learner.state()["promise"].copy()
    promise[i, 3:] = -1.0
    again(learner, {**learner.state(), "promise": promise})
    promise[i, k] = -1e-9
    with pytest.raises(fd.ValidationError, match=rf"state\.promise\[{i}, {k}\] must have counts"):
        again(learner, {**learner.state(), "promise": promise})


def test_a_learner_that_has_seen_nothing_and_one_that_knows_everything_come_back() -> None:
    cmdp = small_cmdp(3, 3, 2, 3, m=M, fraction=0.9)
    fresh = fd.ProxDOME(cmdp.problem())
    again(fresh, fresh.state())
    again(fresh, of_version_3(fresh))
    certain = fd.ProxDOME(cmdp.problem(reveal=("transitions", "rewards", "utilities")))
    assert certain.own.since[0] == 0
    np.testing.assert_array_equal(again(certain, certain.state()).policy, certain.policy)


def test_version_3_gets_units_from_a_single_episode() -> None:
    learner = learned(episodes=1)
    assert again(learner, of_version_3(learner)).own.scales.count.tolist() == [3.0] * M
