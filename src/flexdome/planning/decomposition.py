"""Constrained optima by Lagrangian decomposition: the occupancy-measure program is never built.

The dual function of ``max V_r s.t. V_d >= alpha`` is

    D(lam) = max_pi V_r^pi + lam . (V_d^pi - alpha),   lam >= 0,

and one backward pass evaluates it, together with a deterministic policy that attains it. Column generation
(Dantzig and Wolfe 1960) keeps the policies found so far; the best *mixture* of them is a small linear program
with m + 1 rows whose multipliers are the next lam to try. The mixture's value is a lower bound, every D(lam)
an upper bound, and when the two meet the mixture is optimal: the certificate is part of the result. Altman's
lemma turns the mixture into one Markov policy.

Two things make it fast. *Partial pricing*: once the multipliers are roughly known, nearly all actions are far
from optimal; passes over the near-optimal ones alone read a fraction of the model, and a full pass now and
then keeps the bound honest. *Stabilisation*: the next lam lies between the program's multipliers and the best
ones so far, which stops them from jumping about when there are several constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.mask import ALL, Bool
from flexdome.cmdp.model import Model
from flexdome.cmdp.validation import Float
from flexdome.errors import ConvergenceError
from flexdome.kernels import bellman
from flexdome.planning.master import Master

__all__ = [
    "FEASIBILITY",
    "TOLERANCE",
    "Mixture",
    "Oracle",
    "best_mixture",
    "collect",
    "generate",
    "greedy",
    "largest_slack",
    "scale_of",
    "slack_mixture",
]

Actions = npt.NDArray[np.int32]
TOLERANCE = 1e-10  # of the certificate, relative to the scale of the values
FEASIBILITY = 1e-9  # a shortfall below this, relative to the same scale, is rounding
MAX_ROUNDS = 200
INNER_COLUMNS = 40  # cheap columns between two full passes
TIE = 1e-13  # relative: actions this close to the best are equally good
KEPT_ACTIONS = 2.0  # near-optimal actions kept per state, on average
_UNWANTED: Float = np.zeros((0, 0, 0))


@dataclass
class Mixture:
    """An optimal mixture of deterministic policies, with its certificate.

    Attributes
    ----------
    value : the value of the mixture (its objective)
    bound : the least upper bound seen; ``bound - value`` is the duality gap
    multipliers : (m,) the multipliers that gave that bound
    values : (1 + m,) reward and utilities of the mixture
    weights, policies : the mixture; policies are actions (H, S)
    columns : which of the policies that the oracle found these are
    passes : full passes over the model, and cheap ones over its near-optimal actions
    """

    value: float
    bound: float
    multipliers: Float
    values: Float
    weights: Float
    policies: list[Actions]
    passes: tuple[int, int]
    columns: list[int] = field(default_factory=list)

    def occupancy(self, model: Model) -> Float:
        """(H, S, A) occupancy of the mixture."""
        x = np.zeros(model.f.shape[1:])
        work = np.zeros((2, model.mu.size))
        for weight, actions in zip(self.weights, self.policies, strict=True):
            bellman.occupancy_deterministic(model.p, model.nxt, model.mu, actions, weight, x, work)
        return x


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that is not written to, so that kernels are compiled for such arrays alone."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass
class Oracle:
    """Backward passes over one model, and every policy they found.

    What answers a vector of weights is :meth:`respond`; an oracle over another set of policies has another one.
    ``mask`` (H, S, A) says which actions a policy may take at all; it is of size 0 where it may take every one.
    """

    model: Model
    mask: Bool = field(default_factory=lambda: ALL)
    values: list[Float] = field(default_factory=list)
    policies: list[Actions] = field(default_factory=list)
    full_passes: int = 0
    cheap_passes: int = 0

    def __post_init__(self) -> None:
        self.model = Model(*(_read_only(array) for array in self.model))
        _n_f, H, S, A = self.model.f.shape
        self._work = np.zeros((2, S))
        self._advantage = np.zeros((H, S, A))
        self._allowed = self.mask
        self._seen: set[bytes] = set()

    def price(self, w: Float, cheap: bool) -> tuple[Float, bool]:
        """Maximise ``w . (V_r, V_d)``; the values of the policy that does, and whether it is a new column."""
        allowed, advantage = (self._allowed, _UNWANTED) if cheap else (self.mask, self._advantage)
        actions, values = self.respond(w, allowed, advantage)
        self.full_passes += not cheap
        self.cheap_passes += cheap
        self.last_actions = actions
        fresh = values.tobytes() not in self._seen
        if fresh:
            self._seen.add(values.tobytes())
            self.values.append(values)
            self.keep(actions)
        return values, fresh

    def respond(self, w: Float, allowed: Bool, advantage: Float) -> tuple[Actions, Float]:
        """The best policy for ``w`` among the allowed actions, and its values; ``advantage`` is filled if wanted."""
        model = self.model
        actions = np.empty(model.f.shape[1:3], dtype=np.int32)
        bellman.greedy_backward(model.p, model.nxt, model.f, w, allowed, actions, advantage, self._work)
        values = np.empty(model.f.shape[0])
        bellman.evaluate_deterministic(model.p, model.nxt, model.mu, model.f, actions, values, self._work)
        return actions, values

    def keep(self, actions: Actions) -> None:
        """Remember the last answer as a column."""
        self.policies.append(actions)

    def allow(self, distance: float) -> None:
        """Allow in cheap passes, from now on, the actions within ``distance`` of the best of the last full pass."""
        self._allowed = self._possible(self._advantage >= -distance)

    def _possible(self, kept: Bool) -> Bool:
        return kept & self.mask if self.mask.size else kept

    def narrow(self) -> None:
        """Allow in cheap passes the near-optimal actions of the last full pass and those of the last columns."""
        H, S, A = self._advantage.shape
        keep = min(int(KEPT_ACTIONS * H * S), H * S * A - 1)
        least = np.partition(self._advantage.ravel(), H * S * A - 1 - keep)[H * S * A - 1 - keep]
        self._allowed = self._possible(self._advantage >= least)
        h, s = np.ogrid[:H, :S]
        for actions in self.policies[-4:]:
            self._allowed[h, s, actions] = True


def generate(oracle: Oracle, master: Master, tol: float) -> tuple[float, float, Float]:
    """Add columns until the master's value meets the dual bound; value, bound, and the bound's multipliers."""
    alpha, w0 = master.alpha, master.reward_weight

    def price(lam: Float, cheap: bool) -> tuple[float, bool]:
        """D(lam), exactly or (cheap) from below, and whether the policy that attains it is new."""
        values, fresh = oracle.price(np.append(w0, lam), cheap)
        return float(w0 * values[0] + lam @ (values[1:] - alpha)), fresh

    value, lam = master.solve(oracle.values)
    bound, best = np.inf, lam
    for _ in range(MAX_ROUNDS):
        dual, fresh = price(lam, cheap=False)
        if dual < bound:
            bound, best = dual, lam
        value, lam = master.solve(oracle.values)
        # A policy that the program already has ends the search too: what gap is left is the program's rounding.
        if bound - value <= tol or (not fresh and bound - value <= 1e2 * tol):
            return value, bound, best
        oracle.narrow()
        centre, lowest = best, bound
        for _ in range(INNER_COLUMNS):
            before, trial = value, 0.5 * (centre + lam)
            dual, fresh = price(trial, cheap=True)
            if dual < lowest:
                lowest, centre = dual, trial
            value, lam = master.solve(oracle.values)
            if value <= before:  # nothing learned half-way: look at the program's own point
                dual, fresh = price(lam, cheap=True)
                if not fresh or dual - value <= 0.5 * tol:
                    break
                value, lam = master.solve(oracle.values)
    raise ConvergenceError(f"column generation stopped with a duality gap of {bound - value:.3g}")


def collect(oracle: Oracle, master: Master, value: float, bound: float, lam: Float) -> Mixture:
    """The mixture of the master's last solution."""
    weights = master.weights()
    active = np.flatnonzero(weights > 0.0)
    weights = weights[active]
    return Mixture(
        value=value,
        bound=bound,
        multipliers=lam,
        values=np.asarray(weights @ np.array(oracle.values)[active]),
        weights=weights,
        policies=[oracle.policies[k] for k in active],
        passes=(oracle.full_passes, oracle.cheap_passes),
        columns=[int(k) for k in active],
    )


