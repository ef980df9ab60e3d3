"""What a certificate says of each constraint, in words that cannot be misread."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flexdome.cmdp.units import Units
from flexdome.cmdp.validation import Float

__all__ = ["NOT_YET", "SAFE", "UNSAFE", "VACUOUS", "Certificate", "Verdict", "confidence", "decide"]

SAFE, UNSAFE, NOT_YET, VACUOUS = "certified safe", "certified unsafe", "not yet", "vacuous"
MOST = 1e12  # episodes: beyond, no number is named
ROUNDING = 1e-12  # of H
PLAIN = Units(None, (), 1)
REFUTED = {
    "episodes": "the episodes are not of one policy in one unchanging plant",
    "reweighted": "the episodes are not of the policies named in one unchanging plant",
    "model": "the episodes are not of one unchanging plant",
}


def confidence(delta: float) -> str:
    """1 - ``delta``, told; as that where it would be told as 1."""
    sure = f"{1.0 - delta:.6g}"
    return f"1 - {delta:g}" if sure == "1" else sure


@dataclass(frozen=True)
class Verdict:
    """One constraint.

    Attributes
    ----------
    constraint : i, from 0
    verdict : ``"certified safe"``, ``"certified unsafe"``, ``"not yet"`` or ``"vacuous"``
    lower, upper : bounds on V_d_i of the policy
    threshold_lower, threshold_upper : bounds on alpha_i, equal where it is known
    more : how many more episodes would settle it at the present spread; None where no number can be named
    why : what else there is to say, or empty
    units : how numbers are told
    """

    constraint: int
    verdict: str
    lower: float
    upper: float
    threshold_lower: float
    threshold_upper: float
    more: int | None = None
    why: str = ""
    units: Units = PLAIN

    def __str__(self) -> str:
        i, units = self.constraint, self.units
        if self.threshold_lower == self.threshold_upper:
            against = f"{units.threshold(i)} {units.total(i, self.threshold_lower)}"
        else:
            against = f"{units.threshold(i)} in {units.between(i, self.threshold_lower, self.threshold_upper)}"
        bounds = f"{units.utility(i)}in {units.between(i, self.lower, self.upper)}"
        text = f"{units.name(i)}: {self.verdict}; {bounds}, {against}"
        if self.verdict == NOT_YET and self.more is not None:
            text += f"; about {self.more:,} more episode{'s' * (self.more != 1)} would settle it at the present spread"
        elif self.verdict == NOT_YET and "cross" not in self.why:
            text += "; no number of such episodes is in sight that would settle it"
        return f"{text}; {self.why}" if self.why else text


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds that hold together with probability 1 - ``delta``, at whatever moment one stops to look.

    Attributes
    ----------
    method : ``"episodes"``, ``"reweighted"`` or ``"model"``
    assumptions : what must be true for the bounds to hold
    delta : the probability with which any of the bounds may be wrong
    shares : how delta is split, by name: each is the probability with which that part may be wrong
    episodes : how many were used
    value : lower and upper bound on V_r
    verdicts : one for each constraint
    units : how numbers are told
    """

    method: str
    assumptions: str
    delta: float
    shares: dict[str, float]
    episodes: int
    value: tuple[float, float]
    verdicts: tuple[Verdict, ...]
    units: Units = PLAIN

    def __post_init__(self) -> None:
        if self.crossed:
            why = f"safe is withheld: the bounds of {' and '.join(self.crossed)} cross"
            kept = (replace(one, verdict=NOT_YET, why=why) if one.verdict == SAFE else one for one in self.verdicts)
            object.__setattr__(self, "verdicts", tuple(kept))

    @property
    def crossed(self) -> tuple[str, ...]:
        """What has a lower bound above its upper one; any refutes ``assumptions``, and nothing is certified safe."""
        units, names = self.units, []
        if self.value[0] > self.value[1]:
            names.append("the reward" if units.reward is None else units.reward.name)
        for one in self.verdicts:
            if one.lower > one.upper:
                names.append(units.name(one.constraint))
            if one.threshold_lower > one.threshold_upper:
                names.append(f"the {units.threshold(one.constraint)} of {units.name(one.constraint)}")
        return tuple(names)

    @property
    def safe(self) -> bool:
        """Whether every constraint is certified safe, and no bounds cross."""
        return not self.crossed and all(verdict.verdict == SAFE for verdict in self.verdicts)

    @property
    def unsafe(self) -> bool:
        """Whether some constraint is certified unsafe; where bounds cross, that some of the episodes were."""
        return any(verdict.verdict == UNSAFE for verdict in self.verdicts)

    @property
    def lower(self) -> Float:
        """(m,) lower bounds on the utilities."""
        return np.array([verdict.lower for verdict in self.verdicts])

    @property
    def upper(self) -> Float:
        """(m,) upper bounds on the utilities."""
        return np.array([verdict.upper for verdict in self.verdicts])

    @property
    def measured(self) -> dict[str, tuple[float, float]]:
        """Lower and upper bounds on the totals of the reward and of each constraint, by name, in the user's units."""
        units = self.units
        ends = {"reward" if units.reward is None else units.reward.name: tuple(map(units.earning, self.value))}
        both = units.totals(np.stack([self.lower, self.upper]))
        ends |= {units.name(i): tuple(sorted(both[:, i].tolist())) for i in range(len(self.verdicts))}
        return {name: (float(low), float(high)) for name, (low, high) in ends.items()}

    def __str__(self) -> str:
        sure = confidence(self.delta)
        if self.crossed:
            names = " and ".join(self.crossed)
            head = f"{REFUTED[self.method]}: the bounds of {names} cross (confidence {sure})"
        elif self.safe:
            head = f"safe with confidence {sure}"
        elif self.unsafe:
            head = f"UNSAFE with confidence {sure}"
        else:
            head = f"not certified (confidence {sure})"
        return "\n".join(
            [
                f"{head}, from {self.episodes:,} episode{'s' * (self.episodes != 1)} by method '{self.method}'",
                *(f"  {verdict}" for verdict in self.verdicts),
                f"  reward in {self.units.earned_between(*self.value)}",
                f"  holds if {self.assumptions}",
            ]
        )


def decide(
    i: int, units: Units, bounds: tuple[float, float], alpha: tuple[float, float], more: float, silent: str = ""
) -> Verdict:
    """The verdict on constraint i; ``silent`` says why nothing is known of its threshold, if that is so."""
    (lower, upper), H = bounds, float(units.horizon)
    if lower > upper:
        verdict, why = NOT_YET, "the bounds cross: these are not episodes of one policy in one unchanging plant"
    elif alpha[0] > alpha[1]:
        verdict, why = NOT_YET, "the bounds of its threshold cross: its samples are not of one law, or not as declared"
    elif lower >= alpha[1]:
        verdict, why = SAFE, ""
    elif upper < alpha[0]:
        verdict, why = UNSAFE, ""
    elif silent:
        verdict, why = VACUOUS, silent
    elif lower <= ROUNDING * H and upper >= H - ROUNDING * H:
        verdict, why = VACUOUS, "the bounds say nothing that was not known before"
    else:
        verdict, why = NOT_YET, ""
    open_ = verdict == NOT_YET and not why and more < MOST
    return Verdict(i, verdict, lower, upper, *alpha, max(int(more), 1) if open_ else None, why, units)
