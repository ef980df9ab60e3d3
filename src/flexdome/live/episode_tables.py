"""Episodes in tables, a row a step (:mod:`flexdome.live.writing` writes them).

::

    episode  step  state  action  reward  utility_0  utility_1  threshold_0  threshold_1  next_state
          0     0      3       1    0.25        1.0        0.5          2.5          1.0           4
          0     1      4       0    0.00        0.5        0.5          2.5          1.0           4

``cost_<i>`` may stand in the place of ``utility_<i>``: d = 1 - c. ``step`` counts from 0 or from 1; without it the
rows of an episode are in order. ``threshold_<i>`` is needed where a threshold is estimated; ``next_state``, of
which the one after the last step counts, may be missing. Columns of other names are left alone;
``columns`` says what ours are called.

**Short episodes.** With ``horizon`` and ``end`` an episode of fewer steps is filled up in the absorbing state ``end``.
What the steps that did not happen give is 0 of what the table holds: a reward of 0, and a *cost* of 0 where it holds
costs, a *utility* of 0 where it holds utilities. ``fill`` says otherwise, one number for each constraint.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.archive import as_path
from flexdome.cmdp.problem import as_problem
from flexdome.cmdp.validation import (
    LARGEST_SIZE,
    Float,
    as_array,
    as_int,
    as_items,
    as_text,
    check_range,
    shown,
)
from flexdome.errors import FileFormatError, ValidationError, unknown_name
from flexdome.live.writing import as_table_path

__all__ = ["read_episodes"]

SINGLE = ("episode", "step", "state", "action", "reward", "next_state")
SEVERAL = ("utilities", "costs", "thresholds")
NUMBERED = {"utilities": "utility_{}", "costs": "cost_{}", "thresholds": "threshold_{}"}
MOST = 1000  # constraints

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Names:
    """What the columns are called in one table; None where there is none."""

    episode: str
    state: str
    action: str
    reward: str
    step: str | None
    next_state: str | None
    outcomes: tuple[str, ...]
    are_costs: bool
    thresholds: tuple[str, ...]


def read_episodes(
    table: Any,
    columns: Mapping[str, Any] | None = None,
    *,
    horizon: int | None = None,
    end: int | None = None,
    reward: float = 0.0,
    fill: Any = None,
    problem: Problem | None = None,
) -> list[Episode]:
    """Read episodes from a table with a row for each step.

    Parameters
    ----------
    table : the path of a ``.csv`` or ``.parquet`` file, a polars or pandas DataFrame, or a mapping of names to columns
    columns : what our columns are called in the table: ``{"state": "bin", "costs": ["over", "rate"]}``. The names are
        ``episode``, ``step``, ``state``, ``action``, ``reward``, ``next_state``, and lists of names under
        ``utilities``, ``costs`` and ``thresholds``
    horizon, end : where episodes may be shorter than ``horizon``, the absorbing state that they end in
    reward, fill : what a step after the end earns, and its utilities (its costs, where the table holds costs): a
        number, or one for each constraint; None is 0
    problem : whose episodes they are, in place of the four arguments before. Columns are called after its quantities
        unless ``columns`` says otherwise, states and actions may be names, numbers are in its units, and an episode may
        be short where it has an ``end``

    Returns
    -------
    In the order in which they begin in the table. A learner's ``observe`` checks each against its problem.

    Examples
    --------
    >>> import flexdome as fd
    >>> log = {"episode": [0, 0, 1], "state": [2, 1, 2], "action": [0, 1, 1], "cost_0": [0, 1, 0]}
    >>> first, second = fd.read_episodes(log | {"reward": [0.0, 0.5, 1.0]}, horizon=2, end=3)
    >>> second.states.tolist(), second.utilities.tolist()
    ([2, 3, 3], [[1.0, 1.0]])
    """
    frame = _as_frame(table)
    if problem is not None:
        if (horizon, end, fill) != (None, None, None) or reward != 0.0:
            raise ValidationError("horizon, end, reward and fill are not taken where a problem says what they are")
        columns = _called_after(as_problem(problem), frame.columns, columns)
    names = _names(frame.columns, columns)
    if frame.height == 0:
        return []
    H = None if horizon is None else as_int("horizon", horizon, 1, LARGEST_SIZE)
    after = None if end is None else as_int("end", end, 0)
    if after is not None and H is None:
        raise ValidationError("horizon is missing; it must be given where end is")
    m = len(names.outcomes)
    filled = np.zeros(m) if fill is None else as_array("fill", fill)[0]
    if filled.shape not in ((), (m,)):
        raise ValidationError(f"fill has shape {filled.shape}; it must be a number or ({m},)")
    check_range("fill", filled, 0.0, 1.0)
    filled = np.broadcast_to(filled, (m,))
    seen = {name: _numbers(frame, name, gaps=True) for name in names.outcomes}
    seen[names.reward] = _numbers(frame, names.reward)
    called = (None, None) if problem is None else (problem.state_names, problem.action_names)
    indices = {
        name: _whole(frame, name, known) for name, known in zip((names.state, names.action), called, strict=True)
    }
    samples = [_numbers(frame, name, gaps=True) for name in names.thresholds]
    following = None if names.next_state is None else _numbers(frame, names.next_state, gaps=True, names=called[0])
    found = []
    for label, rows in _episodes(frame, names):
        outcomes = np.array([seen[name][rows] for name in names.outcomes])
        states = indices[names.state][rows]
        if following is not None and not np.isnan(following[rows[-1]]):
            states = np.append(states, _as_whole(names.next_state, int(rows[-1]), following[rows[-1:]]))
        given = (states, indices[names.action][rows], seen[names.reward][rows])
        d = 1.0 - outcomes if names.are_costs and not (problem is not None and problem.subject_to) else outcomes
        thresholds = np.array([one[rows] for one in samples]) if samples else None
        n = len(rows)
        if H is None or n == H:
            found.append(Episode(*given, d, thresholds))
            continue
        if n > H or after is None:
            rule = f"it must have {H}" if n > H else f"it must have {H}, or end must say where it ended"
            raise ValidationError(f"episode {label} has {n} steps; {rule}")
        rest = 1.0 - filled if names.are_costs else filled
        found.append(Episode.padded(H, after, *given, d, thresholds, reward=reward, utility=rest))
    return found


def _as_frame(table: Any) -> pl.DataFrame:
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, (str, os.PathLike)):
        path = as_table_path(as_path("table", table))
        try:
            data = io.BytesIO(path.read_bytes())
            return pl.read_csv(data, infer_schema_length=None) if path.suffix == ".csv" else pl.read_parquet(data)
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
            raise FileFormatError(f"{path} cannot be read: {reason}") from None
    if isinstance(table, Mapping) or (hasattr(table, "columns") and hasattr(table, "__getitem__")):
        names = list(table) if isinstance(table, Mapping) else list(table.columns)
        try:
            return pl.DataFrame({as_text("column", name): np.asarray(table[name]) for name in names})
        except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
            if isinstance(error, ValidationError):
                raise
            raise ValidationError(f"table cannot be read: {error}") from None
    raise ValidationError(f"table is {shown(table)}; it must be a path, a DataFrame or a mapping of columns")


def _names(present: Sequence[str], columns: Mapping[str, Any] | None) -> _Names:
    given = {} if columns is None else columns
    if not isinstance(given, Mapping):
        raise ValidationError(f"columns is {shown(given)}; it must be a mapping of our names to the table's")
    for name in given:
        if name not in (*SINGLE, *SEVERAL):
            raise unknown_name("column", str(name), (*SINGLE, *SEVERAL))
    single = {name: as_text(f"columns[{name!r}]", given.get(name, name)) for name in SINGLE}
    several = {name: _several(name, given.get(name), present) for name in SEVERAL}
    if several["utilities"] and several["costs"]:
        raise ValidationError("the table has utilities and costs; columns must name one of them alone")
    outcomes = several["utilities"] or several["costs"]
    if not outcomes:
        raise ValidationError(f"the table has no utilities and no costs; it has {shown(list(present))}")
    if several["thresholds"] and len(several["thresholds"]) != len(outcomes):
        count = len(several["thresholds"])
        raise ValidationError(f"thresholds names {count} columns; there are {len(outcomes)} constraints")
    needed = [single[name] for name in ("episode", "state", "action", "reward")]
    wanted = [single[name] for name in ("step", "next_state") if name in given]
    for name in (*needed, *wanted, *outcomes, *several["thresholds"]):
        if name not in present:
            raise unknown_name("column", name, present)
    return _Names(
        episode=single["episode"],
        state=single["state"],
        action=single["action"],
        reward=single["reward"],
        step=single["step"] if single["step"] in present else None,
        next_state=single["next_state"] if single["next_state"] in present else None,
        outcomes=outcomes,
        are_costs=bool(several["costs"]),
        thresholds=several["thresholds"],
    )


def _several(name: str, given: Any, present: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return (as_text(f"columns[{name!r}]", given),)
    if given is not None:
        items = as_items(f"columns[{name!r}]", given, "it must be a list of names", MOST)
        return tuple(as_text(f"columns[{name!r}][{i}]", item) for i, item in enumerate(items))
    pattern = re.compile(NUMBERED[name].format(r"(\d{1,3})"))
    numbers = sorted(int(match[1]) for match in map(pattern.fullmatch, present) if match)
    if numbers != list(range(len(numbers))):
        raise ValidationError(f"{name} are numbered {numbers}; they must be numbered from 0 on")
    return tuple(NUMBERED[name].format(i) for i in numbers)


def _called_after(problem: Problem, present: Sequence[str], columns: Any) -> Mapping[str, Any]:
    """``columns`` with the names of a problem's quantities, where these are in the table."""
    given = dict(columns) if isinstance(columns, Mapping) else {} if columns is None else columns
    if not isinstance(given, dict):
        return columns  # type: ignore[no-any-return]  # it is refused where columns are read
    if problem.reward is not None and problem.reward.name in present:
        given.setdefault("reward", problem.reward.name)
    quantities = [one.name for one in problem.subject_to]
    if quantities and not {"utilities", "costs"} & set(given) and set(quantities) <= set(present):
        given["utilities"] = quantities
    return given


