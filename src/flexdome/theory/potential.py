"""The policy-dual potential of Section 4.3, against the saddle point of each episode.

    Phi_t = sum_{h, s} P*[s_h = s] KL(pi*_h(. | s), pi_{t,h}(. | s)) + |lam* - lam_t|^2 / 2

(pi*, lam*) is the saddle point with tau_t and eps_t, and P* the law of its policy. Along a run it moves with t: each
point is found from the one before it, some milliseconds at the paper's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.model import CMDP
from flexdome.cmdp.validation import Float, as_array, as_int, as_items, check_range, instance_of, shown
from flexdome.errors import ValidationError
from flexdome.planning import occupancy, saddle_point, slater_gap
from flexdome.planning.evaluation import as_cmdp
from flexdome.planning.saddle import SaddlePoint
from flexdome.theory.constants import LONGEST
from flexdome.theory.identities import kl, one_policy
from flexdome.theory.schedules import LARGEST, Schedules

__all__ = ["Potential", "PotentialPath", "potential", "potential_path", "saddle_path"]


class Potential(NamedTuple):
    """The two parts of Phi: the policies' divergence, and half the squared distance of the multipliers."""

    divergence: float
    multipliers: float

    @property
    def total(self) -> float:
        """Phi."""
        return self.divergence + self.multipliers


@dataclass(frozen=True)
class PotentialPath:
    """Phi_t at the episodes ``t`` (n,), in its two parts, with the saddle points it is measured against."""

    t: npt.NDArray[np.int64]
    divergence: Float
    multipliers: Float
    points: tuple[SaddlePoint, ...]

    @property
    def total(self) -> Float:
        """(n,) Phi_t."""
        return self.divergence + self.multipliers


def potential(cmdp: CMDP, policy: npt.ArrayLike, multipliers: npt.ArrayLike, point: SaddlePoint) -> Potential:
    """Phi of the pair ``policy`` (H, S, A) and ``multipliers`` (m,) against ``point``.

    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("oscillator-v1")
    >>> point = fd.saddle_point(cmdp, tau=0.1)
    >>> fd.theory.potential(cmdp, point.policy, point.multipliers, point).total
    0.0
    """
    pi, lam = one_policy(cmdp, policy), as_array("multipliers", multipliers)[0]
    if lam.shape != (cmdp.constraints,):
        raise ValidationError(f"multipliers has shape {lam.shape}; it must be ({cmdp.constraints},)")
    check_range("multipliers", lam, -LARGEST, LARGEST)
    star = instance_of("point", point, SaddlePoint).policy
    reached = occupancy(cmdp, star).sum(axis=-1)
    there = reached > 0.0  # elsewhere the policies may be infinitely far apart
    return Potential(
        float((reached[there] * kl(star, pi)[there]).sum()), 0.5 * float(((point.multipliers - lam) ** 2).sum())
    )


def saddle_path(
    cmdp: CMDP, schedules: Schedules, episodes: npt.ArrayLike, dual_bound: float | None = None
) -> list[SaddlePoint]:
    """The saddle points of ``episodes``, each found from the one before it.

    ``dual_bound`` None means 4 H / Slater gap.
    """
    instance_of("schedules", schedules, Schedules)
    if dual_bound is None:
        dual_bound = 4.0 * as_cmdp(cmdp).horizon / slater_gap(cmdp)
    points: list[SaddlePoint] = []
    for k, one in enumerate(as_items("episodes", episodes, "it must be a series of episodes")):
        t = as_int(f"episodes[{k}]", one, 1, LONGEST)
        _, tau, eps = schedules.table(t, 1, as_cmdp(cmdp).constraints)
        start = points[-1].multipliers if points else None
        points.append(saddle_point(cmdp, float(tau[0]), eps[0], dual_bound, start=start))
    return points


def potential_path(
    cmdp: CMDP, snapshots: Mapping[int, Any], schedules: Schedules, dual_bound: float | None = None
) -> PotentialPath:
    """Phi_t along a run: ``history.snapshots`` of ``fd.simulate``, or ``snapshots`` of ``fd.iterate``.

    Parameters
    ----------
    snapshots : episode t to something with a ``policy`` (H, S, A) and ``multipliers`` (m,), as they stood before it
    schedules : those of the run, ``learner.schedules``
    dual_bound : the side of the dual box; None means 4 H / Slater gap

    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("oscillator-v1")
    >>> schedules = fd.theory.theorem2(0.2)
    >>> run = fd.iterate(cmdp, schedules, 3000, snapshots=(1, 3000))
    >>> path = fd.theory.potential_path(cmdp, run.snapshots, schedules)
    >>> bool(path.total[1] < 0.01 * path.total[0])
    True
    """
    if not isinstance(snapshots, Mapping) or not snapshots:
        raise ValidationError(f"snapshots is {shown(snapshots)}; it must map episodes to policies and multipliers")
    t = np.array(sorted(as_int("an episode of snapshots", k, 1, LONGEST) for k in snapshots), dtype=np.int64)
    points = saddle_path(cmdp, schedules, t, dual_bound)
    found = [
        potential(cmdp, snapshots[int(k)].policy, snapshots[int(k)].multipliers, point)
        for k, point in zip(t, points, strict=True)
    ]
    return PotentialPath(
        t, np.array([one.divergence for one in found]), np.array([one.multipliers for one in found]), tuple(points)
    )
