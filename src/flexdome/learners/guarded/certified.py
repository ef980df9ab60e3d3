"""What learners share that play mixtures of frozen policies: the ledger, the draws, thresholds that are sampled.

A member says what is learned from an episode (``_take``) and what is frozen when (``settle``). Everything that is
played comes from the ledger (:mod:`flexdome.learners.guarded.ledger`), and so does its safety (docs/suredome.md).

Thresholds that are sampled take half of delta, in equal shares, each through an upper sequence of its own where its law
is declared (``threshold_range`` or ``threshold_scale``, as for :func:`flexdome.certify`). Where nothing is declared,
the mean sample of an episode is to lie in [0, H], as the threshold does; one that does not is refused.

A sample of a utility that is missing counts as its worst case where something is to be shown: 0 for the lower bounds of
a policy, 1 where the known safe policy might be refuted. So nothing is assumed of why samples are missing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from flexdome.certificates import kernels as sequences
from flexdome.certificates.promise import broken_promise
from flexdome.certificates.thresholds import HOW, ROUNDING, TUNED, Laws, as_laws, declared_numbers
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.mask import refuse_forbidden
from flexdome.cmdp.validation import Float, as_count, frozen
from flexdome.errors import ValidationError
from flexdome.learners.base import Learner
from flexdome.learners.guarded.kernels import refuted_by
from flexdome.learners.guarded.ledger import Ledger
from flexdome.learners.guarded.status import GuardStatus
from flexdome.learners.guarded.threshold_kernels import Samples, note_samples, refused, upper_bounds
from flexdome.learners.safe_policy import as_safe_policy, stored_safe_policy
from flexdome.learners.state import LARGEST_SUM, Arrays, StateReader
from flexdome.learners.turn import changing, reading
from flexdome.theory.constants import as_confidence

__all__ = ["Certified"]

STREAM = 0x47554152  # of the draws between the policies of a mixture


class Certified(Learner):
    """A learner that plays mixtures of frozen policies, whose own episodes bound their utilities."""

    masks: ClassVar[bool] = True
    gaps: ClassVar[bool] = True

    def __init__(
        self,
        problem: Problem,
        episodes: int,
        seed: int,
        safe_policy: Any,
        delta: float,
        threshold_range: Any,
        threshold_scale: Any,
    ) -> None:
        super().__init__(problem, episodes, seed)
        self.safe_policy = as_safe_policy(self.id, problem, safe_policy)
        self.delta = as_confidence(delta)
        if self.delta == 1.0:
            raise ValidationError("delta is 1.0; it must be less than 1: a guard that may always be wrong is none")
        self._declared = (threshold_range, threshold_scale)
        self.laws = self._as_laws()
        self._sampled = np.zeros((problem.constraints, sequences.SIZE))
        share = 0.5 * self.delta if self.laws.sampled.any() else self.delta
        self.ledger = Ledger(self.safe_policy, share)

    def _as_laws(self) -> Laws:
        """What is declared of the thresholds; where nothing is, that the mean sample of an episode lies in [0, H]."""
        laws = as_laws(self.problem, *self._declared)
        low, high = (np.where(laws.silent, end, given) for end, given in ((0.0, laws.low), (laws.horizon, laws.high)))
        return replace(laws, low=low, high=high)

    # -- what a member writes ------------------------------------------------------------------------------------------

    @abstractmethod
    def settle(self) -> None:
        """Freeze the next policy if it is time, and decide what is played; what an interrupt prevented is done now."""

    @abstractmethod
    def _take(self, episode: Episode, data: tuple[Any, ...]) -> None:
        """Learn from an episode that was checked."""

    # -- what is played ------------------------------------------------------------------------------------------------

    @property
    def thresholds(self) -> Float:
        """(m,) known, or upper bounds on those that are sampled, H at first."""
        alpha = np.empty(self.problem.constraints)
        upper_bounds(self.samples(), alpha)
        return alpha

    def samples(self, rows: Float | None = None) -> Samples:
        """The thresholds as kernels take them, with the learner's own sequences or with ``rows``."""
        laws, known = self.laws, np.array(self.problem.thresholds)
        own, level, H = self._sampled if rows is None else rows, self._level, float(self.problem.horizon)
        return Samples(own, known, laws.low, laws.high, laws.scale, level, TUNED, ROUNDING, H)

    @property
    def _level(self) -> float:
        """log(1 / a) of a threshold's sequence."""
        return math.log(2.0 * max(int(self.laws.sampled.sum()), 1) / self.delta)

    def coins(self, count: int) -> Float:
        """(count,) numbers that the next episodes are drawn with; they depend on the seed and the episode alone."""
        bits = np.random.PCG64(np.random.SeedSequence([self.seed, STREAM]))
        bits.advance(self.episode)
        return np.random.Generator(bits).random(as_count("count", count))

    @property
    def _drawn(self) -> int:
        """The place of the policy of the next episode."""
        base, other, gamma = self.ledger.now
        return other if gamma == 1.0 or self.coins(1)[0] < gamma else base

    @property
    @reading
    def policy(self) -> Float:
        """(H, S, A) to play next: the one that is drawn for the next episode."""
        pi: Float = frozen(self.ledger.book.policies[self._drawn].copy())
        return pi

    @property
    @reading
    def mixture(self) -> tuple[Float, Float]:
        """Weights (k,) and policies (k, H, S, A) that an episode is drawn from: a base, and another."""
        base, other, gamma = self.ledger.now
        if gamma == 1.0:
            return np.ones(1), self.ledger.book.policies[[other]]
        return np.array([1.0 - gamma, gamma]), self.ledger.book.policies[[base, other]]

    # -- what is learned -----------------------------------------------------------------------------------------------

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing.

        So is one of the known safe policy that refutes, with those before, the utilities that were promised of it.
        """
        data = self.checked_episode(episode)
        self.settle()
        _, _, rewards, utilities, samples = data
        drawn = self._drawn
        worst = np.where(np.isnan(utilities), float(drawn == 0), utilities)
        reward, totals = float(np.cumsum(rewards)[-1]), np.cumsum(worst, axis=1)[:, -1].copy()  # in order, as kernels
        sampled = self.sampled_after(samples)
        if drawn == 0:
            self.refuted(totals)
        self._take(episode, data)
        self._sampled = sampled
        self.ledger.observe(drawn, reward, totals)
        self.count_episode()
        self.settle()

    def refuted(self, totals: Float) -> None:
        """An error where one more episode of the safe policy, with these ``totals`` (m,), refutes what was promised."""
        book, row = self.ledger.book, np.zeros(sequences.SIZE)
        i = int(refuted_by(book, totals, row))
        if i >= 0:
            most, count = self.problem.horizon * (1.0 - float(row[sequences.BOUND])), int(row[sequences.COUNT])
            raise broken_promise(self.problem.units, i, float(book.bound[0, i]), most, count, sequences.REFUTED)

    def sampled_after(self, samples: Float) -> Float:
        """The sequences of the thresholds after one more episode with ``samples`` (m, H); a bad one is refused."""
        if not samples.size:
            return self._sampled
        after, means = self.samples(self._sampled.copy()), samples.mean(axis=1)
        bad = refused(after, means)
        if bad >= 0:
            raise self._outside(float(means[bad]), bad)
        note_samples(after, means)
        return after.rows

    def checked_thresholds(self, alpha: Float, slater_gap: float | None = None) -> Float:
        """``alpha`` (m,), as inside; those that the safe policy or what was declared does not fit are refused."""
        as_laws(self._with_thresholds(alpha, slater_gap), *self._declared)
        return super().checked_thresholds(alpha, slater_gap)

    def _outside(self, mean: float, i: int) -> ValidationError:
        """The error for an episode whose mean sample of threshold i is not where it is declared, or assumed, to be."""
        if not as_laws(self.problem, *self._declared).silent[i]:
            return self.laws.outside(mean, 0, i)
        return ValidationError(
            f"thresholds[{i}] has the mean {mean:.6g} in this episode; nothing is declared of its samples, so that "
            f"their mean is assumed to lie in [0, H] = [0, {self.problem.horizon}] in every episode: {HOW}"
        )

    # -- what is told --------------------------------------------------------------------------------------------------

    def _being_certified(self) -> bool:
        """Whether the other policy of the mixture is one that is tried."""
        return not self.ledger.is_base(self.ledger.now[1], self.thresholds)

    @reading
    def status(self) -> GuardStatus:
        """What is played next, and what is shown of it."""
        ledger, alpha = self.ledger, self.thresholds
        base, other, gamma = ledger.now
        one, two = ledger.at(base), ledger.at(other)
        return GuardStatus(
            episode=self.episode + 1,
            base=one.number,
            other=two.number,
            weight=gamma,
            candidate=self._being_certified(),
            bounds=(1.0 - gamma) * one.bound + gamma * two.bound,
            thresholds=alpha,
            reward=(1.0 - gamma) * one.reward + gamma * two.reward,
            bases=len(ledger.bases(alpha)),
            frozen=ledger.frozen,
            delta=self.delta,
            multipliers=self.multipliers,
            units=self.problem.units,
        )

    # -- for files -----------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        wide, scale = (_listed(given) for given in self._declared)
        return {
            "episodes": self.episodes,
            "seed": self.seed,
            "safe_policy": stored_safe_policy(self.safe_policy),
            "delta": self.delta,
            "threshold_range": wide,
            "threshold_scale": scale,
        }

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        return {**self.ledger.state(), "sampled": self._sampled.copy()}

    def _restored(self, read: StateReader) -> None:
        """Take back what :meth:`state` gave."""
        self.laws = self._as_laws()
        self.ledger.restore(read)
        for one in self.ledger.policies:
            refuse_forbidden("state.policies", one.policy, self.problem.allowed)
        self._sampled = read.take("sampled", self._sampled.shape, -LARGEST_SUM, LARGEST_SUM).copy()


def _listed(declared: Any) -> Any:
    """What was declared of the thresholds, as JSON: None where nothing is declared of one."""
    given = np.array(declared_numbers(declared), dtype=float)
    if np.isnan(given).all():
        return None
    return given.tolist() if given.ndim == 0 else [None if np.isnan(one).all() else one.tolist() for one in given]
