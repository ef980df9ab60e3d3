"""FlexDOME against its NumPy twin, its closed forms, and an engineer who hands it the wrong things."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.learners.primal_dual.reference import NumpyFlexDOME
from flexdome.learners.seen.counts import OptimisticModel
from runs import LAWS, World, bits, compiled_and_plain, distance, follow, learned, problem_of, small_cmdp
from strategies import SEEDS, cmdps

CLOSE = 1e-10


def learner_of(cmdp: fd.CMDP, law: str = "known", **options: Any) -> fd.FlexDOME:
    return fd.FlexDOME(problem_of(cmdp, law), **{"episodes": 2000, "margin_scale": 2e-4, **options})


def pair(cmdp: fd.CMDP, law: str = "known", **options: Any) -> tuple[fd.FlexDOME, NumpyFlexDOME]:
    """The learner and its twin, both made from the problem and the options."""
    options = {"episodes": 2000, "margin_scale": 2e-4, **options}
    problem = problem_of(cmdp, law)
    return fd.FlexDOME(problem, **options), NumpyFlexDOME(problem, **options)


def assert_sound(learner: fd.FlexDOME) -> None:
    """A distribution in every state, multipliers in their box, nothing that is not a number."""
    policy, lam = learner.policy, learner.multipliers
    assert np.isfinite(policy).all()
    assert (policy >= 0).all()
    np.testing.assert_allclose(policy.sum(axis=-1), 1.0, atol=1e-13)
    assert ((lam >= 0) & (lam <= learner.settings.dual_bound)).all()
    counts, policy, work = learner.model.core
    for array in (policy.logits, policy.entropy, policy.untried, work.base, counts.alpha_sum):
        assert np.isfinite(array).all()


# -- the twin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("m", [1, 3])
def test_the_learner_follows_its_twin_for_thousands_of_episodes(m: int, law: str) -> None:
    cmdp = small_cmdp(m=m, law=law)
    learner, twin = pair(cmdp, law)
    assert follow(learner, twin, cmdp, 2000) < CLOSE
    assert (learner.multipliers > 0).any()  # the dual step was at work


OPTIONS: dict[str, dict[str, Any]] = {
    "optimism where nothing was tried": {"unvisited": "optimistic"},
    "optimism and a visible bonus": {"unvisited": "optimistic", "bonus_scale": 0.05},
    "no margin": {"margin": False},
    "no regularisation": {"regularisation": False},
    "neither": {"margin": False, "regularisation": False},
    "the entropy's bonus unscaled": {"scale_entropy_bonus": False},
    "own functions": {"schedules": fd.Schedules(lambda t: 0.5 / t**0.5, lambda t: 0.3 / t**0.25, lambda t: 1 / t)},
    "constants of Theorem 2": {"schedules": fd.theory.theorem2(0.3, c_eta=3.0, c_tau=0.5, c_margin=1.0)},
    "a negative margin": {"schedules": fd.Schedules(0.1, 0.1, -0.2)},
    "no step": {"schedules": fd.Schedules(0.0, 0.1, 0.2)},
    "no bonus": {"bonus_scale": 0.0},
    "the theory's bonus": {"bonus_scale": 1.0},
    "a huge bonus": {"bonus_scale": 1e90},
    "a bonus that matters": {"bonus_scale": 0.03},
    "a margin of zero": {"margin_scale": 0.0},
    "the theory's margin": {"margin_scale": 1.0},
    "a huge margin": {"margin_scale": 1e90},
    "a narrow dual box": {"dual_bound": 0.05},
    "a dual box without room": {"dual_bound": 0.0},
    "another confidence": {"delta": 1e-12},
}


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("law", ["known", "steps"])
def test_every_option_follows_its_twin(case: str, law: str) -> None:
    cmdp = small_cmdp(1, m=2, law=law)
    learner, twin = pair(cmdp, law, **OPTIONS[case])
    assert follow(learner, twin, cmdp, 500) < CLOSE
    assert_sound(learner)


SHAPES: dict[str, dict[str, Any]] = {
    "one action": {"A": 1},
    "one state": {"S": 1},
    "one step": {"H": 1},
    "one of each": {"S": 1, "A": 1, "H": 1},
    "nine states": {"S": 9},
    "seventeen states, many successors": {"S": 17, "A": 2, "H": 3},
    "seven constraints": {"m": 7},
    "an initial distribution": {"initial": np.array([0.5, 0.0, 0.3, 0.2, 0.0])},
    "a stationary model": {"stationary": True},
    "a sparse model": {"sparse": True},
    "a sparse stationary model": {"sparse": True, "stationary": True},
    "observations of zero and one": {"noise": "bernoulli"},
    "a long horizon": {"S": 3, "A": 2, "H": 20},
}


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("unvisited", ["paper", "optimistic"])
def test_every_kind_of_model_follows_its_twin(case: str, unvisited: str) -> None:
    cmdp = small_cmdp(2, **SHAPES[case])
    learner, twin = pair(cmdp, unvisited=unvisited, bonus_scale=0.01)
    assert follow(learner, twin, cmdp, 400) < CLOSE
    assert_sound(learner)


def test_the_learner_follows_its_twin_at_the_papers_size() -> None:
    cmdp = fd.make_cmdp("paper-v1")
    learner, twin = pair(cmdp, episodes=80_000, margin_scale=5e-5)
    assert follow(learner, twin, cmdp, 1000) < CLOSE


@settings(max_examples=30)
@given(cmdp=cmdps(laws=True, max_constraints=3), seed=SEEDS, data=st.data())
def test_any_learner_on_any_cmdp_follows_its_twin(cmdp: fd.CMDP, seed: int, data: st.DataObject) -> None:
    learner, twin = pair(
        cmdp,
        data.draw(st.sampled_from(("known", "hidden"))),
        episodes=50,
        bonus_scale=data.draw(st.sampled_from((0.0, 1e-3, 0.1, 1.0))),
        margin_scale=data.draw(st.sampled_from((0.0, 1e-5, 1e-3))),
        unvisited=data.draw(st.sampled_from(("paper", "optimistic"))),
        regularisation=data.draw(st.booleans()),
        scale_entropy_bonus=data.draw(st.booleans()),
    )
    assert follow(learner, twin, cmdp, 60, seed) < CLOSE


def test_the_twin_and_the_learner_agree_with_compilation_off(tmp_path: Path) -> None:
    """And to rounding with the compiled learner: only the library's exp and log differ."""
    code = """
        import sys, numpy as np, flexdome as fd
        from runs import World, distance, small_cmdp
        from flexdome.learners.primal_dual.reference import NumpyFlexDOME
        out = []
        for law, m, unvisited, noise in (("known", 1, "paper", "none"), ("steps", 3, "optimistic", "bernoulli")):
            cmdp = small_cmdp(m=m, law=law, S=3, A=2, H=3, noise=noise)
            options = {"episodes": 60, "margin_scale": 2e-4, "unvisited": unvisited}
            learner, twin = (of(cmdp.problem(), **options) for of in (fd.FlexDOME, NumpyFlexDOME))
            world = World(cmdp)
            for t in range(30):
                episode = world.play(np.full((3, 3, 2), 0.5))
                learner.observe(episode), twin.observe(episode)
                assert distance(learner, twin, beliefs=True) < 1e-10, t
            history = fd.simulate(learner, cmdp, episodes=20)
            out += [learner.policy.ravel(), learner.multipliers, history.reward_gap, history.violation.ravel()]
        np.save(sys.argv[1], np.concatenate(out))
    """
    compiled, plain = compiled_and_plain(code, tmp_path)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=CLOSE)


