"""An exact CMDP from the transition table that an environment publishes.

FrozenLake, CliffWalking and Taxi have ``P[s][a]``, a list of (probability, next state, reward, whether that is the
end). Over a horizon of H steps that is a CMDP:

    p(s' | s, a) = sum of the probabilities listed with s',    r(s, a), c_i(s, a) = expectations over the list.

**The end.** A state that is entered only as the end of an episode becomes absorbing, earns 0 and costs 0. Where an end
leads into a state in which episodes also go on (or begin), it leads to one more state, S, instead.

**Units.** Rewards that lie in [0, 1] stay as they are. Others are mapped to it, r' = (r - low) / (high - low), with
low and high the extremes of the table (and 0, which is what an ended episode earns), so that a value V of the CMDP is

    low H + (high - low) V    in the environment's own units:   cmdp.units.value(V).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import (
    LARGEST,
    Float,
    as_array,
    as_distribution,
    as_float,
    as_int,
    as_items,
    as_text,
    check_range,
    shown,
)
from flexdome.errors import ValidationError

__all__ = ["TableCMDP", "Units", "calls_with_reward", "from_gymnasium"]

DENSE = 2**16  # numbers: up to here transitions are a dense array

Cost = Callable[..., float]


class Outcome(NamedTuple):
    """One entry of ``P[s][a]``, and where it is in the table."""

    s: int
    a: int
    probability: float
    successor: int
    reward: float
    end: bool
    place: str


@dataclass(frozen=True)
class Units:
    """What rewards are in the environment's units: ``low`` where the CMDP has 0, ``high`` where it has 1."""

    low: float
    high: float
    horizon: int

    def reward(self, r: Any) -> Any:
        """The reward of a step in the environment's units."""
        return self.low + (self.high - self.low) * r

    def value(self, v: Any) -> Any:
        """The value of an episode in the environment's units."""
        return self.low * self.horizon + (self.high - self.low) * v


class TableCMDP(CMDP):
    """A CMDP that was read from a table; ``units`` translates its values."""

    __slots__ = ("_units",)
    _units: Units

    @property
    def units(self) -> Units:
        """The environment's units of reward."""
        return self._units

    def __reduce__(self) -> tuple[Any, ...]:
        _, (_, *contents) = super().__reduce__()
        return _revived, (self._units, *contents)


def _revived(units: Units, *contents: Any) -> TableCMDP:
    from flexdome.cmdp.assembly import Contents

    return _with_units(TableCMDP._holding(Contents(*contents)), units)


def _with_units(made: TableCMDP, units: Units) -> TableCMDP:
    object.__setattr__(made, "_units", units)
    return made


def from_gymnasium(
    env: Any,
    *,
    horizon: int | None = None,
    cost: Any,
    limit: Any,
    reward: Callable[..., float] | None = None,
    initial: Any = None,
    reward_range: tuple[float, float] | None = None,
    name: str = "",
) -> TableCMDP:
    """Read the table of an environment: an exact CMDP with ``V_{c_i} <= limit_i``.

    Parameters
    ----------
    env : an environment with ``P`` and, unless ``initial`` is given, ``initial_state_distrib``
    horizon : steps of an episode; None is the environment's own time limit
    cost : what one step costs, in [0, 1]: a function of (s, a, s') or (s, a, s', reward), or an array (S, A) or (S, A,
        S). A list of these makes several constraints. States are those of the table, also where an end leads elsewhere
    limit : the largest expected cost of an episode, a number, or one for each constraint
    reward : a function of the same arguments in place of the table's rewards, for instance to take out of them what is
        now a cost
    initial : the first state, or (S,) probabilities; None is what the environment says
    reward_range : (low, high) of the rewards, where they are not to be taken from the table
    name : a label for tables and figures

    Examples
    --------
    >>> import gymnasium, flexdome as fd
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> holes = [5, 7, 11, 12]
    >>> cmdp = fd.from_gymnasium(lake, horizon=40, cost=lambda s, a, after: after in holes, limit=0.05)
    >>> round(fd.solve(cmdp).value, 4)
    0.232
    """
    bare = getattr(env, "unwrapped", env)
    H = _horizon(env, horizon)
    S, A = _size(bare, "observation_space"), _size(bare, "action_space")
    outcomes = _outcomes(bare, S, A)
    costs = _costs(cost, S, A)
    if reward is not None:
        asked = _called("reward", reward, -LARGEST, LARGEST)
        paid = [(one, asked(one)) for one in outcomes]
    else:
        paid = [(one, one.reward) for one in outcomes]
    mu = as_distribution("initial", _initial(bare, initial), S)
    ends, end = _ends(outcomes, mu, S)
    size = S + 1 if end else S
    units = _units([worth for _, worth in paid], bool(ends) or end, reward_range, H)
    width = units.high - units.low
    r, c = np.zeros((size, A)), np.zeros((len(costs), size, A))
    rows: list[dict[int, float]] = [{} for _ in range(size * A)]
    for one, worth in paid:
        if one.s in ends:
            continue
        after = one.successor if not one.end or one.successor in ends else S
        row = rows[one.s * A + one.a]
        row[after] = row.get(after, 0.0) + one.probability
        r[one.s, one.a] += one.probability * ((worth - units.low) / width)
        for i, price in enumerate(costs):
            c[i, one.s, one.a] += one.probability * price(one)
    for s in [*ends, *([S] if end else [])]:
        r[s] = (0.0 - units.low) / width
        for a in range(A):
            rows[s * A + a] = {s: 1.0}
    p, successors = _arrays(rows, size, A)
    np.clip(r, 0.0, 1.0, out=r)  # an expectation may lie a rounding error outside
    np.clip(c, 0.0, 1.0, out=c)
    start = np.append(mu, np.zeros(size - S))
    label = as_text("name", name) or getattr(getattr(env, "spec", None), "id", "")
    made = TableCMDP.from_costs(p, r, c, limit, start, next_states=successors, horizon=H, name=label)
    return _with_units(made, units)


