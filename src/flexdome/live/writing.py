"""Episodes written as a table, a row a step, which :func:`flexdome.read_episodes` reads back."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.archive import as_path, write_whole
from flexdome.cmdp.episode import Scaled
from flexdome.cmdp.problem import as_problem
from flexdome.cmdp.validation import as_array, as_raw, as_series, one_of, shown
from flexdome.errors import ValidationError

__all__ = ["as_table_path", "write_episodes"]


def write_episodes(
    episodes: Iterable[Episode],
    path: str | os.PathLike[str] | None = None,
    *,
    form: str = "utilities",
    problem: Problem | None = None,
) -> pl.DataFrame:
    """Write episodes as a table with a row for each step, which :func:`read_episodes` reads back bit for bit.

    Parameters
    ----------
    episodes : what was observed; a sample that is missing stays NaN
    path : a ``.csv`` or ``.parquet`` file; None writes none
    form : ``"utilities"``, or ``"costs"`` (1 - d, which is rounded)
    problem : whose episodes they are. Columns are called after its quantities, and what a journal gives back, in
        numbers between 0 and 1, is told in its names and units again (which rounds)

    Returns
    -------
    The table, also where it was written.
    """
    costs = one_of("form", form, ("utilities", "costs")) == "costs"
    if problem is not None and as_problem(problem).subject_to and costs:
        raise ValidationError("form is 'costs'; where a problem has quantities these are written as they were measured")
    target = None if path is None else as_table_path(as_path("path", path))
    parts = []
    for k, episode in enumerate(as_series("episodes", episodes, "it must be a series of Episodes")):
        if not isinstance(episode, Episode):
            raise ValidationError(f"episodes[{k}] is {shown(episode)}; it must be an Episode")
        try:
            parts.append(_rows(k, episode if problem is None else _told(episode, problem), costs, problem))
        except ValidationError as error:
            raise ValidationError(f"episodes[{k}]: {error}") from None
    for k, part in enumerate(parts):
        here, there = ([name for name in one.columns if name != "next_state"] for one in (part, parts[0]))
        if here != there:
            raise ValidationError(f"episodes[{k}] has the columns {here}; episodes[0] has {there}")
    frame = pl.concat(parts, how="diagonal", rechunk=True) if parts else pl.DataFrame()
    if target is not None:
        buffer = io.BytesIO()
        if target.suffix == ".csv":
            frame.write_csv(buffer)
        else:
            frame.write_parquet(buffer)
        write_whole(target, buffer.getvalue())
    return frame


def as_table_path(path: Path) -> Path:
    """A path that ends in .csv or .parquet."""
    if path.suffix not in (".csv", ".parquet"):
        raise ValidationError(f"path is {shown(str(path))}; it must end in .csv or .parquet")
    return path


def _told(episode: Episode, problem: Problem) -> Episode:
    """An episode in the problem's own names and units."""
    if not isinstance(episode, Scaled):
        return episode
    states, actions, r, d, samples = episode.checked(problem, gaps=True)
    alpha: Any = samples if samples.size else None
    if problem.reward is not None:
        r = problem.reward.measured(r)
    if problem.subject_to:
        quantities, H = problem.subject_to, problem.horizon
        d = np.stack([one.measured(row) for one, row in zip(quantities, d, strict=True)])
        alpha = alpha if alpha is None else np.stack(
            [one.total(row, H) for one, row in zip(quantities, alpha, strict=True)]
        )  # fmt: skip
    return Episode(_called(states, problem.state_names), _called(actions, problem.action_names), r, d, alpha)


def _called(places: npt.NDArray[np.int64], names: tuple[str, ...] | None) -> npt.NDArray[Any]:
    return places if names is None else np.array(names)[places]


def _rows(k: int, episode: Episode, costs: bool, problem: Problem | None) -> pl.DataFrame:
    a, s = _index("actions", episode.actions), _index("states", episode.states)
    r, _ = as_array("rewards", episode.rewards)
    d = np.atleast_2d(as_array("utilities", episode.utilities, finite=False)[0])
    n = len(a)
    for name, shape in (("rewards", r.shape), ("utilities", d.shape[1:])):
        if shape != (n,):
            raise ValidationError(f"{name} has not one entry for each of the {n} actions")
    if np.isinf(d).any():
        i, h = (int(x) for x in np.argwhere(np.isinf(d))[0])
        raise ValidationError(f"utilities[{i}, {h}] is {shown(d[i, h])}; it must be finite, or NaN where it is missing")
    if len(s) not in (n, n + 1):
        raise ValidationError(f"states has length {len(s)}; it must be {n} or {n + 1}")
    names = [f"{'cost' if costs else 'utility'}_{i}" for i in range(len(d))]
    earned = "reward"
    if problem is not None:
        if len(d) != problem.constraints:
            raise ValidationError(f"utilities has {len(d)} rows; the problem has {problem.constraints} constraints")
        names = [one.name for one in problem.subject_to] or names
        earned = earned if problem.reward is None else problem.reward.name
    table: dict[str, Any] = {"episode": np.full(n, k), "step": np.arange(n), "state": s[:n], "action": a, earned: r}
    table |= {name: 1.0 - row if costs else row for name, row in zip(names, d, strict=True)}
    if len(table) != 5 + len(d):
        raise ValidationError(f"the columns are called {[*list(table), *names]}; names must differ")
    if episode.thresholds is not None:
        alpha, _ = as_array("thresholds", episode.thresholds, finite=False)
        if alpha.shape not in ((len(d),), (len(d), n)):
            raise ValidationError(f"thresholds has shape {alpha.shape}; it must be ({len(d)},) or ({len(d)}, {n})")
        table |= {f"threshold_{i}": np.broadcast_to(row, n) for i, row in enumerate(alpha)}
    if len(s) == n + 1:
        table["next_state"] = s[1:]
    return pl.DataFrame(table)


def _index(name: str, values: Any) -> npt.NDArray[Any]:
    """Whole numbers, or names."""
    given = as_raw(name, values)
    if given.ndim == 1 and given.size and given.dtype.kind == "U":
        return given
    array, _ = as_array(name, values)
    if array.ndim != 1 or array.size == 0 or (array != np.floor(array)).any():
        raise ValidationError(f"{name} is {shown(values)}; it must be whole numbers or names, one for each step")
    return array.astype(np.int64)
