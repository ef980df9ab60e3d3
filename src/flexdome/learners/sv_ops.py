"""SV-OPS (Stradi, Castiglioni, Marchesi and Gatti 2025): online mirror descent on optimistically safe occupancies.

In the paper's cost form, loss l = 1 - r, costs g = 1 - d, limits tau = H - alpha, with the sets of
:mod:`flexdome.learners.loop_free`. q^_1 is uniform and eta = gamma = sqrt(H u / (T H S A)), u as there. In episode t

    play pi^_t = pi^{q^_t};    u_t(s, a) = the largest occupancy of (s, a) under pi^_t in any model of the set
    l^_t     = l_t 1{(s, a) visited} / (u_t + gamma)
    q^_{t+1} = argmin KL(q || q^_t exp(-eta l^_t))   over q in the set, (g^_i - xi) . q <= tau_i

If no q in the set is optimistically safe the last condition is dropped. Claimed: sublinear regret and *strong*
violation, for adversarial losses too.

Reconstructed
-------------
The steps are those of S-OPS (:mod:`flexdome.learners.s_ops`), which a later paper states in full, without the safe
policy; of SV-OPS itself only the abstract was at hand. Thresholds are assumed known: where they are not, the mean of
their samples is used. Step and gamma are options.

Deviations
----------
With ``replan`` a step is made from the summed loss estimates of all episodes since the last one; where that makes an
exponent above 10 it is made in equal parts with a projection after each, as the published steps would have them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from flexdome.cmdp import Problem
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.learners.base import Arrays
from flexdome.learners.confidence import Estimates, TransitionSet, estimates
from flexdome.learners.loop_free import LoopFreeSet, occupancy_bound
from flexdome.learners.program_learner import Plan, ProgramLearner, policy_of
from flexdome.learners.programs import oracle_of
from flexdome.learners.projection import Occupancy, first_occupancy, project
from flexdome.learners.records import LARGEST_SUM, StateReader
from flexdome.learners.tuning import Tuning, checked, chosen
from flexdome.planning.decomposition import slack_mixture

__all__ = ["SVOPS"]

PRACTICAL = {"bonus_scale": 1e-3, "step_size": 1e-2, "exploration": 1e-2}  # docs/tuning.md
ROOM = 1e-7  # relative to H: with less slack than this no q counts as safe
LONGEST = 10.0  # exponent of one part of a step
LEAST = 1e-250  # an occupancy below this is kept at it


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
        self._prepare(problem, episodes, delta, seed, replan, tuning, bonus_scale, step_size, exploration, {})
        self._begin()

    def _prepare(
        self,
        problem: Problem,
        episodes: int,
        delta: float,
        seed: int,
        replan: Any,
        tuning: Tuning,
        bonus_scale: float | None,
        step_size: float | None,
        exploration: float | None,
        more: dict[str, Any],
    ) -> None:
        """Everything but the first plan; ``more`` are options of a subclass."""
        episodes, delta = checked(problem, episodes, delta)
        S, A, H, mu = problem.states, problem.actions, problem.horizon, problem.initial
        root = math.sqrt(H * LoopFreeSet(problem, episodes, delta, 1.0).log / (episodes * H * S * A))
        theory = {"bonus_scale": 1.0, "step_size": root, "exploration": root}
        named = {"bonus_scale": bonus_scale, "step_size": step_size, "exploration": exploration}
        numbers = chosen(tuning, theory, PRACTICAL, named)
        if numbers["exploration"] <= 0.0:
            raise ValidationError(f"exploration is {numbers['exploration']!r}; it must be positive")
        given = {"delta": delta, "tuning": tuning, **numbers, **more}
        super().__init__(problem, episodes=episodes, seed=seed, replan=replan, given=given)
        self._set = LoopFreeSet(problem, episodes, delta, numbers["bonus_scale"])
        self._eta, self._gamma = numbers["step_size"], numbers["exploration"]
        self._q = first_occupancy(H, S, A, mu)
        self._upper = np.ones((H, S, A))  # u_t of what is played
        self._lam = np.zeros(problem.constraints)  # of the projection, over the step: utilities against rewards
        self._safe = True  # whether some q was optimistically safe

    def _plan(self, episodes: int) -> Plan:
        est = estimates(self.problem, self.records)
        transitions = self._set.transitions(est)
        if episodes > 0 or self.episode > 0:
            losses = (self.records.new_visits - self.records.new_sums[0]) / (self._upper + self._gamma)
            self._q = self._projected(est, transitions, self._eta * losses)
            self._lam = self._q.multipliers / (max(self._eta, LEAST) * max(episodes, 1))
        return self._played_from(est, transitions, policy_of(self._q.x))

    def _projected(self, est: Estimates, transitions: TransitionSet, step: Float) -> Occupancy:
        """q^_{t+1}; in utility form (g^ - xi) . q <= tau is (d^ + xi) . q >= alpha."""
        alpha, mu = self.thresholds, self.problem.initial
        u = est.f[1:] + self._set.xi(est)[1:]
        slack = slack_mixture(oracle_of(transitions, np.concatenate([est.f[:1], u]), mu), alpha).value
        self._safe = slack > ROOM * self.problem.horizon
        q, lam = self._q, np.zeros(alpha.size)
        parts = max(math.ceil(float(step.max()) / LONGEST), 1)
        for _ in range(parts):
            log_x = np.log(np.maximum(q.x, LEAST)) - step / parts
            if self._safe:
                q = project(transitions, log_x, q.p, mu, u, alpha)
                lam = lam + q.multipliers
            else:
                q = project(transitions, log_x, q.p, mu)
        return Occupancy(q.x, q.p, lam)

    def _played_from(self, est: Estimates, transitions: TransitionSet, pi: Float) -> Plan:
        """The plan that plays ``pi``, and what it needs for the next step."""
        self._upper = occupancy_bound(transitions, self.problem.initial, pi)
        return Plan.single(pi, self._lam.copy(), self._values(est))

    def _values(self, est: Estimates) -> Float:
        values: Float = np.einsum("jhsa,hsa->j", est.f + self._set.xi(est), self._q.x)
        return values

    def notes(self) -> dict[str, float]:
        """Whether an optimistically safe occupancy was found."""
        return {"safe": float(self._safe)}

    def _widths(self) -> Float:
        return self._set.width(estimates(self.problem, self.records))

    def _memory(self) -> Arrays:
        return {
            "x": self._q.x,
            "p": self._q.p,
            "lam": self._lam,
            "upper": self._upper,
            "safe": np.array([self._safe], dtype=np.int64),
        }

    def _recall(self, reader: StateReader) -> None:
        shape = self._q.x.shape
        x = reader.take("own_x", shape, 0.0, 2.0)
        p = reader.rows("own_p", (*shape, shape[1]))
        self._lam = reader.take("own_lam", (self.problem.constraints,), 0.0, LARGEST_SUM)
        self._q = Occupancy(x, p, self._lam)
        self._upper = reader.take("own_upper", shape, 0.0, 2.0)
        self._safe = bool(reader.take("own_safe", (1,), 0, 1, whole=True)[0])
