"""SV-OPS (Stradi, Castiglioni, Marchesi and Gatti 2025): online mirror descent on optimistically safe occupancies.

In the paper's cost form, loss l = 1 - r, costs g = 1 - d, limits tau = H - alpha, with the sets of
:mod:`flexdome.learners.programs.loop_free`. q^_1 is uniform and eta = gamma = sqrt(H u / (T H S A)), u as there. In
episode t

    play pi^_t = pi^{q^_t};    u_t(s, a) = the largest occupancy of (s, a) under pi^_t in any model of the set
    l^_t     = l_t 1{(s, a) visited} / (u_t + gamma)
    q^_{t+1} = argmin KL(q || q^_t exp(-eta l^_t))   over q in the set, (g^_i - xi) . q <= tau_i

If no q in the set is optimistically safe the last condition is dropped. Claimed: sublinear regret and *strong*
violation, for adversarial losses too.

Reconstructed
-------------
The steps are those of S-OPS (:mod:`flexdome.learners.programs.s_ops`), which a later paper states in full, without the
safe policy; of SV-OPS itself only the abstract was at hand. Thresholds are assumed known: where they are not, the mean
of their samples is used. Step and gamma are options.

Deviations
----------
With ``replan`` a step is made from the summed loss estimates of all episodes since the last one. q^_t counts as at
least 1e-30 in every cell, and exponents that differ by more than 10,000 are scaled down to that
(:func:`flexdome.learners.programs.projection.mirror_step`). Where the safest q of the set has less than 1e-5 H to
spare, tau_i is raised by what lacks: the safe set must have an interior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.learners.base import Arrays
from flexdome.learners.options import Tuning, checked, chosen, keep
from flexdome.learners.programs.family import Plan, ProgramLearner
from flexdome.learners.programs.loop_free import LEAST_CONSTANT, LoopFreeSet, check_constants, occupancy_bound
from flexdome.learners.programs.oracle import oracle_of
from flexdome.learners.programs.projection import Occupancy, first_occupancy, mirror_step
from flexdome.learners.programs.transition_sets import Estimates, TransitionSet
from flexdome.learners.state import LARGEST_SUM, StateReader
from flexdome.planning.decomposition import slack_mixture

__all__ = ["SVOPS"]

PRACTICAL = {"bonus_scale": 1e-3, "step_size": 1e-2, "exploration": 1e-2}  # docs/tuning.md
ROOM = 1e-5  # relative to H: what the safest q has to spare, or is given
UNSAFE = 1e-9  # relative to H: a slack below minus this means that no q is safe


@dataclass(frozen=True)
class Carried:
    """What the next step starts from.

    Attributes
    ----------
    q : q^_t
    upper : u_t of what is played
    lam : (m,) of the projection, over eta (which counts as at least 1e-30): utilities against rewards
    safe : whether some q was optimistically safe
    weight : with which a known safe policy is drawn
    """

    q: Occupancy
    upper: Float
    lam: Float
    safe: bool
    weight: float


class SVOPS(ProgramLearner):
    """Mirror descent on optimistically safe occupancies.

    Parameters
    ----------
    replan : when a step is made: ``"episode"`` (as published), ``"doubling"``, a factor such as 1.1, every k
    tuning : ``"theory"`` or ``"practical"``: where the options below that are None come from
    bonus_scale : of all widths; 1 is the theory's
    step_size, exploration : eta and gamma
    """

    id: ClassVar[str] = "sv-ops"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        delta: float = 0.1,
        seed: int = 0,
        *,
        replan: Any = "episode",
        tuning: Tuning = "theory",
        bonus_scale: float | None = None,
        step_size: float | None = None,
        exploration: float | None = None,
    ) -> None:
        episodes, delta = checked(problem, episodes, delta)
        S, A, H, mu = problem.states, problem.actions, problem.horizon, problem.initial
        root = math.sqrt(H * LoopFreeSet(problem, episodes, delta, 1.0).log / (episodes * H * S * A))
        theory = {"bonus_scale": 1.0, "step_size": root, "exploration": root}
        numbers = chosen(tuning, theory, PRACTICAL, locals())
        check_constants(numbers, ("exploration",))
        keep(self, {**locals(), **numbers})
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan)
        self._set = LoopFreeSet(problem, episodes, delta, numbers["bonus_scale"])
        self._eta, self._gamma = numbers["step_size"], numbers["exploration"]
        nothing = np.zeros(problem.constraints)
        self._origin = Carried(first_occupancy(H, S, A, mu, problem.allowed), np.ones((H, S, A)), nothing, True, 1.0)

    def _plan(self, episodes: int) -> Plan:
        est = self._estimates()
        transitions, carried = self._set.transitions(est), self._carried
        if self.episode > 0:
            losses = (self.since.new_visits - self.since.new_sums[0]) / (carried.upper + self._gamma)
            carried = self._projected(est, transitions, self._eta * losses, self._eta * max(episodes, 1))
        return self._played_from(est, transitions, carried)

    def _projected(self, est: Estimates, transitions: TransitionSet, slope: Float, length: float) -> Carried:
        """q^_{t+1}; in utility form (g^ - xi) . q <= tau is (1 - (g^ - xi)) . q >= alpha."""
        H, mu = self.problem.horizon, self.initial()
        carried: Carried = self._carried
        allowed = self.problem.allowed
        optimistic, alpha = self._set.optimistic(est), self.thresholds
        slack = float(slack_mixture(oracle_of(transitions, optimistic, mu, self._mask), alpha).value)
        safe = slack >= -UNSAFE * H
        if not safe:
            q = mirror_step(transitions, carried.q, slope, mu, allowed=allowed)
            return replace(carried, q=q, lam=np.zeros(alpha.size), safe=False)
        lowered = alpha - max(ROOM * H - slack, 0.0)
        q = mirror_step(transitions, carried.q, slope, mu, optimistic[1:], lowered, allowed)
        return replace(carried, q=q, lam=q.multipliers / max(length, LEAST_CONSTANT), safe=True)

    def _played_from(self, est: Estimates, transitions: TransitionSet, carried: Carried) -> Plan:
        """The plan that plays q^, and what the next step needs."""
        pi = self._policy_of(carried.q.x)
        upper = occupancy_bound(transitions, self.initial(), pi)
        return Plan.single(pi, carried.lam.copy(), self._values(est, carried.q.x), replace(carried, upper=upper))

    def _values(self, est: Estimates, x: Float) -> Float:
        values: Float = np.einsum("jhsa,hsa->j", self._set.optimistic(est), x)
        return values

    def _notes(self) -> dict[str, float]:
        """Whether an optimistically safe occupancy was found."""
        return {"safe": float(self._now.carried.safe)}

    def _widths(self) -> Float:
        return self._set.width(self._estimates())

    def _memory(self) -> Arrays:
        carried = self._now.carried
        return {
            "x": carried.q.x,
            "p": carried.q.p,
            "lam": carried.lam,
            "upper": carried.upper,
            "safe": np.array([carried.safe], dtype=np.int64),
            "weight": np.array([carried.weight]),
        }

    def _recall(self, reader: StateReader) -> Carried:
        shape = self._origin.q.x.shape
        x = reader.take("own_x", shape, 0.0, 2.0)
        p = reader.rows("own_p", (*shape, shape[1]))
        lam = reader.take("own_lam", (self.problem.constraints,), 0.0, LARGEST_SUM)
        upper = reader.take("own_upper", shape, 0.0, 2.0)
        safe = bool(reader.take("own_safe", (1,), 0, 1, whole=True)[0])
        weight = float(reader.take("own_weight", (1,), 0.0, 1.0)[0])
        return Carried(Occupancy(x, p, lam), upper, lam, safe, weight)
