"""What a learner may know: never the CMDP itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.mask import Bool, as_allowed, uniform_policy
from flexdome.cmdp.units import Quantity, Units, as_quantities
from flexdome.cmdp.validation import (
    LARGEST_SIZE,
    Float,
    as_array,
    as_distribution,
    as_float,
    as_int,
    as_items,
    as_text,
    check_range,
    check_rows,
    frozen,
    instance_of,
    is_frozen,
    one_of,
    shown,
    switch,
)
from flexdome.errors import ValidationError, unknown_name

if TYPE_CHECKING:
    from flexdome.cmdp.model import CMDP

__all__ = ["Parts", "Problem", "as_problem", "known_parts", "problem_of"]

REVEALABLE = ("thresholds", "rewards", "utilities", "transitions")
DENSE_LIMIT = 2**24  # numbers: up to here the transitions of a sparse model are revealed as a dense array
MOST_NAMES = 100  # in reveal and hide
LEAST_GAP = 1e-30  # so that what is divided by a Slater gap, and its square, stay far from the largest float64
ROUNDING = 1e-9  # how far, relative to H, a computed Slater gap may exceed what is possible


def _missing() -> Any:
    """None; a factory leaves no attribute of the class behind, which would be found where the field is not there."""
    return None


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner is told: sizes, the first state, what is measured, and what is required of it.

    In numbers between 0 and 1, as everything inside is::

        fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=0.5)

    or for a live system, with names, in units of its own (:class:`Quantity`)::

        fd.Problem(
            states=["low", "normal", "high"], actions=["off", "on"], horizon=24, initial="normal",
            reward=fd.Quantity("yield", 0, 12, "mg"),
            subject_to=[fd.Quantity("overdose", 0, 3, "mg/l", limit=4.0)],
        )

    Episodes are then told by these names and in these units, and so is everything that is reported: ``status``,
    certificates, monitors, exported policies. Attributes of results stay in numbers between 0 and 1.

    Attributes
    ----------
    states, actions, horizon : int; names are taken for the first two
    initial : (S,) probabilities of the first state (a state's index or name is taken too); None where they are to be
        estimated from the episodes
    thresholds : (m,) the known thresholds, NaN where a threshold must be estimated from its samples (a single
        number is taken too); None where ``subject_to`` says them
    slater_gap : float
        A lower bound on ``max_pi min_i V_{d_i}^pi - alpha_i``. It may be left out; a learner that needs it then says
        so. ``subject_to`` may say it in units, as ``room``.
    slater_gap_exact : bool
        Whether that bound is the exact gap of the true model: knowledge that only an oracle has.
    stationary : bool
        Whether rewards, utilities and transitions are the same at every step.
    rewards : (H, S, A), utilities : (m, H, S, A), transitions : (H, S, A, S), or None where not revealed.
    allowed : (H, S, A) booleans, the actions that may be taken ((S, A) is taken too); None where all may
    reward : the quantity that is to be large, or None for a reward in [0, 1]
    subject_to : a quantity with a limit or a threshold for each constraint, or nothing for utilities in [0, 1]
    state_names, action_names : tuples of names, or None
    end : the state that an episode of fewer than H steps has ended in (a name is taken too), or None where there is no
        such state. The steps that did not happen are filled up there
    initial_estimated : whether ``initial`` was not given, so that learners estimate it
    """

    states: int
    actions: int
    horizon: int
    initial: Float = None  # type: ignore[assignment]  # what was given; an array from then on, as the others are
    thresholds: Float = None  # type: ignore[assignment]
    slater_gap: float = field(default_factory=_missing)
    slater_gap_exact: bool = False
    stationary: bool = False
    rewards: Float | None = None
    utilities: Float | None = None
    transitions: Float | None = None
    allowed: Bool | None = None
    reward: Quantity | None = None
    subject_to: tuple[Quantity, ...] = ()
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    end: int | None = None
    initial_estimated: bool = False

    def __post_init__(self) -> None:
        for name, names in (("states", "state_names"), ("actions", "action_names")):
            self._put_names(name, names)
        self._put("horizon", as_int("horizon", self.horizon, 1, LARGEST_SIZE))
        self._put("initial_estimated", switch("initial_estimated", self.initial_estimated) or self.initial is None)
        first = np.full(self.states, 1.0 / self.states) if self.initial is None else self.initial
        first = self.state(first, "initial") if isinstance(first, str) else first
        self._put("initial", frozen(as_distribution("initial", first, self.states)))
        if self.reward is not None:
            instance_of("reward", self.reward, Quantity)
            if self.reward.is_bounded:
                raise ValidationError(f"reward, {self.reward.name}, has a limit or a threshold; it must have none")
        self._put_thresholds()
        self._put_slater_gap()
        for name in ("slater_gap_exact", "stationary"):
            self._put(name, switch(name, getattr(self, name)))
        step = (self.horizon, self.states, self.actions)
        self._check_revealed("rewards", step)
        self._check_revealed("utilities", (self.constraints, *step))
        self._check_revealed("transitions", (*step, self.states))
        self._put("allowed", as_allowed(self.allowed, step))
        if self.end is not None:
            self._put("end", self.state(self.end, "end"))

    def __getattr__(self, name: str) -> Any:
        """What is not there: the Slater gap, where none was given."""
        if name == "slater_gap" and "thresholds" in self.__dict__:
            raise ValidationError(
                "slater_gap is missing; what was asked for needs a lower bound on the Slater gap: give slater_gap to "
                "the Problem, or room to each quantity of subject_to"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def known_slater_gap(self) -> float | None:
        """The lower bound on the Slater gap, or None where none was given."""
        gap: float | None = self.__dict__.get("slater_gap")
        return gap

    @property
    def units(self) -> Units:
        """How numbers of this problem are told."""
        return Units(self.reward, self.subject_to, self.horizon)

    @property
    def in_units(self) -> bool:
        """Whether episodes are told in units of the user's own."""
        return self.reward is not None or bool(self.subject_to)

    def state(self, given: Any, name: str = "s") -> int:
        """A state by its name or its number, checked."""
        return _numbered(name, given, self.state_names, self.states)

    def action(self, given: Any, name: str = "a") -> int:
        """An action by its name or its number, checked."""
        return _numbered(name, given, self.action_names, self.actions)

    def changed(self, **changes: Any) -> Problem:
        """The same problem with some fields changed; new ``thresholds`` are numbers as inside, not in units."""
        kept: dict[str, Any] = {one.name: self.__dict__.get(one.name) for one in fields(self)}
        return type(self)(**{**kept, **changes})

    def as_thresholds(self, given: npt.ArrayLike) -> Float:
        """(m,) thresholds as inside, from limits and thresholds in the user's units where there are such."""
        bounds = np.atleast_1d(as_array("thresholds", given, finite=False)[0])
        if bounds.shape != (self.constraints,):
            has = f"{bounds.size} entries" if bounds.ndim == 1 else f"shape {bounds.shape}"
            raise ValidationError(f"thresholds has {has}; there are m = {self.constraints} constraints")
        if self.subject_to:
            pairs = zip(self.subject_to, bounds, strict=True)
            renewed = [one.with_bound(float(bound)) for one, bound in pairs]
            return self.changed(thresholds=None, subject_to=renewed, slater_gap=None).thresholds
        return bounds

    def _put_names(self, name: str, names: str) -> None:
        given, known = getattr(self, name), getattr(self, names)
        where, said = (name, given) if known is None else (names, known)
        if known is not None or isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim):
            items = as_items(where, said, "it must hold names")
            labels = tuple(as_text(f"{where}[{k}]", one) for k, one in enumerate(items))
            last = {label: k for k, label in enumerate(labels)}
            for k, label in enumerate(labels):
                if last[label] != k:
                    raise ValidationError(f"{where}[{k}] is {label!r}, as another is; names must differ")
            if known is not None and len(labels) != given:
                raise ValidationError(f"{names} has {len(labels)} entries; {name} is {shown(given)}")
            self._put(names, labels)
            given = len(labels)
        self._put(name, as_int(name, given, 1, LARGEST_SIZE))

    def _put_thresholds(self) -> None:
        """Thresholds from the quantities or, where both are there, the quantities with these thresholds."""
        quantities = as_quantities(self.subject_to)
        self._put("subject_to", quantities)
        if self.thresholds is None and not quantities:
            raise ValidationError("thresholds is missing; thresholds, or subject_to, must say what is required")
        said = np.array([one.value(one.bound, self.horizon) for one in quantities])
        if self.thresholds is None:
            for one, alpha in zip(quantities, said, strict=True):
                if not (np.isnan(alpha) or -ROUNDING * self.horizon <= alpha <= self.horizon * (1.0 + ROUNDING)):
                    ends = [one.said(end * self.horizon) for end in (one.low, one.high)]
                    raise ValidationError(
                        f"{one.name}: {one.kind} is {one.said(one.bound)}; the "
                        f"total of {self.horizon} steps lies between {ends[0]} and {ends[1]}"
                    )
            self._put("thresholds", np.clip(said, 0.0, self.horizon))
        self._put("thresholds", frozen(self._checked_thresholds()))
        if quantities and len(quantities) != self.constraints:
            raise ValidationError(
                f"thresholds has {self.constraints} entries; subject_to has {len(quantities)} quantities"
            )
        if quantities and not np.array_equal(np.clip(said, 0.0, self.horizon), self.thresholds, equal_nan=True):
            pairs = zip(quantities, self.thresholds, strict=True)
            self._put("subject_to", tuple(one.bounded_by(float(alpha), self.horizon) for one, alpha in pairs))

    def _put_slater_gap(self) -> None:
        given = self.__dict__.get("slater_gap")
        rooms = [None if one.room is None else one.room / one.width for one in self.subject_to]
        if given is None:
            known = [room for room in rooms if room is not None]
            if not known or len(known) < len(rooms):
                object.__delattr__(self, "slater_gap")
                return
            self._put("slater_gap", min(known))
        self._put("slater_gap", self._checked_slater_gap())

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
        return type(self), tuple(self.__dict__.get(one.name) for one in fields(self))

    def __repr__(self) -> str:
        sizes = f"states={self.states}, actions={self.actions}, horizon={self.horizon}"
        bounds = f"thresholds={np.array2string(self.thresholds, precision=4)}"
        said = f", subject_to={list(self.subject_to)}" if self.subject_to else ""
        return f"Problem({sizes}, {bounds}, slater_gap={self.known_slater_gap}{said})"


def _numbered(name: str, given: Any, names: tuple[str, ...] | None, size: int) -> int:
    """A number from 0 to ``size`` - 1, or the place of a name."""
    if isinstance(given, str) and names is not None:
        if given not in names:
            raise unknown_name(name, str.__str__(given), names)
        return names.index(str.__str__(given))
    return as_int(name, given, 0, size - 1)


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
    for name, given, allowed in (("reveal", reveal, REVEALABLE), ("hide", hide, ("thresholds",))):
        example = given if isinstance(given, str) and given in allowed else allowed[0]
        items = as_items(name, given, f"it must be a collection such as ({example!r},)", MOST_NAMES)
        rule = f"one of {', '.join(allowed)}"
        named[name] = frozenset(one_of(f"{name}[{i}]", one, allowed, rule) for i, one in enumerate(items))
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
