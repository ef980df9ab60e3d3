"""With what confidence this policy meets its thresholds.

Three methods bound V_r and every V_d_i of a policy from both sides, at all times at once: one may look after every
episode and stop when one likes.

``"episodes"`` (a): the episodes were played by the policy itself, chosen before them. An episode's total utility
divided by H lies in [0, 1]; its mean is bounded by betting (:mod:`flexdome.certificates.kernels`). Nothing is assumed
of the model, not even that it is Markov: totals must have one mean given the past.

``"reweighted"`` (b): they were played by other policies, which are known and may have been chosen from the episodes
before. With w_h = min(prod_{k <= h} pi_k(a_k | s_k) / b_k(a_k | s_k), clip), E[sum_h w_h d_h] <= V_d for d >= 0:
with equality where nothing is clipped and b plays whatever pi does, and less otherwise. So a lower bound on that mean
is one on V_d; and in the same way sum_h w_h (1 - d_h) bounds H - V_d from below, and V_d from above. Betting on the
lower side needs no upper bound on the variable, only that it is not negative.

``"model"`` (c): they were played by any policies, and the policy may have been chosen from these very episodes.
Pessimistic dynamic programming over a confidence set of models (:mod:`flexdome.certificates.model_set`). It needs the
model to be a tabular MDP with the problem's initial distribution, and many episodes.

Every one-sided bound of (a) and (b) has the same share of delta: delta / (2 (1 + m) + 2 s), s the number of sampled
thresholds of which enough is declared (:mod:`flexdome.certificates.thresholds`). With (c) such thresholds have the
shares that they would have there and the set of models the rest.

A sample of a utility that is missing may have been anything in [0, 1]. It counts as 0 where a utility is bounded from
below, and as 1 where it is from above: the bounds hold whatever the reason is that it is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.certificates import kernels, weight_kernels
from flexdome.certificates.model_set import Seen, model_set, values_over
from flexdome.certificates.recorded import Recorded, as_recorded
from flexdome.certificates.thresholds import HOW, TUNED, Laws, as_laws
from flexdome.certificates.verdict import MOST, ROUNDING, Certificate, Verdict, decide
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.mask import refuse_forbidden
from flexdome.cmdp.problem import as_problem
from flexdome.cmdp.validation import ROW_TOLERANCE, Float, as_array, as_float, check_rows, one_of, switch
from flexdome.errors import ValidationError
from flexdome.kernels.bellman import rows_are_distributions
from flexdome.theory.constants import as_confidence

__all__ = ["certify", "certify_mixture", "certify_seen"]

ASSUMPTIONS = {
    "episodes": "the policy was chosen before these episodes, played all of them, and the plant did not change",
    "reweighted": "the policy was chosen before these episodes, they were played by the policies named, and the plant "
    "is a tabular MDP that did not change",
    "model": "the plant is a tabular MDP that did not change; the policy may have been chosen from the same episodes",
}


def certify(
    policy: npt.ArrayLike,
    problem: Problem,
    episodes: Iterable[Episode] | Recorded,
    delta: float = 0.05,
    played_by: npt.ArrayLike | None = None,
    *,
    chosen_from_data: bool = False,
    method: str | None = None,
    clip: float = 100.0,
    threshold_range: Any = None,
    threshold_scale: Any = None,
) -> Certificate:
    """Bounds on the value and the utilities of ``policy`` (H, S, A), and a verdict for each constraint.

    Parameters
    ----------
    episodes : in the order in which they were played
    delta : the probability with which anything that is said may be wrong
    played_by : None: the policy itself played them. Else the policy (H, S, A) that did, or one for each episode
        (n, H, S, A)
    chosen_from_data : whether the policy was chosen by looking at these episodes; then only ``"model"`` is allowed
    method : None takes ``"model"`` where the policy was chosen from the data, else ``"episodes"`` or ``"reweighted"``
    clip : the largest weight of method ``"reweighted"``
    threshold_range, threshold_scale : what is known of the samples of thresholds that are not known
        (:mod:`flexdome.certificates.thresholds`)

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> safe = fd.safe_policy(cmdp, 0.5)
    >>> episodes = fd.play(safe.policy, cmdp, 1000, seed=1)
    >>> fd.certify(safe.policy, cmdp.problem(), episodes).verdicts[0].verdict
    'certified safe'
    """
    as_problem(problem)
    share_of = as_confidence(delta)
    shape = (problem.horizon, problem.states, problem.actions)
    pi = _as_policy("policy", policy, shape)
    refuse_forbidden("policy", pi, problem.allowed)
    data = as_recorded(problem, episodes)
    laws = as_laws(problem, threshold_range, threshold_scale)
    clip = as_float("clip", clip, 0.0)
    how = _method(method, switch("chosen_from_data", chosen_from_data), played_by is None)
    if how == "model":
        return _noting(_by_model(problem, np.ones(1), pi[None], data, share_of, laws, data.thresholds), data)
    played = pi[None] if played_by is None else _as_policies(played_by, shape, len(data))
    _check_possible(played, data, "policy" if played_by is None else "played_by")
    if how == "episodes":
        totals = _totals(data)
    else:
        least, most = data.least_and_most()
        totals = np.empty((2, 1 + problem.constraints, len(data)))
        weight_kernels.weighted_totals(pi, played, data.states, data.actions, most, clip, totals)
        if most is not least:
            above = totals[1].copy()
            weight_kernels.weighted_totals(pi, played, data.states, data.actions, least, clip, totals)
            totals[1] = above
    return _noting(_by_betting(how, problem, totals, data.thresholds, share_of, laws), data)


def certify_mixture(
    policies: Float, problem: Problem, episodes: Iterable[Episode] | Recorded, delta: float, **declared: Any
) -> Certificate:
    """Method ``"episodes"`` for a mixture of ``policies`` (k, H, S, A), drawn anew before each episode."""
    data = as_recorded(problem, episodes)
    laws = as_laws(problem, declared.get("threshold_range"), declared.get("threshold_scale"))
    _check_possible(np.ascontiguousarray(policies.max(axis=0)[None]), data, "policy")
    return _noting(_by_betting("episodes", problem, _totals(data), data.thresholds, as_confidence(delta), laws), data)


def _noting(said: Certificate, data: Recorded | Seen) -> Certificate:
    """The certificate, with how many samples are missing where some are."""
    if isinstance(data, Recorded):
        share = np.isnan(data.observed[:, 1:]).mean(axis=(0, 2)) if len(data) else np.zeros(len(said.verdicts))
    elif data.missing is None:
        return said
    else:
        share = data.missing[1:].sum(axis=(1, 2, 3)) / max(float(data.visits.sum()), 1.0)
    if not share.any():
        return said
    notes = [f"{100 * x:.3g} % of its samples are missing and count as the worst" if x > 0.0 else "" for x in share]
    noted = (
        replace(one, why="; ".join(filter(None, (one.why, note))))
        for one, note in zip(said.verdicts, notes, strict=True)
    )
    return replace(said, verdicts=tuple(noted))


def _totals(data: Recorded) -> Float:
    """(2, 1 + m, n): the share of H that an episode brought at least, and what of H it did not bring at least."""
    least, most = data.least_and_most()
    low = np.minimum(least.mean(axis=2).T, 1.0)
    return np.stack([low, 1.0 - (low if most is least else np.minimum(most.mean(axis=2).T, 1.0))])


def certify_seen(
    weights: Float, policies: Float, problem: Problem, seen: Seen, delta: float, **declared: Any
) -> Certificate:
    """Method ``"model"`` from a learner's counts, for a mixture of policies (k, H, S, A)."""
    laws = as_laws(problem, declared.get("threshold_range"), declared.get("threshold_scale"))
    return _noting(_by_model(problem, weights, policies, seen, as_confidence(delta), laws, None), seen)


