"""The optimistic primal-dual family.

A member of this family is its schedules, its bonus, its dual set and its margin; everything else is here. In episode t

1. estimate the model optimistically from the episodes before t,
2. evaluate pi_t by truncated policy evaluation, each of reward, utilities and entropy truncated by itself,
3. pi_{t+1} is proportional to pi_t exp(eta_t Q_y),  Q_y = Q_r + sum_i lam_i Q_{d_i} + tau_t Q_psi,
4. lam_{t+1} = Proj_[0, bound]((1 - eta_t tau_t) lam_t - eta_t (V_d - eps_t - alpha)),
5. play pi_t and add what was seen.

What the problem reveals is not estimated. A known reward or utility has no bonus for its mean, only that for the
transitions; known transitions have none, and take the place of p^. Both hold for (h, s, a) never visited too, so that
the policy of a state moves before its first visit. With ``unvisited="optimistic"`` an action never tried is worth its
known mean (1, where that is not known) and then the most possible, or what the known transitions lead to.

A utility that is missing in a step (NaN) is not counted: mean and bonus of that utility are over the samples there are,
transitions and reward over all visits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flexdome.certificates import Seen
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.validation import Float, as_float, as_int, frozen
from flexdome.errors import ValidationError
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.primal_dual.bonus_kernels import Form, set_all_bases, width
from flexdome.learners.primal_dual.kernels import estimate, observe_primal_dual, record_only
from flexdome.learners.seen.counts import OptimisticModel, most_actions
from flexdome.learners.seen.dense import dense_counts
from flexdome.learners.seen.file import model_state, restore_model
from flexdome.learners.seen.kernels import Settings
from flexdome.learners.turn import changing, reading
from flexdome.theory import Schedules, bonus_logs
from flexdome.theory.constants import LONGEST
from flexdome.theory.schedules import LARGEST

__all__ = ["PrimalDualLearner", "bonus_of"]

Arrays = dict[str, npt.NDArray[Any]]
TABLE = 4096  # episodes of schedule computed at a time
SWITCHES = [name for name in Form._fields if name not in ("bonus", "dual_step")]


def bonus_of(
    problem: Problem, episodes: int, delta: float, scale: float, scale_entropy: bool
) -> tuple[float, float, float]:
    """Coefficients of eq. 6, ``scale`` times phi_r and phi_p; phi_p log A of the entropy is scaled where asked for."""
    H = problem.horizon
    L_r, L_p = bonus_logs(problem, episodes, delta)
    phi_r, phi_p = scale * math.sqrt(L_r), scale * H * math.sqrt(L_p)
    entropy_scale = scale if scale_entropy else 1.0
    return phi_r, phi_p, entropy_scale * H * math.sqrt(L_p) * math.log(most_actions(problem))


class PrimalDualLearner(Learner):
    """A learner of the family.

    Parameters
    ----------
    schedules : eta_t, tau_t and margin
    bonus : coefficients of the bonus, in the order of :func:`flexdome.learners.primal_dual.bonus_kernels.width`; the
        third is the entropy's, over sqrt(max(N, 1))
    dual_bound : side of the dual box
    form : how the member differs from FlexDOME: ``even`` of :class:`flexdome.learners.seen.kernels.Settings` and the
        fields of :class:`flexdome.learners.primal_dual.bonus_kernels.Form`, where they are not FlexDOME's
    """

    how = "small steps towards reward plus what each constraint is worth, which grows while it is short"
    masks: ClassVar[bool] = True
    gaps: ClassVar[bool] = True
    runner: ClassVar[str] = "flexdome.simulation.runners.primal_dual:PrimalDual"

    def __init__(
        self,
        problem: Problem,
        *,
        episodes: int,
        seed: int,
        schedules: Schedules,
        bonus: Sequence[float],
        dual_bound: float,
        **form: Any,
    ) -> None:
        super().__init__(problem, episodes, seed)
        self.schedules = schedules
        if not max(bonus) <= LARGEST:
            raise ValidationError(
                f"bonus_scale is too large for this problem: the bonus it gives is {max(bonus):g}; "
                f"it must be at most {LARGEST:g}"
            )
        self.dual_bound = as_float("dual_bound", dual_bound, low=0.0, high=LARGEST)
        self.model = OptimisticModel(problem, form.get("slips", False))
        self.settings = self._made_settings(bonus, self.dual_bound, **form)
        self.model.reveal(problem, self.settings, set_all_bases)
        self._table_first = 1
        self._table: tuple[Float, Float, Float] | None = None
        self.schedule(1, 1)
        self._step = np.zeros((3, self.model.W))
        self._alpha = np.zeros(problem.constraints)

    def _made_settings(
        self, bonus: Sequence[float], bound: float, *, even: bool = False, dual_step: float = -1.0, **switches: bool
    ) -> Settings:
        """The constants of the member's kernels; known transitions have no bonus."""
        coefficients = np.zeros(4)
        coefficients[: len(bonus)] = bonus
        if self.problem.transitions is not None:
            coefficients[0 if switches.get("anytime", False) else slice(1, None)] = 0.0
        given: dict[str, Any] = {name: switches.pop(name, False) for name in SWITCHES}
        given |= {name: given[name] or None for name in ("slips", "greedy")}
        if switches:
            raise TypeError(f"a form has no {sorted(switches)[0]!r}")
        form = Form(bonus=coefficients, dual_step=dual_step, **given)
        return self.model.settings(self.problem, bound, even, form)

    def schedule(self, first: int, count: int) -> tuple[Float, Float, Float]:
        """eta (n,), tau (n,) and margin (n, m) of ``count`` episodes from ``first`` on."""
        first, count = as_int("first", first, 1, LONGEST), as_int("count", count, 0, LONGEST)
        if self._table is None or not (
            self._table_first <= first and first + count <= self._table_first + self._table[0].size
        ):
            # Not past the plan unless asked: a schedule of the user's own may end there.
            ahead = max(count, min(TABLE, self.episodes + 1 - first))
            self._table = self.schedules.table(first, ahead, self.problem.constraints)
            self._table_first = first
        at = first - self._table_first
        eta, tau, eps = self._table
        return eta[at : at + count], tau[at : at + count], eps[at : at + count]

    @property
    @reading
    def policy(self) -> Float:
        """(H, S, A) to play next."""
        uniform = 1.0 / self.problem.actions if self.problem.allowed is None else self.problem.uniform
        pi: Float = frozen(self.model.by_state(self.model.core.policy.pi, uniform))
        return pi

    @property
    @reading
    def multipliers(self) -> Float:
        """(m,) paired with that policy."""
        lam: Float = frozen(self.model.core.policy.lam.copy())
        return lam

    @property
    @reading
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.model.visits

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing."""
        data = self.checked_episode(episode)
        self._begun([data])
        eta, tau, eps = self.schedule(self.episode + 1, 1)
        self.model.reserve()
        observe_primal_dual(
            self.model.core, self.settings, eta[0], tau[0], eps[0], data, self._step, self._alpha, self._played
        )  # fmt: skip

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them; the policy does not move."""
        log = self.checked_episodes(episodes)
        self._begun(log)
        for data in log:
            self.model.reserve()
            record_only(self.model.core, self.settings, data)

    def _begun(self, log: Sequence[tuple[Any, ...]]) -> None:
        """Before these episodes are learned from: room for what is missing in them; first states that are estimated."""
        self.model.expect(log)
        if self.problem.initial_estimated:
            self.settings.start_p[:] = self.initial(int(data[0][0]) for data in log)

    @reading
    def beliefs(self) -> Beliefs:
        """What the learner holds to be true of the policy it is about to play."""
        m = self.problem.constraints
        core, settings = self.model.core, self.settings
        estimate(core, settings, 0.0, self._step)  # V_r itself, where the entropy would belong to the reward
        values = self._step[1].copy()
        sampled = core.counts.alpha_sum / np.maximum(core.counts.alpha_count, 1.0)
        visits = self.visits
        return Beliefs(
            value=float(values[0]),
            utilities=values[1 : m + 1],
            thresholds=np.where(np.isnan(settings.thresholds), sampled, settings.thresholds),
            margin=np.array(self.schedule(self.episode + 1, 1)[2][0]),
            widths=self._widths(visits),
            visits=visits,
        )

    def utility_means(self) -> Float:
        """(m, H, S, A) mean utilities that were seen, NaN where nothing was."""
        return self.model.utility_means()

    def _widths(self, visits: Float) -> Float:
        """(H, S, A): the bonus of every cell, for those of reward and utilities that are not known, if any is not."""
        core, settings = self.model.core, self.settings
        sure = self.problem.rewards is not None and self.problem.utilities is not None
        bonus, form = settings.form.bonus, settings.form
        if not form.variance and not form.anytime:
            root: Float = ((0.0 if sure else bonus[0]) + bonus[1]) / np.sqrt(np.maximum(visits, 1.0))
            return root
        first = float(width(settings, 1.0, np.sqrt(float(settings.S)) if form.anytime else 0.0, sure))
        base, n = core.work.base.reshape(-1, self.model.W), np.maximum(core.counts.n_visits, 1.0)
        if sure:
            added = base[:, 0] - settings.known[0]
        elif self.problem.rewards is None:
            added = base[:, 0] - core.counts.sum_r * (1.0 / n)
        else:
            added = base[:, 1] - core.counts.sum_d[0] * (1.0 / np.maximum(self.model.samples()[0], 1.0))
        return self.model.by_state(np.where(core.counts.n_visits > 0, added, first), first)

    def thresholds_changed(self) -> None:
        """Take the new thresholds."""
        self.settings = self.settings._replace(thresholds=np.array(self.problem.thresholds))

    def seen_counts(self) -> Seen:
        """What was counted, for :meth:`certify`."""
        return dense_counts(self.problem, self.model, int(self.visits[0].sum()))

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        return model_state(self.model, bool(self.settings.known_p))

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        restore_model(self.model, self.settings, self.episode, state, set_bases=set_all_bases)
        self._begun(())
        self.thresholds_changed()
