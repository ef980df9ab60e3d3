"""AnchorDOME: against its slow twin, in files, and at its fixed point."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.learners.primal_dual.anchordome import AnchorDOME
from flexdome.simulation import run
from naive_peers import NaiveAnchor
from runs import LAWS, Observed, World, compiled_and_plain, in_pieces, learned, problem_of, same_history, small_cmdp
from strategies import SEEDS, cmdps


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"m": 3},
        {"law": "hidden"},
        {"law": "steps", "m": 2, "noise": "bernoulli"},
        {"initial": np.array([0.5, 0.0, 0.3, 0.2, 0.0])},
    ],
)
def test_the_learner_follows_its_twin(options: dict[str, Any]) -> None:
    cmdp = small_cmdp(3, **{"fraction": 1.02, **options})
    problem = problem_of(cmdp, options.get("law", "known"))
    learner, twin = (of(problem, margin_scale=0.5, regularisation=0.7) for of in (AnchorDOME, NaiveAnchor))
    world = World(cmdp)
    for _ in range(300):
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        assert np.abs(learner.policy - twin.policy).max() < 1e-9
        assert np.abs(learner.multipliers - twin.lam).max() < 1e-9


# -- one run, whatever way it is run --------------------------------------------------------------------


def rich(law: str = "steps", **options: Any) -> fd.CMDP:
    """Every stream of random numbers is used."""
    return small_cmdp(5, **{"m": 2, "law": law, "noise": "bernoulli", "initial": np.full(5, 0.2), **options})


def anchored(cmdp: fd.CMDP, law: str = "known", **options: Any) -> AnchorDOME:
    return AnchorDOME(problem_of(cmdp, law), **{"episodes": 300, "anchor_rate": 0.05, **options})


def same_run(cmdp: fd.CMDP, law: str = "known", seed: int = 3, **options: Any) -> bool:
    """Whether simulation leaves the bits that observing the same episodes does."""
    fast, slow = anchored(cmdp, law, **options), anchored(cmdp, law, **options)
    history, other = fd.simulate(fast, cmdp, seed=seed), fd.simulate(Observed(slow), cmdp, seed=seed)
    np.testing.assert_allclose(history.reward_gap, other.reward_gap, atol=1e-12)
    np.testing.assert_allclose(history.violation, other.violation, atol=1e-12)
    return learned(fast) == learned(slow) and history.multipliers.tobytes() == other.multipliers.tobytes()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("options", [{}, {"anchor_rate": 0.0}, {"regularisation": 0.0}, {"bonus_scale": 0.03}], ids=str)
def test_observe_is_simulate_bit_for_bit(options: dict[str, Any], law: str) -> None:
    assert same_run(rich(law), law, **options)


@pytest.mark.parametrize(
    "options",
    [{"S": 1, "A": 1, "H": 1}, {"A": 1}, {"S": 17}, {"sparse": True}, {"stationary": True}, {"m": 6}],
    ids=str,
)
def test_observe_is_simulate_on_every_kind_of_model(options: dict[str, Any]) -> None:
    assert same_run(small_cmdp(4, **options))


@settings(max_examples=20)
@given(cmdp=cmdps(laws=True), seed=SEEDS)
def test_observe_is_simulate_on_any_cmdp(cmdp: fd.CMDP, seed: int) -> None:
    assert same_run(cmdp, seed=seed, episodes=40)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 120), max_size=4), every=st.integers(1, 7), law=st.sampled_from(LAWS))
def test_a_run_in_pieces_has_the_bits_of_the_whole(cuts: list[int], every: int, law: str) -> None:
    cmdp = rich(law)
    whole, pieces = (anchored(cmdp, law, episodes=120) for _ in range(2))
    options: dict[str, Any] = {"seed": 9, "evaluate_every": every, "snapshots": (1, 2, 60, 120, 121)}
    at_once = fd.simulate(whole, cmdp, **options)
    assert same_history(at_once, in_pieces(pieces, cmdp, cuts, 120, **options))
    assert learned(whole) == learned(pieces)


def test_the_chunks_of_a_run_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    cmdp = rich()
    large, small = anchored(cmdp), anchored(cmdp)
    history = fd.simulate(large, cmdp)
    monkeypatch.setattr(run, "CHUNK", 7)
    assert same_history(history, fd.simulate(small, cmdp))
    assert learned(large) == learned(small)


def test_a_pool_that_grows_on_the_way_does_not_show() -> None:
    cmdp = small_cmdp(S=40, A=2, H=5)
    grown, roomy = anchored(cmdp), anchored(cmdp)
    roomy.model.reserve(10_000)
    size = grown.model.core.counts.pool_cell.size
    for learner in (grown, roomy):
        fd.simulate(learner, cmdp, episodes=1000)
    assert grown.model.core.counts.pool_cell.size > 2 * size
    assert learned(grown) == learned(roomy)


def test_a_subclass_with_methods_of_its_own_is_run_through_them() -> None:
    class Counting(AnchorDOME):
        seen = 0

        def observe(self, episode: fd.Episode) -> None:
            self.seen += 1
            super().observe(episode)

    class Uniform(AnchorDOME):
        @property
        def policy(self) -> np.ndarray:
            return np.full((4, 5, 3), 1 / 3)

    class Priced(AnchorDOME):
        @property
        def multipliers(self) -> np.ndarray:
            return np.full(2, 7.0)

    cmdp = rich()
    counting, plain = Counting(cmdp.problem(), episodes=50), AnchorDOME(cmdp.problem(), episodes=50)
    for learner in (counting, plain):
        fd.simulate(learner, cmdp)
    assert counting.seen == 50
    assert learned(counting) == learned(plain)
    history = fd.simulate(Uniform(cmdp.problem(), episodes=50), cmdp)
    assert np.ptp(history.reward_gap) == 0.0
    assert (fd.simulate(Priced(cmdp.problem(), episodes=5), cmdp).multipliers == 7.0).all()


def test_the_learner_is_the_same_with_compilation_off(tmp_path: Path) -> None:
    code = """
        import sys, numpy as np, flexdome as fd
        from runs import small_cmdp
        cmdp = small_cmdp(m=2, law="steps", S=3, A=2, H=3, noise="bernoulli")
        learner = fd.make_learner("anchordome", cmdp.problem(), episodes=40)
        history = fd.simulate(learner, cmdp)
        parts = learner.policy.ravel(), learner.multipliers, history.reward_gap, *history.diagnostics.values()
        np.save(sys.argv[1], np.concatenate([part.ravel() for part in parts]))
    """
    compiled, plain = compiled_and_plain(code, tmp_path)
    np.testing.assert_allclose(compiled, plain, rtol=0, atol=1e-9)


def test_a_saved_learner_continues_bit_for_bit(tmp_path: Path) -> None:
    cmdp = small_cmdp(5, m=2, law="steps")
    learner = AnchorDOME(cmdp.problem(), episodes=300, anchor_rate=0.05)
    learner.preload([World(cmdp, 2).play(np.full((4, 5, 3), 1 / 3)) for _ in range(7)])
    fd.simulate(learner, cmdp, episodes=40)
    learner.save(tmp_path / "learner")
    loaded = fd.load_learner(tmp_path / "learner")
    assert learned(loaded) == learned(learner)
    assert same_history(*(fd.simulate(x, cmdp, episodes=40) for x in (learner, loaded)))
    assert learned(loaded) == learned(learner)


def test_the_multipliers_of_the_anchor_lie_in_the_box() -> None:
    learner = fd.make_learner("anchordome", fd.Problem(2, 2, 2, 0, [0.5], 0.5))  # the box is 4 H / gap = 16
    for taken in (0.0, 16.0):
        learner.restore({**learner.state(), "anchor_lam": np.array([taken])})
        assert learner.state()["anchor_lam"].tolist() == [taken]
    for refused in (-5e-324, np.nextafter(16.0, 17.0)):
        with pytest.raises(fd.ValidationError, match="anchor_lam"):
            learner.restore({**learner.state(), "anchor_lam": np.array([refused])})


def test_the_anchor_lets_the_policy_reach_the_optimum_without_fading_regularisation() -> None:
    p = np.zeros((2, 3, 2, 3))
    p[0, 0, 0, 1] = p[0, 0, 1, 2] = p[0, 1, :, 0] = p[0, 2, :, 0] = 1.0
    p[1, :, :, 0] = 1.0
    r, d = np.zeros((2, 3, 2)), np.zeros((1, 2, 3, 2))
    r[1, 1], d[0, 1, 2] = 1.0, 1.0
    cmdp = fd.CMDP(p, r, d, [0.4], 0)  # the optimum is 0.6, lam* = 1
    learner = AnchorDOME(cmdp.problem(), episodes=6000, margin_scale=1.0)
    fd.simulate(learner, cmdp, evaluate_every=1000)
    assert learner.policy[0, 0, 1] == pytest.approx(0.4, abs=0.05)
    assert learner.multipliers[0] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("options", [{"anchor_rate": 2.0}, {"step_size": -1.0}, {"margin_scale": math.nan}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(fd.ValidationError, match=next(iter(options))):
        AnchorDOME(fd.make_cmdp("media-v1").problem(), **options)


@pytest.mark.parametrize("bad", [None, 3, [3]])
def test_a_log_that_holds_no_episodes_is_refused(bad: Any) -> None:
    learner = AnchorDOME(fd.make_cmdp("media-v1").problem())
    with pytest.raises(fd.ValidationError, match=r"series of Episodes|must be an Episode"):
        learner.preload(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regularisation": -0.5}, "regularisation is -0.5; it must be at least 0"),
        ({"step_size": 1.0, "regularisation": 1.5}, "regularisation is 1.5; their product must not exceed 1"),
    ],
)
def test_an_option_is_refused_by_its_own_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fd.ValidationError, match=message):
        fd.make_learner("anchordome", fd.make_cmdp("paper-v1").problem(), **options)
