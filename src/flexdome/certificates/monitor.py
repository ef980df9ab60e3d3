"""A monitor beside a live system: whether the deployed policy is safe, and whether the plant is still the plant.

**Violation.** For every constraint an upper betting sequence of the episodes' total utility
(:mod:`flexdome.certificates.kernels`); the alarm is raised when it falls below the threshold (below the lower bound on
a threshold that is sampled). As long as every episode's policy has V_d_i >= alpha_i, given what was before, the capital
that the alarm waits for is a supermartingale, so there is an alarm *ever* with probability delta / 2 at most, over all
constraints. That is more than was asked: the policies may differ from episode to episode, as those of a learner do; an
alarm then says that not all of them were safe.

**Change.** For the reward and every utility, at each of the scales 100, 1,000 and 10,000, the episodes are cut into
blocks of that length, and each block has an empirical Bernstein sequence of its own, at level

    a_k = (delta / 2) / (3 (1 + m)) * 6 / (pi^2 k^2)      for its k-th block, half for each side.

If policy and plant do not change, the one mean lies in the intervals of all blocks of all scales at all times with
probability 1 - delta / 2, so they have a point in common; the alarm is raised when they have none. So a false alarm is
raised *ever* with probability delta / 2 at most, not at some rate. Short blocks see a large change soon, long ones a
small one (compare the repeated confidence sequences of Shekhar and Ramdas 2023, which start one in every episode and
bound the rate). A change that leaves the means of reward and utilities as they are is not seen, and neither is one that
is smaller than what a block of 10,000 resolves. With a policy that changes, this alarm says just that.

**Missing samples.** A utility that was not sampled (NaN) counts as 1 where a violation is looked for, so that no alarm
is raised by what nobody saw. Where a change is looked for, its episode does not count for that utility; it is assumed
that whether a sample is missing does not depend on what it would have been.

An alarm stays; :meth:`Monitor.reset` forgets everything, for a new policy or after a repair, and begins with
a new delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexdome.certificates import kernels
from flexdome.certificates.monitor_kernels import SCALES, watch
from flexdome.certificates.sequences import POINTS, LowerSequence, betting_grid
from flexdome.certificates.thresholds import HOW, TUNED, as_laws
from flexdome.certificates.verdict import confidence
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.problem import as_problem
from flexdome.cmdp.validation import Float, shown
from flexdome.errors import ValidationError
from flexdome.theory.constants import as_confidence

__all__ = ["SCALES", "Alarm", "Monitor"]


@dataclass(frozen=True)
class Alarm:
    """What is wrong.

    Attributes
    ----------
    kind : ``"violation"`` or ``"change"``
    constraint : i; of a change in the reward, -1
    episode : after which it was raised, from 1
    message : the same in words
    """

    kind: str
    constraint: int
    episode: int
    message: str


class Monitor:
    """Raises the alarm when the deployed policy is shown to violate a threshold, or when the plant has changed.

    Parameters
    ----------
    problem : of which the thresholds are used, and sizes
    delta : the probability with which any alarm is ever raised without a reason
    threshold_range, threshold_scale : what is known of the samples of thresholds that are not known
        (:mod:`flexdome.certificates.thresholds`)

    Examples
    --------
    >>> import flexdome as fd
    >>> problem = fd.Problem(states=2, actions=2, horizon=2, initial=0, thresholds=[1.5], slater_gap=0.1)
    >>> monitor = fd.Monitor(problem, delta=0.01)
    >>> while monitor.observe(fd.Episode([0, 1], [0, 0], [0.5, 0.5], [1.0, 0.0])) is None:
    ...     pass
    >>> monitor.alarm.episode, print(monitor.alarm.message)
    utility 0 is below its threshold, 1.5, with confidence 0.99: it is at most 1.48
    (14, None)
    """

    def __init__(
        self, problem: Problem, delta: float = 0.05, *, threshold_range: Any = None, threshold_scale: Any = None
    ) -> None:
        self.problem, self.delta = as_problem(problem), as_confidence(delta)
        self._laws = as_laws(problem, threshold_range, threshold_scale)
        if self._laws.silent.any():
            i = int(np.argmax(self._laws.silent))
            raise ValidationError(f"thresholds[{i}] is nan, to be estimated from its samples; {HOW}")
        self._sampled = bool(self._laws.sampled.any())
        self._shape = problem.constraints, problem.horizon
        self.reset()

    def reset(self) -> None:
        """Forget every episode and every alarm."""
        H, m = self.problem.horizon, self.problem.constraints
        known = ~np.isnan(self.problem.thresholds)
        sampled = int(self._laws.sampled.sum())
        self._share = 0.5 * self.delta / (m + sampled)
        level, each = -math.log(self._share), 0.5 * self.delta / (len(SCALES) * (1 + m))
        targets = np.where(known, 1.0 - self.problem.thresholds / H, np.inf)
        self._limits = np.array([level, each, *targets])
        self._grid = betting_grid(POINTS, targets[known])
        self._states, self._capitals = np.zeros((m, kernels.SIZE)), np.ones((m, self._grid.shape[1]))
        self._blocks = np.zeros((1 + m, len(SCALES), kernels.SIZE))
        self._reference = np.tile([0.0, 1.0], (1 + m, 1))
        self._count, self._found = np.zeros(1, dtype=np.int64), np.zeros((2, 1 + m), dtype=np.int64)
        self._alpha_sum = np.zeros(m)
        self._alpha_sequences = {
            int(i): LowerSequence(self._share) for i in np.flatnonzero(self._laws.sampled & np.isnan(self._laws.scale))
        }
        self._told = np.zeros((2, 1 + m), dtype=bool)
        self.alarms: tuple[Alarm, ...] = ()

    @property
    def episodes(self) -> int:
        """How many were observed."""
        return int(self._count[0])

    @property
    def upper(self) -> Float:
        """(m,) upper bounds on the utilities, each right at all times with its share of delta / 2."""
        return self.problem.horizon * (1.0 - self._states[:, kernels.BOUND])

    @property
    def alarm(self) -> Alarm | None:
        """The first alarm, or None."""
        return self.alarms[0] if self.alarms else None

    def observe(self, episode: Episode) -> Alarm | None:
        """Take one episode; an alarm that it raises comes back. A bad one is refused and changes nothing.

        Only rewards, utilities and threshold samples are looked at.
        """
        if not isinstance(episode, Episode):
            raise ValidationError(f"episode is {shown(episode)}; it must be an Episode")
        rewards, utilities, samples = self._arrays(episode)
        new = watch(
            rewards, utilities, self._count, self._limits, self._states, self._capitals, self._grid, self._blocks,
            self._reference, self._found,
        )  # fmt: skip
        if new < 0:
            episode.checked(self.problem, gaps=True)  # says what is wrong
            raise ValidationError("rewards and utilities must lie in [0, 1]")
        if samples is not None:
            new += self._sample(samples)
        return self._tell() if new else None

    def _arrays(self, episode: Episode) -> tuple[Float, Float, Float | None]:
        """Rewards (H,), utilities (m, H) and (m,) mean samples; of plain arrays without another look."""
        rewards, utilities = episode.rewards, episode.utilities
        if (
            not self._sampled
            and not self.problem.in_units
            and type(rewards) is np.ndarray
            and type(utilities) is np.ndarray
            and rewards.dtype == utilities.dtype == np.float64
            and rewards.shape == self._shape[1:]
            and utilities.shape == self._shape
            and rewards.flags.c_contiguous
            and utilities.flags.c_contiguous
        ):
            return rewards, utilities, None
        _, _, r, d, alpha = episode.checked(self.problem, gaps=True)
        if not alpha.size:
            return r, d, None
        samples: Float = alpha.mean(axis=1)
        for i in self._alpha_sequences:
            self._laws.checked(samples[i : i + 1], i)
        return r, d, samples

    def _sample(self, samples: Float) -> int:
        """Take an episode's samples; how many sampled thresholds are now shown to be violated comes back."""
        self._alpha_sum += np.where(self._laws.sampled, samples, 0.0)
        for i, sequence in self._alpha_sequences.items():
            low, high = self._laws.low[i], self._laws.high[i]
            sequence.update((samples[i] - low) / (high - low))
        upper, new = self.upper, 0
        for k in np.flatnonzero(self._laws.sampled & (self._found[1, 1:] == 0)):
            if upper[k] < self._threshold(int(k)):
                self._found[1, 1 + k] = self.episodes
                new += 1
        return new

    def _threshold(self, i: int) -> float:
        """The lower bound on threshold i."""
        laws = self._laws
        if not laws.sampled[i]:
            return float(laws.known[i])
        if i in self._alpha_sequences:
            low = laws.low[i] + (laws.high[i] - laws.low[i]) * self._alpha_sequences[i].bound
        else:
            n = float(self.episodes)
            low = self._alpha_sum[i] / n - kernels.mixture_width(
                n, self._limits[0] - math.log(2.0), laws.scale[i], TUNED
            )
        return max(float(low), 0.0)

    def _tell(self) -> Alarm:
        """Put what was found in words; the first new alarm comes back."""
        before = len(self.alarms)
        sure, units = f"with confidence {confidence(self.delta)}", self.problem.units
        for k, j in np.argwhere((self._found > 0) & ~self._told)[::-1]:
            self._told[k, j] = True
            i, t = int(j) - 1, int(self._found[k, j])
            if k == 1:
                least = " at least" if self._laws.sampled[i] else ""
                one, (alpha, upper) = units.quantity(i), units.apart(i, self._threshold(i), float(self.upper[i]))
                side = "below" if one is None or one.limit is None else "above"
                most = "at most" if side == "below" else "at least"
                if one is not None and side == "above" and least:
                    least = " at most"
                what = f"utility {i}" if one is None else one.name
                text = f"{what} is {side} its {units.threshold(i)},{least} {alpha}, {sure}"
                by = "by how much is not known yet" if upper == alpha else f"it is {most} {upper}"
                self._raise("violation", i, t, f"{text}: {by}")
            else:
                reward = "the reward" if units.reward is None else units.reward.name
                what = reward if j == 0 else f"utility {i}" if units.quantity(i) is None else units.name(i)
                text = f"the mean of {what} is not what it was, {sure}: the plant or the policy has changed"
                self._raise("change", i, t, text)
        return self.alarms[before]

    def _raise(self, kind: str, constraint: int, episode: int, message: str) -> None:
        self.alarms = (*self.alarms, Alarm(kind, constraint, episode, message))
