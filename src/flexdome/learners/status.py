"""What a learner is about to play and why, in plain words.

A learner that has no account of its own is described by what it believes (:class:`~flexdome.learners.base.Beliefs`):
the utilities of its next policy beside their thresholds, what each constraint is worth to it, and how much was tried.
A belief is not a proof: optimistic learners believe the best that the data leave possible, so what is short by their
own belief is short. What is believed to be better than can be, or worse, is told as that: almost nothing was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.units import Units
from flexdome.cmdp.validation import Float

__all__ = ["Status"]

ROUNDING = 1e-9


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
    units : how numbers are told
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
    units: Units

    @property
    def slack(self) -> Float:
        """(m,) believed utility less threshold; negative where the policy falls short by the learner's own belief."""
        return self.utilities - self.thresholds

    @property
    def short(self) -> npt.NDArray[np.bool_]:
        """(m,) whether it does."""
        below: npt.NDArray[np.bool_] = self.slack < 0.0
        return below

    @property
    def beyond(self) -> npt.NDArray[np.bool_]:
        """(m,) whether what is believed is better than can be, or worse."""
        out: npt.NDArray[np.bool_] = np.abs(self.utilities / self.units.horizon - 0.5) > 0.5 + ROUNDING
        return out

    def __str__(self) -> str:
        return self.text()

    def text(self, verbose: bool = False) -> str:
        """The account; ``verbose`` adds margins and multipliers."""
        lines = [f"episode {self.episode:,} of {self.episodes:,}: {self._verdict()}", f"  played: {self.how}"]
        for i, (utility, alpha, slack) in enumerate(zip(self.utilities, self.thresholds, self.slack, strict=True)):
            units = self.units
            kind = f"{'estimated ' * bool(self.estimated[i])}{units.threshold(i)}"
            side = f": short by {units.amount(i, -slack)}" if slack < 0.0 else f": {units.amount(i, slack)} to spare"
            belief = f"believed to be {units.total(i, utility)}"
            if self.beyond[i]:
                best = float(units.horizon) if slack >= 0.0 else 0.0
                which = ("hoped", "best") if slack >= 0.0 else ("feared", "worst")
                belief, side = f"{which[0]} to be {units.total(i, best)}, the {which[1]} there is", ""
            lines.append(f"  {units.name(i)}: {units.utility(i)}{belief}, {kind} {units.total(i, alpha)}{side}")
            if verbose:
                lines.append(f"    multiplier {self.multipliers[i]:.4g}, safety margin {self.margin[i]:.4g}")
        seen = self.tried + self.untried
        share = 100.0 * self.tried / seen if seen else 0.0
        lines.append(
            f"  known: {self.tried:,} of {seen:,} action{'s' * (seen != 1)} tried where it has been ({share:.0f} %)"
        )
        lines.append(f"  what would change it: {self._change()}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.episode == 1 and self.tried == 0:
            return "nothing was seen yet, and nothing can be said of safety"
        if self.short.any():
            which = ", ".join(self.units.name(int(i)) for i in np.flatnonzero(self.short))
            return f"NOT SAFE by the learner's own belief: {which} falls short"
        if self.beyond.any():
            return "nothing can be said of safety yet: what was seldom seen is hoped to be the best there is"
        return "believed to meet every threshold, which is not a proof"

    def _change(self) -> str:
        parts = []
        if self.short.any():
            i = int(np.argmin(self.slack))
            price = self.multipliers[i]
            parts.append(
                f"{self.units.name(i)} must weigh more (it is worth {self.units.price(i, price)} now)"
                if price > 0.0
                else f"{self.units.name(i)} must begin to weigh: it is worth nothing to the learner yet"
            )
        if self.untried:
            parts.append(f"{self.untried:,} action{'s were' if self.untried != 1 else ' was'} never tried")
        if self.episode > self.episodes:
            parts.append("it is past the episodes that it was planned for")
        return "; ".join(parts) or "more episodes, or other thresholds"
