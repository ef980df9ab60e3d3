"""A safe policy is believed until its own episodes show otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flexdome.certificates.methods import certify
from flexdome.certificates.recorded import Recorded
from flexdome.certificates.verdict import UNSAFE, Certificate
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.validation import instance_of
from flexdome.errors import ValidationError
from flexdome.planning import SafePolicy

__all__ = ["check_promise"]


def check_promise(
    safe_policy: SafePolicy,
    problem: Problem,
    episodes: Iterable[Episode] | Recorded,
    delta: float = 0.05,
    **options: Any,
) -> Certificate:
    """The certificate of a safe policy from episodes that it played; an error where they refute what was promised.

    Promised are utilities, which must not exceed their upper bounds, and with them that the thresholds are met.
    ``options`` are those of :func:`flexdome.certify`.
    """
    safe = instance_of("safe_policy", safe_policy, SafePolicy)
    certificate = certify(safe.policy, problem, episodes, delta, **options)
    for i, verdict in enumerate(certificate.verdicts):
        promised = float(safe.utilities[i])
        if verdict.verdict == UNSAFE or verdict.upper < promised:
            against = (
                f"the threshold, {verdict.threshold_lower:g}" if verdict.verdict == UNSAFE else "what was promised"
            )
            raise ValidationError(
                f"safe_policy.utilities[{i}] is {promised:g}; its {certificate.episodes} episodes show at most "
                f"{verdict.upper:.4g} with confidence {1.0 - certificate.delta:.6g}: less than {against}"
            )
    return certificate
