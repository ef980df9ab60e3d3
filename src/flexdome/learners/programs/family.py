"""What learners that solve a program have in common.

They count what they see, and from time to time they *plan*: estimates and confidence sets are made anew, a program is
solved on them, and its policy is played until the next plan. The papers plan in every episode; ``replan`` makes that an
option (:mod:`flexdome.learners.programs.replanning`). A learner that iterates (a mirror step, a multiplier) takes one
step at each plan, from everything seen since the last: with ``replan="episode"`` that is the published step, with n
episodes in between it is a step for all n of them.

A plan is a transaction: ``_plan`` works out what is played *and* what the next plan starts from, changes nothing, and
what it returns is taken in one assignment. An interrupt, wherever it comes, leaves the old plan or the new one, and the
learner goes on as if there had been none.

A member of the family writes one method, ``_plan``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from flexdome.certificates import Seen
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.mask import kernel_mask, refuse_forbidden
from flexdome.cmdp.validation import Float, as_count, frozen
from flexdome.errors import ValidationError
from flexdome.learners.base import Arrays, Beliefs, Learner
from flexdome.learners.options import stored_options
from flexdome.learners.programs.kernels import Since, record, record_played
from flexdome.learners.programs.replanning import as_replan
from flexdome.learners.programs.since import clear, copied, nothing_since, read_since, since_state
from flexdome.learners.programs.transition_sets import Estimates, estimates
from flexdome.learners.seen.dense import check_dense, dense, seen_by
from flexdome.learners.seen.file import place_seen, read_seen, seen_state
from flexdome.learners.seen.older_files import with_lists
from flexdome.learners.seen.tally import Tally
from flexdome.learners.state import LARGEST_SUM, StateReader, as_state
from flexdome.learners.turn import changing, reading
from flexdome.planning.evaluation import markov_policy

__all__ = ["Plan", "ProgramLearner", "SafeOrPlanned", "policy_of"]

STREAM = 97  # of the numbers with which a learner draws among its policies
MOST = 64  # policies in a mixture read from a file


def policy_of(occupancy: Float, elsewhere: Float | None = None) -> Float:
    """x_h(s, a) / sum_a x_h(s, a); where a state is not reached ``elsewhere``, or uniform."""
    return markov_policy(np.maximum(occupancy, 0.0), elsewhere)


@dataclass(frozen=True)
class Plan:
    """What is played until the next plan: a mixture of policies, and what the program says of it.

    Attributes
    ----------
    policies : (k, H, S, A) and weights (k,) they are drawn with
    multipliers : (m,)
    values : (1 + m,) estimated reward and utilities
    carried : what the member's next plan starts from, beside what was seen
    """

    policies: Float
    weights: Float
    multipliers: Float
    values: Float
    carried: Any = None

    @classmethod
    def single(cls, policy: Float, multipliers: Float, values: Float, carried: Any = None) -> Plan:
        """One policy."""
        return cls(policy[None], np.ones(1), multipliers, values, carried)


@dataclass(frozen=True)
class Present:
    """The plan in force: the how-manieth, made after which episode, and after which it last moved."""

    plan: Plan
    number: int
    made_at: int
    moved: int


class ProgramLearner(Learner):
    """A learner of the family.

    Parameters
    ----------
    replan : when to plan, see :mod:`flexdome.learners.programs.replanning`
    """

    how = "a plan made anew from what was seen, within what the data leave possible"
    masks: ClassVar[bool] = True
    gaps: ClassVar[bool] = True
    runner: ClassVar[str] = "flexdome.simulation.runners.programs:Programs"
    every_episode: ClassVar[bool] = False  # whether the policy moves between plans too (see ``_step``)
    anew: ClassVar[bool] = False  # whether a plan follows from what was seen alone, and takes no step from the last
    own_randomness: ClassVar[bool] = False  # whether it draws among several policies

    def __init__(self, problem: Problem, *, episodes: int, seed: int, replan: Any) -> None:
        super().__init__(problem, episodes, seed)
        self.replan = as_replan(replan)
        check_dense(problem, "this learner")
        self.tally = Tally(problem)
        self.since: Since = nothing_since(self.tally)
        self._mask = kernel_mask(problem.allowed)
        self._uniform = problem.uniform
        self._origin: Any = None  # what a member's first plan starts from
        self._present: Present | None = None  # made when it is first asked for
        self._cleared = 0  # the number of the plan since which new visits are counted
        self._doubled = np.zeros(1, dtype=np.int64)  # whether a count has doubled since, in an episode played

    # -- what a member writes ----------------------------------------------------------------------------------------

    @abstractmethod
    def _plan(self, episodes: int) -> Plan:
        """The plan from now on, and in ``carried`` what the next starts from; nothing of the learner is changed.

        ``episodes`` were played since the last plan (0 at the start).
        """

    @abstractmethod
    def _widths(self) -> Float:
        """(H, S, A) the confidence width, or the bonus, of each cell."""

    def _step(self) -> Plan:
        """What an episode between two plans changes, for members with ``every_episode``."""
        return self._now

    def _memory(self) -> Arrays:
        """What a member remembers beside its counts and its plan."""
        return {}

    def _recall(self, reader: StateReader) -> Any:
        """``carried`` again, from what :meth:`_memory` gave, by ``reader.take``."""
        return None

    def _notes(self) -> dict[str, float]:
        """Numbers about the present plan that go into the history's diagnostics."""
        return {}

    def _estimates(self) -> Estimates:
        """What was seen says of rewards, utilities and transitions."""
        return estimates(self.problem, dense(self.tally, shares=True))

    def _policy_of(self, occupancy: Float) -> Float:
        """Its policy, uniform over what is allowed where a state is not reached."""
        return policy_of(occupancy, self._uniform)

    # -- what all share ----------------------------------------------------------------------------------------------

    @property
    def _now(self) -> Plan:
        """The plan in force."""
        return self._in_force.plan

    @property
    def _in_force(self) -> Present:
        if self._present is None:
            self._present = Present(self._plan(0), 0, 0, 0)
        return self._present

    @property
    def _carried(self) -> Any:
        """What the next plan starts from."""
        return self._origin if self._present is None else self._present.plan.carried

    @property
    def thresholds(self) -> Float:
        """(m,) known, or the mean of the samples (0 before the first)."""
        known = self.problem.thresholds
        counts = self.tally.counts
        sampled = counts.alpha_sum / np.maximum(counts.alpha_count, 1.0)
        return np.where(np.isnan(known), sampled, known)

    @property
    @reading
    def policy(self) -> Float:
        """(H, S, A) to play next: for a mixture the one that is drawn for the next episode."""
        pi: Float = frozen(self._now.policies[self.draws(1)[0]].copy())
        return pi

    @property
    @reading
    def multipliers(self) -> Float:
        """(m,) paired with that policy."""
        lam: Float = frozen(self._now.multipliers.copy())
        return lam

    @property
    @reading
    def mixture(self) -> tuple[Float, Float]:
        """Weights (k,) and policies (k, H, S, A) that an episode is drawn from."""
        return frozen(self._now.weights.copy()), frozen(self._now.policies.copy())

    @property
    @reading
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.tally.visits

    @property
    def planned_at(self) -> int:
        """The episode after which the present plan was made, 0 for the first."""
        return 0 if self._present is None else self._present.made_at

    @property
    def planned_values(self) -> Float:
        """(1 + m,) what the plan holds its reward and utilities to be."""
        return self._now.values.copy()

    def draws(self, count: int) -> np.ndarray:
        """(count,) which policy of the mixture the next episodes play.

        The number an episode is drawn with depends on the learner's seed and the episode alone.
        """
        k, count = self._now.weights.size, as_count("count", count)
        if k == 1:
            return np.zeros(count, dtype=np.int64)
        bits = np.random.PCG64(np.random.SeedSequence([self.seed, STREAM]))
        bits.advance(self.episode)
        u = np.random.Generator(bits).random(count)
        chosen = np.searchsorted(np.cumsum(self._now.weights), u, side="right")
        return np.minimum(chosen, int(np.flatnonzero(self._now.weights)[-1])).astype(np.int64)

    def steady(self) -> int:
        """For how many episodes at least the plan stays as it is, unless a count doubles where that matters."""
        return 1 if self.every_episode else max(self.replan.following(self.planned_at) - self.episode, 1)

    def settle(self) -> None:
        """After the episodes that were recorded, or what an interrupt prevented after them: plan, if it is time."""
        now = self._in_force
        self._clear()
        if self.episode >= self.replan.following(now.made_at) or (self.replan.doubling and self._doubled[0]):
            self._make_plan()
        elif self.every_episode and now.moved < self.episode:
            self._present = replace(now, plan=self._step(), moved=self.episode)

    def _make_plan(self) -> None:
        now = self._in_force
        self._present = Present(self._plan(self.episode - now.made_at), now.number + 1, self.episode, self.episode)
        self._clear()

    def _clear(self) -> None:
        """Count visits anew from the plan in force on, where that was not done yet."""
        number = self._in_force.number
        if self._cleared != number:
            clear(self.tally, self.since)
            self._doubled[0] = 0
            self._cleared = number

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing."""
        data = self.checked_episode(episode)
        self.settle()
        self.tally.expect([data])
        self.tally.reserve()
        record_played(self.tally.counts, self.since, *data, self._doubled, self._played)
        self.settle()

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them.

        A learner that plans anew plans the next episode with them; one that takes steps stays where it is until its
        next plan. Where that plan fails or is interrupted, the log was not taken.
        """
        log = self.checked_episodes(episodes)
        if not log:
            return
        self.settle()
        before = self._present, self._cleared, self.tally.copied(), copied(self.since)
        try:
            self.tally.expect(log)
            for data in log:
                self.tally.reserve()
                record(self.tally.counts, self.since, *data, False)
            if self.anew:
                self._make_plan()
        except BaseException:
            self._present, self._cleared, self.tally.counts, self.since = before
            raise

    @reading
    def beliefs(self) -> Beliefs:
        """What the learner holds to be true of what it is about to play."""
        return Beliefs(
            value=float(self._now.values[0]),
            utilities=self._now.values[1:].copy(),
            thresholds=self.thresholds,
            margin=np.zeros(self.problem.constraints),
            widths=self._widths(),
            visits=self.visits,
        )

    def utility_means(self) -> Float:
        """(m, H, S, A) mean utilities that were seen, NaN where nothing was."""
        return self.tally.utility_means()

    def thresholds_changed(self) -> None:
        """Plan with the new thresholds."""
        self._make_plan()

    def seen_counts(self) -> Seen:
        """What was counted, for :meth:`certify`."""
        return seen_by(self.tally)

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        return stored_options(self, replan=self.replan.given)

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        now, since = self._now, copied(self.since)
        doubled = self.replan.doubling and bool(self._doubled[0])
        if self._cleared != self._in_force.number:  # an interrupt came after the plan, and before this
            doubled = False
            clear(self.tally, since)
        left = doubled or (self.every_episode and self._in_force.moved < self.episode)
        return {
            **({"unsettled": np.ones(1, dtype=np.int64)} if left else {}),  # an interrupt came before a plan
            **seen_state(self.tally),
            **since_state(self.tally, since),
            "planned": np.array([self.planned_at], dtype=np.int64),
            "plan_weights": now.weights,
            "plan_policies": now.policies,
            "plan_multipliers": now.multipliers,
            "plan_values": now.values,
            **{f"own_{name}": array for name, array in self._memory().items()},
        }

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        tally = Tally(self.problem)
        reader = StateReader(with_lists(tally, as_state(state)))
        seen = read_seen(tally, reader, self.episode, self._mask)
        since = read_since(tally, reader, seen)
        made_at = int(reader.take("planned", (1,), 0, self.episode, whole=True)[0])
        k, m = reader.length("plan_weights"), self.problem.constraints
        if not 1 <= k <= MOST:
            raise ValidationError(f"state.plan_weights has {k} entries; there are 1 to {MOST} policies")
        weights = reader.rows("plan_weights", (k,))
        policies = reader.rows("plan_policies", (k, *tally.shape))
        refuse_forbidden("state.plan_policies", policies, self.problem.allowed)
        multipliers = reader.take("plan_multipliers", (m,), 0.0, LARGEST_SUM)
        values = reader.take("plan_values", (1 + m,), -LARGEST_SUM, LARGEST_SUM)
        carried, left = self._recall(reader), reader.has("unsettled")
        if left:
            reader.take("unsettled", (1,), 1, 1)
        reader.finish()
        place_seen(tally, seen)
        self.tally, self.since, self._cleared = tally, since, 0
        self._doubled[0] = left
        self._present = Present(Plan(policies, weights, multipliers, values, carried), 0, made_at, self.episode - left)


class SafeOrPlanned(ProgramLearner):
    """A learner that plays a known safe policy or a plan; ``carried`` says whether it is the former."""

    def _notes(self) -> dict[str, float]:
        """Whether the known safe policy is played."""
        return {"baseline": float(self._now.carried)}

    def _memory(self) -> Arrays:
        return {"baseline": np.array([self._now.carried], dtype=np.int64)}

    def _recall(self, reader: StateReader) -> bool:
        return bool(reader.take("own_baseline", (1,), 0, 1, whole=True)[0])
