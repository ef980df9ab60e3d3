"""SureDOME: what was seen proposes, fresh episodes of the proposal decide. Safety is a theorem, regret is measured.

Policies are frozen, one after the other; everything that is played is a mixture of frozen policies, with lower bounds
on their utilities that hold at all times (:mod:`flexdome.learners.guarded.ledger`). What is frozen comes from the
empirical model (:mod:`flexdome.learners.guarded.planner`), of which nothing is believed::

    constants: c_explore = 0.1, c_pess = 0.15, c_doubt = 0.3
    policies = {0: the known safe policy, l_0 = its utilities}; no main policy; X = 0 episodes to learn with
    an epoch, begun after t episodes of which n were not the safe policy's:
      where X < c_explore sqrt(H S A (t + 1)), or there is no main policy and none is worth it:
        freeze a policy to learn with, for max(40, X / 2) episodes of its own, which are added to X
      else: look at the policy to earn with; where it is expected to bring more within as many episodes as were played
        than the main policy, freeze it: it is the main one. Then max(60, n / 4) more episodes of the main policy
      in each episode, k the policy of the epoch:
        play k with probability gamma_jk and j otherwise, j the base with the smallest (r* - r_j) (1 - gamma) / gamma
        but, k being the main policy and certified, or after 60 episodes of its own: the pair with the largest
        (1 - gamma_jk) r_j + gamma_jk r_k, if k is part of it
        the episode moves the bounds of the policy that played it, and of no other

What a policy with believed reward r and utilities u is *expected to bring* in D = max(t, 200) episodes is worked out as
it will be played: after n episodes of its own its bounds will be about min(u - H sqrt(2 v l / n), u e^{-l / n}), l =
log(1 / delta_k) (the second is what the largest bets allow), gamma follows, and n grows by gamma in an episode. A new
policy begins at n = 0, the main one is where it is; v is the variance that the last policy showed.

Why it should work
------------------
A policy between the base and a sharp one costs what its bound is short of alpha, times what room costs: about
sqrt(2 v l / n), whatever S, A and H are, so that it need not be planned with room of its own. What is dear is the
beginning, where nothing is known: an episode at a bound of 0 takes alpha / (l_0 - alpha) episodes of the safe policy.
So the bets rise fast, policies are few, the main one is kept while another would not pay for its beginning, and those
to learn with try all that is plausible at once.

It needs the known safe policy with its utilities and delta; no Slater gap, no T, nothing about the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from flexdome.certificates import Seen
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.mask import kernel_mask
from flexdome.cmdp.validation import Float, as_float, frozen
from flexdome.learners.base import Beliefs
from flexdome.learners.guarded.certified import Certified
from flexdome.learners.guarded.kernels import AIM, CURRENT, EXPLORED, KEEN, MAIN, NEARLY, UNTIL
from flexdome.learners.guarded.planner import Proposal, Sketch, plan_to_earn, plan_to_learn, sketch
from flexdome.learners.seen.dense import check_dense, dense, seen_by
from flexdome.learners.seen.file import place_seen, read_seen, seen_state
from flexdome.learners.seen.kernels import count
from flexdome.learners.seen.older_files import with_lists
from flexdome.learners.seen.tally import Tally
from flexdome.learners.state import LARGEST_SUM, Arrays, StateReader, as_state
from flexdome.learners.turn import changing, reading

__all__ = ["LEAST", "SureDOME"]

EXPLORE, PESSIMISM, DOUBT = 0.1, 0.15, 0.3  # c_explore, c_pess, c_doubt
TRIED, MORE = 40, 0.5  # episodes of a policy to learn with: the first ones, and later in all such before
LEAST, LOOK = 60, 0.25  # episodes of the main policy before another is looked at, and later in all but the safe one's
SOON = 200  # episodes that a policy has at least to bring more
STEP = 0.15  # of n: how finely it is followed
NEVER = 2**53  # an episode
OTHERS = ("new_visits", "new_sums", "new_returns", "limit")


class SureDOME(Certified):
    """Plans on what was seen, each certified by fresh episodes of its own.

    Parameters
    ----------
    problem : what may be known; its Slater gap is not used
    episodes : how many are planned, for ``simulate``; nothing else depends on it
    safe_policy : a known safe policy and its utilities (:class:`flexdome.SafePolicy`)
    delta : the probability with which any mixture that is ever played may be unsafe
    explore_scale : c_explore
    pessimism_scale : c_pess
    doubt_scale : c_doubt
    threshold_range, threshold_scale : what is known of thresholds that are sampled (:func:`flexdome.certify`)
    seed : of the draws

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> learner = fd.SureDOME(cmdp.problem(), episodes=1000, safe_policy=fd.safe_policy(cmdp, 0.5))
    >>> float(fd.simulate(learner, cmdp).strong_violation[-1])
    0.0
    """

    id: ClassVar[str] = "suredome"
    how = "mixtures of policies that do not change, with bounds from their own episodes"
    runner: ClassVar[str] = "flexdome.simulation.runners.guarded:Frozen"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        seed: int = 0,
        *,
        safe_policy: Any = None,
        delta: float = 0.05,
        explore_scale: float = EXPLORE,
        pessimism_scale: float = PESSIMISM,
        doubt_scale: float = DOUBT,
        threshold_range: Any = None,
        threshold_scale: Any = None,
    ) -> None:
        super().__init__(problem, episodes, seed, safe_policy, delta, threshold_range, threshold_scale)
        self.explore_scale = as_float("explore_scale", explore_scale, 0.0, 1e6)
        self.pessimism_scale = as_float("pessimism_scale", pessimism_scale, 0.0, 1e6)
        self.doubt_scale = as_float("doubt_scale", doubt_scale, 0.0, 1e6)
        check_dense(problem, "this learner")
        self.tally = Tally(problem)
        self._multipliers = np.zeros(problem.constraints)
        self.settle()

    # -- what is frozen ------------------------------------------------------------------------------------------------

    @property
    def current(self) -> int:
        """The place of the policy of the epoch."""
        return self.ledger.place(int(self.ledger.book.places[CURRENT]))

    @property
    def least(self) -> float:
        """From how many episodes on the policy of the epoch is not favoured any more; -1: always."""
        return LEAST if self.ledger.book.places[KEEN] else -1.0

    def settle(self) -> None:
        """Begin an epoch if it is time, and decide what is played."""
        book = self.ledger.book
        k, alpha = self.current, self.thresholds
        if k == 0 or book.earned[k, 0] >= book.places[AIM] or self.episode >= book.places[UNTIL]:
            self._begin(k, alpha)
        self.ledger.decide(alpha, self.current, self.least)

    def _begin(self, k: int, alpha: Float) -> None:
        """An epoch: a policy to learn with, or the main one, which may be new."""
        ledger, places, t = self.ledger, self.ledger.book.places, self.episode
        H, S, A = self.problem.horizon, self.problem.states, self.problem.actions
        explored = int(places[EXPLORED]) + (0 if places[KEEN] or k == 0 else int(ledger.book.earned[k, 0]))
        others = float(self.tally.episodes - ledger.book.earned[0, 0])  # logged ones, and not the safe one's
        seen = sketch(self.problem, dense(self.tally))
        best = plan_to_earn(self.problem, seen, alpha, self.pessimism_scale, self.initial())
        main = ledger.place(int(places[MAIN])) if places[MAIN] else 0
        learn = explored < self.explore_scale * math.sqrt(H * S * A * (t + 1.0))
        n = max(LEAST, int(LOOK * others))
        if best is not None:
            self._multipliers = best.multipliers
        if not learn:
            until = t + max(LEAST, t)
            if best is not None and best.meets and self._pays(best, main, alpha):
                epoch = {"aim": n, "until": until, "explored": explored}
                ledger.freeze(best.policy, best.values, alpha, main=True, keen=True, **epoch)
            elif main:
                aim = int(ledger.book.earned[main, 0]) + n
                places[[CURRENT, KEEN, AIM, UNTIL, EXPLORED]] = places[MAIN], 1, aim, until, explored
            else:
                learn = True
        if learn:
            plan = self._to_learn(seen, best)
            aim = max(TRIED, int(MORE * explored))
            ledger.freeze(plan.policy, plan.values, alpha, aim=aim, until=NEVER, explored=explored)

    def _to_learn(self, seen: Sketch, best: Proposal | None) -> Proposal:
        lam = np.zeros(self.problem.constraints) if best is None else best.multipliers
        return plan_to_learn(self.problem, seen, lam, self.doubt_scale, self.initial())

    def _pays(self, plan: Proposal, main: int, alpha: Float) -> bool:
        """Whether the plan is expected to bring more than what is known."""
        ledger = self.ledger
        episodes = float(max(self.episode, SOON))
        known = episodes * ledger.decide(alpha)
        if main:
            n, level = float(ledger.book.earned[main, 0]), float(ledger.book.level[main])
            reward = float(ledger.book.reward[main])
            known = max(known, self._brings(reward, ledger.mean(main), n, level, episodes, alpha, main))
        level = ledger.level(ledger.frozen + 1)
        return self._brings(float(plan.values[0]), plan.values[1:], 0.0, level, episodes, alpha) > known

    def _brings(
        self,
        reward: float,
        utilities: Float,
        n: float,
        level: float,
        episodes: float,
        alpha: Float,
        own: int | None = None,
    ) -> float:
        """What a policy is expected to bring in so many episodes, after n of its own; ``own`` is no base of it."""
        ledger, H = self.ledger, self.problem.horizon
        bases = [j for j in ledger.bases(alpha) if j != own]
        bounds, rewards = ledger.book.bound[bases], ledger.book.reward[bases]
        behind = max(float(ledger.book.reward[: len(ledger)].max()), reward) + NEARLY * H - rewards
        wide = H * np.sqrt(2.0 * level * ledger.variance())
        spent = brought = 0.0
        while spent < episodes and bases:
            low = np.minimum(utilities - wide / math.sqrt(max(n, 1.0)), utilities * math.exp(-level / max(n, 0.5)))
            short = low < alpha
            if not short.any():
                return brought + (episodes - spent) * reward
            gammas = ((bounds - alpha)[:, short] / (bounds - low)[:, short]).min(axis=1)
            price = np.where(gammas > 0.0, behind * (1.0 - gammas) / np.maximum(gammas, 1e-300), np.inf)
            j = int(np.argmin(price))
            gamma = float(gammas[j])
            if gamma <= 0.0:
                break
            time = min(max(1.0, STEP * n) / gamma, episodes - spent)
            brought += time * ((1.0 - gamma) * float(rewards[j]) + gamma * reward)
            n += time * gamma
            spent += time
        return brought

    # -- what is learned -----------------------------------------------------------------------------------------------

    def _take(self, episode: Episode, data: tuple[Any, ...]) -> None:
        self.tally.expect([data])
        self.tally.reserve()
        count(self.tally.counts, *data)

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Count logged episodes, and begin an epoch with what is proposed then. They prove nothing: no bound moves."""
        log = self.checked_episodes(episodes)
        before = self.tally.copied() if log else self.tally.counts
        try:
            self.tally.expect(log)
            for data in log:
                self.tally.reserve()
                count(self.tally.counts, *data)
            if log:
                self._begin(self.current, self.thresholds)
        except BaseException:
            self.tally.counts = before
            raise
        self.settle()

    def thresholds_changed(self) -> None:
        """Decide anew what is played."""
        self.laws = self._as_laws()
        self.settle()

    # -- what is told --------------------------------------------------------------------------------------------------

    @property
    @reading
    def multipliers(self) -> Float:
        """(m,) of the last plan to earn with."""
        lam: Float = frozen(self._multipliers.copy())
        return lam

    @property
    @reading
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.tally.visits

    @reading
    def beliefs(self) -> Beliefs:
        """What is held of the mixture: its estimated reward, and lower bounds on its utilities, which need no margin.

        ``widths`` is by how much a cell's reward is held to be less than it looks, where plans are made.
        """
        status, seen = self.status(), sketch(self.problem, dense(self.tally))
        widths = self.pessimism_scale * float(seen.spread[0]) * seen.doubt[0]
        none = np.zeros(self.problem.constraints)
        return Beliefs(status.reward, status.bounds, status.thresholds, none, widths, self.visits)

    def utility_means(self) -> Float:
        """(m, H, S, A) mean utilities that were seen, NaN where nothing was."""
        return self.tally.utility_means()

    def seen_counts(self) -> Seen:
        """What was counted, for :meth:`certify`."""
        return seen_by(self.tally)

    # -- for files -----------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        scales = ("explore_scale", "pessimism_scale", "doubt_scale")
        return {**super().options(), **{name: getattr(self, name) for name in scales}}

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        return {**super().state(), **seen_state(self.tally), "multipliers": self._multipliers.copy()}

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        tally = Tally(self.problem)
        if "n_next" in as_state(state):  # of an older file, which had places for the steps of other learners too
            state = {name: array for name, array in state.items() if name not in OTHERS}
        read = StateReader(with_lists(tally, state))
        seen = read_seen(tally, read, self.episode, kernel_mask(self.problem.allowed))
        self._restored(read)
        multipliers = read.take("multipliers", (self.problem.constraints,), 0.0, LARGEST_SUM)
        read.finish()
        place_seen(tally, seen)
        self.tally, self._multipliers = tally, multipliers.copy()
        self.ledger.decide(self.thresholds, self.current, self.least)
