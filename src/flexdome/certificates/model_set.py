"""Method (c): pessimistic dynamic programming over a confidence set of models.

Episodes may be played by any policies, each chosen from what came before. With probability 1 - delta, *at all times at
once*, the true model lies in the set of those with

    half the L1 norm of p_h(. | s, a) - p^_h(. | s, a)  <  w(N_h(s, a)),    f_j,h(s, a) in [low, high]

for every row and mean, and then V_f of *every* policy at once lies between its least and its largest value over the
set. So a policy that was chosen from the same episodes is bounded too.

**Transitions** have half of delta (nothing where they are revealed). Half the L1 norm is the largest |p(B) - p^(B)|
over sets B of states; B and its complement give the same, so 2^(S-1) - 1 sets are enough (Weissman et al. 2003). For
one B and one row the indicators of its visits are martingale differences of a variable in [0, 1], sub-Gaussian of
scale 1/2, and Robbins' mixture (:func:`flexdome.certificates.kernels.mixture_width`) bounds both signs at every N with
l = log(R (2^(S-1) - 1) / (delta / 2)), R = (H - 1) S A rows, or S A where the problem is stationary and steps are
counted together.

**Means** of the reward and the m utilities have the other half (all of it where transitions are revealed): two
one-sided sequences for each of (1 + m) H S A means, each at that share divided by 2 (1 + m) H S A. From episodes these
are empirical Bernstein sequences, so that what is observed without noise is soon known; from a learner's sums, which
have no order and no squares, Robbins' mixture with scale 1/2. Revealed means need none.

Where a cell was never visited its reward is anything in [0, 1] and it leads anywhere.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flexdome.certificates import kernels, model_kernels
from flexdome.certificates.recorded import Recorded
from flexdome.certificates.thresholds import TUNED
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError

__all__ = ["ModelSet", "Seen", "model_set", "values_over"]

MOST_COUNTS = 2**27  # numbers: a gigabyte of counts


class Seen(NamedTuple):
    """What a learner has counted; L is H, or 1 where it counts all steps together.

    ``alpha_sum`` and ``alpha_count`` are (m,), over episodes: a sample a step counts as one of an H-th. Visits include
    those of which a sample is missing; there it may have been anything between 0 and 1.
    """

    visits: Float  # (L, S, A)
    sums: Float  # (1 + m, L, S, A)
    successors: Float  # (L, S, A, S)
    alpha_sum: Float
    alpha_count: Float
    episodes: int
    missing: Float | None = None  # (1 + m, L, S, A) visits without a sample, None where there is none


class ModelSet(NamedTuple):
    """Centres and widths; the leading axis of each has H steps, or one for all."""

    visits: Float  # (L, S, A)
    p: Float  # (L, S, A, S), rows of zeros where nothing was seen
    moved: Float  # (L, S, A) half the L1 radius
    mean: Float  # (1 + m, L, S, A)
    low: Float  # (1 + m, L, S, A)
    high: Float


def model_set(problem: Problem, seen: Recorded | Seen, delta: float) -> ModelSet:
    """The set of models that are left with confidence 1 - ``delta``."""
    H, S, A, m = problem.horizon, problem.states, problem.actions, problem.constraints
    L = 1 if problem.stationary else H
    if L * S * A * S > MOST_COUNTS:
        raise ValidationError(
            f"the problem has {L} x {S} x {A} x {S} transitions; method 'model' counts at most {MOST_COUNTS}"
        )
    of_p = 0.0 if problem.transitions is not None else delta / 2.0
    each = (delta - of_p) / (2 * (1 + m) * L * S * A)
    if isinstance(seen, Seen):
        visits, sums, successors, low, high = _from_counts(seen, L, each)
    else:
        visits, sums, successors, low, high = _from_episodes(problem, seen, L, each)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(visits > 0.0, sums / visits, 0.5)
        n = successors.sum(axis=-1)
        p = np.where(n[..., None] > 0.0, successors / n[..., None], 0.0)
    if problem.transitions is not None:
        p, moved = np.ascontiguousarray(problem.transitions), np.zeros((H, S, A))
    else:
        rows = (1 if problem.stationary else max(H - 1, 1)) * S * A
        log_level = math.log(rows / of_p) + _log_sets(S)
        moved = np.minimum(_widths(n, log_level), 1.0)
    for j, known in ((slice(0, 1), problem.rewards), (slice(1, None), problem.utilities)):
        if known is not None:
            exact = known[..., :L, :, :]
            mean[j], low[j], high[j] = exact, exact, exact
    return ModelSet(visits, p, moved, mean, np.maximum(low, 0.0), np.minimum(high, 1.0))


def values_over(problem: Problem, models: ModelSet, policy: Float) -> tuple[Float, Float, Float]:
    """(1 + m,) least values over the set, largest ones, and those of its centre.

    The largest is H minus the least of what is missing from 1 at each step.
    """
    n_f = models.mean.shape[0]
    least, largest, centre = np.empty(n_f), np.empty(n_f), np.empty(n_f)
    work, mu = np.zeros((2, problem.states)), problem.initial
    seen = np.where(models.p.sum(axis=-1) > 0.0, 0.0, 1.0)
    for j in range(n_f):
        least[j] = model_kernels.least_value(policy, mu, models.low[j], models.p, models.moved, work)
        missing = model_kernels.least_value(policy, mu, 1.0 - models.high[j], models.p, models.moved, work)
        largest[j] = problem.horizon - missing
        centre[j] = model_kernels.least_value(policy, mu, models.mean[j], models.p, seen, work)
    return least, largest, centre


def _log_sets(S: int) -> float:
    """log(2^(S-1) - 1), and 0 where there is one state, of which nothing need be known."""
    others = max(S - 1, 1)
    return others * math.log(2.0) + math.log1p(-(2.0**-others))


def _widths(n: Float, log_level: float) -> Float:
    """Half the widths after (...) n observations, infinite after none."""
    with np.errstate(divide="ignore"):
        width: Float = 0.5 * np.sqrt((n + TUNED) * (2.0 * log_level + np.log((n + TUNED) / TUNED))) / n
    return width


def _from_counts(seen: Seen, L: int, each: float) -> tuple[Float, ...]:
    visits, sums, successors, missing = seen.visits, seen.sums, seen.successors, seen.missing
    if L == 1:
        visits, successors = visits.sum(axis=0, keepdims=True), successors.sum(axis=0, keepdims=True)
        sums, missing = sums.sum(axis=1, keepdims=True), None if missing is None else missing.sum(axis=1, keepdims=True)
    width = _widths(visits, -math.log(2.0 * each))  # both sides at once
    n = np.maximum(visits, 1.0)
    least, most = sums / n, sums / n if missing is None else (sums + missing) / n
    middle = sums if missing is None else sums + 0.5 * missing
    return visits, middle, successors, least - width, most + width


def _from_episodes(problem: Problem, data: Recorded, L: int, each: float) -> tuple[Float, ...]:
    S, A, n_f = problem.states, problem.actions, 1 + problem.constraints
    visits, sums, successors = np.zeros((L, S, A)), np.zeros((n_f, L, S, A)), np.zeros((L, S, A, S))
    sequences = np.zeros((n_f, L, S, A, kernels.SIZE))
    least, most = data.least_and_most()
    level = -math.log(each)
    model_kernels.count_all(data.states, data.actions, least, level, visits, sums, successors, sequences)
    low, high = sequences[..., kernels.BOUND], 1.0 - sequences[..., kernels.MISSING]
    if most is not least:
        again = [np.zeros_like(array) for array in (visits, sums, successors, sequences)]
        model_kernels.count_all(data.states, data.actions, most, level, *again)
        sums, high = 0.5 * (sums + again[1]), 1.0 - again[3][..., kernels.MISSING]
    return visits, sums, successors, low, high
