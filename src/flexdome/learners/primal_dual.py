"""The optimistic primal-dual family.

A member of this family is its schedules, its bonus, its dual set and its margin; everything else is here. In episode t

1. estimate the model optimistically from the episodes before t,
2. evaluate pi_t by truncated policy evaluation, each of reward, utilities and entropy truncated by itself,
3. pi_{t+1} is proportional to pi_t exp(eta_t Q_y),  Q_y = Q_r + sum_i lam_i Q_{d_i} + tau_t Q_psi,
4. lam_{t+1} = Proj_[0, bound]((1 - eta_t tau_t) lam_t - eta_t (V_d - eps_t - alpha)),
5. play pi_t and add what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.validation import Float, as_float, frozen
from flexdome.errors import ValidationError
from flexdome.kernels.optimistic import estimate, observe_primal_dual, record_only
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.model import OptimisticModel
from flexdome.theory import Schedules

__all__ = ["PrimalDualLearner"]

Arrays = dict[str, npt.NDArray[Any]]
TABLE = 4096  # episodes of schedule computed at a time


class PrimalDualLearner(Learner):
    """A learner of the family.

    Parameters
    ----------
    schedules : eta_t, tau_t and margin
    bonus : numerators of phi_r, phi_p and of the entropy's bonus, each over sqrt(max(N, 1))
    optimistic : whether an action never tried has the largest value possible instead of its bonus alone
    dual_bound : side of the dual box
    """

    def __init__(
        self,
        problem: Problem,
        *,
        episodes: int,
        seed: int,
        schedules: Schedules,
        bonus: tuple[float, float, float],
        optimistic: bool,
        dual_bound: float,
    ) -> None:
        super().__init__(problem, episodes, seed)
        self.schedules = schedules
        self.model = OptimisticModel(problem)
        self.settings = self.model.settings(problem, bonus, optimistic, as_float("dual_bound", dual_bound, low=0.0))
        self._table_first = 1
        self._table: tuple[Float, Float, Float] | None = None
        self.schedule(1, 1)
        self._step = np.zeros((3, self.model.W))
        self._alpha = np.zeros(problem.constraints)

    def schedule(self, first: int, count: int) -> tuple[Float, Float, Float]:
        """eta (n,), tau (n,) and margin (n, m) of ``count`` episodes from ``first`` on."""
        if self._table is None or not (
            self._table_first <= first and first + count <= self._table_first + self._table[0].size
        ):
            self._table_first = first
            self._table = self.schedules.table(first, max(count, TABLE), self.problem.constraints)
        at = first - self._table_first
        eta, tau, eps = self._table
        return eta[at : at + count], tau[at : at + count], eps[at : at + count]

    @property
    def policy(self) -> Float:
        """(H, S, A) to play next."""
        pi: Float = frozen(self.model.spread(self.model.core.pi, 1.0 / self.problem.actions))
        return pi

    @property
    def multipliers(self) -> Float:
        """(m,) paired with that policy."""
        lam: Float = frozen(self.model.core.lam.copy())
        return lam

    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing."""
        data = episode.checked(self.problem)
        eta, tau, eps = self.schedule(self.episode + 1, 1)
        self.model.reserve()
        observe_primal_dual(
            self.model.core, self.settings, eta[0], tau[0], eps[0], data, self._step, self._alpha
        )  # fmt: skip
        self.episode += 1

    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them; the policy does not move."""
        checked = []
        for k, episode in enumerate(episodes):
            try:
                checked.append(episode.checked(self.problem))
            except ValidationError as error:
                raise ValidationError(f"episodes[{k}]: {error}") from None
        for data in checked:
            self.model.reserve()
            record_only(self.model.core, self.settings, data)

    def beliefs(self) -> Beliefs:
        """What the learner holds to be true of the policy it is about to play."""
        m = self.problem.constraints
        core, settings = self.model.core, self.settings
        estimate(core, settings, self._step)
        values = self._step[1].copy()
        sampled = core.alpha_sum / max(core.alpha_count[0], 1.0)
        visits = self.model.spread(core.n_visits, 0.0)
        return Beliefs(
            value=float(values[0]),
            utilities=values[1 : m + 1],
            thresholds=np.where(np.isnan(settings.thresholds), sampled, settings.thresholds),
            margin=np.array(self.schedule(self.episode + 1, 1)[2][0]),
            widths=(settings.bonus[0] + settings.bonus[1]) / np.sqrt(np.maximum(visits, 1.0)),
            visits=visits,
        )

    def _thresholds_changed(self) -> None:
        self.settings = self.settings._replace(thresholds=np.array(self.problem.thresholds))

    def _state(self) -> Arrays:
        return self.model.state()

    def _restore(self, state: Arrays) -> None:
        self.model.restore(state)
        self._thresholds_changed()
