"""Why ProxDOME plays what it plays, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.units import Units
from flexdome.cmdp.validation import Float
from flexdome.learners.proximal.nearest import Nearest
from flexdome.learners.proximal.sweep_kernels import TOLERANCE

__all__ = ["LICENCE", "Status"]

SHOWN = 3.0  # standard errors by which a policy must meet its thresholds to be called shown safe
LICENCE = 0.02  # first tries in an episode for which a plan may be played that is not shown safe


@dataclass(frozen=True)
class Status:
    """Why the policy of the next episode was taken; ``print`` it to read it.

    Attributes
    ----------
    episode : the episode it was planned for
    utilities, errors, margin, thresholds : (m,) plug-in V_d of the policy, their standard errors (with those of the
        thresholds), c_margin z_t errors, and the thresholds known or estimated
    slack : (m,) utilities - margin - thresholds
    multipliers : (m,)
    tolerance : (m,) a twentieth of the margin (of half of z_t errors, where the margin is smaller)
    accepted : (m,) whether the slack is at least -tolerance, which is what the learner asks of a policy; the diagnostic
        ``safe`` of a history says whether it is so for all constraints
    standard_errors : (m,) by how many of its standard errors a utility exceeds its threshold
    safe : (m,) whether the policy is shown safe: accepted, and by three standard errors, within the tolerance. With
        ``caution`` below 1, or a small ``margin_scale``, less is asked of a policy than that
    trials : soft Bellman sweeps that the dual solve took; ``solved`` whether it ended
    ceiling : whether the multipliers of the optimistic plan are at their ceiling, where it aims at the utilities alone
    share : how much of the optimistic plan is played: 1, or what is mixed into a policy that is shown safe
    weight : with what probability the policy is played, and a safe policy that was given otherwise; 1 where none was
    first_tries : how many actions the optimistic plan expects to try for the first time in an episode
    played : (m,) episodes that were played, as far as their own sums of utility are known; a log is not played
    below : (m,) those of them whose sum fell below the threshold that the learner held to then
    infeasible : whether the data say that no policy meets the thresholds
    nearest : where nothing is accepted, the policy that is nearest to meeting them; None where the model is too large
    untried : (step, state, action) never tried in states that were visited; where steps are shared, at any step
    units : how numbers are told
    """

    episode: int
    utilities: Float
    errors: Float
    margin: Float
    thresholds: Float
    multipliers: Float
    trials: int
    untried: int
    solved: bool
    ceiling: bool
    share: float
    weight: float
    first_tries: float
    played: Float
    below: Float
    infeasible: bool
    nearest: Nearest | None
    tolerance: Float
    units: Units

    @property
    def slack(self) -> Float:
        """(m,) what is left after the margin; negative where the policy cannot be shown safe."""
        return self.utilities - self.margin - self.thresholds

    @property
    def accepted(self) -> npt.NDArray[np.bool_]:
        """(m,) whether the policy is what the learner asks for."""
        enough: npt.NDArray[np.bool_] = self.slack >= -self.tolerance
        return enough

    @property
    def standard_errors(self) -> Float:
        """(m,) by how many of its standard errors a utility exceeds its threshold; infinite where there is no error."""
        over = self.utilities - self.thresholds
        count: Float = np.where(over >= -self.tolerance, np.inf, -np.inf)
        np.divide(over, self.errors, out=count, where=self.errors > 0.0)
        return count

    @property
    def safe(self) -> npt.NDArray[np.bool_]:
        """(m,) whether the policy is shown safe."""
        over = self.utilities - self.thresholds - SHOWN * self.errors
        shown_safe: npt.NDArray[np.bool_] = self.accepted & (over >= -self.tolerance)
        return shown_safe

    @property
    def share_below(self) -> Float:
        """(m,) the share of the episodes played whose own sum fell below the threshold; NaN before the first.

        A policy that is safe in expectation falls below in many episodes.
        """
        share: Float = np.full(self.below.shape, np.nan)
        np.divide(self.below, self.played, out=share, where=self.played > 0.0)
        return share

    def __str__(self) -> str:
        return self.text()

    def text(self, verbose: bool = False) -> str:
        """The account; ``verbose`` adds standard errors, multipliers and how the search for them went."""
        lines = [f"episode {self.episode}: " + self._verdict()]
        if self.weight < 1.0:
            lines.append(f"  played with probability {self.weight:.3g}, the safe policy that was given otherwise")
        for i, (U, error, eps, alpha, slack, lam) in enumerate(
            zip(self.utilities, self.errors, self.margin, self.thresholds, self.slack, self.multipliers, strict=True)
        ):
            limit = self.units.threshold(i) == "limit"
            meets = "meets" if slack >= 0.0 else "meets, within its tolerance,"
            meets = meets if self.accepted[i] else "is above" if limit else "is below"
            errors = f" ({eps / max(error, 1e-300):.3g} standard errors of {error:.3g})" if verbose else ""
            price = f"multiplier {lam:.4g}: " if verbose else ""
            told = self.units
            sign = "+" if limit else "-"
            lines.append(
                f"  {told.name(i)}: {told.utility(i)}{told.total(i, U)} {sign} margin {told.amount(i, eps)}{errors} "
                f"{meets} {told.threshold(i)} {told.total(i, alpha)}, slack {'+' * bool(slack >= 0.0)}"
                f"{told.amount(i, slack)}; {price}{self._role(i)}"
            )
        if self.played.any():
            shares = ", ".join(
                f"{self.units.name(i)} in {share:.3g} of them" for i, share in enumerate(self.share_below)
            )
            played = int(self.played.max())
            lines.append(f"  {played} episode{'s' * (played != 1)} played, whose own sums fell short: {shares}")
        trials = f"{self.trials} dual trial{'s' * (self.trials != 1)}, " if verbose else ""
        lines.append(f"  {trials}{self.untried} (step, state, action) never tried in visited states")
        least = float(self.standard_errors.min())
        if self.safe.all() and np.isfinite(least):
            lines.append(
                f"  shown safe: measured, by {least:.2g} estimated standard errors; no certificate, "
                "which learner.certify(delta) gives"
            )
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.safe.all():
            return self._why_safe()
        if self.accepted.all():
            return (
                f"estimated to meet its thresholds, by {max(float(self.standard_errors.min()), 0.0):.2g} standard "
                f"errors; not shown safe, which takes {SHOWN:g}"
            )
        told = self.units
        short = ", ".join(
            f"{told.name(i)} by {told.amount(i, -self.slack[i])}" for i in map(int, np.flatnonzero(~self.accepted))
        )
        if self.infeasible:
            return f"no policy meets these thresholds, as far as the data show: {self._best()} (played: short {short})"
        if self.share == 0.0:
            return (
                f"nothing can be shown safe yet (short: {short}); after a log, what was tried alone is played until "
                "it is, or is seen not to be safe"
            )
        if self.first_tries >= LICENCE:
            return f"not shown safe (short: {short}); first tries expected in the episode: {self.first_tries:.2g}"
        found = "no policy can be shown safe yet"
        if not self.solved:
            found = "the search found no policy that can be shown safe"
        return f"{found} (short: {short}); what is played aims at the utilities, to learn more"

    def _best(self) -> str:
        """What is nearest to the thresholds, and which of them stand in each other's way."""
        told, found = self.units, self.nearest
        against = found.constraints if found else tuple(int(i) for i in np.flatnonzero(self.multipliers > 0))
        U, errors = (found.utilities, found.errors) if found else (self.utilities, self.errors)
        worst = int(np.argmin(U - self.thresholds))
        told_best = f"best {told.total(worst, U[worst])} ± {told.amount(worst, errors[worst])} of {told.name(worst)}"
        if len(against) < 2:
            return told_best
        which = [told.name(i) for i in against] if told.constraints else [str(i) for i in against]
        return f"together at {told_best}, {'' if told.constraints else 'constraints '}{_listed(which)} conflict"

    def _why_safe(self) -> str:
        if self.share == 0.0:
            return "shown safe: a policy that is safe by itself; nothing can be added yet of a more hopeful plan"
        if self.share < 1.0:
            return (
                f"shown safe: a policy that is safe by itself, with {self.share:.3g} of a more hopeful plan, "
                "which cannot be shown safe by itself"
            )
        if not self.solved:
            return "shown safe, but the search for the best such policy did not end; the nearest is played"
        return f"shown safe: every utility less its margin meets its threshold (within {TOLERANCE:g} margins)"

    def _role(self, i: int) -> str:
        if not self.safe[i]:
            return "not shown safe"
        return "the constraint binds" if self.multipliers[i] > 0 else "the reward alone decides"


def _listed(names: Iterable[str]) -> str:
    """Write out names, as in: 0, 1 and 2."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