# -- what must hold along a run -------------------------------------------------------------------------


def test_the_first_policy_is_uniform_and_the_first_multipliers_zero() -> None:
    learner = learner_of(small_cmdp(m=2))
    assert (learner.policy == 1 / 3).all()
    assert (learner.multipliers == 0).all()
    assert learner.episode == 0


def test_the_policy_of_an_episode_does_not_know_that_episode() -> None:
    """pi_2 and lam_2 come from the data of no episode: whatever is seen first, they are the same."""
    cmdp = small_cmdp()
    world, policies = World(cmdp), set()
    for _ in range(5):
        learner = learner_of(cmdp)
        learner.observe(world.play(learner.policy))
        policies.add((learner.policy.tobytes(), learner.multipliers.tobytes()))
    assert len(policies) == 1


def test_a_state_never_visited_keeps_the_uniform_policy() -> None:
    cmdp = small_cmdp(S=12, H=5, initial=3)
    learner, world = learner_of(cmdp), World(cmdp)
    for _ in range(6):
        learner.observe(world.play(learner.policy))
    never = learner.beliefs().visits.sum(axis=-1) == 0
    assert 10 < never.sum() < never.size
    assert (learner.policy[never] == 1 / 3).all()
    assert (learner.policy[~never] != 1 / 3).any()


def test_the_mixture_of_a_learner_that_does_not_randomise_is_its_policy() -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp)
    fd.simulate(learner, cmdp, episodes=20)
    weights, policies = learner.mixture
    assert weights.tolist() == [1.0]
    assert (policies[0] == learner.policy).all()


def test_policy_and_multipliers_cannot_be_written() -> None:
    learner = learner_of(small_cmdp())
    for array in (learner.policy, learner.multipliers):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_multipliers_are_running_averages() -> None:
    """eta_t tau_t = 1/t: away from the box, lam_{t+1} = (1/t) sum_j j^(1/6) (alpha + eps_j - V_d,j)."""
    cmdp, T = small_cmdp(m=2), 3000
    H, t = cmdp.horizon, np.arange(1, T + 1)
    schedules = fd.Schedules(fd.theory.theorem1(cmdp.problem()).eta, fd.theory.theorem1(cmdp.problem()).tau, H + 0.5)
    learner = learner_of(cmdp, schedules=schedules, dual_bound=1e6)
    history = fd.simulate(learner, cmdp, episodes=T)
    terms = t ** (1 / 6) * (cmdp.alpha[:, None] + H + 0.5 - history.diagnostics["utilities"])
    expected = np.cumsum(terms, axis=1) / t
    np.testing.assert_allclose(history.multipliers[:, 1:], expected[:, :-1], rtol=1e-10)
    np.testing.assert_allclose(learner.multipliers, expected[:, -1], rtol=1e-10)


