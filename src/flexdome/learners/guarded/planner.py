"""What SureDOME freezes next: a policy to earn with, or one to learn with. Nothing here is trusted with safety.

With N(h, s, a) visits, p^ and f^_j the empirical model (f_0 = r, f_i = d_i; where the problem is stationary, of all
steps together), rem = H - h + 1 and sd_j the measured spread of f_j,

**To earn**: the exact optimum of a pessimistic model, in which every cell is worth less by what is not known of it,

    f_j(h, s, a) = f^_j - c_pess sd_j sqrt(rem / N),   and -rem where N = 0

subject to V_d >= alpha; N are the samples of f_j, of which some may be missing. Pessimism is against cells that look
good because they were seen seldom; where thresholds cannot be met in that model they are lowered by what is missing.

**To learn**: with the multipliers lam of that plan and Q^ the optimal values of r^ + lam . d^, an action is *plausible*
where

    Q^(h, s, a) + w >= max_a' (Q^(h, s, a') - w'),   w = c_doubt (sd_0 + lam . sd) sqrt(rem / N),   or where N = 0

and every plausible action is taken, in proportion to 1 / sqrt(max(N, 1)). One policy tries all of them: a frozen policy
that tried one would try it until it is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.mask import kernel_mask
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError, InfeasibleError
from flexdome.learners.seen.dense import Dense
from flexdome.planning.evaluation import evaluate_batch
from flexdome.planning.optimum import solve_model

__all__ = ["Proposal", "Sketch", "plan_to_earn", "plan_to_learn", "sketch"]

SPREAD = 0.3  # the spread of a mean before anything was seen, which counts as ten visits
FIRST_VISITS = 10.0
LOWERED = 3  # times that thresholds are lowered
HEAVY = 20.0  # a multiplier is not taken for more


class Proposal(NamedTuple):
    """A policy, what it is held to be worth, and the multipliers of its plan."""

    policy: Float  # (H, S, A)
    values: Float  # (1 + m,)
    multipliers: Float  # (m,)
    meets: bool  # the thresholds, or the first lowering of them


@dataclass(frozen=True)
class Sketch:
    """The empirical model.

    Attributes
    ----------
    visits : (H, S, A)
    p : (H, S, A, S), rows of zeros where nothing followed
    f : (1 + m, H, S, A), 0 where nothing was seen
    spread : (1 + m,) of the means
    doubt : (1 + m, H, S, A) sqrt(rem / N), N the samples of that mean
    seen : (1 + m, H, S, A) whether there is anything to plan with
    """

    visits: Float
    p: Float
    f: Float
    spread: Float
    doubt: Float
    seen: np.ndarray


def sketch(problem: Problem, counted: Dense) -> Sketch:
    """What was seen, with what the problem reveals in its place."""
    n, sums, after, samples = counted.visits, counted.sums, counted.following, counted.samples
    if problem.stationary:
        n, after, sums, samples = (
            np.broadcast_to(each.sum(axis=axis, keepdims=True), each.shape)
            for each, axis in ((n, 0), (after, 0), (sums, 1), (samples, 1))
        )
    p = after / np.maximum(after.sum(axis=-1, keepdims=True), 1.0)
    f = sums / np.maximum(samples, 1.0)
    total = samples.sum(axis=(1, 2, 3))
    mean = (samples * f).sum(axis=(1, 2, 3)) / np.maximum(total, 1.0)
    squares = (samples * (f - mean[:, None, None, None]) ** 2).sum(axis=(1, 2, 3))
    spread = np.sqrt((FIRST_VISITS * SPREAD**2 + squares) / (FIRST_VISITS + total))
    unknown = np.arange(problem.horizon, 0, -1.0)[:, None, None]
    if problem.transitions is not None:
        p, unknown = np.array(problem.transitions, order="C"), np.ones_like(unknown)
    if problem.rewards is not None:
        f[0], spread[0] = problem.rewards, spread[0] * (problem.transitions is None)
    if problem.utilities is not None:
        f[1:], spread[1:] = problem.utilities, spread[1:] * (problem.transitions is None)
    known = problem.transitions is not None and problem.rewards is not None and problem.utilities is not None
    doubt = np.sqrt(unknown / np.maximum(samples, 1.0))
    return Sketch(np.array(n), p, f, spread, doubt, np.ones(f.shape, dtype=bool) if known else samples > 0.0)


def plan_to_earn(
    problem: Problem, seen: Sketch, alpha: Float, pessimism: float, initial: Float | None = None
) -> Proposal | None:
    """The optimum of the pessimistic model; None where there is none, or nothing to plan with."""
    if not seen.seen[:, 0].all(axis=0).any():
        return None
    mu = problem.initial if initial is None else initial
    remaining = np.arange(problem.horizon, 0, -1.0)[:, None, None]
    careful = seen.f - pessimism * seen.spread[:, None, None, None] * seen.doubt
    model = Model(seen.p, NO_SUCCESSORS, np.where(seen.seen, careful, -remaining), mu)
    for tries in range(LOWERED):
        try:
            best = solve_model(model, alpha, mask=kernel_mask(problem.allowed))
        except InfeasibleError as error:
            alpha = alpha - 1.05 * error.shortfall - 1e-6
        except ConvergenceError:
            return None
        else:
            plain = Model(seen.p, NO_SUCCESSORS, seen.f, mu)
            values = evaluate_batch(plain, best.policy[None])[0]
            return Proposal(np.array(best.policy), values, np.array(best.multipliers), tries < 2)
    return None


def plan_to_learn(
    problem: Problem, seen: Sketch, multipliers: Float, doubt: float, initial: Float | None = None
) -> Proposal:
    """Every plausible action, those seen seldom more often."""
    H, S, A = problem.horizon, problem.states, problem.actions
    lam = np.minimum(multipliers, HEAVY)
    weights = np.append(1.0, lam)
    f, width = np.tensordot(weights, seen.f, 1), doubt * float(weights @ seen.spread) * seen.doubt.max(axis=0)
    allowed = np.ones((H, S, A), dtype=bool) if problem.allowed is None else problem.allowed
    known = np.logical_and.reduce(seen.seen)
    pi, later = np.zeros((H, S, A)), np.zeros(S)
    for h in range(H - 1, -1, -1):
        tried = known[h] & allowed[h]
        q = f[h] + seen.p[h] @ later
        least = np.where(tried, q - width[h], -np.inf).max(axis=-1, keepdims=True)
        plausible = allowed[h] & (~tried | (q + width[h] >= least))
        often = plausible / np.sqrt(np.maximum(seen.visits[h], 1.0))
        pi[h] = often / often.sum(axis=-1, keepdims=True)
        later = np.where(tried.any(axis=-1), np.where(tried, q, -np.inf).max(axis=-1), 0.5 * weights.sum() * (H - h))
    model = Model(
        seen.p, NO_SUCCESSORS, np.where(seen.seen, seen.f, 0.5), problem.initial if initial is None else initial
    )
    return Proposal(pi, evaluate_batch(model, pi[None])[0], lam, False)
