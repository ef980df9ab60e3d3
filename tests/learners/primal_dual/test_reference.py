"""The readable twin: a few episodes beside the learner in every kind of setting, and numbers worked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.primal_dual.reference import NumpyFlexDOME
from runs import World, small_cmdp

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "as stated": ({}, {}, ()),
    "theory": ({}, {"tuning": "theory"}, ()),
    "practical": ({}, {"tuning": "practical", "bonus_scale": 0.02}, ()),
    "practical without a bonus": ({}, {"tuning": "practical"}, ()),
    "safe": ({}, {"tuning": "safe"}, ()),
    "small steps": ({}, {"step_scale": 0.8, "regularisation_scale": 0.9}, ()),
    "large steps": ({}, {"step_scale": 4.0, "regularisation_scale": 0.8}, ()),
    "optimistic": ({}, {"unvisited": "optimistic", "bonus_scale": 0.05}, ()),
    "plain": ({}, {"margin": False, "regularisation": False, "dual_bound": 0.3}, ()),
    "entropy": ({}, {"scale_entropy_bonus": False, "bonus_scale": 0.3}, ()),
    "own": ({}, {"schedules": fd.Schedules(lambda t: 0.5 / t, 0.3, [0.1, 0.4])}, ()),
    "sampled": ({"law": "steps"}, {"bonus_scale": 0.01}, ()),
    "masked": ({"masked": True}, {"bonus_scale": 0.05}, ()),
    "masked and optimistic": ({"masked": True}, {"unvisited": "optimistic"}, ()),
    "transitions": ({}, {"bonus_scale": 0.05, "unvisited": "optimistic"}, ("transitions",)),
    "rewards": ({}, {"bonus_scale": 0.05, "unvisited": "optimistic"}, ("rewards",)),
    "means": ({}, {"bonus_scale": 0.05}, ("rewards", "utilities")),
    "distribution": ({"initial": np.array([0.5, 0.2, 0.3])}, {"bonus_scale": 0.05}, ()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_few_episodes_beside_the_learner(case: str) -> None:
    kind, options, reveal = CASES[case]
    cmdp = small_cmdp(4, **{"S": 3, "A": 3, "H": 3, "m": 2, **kind})
    problem = cmdp.problem(reveal=reveal)
    options = {"episodes": 300, **options}
    learner, twin, world = fd.FlexDOME(problem, **options), NumpyFlexDOME(problem, **options), World(cmdp)
    for t in range(25):
        np.testing.assert_allclose(learner.policy, twin.policy, atol=1e-11)
        np.testing.assert_allclose(learner.multipliers, twin.lam, rtol=1e-11, atol=1e-13)
        if t % 8 == 0:
            told = learner.beliefs()
            np.testing.assert_allclose([told.value, *told.utilities], twin.values(), rtol=1e-11)
            np.testing.assert_allclose(told.thresholds, twin.alpha(), rtol=1e-12)
            np.testing.assert_allclose(told.margin, twin.schedule(twin.t)[2], rtol=1e-12)
            np.testing.assert_allclose(told.visits, twin.N)
            if not reveal:
                np.testing.assert_allclose(told.widths, twin.widths(), rtol=1e-12)
        episode = world.play(learner.policy)
        if t % 3 == 1:
            gone = np.array(episode.utilities)
            gone[t % 2, t % 3 :] = math.nan
            episode = fd.Episode(episode.states, episode.actions, episode.rewards, gone, episode.thresholds)
        learner.observe(episode)
        twin.observe(episode)


def test_the_twins_defaults_are_the_learners() -> None:
    problem = small_cmdp(4, S=3, A=3, H=3, m=2).problem()
    learner, twin = fd.FlexDOME(problem), NumpyFlexDOME(problem)
    np.testing.assert_allclose(learner.beliefs().widths, twin.widths(), rtol=1e-14)
    np.testing.assert_allclose(learner.beliefs().margin, twin.schedule(1)[2], rtol=1e-13)
    assert twin.dual_bound == pytest.approx(learner.settings.dual_bound, rel=1e-14)


def test_the_twins_bonuses_by_hand() -> None:
    problem = fd.Problem(3, 2, 4, 0, [1.0, 1.0], 0.5)
    twin = NumpyFlexDOME(problem, episodes=1000, delta=0.4, tuning="theory")
    assert twin.phi_r == pytest.approx(math.sqrt(math.log(2 * 3 * 2 * 4 * 3 * 1000 / 0.1) / 2), rel=1e-14)
    assert twin.phi_p == pytest.approx(4 * math.sqrt(6 + 2 * math.log(3 * 2 * 4 * 1000 / 0.1)), rel=1e-14)
    assert twin.phi_psi == pytest.approx(math.log(2) * twin.phi_p, rel=1e-14)
    assert twin.dual_bound == 32.0
    whole = NumpyFlexDOME(problem, episodes=1000, delta=0.4, bonus_scale=0.3, scale_entropy_bonus=False)
    assert whole.phi_psi == pytest.approx(twin.phi_psi, rel=1e-14)
    assert whole.phi_p == pytest.approx(0.3 * twin.phi_p, rel=1e-14)
    for t in (1, 7, 10**6):
        eta, tau, eps = twin.schedule(t)
        assert (eta, tau) == pytest.approx((t ** (-5 / 6), t ** (-1 / 6)), rel=1e-13)
        np.testing.assert_allclose(eps, fd.theory.theorem1(problem, 0.4).margin(t), rtol=1e-12)  # type: ignore[operator]


def test_the_twins_entropy_has_no_bonus_where_transitions_are_known() -> None:
    problem = small_cmdp(4, S=3, A=3, H=3, m=2).problem(reveal=("transitions",))
    _, values = NumpyFlexDOME(problem, tuning="theory").evaluate()
    assert values[-1] == pytest.approx(3 * math.log(3), rel=1e-14)


def test_the_twin_moves_as_far_as_it_is_told() -> None:
    twin = NumpyFlexDOME(fd.Problem(1, 2, 1, 0, [0.5], 0.5))
    twin.move(np.array([[[1000.0, 1000.0 + math.log(3.0)]]]))
    np.testing.assert_allclose(twin.policy, [[[0.25, 0.75]]], rtol=1e-12)


def test_the_twin_keeps_the_latest_sample_where_it_is_told() -> None:
    problem = fd.Problem(1, 1, 2, 0, [math.nan], 0.5)
    both = []
    for latest in (False, True):
        twin = NumpyFlexDOME(problem, episodes=10)
        twin.start(problem, optimistic=False, latest=latest)
        for samples in ([[0.2, 0.4]], [[0.9, math.nan]]):
            twin.record(fd.Episode([0, 0, 0], [0, 0], [0.5, 0.5], [[0.5, 0.5]], np.array(samples)))
        both.append(float(twin.alpha()[0]))
    assert both == pytest.approx([0.5, 0.9])
