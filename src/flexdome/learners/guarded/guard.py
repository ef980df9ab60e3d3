"""Any learner, with a proof of safety around it.

A learner proposes; what is played is a mixture of policies that are frozen, with lower bounds on their utilities that
hold at all times (:mod:`flexdome.learners.guarded.ledger`). Nothing is asked of the learner, and nothing of the model::

    policies = {0: the known safe policy, l_0 = its utilities}
    an epoch, begun after t episodes, of n = max(50, t / 2), or max(50, t) once a base was found:
      freeze the learner's policy as candidate k, with confidence delta_k = 6 delta / (pi^2 k^2 m); l_k = 0
      in each episode, while k is a candidate:
        play k with probability gamma_jk and j otherwise, j the base with the smallest (r* - r_j) (1 - gamma) / gamma
        the episode moves the bounds of the policy that played it, and of no other; the learner learns from all
        certified (l_k >= alpha), or k earns less than what is known (by two standard errors): no candidate any more
      else: play the base j and the policy k with the largest (1 - gamma_jk) r_j + gamma_jk r_k

r_k is the mean of the rewards that policy k brought, r* the largest of them (and H / 1000). A policy whose bounds are
below alpha is of use too: it is played as often as the room of a base allows. **Safety** (docs/suredome.md): with
probability 1 - delta every mixture that is ever played has V_{d_i} >= alpha_i for every i.

Thresholds that are sampled take half of delta, in equal shares, each through an upper sequence of its own where its law
is declared (``threshold_range`` or ``threshold_scale``, as for :func:`flexdome.certify`). Where nothing is declared,
the mean sample of an episode is to lie in [0, H], as the threshold does; one that does not is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from flexdome.certificates import kernels
from flexdome.certificates.thresholds import TUNED, Laws, as_laws
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.episode import Scaled
from flexdome.cmdp.mask import refuse_forbidden
from flexdome.cmdp.validation import Float, frozen, shown
from flexdome.errors import ValidationError
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.files import rebuilt_learner, stored_learner
from flexdome.learners.guarded.ledger import Ledger
from flexdome.learners.guarded.status import GuardStatus
from flexdome.learners.safe_policy import as_safe_policy, stored_safe_policy
from flexdome.learners.state import EXACT, LARGEST_SUM, Arrays, StateReader
from flexdome.learners.turn import changing, reading
from flexdome.planning import SafePolicy
from flexdome.theory.constants import as_confidence

__all__ = ["Guard", "Guarded"]

STREAM = 0x47554152  # of the draws between the policies of a mixture
FIRST = 50  # episodes of the first epochs
GROWTH = (0.5, 1.0)  # later ones, in all episodes before: while no other base is known, and after that
ERRORS = 2.0  # by so many a candidate must be behind to be given up
ENOUGH = 300  # episodes of a candidate before its reward is looked at
INNER = "learner."  # the arrays of the learner inside


class Guarded(Learner):
    """A learner inside a guard; :func:`Guard` makes one from a learner that you have.

    Parameters
    ----------
    inside : the learner inside: a name of the registry, which is then made with ``options``, or a learner for the same
        problem, which is taken over
    options : of the learner inside, where it is made
    safe_policy : a known safe policy and its utilities (:class:`flexdome.SafePolicy`)
    delta : the probability with which any mixture that is ever played may be unsafe
    threshold_range, threshold_scale : what is known of thresholds that are sampled (:func:`flexdome.certify`)
    seed : of the draws
    """

    id: ClassVar[str] = "guard"
    masks: ClassVar[bool] = True  # if the learner inside does

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        seed: int = 0,
        *,
        inside: Any = "proxdome",
        options: dict[str, Any] | None = None,
        safe_policy: Any = None,
        delta: float = 0.05,
        threshold_range: Any = None,
        threshold_scale: Any = None,
    ) -> None:
        super().__init__(problem, episodes, seed)
        self.safe_policy = as_safe_policy(self.id, problem, safe_policy)
        self.delta = as_confidence(delta)
        if self.delta == 1.0:
            raise ValidationError("delta is 1.0; it must be less than 1: a guard that may always be wrong is none")
        self._declared = (threshold_range, threshold_scale)
        self.laws = self._as_laws()
        self._sampled = np.zeros((problem.constraints, kernels.SIZE))
        share = 0.5 * self.delta if self.laws.sampled.any() else self.delta
        self.ledger = Ledger(self.safe_policy, share)
        self._candidate, self._until, self._begun = 0, 0, 0
        self._stored: dict[str, Any] | None = None
        if isinstance(inside, dict) and {"format", "learner", "options"} <= set(inside):  # of a file: its arrays follow
            self._stored = inside
            return
        self.learner = self._taken(inside, options)
        self._begin()
        self._decide()

    def _as_laws(self) -> Laws:
        """What is declared of the thresholds; where nothing is, that the mean sample of an episode lies in [0, H]."""
        laws = as_laws(self.problem, *self._declared)
        low, high = (np.where(laws.silent, end, given) for end, given in ((0.0, laws.low), (laws.horizon, laws.high)))
        return replace(laws, low=low, high=high)

    def _taken(self, inside: Any, options: dict[str, Any] | None) -> Learner:
        from flexdome.learners import LEARNERS, make_learner

        if not isinstance(inside, str | Learner) or (isinstance(inside, str) and inside not in LEARNERS):
            raise ValidationError(f"inside is {shown(inside)}; it must be the id of a learner, or a learner")
        if not isinstance(options, dict | None) or not all(isinstance(name, str) for name in options or ()):
            raise ValidationError(f"options is {shown(options)}; it must be a dict of options of the learner inside")
        if not isinstance(inside, Learner):
            given = {"episodes": self.episodes, "seed": self.seed, **(options or {})}
            try:
                return make_learner(inside, self.problem, **given)
            except ValidationError as error:
                raise ValidationError(f"options of the learner inside: {error}") from None
        if options is not None:
            raise ValidationError(f"options is {shown(options)}; it must be None where a learner is given")
        theirs, ours = inside.problem, self.problem
        same = all(getattr(theirs, name) == getattr(ours, name) for name in ("states", "actions", "horizon"))
        if not (same and theirs.constraints == ours.constraints):
            raise ValidationError("inside is a learner for a problem of another size; it must be for the same")
        refuse_forbidden("inside.problem.uniform", theirs.uniform, ours.allowed)
        return inside

    # -- what is played ---------------------------------------------------------------------------------------------

    @property
    def thresholds(self) -> Float:
        """(m,) known, or upper bounds on those that are sampled, H at first."""
        alpha, H = np.array(self.problem.thresholds), float(self.problem.horizon)
        for i in np.flatnonzero(np.isnan(alpha)):
            row, alpha[i] = self._sampled[i], H
            if row[kernels.COUNT] > 0.0:
                if math.isnan(self.laws.scale[i]):
                    low, high = self.laws.low[i], self.laws.high[i]
                    alpha[i] = min(H, high - (high - low) * row[kernels.BOUND])
                else:
                    width = kernels.mixture_width(row[kernels.COUNT], self._level, self.laws.scale[i], TUNED)
                    alpha[i] = min(H, row[kernels.TOTAL] / row[kernels.COUNT] + width)
        return alpha

    @property
    def _level(self) -> float:
        """log(1 / a) of a threshold's sequence."""
        return math.log(2.0 * max(int(self.laws.sampled.sum()), 1) / self.delta)

    def _plan(self, length: int) -> tuple[Float, float]:
        """The learner's policy for an epoch of ``length`` episodes, and what it holds its reward to be."""
        return self.learner.policy, float(self.learner.beliefs().value)

    def _begin(self) -> None:
        """Begin an epoch with a new candidate."""
        growth = GROWTH[int(self.ledger.has_found(self.thresholds))]
        length = max(FIRST, int(growth * self.episode))
        self._begun, self._until = self.episode, self.episode + length
        keep = {self.ledger.policies[at].number for at in self.ledger.best(self.thresholds)[:2]}
        policy, belief = self._plan(length)
        self._candidate = self.ledger.freeze(policy, belief, length, keep)

    def _decide(self) -> None:
        """The mixture of the next episode: base, other policy, and the other's weight."""
        ledger, alpha, at = self.ledger, self.thresholds, self._candidate
        if at and (ledger.is_base(at, alpha) or self._is_behind(at, alpha)):
            self._candidate = 0
        if self._candidate:
            base, gamma = ledger.cheapest(at, alpha)
            self._now = (base, at, gamma)
        else:
            self._now = ledger.best(alpha)

    def _is_behind(self, at: int, alpha: Float) -> bool:
        """Whether a candidate earns less than what is known."""
        one = self.ledger.policies[at]
        if one.count < ENOUGH:
            return False
        base, other, gamma = self.ledger.best(alpha)
        known = (1.0 - gamma) * self.ledger.policies[base].reward + gamma * self.ledger.policies[other].reward
        return one.reward + ERRORS * one.error < known

    def coin(self) -> float:
        """The number that the next episode is drawn with; it depends on the seed and the episode alone."""
        bits = np.random.PCG64(np.random.SeedSequence([self.seed, STREAM]))
        bits.advance(self.episode)
        return float(np.random.Generator(bits).random())

    @property
    def _drawn(self) -> int:
        """The place of the policy of the next episode."""
        base, other, gamma = self._now
        return other if gamma == 1.0 or self.coin() < gamma else base

    @property
    @reading
    def policy(self) -> Float:
        """(H, S, A) to play next: the one that is drawn for the next episode."""
        pi: Float = frozen(self.ledger.policies[self._drawn].policy)
        return pi

    @property
    @reading
    def mixture(self) -> tuple[Float, Float]:
        """Weights (k,) and policies (k, H, S, A) that an episode is drawn from: a base, and another."""
        base, other, gamma = self._now
        if gamma == 1.0:
            return np.ones(1), self.ledger.policies[other].policy[None]
        pair = np.stack([self.ledger.policies[at].policy for at in (base, other)])
        return np.array([1.0 - gamma, gamma]), pair

    @property
    @reading
    def multipliers(self) -> Float:
        """(m,) of the learner inside."""
        lam: Float = frozen(np.array(self.learner.multipliers))
        return lam

    @property
    @reading
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.learner.visits

    # -- what is learned --------------------------------------------------------------------------------------------

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing.

        So is one of the known safe policy that refutes, with those before, the utilities that were promised of it.
        """
        _, _, rewards, utilities, samples = self.checked_episode(episode)
        drawn, totals = self._drawn, utilities.sum(axis=1)
        sampled = self._samples(samples)
        if drawn == 0:
            self.ledger.refuted(totals)
        self.learner.observe(episode)
        self._sampled = sampled
        self.ledger.observe(drawn, float(rewards.sum()), totals)
        self.count_episode()
        if self.episode >= self._until:
            self._begin()
        self._decide()

    def _samples(self, samples: Float) -> Float:
        """The sequences of the thresholds after one more episode."""
        rows = self._sampled
        if samples.size:
            rows, means = rows.copy(), samples.mean(axis=1)
            for i in np.flatnonzero(self.laws.sampled):
                if math.isnan(self.laws.scale[i]):
                    low, high = self.laws.low[i], self.laws.high[i]
                    mean = self.laws.checked(means[None, i], int(i))[0]
                    kernels.bernstein(rows[i], 1.0 - (mean - low) / (high - low), self._level)
                else:
                    rows[i, kernels.COUNT] += 1.0
                    rows[i, kernels.TOTAL] += means[i]
        return rows

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Give logged episodes to the learner inside, and begin an epoch with what it proposes then.

        They prove nothing: no bound moves.
        """
        log = [Scaled(*arrays) for arrays in self.checked_episodes(episodes)]
        self.learner.preload(log)
        if log:
            self._begin()
            self._decide()

    def thresholds_changed(self) -> None:
        """Tell the learner inside, and decide anew what is played."""
        self.laws = self._as_laws()
        self._tell_thresholds()
        self._decide()

    def _tell_thresholds(self) -> None:
        self.learner.take_thresholds(self.problem.thresholds, self.problem.known_slater_gap)

    # -- what is told -----------------------------------------------------------------------------------------------

    @reading
    def status(self) -> GuardStatus:
        """What is played next, and what is shown of it."""
        base, other, gamma = self._now
        one, two = self.ledger.policies[base], self.ledger.policies[other]
        alpha = self.thresholds
        return GuardStatus(
            episode=self.episode + 1,
            base=one.number,
            other=two.number,
            weight=gamma,
            candidate=bool(self._candidate),
            bounds=(1.0 - gamma) * one.bound + gamma * two.bound,
            thresholds=alpha,
            reward=(1.0 - gamma) * one.reward + gamma * two.reward,
            bases=sum(self.ledger.is_base(at, alpha) for at in range(len(self.ledger.policies))),
            frozen=self.ledger.frozen,
            delta=self.delta,
            multipliers=self.multipliers,
            units=self.problem.units,
        )

    @reading
    def beliefs(self) -> Beliefs:
        """What is held of the mixture: its estimated reward, and lower bounds on its utilities, which need no margin.

        ``widths`` and ``visits`` are those of the learner inside.
        """
        status, inside = self.status(), self.learner.beliefs()
        none = np.zeros(self.problem.constraints)
        return Beliefs(status.reward, status.bounds, status.thresholds, none, inside.widths, inside.visits)

    # -- for files --------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        header, _ = stored_learner(self.learner)
        wide, scale = (None if given is None else np.asarray(given).tolist() for given in self._declared)
        return {
            "episodes": self.episodes,
            "seed": self.seed,
            "inside": header,
            "safe_policy": stored_safe_policy(self.safe_policy),
            "delta": self.delta,
            "threshold_range": wide,
            "threshold_scale": scale,
        }

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        _, arrays = stored_learner(self.learner)
        return {
            **{INNER + name: array for name, array in arrays.items()},
            **self.ledger.state(),
            "sampled": self._sampled.copy(),
            "epoch": np.array([self._candidate, self._begun, self._until], dtype=np.int64),
        }

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        from flexdome.learners import LEARNERS

        if self._stored is None:
            raise ValidationError("options.inside is missing; it must be what was stored of the learner inside")
        inside = {name[len(INNER) :]: array for name, array in state.items() if name.startswith(INNER)}
        self.learner = rebuilt_learner(self._stored, inside, LEARNERS)
        self._stored = None
        self.laws = self._as_laws()
        read = StateReader({name: array for name, array in state.items() if not name.startswith(INNER)})
        self.ledger.restore(read)
        for one in self.ledger.policies:
            refuse_forbidden("state.policies", one.policy, self.problem.allowed)
        self._sampled = read.take("sampled", self._sampled.shape, -LARGEST_SUM, LARGEST_SUM).copy()
        epoch = read.count("epoch", (3,), 0, EXACT)
        read.finish()
        self._candidate, self._begun, self._until = (int(number) for number in epoch)
        if self._candidate >= len(self.ledger.policies):
            raise ValidationError(
                f"state.epoch[0] is {self._candidate}; there are {len(self.ledger.policies)} policies"
            )
        self._decide()


def Guard(
    learner: Learner,
    fallback: SafePolicy,
    delta: float = 0.05,
    *,
    threshold_range: Any = None,
    threshold_scale: Any = None,
) -> Guarded:
    """``learner`` with a proof of safety around it: with probability 1 - ``delta`` no unsafe mixture is ever played.

    Parameters
    ----------
    learner : any; the guard takes it over, with its seed
    fallback : a known safe policy and its utilities
    delta : in (0, 1)
    threshold_range, threshold_scale : what is known of thresholds that are sampled (:func:`flexdome.certify`)

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> guarded = fd.Guard(fd.FlexDOME(cmdp.problem(), episodes=500), fd.safe_policy(cmdp, 0.3), delta=0.05)
    >>> float(fd.simulate(guarded, cmdp).strong_violation[-1])
    0.0
    """
    if not isinstance(learner, Learner):
        raise ValidationError(f"learner is {shown(learner)}; it must be a Learner")
    declared = {"threshold_range": threshold_range, "threshold_scale": threshold_scale}
    return Guarded(
        learner.problem, learner.episodes, learner.seed, inside=learner, safe_policy=fallback, delta=delta, **declared
    )
