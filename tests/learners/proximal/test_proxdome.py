"""ProxDOME: against its slow twin, on problems solved by hand, in pieces, in files, and what it tells."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.cmdp.archive import read_archive, write_archive
from flexdome.kernels import blocks
from naive_proxdome import NaiveProxDOME, distance, seen
from runs import Observed, World, compiled_and_plain, problem_of, same_history, small_cmdp
from strategies import SEEDS, cmdps

CLOSE = 1e-9


def follow(learner: fd.ProxDOME, cmdp: fd.CMDP, episodes: int, seed: int = 0, **constants: float) -> float:
    """The largest difference between the learner and its twin over a run."""
    twin, world = NaiveProxDOME(learner.problem, **constants), World(cmdp, seed)
    worst = distance(learner, twin)
    for _ in range(episodes):
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)
        worst = max(worst, distance(learner, twin))
    return worst


def learned(learner: fd.ProxDOME) -> dict[str, Any]:
    state = {name: array.tobytes() for name, array in learner.state().items()}
    return {**state, "episode": learner.episode, "policy": learner.policy.tobytes()}


# -- the twin -------------------------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "one constraint": {},
    "two constraints": {"m": 2},
    "three constraints": {"m": 3},
    "five constraints": {"m": 5, "S": 3},
    "a hidden threshold": {"law": "hidden"},
    "normal thresholds": {"law": "normal"},
    "zero and one, a sample a step": {"law": "steps", "m": 2, "noise": "bernoulli"},
    "an initial distribution": {"initial": np.array([0.5, 0.0, 0.3, 0.2, 0.0]), "m": 2},
    "zero and one, an initial distribution": {"noise": "bernoulli", "initial": np.full(5, 0.2)},
    "a sparse stationary model": {"sparse": True, "stationary": True},
    "a stationary model, zero and one": {"stationary": True, "m": 2, "noise": "bernoulli", "law": "normal"},
    "a stationary model, an initial distribution": {"stationary": True, "initial": np.full(5, 0.2)},
    "a stationary model of one step": {"stationary": True, "H": 1},
    "a long horizon": {"S": 3, "A": 2, "H": 20},
    "one step": {"H": 1},
    "one state": {"S": 1},
    "one action": {"A": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_the_learner_follows_its_twin(case: str) -> None:
    options = CASES[case]
    cmdp = small_cmdp(3, **{"fraction": 1.02 if case != "one action" else 0.8, **options})
    learner = fd.ProxDOME(problem_of(cmdp, options.get("law", "known")))
    assert follow(learner, cmdp, 300) < CLOSE


@pytest.mark.parametrize("environment", ["multi-v1", "bernoulli-v1", "tight-v1", "grid-v1"])
def test_the_learner_follows_its_twin_on_the_families(environment: str) -> None:
    cmdp = fd.make_cmdp(environment, seed=1)
    assert follow(fd.ProxDOME(cmdp.problem()), cmdp, 120) < CLOSE


@pytest.mark.parametrize("stationary", [False, True])
def test_a_mask_of_actions_follows_the_twin(stationary: bool) -> None:
    cmdp = small_cmdp(3, m=2, fraction=0.6, noise="bernoulli", stationary=stationary)
    allowed = np.ones((cmdp.horizon, cmdp.states, cmdp.actions), dtype=bool)
    allowed[:, [0, 2], 0] = allowed[:, 3, 1:] = False
    masked = cmdp.problem().changed(allowed=allowed)
    learner = fd.ProxDOME(masked)
    assert follow(learner, cmdp, 250) < CLOSE
    assert (learner.policy[~allowed] == 0.0).all()
    assert (learner.visits[~allowed] == 0.0).all()
    assert learner.status().untried <= int((allowed & (learner.visits == 0.0)).sum())


def test_noisy_observations_follow_the_twin_and_a_careful_plan_is_mixed_in() -> None:
    cmdp = fd.make_cmdp("contexts-v1", seed=1, states=5, actions=3, spread=0.05)
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp, 3)
    twin, mixed = NaiveProxDOME(learner.problem), 0
    for _ in range(500):
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)
        assert distance(learner, twin) < CLOSE
        mixed += int(learner.own.has_kept[0] == 2)
    assert mixed > 20
    assert learner.own.pools[1, 1].mean() > 10.0


def test_means_are_shrunk_where_observations_are_noisy_and_nowhere_else() -> None:
    exact, noisy = (small_cmdp(3, noise=noise) for noise in ("none", "bernoulli"))
    for cmdp in (exact, noisy):
        learner = fd.ProxDOME(cmdp.problem())
        fd.simulate(learner, cmdp, episodes=400)
        W, core = learner.model.W, learner.model.core
        rows = np.flatnonzero(core.counts.n_visits)
        means, plain = core.work.base.reshape(-1, W)[rows, 1], core.counts.sum_d[0, rows] / core.counts.n_visits[rows]
        if cmdp is exact:
            assert (means == plain).all()
        else:
            assert means.std() < 0.97 * plain.std()


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "episodes"), [("paper-stochastic-v1", 3000), ("river-v1", 700)])
def test_the_learner_follows_its_twin_for_long(environment: str, episodes: int) -> None:
    cmdp = fd.make_cmdp(environment)  # the twin keeps all samples, at every step where steps are shared
    assert follow(fd.ProxDOME(cmdp.problem()), cmdp, episodes) < CLOSE


@pytest.mark.parametrize(
    ("bonus", "prior", "weight", "margin"), [(0.0, 1.0, 1.0, 1.0), (0.75, 0.3, 0.0, 0.0), (2.0, 0.0, 20.0, 3.0)]
)
def test_the_constants_follow_their_twin(bonus: float, prior: float, weight: float, margin: float) -> None:
    cmdp = small_cmdp(1, m=2, fraction=1.02)
    learner = fd.ProxDOME(cmdp.problem(), bonus_scale=bonus, prior_scale=prior, pool_weight=weight, margin_scale=margin)
    assert follow(learner, cmdp, 200, c_bonus=bonus, c_prior=prior, kappa=weight, c_margin=margin) < CLOSE


def test_every_way_a_plan_can_end_follows_the_twin() -> None:
    ends = set()
    for instance, m, seed, sizes in ((3, 2, 2, {}), (4, 3, 0, {}), (5, 2, 0, {"S": 4, "A": 2, "H": 3}), (3, 3, 1, {})):
        cmdp = small_cmdp(
            instance, m=m, fraction=0.9 if sizes else 1.02, noise="bernoulli" if sizes else "none", **sizes
        )
        learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp, seed)
        twin = NaiveProxDOME(learner.problem)
        for _ in range(125 if sizes else 60):
            status = learner.status()
            played = "the plan" if status.share == 1 else "a mixture" if status.share > 0 else "the policy kept"
            ends.add((played, bool(status.safe.all()), status.solved))
            episode = seen(world, learner)
            learner.observe(episode)
            twin.observe(episode)
            assert distance(learner, twin) < CLOSE
    assert {("the plan", True, True), ("the plan", False, True), ("a mixture", True, True)} <= ends
    assert not {end for end in ends if end[0] != "the plan" and not end[1]}


@pytest.mark.parametrize(("environment", "seed"), [("band-v1", 9), ("grid-v1", 4)])
def test_at_a_jump_of_the_multipliers_the_plan_beyond_it_is_mixed_in(environment: str, seed: int) -> None:
    sizes = {"states": 4, "actions": 3, "horizon": 3} if environment == "band-v1" else {}
    cmdp = fd.make_cmdp(environment, seed=seed, **sizes)
    learner, world, jumps = fd.ProxDOME(cmdp.problem()), World(cmdp, seed), 0
    twin = NaiveProxDOME(learner.problem)
    for _ in range(180):
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)
        assert distance(learner, twin) < CLOSE
        status = learner.status()
        jumps += status.share < 1.0 and not status.solved
        assert status.share == 1.0 or status.safe.all()
    assert jumps > 0


def test_where_mixtures_are_played_for_long_the_multipliers_begin_again() -> None:
    cmdp = fd.make_cmdp("dosing-v1", seed=10, bins=6, horizon=8)
    learner, world, began = fd.ProxDOME(cmdp.problem()), World(cmdp, 10), []
    twin = NaiveProxDOME(learner.problem)
    for t in range(60):
        share, since = learner.own.report.share[0], learner.own.since[0]
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)
        assert distance(learner, twin) < CLOSE
        assert learner.own.since[0] == twin.since
        if share < 1.0 and learner.own.since[0] != since:
            began.append(t)
            assert t + 2 >= 2 * since
    assert began == [38]


def test_utilities_that_oppose_each_other_do_not_hold_up_the_multipliers() -> None:
    cmdp = fd.make_cmdp("band-v1", seed=1)  # d_2 = 1 - d_1, so that J is all but singular
    learner = fd.ProxDOME(cmdp.problem())
    run = fd.simulate(learner, cmdp, 4_000, seed=1)
    assert run.diagnostics["solved"][2_000:].mean() > 0.99
    assert run.diagnostics["trials"][2_000:].mean() < 3.0
    assert learner.multipliers == pytest.approx(fd.solve(cmdp).multipliers, abs=0.3)


@pytest.mark.parametrize(("of_reward", "of_utility"), [(1.0, 2.0**-7), (2.0**-3, 1.0), (2.0**-2, 2.0**-5)])
def test_other_units_change_nothing_but_the_units(of_reward: float, of_utility: float) -> None:
    base = small_cmdp(3, m=2, fraction=1.02, noise="none")
    scaled = fd.CMDP(
        base.transitions, of_reward * base.rewards, of_utility * base.utilities, of_utility * base.alpha, base.initial
    )
    one = fd.ProxDOME(base.problem(), episodes=400)
    other = fd.ProxDOME(scaled.problem(), episodes=400, reward_scale=of_reward)
    first, second = fd.simulate(one, base, seed=1), fd.simulate(other, scaled, seed=1)
    assert one.policy.tobytes() == other.policy.tobytes()
    assert (second.multipliers * (of_utility / of_reward)).tobytes() == first.multipliers.tobytes()
    assert (second.violation / of_utility).tobytes() == pytest.approx(first.violation.tobytes())
    assert (second.diagnostics["margin"] / of_utility).tobytes() == first.diagnostics["margin"].tobytes()


def test_a_log_of_a_safe_controller_keeps_the_learner_safe() -> None:
    cmdp = fd.make_cmdp("independent-v1", seed=3, states=5, actions=3)
    careful = fd.safe_policy(cmdp, 0.8 * fd.slater_gap(cmdp)).policy
    for logged in (300, 1000):
        learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
        learner.preload([world.play(careful) for _ in range(logged)])
        assert learner.status().safe.all()
        history = fd.simulate(learner, cmdp, episodes=300)
        assert history.strong_violation[-1] == 0.0


def logged_of(cmdp: fd.CMDP, policy: np.ndarray, episodes: int, seed: int) -> fd.ProxDOME:
    learner = fd.ProxDOME(cmdp.problem())
    learner.preload(fd.sample_episodes(cmdp, policy, episodes, seed=seed))
    return learner


def test_a_log_of_ones_own_controller_is_not_followed_by_unsafe_policies() -> None:
    rng = np.random.default_rng(7)
    p, r, d = rng.dirichlet(np.full(6, 0.5), (5, 6, 3)), rng.random((5, 6, 3)), rng.random((2, 5, 6, 3))
    most = fd.slater_gap(fd.CMDP(p, r, d, [0.0, 0.0], 0))
    cmdp = fd.CMDP(p, r, d, [0.9 * most, 0.9 * most], 0, noise="bernoulli")
    controller = fd.safe_policy(cmdp, 0.3 * fd.slater_gap(cmdp)).policy
    shown = []
    for seed in (51, 53, 54):  # the optimistic plan was played before, short by a third
        learner = logged_of(cmdp, controller, 1000, seed)
        history = fd.simulate(learner, cmdp, episodes=80, seed=seed)
        assert history.strong_violation[-1] == 0.0
        shown.append(history.diagnostics["safe"].mean())
    assert min(shown) < 0.5


def test_after_a_log_nothing_is_expected_of_what_was_never_tried() -> None:
    p = np.zeros((3, 3, 2, 3))
    p[..., 0] = 1.0
    d = np.full((1, 3, 3, 2), 0.9)
    d[0, 0, 0, 1] = 0.0  # never tried by the controller, and it pays
    r = np.zeros((3, 3, 2))
    r[..., 1] = 1.0
    cmdp = fd.CMDP(p, r, d, [2.6], 0)
    first = np.zeros((3, 3, 2))
    first[..., 0] = 1.0
    learner = logged_of(cmdp, first, 500, 0)
    for _ in range(30):
        status = learner.status()
        assert status.safe.all()
        assert learner.policy[0, 0, 1] * status.margin.size < 0.05
        assert fd.evaluate(cmdp, learner.policy).utilities[0] >= 2.6
        learner.observe(fd.sample_episodes(cmdp, learner.policy, 1, seed=learner.episode)[0])


@pytest.mark.parametrize("episodes", [3, 15])
@pytest.mark.parametrize(
    "options",
    [{}, {"m": 2, "noise": "bernoulli"}, {"m": 2, "stationary": True, "noise": "bernoulli"}, {"stationary": True}],
)
def test_what_is_played_after_a_log_follows_the_twin(options: dict[str, Any], episodes: int) -> None:
    cmdp = small_cmdp(5, fraction=0.9, **options)
    controller = fd.safe_policy(cmdp, 0.3 * fd.slater_gap(cmdp)).policy
    for policy in (controller, np.full(controller.shape, 1 / 3)):
        learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp, 1)
        twin, log = NaiveProxDOME(learner.problem), [world.play(policy) for _ in range(episodes)]
        learner.preload(log)
        twin.preload(log)
        for _ in range(12 * episodes):
            assert distance(learner, twin) < CLOSE
            episode = seen(world, learner)
            learner.observe(episode)
            twin.observe(episode)


def test_a_short_log_does_not_hold_the_learner_for_ever() -> None:
    cmdp = fd.make_cmdp("independent-v1", seed=900)
    controller = fd.safe_policy(cmdp, 0.3 * fd.slater_gap(cmdp)).policy
    learner = logged_of(cmdp, controller, 20, 77)  # what was tried has next to no slack
    history = fd.simulate(learner, cmdp, episodes=4_000, seed=5)
    assert history.diagnostics["safe"][:200].mean() < 0.05
    assert history.diagnostics["safe"][-1_000:].mean() == 1.0  # of 20,000 none were, where a log counts for ever


def test_thresholds_that_no_policy_meets_are_said_to_be_so() -> None:
    base = small_cmdp(2, m=2)
    best = fd.baselines(base).safest[0][1].utilities[0]
    cmdp = fd.CMDP(base.transitions, base.rewards, base.utilities, [best, 0.0], base.initial)
    problem = cmdp.problem(slater_gap=0.1)
    problem = fd.Problem(
        states=5, actions=3, horizon=4, initial=0, thresholds=[min(best + 0.5, 4.0), 0.0], slater_gap=0.1
    )
    learner, world = fd.ProxDOME(problem), World(cmdp)
    for _ in range(1500):
        learner.observe(seen(world, learner))
    status = learner.status()
    assert status.infeasible
    assert "no policy meets these thresholds, as far as the data show: best" in str(status)


@settings(max_examples=25)
@given(cmdp=cmdps(laws=True, max_constraints=3), seed=SEEDS, hide=st.booleans())
def test_any_cmdp_follows_its_twin(cmdp: fd.CMDP, seed: int, hide: bool) -> None:
    learner = fd.ProxDOME(cmdp.problem(hide=("thresholds",) if hide else ()))
    assert follow(learner, cmdp, 40, seed) < CLOSE


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_rounding_does_not_decide_between_equal_trials(mean: float, std: float) -> None:
    p, r = np.ones((2, 1, 2, 1)), np.array([[[1.0, 1.0]], [[1.0, 0.0]]])
    d = np.array([[[[0.25, 0.0]], [[0.25, 0.0]]], [[[0.25, 1.0]], [[1.0, 1.0]]], [[[1.0, 1.0]], [[1.0, 1.0]]]])
    cmdp = fd.CMDP(p, r, d, [0.0, 0.0, fd.Threshold.normal(mean, std)], 0)
    assert follow(fd.ProxDOME(cmdp.problem()), cmdp, 40, 524286) < CLOSE


def test_logged_data_and_changed_thresholds_follow_the_twin() -> None:
    cmdp = small_cmdp(2, law="steps", m=2)
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp, 1)
    twin = NaiveProxDOME(learner.problem)
    log = [world.play(np.full((4, 5, 3), 1 / 3)) for _ in range(20)]
    learner.preload(log)
    twin.preload(log)
    assert distance(learner, twin) < CLOSE
    for t in range(60):
        if t == 30:
            learner.set_thresholds([0.9, math.nan])
            twin.known, twin.next = np.array([0.9, math.nan]), 0
            twin.plan(np.zeros(twin.N.shape, dtype=bool))
            assert distance(learner, twin) < CLOSE
        episode = seen(world, learner)
        learner.observe(episode)
        twin.observe(episode)
        assert distance(learner, twin) < CLOSE


def test_a_log_makes_the_first_episode_safe() -> None:
    cmdp = fd.make_cmdp("independent-v1", seed=100, states=5, actions=3)
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
    log = [world.play(np.full((5, 5, 3), 1 / 3)) for _ in range(3000)]
    learner.preload(log)
    status = learner.status()
    assert status.safe.all()
    assert status.episode == 1
    assert (status.margin >= 1.3 * np.sqrt(np.log(3002.0)) * status.errors).all()
    assert fd.evaluate(cmdp, learner.policy).utilities[0] >= cmdp.alpha[0]
    before = learned(learner)
    learner.preload([])
    assert learned(learner) == before


def test_the_learner_is_the_same_with_compilation_off(tmp_path: Path) -> None:
    code = """
        import sys, numpy as np, flexdome as fd
        from runs import World, small_cmdp
        cmdp = small_cmdp(m=2, law="steps", S=3, A=2, H=3, noise="bernoulli")
        learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
        for t in range(25):
            learner.observe(world.play(np.full((3, 3, 2), 0.5)))
        history = fd.simulate(learner, cmdp, episodes=15)
        np.save(sys.argv[1], np.concatenate([learner.policy.ravel(), learner.multipliers, history.reward_gap]))
    """
    compiled, plain = compiled_and_plain(code, tmp_path)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=CLOSE)


# -- the vector loops -----------------------------------------------------------------------------------


@numba.njit
def row_means(cell, count, start, n, inverse, values, later, base, row, W, out):
    blocks.row_means(cell, count, start, n, inverse, values, later, base, row, W, out)


@numba.njit
def mix_rows(values, cell, q, pi, row, C, A, W):
    blocks.mix_rows(values, cell, q, pi, row, C, A, W)


@settings(max_examples=60)
@given(n=st.integers(0, 23), width=st.integers(1, 3), later=st.integers(0, 3), seed=SEEDS)
def test_the_means_of_a_row_have_the_bits_of_their_plain_twin(n: int, width: int, later: int, seed: int) -> None:
    W, cells, rows = 4 * width, 9, 6
    rng = np.random.default_rng(seed)
    start = 4 * int(rng.integers(0, 4))
    size = start + -(-n // 4) * 4
    cell, count = np.zeros(size + 4, dtype=np.int32), np.zeros(size + 4)
    cell[start : start + n], count[start : start + n] = rng.integers(0, cells, n), rng.integers(1, 50, n)
    values, base, fast = rng.normal(size=(cells + later) * W), rng.normal(size=rows * W), rng.normal(size=rows * W)
    plain = fast.copy()
    row_means(cell, count, start, n, 0.07, values, later, base, 2, W, fast)
    blocks.row_means_plain(cell, count, start, n, 0.07, values, later, base, 2, W, plain)
    assert fast.tobytes() == plain.tobytes()


@pytest.mark.parametrize("W", [4, 8])
@pytest.mark.parametrize("A", [1, 2, 5])
def test_the_mixture_of_rows_has_the_bits_of_its_plain_twin(W: int, A: int) -> None:
    rng = np.random.default_rng([W, A])
    C, fast, q, pi = 3, rng.normal(size=5 * W), rng.normal(size=A * 3 * W), rng.random(A * 3)
    plain = fast.copy()
    mix_rows(fast, 3, q, pi, 1, C, A, W)
    blocks.mix_rows_plain(plain, 3, q, pi, 1, C, A, W)
    assert fast.tobytes() == plain.tobytes()


# -- one run, whatever way it is run --------------------------------------------------------------------


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("law", ["known", "normal", "steps"])
def test_observe_is_simulate_bit_for_bit(law: str, stationary: bool) -> None:
    cmdp = small_cmdp(4, m=2, law=law, noise="bernoulli", fraction=1.02, stationary=stationary)
    fast, slow = fd.ProxDOME(cmdp.problem(), episodes=200), fd.ProxDOME(cmdp.problem(), episodes=200)
    history, other = fd.simulate(fast, cmdp, seed=3), fd.simulate(Observed(slow), cmdp, seed=3)
    assert learned(fast) == learned(slow)
    np.testing.assert_allclose(history.reward_gap, other.reward_gap, atol=1e-12)
    assert history.multipliers.tobytes() == other.multipliers.tobytes()


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_a_run_cut_anywhere_is_the_run(cuts: list[int]) -> None:
    cmdp = small_cmdp(4, law="steps", fraction=1.02)
    whole, parts = (fd.ProxDOME(cmdp.problem(), episodes=sum(cuts)) for _ in range(2))
    history = fd.simulate(whole, cmdp, seed=1)
    pieces = [fd.simulate(parts, cmdp, episodes=n, seed=1) for n in cuts]
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = joined + piece
    assert same_history(history, joined)
    assert learned(whole) == learned(parts)


@pytest.mark.parametrize("stationary", [False, True])
def test_the_pool_of_successors_grows_without_a_trace(stationary: bool) -> None:
    cmdp = fd.make_cmdp("garnet-v1", states=200, actions=3, horizon=6, successors=20, stationary=stationary)
    whole, parts = (fd.ProxDOME(cmdp.problem(slater_gap=0.5), episodes=600) for _ in range(2))
    fd.simulate(whole, cmdp, evaluate_every=300)
    for _ in range(60):
        fd.simulate(parts, cmdp, episodes=10, evaluate_every=300)
    assert whole.model.core.counts.pool_cell.size > 1024
    assert learned(whole) == learned(parts)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("law", ["known", "hidden", "steps"])
def test_a_saved_learner_continues_bit_for_bit(law: str, stationary: bool, tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2, law=law, noise="bernoulli", fraction=1.02, stationary=stationary)
    learner = fd.ProxDOME(problem_of(cmdp, law), episodes=300, bonus_scale=0.4, margin_scale=0.9)
    world = World(cmdp, 2)
    learner.preload([world.play(np.full((4, 5, 3), 1 / 3)) for _ in range(7)])
    for k in range(4):
        fd.simulate(learner, cmdp, episodes=37, seed=1)
        if k == 1:
            learner.set_thresholds([0.8, 1.1])
        learner.save(tmp_path / "learner")
        loaded = fd.load_learner(tmp_path / "learner")
        assert isinstance(loaded, fd.ProxDOME)
        assert learned(loaded) == learned(learner)
        one, other = (fd.simulate(x, cmdp, episodes=40, seed=1) for x in (learner, loaded))
        assert same_history(one, other)
        assert learned(loaded) == learned(learner)
        assert str(loaded.status()) == str(learner.status())


def test_a_preloaded_learner_continues_bit_for_bit_before_its_first_episode(tmp_path: Path) -> None:
    cmdp = small_cmdp(5)
    learner = fd.ProxDOME(cmdp.problem())
    learner.preload([World(cmdp, 2).play(np.full((4, 5, 3), 1 / 3)) for _ in range(7)])
    learner.save(tmp_path / "learner")
    loaded = fd.load_learner(tmp_path / "learner")
    for x in (learner, loaded):
        fd.simulate(x, cmdp, episodes=20)
    assert learned(loaded) == learned(learner)


def test_a_file_of_version_3_loads(tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2)
    learner, path = fd.ProxDOME(cmdp.problem()), tmp_path / "learner"
    fd.simulate(learner, cmdp, episodes=50)
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    new = ("lucky", "doubts", "luck", "shared", "kept", "has_kept", "share", "report", "pools")
    old = {name: a for name, a in arrays.items() if not name.startswith("state.scale_") and name[6:] not in new}
    numbers = learner.own.report.numbers
    old["state.told"] = np.concatenate([numbers[:11], [1.0], numbers[11:14]])  # with the heat
    old["state.heat"] = np.array([4.0])
    del header["options"]["reward_scale"]
    write_archive(path, header, old)
    loaded = fd.load_learner(path)
    assert isinstance(loaded, fd.ProxDOME)
    assert (loaded.policy == learner.policy).all()
    assert (loaded.status().utilities == learner.status().utilities).all()
    fd.simulate(loaded, cmdp, episodes=50)


def test_a_file_of_version_4_loads(tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2, noise="bernoulli")
    learner, path = fd.ProxDOME(cmdp.problem()), tmp_path / "learner"
    fd.simulate(learner, cmdp, episodes=50)
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    write_archive(path, header, {name: a for name, a in arrays.items() if name != "state.pools"})
    loaded = fd.load_learner(path)
    assert isinstance(loaded, fd.ProxDOME)
    assert (loaded.policy == learner.policy).all()
    fd.simulate(loaded, cmdp, episodes=50)
    assert loaded.own.pools[1].max() > 0.0  # the next plan measured the noise


def test_a_file_of_version_6_loads(tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2, noise="bernoulli")
    learner, path = fd.ProxDOME(cmdp.problem()), tmp_path / "learner"
    world = World(cmdp, 1)
    learner.preload(seen(world, learner) for _ in range(20))
    fd.simulate(learner, cmdp, episodes=50)
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    write_archive(path, header, {name: a for name, a in arrays.items() if name != "state.since"})
    loaded = fd.load_learner(path)
    assert isinstance(loaded, fd.ProxDOME)
    assert loaded.own.since[0] == 71  # as if mixtures began now
    one, other = (fd.simulate(each, cmdp, episodes=50) for each in (learner, loaded))
    assert (one.reward_gap == other.reward_gap).all()


DAMAGE: dict[str, tuple[str, Any, str]] = {
    "a negative noise": ("pools", -1.0, r"state.pools\[0, 0, 0\] must not be below 0"),
    "a missing array": ("s2", None, "state.s2 is missing"),
    "a negative error": ("s2", -1.0, "state.s2"),
    "a NaN": ("values", math.nan, "state.values"),
    "a negative variance": ("m2_r", -1.0, "state.m2_r"),
    "no pooled variances": ("pooled", None, "state.pooled is missing"),
    "a negative pooled variance": ("pooled", -1.0, r"state.pooled\[0, 0\] is -1.0"),
    "a pooled variance that is NaN": ("pooled", math.nan, "state.pooled"),
    "units without a width": ("scale_width", 0.0, "state.scale_width"),
    "a share above a half": ("share", 0.75, "state.share"),
    "half a policy kept": ("has_kept", 0.5, "state.has_kept"),
    "no policy kept": ("kept", None, "state.kept is missing"),
    "bad luck": ("luck", -1.0, "state.luck"),
    "half a visit": ("seen", 0.5, "state.seen"),
    "half an episode": ("clock", 0.5, "state.clock"),
    "an unknown array": ("surprise", 1.0, "surprise"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_refused(case: str, tmp_path: Path) -> None:
    name, value, message = DAMAGE[case]
    cmdp = small_cmdp(5)
    learner = fd.ProxDOME(cmdp.problem())
    fd.simulate(learner, cmdp, episodes=20)
    path = tmp_path / "learner"
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    if value is None:
        del arrays[f"state.{name}"]
    elif f"state.{name}" in arrays:
        arrays[f"state.{name}"] = np.full(arrays[f"state.{name}"].shape, value)
    else:
        arrays[f"state.{name}"] = np.array(value)
    write_archive(path, header, arrays)
    with pytest.raises(fd.FileFormatError, match=message):
        fd.load_learner(path)


# -- what it does ---------------------------------------------------------------------------------------


def three_states() -> fd.CMDP:
    """From state 0 action 0 leads to reward 1, action 1 to utility 1; with alpha = 0.4 the best is 0.6, lam* = 1."""
    p = np.zeros((2, 3, 2, 3))
    p[0, 0, 0, 1] = p[0, 0, 1, 2] = 1.0
    p[0, 1:, :, 0] = 1.0
    p[1, :, :, 0] = 1.0
    r, d = np.zeros((2, 3, 2)), np.zeros((1, 2, 3, 2))
    r[1, 1], d[0, 1, 2] = 1.0, 1.0
    return fd.CMDP(p, r, d, [0.4], 0)


def test_the_three_state_problem_solved_by_hand_is_learned() -> None:
    cmdp = three_states()
    learner = fd.ProxDOME(cmdp.problem(), episodes=20_000)
    history = fd.simulate(learner, cmdp)
    assert learner.policy[0, 0].tolist() == pytest.approx([0.6, 0.4], abs=0.01)
    assert learner.multipliers[0] == pytest.approx(1.0, abs=0.02)
    assert 0 <= history.reward_gap[-1] < 0.01
    assert history.strong_violation[-1] - history.strong_violation[1999] == 0.0


@pytest.mark.parametrize("environment", ["paper-v1", "conflict-v1", "multi-v1", "river-v1"])
def test_violation_stops_and_the_gap_closes(environment: str) -> None:
    cmdp = fd.make_cmdp(environment, seed=5)
    history = fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=20_000), cmdp, seed=5)
    assert history.strong_violation[-1] - history.strong_violation[1999] < 0.5
    assert history.reward_gap[-1000:].mean() < 0.02 * cmdp.horizon


def test_where_nothing_binds_the_multipliers_are_zero_and_the_optimum_is_found() -> None:
    cmdp = small_cmdp(1, fraction=0.05)
    learner = fd.ProxDOME(cmdp.problem(), episodes=5000)
    history = fd.simulate(learner, cmdp)
    assert history.multipliers[0, -1000:].max() == 0.0
    assert history.reward_gap[-500:].mean() < 0.05


def test_a_state_never_visited_keeps_the_uniform_policy() -> None:
    cmdp = fd.make_cmdp("garnet-v1", states=200, actions=3, horizon=4, successors=2)
    learner = fd.ProxDOME(cmdp.problem(slater_gap=0.5), episodes=50)
    fd.simulate(learner, cmdp, evaluate_every=50)
    never = learner.visits.sum(axis=-1) == 0
    assert never.any()
    assert (learner.policy[never] == 1 / 3).all()


def test_nothing_is_written_beyond_the_visited_cells() -> None:
    cmdp = fd.make_cmdp("garnet-v1", states=3000, actions=3, horizon=4, successors=3)
    learner = fd.ProxDOME(cmdp.problem(slater_gap=0.5), episodes=1000)
    fd.simulate(learner, cmdp, episodes=200, evaluate_every=1000)
    core, own, C, W = learner.model.core, learner.own, learner.model.C, learner.model.W
    for h, n in enumerate(core.counts.n_cells):
        end = -(-n // 8) * 8
        for array in (own.m2_r, own.m2_d, own.s2, own.x, core.policy.pi, core.policy.logits):
            assert not array.reshape(-1, 4, 3, C)[:, h, :, end:].any()
        assert not own.q.reshape(4, 3, C, W)[h, :, end:].any()
        assert not own.mass.reshape(4, C)[h, end:].any()


@pytest.mark.parametrize("sample", [1e300, -1e300, 1e-300])
def test_a_threshold_sample_may_be_any_finite_number(sample: float) -> None:
    cmdp = small_cmdp(law="steps")
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
    for k in range(6):
        e = world.play(learner.policy)
        samples = np.full((1, 4), sample if k == 3 else 1.0)
        learner.observe(fd.Episode(e.states, e.actions, e.rewards, e.utilities, samples))
        assert np.isfinite(learner.policy).all()
        assert np.isfinite(learner.multipliers).all()
        assert np.isfinite(learner.own.report.numbers).all()


# -- what it tells --------------------------------------------------------------------------------------


def test_the_plug_in_utilities_are_those_of_the_policy_on_the_empirical_model() -> None:
    cmdp = small_cmdp(3, m=2)
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
    episodes = []
    for _ in range(2000):  # every cell visited
        episodes.append(world.play(np.full((4, 5, 3), 1 / 3)))
    learner.preload(episodes)
    learner.observe(seen(world, learner))
    twin = NaiveProxDOME(learner.problem)
    for episode in episodes:
        twin.record(episode)
    visited = twin.N.sum(axis=-1) > 0
    assert (twin.N[visited] > 0).all()
    V = np.zeros((2, 5))
    for h in reversed(range(4)):
        V = np.einsum("sa,isa->is", learner.policy[h], twin.d[:, h] + np.einsum("sat,it->isa", twin.p[h], V))
    assert learner.beliefs().utilities == pytest.approx(V[:, 0], abs=0.01)


def test_diagnostics_tell_every_plan() -> None:
    cmdp = small_cmdp(4, m=2, law="steps", fraction=1.02)
    learner, twin = (fd.ProxDOME(cmdp.problem(), episodes=50) for _ in range(2))
    history = fd.simulate(learner, cmdp)
    told = history.diagnostics
    assert set(told) == {
        "value", "utilities", "errors", "margin", "thresholds", "trials", "temperature", "safe", "untried", "solved",
        "ceiling", "first", "share", "weight",
    }  # fmt: skip
    fd.simulate(twin, cmdp, episodes=29)
    status = twin.status()
    assert status.episode == 30
    assert (told["utilities"][:, 29] == status.utilities).all()
    assert (told["errors"][:, 29] == status.errors).all()
    assert (told["margin"][:, 29] == status.margin).all()
    assert (told["thresholds"][:, 29] == status.thresholds).all()
    assert (history.multipliers[:, 29] == status.multipliers).all()
    assert told["trials"][29] == status.trials
    assert told["share"][29] == status.share
    assert told["ceiling"][29] == status.ceiling
    assert told["first"][29] == status.first_tries
    assert told["safe"][29] == status.accepted.all()
    visits = twin.visits
    assert told["untried"][29] == status.untried == (visits[visits.sum(axis=-1) > 0] == 0).sum()
    assert (told["margin"] > 0).all()


def test_the_status_explains_why_a_policy_was_accepted() -> None:
    cmdp = fd.make_cmdp("paper-v1")
    learner = fd.ProxDOME(cmdp.problem(), episodes=3000)
    fd.simulate(learner, cmdp)
    status = learner.status()
    assert status.safe.all()
    assert "episode 3001: shown safe" in str(status)
    assert "the constraint binds" in str(status)
    assert abs(status.slack[0]) <= 0.05 * status.margin[0]


@pytest.mark.parametrize("options", [{"caution": 0.0}, {"caution": 0.3}, {"margin_scale": 0.2}])
def test_less_than_three_standard_errors_are_not_called_shown_safe(options: dict[str, float]) -> None:
    cmdp = fd.make_cmdp("paper-v1")
    learner = fd.ProxDOME(cmdp.problem(), **options)
    history = fd.simulate(learner, cmdp, episodes=2_000)
    status = learner.status()
    assert history.diagnostics["safe"][-1] == 1.0  # what the learner asks for with so little caution
    assert status.accepted.all()
    assert not status.safe.any()
    assert status.standard_errors[0] == (status.utilities - status.thresholds)[0] / status.errors[0] < 2.5
    errors = max(status.standard_errors[0], 0.0)  # within the tolerance
    assert f"estimated to meet its thresholds, by {errors:.2g} standard errors; not shown safe" in str(status)
    assert "certify" not in str(status)
    careful = fd.ProxDOME(cmdp.problem())
    fd.simulate(careful, cmdp, episodes=2_000)
    status = careful.status()
    assert status.safe.all()
    assert status.standard_errors[0] > 2.85
    assert f"by {status.standard_errors[0]:.2g} estimated standard errors; no certificate" in str(status)


def test_a_policy_far_above_its_threshold_is_shown_safe_without_a_margin() -> None:
    cmdp = fd.make_cmdp("paper-v1")
    easy = fd.CMDP(cmdp.transitions, cmdp.rewards, cmdp.rewards[None], [0.1], cmdp.initial)
    learner = fd.ProxDOME(easy.problem(), caution=0.0)
    fd.simulate(learner, easy, episodes=500)
    assert (learner.status().standard_errors > 3.0).all()
    assert learner.status().safe.all()


def doses(seed: int = 0, episodes: int = 600) -> tuple[fd.CMDP, list[fd.Episode]]:
    """Two utilities that oppose each other, d_2 = 1 - d_1, and a log of the uniform policy."""
    rng = np.random.default_rng(seed)
    p, d = rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3))
    cmdp = fd.CMDP(p, rng.random((4, 3)), [d, 1.0 - d], [0.0, 0.0], 0, horizon=5)
    return cmdp, fd.sample_episodes(cmdp, np.full((5, 4, 3), 1 / 3), episodes, seed=seed)


@pytest.mark.parametrize("short", [0.2, 0.5])
def test_thresholds_that_conflict_are_said_to_after_a_log(short: float) -> None:
    cmdp, log = doses()
    alone = [fd.baselines(cmdp).safest[i][1].utilities[i] for i in range(2)]
    most = fd.slater_gap(cmdp)
    assert most < min(alone) - 0.5
    for over, infeasible in ((short, True), (-short, False)):
        problem = fd.Problem(4, 3, 5, 0, [most + over, most + over], stationary=True)
        learner = fd.ProxDOME(problem)
        learner.preload(log)
        status = learner.status()
        assert status.infeasible == infeasible
        if infeasible:
            assert status.nearest is not None
            assert status.nearest.utilities == pytest.approx([most, most], abs=4.0 * status.nearest.errors.max())
            assert status.nearest.constraints == (0, 1)
            assert "as far as the data show: together at best" in str(status)
            assert "constraints 0 and 1 conflict" in str(status)


@pytest.mark.parametrize("over", [0.1, -0.1])
def test_one_threshold_that_cannot_be_met_is_said_to_be_so_from_scratch(over: float) -> None:
    cmdp, _ = doses()
    best = float(fd.baselines(cmdp).safest[0][1].utilities[0])
    problem = fd.Problem(4, 3, 5, 0, [best + over, 0.0], stationary=True)
    learner, said = fd.ProxDOME(problem), []
    for k in range(600):
        learner.observe(fd.sample_episodes(cmdp, learner.policy, 1, seed=k)[0])
        if k % 20 == 0:
            said.append(learner.status().infeasible)
    assert not said[0]  # much is untried
    assert said[-1] == (over > 0.0)
    if over > 0.0:
        assert f"the data show: best {learner.status().nearest.utilities[0]:.4g} ± " in str(learner.status())
    else:
        assert not any(said)


def test_a_large_model_is_not_planned_on_for_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flexdome.learners.proximal.nearest.MOST", 10)
    cmdp, _ = doses()
    learner = fd.ProxDOME(fd.Problem(4, 3, 5, 0, [5.0, 0.0], stationary=True))
    for episode in fd.sample_episodes(cmdp, learner.policy, 50):
        learner.observe(episode)
    status = learner.status()
    assert status.nearest is None
    assert status.infeasible  # by far, so that multipliers at their ceiling show it
    assert f"best {status.utilities[0]:.4g} ± " in str(status)


def test_the_status_of_a_limit_says_that_it_is_exceeded() -> None:
    _, log = doses()
    told = [fd.Quantity("dose", 0.0, 3.0, "mg", limit=0.1), fd.Quantity("flow", 0.0, 2.0, "ml", threshold=0.1)]
    learner = fd.ProxDOME(fd.Problem(4, 3, 5, 0, subject_to=told, stationary=True))
    scale = np.array([[3.0], [2.0]])
    costs = [np.stack([1.0 - e.utilities[0], e.utilities[1]]) * scale for e in log]
    learner.preload([fd.Episode(e.states, e.actions, e.rewards, c) for e, c in zip(log, costs, strict=True)])
    text = str(learner.status())
    assert " is above limit 0.1 mg" in text
    assert "is below limit" not in text
    assert " ml meets threshold 0.1 ml" in text


def test_the_status_counts_in_plain_words() -> None:
    cmdp = fd.make_cmdp("paper-v1")
    learner = fd.ProxDOME(cmdp.problem())
    fd.simulate(learner, cmdp, episodes=1)
    assert "  1 episode played, whose" in str(learner.status())
    fd.simulate(learner, cmdp, episodes=2_000)
    alone = dataclasses.replace(learner.status(), share=0.0)
    assert "nothing can be added yet of a more hopeful plan" in str(alone)
    assert "with 0 of" not in str(alone)


def test_the_status_says_when_no_policy_can_be_shown_safe_yet() -> None:
    cmdp = fd.make_cmdp("tight-v1", gap=0.001)
    learner = fd.ProxDOME(cmdp.problem(), episodes=3000)
    history = fd.simulate(learner, cmdp)
    status = learner.status()
    assert not status.safe[0]
    assert "no policy can be shown safe yet" in str(status)
    assert "not shown safe" in str(status)
    assert history.diagnostics["safe"][-1] == 0.0


def test_beliefs_tell_widths_and_visits() -> None:
    cmdp = small_cmdp(3)
    learner = fd.ProxDOME(cmdp.problem(), episodes=100)
    fd.simulate(learner, cmdp)
    told = learner.beliefs()
    assert told.visits.sum() == 100 * 4
    assert (told.widths[told.visits > 0] > 0).all()
    rem = np.broadcast_to(np.arange(4, 0, -1.0)[:, None, None], told.visits.shape)
    never = told.visits == 0
    most = 1 + learner.multipliers @ learner.own.scales.top
    assert told.widths[never] == pytest.approx(most * rem[never])
    assert told.utilities == pytest.approx(fd.evaluate(cmdp, learner.policy).utilities, abs=1.0)


# -- shared steps ---------------------------------------------------------------------------------------


def test_where_the_model_is_stationary_one_visit_counts_at_every_step() -> None:
    cmdp = small_cmdp(2, stationary=True)
    learner, world = fd.ProxDOME(cmdp.problem()), World(cmdp)
    episode = seen(world, learner)
    learner.observe(episode)
    data = learner.model.by_state(learner.model.core.counts.n_visits, 0.0)
    expected = np.zeros(data.shape)
    for h in range(4):
        steps = slice(None) if h < 3 else slice(3, None)  # nothing is known to follow the last step
        expected[steps, np.asarray(episode.states)[h], np.asarray(episode.actions)[h]] += 1
    assert (data == expected).all()
    assert learner.visits.sum() == 4


def test_the_last_state_does_not_matter() -> None:
    cmdp = small_cmdp(2, stationary=True)
    one, other = fd.ProxDOME(cmdp.problem()), fd.ProxDOME(cmdp.problem())
    world = World(cmdp)
    for _ in range(20):
        e = seen(world, one)
        one.observe(e)
        other.observe(fd.Episode(np.asarray(e.states)[:-1], e.actions, e.rewards, e.utilities))
    assert learned(one) == learned(other)


def test_sharing_steps_learns_a_stationary_model_sooner() -> None:
    cmdp = fd.make_cmdp("grid-v1")
    shared, apart = (
        fd.simulate(fd.ProxDOME(cmdp.problem(), episodes=4000, share_steps=share), cmdp) for share in (True, False)
    )
    assert shared.strong_regret[-1] < 0.5 * apart.strong_regret[-1]
    assert shared.strong_violation[-1] < 0.5 * apart.strong_violation[-1]


def test_steps_are_not_shared_where_the_problem_is_not_stationary() -> None:
    problem = small_cmdp(2).problem()
    assert not fd.ProxDOME(problem).choices.shared
    with pytest.raises(fd.ValidationError, match="not said to be stationary"):
        fd.ProxDOME(problem, share_steps=True)


def test_a_file_whose_steps_differ_is_refused_where_they_are_shared(tmp_path: Path) -> None:
    cmdp = small_cmdp(2, stationary=True)
    learner = fd.ProxDOME(cmdp.problem())
    fd.simulate(learner, cmdp, episodes=20)
    path = tmp_path / "learner"
    learner.save(path)
    header, arrays = read_archive(path, "flexdome-learner", 1)
    states, n = arrays["state.state_of"].copy(), int(arrays["state.n_cells"][0])
    states[:n] = states[:n][::-1]
    write_archive(path, header, {**arrays, "state.state_of": states})
    with pytest.raises(fd.FileFormatError, match="differs between steps"):
        fd.load_learner(path)


# -- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bonus_scale": -1.0}, "bonus_scale"),
        ({"prior_scale": -0.1}, "prior_scale"),
        ({"pool_weight": math.inf}, "pool_weight"),
        ({"margin_scale": math.nan}, "margin_scale"),
        ({"reward_scale": 0.0}, "reward_scale"),
        ({"episodes": 0}, "episodes is 0"),
        ({"seed": -1}, "seed"),
        ({"share_steps": "yes"}, "share_steps"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        fd.ProxDOME(fd.make_cmdp("media-v1").problem(), **options)


def test_a_cmdp_is_not_a_problem() -> None:
    with pytest.raises(fd.ValidationError, match="it must be a Problem"):
        fd.ProxDOME(fd.make_cmdp("media-v1"))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [None, 3, "episode"])
def test_what_is_not_an_episode_is_refused(bad: Any) -> None:
    learner = fd.ProxDOME(fd.make_cmdp("media-v1").problem())
    with pytest.raises(fd.ValidationError, match="must be an Episode"):
        learner.observe(bad)
    with pytest.raises(fd.ValidationError, match=r"series of Episodes|must be an Episode"):
        learner.preload(bad)