def _method(method: str | None, chosen: bool, by_itself: bool) -> str:
    if method is None:
        return "model" if chosen else "episodes" if by_itself else "reweighted"
    how = one_of("method", method, tuple(ASSUMPTIONS))
    if chosen and how != "model":
        raise ValidationError(
            f"method is {how!r}; where the policy was chosen from these episodes it must be 'model': the others hold "
            "for a policy that was chosen before"
        )
    if (how == "episodes") is not by_itself and how != "model":
        rule = "None" if how == "episodes" else "the policy that played the episodes"
        raise ValidationError(f"played_by is {'None' if by_itself else 'given'}; with method {how!r} it must be {rule}")
    return how


def _as_policy(name: str, given: npt.ArrayLike, shape: tuple[int, ...]) -> Float:
    array, single = as_array(name, given)
    if array.shape != shape:
        raise ValidationError(f"{name} has shape {array.shape}; it must be {shape}")
    return check_rows(name, array, single)


def _as_policies(given: npt.ArrayLike, shape: tuple[int, ...], n: int) -> Float:
    """``played_by`` as (1, H, S, A) or (n, H, S, A); not copied where it need not be, as it may be large."""
    if (
        isinstance(given, np.ndarray)
        and given.dtype == np.float64
        and given.flags.c_contiguous
        and given.shape[-3:] == shape
        and rows_are_distributions(given.reshape(-1, shape[2]), ROW_TOLERANCE)
    ):
        array, single = given, False
    else:
        array, single = as_array("played_by", given)
    if array.shape not in (shape, (n, *shape)):
        raise ValidationError(f"played_by has shape {array.shape}; it must be {shape}, or {(n, *shape)}")
    array = check_rows("played_by", array, single) if array is not given else array
    return array[None] if array.ndim == 3 else array


