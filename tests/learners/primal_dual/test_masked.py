"""Actions that are not allowed: the primal-dual family against its twins, whose formulas are their own."""

from __future__ import annotations

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.seen.counts import most_actions
from naive_peers import TWINS
from runs import World, small_cmdp

OPTIONS = {"uopt-rpgpd": {"bonus_scale": 0.01}, "optprimaldual": {"policy_step": 0.3, "bonus_scale": 0.01}}
ALL = ("rewards", "utilities", "transitions")


def masked_cmdp(seed: int = 0, A: int = 4) -> fd.CMDP:
    """One to all of the actions in each state, by step; thresholds that are sampled."""
    return small_cmdp(seed, S=4, A=A, H=3, m=2, law="steps", noise="bernoulli", masked=True)


def agree(cmdp, learner, twin) -> None:
    """Both learn from the learner's episodes, agree after each, and play nothing that is forbidden."""
    world = World(cmdp, 3)
    for _ in range(learner.episodes):
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        np.testing.assert_allclose(learner.policy, twin.policy, rtol=0, atol=1e-9)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=0, atol=1e-9)
        assert (learner.policy[~cmdp.allowed] == 0.0).all()


@pytest.mark.parametrize("reveal", [(), ("rewards",), ("transitions",), ALL])
@pytest.mark.parametrize("name", list(TWINS))
def test_a_learner_and_its_twin_agree_under_a_mask(name, reveal):
    cmdp = masked_cmdp()
    problem = cmdp.problem(slater_gap=0.4, reveal=reveal)
    options = OPTIONS.get(name, {})
    learner = fd.make_learner(name, problem, episodes=60, **options)
    twin = TWINS[name](problem, episodes=60, **options)
    agree(cmdp, learner, twin)
    told = learner.beliefs()
    np.testing.assert_allclose([told.value, *told.utilities], twin.values(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("options", [{"unvisited": "optimistic"}, {"tuning": "practical"}, {"regularisation": False}])
def test_flexdome_in_its_other_forms_agrees_too(options):
    cmdp = masked_cmdp(seed=4, A=5)
    problem = cmdp.problem(slater_gap=0.4)
    learner = fd.FlexDOME(problem, episodes=80, **options)
    agree(cmdp, learner, TWINS["flexdome"](problem, episodes=80, **options))


def test_notebook_slips_agree_under_a_mask():
    cmdp = masked_cmdp(seed=2)
    problem = cmdp.problem(slater_gap=0.4)
    learner = fd.make_learner("uopt-rpgpd", problem, episodes=40, notebook_slips=True)
    agree(cmdp, learner, TWINS["uopt-rpgpd"](problem, episodes=40, notebook_slips=True))


@pytest.mark.parametrize("name", ["flexdome", "rpd-oe"])
def test_the_bonus_of_the_entropy_goes_with_the_most_actions_that_a_state_is_left_with(name):
    allowed = np.ones((3, 2, 5), dtype=bool)
    allowed[..., 3:] = False  # three of five
    allowed[1, 1, 2] = False
    problem = fd.Problem(2, 5, 3, [1.0, 0.0], [0.5], 0.4, allowed=allowed)
    bonus = fd.make_learner(name, problem, episodes=40).settings.form.bonus
    assert bonus[2] / bonus[1] == pytest.approx(1.0986122886681098, rel=1e-13)  # log 3


def test_a_mask_that_leaves_the_first_actions_is_the_smaller_problem():
    """Forbidding the last action everywhere is the CMDP without it, but for A in the logarithms of the bonus."""
    base = fd.make_cmdp("independent-v1", states=4, actions=3, horizon=3)
    wide = [np.concatenate([f, np.full_like(f[..., :1], 0.7)], axis=-1) for f in (base.rewards, base.utilities)]
    p = np.concatenate([base.transitions, base.transitions[:, :, :1]], axis=2)
    allowed = np.ones((3, 4, 4), dtype=bool)
    allowed[..., 3] = False
    masked = fd.CMDP(p, *wide, base.thresholds, base.initial, allowed=allowed)
    assert most_actions(masked.problem()) == 3
    options = {"episodes": 200, "bonus_scale": 0.0, "margin": False, "unvisited": "optimistic", "dual_bound": 5.0}
    one, other = (fd.FlexDOME(cmdp.problem(), **options) for cmdp in (base, masked))
    first, second = fd.simulate(one, base, seed=2), fd.simulate(other, masked, seed=2)
    np.testing.assert_allclose(first.reward_gap, second.reward_gap, rtol=0, atol=1e-9)
    np.testing.assert_allclose(first.multipliers, second.multipliers, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.policy, other.policy[..., :3], rtol=0, atol=1e-9)


def test_a_file_that_plays_or_counts_what_is_forbidden_is_refused(tmp_path):
    cmdp = masked_cmdp()
    learner = fd.FlexDOME(cmdp.problem(slater_gap=0.4), episodes=50)
    fd.simulate(learner, cmdp, episodes=30, seed=1)
    learner.save(tmp_path / "learner")
    again = fd.load_learner(tmp_path / "learner")
    assert (again.policy == learner.policy).all()
    again.restore(learner.state())
    state = learner.state()
    at = np.flatnonzero((state["pi"] == 0.0) & (state["n_visits"] == 0.0))[0]
    for name in ("pi", "n_visits"):
        bad = {**state, name: state[name].copy()}
        bad[name][at] = 1.0
        with pytest.raises(fd.ValidationError, match="not allowed"):
            again.restore(bad)
