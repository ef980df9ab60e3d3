"""CMDPs as Gymnasium environments, one and many at a time."""

from __future__ import annotations

import copy
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.gym import CMDPEnv, CMDPVectorEnv, SixTuple, gymnasium_id, register
from strategies import SEEDS, cmdps

ROOT = Path(__file__).parents[2]
MODES = tuple(AutoresetMode)
CERTAIN = fd.CMDP(  # one start and certain moves: nothing depends on random numbers
    np.eye(3)[[[1, 2], [2, 0], [0, 1]]],
    np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]),
    np.array([[[0.7, 0.8], [0.9, 1.0], [0.0, 0.25]], [[1.0, 0.5], [0.25, 0.125], [0.0, 0.75]]]),
    [0.5, 0.25],
    1,
    horizon=3,
)


def slow_episode(cmdp: fd.CMDP, seed: int, actions: list[int]) -> list[tuple]:
    """What an environment must show, from the dense model and the generator that Gymnasium makes of a seed."""
    dense, m = cmdp.to_dense(), cmdp.constraints
    rng, _ = gymnasium.utils.seeding.np_random(seed)
    drawn = [law.law != "fixed" for law in cmdp.thresholds]
    each = [is_drawn and law.per == "step" for is_drawn, law in zip(drawn, cmdp.thresholds, strict=True)]
    once = [is_drawn and law.per == "episode" for is_drawn, law in zip(drawn, cmdp.thresholds, strict=True)]

    def pick(p: np.ndarray, u: float) -> int:
        total = 0.0
        for k in np.flatnonzero(p):
            total += p[k]
            if u < total:
                return int(k)
        return int(np.flatnonzero(p)[-1])

    u = rng.random(1 + m if any(once) else 1)
    s, alpha, shown = pick(dense.initial, u[0]), cmdp.alpha.copy(), []
    for i in np.flatnonzero(once):
        alpha[i] = cmdp.thresholds[i].sample(u[None, 1 + i : 2 + i])[0, 0]
    for h, a in enumerate(actions):
        noisy = cmdp.noise == "bernoulli"
        u = rng.random(1 + (1 + m) * noisy + m * any(each))
        means = np.append(dense.rewards[h, s, a], dense.utilities[:, h, s, a])
        seen = (u[1 : 2 + m] < means).astype(float) if noisy else means
        for i in np.flatnonzero(each):
            alpha[i] = cmdp.thresholds[i].sample(u[None, -m:][:, i : i + 1])[0, 0]
        step = h if len(cmdp.model.p) > 1 else 0
        k = pick(cmdp.model.p[step, s, a], u[0])
        s = int(cmdp.model.nxt[step, s, a, k]) if cmdp.is_sparse else k
        shown.append((s, seen[0], seen[1:].copy(), alpha.copy()))
    return shown


@pytest.mark.parametrize("id", fd.ENVIRONMENTS)
def test_every_registered_cmdp_passes_gymnasiums_checker_without_a_warning(id):
    env = gymnasium.make(gymnasium_id(id))
    check_env(env.unwrapped)
    assert (env.observation_space.n, env.action_space.n) == (env.unwrapped.cmdp.states, env.unwrapped.cmdp.actions)


def test_a_name_that_says_what_to_import_needs_no_other_import():
    code = "import gymnasium; env = gymnasium.make('flexdome.gym:flexdome/Paper-v1'); print(env.unwrapped.cmdp.name)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "paper-v1"


def test_the_package_announces_its_environments():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, function = project["entry-points"]["gymnasium.envs"]["flexdome"].split(":")
    assert (module, function) == ("flexdome.gym", register.__name__)
    assert all(gymnasium_id(id) in gymnasium.registry for id in fd.ENVIRONMENTS)


def test_instance_and_options_reach_the_family():
    env = gymnasium.make("flexdome/Garnet-v1", instance=3, states=50, actions=2)
    expected = fd.make_cmdp("garnet-v1", 3, states=50, actions=2)
    assert all(np.array_equal(x, y) for x, y in zip(env.unwrapped.cmdp.model, expected.model, strict=True))


