"""Learners loose on environments that publish nothing."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given
from hypothesis import strategies as st

import flexdome as fd
from flexdome.gym import CMDPEnv, Grid, SixTuple, fit_grid, problem_for
from flexdome.gym.learning import _estimate

HOLES = (5, 7, 11, 12)


def into_a_hole(observation, action, after):
    return float(after in HOLES)


def lake_learner(episodes=50, **change):
    arguments = {"horizon": 20, "limit": 0.5, "slater_gap": 0.4} | change
    env = gymnasium.make("FrozenLake-v1")
    return env, fd.FlexDOME(problem_for(env, **arguments), episodes=episodes)


class Corridor(gymnasium.Env):
    """Ten steps in one dimension; rewards -1 to 1; the end is beyond ``end``."""

    observation_space, action_space = Box(-np.inf, np.inf, (1,)), Discrete(2)

    def __init__(self, cut=None, end=1.0):
        self.cut, self.end = cut, end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.n = self.np_random.uniform(-0.1, 0.1), 0
        return np.array([self.x]), {}

    def step(self, action):
        self.n += 1
        self.x += (0.3, -0.3)[action]
        return (
            np.array([self.x]),
            1.0 - 2.0 * action,
            self.x > self.end,
            self.n == self.cut,
            {"cost": float(self.x > 0.5)},
        )


# -- grids ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=2), st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_the_state_counts_the_edges_below_in_row_major_order(x, bins):
    edges = [np.linspace(-2, 2, n + 1)[1:-1] for n in bins]
    below = [int(sum(value >= edge for edge in one)) for value, one in zip(x, edges, strict=True)]
    grid = Grid(edges)
    assert grid(x) == np.ravel_multi_index(below, bins)
    assert (grid.bins, grid.states) == (bins, bins[0] * bins[1])


def test_a_grid_takes_its_ranges_from_random_play():
    grid = fit_grid(gymnasium.make("CartPole-v1"), (3, 1, 5, 2), episodes=20, seed=1)
    again = fit_grid(gymnasium.make("CartPole-v1"), (3, 1, 5, 2), episodes=20, seed=1)
    assert grid.bins == (3, 1, 5, 2)
    for one, other in zip(grid.edges, again.edges, strict=True):
        assert np.array_equal(one, other)
        assert np.allclose(np.diff(one), np.diff(one)[:1])
    assert 0.05 < grid.edges[2][-1] < 0.4  # radians: a pole that has fallen is beyond 0.21


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Grid([[1.0, 1.0]]), r"edges\[0\] is \[1.0, 1.0\]; it must increase"),
        (lambda: Grid([]), "edges is empty"),
        (lambda: Grid([np.arange(5000.0)] * 2), "25010001 states"),
        (lambda: Grid([[0.0]])([1.0, 2.0]), "observation is .*; it must be 1 numbers"),
        (lambda: Grid([[0.0]])([math.nan]), "observation is"),
        (lambda: fit_grid(Corridor(), (3, 3)), "bins has 2 entries; an observation has 1 dimensions"),
        (lambda: fit_grid(Corridor(), (0,)), r"bins\[0\] is 0"),
        (lambda: fit_grid(gymnasium.make("FrozenLake-v1", map_name=None, desc=["SG"]), (0,)), r"bins\[0\] is 0"),
    ],
)
def test_a_bad_grid_is_refused(call, message):
    with pytest.raises(fd.ValidationError, match=message):
        call()


# -- learning -------------------------------------------------------------------------------------------------------


def test_a_learner_sees_what_happened_and_the_end_costs_nothing():
    seen = []

    env, learner = lake_learner(60)
    observe = learner.observe
    learner.observe = lambda episode: (seen.append(episode.checked(learner.problem)), observe(episode))
    result = fd.learn(env, learner, 60, cost=into_a_hole)
    assert learner.episode == 60
    for t, (states, _, rewards, utilities, _) in enumerate(seen):
        n = int(result.lengths[t])
        table = env.unwrapped.P
        assert all(table[s][0][0][3] is False or s not in HOLES for s in states[:n])
        assert (states[n + (n == 20) :][1:] == 16).all()
        assert (rewards[n:] == 0.0).all()
        assert (utilities[0, n:] == 1.0).all()
        assert rewards.sum() == result.rewards[t]
        assert 20 - utilities.sum() == pytest.approx(result.costs[t, 0])
    assert set(result.lengths) - {20.0}  # some ended early


def test_it_is_the_same_again_with_the_same_seed():
    def run(seed):
        env, learner = lake_learner()
        return fd.learn(env, learner, 30, cost=into_a_hole, seed=seed), learner

    (one, first), (two, second), (three, _) = run(1), run(1), run(2)
    assert np.array_equal(one.rewards, two.rewards)
    assert np.array_equal(one.lengths, two.lengths)
    assert np.array_equal(first.policy, second.policy)
    assert not np.array_equal(one.lengths, three.lengths)


def test_two_calls_go_on_where_the_first_ended():
    env, learner = lake_learner()
    fd.learn(env, learner, 10, cost=into_a_hole)
    fd.learn(env, learner, 15, cost=into_a_hole, seed=5)
    assert learner.episode == 25


def test_rewards_in_other_units_and_bins_from_data():
    env = Corridor()
    grid = fit_grid(env, (7,), steps=10)
    problem = problem_for(env, horizon=10, limit=2.0, slater_gap=1.0, discretize=grid)
    learner = fd.FlexDOME(problem, episodes=20)
    result = fd.learn(env, learner, 20, discretize=grid, reward_range=(-1.0, 1.0))
    assert problem.states == 8
    assert (np.abs(result.rewards) <= 10.0).all()
    assert (result.rewards < 0.0).any()
    again = fd.FlexDOME(problem, episodes=20)
    assert len(fd.learn(env, again, 5, discretize=(7,), reward_range=(-1.0, 1.0)).rewards) == 5


def test_six_values_and_info_give_the_same_costs():
    cmdp = fd.make_cmdp("river-v1")
    results = []
    for env in (CMDPEnv(cmdp), SixTuple(CMDPEnv(cmdp))):
        results.append(fd.learn(env, fd.FlexDOME(cmdp.problem(), episodes=40), 40))
    assert np.array_equal(results[0].costs, results[1].costs)
    assert results[0].costs.any()


def test_thresholds_that_must_be_estimated_are_taken_from_info():
    cmdp = fd.make_cmdp("paper-stochastic-v1")
    learner = fd.FlexDOME(cmdp.problem(), episodes=400)
    fd.learn(CMDPEnv(cmdp), learner, 400)
    assert learner.beliefs().thresholds[0] == pytest.approx(cmdp.alpha[0], abs=0.3)
    hidden = fd.FlexDOME(fd.Problem(17, 4, 20, 0, [math.nan], 0.4), episodes=5)
    with pytest.raises(fd.ValidationError, match="it must have 'threshold'"):
        fd.learn(gymnasium.make("FrozenLake-v1"), hidden, 5, cost=into_a_hole)


@pytest.mark.parametrize("first", [1, 21])
def test_an_estimate_holds_the_exact_value_in_nineteen_of_twenty_runs_at_least(first):
    """Forty intervals at 95 % for reward and cost each, on an environment whose truth is known."""
    cmdp = fd.make_cmdp("inventory-v1")
    learner = fd.FlexDOME(cmdp.problem(), episodes=10)
    truth = fd.evaluate(cmdp, learner.policy)
    held = [0, 0]
    for seed in range(first, first + 20):
        result = fd.learn(CMDPEnv(cmdp), learner, 0, evaluate=60, seed=seed)
        held[0] += result.reward.low <= truth.value <= result.reward.high
        held[1] += result.cost[0].low <= cmdp.horizon - truth.utilities[0] <= result.cost[0].high
    assert min(held) >= 19
    assert "estimate from 60 episodes, 95 % interval" in str(result)


def test_the_interval_is_that_of_empirical_bernstein():
    sums = np.array([1.0, 3.0, 2.0, 2.0, 4.0])
    half = (2 * 1.3 * 4.382026634673881 / 5) ** 0.5 + 7 * 120 * 4.382026634673881 / (3 * 4)
    found = _estimate(sums - 2.0, -400.0, -280.0)
    assert (found.mean, found.mean - found.low) == (pytest.approx(0.4), pytest.approx(half))
    assert (_estimate(sums, 0.0, 10.0).low, _estimate(sums, 0.0, 10.0).high) == (0.0, 10.0)


def test_what_is_reported_is_told_apart_from_the_limit_or_not():
    env, learner = lake_learner(limit=20.0 - 1e-3, slater_gap=1e-3)
    assert "within the limit" in str(fd.learn(env, learner, 1, cost=lambda *_: 0.0, evaluate=400))
    env, learner = lake_learner(limit=0.5)
    assert "not told apart from the limit 0.5" in str(fd.learn(env, learner, 1, cost=lambda *_: 0.02, evaluate=10))
    env, learner = lake_learner(limit=0.5)
    assert "above the limit 0.5" in str(fd.learn(env, learner, 1, cost=lambda *_: 1.0, evaluate=400))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": 1.0}, "cost is 1.0; it must be a function"),
        ({"cost": lambda *_: 1.5}, r"cost\[0\] is 1.5; it must be in \[0, 1\]"),
        ({"cost": lambda *_: [0.0, 0.0]}, r"cost has shape \(2,\); it must be \(1,\)"),
        ({"cost": None}, "it must have 'cost', or cost must be given"),
        ({"evaluate": 1}, "evaluate is 1"),
        ({"reward_range": (0.0, 0.0)}, "with low < high"),
        ({"reward_range": (2.0, 3.0)}, r"reward is 0.0; it must be"),
        ({"episodes": -1}, "episodes is -1"),
        ({"learner": 3}, "learner is 3"),
        ({"env": gymnasium.make("CartPole-v1")}, "the environment has 2 actions; the problem has 4"),
        ({"env": gymnasium.make("FrozenLake-v1", map_name="8x8")}, "the problem has 17 states; it must have 65"),
        ({"env": gymnasium.make("FrozenLake-v1", max_episode_steps=7)}, "the environment cuts episodes after 7 steps"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, message):
    env, learner = lake_learner()
    arguments = {"env": env, "learner": learner, "episodes": 3, "cost": into_a_hole} | change
    with pytest.raises(fd.ValidationError, match=message):
        fd.learn(**arguments)
    assert learner.episode == 0


def test_an_episode_that_is_cut_or_has_no_place_to_end_is_refused():
    grid = Grid([[0.0]])
    problem = problem_for(Corridor(), horizon=10, limit=2.0, slater_gap=1.0, discretize=grid)
    with pytest.raises(fd.ValidationError, match="cut an episode after 4 steps; the horizon is 10"):
        fd.learn(Corridor(cut=4), fd.FlexDOME(problem, episodes=50), 50, discretize=grid, reward_range=(-1, 1))
    tight = fd.Problem(2, 2, 10, 0, [8.0], 1.0)
    with pytest.raises(fd.ValidationError, match="the problem must have one state more, for the end"):
        fd.learn(Corridor(end=0.2), fd.FlexDOME(tight, episodes=99), 99, discretize=grid, reward_range=(-1, 1))
    with pytest.raises(fd.ValidationError, match="observation_space is Box"):
        problem_for(Corridor(), horizon=10, limit=2.0, slater_gap=1.0)
    with pytest.raises(fd.ValidationError, match="it must say how many there are"):
        problem_for(Corridor(), horizon=10, limit=2.0, slater_gap=1.0, discretize=lambda x: 0)