def test_logits_are_running_averages() -> None:
    """log pi_{t+1} = (1/t) sum_j j^(1/6) (Q_r + lam_j Q_d + tau_j (Q_psi - psi)) + const: the first policy is gone."""
    cmdp = small_cmdp(H=3)
    (learner, twin), world = pair(cmdp), World(cmdp)
    total = np.zeros((3, 5, 3))
    for t in range(1, 401):
        Q, _ = twin.evaluate()
        total += t ** (1 / 6) * (Q[0] + np.tensordot(twin.lam, Q[1:-1], 1)) + (Q[-1] + twin.log_pi)
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        weights = np.exp(total / t - (total / t).max(axis=-1, keepdims=True))
        np.testing.assert_allclose(learner.policy, weights / weights.sum(axis=-1, keepdims=True), atol=1e-10)


EXTREMES: dict[str, dict[str, Any]] = {
    "no bonus, no margin": {"bonus_scale": 0.0, "margin_scale": 0.0},
    "a huge bonus": {"bonus_scale": 1e95},
    "a huge bonus on the entropy alone": {"bonus_scale": 0.0, "scale_entropy_bonus": False, "delta": 1e-100},
    "a huge margin": {"margin_scale": 1e95},
    "a huge margin and box": {"margin_scale": 1e95, "dual_bound": 1e100},
    "a huge step": {"schedules": fd.Schedules(1e100, 0.0, 0.0)},
    "huge everything": {"schedules": fd.Schedules(1e100, 0.0, 1e100), "dual_bound": 1e100, "bonus_scale": 1e95},
    "a huge weight": {"schedules": fd.Schedules(1e-100, 1e100, 0.0)},
    "a tiny step": {"schedules": fd.Schedules(1e-300, 1e-300, 1e-300)},
    "a margin far below zero": {"schedules": fd.Schedules(0.5, 0.5, -1e100)},
    "the smallest confidence": {"delta": 1e-100},
}


@pytest.mark.parametrize("case", EXTREMES)
@pytest.mark.parametrize("A", [1, 3])
@pytest.mark.parametrize("unvisited", ["paper", "optimistic"])
def test_extreme_scales_leave_neither_the_simplex_nor_the_box(case: str, A: int, unvisited: str) -> None:
    cmdp = small_cmdp(A=A, m=2)
    learner = learner_of(cmdp, unvisited=unvisited, **EXTREMES[case])
    history = fd.simulate(learner, cmdp, episodes=3000)
    assert_sound(learner)
    for array in (history.reward_gap, history.violation, history.multipliers, *history.diagnostics.values()):
        assert np.isfinite(array).all()
    assert (history.multipliers >= 0).all()
    assert (history.multipliers <= learner.settings.dual_bound).all()
    assert np.isfinite(learner.beliefs().value)


@pytest.mark.parametrize("sample", [1e308, -1e308])
def test_the_largest_threshold_samples_overflow_nothing(sample: float) -> None:
    cmdp = small_cmdp(m=2)
    learner, world = learner_of(cmdp, "hidden"), World(cmdp)
    for k in range(20):
        episode = world.play(learner.policy)
        signs = np.array([1.0, (-1.0) ** k])
        learner.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities, sample * signs))
        assert_sound(learner)
    assert learner.multipliers[0] == (learner.settings.dual_bound if sample > 0 else 0.0)


@pytest.mark.parametrize("law", ["known", "steps"])
def test_a_million_episodes_stay_sound(law: str) -> None:
    cmdp = small_cmdp(S=2, A=2, H=2, law=law)
    learner = learner_of(cmdp, law, episodes=10**6)
    history = fd.simulate(learner, cmdp)
    assert history.last == 10**6
    assert_sound(learner)
    for array in (history.reward_gap, history.violation, history.multipliers, *history.diagnostics.values()):
        assert np.isfinite(array).all()
    assert ((history.multipliers >= 0) & (history.multipliers <= learner.settings.dual_bound)).all()


@pytest.mark.slow
def test_a_million_episodes_at_the_papers_size_stay_sound() -> None:
    cmdp = fd.make_cmdp("paper-stochastic-v1")
    learner = fd.FlexDOME(cmdp.problem(), episodes=10**6, margin_scale=5e-5)
    history = fd.simulate(learner, cmdp)
    assert_sound(learner)
    assert np.isfinite(history.reward_gap).all()
    assert np.isfinite(history.multipliers).all()


# -- a hidden threshold ---------------------------------------------------------------------------------


def run_both(cmdp: fd.CMDP, episodes: int, **options: Any) -> tuple[Any, ...]:
    """The same run with the threshold known and with it hidden."""
    learners = [learner_of(cmdp, law, **options) for law in ("known", "hidden")]
    return (*learners, *(fd.simulate(learner, cmdp, episodes=episodes) for learner in learners))


def halves(threshold: float) -> fd.CMDP:
    """A CMDP whose threshold and its sums are exact in binary."""
    cmdp = small_cmdp()
    return fd.CMDP(cmdp.transitions, cmdp.rewards, cmdp.utilities, [threshold], 0)


def test_a_hidden_fixed_threshold_is_estimated_exactly_from_the_second_episode_on() -> None:
    _, _, known, hidden = run_both(halves(2.25), 50)
    assert hidden.diagnostics["thresholds"][0, 0] == 0.0  # no sample yet
    assert (hidden.diagnostics["thresholds"][:, 1:] == known.diagnostics["thresholds"][:, 1:]).all()


