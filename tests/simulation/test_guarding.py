"""A guard's runner plays many episodes at once; what comes of it is what ``observe`` makes of them one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.cmdp.episode import Made
from flexdome.learners import Learner
from flexdome.learners.guarded.guard import Guarded
from flexdome.simulation.runners import OBSERVED, runner_of
from flexdome.simulation.runners.guarded import TOGETHER, Guarding
from flexdome.simulation.runners.observed import Observed

INSIDE: dict[str, dict[str, Any]] = {
    "flexdome": {"tuning": "practical"},
    "anchordome": {},
    "proxdome": {},
    "optcmdp-bonus": {"tuning": "practical", "replan": 1.5},
}
EPISODES = 700  # more than are played at once, and candidates that are looked at


class OneByOne(Guarded):
    runner = OBSERVED


class SureOneByOne(fd.SureDOME):
    runner = OBSERVED


class Stops(fd.FlexDOME):
    """A learner whose ``observe`` fails in one episode, once."""

    at = -1

    def observe(self, episode: fd.Episode) -> None:
        if self.episode == self.at:
            self.at = -1
            raise KeyboardInterrupt
        super().observe(episode)


class Forgets(fd.FlexDOME):
    def observe(self, episode: fd.Episode) -> None:
        self.checked_episode(episode)


class Negative(fd.FlexDOME):
    @property
    def policy(self) -> Any:
        pi = np.array(super().policy)
        pi[0, 0, :2] = -1.0, 2.0
        return pi


def world(family: str) -> tuple[fd.CMDP, fd.SafePolicy]:
    cmdp = fd.make_cmdp(family, seed=2)
    return cmdp, fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))


def bits(learner: Learner) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in learner.state().items()}


@pytest.mark.parametrize("family", ["media-v1", "multi-v1", "rare-costs-v1"])
@pytest.mark.parametrize("inside", INSIDE)
def test_a_run_of_a_guard_has_the_bits_of_observe(inside: str, family: str) -> None:
    cmdp, safe = world(family)
    made = [
        kind(cmdp.problem(), EPISODES, seed=1, inside=inside, options=INSIDE[inside], safe_policy=safe)
        for kind in (Guarded, OneByOne)
    ]
    assert [runner_of(one) for one in made] == [Guarding, Observed]
    one, other = (fd.simulate(learner, cmdp, seed=4) for learner in made)
    for name in ("reward_gap", "violation", "multipliers", "realised"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert bits(made[0]) == bits(made[1])
    assert made[0].ledger.frozen > 3
    assert ((0.0 <= one.diagnostics["weight"]) & (one.diagnostics["weight"] <= 1.0)).all()


@pytest.mark.parametrize("family", ["media-v1", "multi-v1"])
def test_a_run_of_suredome_has_the_bits_of_observe(family: str) -> None:
    """Totals are added in order in both; Python's own sum carries what is lost along from 3.12 on."""
    cmdp, safe = world(family)
    made = [kind(cmdp.problem(), 400, seed=1, safe_policy=safe) for kind in (fd.SureDOME, SureOneByOne)]
    one, other = (fd.simulate(learner, cmdp, seed=4) for learner in made)
    np.testing.assert_array_equal(one.realised, other.realised)
    assert bits(made[0]) == bits(made[1])


LAWS: dict[str, tuple[list[fd.Threshold], dict[str, Any]]] = {
    "one, in a range": ([fd.Threshold.uniform(0.3, 1.1)], {"threshold_range": (0.3, 1.1)}),
    "one, in [0, H]": ([fd.Threshold.bernoulli(0.3, 4.0)], {}),
    "one, normal": ([fd.Threshold.normal(1.0, 0.5)], {"threshold_scale": 0.5}),
    "two of three, of two kinds": (
        [fd.Threshold.normal(0.8, 0.4, per="step"), fd.Threshold.fixed(0.7), fd.Threshold.uniform(0.4, 0.9)],
        {"threshold_range": [(np.nan, np.nan), (np.nan, np.nan), (0.4, 0.9)], "threshold_scale": [0.4, np.nan, np.nan]},
    ),
}  # fmt: skip


def drawn(laws: list[fd.Threshold]) -> tuple[fd.CMDP, fd.SafePolicy]:
    """Utilities that leave room for thresholds that are learned from samples; episodes of nine steps."""
    rng = np.random.default_rng(5)
    rows, rewards = rng.dirichlet(np.ones(4), size=(4, 3)), rng.uniform(0.0, 1.0, (4, 3))
    utilities = np.stack([rng.uniform(0.0, 1.0, (4, 3)) for _ in laws])
    cmdp = fd.CMDP(rows, rewards, utilities, laws, 0, horizon=9)
    return cmdp, fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp))


