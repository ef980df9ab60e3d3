"""Tables of Gymnasium's, read: exact CMDPs."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import flexdome as fd
from strategies import SEEDS

HOLES = (5, 7, 11, 12)
TOYS = {
    "FrozenLake-v1": {"cost": lambda s, a, after: after in HOLES and s not in HOLES},
    "CliffWalking-v1": {"cost": lambda s, a, after, reward: reward == -100},
    "Taxi-v4": {"cost": lambda s, a, after: a > 3 and after == s},
}
SLIPPERY = (
    ("CliffWalking-v1", {"is_slippery": True}),
    ("FrozenLake-v1", {"map_name": "8x8"}),
    ("Taxi-v4", {"is_rainy": True}),
)


def backward(env, horizon: int, worth=lambda *outcome: outcome[3]) -> float:
    """The best expected sum over ``horizon`` steps, from the table as it stands: nothing comes after an end."""
    table = env.unwrapped.P
    best = dict.fromkeys(table, 0.0)
    for _ in range(horizon):
        best = {
            s: max(
                sum(p * (worth(s, a, after, r) + (0.0 if over else best[after])) for p, after, r, over in table[s][a])
                for a in table[s]
            )
            for s in table
        }
    return float(sum(mu * best[s] for s, mu in enumerate(env.unwrapped.initial_state_distrib)))


def by_linear_program(env, horizon: int, cost, limit: float) -> float:
    """The best expected reward with an expected cost of at most ``limit``, over occupancies before the end."""
    table, mu = env.unwrapped.P, env.unwrapped.initial_state_distrib
    S, A = len(table), len(table[0])
    at = np.arange(horizon * S * A).reshape(horizon, S, A)
    flow, gain, price = np.zeros((horizon * S, at.size)), np.zeros(at.size), np.zeros(at.size)
    for h, s, a in np.ndindex(at.shape):
        flow[h * S + s, at[h, s, a]] += 1.0
        for p, after, r, over in table[s][a]:
            gain[at[h, s, a]] += p * r
            price[at[h, s, a]] += p * cost(s, a, after)
            if not over and h + 1 < horizon:
                flow[(h + 1) * S + after, at[h, s, a]] -= p
    start = np.zeros(horizon * S)
    start[:S] = mu
    return -linprog(-gain, A_ub=price[None], b_ub=[limit], A_eq=flow, b_eq=start, method="highs").fun


@pytest.mark.parametrize("id", TOYS)
@pytest.mark.parametrize("horizon", [1, 7, 25])
def test_the_best_value_is_that_of_backward_induction_on_the_table(id, horizon):
    env = gymnasium.make(id)
    cmdp = fd.from_gymnasium(env, horizon=horizon, limit=horizon, **TOYS[id])
    assert cmdp.units.value(fd.solve(cmdp).value) == pytest.approx(backward(env, horizon), abs=1e-9)


@pytest.mark.parametrize(("id", "options"), SLIPPERY)
def test_the_best_value_is_that_of_backward_induction_where_moves_go_wrong(id, options):
    env = gymnasium.make(id, **options)
    cmdp = fd.from_gymnasium(env, horizon=12, limit=12, cost=lambda s, a, after: 0.0)
    assert cmdp.units.value(fd.solve(cmdp).value) == pytest.approx(backward(env, 12), abs=1e-9)


@pytest.mark.parametrize("id", TOYS)
def test_the_largest_cost_is_that_of_backward_induction_on_the_table(id):
    env, cost = gymnasium.make(id), TOYS[id]["cost"]
    cmdp = fd.from_gymnasium(env, horizon=9, limit=9, reward=cost, cost=cost)
    with_reward = id.startswith("Cliff")
    expected = backward(env, 9, lambda *step: float(cost(*step) if with_reward else cost(*step[:3])))
    assert fd.solve(cmdp).value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("limit", [0.02, 0.05, 0.1])
def test_the_constrained_optimum_of_the_lake_is_that_of_a_linear_program(limit):
    env = gymnasium.make("FrozenLake-v1")
    cmdp = fd.from_gymnasium(env, horizon=30, limit=limit, **TOYS["FrozenLake-v1"])
    assert fd.solve(cmdp).value == pytest.approx(
        by_linear_program(env, 30, TOYS["FrozenLake-v1"]["cost"], limit), abs=1e-8
    )


FAMILIES = {
    "frozen-lake-v1": ("FrozenLake-v1", {"horizon": 40, "limit": 0.05, **TOYS["FrozenLake-v1"]}),
    "cliff-walking-v1": (
        "CliffWalking-v1",
        {"horizon": 30, "limit": 0.1, "reward": lambda s, a, after: -1.0, **TOYS["CliffWalking-v1"]},
    ),
    "taxi-v1": ("Taxi-v4", {"horizon": 20, "limit": 0.1, **TOYS["Taxi-v4"]}),
}


@pytest.mark.parametrize("id", FAMILIES)
def test_the_family_is_the_environment(id):
    name, options = FAMILIES[id]
    read, ours = fd.from_gymnasium(gymnasium.make(name), **options).to_dense(), fd.make_cmdp(id).to_dense()
    for one, other in zip(read.model, ours.model, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-15)
    assert (read.limits, read.alpha.tolist()) == (ours.limits, ours.alpha.tolist())


# -- tables that nobody has published -------------------------------------------------------------------------------


def environment(table, initial, actions=None):
    """An environment that is a table."""
    S = len(table)
    return SimpleNamespace(
        P=table,
        initial_state_distrib=np.asarray(initial, dtype=float),
        observation_space=Discrete(S),
        action_space=Discrete(len(table[0]) if actions is None else actions),
    )


@st.composite
def tables(draw):
    """A random table, its first states, and whether an end may lead where episodes go on."""
    S, A = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(SEEDS))
    low, high = draw(st.sampled_from([(0.0, 1.0), (-1.0, 0.0), (-100.0, 20.0), (3.0, 4.0)]))
    some_end, anywhere = draw(st.booleans()), draw(st.booleans())
    table = {}
    for s in range(S):
        table[s] = {}
        for a in range(A):
            K = int(rng.integers(1, 4))
            p = rng.dirichlet(np.ones(K))
            listed = []
            for k in range(K):
                after = int(rng.integers(S))
                over = bool(some_end and (rng.random() < 0.3 if anywhere else after == S - 1))
                listed.append((float(p[k]), after, float(rng.uniform(low, high)), over))
            table[s][a] = listed
    initial = rng.dirichlet(np.ones(S))
    return environment(table, initial)


@settings(max_examples=150)
@given(env=tables(), horizon=st.integers(1, 6), seed=SEEDS)
def test_what_a_policy_earns_and_pays_is_what_the_table_says(env, horizon, seed):
    """Model in is model out: values of random policies, by recursion on the table itself."""
    S, A = len(env.P), len(env.P[0])
    rng = np.random.default_rng(seed)
    prices = rng.random((S, A, S))
    cmdp = fd.from_gymnasium(env, horizon=horizon, cost=prices, limit=horizon)
    policy = rng.dirichlet(np.ones(A), size=(horizon, cmdp.states))
    earned, paid = np.zeros(S), np.zeros(S)
    for h in reversed(range(horizon)):
        now = np.zeros((2, S))
        for s in range(S):
            for a in range(A):
                for p, after, r, over in env.P[s][a]:
                    weight = policy[h, s, a] * p
                    now[0, s] += weight * (r + (0.0 if over else earned[after]))
                    now[1, s] += weight * (prices[s, a, after] + (0.0 if over else paid[after]))
        earned, paid = now
    found = fd.evaluate(cmdp, policy)
    mu = env.initial_state_distrib
    assert cmdp.units.value(found.value) == pytest.approx(float(mu @ earned), abs=1e-7)
    assert horizon - found.utilities[0] == pytest.approx(float(mu @ paid), abs=1e-9)


def test_an_end_where_episodes_go_on_leads_to_one_state_more():
    loop = environment({0: {0: [(0.5, 0, 1.0, True), (0.5, 0, 1.0, False)]}}, [1.0])
    cmdp = fd.from_gymnasium(loop, horizon=3, cost=np.zeros((1, 1)), limit=1.0)
    assert cmdp.states == 2
    assert fd.solve(cmdp).value == pytest.approx(1.0 + 0.5 + 0.25)


def test_rewards_between_zero_and_one_stay_and_others_are_reported_in_their_units():
    lake = fd.from_gymnasium(gymnasium.make("FrozenLake-v1"), cost=np.zeros((16, 4)), limit=1.0)
    assert (lake.units.low, lake.units.high, lake.horizon) == (0.0, 1.0, 100)
    cliff = fd.from_gymnasium(gymnasium.make("CliffWalking-v1"), horizon=20, cost=np.zeros((48, 4)), limit=1.0)
    assert (cliff.units.low, cliff.units.high) == (-100.0, 0.0)
    assert cliff.units.value(fd.solve(cliff).value) == pytest.approx(-13.0)
    assert cliff.units.reward(cliff.rewards[0, 36, 0]) == pytest.approx(-1.0)
    assert cliff.units.reward(cliff.rewards[0, 36, 1]) == pytest.approx(-100.0)


def test_several_costs_are_several_constraints():
    env = gymnasium.make("FrozenLake-v1")
    one, two = TOYS["FrozenLake-v1"]["cost"], np.full((16, 4), 0.25)
    cmdp = fd.from_gymnasium(env, horizon=8, cost=[one, two], limit=[0.5, 3.0])
    assert cmdp.constraints == 2
    np.testing.assert_allclose(cmdp.costs[1, 0, 0], 0.25)
    arrays = fd.from_gymnasium(env, horizon=8, cost=[two, two], limit=[2.0, 3.0])
    assert arrays.constraints == 2


def test_units_survive_pickling_between_processes():
    cmdp = fd.from_gymnasium(gymnasium.make("Taxi-v4"), horizon=5, limit=1.0, **TOYS["Taxi-v4"])
    again = pickle.loads(pickle.dumps(cmdp))  # noqa: S301
    assert again.units == cmdp.units
    assert np.array_equal(again.model.p, cmdp.model.p)


GOOD = {0: {0: [(1.0, 0, 0.0, False)]}}


@pytest.mark.parametrize(
    ("env", "change", "message"),
    [
        (environment(GOOD, [1.0]), {"horizon": None}, "horizon is missing"),
        (environment(GOOD, [1.0]), {"horizon": 0}, "horizon is 0; it must be at least 1"),
        (environment(GOOD, [1.0], actions=2), {}, r"P\[0\]\[1\] is missing"),
        (environment({0: {0: [(0.5, 0, 0.0, False)]}}, [1.0]), {}, r"P\[0\]\[0\] has probabilities that sum to 0.5"),
        (environment({0: {0: [(1.0, 1, 0.0, False)]}}, [1.0]), {}, r"P\[0\]\[0\]\[0\]\[1\] is 1; it must be between 0"),
        (environment({0: {0: [(1.0, 0, np.nan, False)]}}, [1.0]), {}, r"P\[0\]\[0\]\[0\]\[2\] is nan"),
        (environment({0: {0: [(1.0, 0)]}}, [1.0]), {}, r"P\[0\]\[0\]\[0\] is \(1.0, 0\); it must be \(probability"),
        (environment({0: {0: 3}}, [1.0]), {}, r"P\[0\]\[0\] is 3; it must be a list of outcomes"),
        (environment(GOOD, [0.5]), {}, "initial sums to 0.5"),
        (environment(GOOD, [1.0]), {"cost": np.zeros((2, 1))}, r"cost has shape \(2, 1\)"),
        (environment(GOOD, [1.0]), {"cost": {}}, "it must be a function or an array"),
        (
            environment(GOOD, [1.0]),
            {"cost": lambda s, a, after: 2.0},
            r"cost\(0, 0, 0\) is 2.0; it must be in \[0, 1\]",
        ),
        (environment(GOOD, [1.0]), {"reward": 3.0}, "reward is 3.0; it must be a function"),
        (environment(GOOD, [1.0]), {"reward_range": (1.0, 0.0)}, "with low < high"),
        (environment(GOOD, [1.0]), {"reward_range": (1.0, 2.0)}, r"the rewards lie in \[0, 0\]"),
        (environment(GOOD, [1.0]), {"limit": [1.0, 2.0]}, "limits"),
        (gymnasium.make("CartPole-v1"), {}, "observation_space is Box"),
        (SimpleNamespace(observation_space=Discrete(2, start=1)), {}, "observation_space.start is"),
        (SimpleNamespace(observation_space=Discrete(2), action_space=Box(0, 1)), {}, "action_space is Box"),
        (SimpleNamespace(observation_space=Discrete(2), action_space=Discrete(1)), {}, "P is missing"),
        (SimpleNamespace(observation_space=Discrete(1), action_space=Discrete(1), P=GOOD), {}, "initial is missing"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(env, change, message):
    arguments = {"horizon": 3, "cost": np.zeros((1, 1)), "limit": 1.0} | change
    with pytest.raises(fd.ValidationError, match=message):
        fd.from_gymnasium(env, **arguments)
