"""From what a user gives to what a CMDP holds: every array checked, one horizon, one form.

The cost form ``V_c <= limit`` enters here and nowhere else: it becomes d = 1 - c and alpha = H - limit, and
the costs and limits are kept beside them exactly as they came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.mask import Bool, as_allowed
from flexdome.cmdp.threshold import Threshold, as_threshold
from flexdome.cmdp.validation import (
    LARGEST_SIZE,
    Float,
    Int,
    as_array,
    as_distribution,
    as_int,
    as_items,
    as_raw,
    check_room,
    check_rows,
    clipped,
    frozen,
    one_of,
    shown,
)
from flexdome.errors import ValidationError

__all__ = [
    "COST",
    "NO_SUCCESSORS",
    "UTILITY",
    "Contents",
    "Form",
    "Model",
    "Noise",
    "Rows",
    "assemble",
    "dense_rows",
    "densified",
    "sparse_rows",
]

Noise = Literal["none", "bernoulli"]
ROUNDING = 1e-12  # how far, relative to H, a mean may leave [0, H] because it was computed


class Model(NamedTuple):
    """A known model as the kernels take it.

    ``p`` is (H or 1, S, A, S) with ``nxt`` of shape (1, 1, 1, 0), or (H or 1, S, A, K) with the successors in
    ``nxt``; ``f`` is (1 + m, H, S, A), the reward and then the utilities; ``mu`` is (S,). The solvers accept
    any real f and rows of p that sum to less than one, so that learners can plan on estimated models.
    """

    p: Float
    nxt: Int
    f: Float
    mu: Float


NO_SUCCESSORS: Int = frozen(np.zeros((1, 1, 1, 0), dtype=np.int32))


class Rows(NamedTuple):
    """Checked transitions, dense or sparse, with the name of the argument that they came in."""

    name: str
    p: Float
    nxt: Int


class Form(NamedTuple):
    """The names of the two arguments that make the constraints."""

    entries: str
    bounds: str


UTILITY = Form("utilities", "thresholds")
COST = Form("costs", "limits")


@dataclass(frozen=True, eq=False)
class Contents:
    """What a CMDP holds, read-only. ``costs`` and ``limits`` are there only where they were given."""

    model: Model
    thresholds: tuple[Threshold, ...]
    alpha: Float
    stationary: bool
    noise: Noise
    name: str
    costs: Float | None
    limits: tuple[Threshold, ...] | None
    allowed: Bool | None = None

    def __post_init__(self) -> None:
        arrays = {"model": Model(*(frozen(array) for array in self.model)), "alpha": frozen(self.alpha)}
        if self.costs is not None:
            arrays["costs"] = frozen(self.costs)
        if self.allowed is not None:
            arrays["allowed"] = frozen(self.allowed)
        for field, value in arrays.items():
            object.__setattr__(self, field, value)


def dense_rows(transitions: npt.ArrayLike) -> Rows:
    """Rows from (H, S, A, S) or (S, A, S)."""
    p, single = as_array("transitions", transitions)
    if p.ndim not in (3, 4) or p.shape[-1] != p.shape[-3] or 0 in p.shape:
        raise ValidationError(f"transitions has shape {p.shape}; it must be (H, S, A, S) or, stationary, (S, A, S)")
    return Rows("transitions", check_rows("transitions", p, single), NO_SUCCESSORS)


def sparse_rows(name: str, next_states: npt.ArrayLike, probabilities: npt.ArrayLike) -> Rows:
    """Rows from successors and their probabilities (the argument ``name``), (H, S, A, K) or (S, A, K)."""
    p, single = as_array(name, probabilities)
    successors = np.array(as_raw("next_states", next_states))  # ours: what is checked is what is used
    if p.ndim not in (3, 4) or 0 in p.shape:
        raise ValidationError(f"{name} has shape {p.shape}; it must be (H, S, A, K) or, stationary, (S, A, K)")
    if successors.shape != p.shape:
        raise ValidationError(f"next_states has shape {successors.shape}; it must have that of {name}, {p.shape}")
    if successors.dtype.kind not in "iu":
        raise ValidationError(f"next_states has dtype {successors.dtype}; it must hold whole numbers")
    check_rows(name, p, single)
    S = p.shape[-3]
    bad = ((successors < 0) | (successors >= S)) & (p > 0)
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise ValidationError(
            f"next_states[{', '.join(map(str, where))}] is {successors[where]}; "
            f"it must be between 0 and {S - 1} where its probability is positive"
        )
    return Rows(name, p, np.where(p > 0, successors, 0).astype(np.int32))


def densified(model: Model) -> Model:
    """The same model with dense transitions; a state listed twice gets the sum."""
    p, nxt, _, mu = model
    dense = np.zeros((*p.shape[:3], mu.size))
    h, s, a = np.ogrid[: p.shape[0], : p.shape[1], : p.shape[2]]
    for k in range(p.shape[3]):  # one k has each (h, s, a) once, so that += loses nothing
        dense[h, s, a, nxt[..., k]] += p[..., k]
    return model._replace(p=frozen(dense), nxt=NO_SUCCESSORS)


def assemble(
    form: Form,
    rows: Rows,
    rewards: npt.ArrayLike,
    entries: npt.ArrayLike,
    bounds: Any,
    initial: Any,
    horizon: int | None,
    noise: Noise,
    name: str,
    allowed: Any = None,
) -> Contents:
    """Check everything that was not checked yet, and put it together."""
    S, A = rows.p.shape[-3], rows.p.shape[-2]
    r, _ = as_array("rewards", rewards)
    if r.ndim not in (2, 3) or r.shape[-2:] != (S, A):
        raise ValidationError(f"rewards has shape {r.shape}; it must be (H, {S}, {A}) or ({S}, {A})")
    e, _ = as_array(form.entries, entries)
    if e.ndim not in (3, 4) or e.shape[-2:] != (S, A):
        raise ValidationError(f"{form.entries} has shape {e.shape}; it must be (m, H, {S}, {A}) or (m, {S}, {A})")
    m = e.shape[0]
    if m == 0:
        raise ValidationError(f"{form.entries} has shape {e.shape}, m = 0 constraints; m must be at least 1")
    r, e = clipped("rewards", r), clipped(form.entries, e)
    steps = {
        field: length
        for field, length, staged in (
            (rows.name, rows.p.shape[0], rows.p.ndim == 4),
            ("rewards", r.shape[0], r.ndim == 3),
            (form.entries, e.shape[1], e.ndim == 4),
        )
        if staged
    }
    H = _one_horizon(steps, horizon)
    laws = _laws(form, bounds, e.shape, H)
    alphas = tuple(law.reflected(float(H)) for law in laws) if form is COST else laws
    drawn = cast(Noise, one_of("noise", noise, ("none", "bernoulli")))
    if not isinstance(name, str):
        raise ValidationError(f"name is {shown(name)}; it must be a string")
    mu = as_distribution("initial", initial, S)
    mask = as_allowed(allowed, (H, S, A))
    f = _room_for((1 + m, H, S, A), horizon)
    f[0] = r
    f[1:] = 1.0 - _staged(e) if form is COST else _staged(e)
    p, nxt = frozen(rows.p), frozen(rows.nxt)
    model = Model(p if p.ndim == 4 else p[None], nxt if nxt.ndim == 4 else nxt[None], f, mu)
    # A mean that is on the border may lie across it by rounding.
    alpha = np.clip([law.mean for law in alphas], 0.0, H)
    if form is UTILITY:
        return Contents(model, laws, alpha, not steps, drawn, str.__str__(name), None, None, mask)
    costs = np.broadcast_to(_staged(frozen(e)), (m, H, S, A))
    return Contents(model, alphas, alpha, not steps, drawn, str.__str__(name), costs, laws, mask)


def _staged(entries: Float) -> Float:
    return entries if entries.ndim == 4 else entries[:, None]


def _one_horizon(steps: Mapping[str, int], given: int | None) -> int:
    """The one H that the stage-dependent arrays and the argument agree on."""
    said = [f"{field} has {length} steps" for field, length in steps.items()]
    lengths = set(steps.values())
    if given is not None:
        lengths.add(as_int("horizon", given, 1, LARGEST_SIZE))
        said.append(f"horizon is {given}")
    if not lengths:
        raise ValidationError("horizon is None; it must be given when every array is stationary")
    if len(lengths) > 1 or 0 in lengths:
        raise ValidationError(f"{', '.join(said)}; they must agree on one H of at least 1")
    return lengths.pop()


def _laws(form: Form, given: Any, shape: tuple[int, ...], H: int) -> tuple[Threshold, ...]:
    """One law for each of the m constraints, with its mean in [0, H]."""
    m = shape[0]
    one = isinstance(given, (Threshold, Real)) or (isinstance(given, np.ndarray) and given.ndim == 0)
    if isinstance(given, Set):
        raise ValidationError(f"{form.bounds} is {shown(given)}; it must hold {m} numbers or Threshold laws in order")
    values = [given] if one else as_items(form.bounds, given, f"it must hold {m} numbers or Threshold laws", m + 1)
    if len(values) != m:
        raise ValidationError(
            f"{form.bounds} has {len(values)} entries; it must have m = {m}, as {form.entries} has shape {shape}"
        )
    laws = tuple(as_threshold(f"{form.bounds}[{i}]", value) for i, value in enumerate(values))
    for i, law in enumerate(laws):
        slack = 0.0 if law.is_fixed else ROUNDING * H
        if not -slack <= law.mean <= H + slack:
            what = "is" if law.is_fixed else "has mean"
            raise ValidationError(f"{form.bounds}[{i}] {what} {shown(law.mean)}; it must lie in [0, H] = [0, {H}]")
    return laws


def _room_for(shape: tuple[int, ...], horizon: int | None) -> Float:
    what = f"horizon is {horizon}; the rewards and utilities, {shape} numbers,"
    check_room(what, math.prod(shape))
    try:
        return np.empty(shape)
    except MemoryError:
        raise ValidationError(f"{what} must fit in memory") from None