def test_a_hidden_fixed_threshold_changes_only_the_second_multiplier_of_the_first_steps() -> None:
    """The first dual step uses alpha-bar = 0, so lam_2 is lower by eta_1 alpha = alpha where neither is clipped.

    Everything else of the first two episodes is the same: pi_1, pi_2 (made with lam_1 = 0) and lam_1.
    """
    cmdp = halves(2.25)
    options = {"schedules": fd.Schedules(fd.theory.theorem1(cmdp.problem()).eta, 0.5, 2.0)}
    _, _, known, hidden = run_both(cmdp, 3, **options)
    assert known.multipliers[0, 1] - hidden.multipliers[0, 1] == pytest.approx(2.25, abs=1e-12)
    assert (known.reward_gap[:2] == hidden.reward_gap[:2]).all()
    assert known.reward_gap[2] != hidden.reward_gap[2]


@pytest.mark.parametrize(
    "options",
    [
        {"unvisited": "optimistic", "margin_scale": 1e-5},  # V_d = H in episode 1: both second multipliers are 0
        {"schedules": fd.Schedules(lambda t: 0.0 if t == 1 else 0.3, 0.2, 0.4)},  # no first step
    ],
    ids=["optimistic", "no first step"],
)
def test_a_hidden_fixed_threshold_gives_the_run_of_a_known_one_bit_for_bit(options: dict[str, Any]) -> None:
    """Where the first dual step cannot tell them apart, because it is clipped to 0 in both or is not made."""
    a, b, known, hidden = run_both(halves(2.25), 2000, **options)
    assert (known.multipliers == hidden.multipliers).all()
    assert (known.reward_gap == hidden.reward_gap).all()
    assert (a.policy == b.policy).all()
    assert known.multipliers.max() > 0


def test_a_hidden_fixed_threshold_that_rounds_gives_the_run_of_a_known_one_to_rounding() -> None:
    """The mean of n equal samples is the sample up to n roundings where the sample is not a binary fraction."""
    _, _, known, hidden = run_both(small_cmdp(), 2000, unvisited="optimistic", margin_scale=1e-5)
    np.testing.assert_allclose(known.multipliers, hidden.multipliers, atol=1e-9)
    np.testing.assert_allclose(known.reward_gap, hidden.reward_gap, atol=1e-9)


def test_the_lead_of_a_known_threshold_fades_like_one_over_t() -> None:
    """With the paper's schedules lam is a running average: one term of the sum differs, and its weight is 1/t."""
    _, _, known, hidden = run_both(halves(2.25), 4000)
    apart = np.abs(known.multipliers - hidden.multipliers)[0]
    assert apart[1] > 0
    assert apart[-1] < 10 * apart[1] / 4000


# -- observe refuses an episode whole -------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "states": [0, 1, 2, 3, 4],
    "actions": [0, 1, 2, 0],
    "rewards": [0.5] * 4,
    "utilities": [[0.5] * 4] * 2,
    "thresholds": [[0.5] * 4] * 2,
}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a state beyond the last": ({"states": [0, 1, 5, 3, 4]}, "states[2] is 5; it must lie in 0 to 4"),
    "a last state beyond the last": ({"states": [0, 1, 2, 3, 5]}, "states[4] is 5; it must lie in 0 to 4"),
    "a negative state": ({"states": [0, -1, 2, 3, 4]}, "states[1] is -1; it must lie in 0 to 4"),
    "a state that is a fraction": ({"states": [0, 1.5, 2, 3, 4]}, "states has dtype float64; it must hold whole"),
    "too few states": ({"states": [0, 1, 2]}, "states has shape (3,); it must be (5,) or (4,)"),
    "states in a table": ({"states": [[0, 1, 2, 3, 4]]}, "states has shape (1, 5); it must have one axis"),
    "ragged states": ({"states": [[0], [1, 2], 3, 4, 0]}, "states is not a rectangular array"),
    "masked states": ({"states": np.ma.masked_equal([0, 1, 2, 3, 4], 2)}, "states[2] is masked"),
    "huge states": ({"states": [0, 1, 2, 3, 2**70]}, "states has dtype object; it must hold whole numbers"),
    "an action beyond the last": ({"actions": [0, 1, 3, 0]}, "actions[2] is 3; it must lie in 0 to 2"),
    "too many actions": ({"actions": [0] * 5}, "actions has shape (5,); it must be (4,)"),
    "actions that are true": ({"actions": [True] * 4}, "actions has dtype bool; it must hold whole numbers"),
    "a reward that is nan": ({"rewards": [0.5, math.nan, 0, 0]}, "rewards[1] is nan; it must be finite"),
    "a reward above one": ({"rewards": [0.5, 1.1, 0, 0]}, "rewards[1] is 1.1; it must lie in [0, 1]"),
    "too few rewards": ({"rewards": [0.5]}, "rewards has shape (1,); it must be (4,)"),
    "rewards that are words": ({"rewards": ["a"] * 4}, "rewards has dtype <U1; it must hold real numbers"),
    "a utility below zero": ({"utilities": [[0.5] * 4, [0, -0.1, 0, 0]]}, "utilities[1, 1] is -0.1; it must lie"),
    "a utility that is inf": ({"utilities": [[0.5] * 4, [0, math.inf, 0, 0]]}, "utilities[1, 1] is inf; it must lie"),
    "the utilities of one constraint": ({"utilities": [0.5] * 4}, "utilities has shape (4,); it must be (2, 4)"),
    "no thresholds": ({"thresholds": None}, "thresholds is missing; this problem has thresholds that must be"),
    "a threshold that is inf": ({"thresholds": [0.5, math.inf]}, "thresholds[1] is inf; it must be finite"),
    "a threshold that is nan": ({"thresholds": [[0.5] * 4, [0, 0, math.nan, 0]]}, "thresholds[1, 2] is nan"),
    "three thresholds": ({"thresholds": [0.5, 0.5, 0.5]}, "thresholds has shape (3,); it must be (2, 4) or (2,)"),
}


