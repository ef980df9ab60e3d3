"""FlexDOME's iteration on a known model: the setting of the last-iterate theorem.

    pi_{t+1} ~ pi_t exp(eta_t Q^{pi_t}_{r + lam_t d + tau_t psi_t}),   psi_t = -log pi_t
    lam_{t+1} = Proj_[0, bound]((1 - eta_t tau_t) lam_t - eta_t (V_d^{pi_t} - eps_t - alpha))

The theorem's proof assumes the true model; so does this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float, as_float, as_int, as_items, shown
from flexdome.errors import ValidationError
from flexdome.planning import evaluate, slater_gap, solve
from flexdome.planning.evaluation import as_cmdp
from flexdome.simulation.history import Snapshot
from flexdome.simulation.iteration_kernels import run_iteration
from flexdome.theory import Schedules
from flexdome.theory.schedules import LARGEST

__all__ = ["Iterates", "iterate"]

MOST = 10**8  # iterations: the whole trajectory is kept


@dataclass(frozen=True)
class Iterates:
    """The whole trajectory, and where it ended.

    Attributes
    ----------
    reward_gap : (n,) signed V_r* - V_r of the policy before each step
    violation : (m, n) signed alpha - V_d
    multipliers : (m, n)
    policy, final_multipliers : after the last step
    final_gap, final_violation : exact, of that policy
    snapshots : t to the policy and multipliers before step t; nothing is visited, the model being known
    """

    reward_gap: Float
    violation: Float
    multipliers: Float
    policy: Float
    final_multipliers: Float
    final_gap: float
    final_violation: Float
    snapshots: dict[int, Snapshot] = field(default_factory=dict)


def iterate(
    cmdp: CMDP,
    schedules: Schedules,
    iterations: int,
    dual_bound: float | None = None,
    snapshots: Iterable[int] = (),
) -> Iterates:
    """Iterate on the true model from the uniform policy and zero multipliers.

    ``dual_bound`` None means 4 H / Slater gap. The whole trajectory is kept: about 60 bytes an iteration.
    ``snapshots`` are steps, from 1 to one past the last, before which policy and multipliers are kept.

    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("oscillator-v1", horizon=3)
    >>> path = fd.iterate(cmdp, fd.theory.theorem2(0.1, c_eta=10, c_margin=1.5), 20_000)
    >>> bool(path.final_violation[0] < 0), bool(path.final_gap < 0.2)
    (True, True)
    """
    as_cmdp(cmdp)
    n = as_int("iterations", iterations, 1, MOST)
    if not isinstance(schedules, Schedules):
        raise ValidationError(f"schedules is {shown(schedules)}; it must be a Schedules")
    if dual_bound is None:
        gap = slater_gap(cmdp)
        if gap <= 0.0:
            raise ValidationError(f"the Slater gap is {gap:g}; without one dual_bound must be given")
        dual_bound = 4.0 * cmdp.horizon / gap
    bound = as_float("dual_bound", dual_bound, low=0.0, high=LARGEST)
    H, S, A, m = cmdp.horizon, cmdp.states, cmdp.actions, cmdp.constraints
    given = as_items("snapshots", snapshots, "it must be a series of steps")
    wanted = sorted({as_int(f"snapshots[{k}]", t, 1, n + 1) for k, t in enumerate(given)})
    best = solve(cmdp)
    log_pi = np.full((H, S, A), -np.log(A))
    if cmdp.allowed is not None:
        log_pi = np.where(cmdp.allowed, -np.log(cmdp.allowed.sum(axis=-1, keepdims=True)), -np.inf)
    lam = np.zeros(m)
    try:
        eta, tau, eps = schedules.table(1, n, m)
        values, multipliers = np.empty((n, 1 + m)), np.empty((n, m))
    except MemoryError:
        raise ValidationError(f"iterations is {n}; a trajectory of that length does not fit in memory") from None
    work, kept, done = np.zeros((2, 2 + m, S)), {}, 0
    for stop in [*(t - 1 for t in wanted), n]:
        part = slice(done, stop)
        run_iteration(
            tuple(cmdp.model), cmdp.alpha, eta[part], tau[part], eps[part], bound, log_pi, lam, values[part],
            multipliers[part], work,
        )  # fmt: skip
        if stop + 1 in wanted:
            kept[stop + 1] = Snapshot(_policy(log_pi), lam.copy(), np.zeros((H, S, A)))
        done = stop
    policy = _policy(log_pi)
    end = evaluate(cmdp, policy)
    return Iterates(
        reward_gap=best.value - values[:, 0],
        violation=(cmdp.alpha - values[:, 1:]).T,
        multipliers=multipliers.T,
        policy=policy,
        final_multipliers=lam,
        final_gap=best.value - float(end.value),
        final_violation=cmdp.alpha - end.utilities,
        snapshots=kept,
    )


def _policy(log_pi: Float) -> Float:
    policy: Float = np.exp(log_pi)
    policy /= policy.sum(axis=-1, keepdims=True)
    return policy
