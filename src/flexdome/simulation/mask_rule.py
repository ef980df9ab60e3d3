"""The rule about actions that are not allowed, on a CMDP with one forbidden in every state."""

from __future__ import annotations

from typing import Any

import numpy as np

from flexdome.cmdp import CMDP, Episode, Threshold
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.planning import baselines, safe_policy, slater_gap
from flexdome.simulation.rules import (
    CheckError,
    Subject,
    observe_is_simulate,
    policies_are_distributions,
    require,
    saving_resumes,
)

__all__ = ["forbidden_actions_are_left_alone"]


def forbidden_actions_are_left_alone(subject: Subject) -> None:
    """An action that is not allowed is never played, never taken from an episode, and does not count as untried."""
    if subject.cmdp.actions == 1:
        return
    masked = _masked(subject)
    try:
        learner = masked.make()
    except ValidationError as error:
        require(not subject.learner.masks or "mask" in str(error), f"a problem with a mask was refused: {error}")
        return
    policies_are_distributions(masked)  # a policy that may play what is forbidden is none of this CMDP
    observe_is_simulate(masked)
    saving_resumes(masked)
    good = masked.episodes(learner, 20)[-1]
    allowed, held = masked.problem.allowed, learner.policy
    assert allowed is not None
    status = learner.status()
    if hasattr(status, "untried"):
        left = int((allowed & (learner.visits == 0.0)).sum())
        require(status.untried <= left, f"{status.untried} actions count as untried; {left} are allowed and untried")
    actions = np.array(good.actions)
    actions[0] = int(np.argmin(allowed[0, int(np.asarray(good.states)[0])]))
    bad = Episode(good.states, actions, good.rewards, good.utilities, good.thresholds)
    for played in (True, False):
        try:
            learner.observe(bad) if played else learner.preload([bad])
        except FlexDOMEError:
            require(bool((learner.policy == held).all()), "a forbidden action was refused but changed the policy")
        else:
            raise CheckError("an episode with a forbidden action was taken")


def _masked(subject: Subject) -> Subject:
    """The same CMDP with one action forbidden in every state, and thresholds that can be met without it."""
    cmdp = subject.cmdp.to_dense()
    H, S, A = cmdp.rewards.shape
    allowed = np.ones((H, S, A), dtype=bool)
    h, s = np.ogrid[:H, :S]
    allowed[h, s, (h + s) % A] = False

    def built(laws: Any) -> CMDP:
        return CMDP(
            cmdp.transitions, cmdp.rewards, cmdp.utilities, laws, cmdp.initial, noise=cmdp.noise, allowed=allowed
        )

    alpha = 0.8 * baselines(built(np.zeros(cmdp.constraints))).uniform[1].utilities
    laws = [
        float(a) if law.is_fixed else Threshold.bernoulli(float(a) / H, float(H), per="step")
        for a, law in zip(alpha, cmdp.thresholds, strict=True)
    ]
    made, options = built(laws), dict(subject.options)
    if "safe_policy" in options:
        options["safe_policy"] = safe_policy(made, 0.5 * slater_gap(made))
    return Subject(subject.learner, made, options, subject.randomises)