@settings(max_examples=60)
@given(cmdp=st.one_of(cmdps(laws=True), cmdps(costs=True)), seed=st.integers(0, 2**31), data=st.data())
def test_an_episode_is_that_of_the_model(cmdp, seed, data):
    actions = [data.draw(st.integers(0, cmdp.actions - 1)) for _ in range(cmdp.horizon)]
    env = CMDPEnv(cmdp)
    env.reset(seed=seed)
    for h, (expected, a) in enumerate(zip(slow_episode(cmdp, seed, actions), actions, strict=True)):
        state, reward, terminated, truncated, info = env.step(a)
        s, r, d, alpha = expected
        assert (state, reward, terminated, truncated) == (s, r, False, h + 1 == cmdp.horizon)
        np.testing.assert_array_equal(np.atleast_1d(info["utility"]), d)
        np.testing.assert_array_equal(np.atleast_1d(info["threshold"]), alpha)
        np.testing.assert_allclose(np.atleast_1d(info["cost"]), 1.0 - d, atol=1e-15)
        assert isinstance(info["cost"], float) == (cmdp.constraints == 1)
        assert info["step"] == h + 1


def test_costs_are_those_that_were_given():
    cost = 0.1 + 0.2  # 1 - (1 - cost) is another number
    cmdp = fd.CMDP.from_costs(np.ones((1, 1, 1)), [[0.5]], [[[cost]]], 1.0, 0, horizon=2)
    env = CMDPEnv(cmdp)
    env.reset(seed=0)
    assert env.step(0)[4]["cost"] == cost


def test_nothing_is_stepped_after_the_end_or_before_a_reset():
    env = CMDPEnv(CERTAIN)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CMDPEnv("papr-v1"), "unknown environment 'papr-v1'"),
        (lambda: CMDPEnv(7), "environment is 7; it must be of the class CMDP"),
        (lambda: CMDPEnv(CERTAIN, states=3), "a CMDP that is given takes none"),
        (lambda: CMDPEnv("paper-v1", render_mode="human"), "render_mode is 'human'"),
        (lambda: CMDPVectorEnv(0), "num_envs is 0; it must be between 1"),
        (lambda: CMDPVectorEnv(2, render_mode="human"), "render_mode is 'human'"),
        (lambda: CMDPVectorEnv(2, autoreset_mode="Never"), "autoreset_mode is 'Never'"),
        (lambda: started(CMDPEnv(CERTAIN)).step(2), "action is 2; it must be between 0 and 1"),
        (lambda: started(CMDPEnv(CERTAIN)).step(0.0), "action is 0.0; it must be a whole number"),
        (lambda: started(CMDPVectorEnv(2, CERTAIN)).step([0]), r"actions has shape \(1,\)"),
        (lambda: started(CMDPVectorEnv(2, CERTAIN)).step([0, 5]), r"actions\[1\] is 5; it must lie in 0 to 1"),
        (lambda: CMDPVectorEnv(2, CERTAIN).reset(options={"reset_mask": [True]}), "reset_mask is"),
        (lambda: CMDPVectorEnv(2, CERTAIN).reset(options={"reset_mask": np.zeros(2, bool)}), "all False"),
    ],
)
def test_bad_arguments_are_refused_by_name(make, message):
    with pytest.raises(fd.ValidationError, match=message):
        make()


def started(env):
    env.reset(seed=0)
    return env


# -- a published table ----------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(cmdp=cmdps(stationary=True, costs=True))
def test_model_out_is_model_in(cmdp):
    """CMDP -> environment -> table -> CMDP."""
    env = CMDPEnv(cmdp)
    costs = [np.array(one[0]) for one in cmdp.costs]
    again = fd.from_gymnasium(
        env, horizon=cmdp.horizon, cost=costs, limit=list(cmdp.limits), reward_range=(0.0, 1.0), name=cmdp.name
    )
    one, other = cmdp.to_dense(), again.to_dense()
    np.testing.assert_allclose(other.transitions, one.transitions, atol=1e-15)
    np.testing.assert_allclose(other.rewards, one.rewards, atol=1e-15)
    np.testing.assert_allclose(other.costs, one.costs, atol=1e-15)
    np.testing.assert_array_equal(other.initial, one.initial)
    assert other.limits == one.limits


def test_a_model_that_changes_with_the_step_publishes_no_table():
    assert not hasattr(CMDPEnv("paper-v1"), "P")
    with pytest.raises(fd.ValidationError, match="P is missing"):
        fd.from_gymnasium(CMDPEnv("paper-v1"), horizon=5, cost=np.zeros((20, 5)), limit=1.0)


