"""The constrained MDP.

A CMDP is (S, A, H, p, r, d, alpha): at step h in state s an action a earns the reward r_h(s, a) and the
utilities d_{1,h}(s, a), ..., d_{m,h}(s, a), all in [0, 1], and the next state is drawn from p_h(. | s, a).
The problem is

    maximise V_r^pi   subject to   V_{d_i}^pi >= alpha_i   for i = 1, ..., m

(Zuo et al. 2026, problem 1). Axis order is [i, h, s, a, s'] everywhere. The cost form ``V_c <= limit`` is the
same thing at the border: d = 1 - c and alpha = H - limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.problem import Problem
from flexdome.cmdp.threshold import Threshold, as_threshold
from flexdome.cmdp.validation import (
    Float,
    Int,
    as_array,
    as_distribution,
    as_float,
    as_int,
    check_range,
    check_rows,
    frozen,
)
from flexdome.errors import ValidationError

__all__ = ["CMDP", "Model"]

Noise = Literal["none", "bernoulli"]
REVEALABLE = ("thresholds", "rewards", "utilities", "transitions")


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


class CMDP:
    """A finite-horizon tabular constrained MDP, validated once and read-only afterwards.

    Parameters
    ----------
    transitions : (H, S, A, S) or, stationary, (S, A, S)
        Rows must sum to one within 1e-9 (single precision: within 1e-5, then renormalised).
    rewards : (H, S, A) or (S, A), in [0, 1]
    utilities : (m, H, S, A) or (m, S, A), in [0, 1]
    thresholds : one number or :class:`Threshold` for each constraint (a single one when m = 1)
    initial : the first state, or (S,) probabilities; known to the learner
    horizon : H; needed when transitions, rewards and utilities are all stationary
    noise : ``"none"`` (means are observed) or ``"bernoulli"`` (0/1 draws with those means)
    name : a label for tables and figures

    See Also
    --------
    CMDP.from_successors : large sparse models, never made dense
    CMDP.from_costs : the cost form
    """

    def __init__(
        self,
        transitions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        utilities: npt.ArrayLike,
        thresholds: Any,
        initial: Any,
        *,
        horizon: int | None = None,
        noise: Noise = "none",
        name: str = "",
    ) -> None:
        p, single = as_array("transitions", transitions)
        if p.ndim not in (3, 4) or p.shape[-1] != p.shape[-3] or 0 in p.shape:
            raise ValidationError(
                f"transitions has shape {p.shape}; it must be (H, S, A, S) or, stationary, (S, A, S)"
            )
        check_rows("transitions", p, single)
        self._build(p, NO_SUCCESSORS, rewards, utilities, thresholds, initial, horizon, noise, name)

    @classmethod
    def from_successors(
        cls,
        next_states: npt.ArrayLike,
        probabilities: npt.ArrayLike,
        rewards: npt.ArrayLike,
        utilities: npt.ArrayLike,
        thresholds: Any,
        initial: Any,
        *,
        horizon: int | None = None,
        noise: Noise = "none",
        name: str = "",
    ) -> Self:
        """Build a sparse model from successor lists; it is never made dense.

        ``next_states[h, s, a, k]`` follows (s, a) at step h with ``probabilities[h, s, a, k]``; both are
        (H, S, A, K) or, stationary, (S, A, K). Pad short lists with probability 0 (any state will do there);
        a state listed twice gets the sum.
        """
        p, single = as_array("probabilities", probabilities)
        successors = np.asarray(next_states)
        if p.ndim not in (3, 4) or 0 in p.shape:
            raise ValidationError(
                f"probabilities has shape {p.shape}; it must be (H, S, A, K) or, stationary, (S, A, K)"
            )
        if successors.shape != p.shape:
            raise ValidationError(
                f"next_states has shape {successors.shape}; it must be that of probabilities, {p.shape}"
            )
        if successors.dtype.kind not in "iu":
            raise ValidationError(f"next_states has dtype {successors.dtype}; it must hold whole numbers")
        check_rows("probabilities", p, single)
        S = p.shape[-3]
        bad = ((successors < 0) | (successors >= S)) & (p > 0)
        if bad.any():
            where = tuple(int(k) for k in np.argwhere(bad)[0])
            raise ValidationError(
                f"next_states[{', '.join(map(str, where))}] is {successors[where]}; "
                f"it must be a state, 0 to {S - 1}, where its probability is positive"
            )
        nxt = np.where(p > 0, successors, 0).astype(np.int32)
        self = cls.__new__(cls)
        self._build(p, nxt, rewards, utilities, thresholds, initial, horizon, noise, name)
        return self

    @classmethod
    def from_costs(
        cls,
        transitions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        costs: npt.ArrayLike,
        limits: Any,
        initial: Any,
        *,
        next_states: npt.ArrayLike | None = None,
        horizon: int | None = None,
        noise: Noise = "none",
        name: str = "",
    ) -> Self:
        """Build from costs in [0, 1] and limits: ``V_{c_i} <= limit_i`` becomes d = 1 - c, alpha = H - limit.

        ``cmdp.costs`` and ``cmdp.limits`` give back exactly what was passed. With ``next_states`` the
        transitions are successor probabilities.
        """
        c, _ = as_array("costs", costs)
        check_range("costs", c, 0.0, 1.0)
        laws = _laws("limits", limits, c.shape[0] if c.ndim > 2 else 1)
        shapes = [np.shape(transitions), np.shape(rewards), c.shape]
        H = _horizon([shape[k] for shape, n, k in zip(shapes, (4, 3, 4), (0, 0, 1), strict=True)
                      if len(shape) == n], horizon)  # fmt: skip
        for i, law in enumerate(laws):
            as_float(f"limits[{i}]", law.mean, 0.0, float(H))
        options: dict[str, Any] = {"horizon": horizon, "noise": noise, "name": name}
        alphas = [law.reflected(float(H)) for law in laws]
        if next_states is None:
            self = cls(transitions, rewards, 1.0 - c, alphas, initial, **options)
        else:
            self = cls.from_successors(next_states, transitions, rewards, 1.0 - c, alphas, initial, **options)
        if c.ndim == 3:
            c = np.repeat(c[:, None], H, axis=1)
        self._costs = frozen(c)
        self._limits = laws
        return self

    def _build(
        self,
        p: Float,
        nxt: Int,
        rewards: npt.ArrayLike,
        utilities: npt.ArrayLike,
        thresholds: Any,
        initial: Any,
        horizon: int | None,
        noise: Noise,
        name: str,
    ) -> None:
        r, _ = as_array("rewards", rewards)
        d, _ = as_array("utilities", utilities)
        S, A = p.shape[-3], p.shape[-2]
        if r.ndim not in (2, 3) or r.shape[-2:] != (S, A):
            raise ValidationError(f"rewards has shape {r.shape}; it must be (H, {S}, {A}) or ({S}, {A})")
        if d.ndim not in (3, 4) or d.shape[-2:] != (S, A):
            raise ValidationError(
                f"utilities has shape {d.shape}; it must be (m, H, {S}, {A}) or (m, {S}, {A})"
            )
        m = d.shape[0]
        if m == 0:
            raise ValidationError("utilities has m = 0 constraints; at least one is needed")
        check_range("rewards", r, 0.0, 1.0)
        check_range("utilities", d, 0.0, 1.0)
        staged = {"transitions": p.ndim == 4, "rewards": r.ndim == 3, "utilities": d.ndim == 4}
        lengths = {"transitions": p.shape[0], "rewards": r.shape[0], "utilities": d.shape[1]}
        found = {field: lengths[field] for field, is_staged in staged.items() if is_staged}
        H = _horizon(list(found.values()), horizon, found)
        laws = _laws("thresholds", thresholds, m)
        for i, law in enumerate(laws):
            if not 0.0 <= law.mean <= H:
                raise ValidationError(
                    f"thresholds[{i}] has mean {law.mean:g}; it must lie in [0, H] = [0, {H}]"
                )
        if noise not in ("none", "bernoulli"):
            raise ValidationError(f"noise is {noise!r}; it must be 'none' or 'bernoulli'")
        f = np.empty((1 + m, H, S, A))
        f[0] = r
        f[1:] = d if d.ndim == 4 else d[:, None]
        mu = as_distribution("initial", initial, S)
        self._model = Model(
            frozen(p if p.ndim == 4 else p[None]),
            frozen(nxt if nxt.ndim == 4 else nxt[None]),
            frozen(f),
            frozen(mu),
        )
        self._thresholds = laws
        self._stationary = not any(staged.values())
        self._noise: Noise = noise
        self._name = str(name)
        self._costs: Float | None = None
        self._limits: tuple[Threshold, ...] | None = None
        self._memo: dict[Any, Any] = {}

    # -- sizes -----------------------------------------------------------------------------------------

    @property
    def states(self) -> int:
        """S, the number of states."""
        return int(self._model.f.shape[2])

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return int(self._model.f.shape[3])

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return int(self._model.f.shape[1])

    @property
    def constraints(self) -> int:
        """m, the number of constraints."""
        return int(self._model.f.shape[0]) - 1

    @property
    def name(self) -> str:
        """The label for tables and figures."""
        return self._name

    # -- contents --------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The arrays, as the kernels take them."""
        return self._model

    @property
    def is_sparse(self) -> bool:
        """Whether transitions are successor lists."""
        return self._model.nxt.shape[3] > 0

    @property
    def transitions(self) -> Float:
        """(H, S, A, S), a view; for a sparse model use :meth:`to_dense` first, or ``model``."""
        if self.is_sparse:
            raise ValidationError("transitions of a sparse model are successor lists; see model or to_dense()")
        return np.broadcast_to(self._model.p, (self.horizon, *self._model.p.shape[1:]))

    @property
    def rewards(self) -> Float:
        """(H, S, A)."""
        return self._model.f[0]

    @property
    def utilities(self) -> Float:
        """(m, H, S, A)."""
        return self._model.f[1:]

    @property
    def initial(self) -> Float:
        """(S,) probabilities of the first state."""
        return self._model.mu

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The m threshold laws."""
        return self._thresholds

    @property
    def alpha(self) -> Float:
        """(m,) the mean thresholds: the alpha of every metric."""
        return np.array([law.mean for law in self._thresholds])

    @property
    def noise(self) -> Noise:
        """``"none"`` or ``"bernoulli"``."""
        return self._noise

    @property
    def stationary(self) -> bool:
        """Whether transitions, rewards and utilities were given without a step axis."""
        return self._stationary

    @property
    def costs(self) -> Float:
        """(m, H, S, A): what ``from_costs`` was given, else 1 - utilities."""
        return self._costs if self._costs is not None else 1.0 - self.utilities

    @property
    def limits(self) -> tuple[Threshold, ...]:
        """The m limits on cost: what ``from_costs`` was given, else H - thresholds."""
        if self._limits is not None:
            return self._limits
        return tuple(law.reflected(float(self.horizon)) for law in self._thresholds)

    def to_dense(self) -> CMDP:
        """The same CMDP with dense transitions (S² A numbers a step: for small models)."""
        if not self.is_sparse:
            return self
        p, nxt, _, _ = self._model
        dense = np.zeros((*p.shape[:3], self.states))
        h, s, a = np.ogrid[: p.shape[0], : p.shape[1], : p.shape[2]]
        for k in range(p.shape[3]):
            np.add.at(dense, (h, s, a, nxt[..., k]), p[..., k])
        twin = CMDP.__new__(CMDP)
        twin.__dict__.update(self.__dict__, _memo={})
        twin._model = self._model._replace(p=frozen(dense), nxt=NO_SUCCESSORS)
        return twin

    def problem(
        self,
        slater_gap: float | None = None,
        reveal: Collection[str] = (),
        hide: Collection[str] = (),
    ) -> Problem:
        """What a learner may know of this CMDP.

        Parameters
        ----------
        slater_gap : a lower bound on the Slater gap; None computes the exact one and passes it on (an oracle,
            and the problem says so)
        reveal : any of ``"thresholds"`` (the mean of a stochastic threshold), ``"rewards"``, ``"utilities"``,
            ``"transitions"``
        hide : ``"thresholds"`` makes the learner estimate fixed thresholds too
        """
        for field, given, known in (("reveal", reveal, REVEALABLE), ("hide", hide, ("thresholds",))):
            if isinstance(given, str):
                raise ValidationError(f"{field} is {given!r}; it must be a collection such as ({given!r},)")
            for name in given:
                if name not in known:
                    raise ValidationError(f"{field} names {name!r}; it may name {', '.join(known)}")
        if "thresholds" in reveal and "thresholds" in hide:
            raise ValidationError("thresholds cannot be both revealed and hidden")
        exact = slater_gap is None
        if slater_gap is None:
            from flexdome.planning import slater_gap as exact_slater_gap

            slater_gap = exact_slater_gap(self)
        known = [
            "thresholds" not in hide and (law.is_fixed or "thresholds" in reveal) for law in self._thresholds
        ]
        return Problem(
            states=self.states,
            actions=self.actions,
            horizon=self.horizon,
            initial=self.initial,
            thresholds=np.where(known, self.alpha, np.nan),
            slater_gap=slater_gap,
            slater_gap_exact=exact,
            stationary=self.stationary,
            rewards=self.rewards if "rewards" in reveal else None,
            utilities=self.utilities if "utilities" in reveal else None,
            transitions=self.transitions if "transitions" in reveal else None,
        )

    def __repr__(self) -> str:
        form = f"sparse, {self._model.p.shape[3]} successors" if self.is_sparse else "dense"
        label = f"{self._name!r}, " if self._name else ""
        return (
            f"CMDP({label}S={self.states}, A={self.actions}, H={self.horizon}, m={self.constraints}, {form}, "
            f"alpha={np.array2string(self.alpha, precision=4)})"
        )


def _laws(name: str, given: Any, m: int) -> tuple[Threshold, ...]:
    """One law for each of the m constraints."""
    if isinstance(given, Threshold) or (np.ndim(given) == 0 and not isinstance(given, (str, bytes))):
        given = [given]
    if not isinstance(given, (Sequence, np.ndarray)) or isinstance(given, (str, bytes)):
        raise ValidationError(f"{name} is {given!r}; it must hold {m} numbers or Threshold laws")
    if len(given) != m:
        raise ValidationError(f"{name} has {len(given)} entries; there are m = {m} constraints")
    return tuple(as_threshold(f"{name}[{i}]", value) for i, value in enumerate(given))


def _horizon(found: list[int], given: int | None, names: dict[str, int] | None = None) -> int:
    """The one H that the stage-dependent arrays and the argument agree on."""
    if given is not None:
        given = as_int("horizon", given, 1)
    if not found and given is None:
        raise ValidationError("horizon is missing; it is needed when every array is stationary")
    lengths = set(found) | ({given} if given is not None else set())
    if len(lengths) > 1 or 0 in lengths:
        said = ", ".join(f"{k} has {v} steps" for k, v in (names or {}).items()) or f"arrays have {found} steps"
        argument = f", horizon is {given}" if given is not None else ""
        raise ValidationError(f"{said}{argument}; they must agree on one H of at least 1")
    return int(lengths.pop())
