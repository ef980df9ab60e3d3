"""What a guard plays, and what is shown of it, in words."""

from __future__ import annotations

from dataclasses import dataclass

from flexdome.certificates.verdict import confidence
from flexdome.cmdp.units import Units
from flexdome.cmdp.validation import Float

__all__ = ["GuardStatus"]

ROUNDING = 1e-12  # of H: a mixture is made so that its bounds are the thresholds


@dataclass(frozen=True)
class GuardStatus:
    """The mixture of the next episode; ``print`` it to read it.

    Attributes
    ----------
    episode : the episode it is for
    base, other : the policies it is made of, by number; 0 is the safe policy that was given
    weight : of the other
    candidate : whether the other is being certified
    bounds, thresholds : (m,) lower bounds on the mixture's utilities, and the thresholds (upper bounds, where sampled)
    reward : what the mixture is estimated to earn
    bases : how many policies that are kept are shown safe; the given one counts
    frozen : how many were proposed so far
    delta : with what probability any of this may ever be wrong
    multipliers : (m,) of the learner inside
    units : how numbers are told
    """

    episode: int
    base: int
    other: int
    weight: float
    candidate: bool
    bounds: Float
    thresholds: Float
    reward: float
    bases: int
    frozen: int
    delta: float
    multipliers: Float
    units: Units

    def __str__(self) -> str:
        return self.text()

    def text(self, verbose: bool = False) -> str:
        """The account; ``verbose`` adds with what confidence, how many policies there were, and multipliers."""
        lines = [f"episode {self.episode}: {self._played()}"]
        for i, (low, alpha) in enumerate(zip(self.bounds, self.thresholds, strict=True)):
            surely = f" with confidence {confidence(self.delta)}" if verbose else ""
            units = self.units
            shown = f"{units.least(i)} {units.total(i, low)}{surely}, {units.threshold(i)} {units.total(i, alpha)}"
            safe = "" if low >= alpha - ROUNDING * units.horizon else ": not shown safe"
            lines.append(f"  {units.name(i)}: {units.utility(i)}{shown}{safe}")
        count = f"; {self.frozen} proposed, {self.bases} shown safe" if verbose else ""
        lines.append(f"  estimated reward {self.units.earned(self.reward)}{count}")
        if verbose:
            lines.append(f"  multipliers of the learner inside: {', '.join(f'{lam:.4g}' for lam in self.multipliers)}")
        return "\n".join(lines)

    def _played(self) -> str:
        names = ["the safe policy that was given" if k == 0 else f"policy {k}" for k in (self.base, self.other)]
        if self.base == self.other or self.weight == 1.0:
            return f"{names[1]} is played"
        what = "which is being certified" if self.candidate else "which is not shown safe by itself"
        return f"{names[1]}, {what}, with probability {self.weight:.3g}, {names[0]} otherwise"
