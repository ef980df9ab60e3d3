"""Optimistic programs: the best occupancy measure of an estimated model, or of every model in a confidence set.

    maximise  V_f0(x)   subject to   V_fi(x) >= alpha_i,  i = 1, ..., m

over the occupancies x of one model p (an S A H program), or over the *extended* occupancies z_h(s, a, s') of all models
of a confidence set (an S^2 A H program, Efroni et al. 2020):

    sum_{a, s'} z_h(s, a, s') = sum_{s'', a''} z_{h-1}(s'', a'', s),
    z_h(s, a, .) / sum_s' z_h(s, a, s')  in  C_h(s, a).

Neither is built. Both are solved by column generation (:mod:`flexdome.planning.decomposition`): for given multipliers
the best policy comes from one backward pass, which for a confidence set is extended value iteration
(:mod:`flexdome.learners.programs.extended_kernels`), and a small program mixes the policies found. The values may be of
any size and rows of p may sum to less than one. What a ``mask`` (H, S, A) does not allow has occupancy 0.

Where no occupancy meets the thresholds, the one of largest slack is returned and said not to be feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flexdome.cmdp.mask import ALL, Bool
from flexdome.cmdp.model import NO_SUCCESSORS, Model
from flexdome.cmdp.validation import Float
from flexdome.kernels import bellman
from flexdome.learners.programs.extended_kernels import extended_backward, follow
from flexdome.learners.programs.transition_sets import TransitionSet
from flexdome.planning.decomposition import (
    FEASIBILITY,
    TOLERANCE,
    Actions,
    Oracle,
    collect,
    generate,
    scale_of,
    slack_mixture,
)
from flexdome.planning.master import Master

__all__ = ["ExtendedOracle", "Program", "extended_program", "known_program", "oracle_of"]


@dataclass(frozen=True)
class Program:
    """The optimum: occupancy (H, S, A), values (1 + m,) of the f that were given, multipliers (m,).

    ``slack`` is the largest min_i V_fi - alpha_i of any occupancy (infinite where it was not needed).
    """

    occupancy: Float
    values: Float
    multipliers: Float
    feasible: bool
    slack: float


class _Keeping(Oracle):
    """An oracle that remembers the occupancy of every column."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.occupancies: list[Float] = []
        self._last = np.zeros(self.model.f.shape[1:])

    def respond(self, w: Float, allowed: Bool, advantage: Float) -> tuple[Actions, Float]:
        """The best policy for ``w``, its values, and (kept aside) its occupancy."""
        actions, values = super().respond(w, allowed, advantage)
        self._last = np.zeros(self.model.f.shape[1:])
        model = self.model
        bellman.occupancy_deterministic(model.p, model.nxt, model.mu, actions, 1.0, self._last, self._work)
        return actions, values

    def keep(self, actions: Actions) -> None:
        """Remember the last answer as a column."""
        super().keep(actions)
        self.occupancies.append(self._last)


class ExtendedOracle(_Keeping):
    """The best policy and the best transitions of a confidence set; ``model`` lends f and mu only."""

    def __init__(self, transitions: TransitionSet, f: Float, mu: Float, mask: Bool = ALL) -> None:
        self.transitions = transitions
        super().__init__(Model(np.zeros((1, 1, 1, 0)), NO_SUCCESSORS, f, mu), mask)
        H, S = f.shape[1:3]
        self._rows = np.zeros((H, S, S))

    def respond(self, w: Float, allowed: Bool, advantage: Float) -> tuple[Actions, Float]:
        """Extended value iteration, and a forward pass under the transitions that it chose."""
        f = self.model.f
        actions, values = np.empty(f.shape[1:3], dtype=np.int32), np.empty(f.shape[0])
        extended_backward(*self.transitions.arrays, f, w, allowed, actions, advantage, self._rows)
        self._last = np.empty(f.shape[1:])
        follow(self._rows, self.model.mu, f, actions, self._last, values)
        return actions, values


def oracle_of(transitions: TransitionSet | Float, f: Float, mu: Float, mask: Bool = ALL) -> _Keeping:
    """The oracle of a confidence set, or of the model p (H, S, A, S)."""
    if isinstance(transitions, TransitionSet):
        return ExtendedOracle(transitions, f, mu, mask)
    return _Keeping(Model(transitions, NO_SUCCESSORS, f, mu), mask)


def known_program(p: Float, f: Float, mu: Float, alpha: Float, mask: Bool = ALL) -> Program:
    """The best occupancy of the model ``p`` (H, S, A, S)."""
    return _solve(p, f, mu, alpha, mask)


def extended_program(transitions: TransitionSet, f: Float, mu: Float, alpha: Float, mask: Bool = ALL) -> Program:
    """The best occupancy of any model in the confidence set."""
    return _solve(transitions, f, mu, alpha, mask)


def _solve(transitions: TransitionSet | Float, f: Float, mu: Float, alpha: Float, mask: Bool) -> Program:
    size = np.maximum(np.abs(f).max(axis=(1, 2, 3)), 1.0)  # theory's bonuses are large: the small program sees ones
    oracle = oracle_of(transitions, f / size[:, None, None, None], mu, mask)
    target = alpha / size[1:]
    rounding = FEASIBILITY * scale_of(oracle.model.f[1:])
    m = alpha.size
    best, _ = oracle.price(np.append(1.0, np.zeros(m)), cheap=False)
    if (best[1:] >= target).all():
        return Program(oracle.occupancies[0], best * size, np.zeros(m), True, np.inf)
    safest = slack_mixture(oracle, target)
    slack = float((safest.values[1:] * size[1:] - alpha).min())
    if safest.value <= rounding:
        found, feasible, lam = safest, safest.value >= -rounding, np.zeros(m)
    else:
        penalty = 1.0 + 2.0 * float(best[0] - safest.values[0]) / safest.value
        master = Master("optimum", target, penalty)
        found = collect(oracle, master, *generate(oracle, master, TOLERANCE * scale_of(oracle.model.f)))
        feasible, lam = True, found.multipliers * size[0] / size[1:]
    x = np.zeros(f.shape[1:])
    for weight, column in zip(found.weights, found.columns, strict=True):
        x += weight * oracle.occupancies[column]
    return Program(x, found.values * size, lam, feasible, slack)