def _numbers(frame: pl.DataFrame, name: str, *, gaps: bool = False, names: tuple[str, ...] | None = None) -> Float:
    column = frame[name]
    if names is not None and column.dtype == pl.String:
        return _places(column, name, names, gaps)
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise ValidationError(f"column {name!r} has dtype {column.dtype}; it must hold numbers")
    values: Float = column.cast(pl.Float64).to_numpy().astype(np.float64)
    bad = ~np.isfinite(values) & ~(gaps & np.isnan(values))
    if bad.any():
        row = int(np.argmax(bad))
        what = "missing" if column[row] is None else shown(float(values[row]))
        raise ValidationError(f"column {name!r}, row {row} is {what}; it must be a finite number")
    return values


def _places(column: pl.Series, name: str, names: tuple[str, ...], gaps: bool) -> Float:
    """The places of labels among ``names``, NaN where one is missing and may be."""
    place = {label: float(k) for k, label in enumerate(names)}
    values = np.empty(len(column))
    for row, label in enumerate(column.to_list()):
        if label is None and gaps:
            values[row] = np.nan
        elif label not in place:
            what = "missing" if label is None else repr(label)
            raise ValidationError(f"column {name!r}, row {row} is {what}; it must be one of {', '.join(names)}")
        else:
            values[row] = place[label]
    return values


