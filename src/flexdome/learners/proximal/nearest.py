"""Whether any policy meets the thresholds, as far as the data show: asked with the status, and not in planning.

The empirical model with everything that is still possible where nothing was tried (Q = top rem) is planned on for the
utilities alone: the policy with the largest smallest slack, in widths b_i (:func:`flexdome.planning.slater_gap` has the
same program). It is taken twice, as the means are and with the best they may be, ::

    d^_i + c_margin z sqrt(s2_i / H),

the mirror image of the plan with what was tried alone. No policy meets the thresholds, as far as the data show, where
the second is short too, and the first with c_margin z of its own standard errors on its side; estimated thresholds are
as low as their errors allow. c_margin is that of all caution. One constraint takes two backward sweeps, more take some
ten each: milliseconds, and a tenth of a second at MOST transitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from flexdome.cmdp.assembly import NO_SUCCESSORS, Model
from flexdome.cmdp.mask import kernel_mask
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError
from flexdome.learners.seen.dense import dense
from flexdome.planning.decomposition import largest_slack

if TYPE_CHECKING:
    from flexdome.learners.proximal.proxdome import ProxDOME

__all__ = ["MOST", "Nearest", "nearest_of"]

MOST = 1_000_000  # transitions H S A S that are looked at
CAUTION = 1.3  # c_margin
SHARED = 1e-6  # the weight of a constraint in the largest smallest slack that counts


class Nearest(NamedTuple):
    """The policy with the largest smallest slack: what it is estimated to bring, and what stands in each other's way.

    ``met``: whether some policy may meet the thresholds, as far as the data show.
    """

    met: bool
    utilities: Float  # (m,)
    errors: Float  # (m,)
    constraints: tuple[int, ...]


def nearest_of(learner: ProxDOME, z: float) -> Nearest | None:
    """None where the model is too large to be looked at."""
    problem, model, own, core = learner.problem, learner.model, learner.own, learner.model.core
    H, S, A = model.shape
    if H * S * A * S > MOST:
        return None
    m, W, width, top = problem.constraints, model.W, own.scales.width, own.scales.top
    rem = np.broadcast_to(np.arange(H, 0, -1.0)[:, None, None], (H, S, A))
    seen = dense(model, shares=True, counted=problem.transitions is None)
    tried, p = seen.visits > 0.0, seen.following if problem.transitions is None else problem.transitions
    rest = 0.0 if problem.transitions is not None else rem - 1.0
    means, s2 = np.empty((m, H, S, A)), np.empty((m, H, S, A))
    for i in range(m):
        known = None if problem.utilities is None else problem.utilities[i]
        mean = model.by_state(core.work.base.reshape(-1, W)[:, 1 + i], 0.0) if known is None else known
        sampled = seen.samples[1 + i] > 0.0 if known is None else tried
        hoped = (top[i] if known is None else known) + np.where(tried, 0.0, top[i] * rest)
        means[i] = np.where(sampled, mean, hoped) / width[i]
        s2[i] = np.where(sampled, model.by_state(own.s2[i], 0.0), 0.0) / width[i] ** 2
    alpha, error = _thresholds(learner, z)
    mask, mu = kernel_mask(problem.allowed), _initial(learner)
    empirical = Model(np.ascontiguousarray(p), NO_SUCCESSORS, np.concatenate([0.0 * means[:1], means]), mu)
    hopeful = means + CAUTION * z * np.sqrt(s2 / H)
    try:
        plain = largest_slack(empirical, alpha / width, mask)
        most = largest_slack(empirical._replace(f=np.concatenate([0.0 * means[:1], hopeful])), alpha / width, mask)
    except ConvergenceError:
        return None
    x = plain.occupancy(empirical)
    if learner.choices.shared:
        errors = np.sqrt(((x * np.sqrt(s2)).sum(axis=1) ** 2).sum(axis=(1, 2)))
    else:
        errors = np.sqrt((x**2 * s2).sum(axis=(1, 2, 3)))
    weights = plain.multipliers
    met = most.value >= 0.0 or float(weights @ (plain.values[1:] + CAUTION * z * errors - alpha / width)) >= 0.0
    against = tuple(int(i) for i in np.flatnonzero(weights > SHARED))
    return Nearest(met, plain.values[1:] * width, np.hypot(errors * width, error), against)


def _thresholds(learner: ProxDOME, z: float) -> tuple[Float, Float]:
    """(m,) the thresholds, where they are estimated as low as they may be, and their standard errors."""
    counts, own, H = learner.model.core.counts, learner.own, learner.problem.horizon
    n, most = counts.alpha_count / H, own.scales.top * H
    error = np.where(n > 0.0, (own.m2_alpha + most**2 / 12.0) / np.maximum(n, 1.0) ** 2, most**2 / 12.0)
    error = np.where(np.isnan(learner.problem.thresholds), np.sqrt(error), 0.0)
    return own.report.thresholds - z * learner.choices.samples * error, error


def _initial(learner: ProxDOME) -> Float:
    mu: Float = np.zeros(learner.problem.states)
    mu[learner.settings.starts] = learner.settings.start_p
    return mu
