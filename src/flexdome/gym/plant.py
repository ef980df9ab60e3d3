"""N copies of a CMDP that are stepped together: what both environments are made of.

Random numbers come from one generator, in rows: a copy that starts takes one uniform for its state and, where a
threshold is drawn, one for each constraint; a copy that moves takes one for its next state, one for each observation
where these are 0/1 draws, and one for each constraint where a threshold is drawn at every step. Rows follow the order
of the copies, so that one copy alone meets the numbers that a single environment with the same seed meets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_int, instance_of, shown
from flexdome.errors import ValidationError
from flexdome.families import make_cmdp
from flexdome.gym.kernels import begin, move

__all__ = ["Plant", "Seen", "as_cmdp"]

Index = npt.NDArray[np.int64]


class Seen(NamedTuple):
    """What a step showed, a row for each copy that moved."""

    rewards: Float  # (n,)
    utilities: Float  # (n, m)
    costs: Float  # (n, m)
    thresholds: Float  # (n, m)


class Plant:
    """``copies`` of one CMDP, each at its own step and state."""

    def __init__(self, cmdp: CMDP, copies: int) -> None:
        self.cmdp = cmdp
        m, laws = cmdp.constraints, cmdp.thresholds
        self.h: Index = np.zeros(copies, dtype=np.int64)
        self.s: Index = np.zeros(copies, dtype=np.int64)
        self._noisy = cmdp.noise == "bernoulli"
        self._by_episode = [i for i, law in enumerate(laws) if law.law != "fixed" and law.per == "episode"]
        self._by_step = [i for i, law in enumerate(laws) if law.law != "fixed" and law.per == "step"]
        self._thresholds = np.tile(cmdp.alpha, (copies, 1))
        self._seen = np.zeros((copies, 1 + m))
        self._costs = cmdp.costs if cmdp.is_cost_form and not self._noisy else None

    def start(self, copies: Index, rng: np.random.Generator) -> Float:
        """Put ``copies`` at the beginning of an episode; their thresholds (n, m)."""
        m, drawn = self.cmdp.constraints, self._by_episode
        u = rng.random((copies.size, 1 + m if drawn else 1))
        begin(self.cmdp.model.mu, u, copies, self.h, self.s)
        self._draw(drawn, u[:, 1:], copies)
        return self._thresholds[copies]

    def step(self, copies: Index, actions: Index, rng: np.random.Generator) -> Seen:
        """Take ``actions`` (one for every copy of the plant) in ``copies``, and move on."""
        m, model = self.cmdp.constraints, self.cmdp.model
        observed = 2 + m if self._noisy else 1
        u = rng.random((copies.size, observed + (m if self._by_step else 0)))
        before, there, taken = self.h[copies], self.s[copies], actions[copies]
        move(model.p, model.nxt, model.f, self._noisy, u, copies, actions, self.h, self.s, self._seen)
        self._draw(self._by_step, u[:, observed:], copies)
        seen = self._seen[copies]
        costs = 1.0 - seen[:, 1:] if self._costs is None else self._costs[:, before, there, taken].T.copy()
        return Seen(seen[:, 0], seen[:, 1:], costs, self._thresholds[copies])

    def over(self) -> npt.NDArray[np.bool_]:
        """Which copies are at the end of an episode."""
        ended: npt.NDArray[np.bool_] = self.h >= self.cmdp.horizon
        return ended

    def _draw(self, which: list[int], u: Float, copies: Index) -> None:
        for i in which:
            self._thresholds[copies, i] = self.cmdp.thresholds[i].sample(u[:, i : i + 1])[:, 0]


def as_cmdp(environment: Any, instance: Any, options: dict[str, Any]) -> CMDP:
    """A CMDP itself, or the instance of a registered one."""
    if isinstance(environment, str):
        return make_cmdp(environment, as_int("instance", instance, 0), **options)
    if options:
        raise ValidationError(f"options are {shown(options)}; a CMDP that is given takes none")
    return instance_of("environment", environment, CMDP)
