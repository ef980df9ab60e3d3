"""ProxDOME in compiled chunks, and what it tells of every episode."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float
from flexdome.kernels.rollout import Buffers
from flexdome.learners.proximal.proxdome import ProxDOME
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.runners.proximal_episodes import run_proximal

__all__ = ["run_chunk", "told_diagnostics"]


def run_chunk(
    learner: ProxDOME,
    cmdp: CMDP,
    randomness: Randomness,
    first: int,
    exact: npt.NDArray[np.bool_],
    out: Float,
    buffers: Buffers,
) -> Float:
    """A chunk in the kernel; what the learner told of each plan comes back (n, numbers)."""
    count = exact.size
    uniforms = randomness.uniforms(first, count)
    known = learner.problem.thresholds_known
    thresholds = np.zeros((0, 0, 0)) if known else randomness.thresholds(first, count)
    told = np.zeros((count, learner.own.told.size))
    done = 0
    while done < count:
        learner.reserve()
        done = run_proximal(
            learner.model.core, learner.own, learner.settings, learner.choices, tuple(cmdp.model), uniforms, thresholds,
            done, exact, out, told, buffers, learner._played,
        )  # fmt: skip
    return told


def told_diagnostics(told: Float, m: int) -> dict[str, Float]:
    """The numbers of every plan by name: (T,), or (m, T) where there is one for each constraint."""
    by_constraint = ("utilities", "errors", "margin", "thresholds")
    alone = ("trials", "temperature", "heat", "safe", "untried", "solved")
    names = {name: told[:, 1 + k * m : 1 + (k + 1) * m].T.copy() for k, name in enumerate(by_constraint)}
    names |= {name: told[:, 1 + 4 * m + k].copy() for k, name in enumerate(alone)}
    return {"value": told[:, 0].copy(), **names}