@pytest.fixture(scope="module")
def taught() -> fd.FlexDOME:
    """A learner with two hidden thresholds that has seen a few episodes."""
    cmdp = small_cmdp(m=2)
    learner = learner_of(cmdp, "hidden")
    fd.simulate(learner, cmdp, episodes=25)
    return learner


@pytest.mark.parametrize("case", BAD)
def test_a_bad_episode_is_refused_and_changes_nothing(taught: fd.FlexDOME, case: str) -> None:
    changes, message = BAD[case]
    before = bits(taught)
    with pytest.raises(fd.ValidationError) as caught:
        taught.observe(fd.Episode(**{**GOOD, **changes}))
    assert message in str(caught.value)
    assert bits(taught) == before


@pytest.mark.parametrize("bad", [None, 3, "episode", GOOD], ids=repr)
def test_what_is_not_an_episode_is_refused(taught: fd.FlexDOME, bad: Any) -> None:
    before = bits(taught)
    with pytest.raises(fd.ValidationError, match=r"episode is .*; it must be an Episode"):
        taught.observe(bad)
    assert bits(taught) == before


@pytest.mark.parametrize("sample", [-3.0, 99.0, 1e308])
def test_a_threshold_sample_may_be_any_finite_number(sample: float) -> None:
    learner = learner_of(small_cmdp(m=2), "hidden")
    learner.observe(fd.Episode(**{**GOOD, "thresholds": [sample, 0.0]}))
    assert learner.episode == 1
    assert learner.beliefs().thresholds[0] == max(min(sample, 1e100), -1e100)


def test_thresholds_are_not_looked_at_where_all_are_known() -> None:
    learner = learner_of(small_cmdp(m=2))
    learner.observe(fd.Episode(**{**GOOD, "thresholds": "anything"}))
    assert learner.episode == 1


def test_the_last_state_is_not_needed_and_does_not_matter() -> None:
    learners = [learner_of(small_cmdp(m=2)) for _ in range(3)]
    for learner, states in zip(learners, ([0, 1, 2, 3], [0, 1, 2, 3, 0], [0, 1, 2, 3, 4]), strict=True):
        for _ in range(3):
            learner.observe(fd.Episode(**{**GOOD, "states": states}))
    assert learned(learners[0]) == learned(learners[1]) == learned(learners[2])


def test_an_episode_belongs_to_its_caller() -> None:
    """Arrays handed over may be used again: the learner keeps no view of them."""
    cmdp = small_cmdp()
    world, used, fresh = World(cmdp), learner_of(cmdp), learner_of(cmdp)
    arrays = [np.zeros(5, dtype=np.int64), np.zeros(4, dtype=np.int64), np.zeros(4), np.zeros((1, 4))]
    for _ in range(20):
        episode = world.play(fresh.policy)
        for array, value in zip(
            arrays, (episode.states, episode.actions, episode.rewards, episode.utilities), strict=True
        ):
            array[...] = value
        used.observe(fd.Episode(*arrays))
        fresh.observe(episode)
    assert learned(used) == learned(fresh)


def test_a_schedule_that_fails_on_the_way_refuses_the_episode_again_and_again() -> None:
    cmdp = small_cmdp()
    broken = fd.Schedules(lambda t: math.nan if t > 4100 else 0.1, lambda t: 1 / t, 0.1)
    learner = learner_of(cmdp, schedules=broken, episodes=10_000)
    fd.simulate(learner, cmdp, episodes=4096)
    before, episode = bits(learner), World(cmdp).play(learner.policy)
    for _ in range(2):
        with pytest.raises(fd.ValidationError, match="eta at episode 4101 is nan"):
            learner.observe(episode)
    assert bits(learner) == before


def test_a_schedule_may_end_with_the_plan() -> None:
    cmdp = small_cmdp()
    ending = fd.Schedules(lambda t: 0.1 * (30 - t) ** 0.5 / t, 0.1, 0.1)
    learner = learner_of(cmdp, schedules=ending, episodes=30)
    assert sorted(fd.simulate(learner, cmdp, snapshots=(31,)).snapshots) == [31]
    with pytest.raises(fd.ValidationError, match="eta at episode 31 has dtype complex128"):
        fd.simulate(learner, cmdp, episodes=1)
    assert learner.episode == 30


# -- logged episodes ------------------------------------------------------------------------------------


