"""What ProxDOME tells of its last plan: its status, and what it held to be true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flexdome.learners.base import Beliefs
from flexdome.learners.proximal.nearest import nearest_of
from flexdome.learners.proximal.status import Status
from flexdome.learners.proximal.sweep_kernels import EXACTLY, TOLERANCE

if TYPE_CHECKING:
    from flexdome.learners.proximal.proxdome import ProxDOME

__all__ = ["beliefs_of", "status_of"]


def status_of(learner: ProxDOME) -> Status:
    """Why the policy of the next episode was taken."""
    own, report = learner.own, learner.own.report
    z = np.sqrt(max(np.log(learner.episode + own.logged[0] + 2.0), learner.choices.least))
    nearest = None if report.safe[0] else nearest_of(learner, float(z))
    return Status(
        episode=learner.episode + 1,
        utilities=report.utilities.copy(),
        errors=report.errors.copy(),
        margin=report.margin.copy(),
        thresholds=report.thresholds.copy(),
        multipliers=learner.multipliers,
        trials=int(report.trials[0]),
        untried=int(report.untried[0]),
        solved=bool(report.solved[0]),
        ceiling=bool(report.ceiling[0]),
        share=float(report.share[0]),
        weight=float(report.weight[0]),
        first_tries=float(report.first[0]),
        played=own.judged.copy(),
        below=own.below.copy(),
        infeasible=_infeasible(learner) if nearest is None else not nearest.met,
        nearest=nearest,
        units=learner.problem.units,
        tolerance=np.maximum(
            TOLERANCE * (max(learner.choices.margin, 0.5) * z * report.errors),
            EXACTLY * learner.problem.horizon * own.scales.width if learner.settings.revealed else 0.0,
        ),
    )


def _infeasible(learner: ProxDOME) -> bool:
    """Whether even the plan that aims at the utilities alone is short, margins on its side and not against it.

    What is said of a model that is too large for :func:`flexdome.learners.proximal.nearest.nearest_of`. With lam at its
    ceiling every policy has lam . V_d <= lam . (U + eps) up to what the plan gives away for reward (H b_0) and entropy
    (H tau log A), where next to nothing is untried.
    """
    report, H = learner.own.report, learner.problem.horizon
    if report.safe[0] or not report.ceiling[0] or report.share[0] < 1.0 or report.first[0] > 0.01:
        return False
    reach = learner.multipliers @ (report.utilities + report.margin - report.thresholds)
    given_away = H * (learner.choices.reward + float(report.temperature[0]) * np.log(learner.problem.actions))
    return bool(reach + given_away < 0.0)


def beliefs_of(learner: ProxDOME) -> Beliefs:
    """What the learner held to be true of the policy it is about to play when it planned it."""
    report, problem = learner.own.report, learner.problem
    counts, W, base = learner.model.core.counts, learner.model.W, learner.model.core.work.base
    rest = np.arange(problem.horizon, 0, -1.0)[:, None, None] - 1.0
    reward, utilities = learner.choices.reward, float(learner.multipliers @ learner.own.scales.top)
    most = reward * (problem.rewards is None) + utilities * (problem.utilities is None) + 0.0 * rest
    if problem.transitions is None:
        most = most + (reward + utilities) * rest
    data = learner.model.by_state(counts.n_visits, 0.0)
    added = base.reshape(-1, W)[:, 0] - base.reshape(-1, W)[:, problem.constraints + 1]
    return Beliefs(
        value=float(report.value[0]),
        utilities=report.utilities.copy(),
        thresholds=report.thresholds.copy(),
        margin=report.margin.copy(),
        widths=np.where((data > 0) & (not learner.choices.certain), learner.model.by_state(added, 0.0), most),
        visits=learner.visits,
    )
