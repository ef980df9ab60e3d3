"""A learner from outside hands over what it likes; nothing of it reaches a kernel unchecked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from runs import Observed, small_cmdp

CMDP = small_cmdp(1, S=3, A=2, H=3, m=2)
GOOD = np.full((3, 3, 2), 0.5)


def with_entry(array: np.ndarray, where: tuple[int, ...], value: float) -> np.ndarray:
    changed = array.copy()
    changed[where] = value
    return changed


class Stranger(Observed):
    """Plays what it is told to."""

    def __init__(self, **handed: Any) -> None:
        super().__init__(fd.FlexDOME(CMDP.problem(), episodes=10))
        self.handed = handed

    @property
    def policy(self) -> Any:
        return self.handed.get("policy", GOOD)

    @property
    def mixture(self) -> Any:
        return self.handed.get("mixture", (np.ones(1), GOOD[None]))

    @property
    def multipliers(self) -> Any:
        return self.handed.get("multipliers", np.zeros(2))


BAD_POLICIES = {
    "one step more": (np.full((4, 3, 2), 0.5), r"policy has shape \(4, 3, 2\)"),
    "many steps": (np.full((6000, 3, 2), 0.5), "policy has shape"),
    "other states": (np.full((3, 4, 2), 0.5), "policy has shape"),
    "other actions": (np.full((3, 3, 3), 1 / 3), "policy has shape"),
    "two policies": (np.full((2, 3, 3, 2), 0.5), "policy has shape .*one policy"),
    "flat": (np.full(18, 0.5), "policy has shape"),
    "negative": (with_entry(with_entry(GOOD, (0, 1, 0), -0.5), (0, 1, 1), 1.5), r"policy\[0, 1, 0\] is -0.5"),
    "nan": (with_entry(GOOD, (2, 1, 1), np.nan), r"policy\[2, 1, 1\] is nan"),
    "not normalised": (with_entry(GOOD, (1, 2, 0), 0.7), r"policy\[1, 2\] sums to 1.2"),
    "no array": (None, "policy"),
    "words": ([["a"]], "policy"),
}


@pytest.mark.parametrize("policy", list(BAD_POLICIES))
def test_a_bad_policy_is_refused_before_it_is_played(policy: str) -> None:
    bad, message = BAD_POLICIES[policy]
    learner = Stranger(policy=bad)
    with pytest.raises(fd.ValidationError, match=f"Stranger.{message}"):
        fd.simulate(learner, CMDP, episodes=5)
    assert learner.episode == 0


BAD_MIXTURES = {
    "no pair": (GOOD, "mixture is not a pair"),
    "a number": (7, "mixture is not a pair"),
    "weights too many": ((np.full(2, 0.5), GOOD[None]), "weights .2,. and policies"),
    "weights above one": ((np.array([2.0]), GOOD[None]), "sums to 2"),
    "negative weight": ((np.array([2.0, -1.0]), np.stack([GOOD, GOOD])), r"mixture\[0\]\[1\] is -1"),
    "one policy": ((np.ones(1), GOOD), "must be .k,. and .k, H, S, A."),
    "one step more": ((np.ones(1), np.full((1, 4, 3, 2), 0.5)), r"mixture\[1\] has shape"),
    "nan": ((np.ones(1), with_entry(GOOD[None], (0, 0, 0, 0), np.nan)), r"mixture\[1\]\[0, 0, 0, 0\] is nan"),
}


@pytest.mark.parametrize("mixture", list(BAD_MIXTURES))
def test_a_bad_mixture_is_refused_before_it_is_measured(mixture: str) -> None:
    bad, message = BAD_MIXTURES[mixture]
    learner = Stranger(mixture=bad)
    with pytest.raises(fd.ValidationError, match=message):
        fd.simulate(learner, CMDP, episodes=5)
    assert learner.episode == 0


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 1)), 0.0, [np.nan, 0.0], ["a", "b"]])
def test_bad_multipliers_are_refused(bad: Any) -> None:
    with pytest.raises(fd.ValidationError, match=r"Stranger.multipliers"):
        fd.simulate(Stranger(multipliers=bad), CMDP, episodes=5)


@pytest.mark.parametrize("good", [GOOD.tolist(), np.asfortranarray(GOOD), GOOD.astype(np.float32), GOOD[::1]])
def test_a_policy_in_another_form_is_taken(good: Any) -> None:
    history = fd.simulate(Stranger(policy=good, mixture=([1.0], [GOOD.tolist()])), CMDP, episodes=5, seed=2)
    plain = fd.simulate(Stranger(), CMDP, episodes=5, seed=2)
    assert (history.reward_gap == plain.reward_gap).all()


def test_a_policy_that_is_changed_afterwards_was_copied() -> None:
    mine = GOOD.copy()

    class Sly(Stranger):
        def observe(self, episode: fd.Episode) -> None:
            mine[:] = np.nan
            mine[:] = GOOD
            super().observe(episode)

    assert fd.simulate(Sly(policy=mine), CMDP, episodes=5).reward_gap.shape == (5,)


def test_check_learner_names_a_policy_that_is_no_distribution() -> None:
    class Odd(fd.FlexDOME):
        id = "odd"

        @property
        def policy(self) -> np.ndarray:
            return 2.0 * super().policy

    with pytest.raises(fd.FlexDOMEError, match=r"Odd.policy\[0, 0\] sums to 2"):
        fd.check_learner(Odd)
