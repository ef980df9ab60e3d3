"""What a runner is: a family's way of running many episodes, with the truth beside it.

``simulate`` makes one runner for a run and hands it chunk after chunk: the random numbers of some episodes, and room
for what is to be told of them. All learners meet the same numbers, and what comes back has the bits of ``observe``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float
from flexdome.kernels.borrow import hold
from flexdome.kernels.lanes import BLOCK
from flexdome.kernels.rollout import Buffers
from flexdome.kernels.together import TOGETHER

__all__ = ["Chunk", "Draws", "Runner", "buffers_of"]

LARGE = 2**17  # probabilities of a step, a megabyte: from here on policies are evaluated together


class Draws(NamedTuple):
    """The random numbers of n episodes, a row each."""

    uniforms: tuple[Float, Float, Float, Float]  # first state, actions, next states, noise (empty: means are observed)
    thresholds: Float  # (n, m, H) samples, or of size 0 where the learner knows all thresholds


@dataclass(frozen=True)
class Chunk:
    """Room for what is told of n episodes; the runner fills it.

    Attributes
    ----------
    exact : (n,) where the policy is to be evaluated exactly
    values : (n, 1 + m) V_r and V_d of what is played, from the true model; rows that are not ``exact`` do not matter
    multipliers : (n, m)
    realised : (n, 1 + m) the sums of rewards and utilities that the episode brought
    diagnostics : (n, ...) by the names and shapes that the runner's ``series`` declares
    """

    exact: npt.NDArray[np.bool_]
    values: Float
    multipliers: Float
    realised: Float
    diagnostics: dict[str, Float]

    @classmethod
    def empty(cls, exact: npt.NDArray[np.bool_], m: int, series: Mapping[str, tuple[int, ...]]) -> Chunk:
        """Nothing told yet."""
        n = exact.size
        diagnostics = {name: np.zeros((n, *shape)) for name, shape in series.items()}
        return cls(exact, np.full((n, 1 + m), np.nan), np.zeros((n, m)), np.zeros((n, 1 + m)), diagnostics)


class Runner(ABC):
    """Runs one learner on one CMDP.

    A class of learners says which one: ``runner = "package.module:Class"``. It must do what the public methods of that
    class do, with the same bits; :func:`flexdome.check_learner` compares them.
    """

    def __init__(self, learner: Any, cmdp: CMDP) -> None:
        self.learner, self.cmdp = learner, cmdp
        self.truth = tuple(cmdp.model)

    def series(self) -> dict[str, tuple[int, ...]]:
        """The diagnostics of an episode: name to shape, () for a number, (m,) for one of each constraint."""
        return {}

    @abstractmethod
    def run(self, draws: Draws, chunk: Chunk) -> None:
        """Play, evaluate and learn the chunk's episodes, and fill it."""


def buffers_of(cmdp: CMDP, W: int = BLOCK) -> Buffers:
    """Work space for one episode; ``W`` is how many values a learner's model has side by side."""
    H, S, A, m = cmdp.horizon, cmdp.states, cmdp.actions, cmdp.constraints
    large = cmdp.model.nxt.size == 0 and S * S * A >= LARGE
    beside = TOGETHER if large else 0
    buffers = Buffers(
        states=np.zeros(H + 1, dtype=np.int64),
        actions=np.zeros(H, dtype=np.int64),
        rewards=np.zeros(H),
        utilities=np.zeros((m, H)),
        values=np.zeros(1 + m),
        q=np.zeros((2, S)),
        x=np.zeros(S * A),
        step=np.zeros((3, W)),
        alpha=np.zeros(m),
        none=np.zeros((0, 0)),
        together=large or None,
        kept=np.zeros((beside, H * S * A if large else 0)),
        pending=np.zeros(1 + beside, dtype=np.int64),
        kept_values=np.zeros((beside, 1 + m)),
        kept_q=np.zeros((2, S * beside)),
        kept_x=np.zeros(S * A * beside),
    )
    return hold(buffers)