# -- many at a time -------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(cmdp=cmdps(laws=True), seed=SEEDS, mode=st.sampled_from(MODES))
def test_one_copy_is_the_single_environment_bit_for_bit(cmdp, seed, mode):
    single, many = CMDPEnv(cmdp), CMDPVectorEnv(1, cmdp, autoreset_mode=mode)
    s, info = single.reset(seed=seed)
    states, infos = many.reset(seed=seed)
    rng = np.random.default_rng(seed)
    assert states.tolist() == [s]
    for _ in range(3 * cmdp.horizon):
        a = int(rng.integers(cmdp.actions))
        s, reward, _, truncated, info = single.step(a)
        states, rewards, terminated, cut, infos = many.step([a])
        assert (rewards[0], bool(terminated[0]), bool(cut[0])) == (reward, False, truncated)
        last = infos["final_info"] if truncated and mode is AutoresetMode.SAME_STEP else infos
        assert all(np.array_equal(last[name][0], info[name]) for name in info)
        if not truncated:
            assert states.tolist() == [s]
            continue
        first, begun = single.reset()
        if mode is AutoresetMode.SAME_STEP:
            assert infos["final_obs"].tolist() == [s]
        else:
            assert states.tolist() == [s]
            states, infos = many.reset() if mode is AutoresetMode.DISABLED else many.step([0])[::4]
        assert states.tolist() == [first]
        assert all(np.array_equal(infos[name][0], begun[name]) for name in begun)
        assert "cost" not in infos


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("m", "allowed"), [(1, None), (2, None), (1, [[True, True], [True, False], [True, True]])])
def test_many_copies_do_what_gymnasium_does_with_single_ones(mode, m, allowed):
    cmdp = fd.CMDP(
        CERTAIN.transitions[0], CERTAIN.rewards[0], CERTAIN.utilities[:m, 0], list(CERTAIN.alpha[:m]), 1, horizon=3,
        allowed=allowed,
    )  # fmt: skip
    ours = CMDPVectorEnv(4, cmdp, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: CMDPEnv(cmdp)] * 4, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    out_of_step = {"reset_mask": np.array([True, False, False, True])}
    assert data_equivalence(ours.reset(seed=1), theirs.reset(seed=1), exact=True)
    for k in range(40):
        if k == 1:  # so that copies end at different steps
            options = (copy.deepcopy(out_of_step), copy.deepcopy(out_of_step))
            assert data_equivalence(ours.reset(options=options[0]), theirs.reset(options=options[1]), exact=True)
        actions = np.where(ours._plant.s == 1, 0, rng.integers(0, 2, 4)) if allowed else rng.integers(0, 2, 4)
        one, other = ours.step(actions), theirs.step(actions)
        assert ("action_mask" in one[4]) == (allowed is not None and not (one[3].all() and "final_obs" not in one[4]))
        assert data_equivalence(one, other, exact=True), (one, other)
        if mode is AutoresetMode.DISABLED and one[3].any():
            options = ({"reset_mask": one[3].copy()}, {"reset_mask": one[3].copy()})
            assert data_equivalence(ours.reset(options=options[0]), theirs.reset(options=options[1]), exact=True)
    assert ours.metadata["autoreset_mode"] is mode


def test_make_vec_gives_the_compiled_one_and_says_how_it_resets():
    many = gymnasium.make_vec("flexdome/Inventory-v1", num_envs=3, autoreset_mode="SameStep")
    assert isinstance(many, CMDPVectorEnv)
    assert many.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert (many.observation_space.shape, many.action_space.shape) == ((3,), (3,))


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    def run(seed):
        many = CMDPVectorEnv(5, "bernoulli-v1")
        shown = [many.reset(seed=seed)[0]]
        shown += [np.concatenate(many.step([k % 5] * 5)[:2]) for k in range(20)]
        return np.concatenate(shown)

    assert np.array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4))


def test_a_copy_that_has_ended_must_be_reset_where_nothing_does_it():
    many = started(CMDPVectorEnv(2, CERTAIN, autoreset_mode="Disabled"))
    for _ in range(3):
        many.step([0, 0])
    with pytest.raises(ResetNeeded, match="copy 0"):
        many.step([0, 0])
    with pytest.raises(ResetNeeded, match="call reset first"):
        CMDPVectorEnv(2, CERTAIN).step([0, 0])


