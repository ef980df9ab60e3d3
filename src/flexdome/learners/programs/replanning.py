"""When a program-solving learner plans anew.

``"episode"``   after every episode, as published
``"doubling"``  when the visits of some cell have doubled since the last plan (Jaksch, Ortner and Auer 2010)
``1.1``         when the number of episodes has grown by that factor since the last plan
``10``          every ten episodes

After a plan at episode e the next one follows episode ``following(e)``, or the episode that doubled a count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexdome.cmdp.validation import as_float, shown
from flexdome.errors import ValidationError
from flexdome.theory.constants import LONGEST

__all__ = ["NEVER", "Replan", "as_replan"]

NEVER = 2**62  # an episode that does not come


@dataclass(frozen=True)
class Replan:
    """A rule: its name as an option, and what it says."""

    given: str | float | int

    @property
    def doubling(self) -> bool:
        """Whether counts decide."""
        return self.given == "doubling"

    def following(self, episode: int) -> int:
        """The number of episodes after which to plan again, when the last plan was made after ``episode``."""
        if self.doubling:
            return NEVER
        if self.given == "episode":
            return episode + 1
        if isinstance(self.given, int):
            return episode + self.given
        return max(episode + 1, math.ceil(float(self.given) * episode))


def as_replan(value: Any) -> Replan:
    """The option ``replan``, checked."""
    rule = "it must be 'episode', 'doubling', a number of episodes, or a growth factor above 1 such as 1.1"
    if isinstance(value, str) and value in ("episode", "doubling"):
        return Replan(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64)):
        if not 1 <= value <= LONGEST:
            raise ValidationError(f"replan is {shown(value)}; {rule}")
        return Replan("episode" if value == 1 else int(value))
    if isinstance(value, (float, np.floating)):
        if not 1.0 < as_float("replan", value) <= 1e6:
            raise ValidationError(f"replan is {shown(float(value))}; {rule}")
        return Replan(float(value))
    raise ValidationError(f"replan is {shown(value)}; {rule}")