def _check_possible(played: Float, data: Recorded, name: str) -> None:
    at = int(weight_kernels.impossible(played, data.states, data.actions))
    if at >= 0:
        t, h = divmod(at, data.actions.shape[1])
        s, a = int(data.states[t, h]), int(data.actions[t, h])
        raise ValidationError(
            f"episodes[{t}] takes action {a} in state {s} at step {h}, which {name} never does; "
            f"{'say who played it with played_by' if name == 'policy' else 'it was played by another policy'}"
        )


def _by_betting(how: str, problem: Problem, totals: Float, samples: Float, delta: float, laws: Laws) -> Certificate:
    H, m = float(problem.horizon), problem.constraints
    n = totals.shape[2]
    share = delta / (2 * (1 + m) + laws.shares)
    log_level = -math.log(share)
    alpha_low, alpha_high = laws.bounds(samples, share)
    bounds, verdicts = [], []
    for j in range(1 + m):
        known = j > 0 and not math.isnan(problem.thresholds[j - 1])
        target = float(problem.thresholds[j - 1]) / H if known else math.nan
        sides = [_Side(totals[k, j], log_level, target if k == 0 else 1.0 - target) for k in range(2)]
        lower, upper = H * sides[0].bound, H * (1.0 - sides[1].bound)
        if known and sides[0].bound >= target:  # not lost to rounding
            lower = max(lower, float(problem.thresholds[j - 1]))
        if known and sides[1].bound > 0.0 and sides[1].bound >= 1.0 - target:
            upper = min(upper, math.nextafter(float(problem.thresholds[j - 1]), -math.inf))
        bounds.append((lower, upper))
        if j > 0:
            more = min(side.more() for side in sides) if known else _sampled_more(laws, j - 1, samples, sides, share, H)
            alpha = float(alpha_low[j - 1]), float(alpha_high[j - 1])
            verdicts.append(
                decide(j - 1, problem.units, (lower, upper), alpha, more, HOW if laws.silent[j - 1] else "")
            )
    shares = {"value": 2 * share, "utilities": 2 * m * share, "thresholds": laws.shares * share}
    return Certificate(how, ASSUMPTIONS[how], delta, shares, n, bounds[0], tuple(verdicts), problem.units)