def _horizon(env: Any, horizon: Any) -> int:
    if horizon is not None:
        return as_int("horizon", horizon, 1)
    steps = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    if steps is None:
        raise ValidationError("horizon is missing; it must be given, since the environment has no time limit")
    return as_int("horizon", steps, 1)


def _size(env: Any, field: str) -> int:
    space: Any = getattr(env, field, None)
    if not hasattr(space, "n"):
        raise ValidationError(f"env.{field} is {shown(space)}; it must be Discrete")
    if getattr(space, "start", 0) != 0:
        raise ValidationError(f"env.{field}.start is {shown(space.start)}; it must be 0")
    return as_int(f"env.{field}.n", int(space.n), 1)


def _initial(env: Any, initial: Any) -> Any:
    if initial is not None:
        return initial
    if not hasattr(env, "initial_state_distrib"):
        raise ValidationError(
            "initial is missing; it must be given, since the environment has no initial_state_distrib"
        )
    return env.initial_state_distrib


def _outcomes(env: Any, S: int, A: int) -> list[Outcome]:
    if not hasattr(env, "P"):
        raise ValidationError("P is missing; the environment publishes no transition table (fd.learn needs none)")
    found = []
    for s in range(S):
        for a in range(A):
            place = f"P[{s}][{a}]"
            try:
                listed = env.P[s][a]
            except (KeyError, IndexError, TypeError):
                raise ValidationError(
                    f"{place} is missing; P must have every one of {S} states and {A} actions"
                ) from None
            total = 0.0
            for k, entry in enumerate(as_items(place, listed, "it must be a list of outcomes")):
                one = _outcome(s, a, S, f"{place}[{k}]", entry)
                total += one.probability
                if one.probability > 0.0:
                    found.append(one)
            if abs(total - 1.0) > 1e-9:
                raise ValidationError(f"{place} has probabilities that sum to {shown(total)}; they must sum to one")
    return found


def _outcome(s: int, a: int, S: int, place: str, entry: Any) -> Outcome:
    if not isinstance(entry, Sequence) or len(entry) != 4:
        raise ValidationError(f"{place} is {shown(entry)}; it must be (probability, next state, reward, terminated)")
    probability, successor, reward, end = entry
    return Outcome(
        s,
        a,
        as_float(f"{place}[0]", probability, 0.0, 1.0 + 1e-9),
        as_int(f"{place}[1]", successor, 0, S - 1),
        as_float(f"{place}[2]", reward, -LARGEST, LARGEST),
        bool(end),
        place,
    )


