"""Episodes from a model and in tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from strategies import SEEDS, cmdps, policies

GOOD = {
    "episode": [7, 7, 8],
    "step": [0, 1, 0],
    "state": [2, 1, 0],
    "action": [0, 1, 1],
    "reward": [0.0, 0.5, 1.0],
    "cost_0": [0.25, 1.0, 0.0],
}


def same(one: fd.Episode, other: fd.Episode) -> bool:
    pairs = [(one.states, other.states), (one.actions, other.actions), (one.rewards, other.rewards)]
    pairs.append((np.atleast_2d(one.utilities), np.atleast_2d(other.utilities)))
    if (one.thresholds is None) != (other.thresholds is None):
        return False
    if one.thresholds is not None:
        pairs.append((one.thresholds, other.thresholds))
    return all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


# -- sampling -------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(data=st.data(), cmdp=cmdps(laws=True), seed=SEEDS)
def test_episodes_are_those_that_a_simulation_with_that_seed_meets(data, cmdp, seed):
    learner = fd.FlexDOME(cmdp.problem(), episodes=3)
    policy, seen, observe = learner.policy, [], learner.observe
    learner.observe = lambda episode: (seen.append(episode), observe(episode))
    fd.simulate(learner, cmdp, episodes=1, seed=seed)
    (drawn,) = fd.sample_episodes(cmdp, policy, 1, seed)
    assert same(
        drawn,
        fd.Episode(*(getattr(seen[0], name) for name in ("states", "actions", "rewards", "utilities", "thresholds"))),
    )


@settings(max_examples=30)
@given(data=st.data(), cmdp=cmdps(), seed=SEEDS)
def test_what_is_impossible_is_not_sampled_and_a_longer_sample_begins_with_a_shorter(data, cmdp, seed):
    policy = data.draw(policies(cmdp))
    some, more = fd.sample_episodes(cmdp, policy, 3, seed), fd.sample_episodes(cmdp, policy, 9, seed)
    assert all(map(same, some, more[:3]))
    dense = cmdp.to_dense()
    for episode in more:
        assert dense.initial[episode.states[0]] > 0.0
        for h, (s, a, after) in enumerate(zip(episode.states, episode.actions, episode.states[1:], strict=False)):
            assert policy[h, s, a] > 0.0
            assert dense.transitions[h, s, a, after] > 0.0


def test_means_of_many_episodes_are_the_values():
    """3,000 episodes each on five instances: within five standard errors."""
    for seed in range(5):
        cmdp = fd.make_cmdp("independent-v1", seed)
        policy = fd.solve(cmdp).policy
        sums = np.array([[e.rewards.sum(), e.utilities.sum()] for e in fd.sample_episodes(cmdp, policy, 3000, seed)])
        truth = fd.evaluate(cmdp, policy)
        error = sums.std(axis=0) / np.sqrt(3000)
        assert (np.abs(sums.mean(axis=0) - [truth.value, truth.utilities[0]]) < 5 * error).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cmdp": 3}, "cmdp is 3"),
        ({"n": -1}, "n is -1"),
        ({"n": 10**12}, "must fit in memory"),
        ({"policy": np.ones((2, 2))}, "policy has shape"),
        ({"policy": np.full((1, 6, 3, 2), 0.5)}, "one policy"),
    ],
)
def test_a_bad_sample_is_refused(change, message):
    cmdp = fd.make_cmdp("factored-v1")
    arguments = {"cmdp": cmdp, "policy": np.full((6, 3, 2), 0.5), "n": 2} | change
    with pytest.raises(fd.ValidationError, match=message):
        fd.sample_episodes(**arguments)


# -- tables ---------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(data=st.data(), cmdp=cmdps(laws=True), seed=SEEDS, suffix=st.sampled_from(["csv", "parquet", "frame", "pandas"]))
def test_what_was_written_is_read_bit_for_bit(data, cmdp, seed, suffix, tmp_path_factory):
    episodes = fd.sample_episodes(cmdp, data.draw(policies(cmdp)), 4, seed)
    table = tmp_path_factory.mktemp("tables") / f"log.{suffix}" if suffix in ("csv", "parquet") else None
    frame = fd.write_episodes(episodes, table)
    if table is None:
        table = frame if suffix == "frame" else pd.DataFrame(frame.to_dict(as_series=False))
    again = fd.read_episodes(table)
    assert len(again) == 4
    assert all(map(same, episodes, again))


def test_a_learner_learns_the_same_from_a_table(tmp_path):
    cmdp = fd.make_cmdp("paper-stochastic-v1")
    episodes = fd.sample_episodes(cmdp, np.full((5, 20, 5), 0.2), 50, seed=3)
    fd.write_episodes(episodes, tmp_path / "log.csv")
    one, other = (fd.FlexDOME(cmdp.problem(), episodes=100) for _ in range(2))
    for episode, again in zip(episodes, fd.read_episodes(tmp_path / "log.csv"), strict=True):
        one.observe(episode)
        other.observe(again)
    assert np.array_equal(one.policy, other.policy)
    assert np.array_equal(one.multipliers, other.multipliers)


def test_columns_have_other_names_rows_any_order_and_steps_count_from_one():
    frame = pl.DataFrame(
        {
            "run": ["b", "a", "b"],
            "n": [2, 1, 1],
            "bin": [1, 5, 2],
            "rate": [1, 0, 0],
            "yield": [1.0, 0.5, 0.0],
            "over": [1, 0, 0],
        }
    )
    columns = {"episode": "run", "step": "n", "state": "bin", "action": "rate", "reward": "yield", "costs": "over"}
    first, second = fd.read_episodes(frame, columns)
    assert (first.states.tolist(), first.utilities.tolist(), first.rewards.tolist()) == (
        [2, 1],
        [[1.0, 0.0]],
        [0.0, 1.0],
    )
    assert (second.states.tolist(), second.actions.tolist()) == ([5], [0])


def test_a_short_episode_ends_in_the_absorbing_state_and_costs_nothing_by_default():
    long, short = fd.read_episodes(GOOD, horizon=2, end=3)
    assert long.states.tolist() == [2, 1]
    assert (short.states.tolist(), short.actions.tolist()) == ([0, 3, 3], [1, 0])
    assert (short.rewards.tolist(), short.utilities.tolist()) == ([1.0, 0.0], [[1.0, 1.0]])


def test_a_short_episode_has_no_utility_after_its_end_by_default():
    table = {"utility_0" if name == "cost_0" else name: column for name, column in GOOD.items()}
    assert fd.read_episodes(table, horizon=2, end=3)[1].utilities.tolist() == [[0.0, 0.0]]


def test_what_comes_after_the_end_is_said_for_each_constraint():
    table = GOOD | {"cost_1": [0.5, 0.5, 0.5]}
    short = fd.read_episodes(table, horizon=3, end=3, fill=[0.25, 1.0], reward=0.5)[1]
    assert short.utilities.tolist() == [[1.0, 0.75, 0.75], [0.5, 0.0, 0.0]]
    assert short.rewards.tolist() == [1.0, 0.5, 0.5]


def test_short_episodes_are_the_same_bits_to_a_learner_whichever_way_they_are_filled():
    problem = fd.Problem(4, 2, 2, [0.5, 0.0, 0.5, 0.0], [1.5], 0.3)
    one, other = (fd.FlexDOME(problem, episodes=10) for _ in range(2))
    for episode in fd.read_episodes(GOOD, horizon=2, end=3):
        one.observe(episode)
    other.observe(fd.Episode([2, 1], [0, 1], [0.0, 0.5], [0.75, 0.0]))
    other.observe(fd.Episode([0, 3, 3], [1, 0], [1.0, 0.0], [1.0, 1.0]))
    assert np.array_equal(one.policy, other.policy)
    assert np.array_equal(one.visits, other.visits)


def test_an_empty_table_has_no_episodes():
    assert fd.read_episodes({name: [] for name in GOOD}) == []
    assert fd.write_episodes([]).height == 0


def test_the_state_after_the_last_step_may_be_known_of_some_episodes_alone(tmp_path):
    episodes = [fd.Episode([0], [0], [0.5], [0.5]), fd.Episode([1, 2], [0], [0.5], [0.5])]
    for suffix in ("csv", "parquet"):
        fd.write_episodes(episodes, tmp_path / f"log.{suffix}")
        assert [e.states.tolist() for e in fd.read_episodes(tmp_path / f"log.{suffix}")] == [[0], [1, 2]]
    with pytest.raises(fd.ValidationError, match=r"column 'next_state', row 2 is 1\.5"):
        fd.read_episodes(GOOD | {"next_state": [1.0, 2.0, 1.5]})


def test_costs_are_written_where_they_are_asked_for():
    frame = fd.write_episodes([fd.Episode([0, 1], [0], [0.5], [0.25])], form="costs")
    assert frame["cost_0"].to_list() == [0.75]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (3, {}, "table is 3; it must be a path"),
        (GOOD | {"reward": [0.0, None, 1.0]}, {}, "column 'reward' has dtype|column 'reward', row 1 is missing"),
        (GOOD | {"reward": [0.0, np.nan, 1.0]}, {}, "column 'reward', row 1 is nan"),
        (GOOD | {"cost_0": [0.0, np.inf, 1.0]}, {}, "column 'cost_0', row 1 is inf"),
        (GOOD | {"state": [0.5, 1, 1]}, {}, "column 'state', row 0 is 0.5; it must be a whole number"),
        (GOOD | {"state": ["a", "b", "c"]}, {}, "column 'state' has dtype String"),
        (GOOD | {"step": [0, 2, 0]}, {}, r"episode 7 has the steps \[0, 2\]; they must count up"),
        (GOOD | {"step": [0, 0, 0]}, {}, r"episode 7 has the steps \[0, 0\]"),
        (GOOD | {"utility_0": [0, 0, 0]}, {}, "has utilities and costs"),
        (GOOD | {"cost_2": [0, 0, 0]}, {}, r"costs are numbered \[0, 2\]"),
        (GOOD | {"threshold_0": [0, 0, 0], "threshold_1": [0, 0, 0]}, {}, "thresholds names 2 columns"),
        ({name: column for name, column in GOOD.items() if name != "cost_0"}, {}, "no utilities and no costs"),
        ({name: column for name, column in GOOD.items() if name != "state"}, {}, "unknown column 'state'"),
        (GOOD, {"columns": {"stat": "x"}}, "unknown column 'stat'; did you mean state"),
        (GOOD, {"columns": {"state": "stat"}}, "unknown column 'stat'; did you mean state"),
        (GOOD, {"columns": {"step": "nowhere"}}, "unknown column 'nowhere'"),
        (GOOD, {"columns": 3}, "columns is 3"),
        (GOOD, {"horizon": 2}, "episode 8 has 1 steps; it must have 2, or end must say"),
        (GOOD, {"horizon": 1}, "episode 7 has 2 steps; it must have 1"),
        (GOOD, {"end": 1}, "horizon is missing"),
        (GOOD, {"horizon": 2, "end": 3, "fill": [1, 2]}, r"fill has shape \(2,\)"),
        (GOOD, {"horizon": 2, "end": 3, "fill": 2.0}, "fill is 2.0; it must lie in"),
        ("log.txt", {}, "it must end in .csv or .parquet"),
        (GOOD | {"step": [0]}, {}, "table cannot be read"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, options, message):
    with pytest.raises(fd.ValidationError, match=message):
        fd.read_episodes(table, **options)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "log.parquet").write_bytes(b"PAR1 nothing")
    for name in ("log.parquet", "absent.csv"):
        with pytest.raises(fd.FileFormatError, match="cannot be read"):
            fd.read_episodes(tmp_path / name)


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([3], r"episodes\[0\] is 3"),
        (7, "episodes is 7; it must be a series"),
        ([fd.Episode([0], [0], [1.0, 2.0], [1.0])], r"episodes\[0\]: rewards has not one entry"),
        ([fd.Episode([0, 1, 2], [0], [1.0], [1.0])], r"episodes\[0\]: states has length 3"),
        ([fd.Episode([0], [0.5], [1.0], [1.0])], r"episodes\[0\]: actions is"),
        ([fd.Episode([0], [0], [1.0], [1.0], [1.0, 2.0])], r"episodes\[0\]: thresholds has shape"),
        (
            [fd.Episode([0], [0], [1.0], [1.0]), fd.Episode([0], [0], [1.0], [1.0], [1])],
            r"episodes\[1\] has the columns",
        ),
    ],
)
def test_episodes_that_make_no_table_are_refused(episodes, message, tmp_path):
    with pytest.raises(fd.ValidationError, match=message):
        fd.write_episodes(episodes, tmp_path / "log.csv")
    assert list(tmp_path.iterdir()) == []


# -- missing samples, names and units -----------------------------------------------------------------------------

PLANT = fd.Problem(
    states=["low", "high", "off"],
    actions=["wait", "dose"],
    horizon=3,
    end="off",
    reward=fd.Quantity("yield", 0, 6, "kg"),
    subject_to=[fd.Quantity("heat", -10, 30, "C", limit=40), fd.Quantity("flow", 0, 20, "ml", threshold=10)],
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_units_and_missing_samples_are_written_and_read_back(suffix, tmp_path):
    episodes = [
        fd.Episode(
            ["low", "high", "low", "low"], ["dose", "wait", "wait"], [1, 2.5, 6], [[-10, np.nan, 30], [0, 1, 2]]
        ),
        fd.Episode(["high", "low"], ["wait", "dose"], [0.1, 0.2], [[3, 4.25], [np.nan, np.nan]]),
    ]
    frame = fd.write_episodes(episodes, tmp_path / f"log.{suffix}", problem=PLANT)
    assert frame.columns[2:8] == ["state", "action", "yield", "heat", "flow", "next_state"]
    back = fd.read_episodes(tmp_path / f"log.{suffix}", problem=PLANT)
    for one, other in zip(episodes, back, strict=True):
        for x, y in zip(one.checked(PLANT, gaps=True), other.checked(PLANT, gaps=True), strict=True):
            assert np.array_equal(x, y, equal_nan=True)


def test_a_journal_is_written_in_the_words_of_its_problem(tmp_path):
    learner = fd.make_learner("optcmdp-bonus", PLANT, episodes=10)
    with fd.Journal(tmp_path / "journal", learner) as journal:
        journal.observe(fd.Episode(["low", "high"], ["dose", "wait"], [1.5, 3.0], [[10, np.nan], [5, 20]]))
        frame = fd.write_episodes(journal.episodes(), problem=PLANT)
    assert frame["state"].to_list() == ["low", "high", "off"]
    assert frame["action"].to_list() == ["dose", "wait", "wait"]
    assert frame["yield"].to_list() == [1.5, 3.0, 0.0]
    np.testing.assert_allclose(frame["heat"].to_numpy(), [10, np.nan, 0])
    np.testing.assert_allclose(frame["flow"].to_numpy(), [5, 20, 0])
    assert fd.recover(tmp_path / "journal").episode == 1


def test_what_cannot_be_written_is_said():
    good = fd.Episode(["low"], ["wait"], [1], [[0], [0]])
    for episodes, options, message in (
        ([good], {"problem": PLANT, "form": "costs"}, "written as they were measured"),
        ([fd.Episode([0], [0], [1], [[np.inf]])], {}, r"utilities\[0, 0\] is inf"),
        ([fd.Episode([0], [0], [1], [[0]])], {"problem": PLANT}, "has 1 rows; the problem has 2 constraints"),
        ([fd.Episode([0.5], [0], [1], [[0]])], {}, "whole numbers or names"),
    ):
        with pytest.raises(fd.ValidationError, match=message):
            fd.write_episodes(episodes, **options)


def test_a_short_episode_may_have_missing_samples():
    e = fd.Episode.padded(3, 2, [0], [1], [0.5], [[np.nan]], utility=1.0)
    np.testing.assert_array_equal(e.utilities, [[np.nan, 1.0, 1.0]])
    first, _ = fd.read_episodes(GOOD | {"cost_0": [0.0, np.nan, 1.0]}, horizon=2, end=3)
    np.testing.assert_array_equal(first.utilities, [[1.0, np.nan]])