class _Side:
    """A lower betting sequence over the totals of all episodes, which looks at ``target`` too."""

    def __init__(self, xs: Float, log_level: float, target: float) -> None:
        self.log_level, self.target = log_level, target
        self.state = np.zeros(kernels.SIZE)
        self.bound, capital = kernels.betting_bound(self.state, xs, log_level, target, np.empty(xs.size))
        self.log_capital = math.log(max(capital, kernels.WORTHLESS))

    def more(self, target: float | None = None) -> float:
        """Episodes until ``target`` (None: its own) is refuted, as far as can be seen."""
        if target is None:
            target, log_capital = self.target, self.log_capital
        else:
            log_capital = 0.0
        if not 0.0 < target < 1.0:
            return MOST
        if self.state[kernels.COUNT] == 0.0:
            return MOST
        return float(kernels.episodes_needed(self.state, log_capital, target, self.log_level, MOST))


def _sampled_more(laws: Laws, i: int, samples: Float, sides: list[_Side], share: float, H: float) -> float:
    """Episodes until utility and threshold are each known within half of what is between them."""
    n = samples.shape[0]
    if n == 0 or not laws.sampled[i]:
        return MOST
    alpha = float(samples[:, i].mean()) / H
    unit = float(sides[0].state[kernels.TOTAL] / n)
    missing = float(sides[1].state[kernels.TOTAL] / n)
    room = max(unit - alpha, missing - (1.0 - alpha))
    if room <= 0.0:
        return MOST
    need: float = sides[0].more(unit - 0.5 * room) if unit > alpha else sides[1].more(missing - 0.5 * room)
    scale = 0.5 * (laws.high[i] - laws.low[i]) if math.isnan(laws.scale[i]) else laws.scale[i]
    count = float(n)
    while count - n < MOST and kernels.mixture_width(count, -math.log(2.0 * share), scale, TUNED) > 0.5 * room * H:
        count *= 1.1
    return float(max(need, count - n))


def _by_model(
    problem: Problem, weights: Float, policies: Float, seen: Recorded | Seen, delta: float, laws: Laws, samples: Any
) -> Certificate:
    m = problem.constraints
    if problem.initial_estimated:
        raise ValidationError(
            "initial is None, to be estimated; method 'model' needs the probabilities of the first state. Fresh "
            "episodes of the policy itself certify it without"
        )
    share = delta / (2 * (1 + m) + laws.shares)
    rest = delta - laws.shares * share
    models = model_set(problem, seen, rest)
    low, high, centre = np.zeros(1 + m), np.zeros(1 + m), np.zeros(1 + m)
    for weight, policy in zip(weights, policies, strict=True):
        parts = values_over(problem, models, np.ascontiguousarray(policy))
        for total, part in zip((low, high, centre), parts, strict=True):
            total += weight * part
    high = np.where(low - high <= ROUNDING * problem.horizon, np.maximum(low, high), high)  # one model, rounded
    if isinstance(seen, Seen):
        n = seen.episodes
        alpha_low, alpha_high = laws.bounds_from_sums(seen.alpha_sum, seen.alpha_count, share)
    else:
        n = len(seen)
        alpha_low, alpha_high = laws.bounds(samples, share)
    verdicts: list[Verdict] = []
    for i in range(m):
        alpha = float(alpha_low[i]), float(alpha_high[i])
        lower, upper = float(low[1 + i]), float(high[1 + i])
        more = _model_more(n, float(centre[1 + i]), (lower, upper), alpha)
        verdicts.append(decide(i, problem.units, (lower, upper), alpha, more, HOW if laws.silent[i] else ""))
    shares = {"model": rest, "thresholds": laws.shares * share}
    value = float(low[0]), float(high[0])
    return Certificate("model", ASSUMPTIONS["model"], delta, shares, n, value, tuple(verdicts), problem.units)


def _model_more(n: int, centre: float, bounds: tuple[float, float], alpha: tuple[float, float]) -> float:
    """Episodes until the width, which falls like 1 / sqrt(n), is what is between the estimate and the threshold."""
    if n == 0:
        return MOST
    if centre > alpha[1]:
        width, room = centre - bounds[0], centre - alpha[1]
    else:
        width, room = bounds[1] - centre, alpha[0] - centre
    return float(n * ((width / room) ** 2 - 1.0)) if room > 0.0 else MOST
