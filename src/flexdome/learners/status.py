"""What a learner is about to play and why, in plain words.

A learner that has no account of its own is described by what it believes (:class:`~flexdome.learners.base.Beliefs`):
the utilities of its next policy beside their thresholds, what each constraint is worth to it, and how much was tried.
A belief is not a proof: optimistic learners believe the best that the data leave possible, so what is short by their
own belief is short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float

__all__ = ["Status"]


@dataclass(frozen=True, eq=False)
class Status:
    """What is played next, what is known, and what would change it; ``print`` it to read it.

    Attributes
    ----------
    episode : the episode that is about to be played
    episodes : how many were planned
    how : how this kind of learner arrives at its policy
    utilities, thresholds, margin, multipliers : (m,) as the learner believes and holds them
    estimated : (m,) whether the threshold is estimated
    tried, untried : (step, state, action) tried, and never tried in states that were seen
    """

    episode: int
    episodes: int
    how: str
    utilities: Float
    thresholds: Float
    margin: Float
    multipliers: Float
    estimated: npt.NDArray[np.bool_]
    tried: int
    untried: int

    @property
    def slack(self) -> Float:
        """(m,) believed utility less threshold; negative where the policy falls short by the learner's own belief."""
        return self.utilities - self.thresholds

    @property
    def short(self) -> npt.NDArray[np.bool_]:
        """(m,) whether it does."""
        below: npt.NDArray[np.bool_] = self.slack < 0.0
        return below

    def __str__(self) -> str:
        return self.text()

    def text(self, verbose: bool = False) -> str:
        """The account; ``verbose`` adds margins and multipliers."""
        lines = [f"episode {self.episode:,} of {self.episodes:,}: {self._verdict()}", f"  played: {self.how}"]
        for i, (utility, alpha, slack) in enumerate(zip(self.utilities, self.thresholds, self.slack, strict=True)):
            kind = "estimated threshold" if self.estimated[i] else "threshold"
            side = f"short by {-slack:.3g}" if slack < 0.0 else f"{slack:.3g} to spare"
            lines.append(f"  constraint {i}: utility believed to be {utility:.4g}, {kind} {alpha:.4g}: {side}")
            if verbose:
                lines.append(f"    multiplier {self.multipliers[i]:.4g}, safety margin {self.margin[i]:.4g}")
        seen = self.tried + self.untried
        share = 100.0 * self.tried / seen if seen else 0.0
        lines.append(f"  known: {self.tried:,} of {seen:,} actions tried where it has been ({share:.0f} %)")
        lines.append(f"  what would change it: {self._change()}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.episode == 1 and self.tried == 0:
            return "nothing was seen yet, and nothing can be said of safety"
        if self.short.any():
            which = ", ".join(str(int(i)) for i in np.flatnonzero(self.short))
            return f"NOT SAFE by the learner's own belief: constraint {which} falls short"
        return "believed to meet every threshold, which is not a proof"

    def _change(self) -> str:
        parts = []
        if self.short.any():
            i = int(np.argmin(self.slack))
            price = self.multipliers[i]
            parts.append(
                f"constraint {i} must weigh more (it is worth {price:.3g} units of reward now)"
                if price > 0.0
                else f"constraint {i} must begin to weigh: it is worth nothing to the learner yet"
            )
        if self.untried:
            parts.append(f"{self.untried:,} actions were never tried")
        if self.episode > self.episodes:
            parts.append("it is past the episodes that it was planned for")
        return "; ".join(parts) or "more episodes, or other thresholds"