def test_logged_episodes_are_data_without_policy_steps() -> None:
    cmdp = small_cmdp(m=2, law="steps")
    world, learner = World(cmdp), learner_of(cmdp)
    log = [world.play(np.full((4, 5, 3), 1 / 3)) for _ in range(40)]
    learner.preload(log)
    assert learner.episode == 0
    assert (learner.policy == 1 / 3).all()
    assert (learner.multipliers == 0).all()
    assert (learner.beliefs().visits.sum(axis=(1, 2)) == 40).all()


def test_a_preloaded_learner_follows_its_preloaded_twin() -> None:
    cmdp = small_cmdp(m=2, law="steps")
    (learner, twin), world = pair(cmdp), World(cmdp)
    log = [world.play(np.full((4, 5, 3), 1 / 3)) for _ in range(40)]
    for k in range(300):
        if k in (0, 100):  # before the first episode, and on the way
            learner.preload(log)
            for episode in log:
                twin.record(episode)
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        assert distance(learner, twin, beliefs=True) < CLOSE


def test_logged_data_come_in_any_number_of_pieces() -> None:
    cmdp = small_cmdp(law="normal")
    world, whole, pieces = World(cmdp), learner_of(cmdp), learner_of(cmdp)
    log = [world.play(np.full((4, 5, 3), 1 / 3)) for _ in range(30)]
    whole.preload(iter(log))
    for k in range(0, 30, 7):
        pieces.preload(log[k : k + 7])
    assert learned(whole) == learned(pieces)


def test_one_bad_logged_episode_refuses_them_all() -> None:
    cmdp = small_cmdp(m=2)
    learner = learner_of(cmdp)
    before = bits(learner)
    log = [fd.Episode(**GOOD), fd.Episode(**GOOD), fd.Episode(**{**GOOD, "actions": [0, 0, 0, 9]})]
    with pytest.raises(fd.ValidationError, match=r"episodes\[2\]: actions\[3\] is 9; it must lie in 0 to 2"):
        learner.preload(log)
    assert bits(learner) == before


def test_a_log_that_breaks_off_is_not_taken() -> None:
    learner = learner_of(small_cmdp(m=2))
    before = bits(learner)

    def breaking():
        yield fd.Episode(**GOOD)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        learner.preload(breaking())
    assert bits(learner) == before


@pytest.mark.parametrize("bad", [5, None, fd.Episode(**GOOD)], ids=["number", "none", "one episode"])
def test_a_log_that_is_no_series_is_refused(bad: Any) -> None:
    with pytest.raises(fd.ValidationError, match=r"episodes is .*; it must be a series of Episodes"):
        learner_of(small_cmdp(m=2)).preload(bad)


def test_an_empty_log_changes_nothing() -> None:
    learner = learner_of(small_cmdp())
    before = bits(learner)
    learner.preload([])
    assert bits(learner) == before


# -- thresholds that change -----------------------------------------------------------------------------


def test_a_changed_threshold_is_that_of_the_next_episode_on() -> None:
    cmdp = small_cmdp(m=2)
    (learner, twin), world = pair(cmdp), World(cmdp)
    for t in range(120):
        if t == 40:
            learner.set_thresholds([0.3, 0.9], slater_gap=0.2)
            twin.thresholds = np.array([0.3, 0.9])
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(fd.Episode(episode.states, episode.actions, episode.rewards, episode.utilities))
        assert distance(learner, twin) < CLOSE
    assert learner.threshold_changes == [(40, [0.3, 0.9])]
    assert learner.beliefs().thresholds.tolist() == [0.3, 0.9]
    assert (learner.problem.slater_gap, learner.problem.slater_gap_exact) == (0.2, False)


def test_a_threshold_may_become_one_that_is_estimated() -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp)
    fd.simulate(learner, cmdp, episodes=10)
    learner.set_thresholds(math.nan)
    assert learner.beliefs().thresholds.tolist() == [0.0]  # no sample yet
    fd.simulate(learner, cmdp, episodes=10)
    assert learner.beliefs().thresholds == pytest.approx(cmdp.alpha, rel=1e-12)


@pytest.mark.parametrize(
    ("thresholds", "gap", "message"),
    [
        ([0.5], None, "thresholds has 1 entries; there are m = 2 constraints"),
        ([0.5, 9.0], None, r"thresholds\[1\] is 9.0; it must lie in \[0, H\]"),
        ([0.5, math.inf], None, r"thresholds\[1\] is inf"),
        ([[0.5], [0.5, 1.0]], None, "thresholds is not a rectangular array"),
        ("high", None, "thresholds has dtype"),
        ([0.5, 3.9], 0.5, "slater_gap is 0.5; it must be positive and at most"),
        ([0.5, 0.5], -1.0, "slater_gap is -1.0"),
    ],
)
def test_bad_thresholds_are_refused_and_change_nothing(thresholds: Any, gap: Any, message: str) -> None:
    learner = learner_of(small_cmdp(m=2))
    before = bits(learner)
    with pytest.raises(fd.ValidationError, match=message):
        learner.set_thresholds(thresholds, gap)
    assert bits(learner) == before
    assert learner.problem is learner.first_problem


# -- what a learner believes ----------------------------------------------------------------------------


