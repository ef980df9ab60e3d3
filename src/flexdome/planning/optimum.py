"""The exact constrained optimum of a known CMDP, its Slater gap, and safe policies.

Two independent methods, which must agree: ``"decomposition"`` (module :mod:`.decomposition`, the default) and
``"lp"`` (module :mod:`.lp`). Results are kept on the CMDP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from flexdome.cmdp.mask import ALL, Bool, kernel_mask, uniform_policy
from flexdome.cmdp.model import CMDP, Model
from flexdome.cmdp.validation import Float, as_float, frozen, one_of
from flexdome.errors import InfeasibleError
from flexdome.planning.decomposition import FEASIBILITY, best_mixture, greedy, largest_slack, scale_of
from flexdome.planning.evaluation import as_cmdp, deterministic_policy, evaluate_batch, markov_policy
from flexdome.planning.lp import occupancy_program

__all__ = ["SafePolicy", "Solution", "safe_policy", "slater_gap", "solve", "solve_model"]

Method = Literal["decomposition", "lp"]


@dataclass(frozen=True, eq=False)
class Solution:
    """The constrained optimum.

    Attributes
    ----------
    value : V_r of the optimal policy
    utilities : (m,) its V_d
    policy : (H, S, A) Markov; where it never comes, by decomposition deterministic, by LP uniform
    multipliers : (m,) optimal Lagrange multipliers
    slack : (m,) utilities - alpha
    duality_gap : upper bound minus value: the certificate of optimality
    slater_gap : ``max_pi min_i V_{d_i} - alpha_i``
    method : how it was found
    """

    value: float
    utilities: Float
    policy: Float
    multipliers: Float
    slack: Float
    duality_gap: float
    slater_gap: float
    method: str


@dataclass(frozen=True, eq=False)
class SafePolicy:
    """A policy (H, S, A) known to be safe, and its utilities (m,)."""

    policy: Float
    utilities: Float


def solve(cmdp: CMDP, method: Method = "decomposition") -> Solution:
    """Solve ``max V_r`` subject to ``V_d >= alpha`` exactly.

    Where no policy meets the thresholds with room to spare (a Slater gap of zero) and m > 1 the problem is ill-posed:
    multipliers may be huge, and the value is then only as exact as thresholds met to 1e-9 allow. ``slack`` and
    ``duality_gap`` say how exact.

    Raises
    ------
    InfeasibleError
        If no policy meets the thresholds; it says which cannot be met together, and by how much.

    Examples
    --------
    >>> import flexdome as fd
    >>> best = fd.solve(fd.make_cmdp("media-v1"))
    >>> round(10 - best.value, 4), round(best.slater_gap, 6)
    (6.7467, 5.0)
    """
    as_cmdp(cmdp)
    method = cast(Method, one_of("method", method, ("decomposition", "lp")))
    key = "solve", method
    if key not in cmdp._memo:
        cmdp._memo[key] = solve_model(cmdp.model, cmdp.alpha, method, kernel_mask(cmdp.allowed))
    solution: Solution = cmdp._memo[key]
    return solution


def solve_model(model: Model, alpha: Float, method: Method = "decomposition", mask: Bool = ALL) -> Solution:
    """:func:`solve` on arrays: f may be any real numbers and rows of p may sum to less than one."""
    policy, multipliers, slater = (_by_decomposition if method == "decomposition" else _by_program)(model, alpha, mask)
    values = evaluate_batch(model, policy[None])[0]
    return Solution(
        value=float(values[0]),
        utilities=frozen(values[1:]),
        policy=frozen(policy),
        multipliers=frozen(multipliers),
        slack=frozen(values[1:] - alpha),
        duality_gap=_dual(model, alpha, multipliers, mask) - float(values[0]),
        slater_gap=slater,
        method=method,
    )


def _by_decomposition(model: Model, alpha: Float, mask: Bool) -> tuple[Float, Float, float]:
    best, slack = best_mixture(model, alpha, mask)
    if best is None:
        raise _infeasible(model, alpha, mask, slack.value, slack.multipliers)
    heaviest = best.policies[int(np.argmax(best.weights))]
    policy = markov_policy(best.occupancy(model), deterministic_policy(heaviest, model.f.shape[3]))
    return policy, best.multipliers, slack.value


def _by_program(model: Model, alpha: Float, mask: Bool) -> tuple[Float, Float, float]:
    relaxed = occupancy_program(model, alpha, slack=True, mask=mask)
    elsewhere = uniform_policy(model.f.shape[1:], mask if mask.size else None)
    safest = evaluate_batch(model, markov_policy(relaxed.occupancy, elsewhere)[None])[0]  # not the solver's word
    slack = float((safest[1:] - alpha).min())
    if slack < -FEASIBILITY * scale_of(model.f[1:]):
        raise _infeasible(model, alpha, mask, slack, relaxed.multipliers)
    program = occupancy_program(model, np.minimum(alpha, alpha + slack), mask=mask)
    return markov_policy(program.occupancy, elsewhere), program.multipliers, slack


def _dual(model: Model, alpha: Float, lam: Float, mask: Bool) -> float:
    """D(lam), an upper bound on the constrained optimum for every lam >= 0."""
    _, values = greedy(model, np.append(1.0, lam), mask)
    return float(values[0] + lam @ (values[1:] - alpha))


def _infeasible(model: Model, alpha: Float, mask: Bool, slack: float, weights: Float) -> InfeasibleError:
    """The error that names a smallest set of thresholds that cannot be met together."""
    blocking = [int(i) for i in np.flatnonzero(weights > 1e-9)]
    rounding = FEASIBILITY * scale_of(model.f[1:])
    for i in list(blocking):
        rest = [k for k in blocking if k != i]
        if rest:
            without = largest_slack(model._replace(f=model.f[[0, *(1 + k for k in rest)]]), alpha[rest], mask).value
            if without < -rounding:
                blocking, slack = rest, without
    listed = ", ".join(f"thresholds[{i}] = {alpha[i]:.10g}" for i in blocking)
    together, missed = ("", "it") if len(blocking) == 1 else (" together", "one of them")
    return InfeasibleError(
        f"{listed} cannot be met{together}: every policy misses {missed} by at least {-slack:.6g}",
        tuple(blocking),
        -slack,
    )


def slater_gap(cmdp: CMDP) -> float:
    """``max_pi min_i V_{d_i}^pi - alpha_i``; negative where no policy is safe."""
    if ("solve", "decomposition") in as_cmdp(cmdp)._memo:
        return solve(cmdp).slater_gap
    if "slater" not in cmdp._memo:
        cmdp._memo["slater"] = largest_slack(cmdp.model, cmdp.alpha, kernel_mask(cmdp.allowed)).value
    return float(cmdp._memo["slater"])


def safe_policy(cmdp: CMDP, slack: float) -> SafePolicy:
    """The policy of largest reward with ``V_{d_i} >= alpha_i + slack`` for every i.

    What learners that need a known safe policy are given in experiments. Raises :class:`InfeasibleError`
    when ``slack`` exceeds the Slater gap.
    """
    slack = as_float("slack", slack, 0.0, 1e6 * as_cmdp(cmdp).horizon)  # far more than any utility
    try:
        solution = solve_model(cmdp.model, cmdp.alpha + slack, mask=kernel_mask(cmdp.allowed))
    except InfeasibleError as error:
        message = f"with a slack of {slack:g} added, {error}"
        raise InfeasibleError(message, error.constraints, error.shortfall) from None
    return SafePolicy(solution.policy, solution.utilities)
