"""ProxDOME's constants as its pseudo-code has them, the range of its options, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.proximal import proxdome
from runs import World, small_cmdp

SIZE: dict[str, Any] = {"S": 3, "A": 2, "H": 3}


def made(m: int = 1, stationary: bool = False, **options: Any) -> fd.ProxDOME:
    return fd.ProxDOME(small_cmdp(3, m=m, stationary=stationary, **SIZE).problem(slater_gap=0.1), **options)


GOLDEN = {  # the first line of the pseudo-code in flexdome.learners.proximal.proxdome
    "bonus": 0.65, "prior": 0.25, "weight": 8.0, "margin": 1.3, "samples": 1.0, "luck": 0.25, "least": 5.5,
    "licence": 0.02, "reward": 1.0,
}  # fmt: skip


def test_the_constants_are_those_of_the_pseudo_code():
    choices = made().choices
    assert {name: getattr(choices, name) for name in GOLDEN} == GOLDEN
    assert not choices.shared
    assert made().episodes == 80_000
    assert made().seed == 0
    assert not choices.certain
    assert choices.given.size == 0


@pytest.mark.parametrize(
    ("caution", "bonus", "margin", "luck"),
    [(1.0, 0.65, 1.3, 0.25), (0.5, 0.40625, 0.65, 0.125), (0.0, 0.1625, 0.0, 0.0)],
)
def test_caution_turns_three_constants(caution, bonus, margin, luck):
    choices = made(caution=caution).choices
    assert (choices.bonus, choices.margin, choices.luck) == pytest.approx((bonus, margin, luck))
    given = made(caution=caution, bonus_scale=2.0, margin_scale=3.0).choices
    assert (given.bonus, given.margin, given.luck) == pytest.approx((2.0, 3.0, luck))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("caution", 0.0, 1.0), ("bonus_scale", 0.0, 1e100), ("prior_scale", 0.0, 1e9), ("pool_weight", 0.0, 1e9),
        ("margin_scale", 0.0, 1e100), ("reward_scale", 1e-9, 1e9),
    ],
)  # fmt: skip
def test_an_option_may_be_anything_in_its_range_and_nothing_outside(name, low, high):
    for value in (low, high):
        assert made(**{name: value}).options()[name] == value
    for value in (low - 1e-12, np.nextafter(high, np.inf), 1.6 * high):
        with pytest.raises(fd.ValidationError, match=name):
            made(**{name: value})


def test_forgetting_begins_with_sixteen_episodes_and_ends_with_a_billion():
    assert made(forget=16).forget == 16
    assert made(forget=10**9).forget == 10**9
    for value in (15, 10**9 + 1):
        with pytest.raises(fd.ValidationError, match="forget"):
            made(forget=value)


def test_steps_are_shared_where_there_is_more_than_one_and_the_problem_is_the_same_at_all():
    assert made(stationary=True).choices.shared
    assert not made(stationary=True, share_steps=False).choices.shared
    for H, shared in ((1, False), (2, True)):
        problem = small_cmdp(3, 3, 2, H, stationary=True).problem(slater_gap=0.1)
        assert fd.ProxDOME(problem).options()["share_steps"] == shared


def test_what_was_logged_is_planned_with_three_times():
    learner, plans = made(), []
    world = World(small_cmdp(3, **SIZE), 1)
    e = world.play(learner.policy)
    episode = fd.Episode(e.states, e.actions, e.rewards, e.utilities)
    learner._plan = lambda: plans.append(1)  # type: ignore[method-assign]
    learner.preload([])
    assert len(plans) == 0
    learner.preload([episode])
    assert len(plans) == 3


def test_what_is_drawn_does_not_change_from_version_to_version():
    # SeedSequence([seed, 0x50524F58]): "PROX"
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence([7, int.from_bytes(b"PROX", "big")])))
    numbers = expected.random(5)
    learner = made(seed=7)
    assert learner.coins(5).tolist() == numbers.tolist()
    learner.episode = 3
    assert learner.coins(2).tolist() == numbers[3:].tolist()


def test_a_safe_policy_plays_with_what_the_weight_leaves_and_is_named_where_its_promise_breaks():
    cmdp = small_cmdp(3, m=2, fraction=0.7, **SIZE)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner = fd.ProxDOME(cmdp.problem(slater_gap=0.1), safe_policy=safe)
    assert learner.choices.given.tolist() == safe.utilities.tolist()
    weights, policies = learner.mixture
    assert weights.tolist() == [1.0 - learner.status().weight, learner.status().weight]
    assert np.array_equal(policies[0], safe.policy)
    for i in range(2):
        broken = np.ones((2, 3))
        broken[i] = 0.0
        row = learner.own.promise[1 + i]
        for _ in range(400):
            proxdome.bound_given(row, 0.0, 3.0, 2)
        with pytest.raises(fd.FlexDOMEError, match=rf"utilities\[{i}\] is .* 401 episodes"):
            learner.refuted(broken)
        row[:] = 0.0
        learner.refuted(broken)


def test_the_exact_optimum_is_told_as_one_that_was_solved_and_shown_safe():
    cmdp = small_cmdp(3, m=2, fraction=0.9, **SIZE)
    learner = fd.ProxDOME(cmdp.problem(reveal=("transitions", "rewards", "utilities")))
    status, best = learner.status(), fd.solve(cmdp)
    assert learner.choices.certain
    assert learner.multipliers == pytest.approx(best.multipliers)
    assert learner.policy == pytest.approx(best.policy, abs=1e-12)
    assert status.utilities == pytest.approx(best.utilities)
    assert status.thresholds.tolist() == cmdp.alpha.tolist()
    assert (status.solved, status.share, status.weight) == (True, 1.0, 1.0)
    assert (status.trials, status.untried, status.first_tries) == (0, 0, 0.0)
    assert status.accepted.all()
    assert learner.beliefs().value == pytest.approx(best.value)
    entropy = -(best.policy * np.log(np.maximum(best.policy, np.exp(-700.0)))).sum(axis=-1)
    assert learner.model.core.policy.entropy.reshape(3, -1)[:, :3] == pytest.approx(entropy, abs=1e-12)
    before = learner.policy
    for _ in range(3):
        e = World(cmdp, 1).play(learner.policy)
        learner.observe(fd.Episode(e.states, e.actions, e.rewards, e.utilities))
    assert np.array_equal(learner.policy, before)


@pytest.mark.parametrize("forget", [None, 16])
def test_an_observed_episode_of_the_safe_policy_counts_for_its_promise(forget):
    cmdp = small_cmdp(3, fraction=0.7, **SIZE)
    safe = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))
    learner = fd.ProxDOME(cmdp.problem(slater_gap=0.1), safe_policy=safe, forget=forget)
    episode = fd.Episode([0, 0, 0, 0], [0, 0, 0], [1.0, 1.0, 1.0], [[0.0, 0.0, 0.0]])

    def observe_all() -> None:
        for _ in range(300):
            learner.observe(episode)

    with pytest.raises(fd.FlexDOMEError, match=r"utilities\[0\] is .* episodes show at most"):
        observe_all()
    assert 10 < learner.episode < 200


@pytest.mark.parametrize(("stationary", "room"), [(False, 1), (True, 3)])
@pytest.mark.parametrize("forget", [None, 16])
def test_room_is_made_for_the_successors_that_an_episode_may_bring(stationary, room, forget):
    learner, asked = made(stationary=stationary, forget=forget), []
    reserve = learner.model.reserve
    learner.model.reserve = lambda count: (asked.append(count), reserve(count))  # type: ignore[method-assign]
    e = World(small_cmdp(3, **SIZE), 1).play(learner.policy)
    episode = fd.Episode(e.states, e.actions, e.rewards, e.utilities)
    learner.observe(episode)
    learner.preload([episode])
    assert asked == [room, room]


@pytest.mark.parametrize(("log", "kept"), [(0, False), (2, False), (3, True), (17, True)])
def test_after_forgetting_what_is_left_beyond_the_episodes_played_counts_as_logged(log, kept, monkeypatch):
    calls: list[int] = []
    monkeypatch.setattr(proxdome, "keep_logged", lambda *_: calls.append(1))
    learner, world = made(forget=16), World(small_cmdp(3, **SIZE), 1)

    def played() -> fd.Episode:
        e = world.play(learner.policy)
        return fd.Episode(e.states, e.actions, e.rewards, e.utilities)

    learner.preload([played() for _ in range(log)])
    calls.clear()
    for _ in range(18 - log):  # an eighth more than sixteen
        assert not calls
        learner.observe(played())
    assert learner.memory is not None
    assert len(learner.memory.data) == 16
    assert learner.own.logged[0] == log - 2
    assert learner.own.since[0] == 17
    assert bool(calls) == kept


def test_first_states_are_estimated_from_where_episodes_began():
    problem = fd.Problem(3, 2, 2, None, [0.1], 0.1)
    learner = fd.ProxDOME(problem)
    assert learner.settings.start_p.tolist() == pytest.approx([1 / 3] * 3)
    for first in (2, 2, 1, 2):
        learner.observe(fd.Episode([first, 0, 1], [0, 1], [0.5, 0.5], [[0.5, 0.5]]))
    assert learner.settings.start_p.tolist() == [0.0, 0.25, 0.75]
