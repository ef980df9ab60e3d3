"""A safe policy is believed until its own episodes show otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flexdome.certificates.methods import certify
from flexdome.certificates.recorded import Recorded
from flexdome.certificates.verdict import UNSAFE, Certificate, confidence
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.units import Units
from flexdome.cmdp.validation import instance_of
from flexdome.errors import ValidationError
from flexdome.planning import SafePolicy

__all__ = ["broken_promise", "check_promise"]


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
            alpha = verdict.threshold_lower if verdict.verdict == UNSAFE else None
            shown = certificate.episodes, certificate.delta, alpha
            raise broken_promise(problem.units, i, promised, verdict.upper, *shown)
    return certificate


def broken_promise(
    units: Units, i: int, promised: float, most: float, episodes: int, delta: float, alpha: float | None = None
) -> ValidationError:
    """The error for a safe policy whose episodes show at most ``most``: less than promised, or than ``alpha``."""
    told = units.apart(i, promised, most, *([] if alpha is None else [alpha]))
    most_is, less = ("at most", "less") if units.least(i) == "at least" else ("at least", "more")
    named = f"{told[0]}" if units.quantity(i) is None else f"{promised:.4g}, {units.name(i)} {units.least(i)} {told[0]}"
    against = "what was promised" if alpha is None else f"the {units.threshold(i)}, {told[2]}"
    return ValidationError(
        f"safe_policy.utilities[{i}] is {named}; its {episodes} episode{'s' * (episodes != 1)} show"
        f"{'s' * (episodes == 1)} {most_is} {told[1]} with confidence {confidence(delta)}: {less} than {against}"
    )
