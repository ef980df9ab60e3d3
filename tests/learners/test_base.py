"""What every learner has from its base: counts, first states, draws, what is told, and certificates of a mixture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import Recorded, Seen
from flexdome.learners import Learner
from flexdome.learners.base import Beliefs
from flexdome.learners.options import option_names

H, S, A, M = 2, 3, 2, 2
UNIFORM = np.full((H, S, A), 1 / A)


class Plain(Learner):
    """Plays one policy, or a mixture, and counts."""

    id = "plain"
    weights, policies = np.ones(1), UNIFORM[None]

    def __init__(self, problem: fd.Problem, episodes: int = 9, seed: int = 3) -> None:
        super().__init__(problem, episodes, seed)
        self.counted = np.zeros((H, S, A))

    @property
    def policy(self) -> Any:
        return self.policies[0]

    @property
    def multipliers(self) -> Any:
        return np.zeros(M)

    @property
    def mixture(self) -> Any:
        return super().mixture if len(self.weights) == 1 else (self.weights, self.policies)

    def beliefs(self) -> Beliefs:
        return Beliefs(0.5, np.full(M, 0.4), np.full(M, 0.3), np.zeros(M), np.zeros((H, S, A)), self.counted.copy())

    def observe(self, episode: fd.Episode) -> None:
        states, actions, *_ = self.checked_episode(episode)
        self.counted[np.arange(H), states[:H], actions] += 1.0
        self.count_episode()

    def preload(self, episodes: Any) -> None:
        raise NotImplementedError

    def state(self) -> Any:
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        raise NotImplementedError


def problem(**options: Any) -> fd.Problem:
    return fd.Problem(**{"states": S, "actions": A, "horizon": H, "initial": 0, "thresholds": [0.3] * M,
                         "slater_gap": 0.1, **options})  # fmt: skip


def episode(states: Any = (0, 1), actions: Any = (0, 1)) -> fd.Episode:
    return fd.Episode(list(states), list(actions), [0.5] * H, np.full((M, H), 0.5))


def test_episodes_and_seeds_begin_where_they_may() -> None:
    assert Plain(problem(), episodes=1, seed=0).episodes == 1
    with pytest.raises(fd.ValidationError, match="episodes is 0"):
        Plain(problem(), episodes=0)
    with pytest.raises(fd.ValidationError, match="seed is -1"):
        Plain(problem(), seed=-1)


def test_every_episode_counts_as_one() -> None:
    learner = Plain(problem())
    assert learner.episode == 0
    for t in range(3):
        assert learner.status().episode == t + 1
        learner.observe(episode())
        assert learner.episode == t + 1
    learner.episode = 7
    assert learner.episode == 7
    assert learner._played.shape == (1,)


def test_first_states_are_counted_where_they_are_not_told() -> None:
    told = Plain(problem(initial=[0.2, 0.3, 0.5]))
    assert told.initial([2]).tolist() == [0.2, 0.3, 0.5]
    learner = Plain(problem(initial=None))
    assert learner.initial().tolist() == [1 / 3] * 3
    assert learner.initial([2]).tolist() == [0.0, 0.0, 1.0]
    for first, action in ((1, 0), (1, 1), (0, 1)):
        learner.observe(episode((first, 2), (action, 0)))
    np.testing.assert_allclose(learner.initial(), [1 / 3, 2 / 3, 0.0])
    np.testing.assert_allclose(learner.initial([2, 2, 0]), [2 / 6, 2 / 6, 2 / 6])


def test_thresholds_are_taken_where_there_is_one_for_each_constraint() -> None:
    learner = Plain(problem())
    for bad, shape in ((np.array([0.5]), r"\(1,\)"), (np.full((2, 1), 0.5), r"\(2, 1\)"), (0.5, r"\(\)")):
        with pytest.raises(fd.ValidationError, match=rf"thresholds has shape {shape}; there are m = 2 constraints"):
            learner.take_thresholds(bad)
    assert learner.problem.thresholds.tolist() == [0.3, 0.3]
    assert learner.threshold_changes == []
    learner.take_thresholds(np.array([0.5, np.nan]))
    assert learner.problem.thresholds[0] == 0.5


def test_an_action_is_drawn_with_the_number_of_its_seed_episode_and_step() -> None:
    learner = Plain(problem(), seed=5)
    learner.episode = 11
    numbers = np.random.default_rng([5, 0xAC7, 11]).random(H)
    for h in range(H):
        learner.policies = np.zeros((1, H, S, A))
        for share, action in ((numbers[h] + 1e-9, 0), (numbers[h] - 1e-9, 1)):
            learner.policies[0, h, 2] = share, 1.0 - share
            assert learner.act(h, 2) == action
    for bad in (-1, H):
        with pytest.raises(fd.ValidationError, match=f"h is {bad}"):
            learner.act(bad, 0)


def test_what_was_tried_is_told_and_what_was_not_where_a_state_was_seen() -> None:
    learner = Plain(problem())
    learner.counted[0, 0], learner.counted[1, 1], learner.counted[1, 2] = (1.0, 0.0), (3.0, 2.0), (0.0, 5.0)
    status = learner.status()
    assert (status.tried, status.untried) == (4, 2)
    assert "2 actions were never tried" in str(status)
    learner.counted[0, 0] = 1.0
    assert "known: 5 of 6 actions tried" in str(learner.status())
    assert "1 action was never tried" in str(learner.status())


def test_a_policy_alone_is_a_mixture_of_one() -> None:
    weights, policies = Plain(problem()).mixture
    assert weights.tolist() == [1.0]
    np.testing.assert_array_equal(policies, UNIFORM[None])


def test_of_a_mixture_only_what_is_ever_drawn_can_have_played() -> None:
    learner = Plain(problem())
    learner.weights = np.array([0.4, 0.6, 0.0])
    learner.policies = np.zeros((3, H, S, A))
    learner.policies[0, ..., 0] = learner.policies[1, 0, :, 0] = learner.policies[1, 1, :, 1] = 1.0
    learner.policies[2, ..., 1] = 1.0
    own = [episode((0, 1), (0, 0)), episode((0, 1), (0, 1))]
    said = learner.certify(episodes=own)
    assert said.delta == 0.05
    assert said.method == "episodes"
    log = Recorded.from_episodes(problem(), own)
    assert said.value == fd.certify(UNIFORM, problem(), log).value
    with pytest.raises(fd.ValidationError, match=r"episodes\[0\] takes action 1 in state 0 at step 0"):
        learner.certify(episodes=[episode((0, 1), (1, 1))])


def test_counts_certify_the_mixture_with_its_weights() -> None:
    learner = Plain(problem())
    learner.weights = np.array([0.25, 0.75])
    learner.policies = np.zeros((2, H, S, A))
    learner.policies[0, ..., 0] = learner.policies[1, ..., 1] = 1.0
    visits = np.full((H, S, A), 500.0)
    sums = visits * np.linspace(0.1, 0.9, (1 + M) * H * S * A).reshape(1 + M, H, S, A)
    nxt = np.zeros((H, S, A, S))
    nxt[0] = 500 / 3
    learner.seen_counts = lambda: Seen(visits, sums, nxt, np.zeros(M), np.zeros(M), 500)  # type: ignore[method-assign]
    alone = []
    for k in (0, 1):
        one = Plain(problem())
        one.policies, one.seen_counts = learner.policies[k : k + 1], learner.seen_counts  # type: ignore[method-assign]
        alone.append(one.certify(0.2))
    np.testing.assert_allclose(learner.certify(0.2).lower, 0.25 * alone[0].lower + 0.75 * alone[1].lower)


def test_the_problem_is_no_option_wherever_it_stands():
    class Learner:
        def __init__(self, gain, problem, *, schedules=None, delta=0.1):
            pass

    assert option_names(Learner) == ["gain", "delta"]
