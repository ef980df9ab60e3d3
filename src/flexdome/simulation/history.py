"""What happened, exactly: signed gaps of every episode, never sampled, never clipped.

With pi_t the policy of episode t, ``reward_gap`` is V_r* - V_r^{pi_t} and ``violation`` alpha_i - V_{d_i}^{pi_t}, both
from the true model. The strong metrics cumulate positive parts, so that a good episode never makes up for a bad one;
the weak ones cumulate the signed numbers. Index t - 1 is episode t; ``multipliers[:, t - 1]`` is lam_t.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float, shown
from flexdome.errors import ValidationError

__all__ = ["History", "Snapshot"]

ROUNDING = 1e-9  # of a threshold: ten times 0.1 is not quite 1


@dataclass(frozen=True)
class Snapshot:
    """A learner as it stood before an episode: policy (H, S, A), multipliers (m,), visits (H, S, A)."""

    policy: Float
    multipliers: Float
    visits: Float


@dataclass(frozen=True)
class History:
    """The episodes of one run, or of one call that continued it.

    Attributes
    ----------
    first : the first episode, 1 for a new learner
    planned : how many episodes the learner was planned for; episodes past it are allowed (``past_plan`` says so)
    episodes : the episodes that were evaluated exactly (all, unless ``evaluate_every`` > 1)
    reward_gap : (n,) signed V_r* - V_r, at those episodes
    violation : (m, n) signed alpha - V_d, at those episodes
    multipliers : (m, T), every episode
    diagnostics : what the learner itself estimated, every episode: ``value`` (T,), ``utilities`` (m, T), ``thresholds``
        (m, T), ``margin`` (m, T) for primal-dual learners and those that solve a program. The latter add ``replanned``
        (1 in the first episode of a plan), ``baseline`` (the weight of the known safe policy) where there is one, and
        ``drawn_value``, ``drawn_utilities`` (of the policy that was drawn) where policies are drawn
    snapshots : t to the learner as it stood before episode t
    alpha : (m,) the thresholds (their means)
    realised : (1 + m, T) the sums of rewards and utilities that each episode brought: what happened, where the gaps and
        violations above are about what a policy does on average
    """

    first: int
    planned: int
    episodes: npt.NDArray[np.int64]
    reward_gap: Float
    violation: Float
    multipliers: Float
    diagnostics: dict[str, Float] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    alpha: Float = field(default_factory=lambda: np.zeros(0))
    realised: Float = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def last(self) -> int:
        """The last episode."""
        return self.first - 1 + int(self.multipliers.shape[1])

    @property
    def past_plan(self) -> bool:
        """Whether episodes beyond the learner's plan were run."""
        return self.last > self.planned

    @property
    def strong_regret(self) -> Float:
        """(T,) cumulated positive reward gaps."""
        return np.cumsum(np.maximum(self._complete(self.reward_gap), 0.0))

    @property
    def strong_violation(self) -> Float:
        """(T,) the largest, over constraints, of the cumulated positive violations."""
        worst: Float = self.strong_violations.max(axis=0)
        return worst

    @property
    def strong_violations(self) -> Float:
        """(m, T) cumulated positive violations of each constraint."""
        return np.cumsum(np.maximum(self._complete(self.violation), 0.0), axis=1)

    @property
    def total_violation(self) -> Float:
        """(T,) the sum, over constraints, of the cumulated positive violations."""
        total: Float = self.strong_violations.sum(axis=0)
        return total

    @property
    def worst_violation(self) -> Float:
        """(T,) the largest positive violation of each episode, cumulated."""
        return np.cumsum(np.maximum(self._complete(self.violation), 0.0).max(axis=0))

    @property
    def weak_regret(self) -> Float:
        """(T,) cumulated reward gaps, good episodes making up for bad ones."""
        return np.cumsum(self._complete(self.reward_gap))

    @property
    def weak_violation(self) -> Float:
        """(T,) the largest, over constraints, of the cumulated signed violations."""
        worst: Float = np.cumsum(self._complete(self.violation), axis=1).max(axis=0)
        return worst

    @property
    def share_below(self) -> Float:
        """(m,) the share of episodes whose own sum of utility i fell below threshold i, by more than rounding.

        A policy that is safe in expectation falls below in many episodes; :func:`flexdome.chance_constraint` is for
        those who must bound how many.
        """
        if self.realised.size == 0:
            raise ValidationError("the history has no realised sums; simulate records them")
        least = self.alpha - ROUNDING * np.abs(self.alpha)
        share: Float = (self.realised[1:] < least[:, None]).mean(axis=1)
        return share

    def _complete(self, series: Float) -> Float:
        if self.episodes.size != self.multipliers.shape[1]:
            raise ValidationError(
                f"{self.episodes.size} of {self.multipliers.shape[1]} episodes were evaluated; "
                "cumulative series need all of them (evaluate_every=1)"
            )
        return series

    __array_ufunc__ = None  # what is added to an array is this class's to refuse

    def __radd__(self, earlier: object) -> History:
        raise ValidationError(f"the first history is {shown(earlier)}; it must be a History")

    def __add__(self, later: History) -> History:
        """This history and the one that continued it; both must have the same diagnostics."""
        if not isinstance(later, History):
            raise ValidationError(f"the second history is {shown(later)}; it must be a History")
        here, there = self.multipliers.shape[0], later.multipliers.shape[0]
        if here != there:
            raise ValidationError(f"the second history has {there} constraints; it must have {here}, as the first")
        if later.first != self.last + 1:
            raise ValidationError(f"the second history starts at episode {later.first}; it must be {self.last + 1}")
        for which, one, other in (("first", self, later), ("second", later, self)):
            missing = [repr(name) for name in other.diagnostics if name not in one.diagnostics]
            if missing:
                raise ValidationError(
                    f"the {which} history's diagnostics have no {', '.join(missing)}; both must have the same series"
                )
        return History(
            first=self.first,
            planned=later.planned,
            episodes=np.concatenate([self.episodes, later.episodes]),
            reward_gap=np.concatenate([self.reward_gap, later.reward_gap]),
            violation=np.concatenate([self.violation, later.violation], axis=1),
            multipliers=np.concatenate([self.multipliers, later.multipliers], axis=1),
            diagnostics={
                name: np.concatenate([array, later.diagnostics[name]], axis=-1)
                for name, array in self.diagnostics.items()
            },
            snapshots={**self.snapshots, **later.snapshots},
            alpha=later.alpha,
            realised=np.concatenate(
                [part.realised for part in (self, later) if part.realised.size] or [later.realised], 1
            ),
        )
