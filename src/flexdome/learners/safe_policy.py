"""The known safe policy that some learners must be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flexdome.cmdp.mask import refuse_forbidden
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import Float, as_array, check_range, check_rows, frozen, shown
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.learners.options import as_json
from flexdome.learners.programs.transition_sets import Estimates
from flexdome.planning import SafePolicy
from flexdome.planning.evaluation import evaluate_batch

__all__ = ["as_safe_policy", "refuse_without_room", "safe_policy_values", "stored_safe_policy"]

HOW = "fd.safe_policy(cmdp, slack) makes one for experiments, fd.SafePolicy(policy, utilities) holds your own"


def as_safe_policy(learner: str, problem: Problem, given: Any, name: str = "safe_policy") -> SafePolicy:
    """The argument ``name``, checked: a policy (H, S, A) and utilities (m,) above every known threshold.

    A mapping with the keys ``policy`` and ``utilities`` is taken too.
    """
    as_problem(problem)
    if given is None:
        raise FlexDOMEError(f"{learner} needs a known safe policy and {name} is missing; {HOW}")
    if isinstance(given, Mapping):
        if set(given) != {"policy", "utilities"}:
            raise ValidationError(f"{name} has {shown(list(given))}; it must have policy and utilities")
        given = SafePolicy(given["policy"], given["utilities"])
    if not isinstance(given, SafePolicy):
        raise ValidationError(f"{name} is a {type(given).__name__}; it must be a SafePolicy: {HOW}")
    shape = (problem.horizon, problem.states, problem.actions)
    policy, single = as_array(f"{name}.policy", given.policy)
    if policy.shape != shape:
        raise ValidationError(f"{name}.policy has shape {policy.shape}; it must be {shape}")
    policy = check_rows(f"{name}.policy", policy, single)
    refuse_forbidden(f"{name}.policy", policy, problem.allowed)
    utilities = np.atleast_1d(as_array(f"{name}.utilities", given.utilities)[0])
    if utilities.shape != (problem.constraints,):
        raise ValidationError(
            f"{name}.utilities has shape {utilities.shape}; there are m = {problem.constraints} constraints"
        )
    check_range(f"{name}.utilities", utilities, 0.0, problem.horizon * (1.0 + 1e-9))
    refuse_without_room(problem, utilities, name)
    return SafePolicy(frozen(policy), frozen(utilities))


def refuse_without_room(problem: Problem, utilities: Float, name: str = "safe_policy") -> None:
    """An error where a safe policy's utilities (m,) do not exceed the known thresholds of ``problem``."""
    for i, (utility, alpha) in enumerate(zip(utilities, problem.thresholds, strict=True)):
        if not np.isnan(alpha) and utility <= alpha:
            units, bound = problem.units, f"{alpha:g}"
            if units.quantity(i) is not None:
                promised, limit = units.apart(i, float(utility), float(alpha))
                bound += f" ({units.name(i)} {units.least(i)} {promised}, {units.threshold(i)} {limit})"
            raise ValidationError(
                f"{name}.utilities[{i}] is {shown(float(utility))}; it must exceed the threshold, {bound}: "
                "the policy must be safe with room to spare"
            )


def stored_safe_policy(safe: SafePolicy) -> dict[str, list[Any]]:
    """The policy for the header of a file; numbers come back exactly."""
    stored: dict[str, list[Any]] = as_json("safe_policy", safe)
    return stored


def safe_policy_values(safe: SafePolicy, est: Estimates, mu: Float) -> Float:
    """(1 + m,) what is held of the policy while it is played: its reward as estimated, its utilities as known.

    The reward is the plug-in estimate, V_{r^} under p^, of what had been seen when it was planned: no bonus, and what
    was never seen counts as nothing, so that it is 0 before the first episode.
    """
    value = evaluate_batch(Model(est.p, NO_SUCCESSORS, est.f[:1], mu), safe.policy[None])[0]
    return np.append(value, safe.utilities)