@pytest.mark.parametrize("id", ["paper-v1", "bernoulli-v1", "garnet-v1"])
def test_frequencies_are_the_probabilities_of_the_model(id):
    """N copies, one step from the start: counts of next states within six standard deviations."""
    N, cmdp = 20_000, fd.make_cmdp(id)
    many = CMDPVectorEnv(N, cmdp)
    first, _ = many.reset(seed=5)
    states, *_ = many.step(np.zeros(N, dtype=np.int64))
    dense = cmdp.to_dense()
    expected = (dense.transitions[0, first, 0]).mean(axis=0)
    spread = np.sqrt(expected * (1.0 - expected) / N)
    assert (np.abs(np.bincount(states, minlength=cmdp.states) / N - expected) <= 6.0 * spread + 1e-12).all()


# -- six values -----------------------------------------------------------------------------------------------------


def test_the_protocol_of_six_values():
    """reset gives (observation, info); step (observation, reward, cost, terminated, truncated, info)."""
    env, bare = SixTuple(CMDPEnv("river-v1")), CMDPEnv("river-v1")
    observation, info = env.reset(seed=4, options={})
    assert (observation, info) == bare.reset(seed=4)
    assert (env.observation_space, env.action_space) == (bare.observation_space, bare.action_space)
    for h in range(12):
        observation, reward, cost, terminated, truncated, info = env.step(h % 3)
        assert (observation, reward, terminated, truncated, info) == bare.step(h % 3)
        assert type(reward) is float
        assert type(cost) is float
        assert (type(terminated), type(truncated)) == (bool, bool)
        assert cost == info["cost"]
    assert truncated
    assert env.unwrapped is env.env
    env.close()


def test_of_several_costs_one_is_meant():
    two = started(SixTuple(CMDPEnv(CERTAIN), constraint=1))
    assert two.step(0)[2] == 1.0 - CERTAIN.utilities[1, 0, 1, 0]
    with pytest.raises(fd.ValidationError, match="has 2 entries; say which is meant"):
        started(SixTuple(CMDPEnv(CERTAIN))).step(0)
    with pytest.raises(fd.ValidationError, match="constraint is 2; it must be between 0 and 1"):
        started(SixTuple(CMDPEnv(CERTAIN), constraint=2)).step(0)
    with pytest.raises(fd.ValidationError, match="it must have 'cost'"):
        started(SixTuple(gymnasium.make("FrozenLake-v1"))).step(0)


def test_without_gymnasium_the_way_in_is_open_and_the_way_out_says_what_is_missing(monkeypatch):
    import flexdome.gym

    monkeypatch.setattr(flexdome.gym, "find_spec", lambda name: None)
    with pytest.raises(fd.FlexDOMEError, match=r"CMDPEnv needs gymnasium: pip install"):
        _ = flexdome.gym.CMDPEnv
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = flexdome.gym.Nothing
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'gymnasium' else find(name, *rest)\n"
        "from types import SimpleNamespace as N; import flexdome as fd\n"
        "table = {0: {0: [(1.0, 0, 1.0, False)]}}\n"
        "env = N(P=table, initial_state_distrib=[1.0], observation_space=N(n=1), action_space=N(n=1))\n"
        "print(fd.from_gymnasium(env, horizon=3, cost=[[0.5]], limit=2.0).states)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr


def test_a_forbidden_action_is_masked_and_refused():
    rng = np.random.default_rng(0)
    allowed = np.array([[True, False, True], [False, True, True]])
    cmdp = fd.CMDP(
        rng.dirichlet(np.ones(2), size=(2, 3)), rng.random((2, 3)), rng.random((1, 2, 3)), [0.1], 0, horizon=3,
        allowed=allowed,
    )  # fmt: skip
    env = CMDPEnv(cmdp)
    state, info = env.reset(seed=0)
    for h in range(3):
        assert info["action_mask"].tolist() == allowed[state].astype(int).tolist()
        assert env.action_space.sample(mask=info["action_mask"]) in np.flatnonzero(allowed[state])
        with pytest.raises(fd.ValidationError, match=rf"not allowed at step {h} in state {state}"):
            env.step(int(np.argmin(allowed[state])))
        state, _, _, ended, info = env.step(2)
    assert ended
    assert "action_mask" not in info
    many = CMDPVectorEnv(4, cmdp)
    states, info = many.reset(seed=0)
    assert (info["action_mask"] == allowed[states]).all()
    assert info["action_mask"].dtype == np.int8
    with pytest.raises(fd.ValidationError, match=r"actions\[0\] is 1; that action is not allowed at step 0"):
        many.step(np.ones(4, dtype=int))
    states, *_, info = many.step(np.full(4, 2))
    assert (info["action_mask"] == allowed[states]).all()
    assert info["_action_mask"].all()
