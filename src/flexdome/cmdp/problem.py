"""What a learner may know: never the CMDP itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flexdome.cmdp.mask import Bool, as_allowed, uniform_policy
from flexdome.cmdp.validation import (
    LARGEST_SIZE,
    Float,
    as_array,
    as_distribution,
    as_float,
    as_int,
    as_items,
    check_range,
    check_rows,
    frozen,
    is_frozen,
    one_of,
    shown,
    switch,
)
from flexdome.errors import ValidationError

if TYPE_CHECKING:
    from flexdome.cmdp.model import CMDP

__all__ = ["Parts", "Problem", "as_problem", "known_parts", "problem_of"]

REVEALABLE = ("thresholds", "rewards", "utilities", "transitions")
DENSE_LIMIT = 2**24  # numbers: up to here the transitions of a sparse model are revealed as a dense array
MOST_NAMES = 100  # in reveal and hide
LEAST_GAP = 1e-30  # so that what is divided by a Slater gap, and its square, stay far from the largest float64
ROUNDING = 1e-9  # how far, relative to H, a computed Slater gap may exceed what is possible


@dataclass(frozen=True, eq=False)
class Problem:
    """Sizes, the initial distribution, the thresholds that are known, and a lower bound on the Slater gap.

    An engineer with a live system and no model writes one by hand::

        fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=0.5)

    Attributes
    ----------
    states, actions, horizon : int
    initial : (S,) probabilities of the first state (a state's index is taken too)
    thresholds : (m,) the known thresholds, NaN where a threshold must be estimated from its samples (a single
        number is taken too)
    slater_gap : float
        A lower bound on ``max_pi min_i V_{d_i}^pi - alpha_i``.
    slater_gap_exact : bool
        Whether that bound is the exact gap of the true model: knowledge that only an oracle has.
    stationary : bool
        Whether rewards, utilities and transitions are the same at every step.
    rewards : (H, S, A), utilities : (m, H, S, A), transitions : (H, S, A, S), or None where not revealed.
    allowed : (H, S, A) booleans, the actions that may be taken ((S, A) is taken too); None where all may
    """

    states: int
    actions: int
    horizon: int
    initial: Float
    thresholds: Float
    slater_gap: float
    slater_gap_exact: bool = False
    stationary: bool = False
    rewards: Float | None = None
    utilities: Float | None = None
    transitions: Float | None = None
    allowed: Bool | None = None

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            self._put(name, as_int(name, getattr(self, name), 1, LARGEST_SIZE))
        self._put("initial", frozen(as_distribution("initial", self.initial, self.states)))
        self._put("thresholds", frozen(self._checked_thresholds()))
        self._put("slater_gap", self._checked_slater_gap())
        for name in ("slater_gap_exact", "stationary"):
            self._put(name, switch(name, getattr(self, name)))
        step = (self.horizon, self.states, self.actions)
        self._check_revealed("rewards", step)
        self._check_revealed("utilities", (self.constraints, *step))
        self._check_revealed("transitions", (*step, self.states))
        self._put("allowed", as_allowed(self.allowed, step))

    @property
    def constraints(self) -> int:
        """m, the number of constraints."""
        return int(self.thresholds.size)

    @property
    def thresholds_known(self) -> bool:
        """Whether no threshold has to be estimated."""
        return not bool(np.isnan(self.thresholds).any())

    @property
    def uniform(self) -> Float:
        """(H, S, A): the policy that plays every allowed action alike."""
        return uniform_policy((self.horizon, self.states, self.actions), self.allowed)

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _checked_thresholds(self) -> Float:
        thresholds = np.atleast_1d(as_array("thresholds", self.thresholds, finite=False)[0])
        if thresholds.ndim != 1 or thresholds.size == 0:
            raise ValidationError(f"thresholds has shape {thresholds.shape}; it must be (m,) with m at least 1")
        for i, alpha in enumerate(thresholds):
            if not (np.isnan(alpha) or 0.0 <= alpha <= self.horizon):
                raise ValidationError(
                    f"thresholds[{i}] is {shown(alpha)}; it must lie in [0, H] = [0, {self.horizon}], "
                    "or be nan where it is to be estimated"
                )
        return thresholds

    def _checked_slater_gap(self) -> float:
        gap = as_float("slater_gap", self.slater_gap)
        highest = float(np.nanmax(np.append(self.thresholds, 0.0)))
        room = self.horizon - highest  # no utility exceeds H
        if not LEAST_GAP <= gap <= room + ROUNDING * self.horizon:
            least = f", at least {LEAST_GAP:g}" if 0.0 < gap < LEAST_GAP else ""
            raise ValidationError(
                f"slater_gap is {shown(gap)}; it must be positive{least} and at most H - max thresholds = {room:g}"
            )
        return gap

    def _check_revealed(self, name: str, shape: tuple[int, ...]) -> None:
        given = getattr(self, name)
        if given is None:
            return
        # A CMDP's own arrays are shared: dense transitions may be most of the memory there is.
        shared = isinstance(given, np.ndarray) and given.dtype == np.float64 and is_frozen(given)
        array, single = (given, False) if shared else as_array(name, given)
        if array.shape != shape:
            raise ValidationError(f"{name} has shape {array.shape}; it must be {shape}")
        if name == "transitions":
            check_rows(name, array, single)
        else:
            check_range(name, array, 0.0, 1.0)
        if self.stationary:
            axis = 1 if name == "utilities" else 0
            moved = np.moveaxis(array, axis, 0)
            if (moved != moved[:1]).any():
                raise ValidationError(f"{name} differs between steps; it must not where stationary is True")
        self._put(name, array if shared else frozen(array))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def as_problem(problem: Any) -> Problem:
    """``problem`` itself, or an error where it is something else."""
    if not isinstance(problem, Problem):
        raise ValidationError(f"problem is a {type(problem).__name__}; it must be a Problem, as cmdp.problem() makes")
    return problem


class Parts(NamedTuple):
    """What ``reveal`` names, and whether ``hide`` names the thresholds."""

    revealed: frozenset[str]
    hidden: bool


def known_parts(reveal: Collection[str], hide: Collection[str]) -> Parts:
    """The two arguments of :meth:`CMDP.problem`, checked."""
    named: dict[str, frozenset[str]] = {}
    for field, given, allowed in (("reveal", reveal, REVEALABLE), ("hide", hide, ("thresholds",))):
        example = given if isinstance(given, str) and given in allowed else allowed[0]
        items = as_items(field, given, f"it must be a collection such as ({example!r},)", MOST_NAMES)
        rule = f"one of {', '.join(allowed)}"
        named[field] = frozenset(one_of(f"{field}[{i}]", name, allowed, rule) for i, name in enumerate(items))
    if named["hide"] & named["reveal"]:
        raise ValidationError("thresholds cannot be both revealed and hidden")
    return Parts(named["reveal"], bool(named["hide"]))


def problem_of(cmdp: CMDP, parts: Parts, slater_gap: float, exact: bool) -> Problem:
    """The part of ``cmdp`` that ``parts`` says, with a Slater gap that is ``exact`` or a bound."""
    known = [not parts.hidden and (law.is_fixed or "thresholds" in parts.revealed) for law in cmdp.thresholds]
    return Problem(
        states=cmdp.states,
        actions=cmdp.actions,
        horizon=cmdp.horizon,
        initial=cmdp.initial,
        thresholds=np.where(known, cmdp.alpha, np.nan),
        slater_gap=slater_gap,
        slater_gap_exact=exact,
        stationary=cmdp.stationary,
        rewards=cmdp.rewards if "rewards" in parts.revealed else None,
        utilities=cmdp.utilities if "utilities" in parts.revealed else None,
        transitions=_dense_transitions(cmdp) if "transitions" in parts.revealed else None,
        allowed=cmdp.allowed,
    )


def _dense_transitions(cmdp: CMDP) -> Float:
    size = cmdp.horizon * cmdp.states * cmdp.actions * cmdp.states
    if cmdp.is_sparse and size > DENSE_LIMIT:
        raise ValidationError(
            f"reveal names 'transitions', which of this sparse model are {size} numbers when dense; "
            f"at most {DENSE_LIMIT} are made, so call to_dense() first if that is what you want"
        )
    return cmdp.to_dense().transitions
