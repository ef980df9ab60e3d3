"""The verdict on one trial of ProxDOME's plan, and which of two trials is better: each rule on both of its sides."""

from __future__ import annotations

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners.proximal.dual_kernels import better, move, start_search
from flexdome.learners.proximal.plan_kernels import BEYOND, PLAYED, after_plan
from flexdome.learners.proximal.sweep_kernels import Scene, Verdict, judge
from runs import small_cmdp

WIDTH = np.array([0.5, 0.25])


def verdict(slack, lam=(0.0, 0.0), errors=(0.0, 0.0), ceiling=8.0, margin=0.0) -> Verdict:
    """What is said of a policy with that slack before its margin; the errors are squared standard errors."""
    learner = fd.ProxDOME(small_cmdp(3, 3, 2, 3, m=2).problem(slater_gap=0.1), margin_scale=margin)
    core, own = learner.model.core, learner.own
    core.policy.lam[:], own.scales.width[:], own.dual.error[:], own.dual.luck[:] = lam, WIDTH, 0.0, 0.0
    own.report.thresholds[:], own.report.errors[:] = 1.0, errors
    own.report.utilities[:] = 1.0 + np.array(slack)
    return Verdict(*judge(core, own, learner.settings, learner.choices, Scene(0.1, 2.0, ceiling, False)))


def test_a_policy_above_its_thresholds_is_short_by_nothing():
    assert verdict([0.5, 0.25]) == Verdict(True, True, 0.0, 0.0, False)


def test_exactly_at_its_thresholds_a_policy_is_safe_and_settled():
    assert verdict([0.0, 0.0], [1.0, 1.0]) == Verdict(True, True, 0.0, 0.0, False)


def test_what_is_short_is_told_in_widths():
    assert verdict([-0.25, -0.25]) == Verdict(False, False, 1.0, 1.0, False)


def test_above_a_threshold_a_multiplier_must_be_zero():
    assert verdict([0.25, 0.25], [0.0, 1.0]) == Verdict(False, True, 0.0, 1.0, False)
    assert verdict([0.25, 0.5], [1.0, 1.0]) == Verdict(False, True, 0.0, 2.0, False)


def test_the_tolerance_is_a_twentieth_of_half_of_z_errors_at_least():
    # z = 2, sqrt(0.25) = 0.5: near is 0.05 * 0.5 * 2 * 0.5 = 0.025, without a margin
    assert verdict([-0.0249, 1.0], errors=[0.25, 0.0]).safe
    assert not verdict([-0.0251, 1.0], errors=[0.25, 0.0]).safe
    assert verdict([0.0249, 1.0], [1.0, 0.0], errors=[0.25, 0.0]).done
    assert not verdict([0.0251, 1.0], [1.0, 0.0], errors=[0.25, 0.0]).done
    # with c_margin = 2 the margin is 2 * 2 * 0.5 = 2 and near is 0.1
    assert verdict([1.9001, 3.0], errors=[0.25, 0.0], margin=2.0).safe
    assert not verdict([1.8999, 3.0], errors=[0.25, 0.0], margin=2.0).safe


def test_multipliers_are_at_their_ceiling_when_their_sum_in_widths_is():
    assert verdict([-0.5, -0.25], [8.0, 16.0]) == Verdict(True, False, 1.0, 0.0, True)  # both by one width
    assert verdict([-0.5, -0.5], [8.0, 16.0]) == Verdict(False, False, 2.0, 1.0, True)
    exact = 1.0 - 1e-9
    assert verdict([-0.5, -0.5], [16.0 * exact, 0.0]).full
    assert not verdict([-0.5, -0.5], [15.999, 0.0]).full
    assert verdict([0.5, 0.25], [8.0, 16.0]) == Verdict(False, True, 0.0, 1.0, True)  # safe: nothing is allowed for


@pytest.mark.parametrize("above", [0.0, 0.049, 0.0505])
def test_at_the_ceiling_the_tolerance_is_twice_as_large(above):
    # near is 0.025 for the first utility: 0.05 widths, and 0.1 where the ceiling is reached
    said = verdict([-0.5 + above, -0.25], [8.0, 16.0], errors=[0.25, 0.0])
    assert said.done == (above < 0.05)