def scale_of(f: Float) -> float:
    """An upper bound on the size of any value of ``f`` (j, H, S, A): what tolerances are relative to."""
    return float(f.shape[1] * np.abs(f).max()) or 1.0


def greedy(model: Model, w: Float, mask: Bool = ALL) -> tuple[Actions, Float]:
    """The deterministic policy that maximises ``w . (V_r, V_d)``, and its values (1 + m,)."""
    oracle = Oracle(model, mask)
    values, _ = oracle.price(np.asarray(w, dtype=np.float64), cheap=False)
    return oracle.policies[0], values


def slack_mixture(oracle: Oracle, alpha: Float) -> Mixture:
    """``max min_i V_{d_i} - alpha_i`` over what ``oracle`` can answer; its columns are kept."""
    m = alpha.size
    values, _ = oracle.price(np.append(0.0, np.full(m, 1.0 / m)), cheap=False)
    if m == 1:
        slack = float(values[1] - alpha[0])
        passes = (oracle.full_passes, oracle.cheap_passes)
        column = next(k for k, known in enumerate(oracle.values) if (known == values).all())
        return Mixture(slack, slack, np.ones(1), values, np.ones(1), [oracle.last_actions], passes, [column])
    master = Master("slack", alpha)
    return collect(oracle, master, *generate(oracle, master, TOLERANCE * scale_of(oracle.model.f[1:])))