@pytest.mark.parametrize("laws", LAWS)
@pytest.mark.parametrize("inside", [None, "flexdome", "proxdome"])
def test_a_run_has_the_bits_of_observe_where_thresholds_are_sampled(
    inside: str | None, laws: str, tmp_path: Path
) -> None:
    """Also where a run is cut in two: the sequences of the thresholds are counted with the episodes."""
    samples, declared = LAWS[laws]
    cmdp, safe = drawn(samples)
    common: dict[str, Any] = {"safe_policy": safe, "delta": 0.3, "seed": 1, **declared}
    kinds: tuple[Any, Any] = (fd.SureDOME, SureOneByOne)
    if inside is not None:
        kinds, common = (Guarded, OneByOne), common | {"inside": inside}
    one, other, cut = (kind(cmdp.problem(), 600, **common) for kind in (*kinds, kinds[0]))
    first, second = (fd.simulate(learner, cmdp, seed=4) for learner in (one, other))
    for name in ("reward_gap", "violation", "multipliers", "realised"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert bits(one) == bits(other)
    fd.simulate(cut, cmdp, episodes=257, seed=4)
    fd.simulate(cut, cmdp, episodes=343, seed=4)
    assert bits(cut) == bits(one)
    assert (one.thresholds < cmdp.horizon).all()  # what was sampled says something,
    assert np.unique(first.diagnostics["weight"]).size > 2  # and mixtures follow it
    assert one.thresholds.tolist() == other.thresholds.tolist()
    one.save(tmp_path / "learner.npz")
    again = fd.load_learner(tmp_path / "learner.npz")
    assert bits(again) == bits(one)
    assert again.options() == one.options()
    np.testing.assert_array_equal(again.thresholds, one.thresholds)  # type: ignore[attr-defined]


@pytest.mark.parametrize("inside", [None, "flexdome"])
def test_a_sample_outside_of_what_was_declared_is_refused_whole(inside: str | None) -> None:
    cmdp, safe = drawn([fd.Threshold.normal(1.0, 0.5)])
    common: dict[str, Any] = {"safe_policy": safe, "threshold_range": (-0.5, 2.5)}
    learners: list[Any] = [kind(cmdp.problem(), 5000, **common) for kind in (fd.SureDOME, SureOneByOne)]
    if inside is not None:
        learners = [kind(cmdp.problem(), 5000, inside=inside, **common) for kind in (Guarded, OneByOne)]
    said = []
    for learner in learners:
        with pytest.raises(fd.ValidationError, match=r"threshold_range says that samples lie in \[-0\.5, 2\.5\]") as e:
            fd.simulate(learner, cmdp, seed=0)
        said.append(str(e.value))
    assert said[0] == said[1]
    assert 50 < learners[0].episode == learners[1].episode < 5000
    assert bits(learners[0]) == bits(learners[1])


def test_a_run_that_is_interrupted_goes_on_as_if_it_had_not_been() -> None:
    cmdp, safe = world("media-v1")
    whole, cut = (fd.Guard(Stops(cmdp.problem(), episodes=EPISODES), safe) for _ in range(2))
    fd.simulate(whole, cmdp, seed=4)
    cut.learner.at = TOGETHER + 33  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        fd.simulate(cut, cmdp, seed=4)
    assert cut.episode == cut.learner.episode == TOGETHER + 33
    fd.simulate(cut, cmdp, seed=4)
    assert cut.episode == EPISODES
    assert bits(cut) == bits(whole)


def test_what_the_learner_inside_hands_over_is_looked_at() -> None:
    cmdp, safe = world("media-v1")
    with pytest.raises(
        fd.ValidationError, match=r"Guarded.mixture\[1\]\[.*is -1\.0; a probability must not be negative"
    ):
        fd.simulate(fd.Guard(Negative(cmdp.problem(), episodes=50), safe), cmdp)
    with pytest.raises(fd.ValidationError, match=r"Forgets.episode is 0 after 50 episodes; it must count each"):
        fd.simulate(fd.Guard(Forgets(cmdp.problem(), episodes=50), safe), cmdp)


def test_an_episode_that_refutes_what_was_promised_is_refused_whole() -> None:
    cmdp, _ = world("media-v1")
    lie = fd.SafePolicy(fd.baselines(cmdp).best[0], cmdp.alpha + 0.5)  # earns most, and is not safe
    learner = fd.Guard(fd.FlexDOME(cmdp.problem(), episodes=5000), lie)
    with pytest.raises(fd.ValidationError, match=r"safe_policy.utilities\[0\] is .*less than what was promised"):
        fd.simulate(learner, cmdp, seed=0)
    assert 0 < learner.episode < 5000
    assert learner.episode == learner.learner.episode
    assert learner.visits.sum() == learner.episode * cmdp.horizon


def test_what_a_simulation_made_is_still_held_against_the_problem() -> None:
    cmdp, _ = world("media-v1")
    problem = cmdp.problem()
    log = fd.play(problem.uniform, cmdp, episodes=1)
    arrays = [np.array(part) for part in (log.states[0], log.actions[0], log.observed[0, 0], log.observed[0, 1:])]
    for one, other in zip(Made(*arrays).checked(problem), fd.Episode(*arrays).checked(problem), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    never = int(np.flatnonzero(problem.initial == 0.0)[0])
    arrays[0][0] = never
    with pytest.raises(fd.ValidationError, match=rf"states\[0\] is {never}; the problem says that no episode begins"):
        Made(*arrays).checked(problem)