TRIED = start_search()._replace(safe=False, short=1.0, residual=2.0)


@pytest.mark.parametrize(
    ("before", "seen", "wins"),
    [
        (start_search(), (False, 9.0, 9.0), True),
        (TRIED, (True, 9.0, 9.0), True),
        (TRIED._replace(safe=True), (False, 0.0, 0.0), False),
        (TRIED, (False, 0.999, 9.0), True),
        (TRIED, (False, 1.0 - 1e-9, 2.0), False),
        (TRIED, (False, 1.0 - 0.9e-9, 2.0), False),
        (TRIED, (False, 1.0 - 1.1e-9, 9.0), True),
        (TRIED, (False, 1.0, 1.999), True),
        (TRIED, (False, 1.0, 2.0 - 2e-9), False),
        (TRIED, (False, 1.0, 2.0 - 1.8e-9), False),
        (TRIED, (False, 1.0, 2.0 - 2.2e-9), True),
        (TRIED, (False, 1.001, 0.0), False),
    ],
)
def test_a_trial_is_better_that_is_safe_then_less_short_then_nearer(before, seen, wins):
    safe, short, residual = seen
    assert better(before, Verdict(False, safe, short, residual, False)) == wins


@pytest.mark.parametrize(
    ("g", "step", "bracket", "lam", "after"),
    [
        (1.0, 3.0, (-np.inf, np.inf), 1.0, (-np.inf, 2.0)),  # beyond what is enough: half way to nothing
        (1.0, -0.5, (-np.inf, np.inf), 1.5, (-np.inf, 2.0)),
        (-1.0, -3.0, (-np.inf, np.inf), 9.0, (2.0, np.inf)),  # half way to the ceiling, 8 / 0.5
        (-1.0, 0.5, (-np.inf, 2.25), 2.125, (2.0, 2.25)),
        (-1.0, 9.0, (-np.inf, np.inf), 4.2, (2.0, np.inf)),  # a tenth of 1 / 0.5, and as much as it is, at most
        (1.0, -9.0, (0.5, np.inf), 1.25, (0.5, 2.0)),
    ],
)
def test_the_multiplier_of_one_constraint_stays_between_what_is_too_little_and_what_is_enough(
    g, step, bracket, lam, after
):
    learner = fd.ProxDOME(small_cmdp(3, 3, 2, 3).problem(slater_gap=0.1))
    core, own = learner.model.core, learner.own
    core.policy.lam[:], own.scales.width[:], own.dual.g[:], own.dual.step[:] = 2.0, 0.5, g, step
    assert move(core, own, learner.choices, Scene(0.1, 2.0, 8.0, False), *bracket) == after
    assert core.policy.lam.tolist() == pytest.approx([lam])
    assert own.dual.last.tolist() == [2.0]


@pytest.mark.parametrize(
    ("seen", "under", "stage"),
    [
        (Verdict(True, True, 0.0, 0.0, False), 0.5, PLAYED),
        (Verdict(False, True, 0.0, 1.0, False), 0.5, BEYOND),
        (Verdict(False, True, 0.0, 1.0, False), np.inf, PLAYED),  # no trial was short: there is nothing beyond
    ],
)
def test_a_plan_shown_safe_and_not_settled_is_mixed_with_the_one_beyond_it_if_there_is_one(seen, under, stage):
    learner = fd.ProxDOME(small_cmdp(3, 3, 2, 3, m=2).problem(slater_gap=0.1))
    core, own = learner.model.core, learner.own
    core.policy.lam[:], own.dual.under[:] = [1.0, 2.0], [0.5, 0.25]
    scene = Scene(0.1, 2.0, 8.0, False)
    assert after_plan(core, own, learner.settings, learner.choices, scene, False, seen, under) == stage
    assert core.policy.lam.tolist() == ([0.5, 0.25] if stage == BEYOND else [1.0, 2.0])
    assert own.dual.plan.tolist() == [1.0, 2.0]
    assert own.report.solved[0] == float(seen.done)