def _whole(frame: pl.DataFrame, name: str, names: tuple[str, ...] | None = None) -> Index:
    return _as_whole(name, 0, _numbers(frame, name, names=names))


def _as_whole(name: str | None, first: int, values: Float) -> Index:
    """Whole numbers from row ``first`` on."""
    bad = (values != np.floor(values)) | (np.abs(values) >= 2.0**31)
    if bad.any():
        k = int(np.argmax(bad))
        value = shown(float(values[k]))
        raise ValidationError(f"column {name!r}, row {first + k} is {value}; it must be a whole number")
    return values.astype(np.int64)


def _episodes(frame: pl.DataFrame, names: _Names) -> list[tuple[Any, Index]]:
    """The rows of each episode in the order of its steps, with what the episode is called."""
    labels = frame[names.episode]
    if labels.null_count():
        row = int(np.argmax(labels.is_null().to_numpy()))
        raise ValidationError(f"column {names.episode!r}, row {row} is missing; every row belongs to an episode")
    rows = pl.DataFrame({"label": labels, "row": np.arange(frame.height)})
    steps = None if names.step is None else _whole(frame, names.step)
    found = []
    for (label,), group in rows.group_by("label", maintain_order=True):
        at: Index = group["row"].to_numpy().astype(np.int64)
        if steps is not None:
            at = at[np.argsort(steps[at], kind="stable")]
            counted = steps[at]
            if counted[0] not in (0, 1) or (np.diff(counted) != 1).any():
                raise ValidationError(
                    f"episode {label} has the steps {shown(counted.tolist())}; they must count up from 0 or from 1"
                )
        found.append((label, at))
    return found