def test_beliefs_are_the_twins_numbers() -> None:
    cmdp = small_cmdp(m=2, law="steps")
    (learner, twin), world = pair(cmdp, bonus_scale=0.01), World(cmdp)
    for _ in range(200):
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
    told, (_, V) = learner.beliefs(), twin.evaluate()
    assert told.value == pytest.approx(V[0], abs=CLOSE)
    np.testing.assert_allclose(told.utilities, V[1:-1], atol=CLOSE)
    np.testing.assert_allclose(told.thresholds, twin.alpha_sum / twin.alpha_count, rtol=1e-12)
    np.testing.assert_allclose(told.margin, twin.schedule(201)[2], rtol=1e-14)
    np.testing.assert_array_equal(told.visits, twin.N)
    np.testing.assert_allclose(told.widths, twin.widths(), rtol=1e-14)


def test_asking_for_beliefs_changes_nothing_that_is_learned() -> None:
    cmdp = small_cmdp(law="normal")
    world, asked, left = World(cmdp), learner_of(cmdp), learner_of(cmdp)
    for _ in range(60):
        episode = world.play(asked.policy)
        asked.beliefs()
        asked.observe(episode)
        asked.beliefs()
        left.observe(episode)
    assert learned(asked) == learned(left)


def test_widths_shrink_with_visits_and_are_largest_where_nothing_was_seen() -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp)
    fd.simulate(learner, cmdp, episodes=200)
    told = learner.beliefs()
    assert told.widths.shape == told.visits.shape == (4, 5, 3)
    often = told.visits > 1
    assert (told.widths[~often] == told.widths.max()).all()
    np.testing.assert_allclose(told.widths[often] * np.sqrt(told.visits[often]), told.widths.max(), rtol=1e-14)


