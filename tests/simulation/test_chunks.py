"""How much of a run's random numbers is held at once: bounded, and without a trace in the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.simulation import run
from flexdome.simulation.randomness import Randomness
from runs import learned, same_history, small_cmdp


@pytest.mark.parametrize("kind", ["flexdome", "optcmdp", "optdual", "proxdome"])
def test_the_bytes_of_a_chunk_do_not_show(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cmdp = small_cmdp(noise="bernoulli")
    whole, cut = (fd.make_learner(kind, cmdp.problem(), episodes=50, seed=2) for _ in range(2))
    history = fd.simulate(whole, cmdp, seed=5)
    monkeypatch.setattr(run, "CHUNK_BYTES", 7 * Randomness(cmdp, 5).bytes_of_an_episode(False))
    assert same_history(history, fd.simulate(cut, cmdp, seed=5))
    assert learned(whole) == learned(cut)


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
@pytest.mark.parametrize("hide", [(), ("thresholds",)])
def test_the_random_numbers_held_at_once_are_bounded(
    noise: str, hide: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, held = 1 << 13, []
    uniforms, thresholds = Randomness.uniforms, Randomness.thresholds

    def counted(self: Randomness, first: int, count: int) -> Any:
        drawn = uniforms(self, first, count)
        held.append(sum(array.nbytes for array in drawn))
        return drawn

    def counted_too(self: Randomness, first: int, count: int) -> Any:
        drawn = thresholds(self, first, count)
        held[-1] += 2 * drawn.nbytes  # the uniforms that they are made of are as many
        return drawn

    monkeypatch.setattr(Randomness, "uniforms", counted)
    monkeypatch.setattr(Randomness, "thresholds", counted_too)
    monkeypatch.setattr(run, "CHUNK_BYTES", bound)
    cmdp = small_cmdp(H=9, noise=noise)
    learner = fd.FlexDOME(cmdp.problem(hide=hide), episodes=200)
    fd.simulate(learner, cmdp)
    assert bound / 2 < max(held) <= bound
    assert len(held) > 2


def test_one_episode_is_played_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CHUNK_BYTES", 1)
    cmdp = small_cmdp()
    assert np.isfinite(fd.simulate(fd.FlexDOME(cmdp.problem(), episodes=3), cmdp).reward_gap).all()


def test_a_long_horizon_with_many_constraints_stays_within_the_bound() -> None:
    """8,192 episodes of 1,000 steps with ten constraints would be 2.2 GB."""
    shape = fd.CMDP(
        np.ones((1, 1, 1)), np.ones((1, 1)), np.ones((10, 1, 1)), [fd.Threshold.normal(1.0, 0.1)] * 10, 0,
        horizon=1000, noise="bernoulli",
    )  # fmt: skip
    episode = Randomness(shape, 0).bytes_of_an_episode(False)
    assert 8192 * episode > 2e9
    assert episode < run.CHUNK_BYTES
