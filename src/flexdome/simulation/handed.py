"""What a learner hands over, checked once before a kernel sees it.

A compiled loop trusts its arrays: a policy with one step too many would be read past its end. Whatever comes from a
learner's own Python code is copied, so that nobody can change it afterwards, and then checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_array, check_rows
from flexdome.errors import ValidationError
from flexdome.learners import Learner
from flexdome.planning.evaluation import as_policy

__all__ = ["handed_mixture", "handed_multipliers", "handed_policy"]


def handed_policy(learner: Learner, cmdp: CMDP) -> Float:
    """(H, S, A) to play next, a distribution in every state."""
    pi = as_policy(cmdp, _copy(learner.policy), f"{_name(learner)}.policy")
    if pi.ndim != 3:
        raise ValidationError(f"{_name(learner)}.policy has shape {pi.shape}; it must be {pi.shape[1:]}, one policy")
    return pi


def handed_mixture(learner: Learner, cmdp: CMDP) -> tuple[Float, Float]:
    """Weights (k,) that sum to one, and policies (k, H, S, A)."""
    name = f"{_name(learner)}.mixture"
    try:
        weights, policies = learner.mixture
    except (TypeError, ValueError):
        raise ValidationError(f"{name} is not a pair; it must be weights (k,) and policies (k, H, S, A)") from None
    pi = as_policy(cmdp, _copy(policies), f"{name}[1]")
    w, single = as_array(f"{name}[0]", weights)
    if pi.ndim != 4 or w.shape != pi.shape[:1]:
        raise ValidationError(
            f"{name} has weights {w.shape} and policies {pi.shape}; they must be (k,) and (k, H, S, A)"
        )
    return check_rows(f"{name}[0]", w, single), pi


def handed_multipliers(learner: Learner) -> Float:
    """(m,) finite numbers."""
    name = f"{_name(learner)}.multipliers"
    lam, _ = as_array(name, learner.multipliers)
    if lam.shape != (learner.problem.constraints,):
        raise ValidationError(f"{name} has shape {lam.shape}; it must be ({learner.problem.constraints},)")
    return lam


def _copy(array: Any) -> Any:
    return array.copy() if type(array) is np.ndarray else array


def _name(learner: Learner) -> str:
    return type(learner).__name__