# -- construction ---------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a word for a switch": ({"margin": "no"}, "margin is 'no'; it must be True or False"),
    "a number for a switch": ({"regularisation": 0}, "regularisation is 0; it must be True or False"),
    "none for a switch": ({"scale_entropy_bonus": None}, "scale_entropy_bonus is None; it must be True or False"),
    "another kind of optimism": ({"unvisited": "maybe"}, "unvisited is 'maybe'; it must be 'paper' or 'optimistic'"),
    "a list of optimism": ({"unvisited": ["paper"]}, "unvisited is ['paper']; it must be 'paper' or 'optimistic'"),
    "a negative bonus": ({"bonus_scale": -1.0}, "bonus_scale is -1.0; it must be at least 0"),
    "a bonus beyond measure": ({"bonus_scale": 1e308}, "bonus_scale is 1e+308; it must be in [0, 1e+95]"),
    "a margin beyond measure": ({"margin_scale": 1e305}, "margin_scale is 1e+305; it must be in [0, 1e+95]"),
    "a negative box": ({"dual_bound": -1.0}, "dual_bound is -1.0; it must be at least 0"),
    "a box beyond measure": ({"dual_bound": 1e200}, "dual_bound is 1e+200; it must be in [0, 1e+100]"),
    "a box that is nan": ({"dual_bound": math.nan}, "dual_bound is nan; it must be finite"),
    "schedules that are a number": ({"schedules": 0.1}, "schedules is 0.1; it must be a Schedules or None"),
    "a schedule that is bad": ({"schedules": fd.Schedules(-1.0, 0.1)}, "eta at episode 1 is -1.0; it must lie in"),
    "a negative seed": ({"seed": -1}, "seed is -1; it must be at least 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_option_that_makes_no_sense_is_refused(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(fd.ValidationError) as caught:
        learner_of(small_cmdp(), **options)
    assert message in str(caught.value)


def test_a_learner_never_takes_the_cmdp() -> None:
    with pytest.raises(fd.ValidationError, match="problem is a CMDP; it must be a Problem"):
        fd.FlexDOME(small_cmdp())  # type: ignore[arg-type]


def test_a_problem_with_more_cells_than_can_be_counted_is_refused() -> None:
    with pytest.raises(fd.ValidationError, match="H A S = 1000 x 1000 x 10000 cells"):
        fd.FlexDOME(fd.Problem(10_000, 1000, 1000, 0, [1.0], 0.5))


def test_the_registry_makes_the_same_learner() -> None:
    cmdp = small_cmdp()
    made = [
        fd.make_learner("flexdome", cmdp.problem(), episodes=100, margin_scale=1e-4),
        fd.FlexDOME(cmdp.problem(), episodes=100, margin_scale=1e-4),
    ]
    for learner in made:
        fd.simulate(learner, cmdp)
    assert learned(made[0]) == learned(made[1])


def test_an_unknown_learner_is_refused_with_a_hint() -> None:
    with pytest.raises(fd.ValidationError, match="unknown learner 'flexdom'; did you mean flexdome"):
        fd.make_learner("flexdom", small_cmdp().problem())


def test_the_oracle_knows_the_mean_of_a_stochastic_threshold() -> None:
    cmdp = small_cmdp(law="normal")
    oracle = fd.FlexDOME(cmdp.problem(reveal=("thresholds",)), episodes=50)
    history = fd.simulate(oracle, cmdp)
    assert (history.diagnostics["thresholds"] == cmdp.alpha[:, None]).all()


# -- memory ---------------------------------------------------------------------------------------------


def test_nothing_is_written_beyond_the_visited_cells() -> None:
    """Up to the eight lanes of the vector loops: what lies behind was never touched, so it takes no memory."""
    cmdp = fd.make_cmdp("garnet-v1", states=3000, actions=3, horizon=4, successors=3)
    learner = fd.FlexDOME(cmdp.problem(slater_gap=0.5), episodes=1000)
    fd.simulate(learner, cmdp, episodes=200, evaluate_every=1000)
    core, C, W = learner.model.core, learner.model.C, learner.model.W
    for h, n in enumerate(core.counts.n_cells):
        assert 0 < n < 300
        end = -(-n // 8) * 8
        assert not core.counts.state_of[h, n:].any()
        for name in ("n_visits", "inverse", "sum_r", "sum_d", "start", "length", "capacity"):
            assert not getattr(core.counts, name).reshape(-1, 4, 3, C)[:, h, :, end:].any(), name
        for name in ("logits", "pi"):
            assert not getattr(core.policy, name).reshape(-1, 4, 3, C)[:, h, :, end:].any(), name
        assert not core.work.base.reshape(4, 3, C, W)[h, :, end:].any()
        assert not core.work.values.reshape(4, C, W)[h, end:].any()
        assert not core.counts.tried.reshape(4, 3 * C)[h, core.counts.n_tried[h] :].any()
    assert not core.work.y.reshape(3, C)[:, 400:].any()


def measured(code: str) -> list[float]:
    """The numbers that ``code`` prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return [float(x) for x in done.stdout.split()]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_memory_follows_what_was_visited() -> None:
    code = """
        import os, numpy as np, flexdome as fd

        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

        def teach(states):
            learner = fd.FlexDOME(fd.Problem(states, 4, 10, 0, [1.0], 0.5))
            rng = np.random.default_rng(0)
            for _ in range(300):
                s, a = rng.integers(0, states, 11), rng.integers(0, 4, 10)
                s[0] = 0
                learner.observe(fd.Episode(s, a, rng.random(10), rng.random(10)))
            return learner

        teach(10)
        before = resident()
        learner = teach(1_000_000)
        core = learner.model.core
        print(resident() - before, sum(array.nbytes for part in core for array in part) / 2**20)
    """
    used, reserved = measured(code)
    assert reserved > 4000  # megabytes, if every cell were visited
    assert used < 60


def peak_is_told() -> bool:
    status = Path("/proc/self/status")
    return status.exists() and "VmHWM" in status.read_text()


@pytest.mark.skipif(not peak_is_told(), reason="peak memory is read from /proc")
def test_a_learner_and_the_truth_of_twenty_thousand_states_stay_under_a_gigabyte() -> None:
    code = """
        import flexdome as fd
        cmdp = fd.make_cmdp("garnet-v1", states=STATES, actions=4, horizon=10, successors=5)
        learner = fd.FlexDOME(cmdp.problem(slater_gap=0.5), episodes=50_000)
        fd.simulate(learner, cmdp, episodes=3000, evaluate_every=1000)
        # The peak of this address space: ru_maxrss would be the test runner's, which a child process inherits.
        most = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(most / 2**10, learner.model.core.counts.n_cells.sum())
    """
    measured(code.replace("STATES", "20"))  # the compiler's memory is not the learner's: it fills the cache here
    most, cells = measured(code.replace("STATES", "20_000"))
    assert cells > 5000
    assert most < 1000


def test_the_scales_of_the_steps_are_options_kept_in_files(tmp_path):
    cmdp = fd.make_cmdp("media-v1")
    learner = fd.FlexDOME(cmdp.problem(), episodes=60, step_scale=7.0, regularisation_scale=0.1)
    plain = fd.FlexDOME(cmdp.problem(), episodes=60)
    eta, tau, _ = learner.schedule(8, 1)
    assert (eta[0], tau[0]) == pytest.approx((7.0 * 8 ** (-5 / 6), 0.1 * 8 ** (-1 / 6)))
    assert {name: plain.options()[name] for name in ("step_scale", "regularisation_scale")} == {
        "step_scale": 1.0,
        "regularisation_scale": 1.0,
    }
    fd.simulate(learner, cmdp, episodes=30)
    learner.save(tmp_path / "learner")
    again = fd.load_learner(tmp_path / "learner")
    for one in (learner, again):
        fd.simulate(one, cmdp)
    assert (learner.policy == again.policy).all()


@pytest.mark.parametrize("name", ["step_scale", "regularisation_scale"])
def test_a_negative_scale_of_a_step_is_refused(name):
    with pytest.raises(fd.ValidationError, match=rf"{name} is -1.0; it must be at least 0"):
        fd.FlexDOME(fd.make_cmdp("media-v1").problem(), **{name: -1.0})


def test_lists_of_successors_that_are_laid_out_anew_change_no_bit(monkeypatch):
    """The pool is tidied before a chunk of episodes; here eight chunks, against a run in which it never is."""
    cmdp = fd.make_cmdp("paper-v1")
    tidied, plain = (fd.FlexDOME(cmdp.problem(), episodes=4000, tuning="practical") for _ in range(2))
    for _ in range(8):
        fd.simulate(tidied, cmdp, 500)
    monkeypatch.setattr(OptimisticModel, "tidy", lambda self: None)
    fd.simulate(plain, cmdp)
    assert tidied.model.core.counts.pool[0] < 0.9 * plain.model.core.counts.pool[0]
    mine, other = tidied.state(), plain.state()
    assert all((mine[name] == other[name]).all() for name in other)