def _ends(outcomes: list[Outcome], mu: Float, S: int) -> tuple[set[int], bool]:
    """The states that are entered as an end alone, and whether one more is needed for the other ends."""
    follows: list[set[int]] = [set() for _ in range(S)]
    for one in outcomes:
        if not one.end:
            follows[one.s].add(one.successor)
    alive: set[int] = set()
    found = [int(s) for s in np.flatnonzero(mu)]
    while found:
        s = found.pop()
        if s not in alive:
            alive.add(s)
            found.extend(follows[s])
    ends = {one.successor for one in outcomes if one.end and one.s in alive} - alive
    return ends, any(one.end and one.s not in ends and one.successor not in ends for one in outcomes)


def _units(rewards: list[float], ended: bool, given: Any, H: int) -> Units:
    low, high = (min([*rewards, 0.0]), max([*rewards, 0.0])) if ended else (min(rewards), max(rewards))
    if given is not None:
        pair, _ = as_array("reward_range", given)
        if pair.shape != (2,) or not pair[0] < pair[1]:
            raise ValidationError(f"reward_range is {shown(given)}; it must be (low, high) with low < high")
        if not (pair[0] <= low and high <= pair[1]):
            raise ValidationError(f"reward_range is {shown(given)}; the rewards lie in [{low:g}, {high:g}]")
        return Units(float(pair[0]), float(pair[1]), H)
    if 0.0 <= low and high <= 1.0:
        return Units(0.0, 1.0, H)
    return Units(low, high if high > low else low + 1.0, H)


def calls_with_reward(cost: Cost) -> bool:
    """Whether a cost is a function of (s, a, s', reward), and not of (s, a, s') alone."""
    try:
        inspect.signature(cost).bind(0, 0, 0, 0.0)
    except (TypeError, ValueError):
        return False
    return True


def _costs(cost: Any, S: int, A: int) -> list[Callable[[Outcome], float]]:
    several = list(cost) if isinstance(cost, (list, tuple)) and any(map(callable, cost)) else None
    if isinstance(cost, (list, tuple)) and several is None:
        arrays = [as_array("cost", one)[0] for one in cost]
        if all(array.shape in ((S, A), (S, A, S)) for array in arrays):
            several = list(cost)
    names = ["cost"] if several is None else [f"cost[{i}]" for i in range(len(several))]
    return [_price(label, one, S, A) for label, one in zip(names, [cost] if several is None else several, strict=True)]


def _price(label: str, cost: Any, S: int, A: int) -> Callable[[Outcome], float]:
    """What an outcome costs."""
    if callable(cost):
        return _called(label, cost, 0.0, 1.0)
    if isinstance(cost, Mapping):
        raise ValidationError(f"{label} is {shown(cost)}; it must be a function or an array")
    array, _ = as_array(label, cost)
    if array.shape not in ((S, A), (S, A, S)):
        raise ValidationError(f"{label} has shape {array.shape}; it must be ({S}, {A}) or ({S}, {A}, {S})")
    check_range(label, array, 0.0, 1.0)
    if array.ndim == 2:
        return lambda one: float(array[one.s, one.a])
    return lambda one: float(array[one.s, one.a, one.successor])


def _called(label: str, function: Any, low: float, high: float) -> Callable[[Outcome], float]:
    """What a function of the user's says of an outcome, in [low, high]."""
    if not callable(function):
        raise ValidationError(f"{label} is {shown(function)}; it must be a function")
    with_reward = calls_with_reward(function)

    def called(one: Outcome) -> float:
        given = (one.s, one.a, one.successor, one.reward) if with_reward else (one.s, one.a, one.successor)
        said = function(*given)
        value = float(said) if isinstance(said, (bool, np.bool_)) else said
        return as_float(f"{label}({', '.join(f'{x:g}' for x in given)})", value, low, high)

    return called


def _arrays(rows: list[dict[int, float]], S: int, A: int) -> tuple[Float, Any]:
    """Dense rows and None, or successor lists: probabilities and states."""
    if S * A * S <= DENSE:
        dense = np.zeros((S * A, S))
        for k, row in enumerate(rows):
            dense[k, list(row)] = list(row.values())
        return dense.reshape(S, A, S), None
    K = max(map(len, rows))
    p, successors = np.zeros((S * A, K)), np.zeros((S * A, K), dtype=np.int64)
    for k, row in enumerate(rows):
        p[k, : len(row)], successors[k, : len(row)] = list(row.values()), list(row)
    return p.reshape(S, A, K), successors.reshape(S, A, K)
