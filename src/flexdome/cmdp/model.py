"""The constrained MDP.

A CMDP is (S, A, H, p, r, d, alpha): at step h in state s an action a earns the reward r_h(s, a) and the
utilities d_{1,h}(s, a), ..., d_{m,h}(s, a), all in [0, 1], and the next state is drawn from p_h(. | s, a).
The problem is

    maximise V_r^pi   subject to   V_{d_i}^pi >= alpha_i   for i = 1, ..., m

(Zuo et al. 2026, problem 1). Axis order is [i, h, s, a, s'] everywhere. The cost form ``V_c <= limit`` is the
same thing at the border: d = 1 - c and alpha = H - limit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import assembly
from flexdome.cmdp.assembly import COST, NO_SUCCESSORS, UTILITY, Contents, Model, Noise, assemble
from flexdome.cmdp.mask import Bool
from flexdome.cmdp.problem import Problem, known_parts, problem_of
from flexdome.cmdp.threshold import Threshold
from flexdome.cmdp.validation import Float, frozen
from flexdome.errors import ValidationError

__all__ = ["CMDP", "NO_SUCCESSORS", "Model"]

NO_GAP = 1e-9  # a Slater gap below this, relative to H, is rounding


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
    allowed : boolean (H, S, A) or (S, A), the actions that may be taken; None where all may. A forbidden action is
        never planned or played; its row and its numbers must be valid and do not matter

    See Also
    --------
    CMDP.from_successors : large sparse models, never made dense
    CMDP.from_costs : the cost form
    """

    __slots__ = ("__weakref__", "_contents", "_memo")
    _contents: Contents
    _memo: dict[Any, Any]  # what planning found out about this CMDP

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
        allowed: npt.ArrayLike | None = None,
    ) -> None:
        rows = assembly.dense_rows(transitions)
        self._hold(assemble(UTILITY, rows, rewards, utilities, thresholds, initial, horizon, noise, name, allowed))

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
        allowed: npt.ArrayLike | None = None,
    ) -> Self:
        """Build a sparse model from successor lists; it is never made dense.

        ``next_states[h, s, a, k]`` follows (s, a) at step h with ``probabilities[h, s, a, k]``; both are
        (H, S, A, K) or, stationary, (S, A, K). Pad short lists with probability 0 (any number will do as the
        state there); a state listed twice gets the sum.
        """
        rows = assembly.sparse_rows("probabilities", next_states, probabilities)
        contents = assemble(UTILITY, rows, rewards, utilities, thresholds, initial, horizon, noise, name, allowed)
        return cls._holding(contents)

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
        allowed: npt.ArrayLike | None = None,
    ) -> Self:
        """Build from costs in [0, 1] and limits: ``V_{c_i} <= limit_i`` becomes d = 1 - c, alpha = H - limit.

        ``cmdp.costs`` and ``cmdp.limits`` give back exactly what was passed. With ``next_states`` the
        transitions are successor probabilities.
        """
        if next_states is None:
            rows = assembly.dense_rows(transitions)
        else:
            rows = assembly.sparse_rows("transitions", next_states, transitions)
        contents = assemble(COST, rows, rewards, costs, limits, initial, horizon, noise, name, allowed)
        return cls._holding(contents)

    def _hold(self, contents: Contents) -> None:
        object.__setattr__(self, "_contents", contents)
        object.__setattr__(self, "_memo", {})

    @classmethod
    def _holding(cls, contents: Contents) -> Self:
        self = cls.__new__(cls)
        self._hold(contents)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} cannot be set: a CMDP is read-only; build a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return _revived, (type(self), *(getattr(self._contents, field.name) for field in fields(Contents)))

    @property
    def states(self) -> int:
        """S, the number of states."""
        return int(self.model.f.shape[2])

    @property
    def actions(self) -> int:
        """A, the number of actions."""
        return int(self.model.f.shape[3])

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return int(self.model.f.shape[1])

    @property
    def constraints(self) -> int:
        """m, the number of constraints."""
        return int(self.model.f.shape[0]) - 1

    @property
    def name(self) -> str:
        """The label for tables and figures."""
        return self._contents.name

    @property
    def noise(self) -> Noise:
        """``"none"`` or ``"bernoulli"``."""
        return self._contents.noise

    @property
    def model(self) -> Model:
        """The arrays, as the kernels take them."""
        return self._contents.model

    @property
    def is_sparse(self) -> bool:
        """Whether transitions are successor lists."""
        return bool(self.model.nxt.shape[3] > 0)

    @property
    def stationary(self) -> bool:
        """Whether transitions, rewards and utilities were given without a step axis."""
        return self._contents.stationary

    @property
    def is_cost_form(self) -> bool:
        """Whether the CMDP was given by costs and limits."""
        return self._contents.costs is not None

    @property
    def transitions(self) -> Float:
        """(H, S, A, S), a view; for a sparse model use :meth:`to_dense` first, or ``model``."""
        if self.is_sparse:
            raise ValidationError("transitions of a sparse model are successor lists; see model or to_dense()")
        return np.broadcast_to(self.model.p, (self.horizon, *self.model.p.shape[1:]))

    @property
    def rewards(self) -> Float:
        """(H, S, A)."""
        rewards: Float = self.model.f[0]
        return rewards

    @property
    def utilities(self) -> Float:
        """(m, H, S, A)."""
        utilities: Float = self.model.f[1:]
        return utilities

    @property
    def initial(self) -> Float:
        """(S,) probabilities of the first state."""
        return self.model.mu

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The m threshold laws."""
        return self._contents.thresholds

    @property
    def alpha(self) -> Float:
        """(m,) the mean thresholds: the alpha of every metric."""
        return self._contents.alpha

    @property
    def allowed(self) -> Bool | None:
        """(H, S, A) which actions may be taken, or None where all may."""
        return self._contents.allowed

    @property
    def costs(self) -> Float:
        """(m, H, S, A): what ``from_costs`` was given, else 1 - utilities."""
        given = self._contents.costs
        costs: Float = frozen(1.0 - self.utilities) if given is None else given
        return costs

    @property
    def limits(self) -> tuple[Threshold, ...]:
        """The m limits on cost: what ``from_costs`` was given, else H - thresholds."""
        given = self._contents.limits
        return tuple(law.reflected(float(self.horizon)) for law in self.thresholds) if given is None else given

    def to_dense(self) -> CMDP:
        """The same CMDP with dense transitions (S² A numbers a step: for small models)."""
        if not self.is_sparse:
            return self
        return CMDP._holding(replace(self._contents, model=assembly.densified(self.model)))

    def problem(
        self,
        slater_gap: float | None = None,
        reveal: Collection[str] = (),
        hide: Collection[str] = (),
    ) -> Problem:
        """What a learner may know of this CMDP.

        Parameters
        ----------
        slater_gap
            A lower bound on the Slater gap; None computes the exact one and passes it on (an oracle, and the
            problem says so).
        reveal
            Any of ``"thresholds"`` (the mean of a stochastic threshold), ``"rewards"``, ``"utilities"`` and
            ``"transitions"`` (those of a sparse model are made dense, unless they are too many).
        hide
            ``"thresholds"`` makes the learner estimate fixed thresholds too.

        Raises
        ------
        InfeasibleError
            If the exact gap is asked for and no policy meets the thresholds.
        """
        parts = known_parts(reveal, hide)
        gap = self._exact_slater_gap() if slater_gap is None else slater_gap
        return problem_of(self, parts, gap, exact=slater_gap is None)

    def _exact_slater_gap(self) -> float:
        from flexdome import planning

        gap = planning.slater_gap(self)
        if gap <= NO_GAP * self.horizon:
            planning.solve(self)  # raises where no policy is safe, and says why
            raise ValidationError(
                f"slater_gap is exactly 0 (computed: {gap:.3g}); it must be positive: no policy meets every "
                "threshold with room to spare, so lower a threshold or pass a positive slater_gap"
            )
        return gap

    def __repr__(self) -> str:
        form = f"sparse, {self.model.p.shape[3]} successors" if self.is_sparse else "dense"
        label = f"{self.name!r}, " if self.name else ""
        return (
            f"CMDP({label}S={self.states}, A={self.actions}, H={self.horizon}, m={self.constraints}, {form}, "
            f"alpha={np.array2string(self.alpha, precision=4)})"
        )


def _revived(cls: type[CMDP], *parts: Any) -> CMDP:
    return cls._holding(Contents(*parts))
