"""SureDOME: ProxDOME proposes, fresh episodes of the proposal decide. Safety is a theorem, the rate of regret is not.

The guard of :mod:`flexdome.learners.guarded.guard`, whose learner is a bold ProxDOME. A plan that meets its thresholds
exactly can never be certified, so that plans are made with the room that their certificate will need::

    policies = {0: the known safe policy, l_0 = its utilities}
    an epoch, begun after t episodes, of n = max(50, t / 2), or max(50, t) once a base was found:
      ProxDOME's thresholds <- alpha_i + min(c_room H sqrt(2 v_i log(1 / delta_k) / n), max_j (l_ji - alpha_i) / 2)
      freeze ProxDOME's plan as candidate k, with confidence delta_k = 6 delta / (pi^2 k^2 m); l_k = 0
      in each episode, while k is a candidate:
        play k with probability gamma_jk and j otherwise, j the base with the smallest (r* - r_j) (1 - gamma) / gamma
        the episode moves the bounds of the policy that played it, and of no other; ProxDOME learns from all
        certified (l_k >= alpha), or k earns less than what is known (by two standard errors): no candidate any more
      else: play the base j and the policy k with the largest (1 - gamma_jk) r_j + gamma_jk r_k

v_i is the variance of an episode's total utility over H under the last policy that has played twenty episodes (1/12
before), and the square root the width that its sequence will have when the epoch ends. No more than half of the room
that there is at most is asked for. ProxDOME's own margin need not keep anybody safe here: ``caution`` is small.

It needs the known safe policy with its utilities and delta; no Slater gap, no T, nothing about the model.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float, as_float
from flexdome.learners.guarded.guard import Guarded
from flexdome.learners.proximal.proxdome import ProxDOME

__all__ = ["SureDOME"]

WIDTH = 1.5  # c_room
CAP = 0.5  # of the most room of any policy
GAP = 1e-3  # of H: ProxDOME's thresholds stay so far below H
SPREAD = 1.0 / 12.0  # the variance of a total over H before any is known


class SureDOME(Guarded):
    """ProxDOME's plans, each certified by fresh episodes of its own.

    Parameters
    ----------
    problem : what may be known; its Slater gap is not used
    episodes : how many are planned, for ``simulate``; nothing else depends on it
    safe_policy : a known safe policy and its utilities (:class:`flexdome.SafePolicy`)
    delta : the probability with which any mixture that is ever played may be unsafe
    caution : of ProxDOME
    room_scale : c_room
    threshold_range, threshold_scale : what is known of thresholds that are sampled (:func:`flexdome.certify`)
    seed : of the draws
    inside : what a file holds of ProxDOME

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> learner = fd.SureDOME(cmdp.problem(), episodes=1000, safe_policy=fd.safe_policy(cmdp, 0.5))
    >>> float(fd.simulate(learner, cmdp).strong_violation[-1])
    0.0
    """

    id: ClassVar[str] = "suredome"
    learner: ProxDOME

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        seed: int = 0,
        *,
        safe_policy: Any = None,
        delta: float = 0.05,
        caution: float = 0.3,
        room_scale: float = WIDTH,
        threshold_range: Any = None,
        threshold_scale: Any = None,
        inside: Any = None,
    ) -> None:
        self.caution = as_float("caution", caution, 0.0, 1.0)
        self.room_scale = as_float("room_scale", room_scale, 0.0, 1e6)
        super().__init__(
            problem,
            episodes,
            seed,
            inside="proxdome" if inside is None else inside,
            options=None if inside is not None else {"caution": self.caution},
            safe_policy=safe_policy,
            delta=delta,
            threshold_range=threshold_range,
            threshold_scale=threshold_scale,
        )

    def _plan(self, length: int) -> tuple[Float, float]:
        self._raise_thresholds(length)
        return super()._plan(length)

    def _raise_thresholds(self, length: int) -> None:
        self.learner.take_thresholds(self._aims(length), GAP * self.problem.horizon)

    def _aims(self, length: int) -> Float:
        """(m,) thresholds with the room that a certificate needs."""
        ledger, alpha, H = self.ledger, self.thresholds, self.problem.horizon
        last = max(ledger.policies, key=lambda one: (one.count >= 20, one.number))
        spread = last.variance if last.count >= 20 else np.full(alpha.size, SPREAD)
        width = self.room_scale * H * np.sqrt(2.0 * spread * ledger.level(ledger.frozen + 1) / length)
        most = np.max([one.bound for one in ledger.policies], axis=0) - alpha
        aims: Float = np.minimum(alpha + np.minimum(width, CAP * np.maximum(most, 0.0)), (1.0 - GAP) * H)
        return aims

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        return {**super().options(), "caution": self.caution, "room_scale": self.room_scale}

    def _tell_thresholds(self) -> None:
        self._raise_thresholds(self._until - self._begun)
