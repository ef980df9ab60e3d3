"""AnchorDOME: one mirror step an episode, regularised towards a moving anchor. No theorem is claimed.

The one-step relative of :mod:`flexdome.learners.proximal.proxdome`. FlexDOME's regularisation pulls towards the uniform
policy and has to fade, and the margin has to cover what it costs meanwhile. Here it pulls towards where the policy has
been lately, so it may stay: a saddle point of the Lagrangian itself is a fixed point. On FlexDOME's optimistic model
(bonus scale c_b, full optimism where N = 0), with Q of the data before episode t::

    log pi <- normalise((log pi + eta (Q_r + lam . Q_d) + eta tau ref) / (1 + eta tau)),   ref  += rho (log pi - ref)
    lam    <- clip((lam + eta tau lref - eta (V_d - c / sqrt(t) - alpha)) / (1 + eta tau), 0, 4 H / Xi)
                                                                                           lref += rho (lam - lref)

eta = 0.1, tau = 1, rho = 0.01, c = 3, c_b = 1e-3; ref starts at log pi_1, uniform, and lref at 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.validation import as_float
from flexdome.errors import ValidationError
from flexdome.kernels.borrow import hold
from flexdome.learners.options import checked, keep
from flexdome.learners.primal_dual.anchor_kernels import Anchor, open_anchors, record_anchored, step_anchored
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.learners.seen.file import _visited_rows
from flexdome.learners.seen.tally import _zeros
from flexdome.learners.state import LARGEST_SUM, ROUNDING, StateReader, as_state
from flexdome.learners.turn import changing
from flexdome.theory import Schedules, bonus_logs
from flexdome.theory.schedules import LARGEST_SCALE, Power

__all__ = ["AnchorDOME"]

Arrays = dict[str, npt.NDArray[Any]]


class AnchorDOME(PrimalDualLearner):
    """Mirror steps towards a moving anchor.

    Parameters
    ----------
    problem : what may be known; its Slater gap bounds the multipliers
    episodes, delta : for the logarithms of the bonus
    step_size : eta
    regularisation : tau
    anchor_rate : rho, how fast the anchor follows; 0 leaves it where it started
    margin_scale : c, the margin is c / sqrt(t)
    bonus_scale : c_b
    seed : recorded; no random numbers are drawn
    """

    id: ClassVar[str] = "anchordome"
    runner: ClassVar[str] = "flexdome.simulation.runners.primal_dual:Anchored"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        step_size: float = 0.1,
        regularisation: float = 1.0,
        anchor_rate: float = 0.01,
        margin_scale: float = 3.0,
        bonus_scale: float = 1e-3,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        L_r, L_p = bonus_logs(problem, episodes, delta)
        bonus_scale = as_float("bonus_scale", bonus_scale, 0.0, LARGEST_SCALE)
        step_size = as_float("step_size", step_size, 0.0, LARGEST_SCALE)
        regularisation = as_float("regularisation", regularisation, 0.0, LARGEST_SCALE)
        if step_size * regularisation > 1.0:
            raise ValidationError(
                f"step_size is {step_size!r} and regularisation is {regularisation!r}; their product must not exceed 1"
            )
        margin_scale = as_float("margin_scale", margin_scale, 0.0, LARGEST_SCALE)
        anchor_rate = self.anchor_rate = as_float("anchor_rate", anchor_rate, low=0.0, high=1.0)
        keep(self, locals())
        super().__init__(
            problem,
            episodes=episodes,
            seed=seed,
            schedules=Schedules(eta=step_size, tau=regularisation, margin=Power(margin_scale, -0.5)),
            bonus=(bonus_scale * math.sqrt(L_r), bonus_scale * problem.horizon * math.sqrt(L_p), 0.0),
            dual_bound=4.0 * problem.horizon / problem.slater_gap,
            optimistic=True,
        )
        H, _, A = self.model.shape
        logits, lam = _zeros(H * A * self.model.C), np.zeros(problem.constraints)
        self.anchor = hold(Anchor(logits, lam, np.zeros(H, dtype=np.int64)))
        open_anchors(self.model.core, self.anchor, self.settings)

    @changing
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing."""
        data = self.checked_episode(episode)
        self._begun([data])
        eta, tau, eps = self.schedule(self.episode + 1, 1)
        self.model.reserve()
        step_anchored(
            self.model.core, self.anchor, self.settings, eta[0], tau[0], eps[0], self.anchor_rate, data, self._step,
            self._alpha, self._played,
        )  # fmt: skip

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them; the policy does not move."""
        log = self.checked_episodes(episodes)
        self._begun(log)
        for data in log:
            self.model.reserve()
            record_anchored(self.model.core, self.anchor, self.settings, data)

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        rows = _visited_rows(self.model, self.model.core.counts.n_cells)
        return {**super().state(), "anchor_logits": self.anchor.logits[rows], "anchor_lam": self.anchor.lam.copy()}

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        state = as_state(state)
        anchors: Arrays = {name: state[name] for name in ("anchor_logits", "anchor_lam") if name in state}
        super().restore({name: part for name, part in state.items() if name not in anchors})
        rows, read = _visited_rows(self.model, self.model.core.counts.n_cells), StateReader(anchors)
        open_anchors(self.model.core, self.anchor, self.settings)
        self.anchor.logits[rows] = read.take("anchor_logits", rows.shape, -LARGEST_SUM, ROUNDING)
        self.anchor.lam[:] = read.take("anchor_lam", self.anchor.lam.shape, 0.0, self.settings.dual_bound)