def largest_slack(model: Model, alpha: Float, mask: Bool = ALL) -> Mixture:
    """``max_pi min_i V_{d_i}^pi - alpha_i``: the Slater gap where positive, minus the shortfall otherwise.

    The multipliers sum to one; those that are positive name the constraints that stand in each other's way.
    """
    return slack_mixture(Oracle(model, mask), alpha)


def best_mixture(model: Model, alpha: Float, mask: Bool = ALL) -> tuple[Mixture | None, Mixture]:
    """``max V_r`` subject to ``V_{d_i} >= alpha_i``, and the mixture of largest slack.

    The first is None where that slack is negative: no policy meets the thresholds.
    """
    oracle = Oracle(model, mask)
    reward_first, _ = oracle.price(np.append(1.0, np.zeros(alpha.size)), cheap=False)
    slack = slack_mixture(oracle, alpha)
    rounding = FEASIBILITY * scale_of(model.f[1:])
    if slack.value < -rounding:
        return None, slack
    if (reward_first[1:] >= alpha).all():
        value = float(reward_first[0])
        free = np.zeros(alpha.size)
        return Mixture(value, value, free, reward_first, np.ones(1), oracle.policies[:1], slack.passes), slack
    if slack.value > rounding:
        # Slater's condition bounds the multipliers, sum lam* <= (max V_r - V_r^slater) / slack: a larger penalty
        # for shortfall is exact.
        penalty = 1.0 + 2.0 * float(reward_first[0] - slack.values[0]) / slack.value
        master = Master("optimum", alpha, penalty)
        return collect(oracle, master, *generate(oracle, master, TOLERANCE * scale_of(model.f))), slack
    if alpha.size == 1:
        return _best_of_the_safest(oracle, alpha), slack
    return _without_slack(oracle, alpha, rounding), slack


def _best_of_the_safest(oracle: Oracle, alpha: Float) -> Mixture:
    """One constraint, no slack: maximise the reward over the actions that are optimal for the utility."""
    model = oracle.model
    oracle.price(np.array([0.0, 1.0]), cheap=False)
    oracle.allow(TIE * scale_of(model.f[1:]))
    values, _ = oracle.price(np.array([1.0, 0.0]), cheap=True)
    actions = oracle.last_actions
    lam, tol = np.ones(1), TOLERANCE * scale_of(model.f)
    while True:  # any multiplier that is large enough certifies it
        best, _ = oracle.price(np.append(1.0, lam), cheap=False)
        bound = float(best[0] + lam[0] * (best[1] - alpha[0]))
        if bound - values[0] <= tol or lam[0] > 1e9:
            break
        lam = 10.0 * lam
    passes = (oracle.full_passes, oracle.cheap_passes)
    return Mixture(float(values[0]), bound, lam, values, np.ones(1), [actions], passes)


def _without_slack(oracle: Oracle, alpha: Float, rounding: float) -> Mixture:
    """Several constraints, no slack: no bound on the multipliers is known, so the penalty grows as needed."""
    scale = scale_of(oracle.model.f)
    penalty = 10.0
    master = Master("optimum", alpha, penalty)
    while True:
        found = generate(oracle, master, TOLERANCE * scale)
        if master.shortfall() <= rounding:
            return collect(oracle, master, *found)
        penalty *= 30.0
        if penalty > 1e9:
            raise ConvergenceError(
                "no policy meets every threshold with room to spare, and the multipliers grow without bound: "
                f"a shortfall of {master.shortfall():.3g} is left; lower a threshold slightly"
            )
        master.raise_penalty(penalty)
