"""What ProxDOME keeps beside the empirical model, in memory and in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.errors import ValidationError
from flexdome.learners.proximal.data_kernels import TOLD, Proximal, open_cells, open_known
from flexdome.learners.proximal.plan_kernels import HOTTEST
from flexdome.learners.seen.counts import OptimisticModel, _zeros
from flexdome.learners.seen.file import _visited_cells, _visited_rows, model_state, restore_model
from flexdome.learners.seen.kernels import Settings
from flexdome.learners.state import EXACT, LARGEST_SUM, StateReader

__all__ = ["proximal_arrays", "proximal_state", "restore_proximal"]

Arrays = dict[str, npt.NDArray[Any]]
OWN = ("m2_r", "m2_d", "seen", "m2_alpha", "s2", "optimistic", "values", "pooled", "logged", "clock", "heat", "told")


def proximal_arrays(model: OptimisticModel) -> Proximal:
    """The arrays of a learner that has seen nothing; memory follows what is touched."""
    H, _, A = model.shape
    m, rows = model.core.policy.lam.size, H * A * model.C
    return Proximal(
        m2_r=_zeros(rows),
        m2_d=_zeros((m, rows)),
        seen=_zeros(rows),
        m2_alpha=np.zeros(m),
        s2=_zeros((m, rows)),
        q=_zeros(rows * model.W),
        x=_zeros(rows),
        mass=_zeros(H * model.C),
        kept=_zeros(rows),
        pooled=np.tile(np.arange(H, 0, -1.0) ** 2 / 12.0, (1 + m, 1)),
        opened=np.zeros(H, dtype=np.int64),
        logged=np.zeros(1, dtype=np.int64),
        clock=np.zeros(1, dtype=np.int64),
        heat=np.ones(1),
        told=np.zeros(1 + 4 * m + TOLD),
        dual=np.zeros((6, m)),
        jacobian=np.zeros((m, m)),
        sums=np.zeros(1 + m),
    )


def proximal_state(model: OptimisticModel, own: Proximal, known_p: bool) -> Arrays:
    """Everything that was seen and decided; r~ and the errors too, since most are not of the last episode."""
    core, W, m = model.core, model.W, model.core.policy.lam.size
    rows, cells = _visited_rows(model, core.counts.n_cells), _visited_cells(model, core.counts.n_cells)
    return {
        **model_state(model, known_p),
        "m2_r": own.m2_r[rows],
        "m2_d": own.m2_d[:, rows],
        "seen": own.seen[rows],
        "m2_alpha": own.m2_alpha.copy(),
        "s2": own.s2[:, rows],
        "optimistic": core.work.base[rows * W],
        "values": core.work.values.reshape(-1, W)[cells, : m + 2],
        "pooled": own.pooled.copy(),
        "logged": own.logged.copy(),
        "clock": own.clock.copy(),
        "heat": own.heat.copy(),
        "told": own.told.copy(),
    }


def restore_proximal(
    model: OptimisticModel, own: Proximal, settings: Settings, shared: bool, episode: int, state: Arrays
) -> None:
    """Take back what :func:`proximal_state` gave; a state that does not fit together is refused."""
    for name in OWN:
        if name not in state:
            raise ValidationError(f"state.{name} is missing")
    rest = {name: part for name, part in state.items() if name not in OWN}
    restore_model(model, settings, episode, rest, chained=not shared)
    read = StateReader({name: state[name] for name in OWN})
    core, W = model.core, model.W
    m = core.policy.lam.size
    rows, cells = _visited_rows(model, core.counts.n_cells), _visited_cells(model, core.counts.n_cells)
    open_cells(core, own, settings)
    own.m2_r[rows] = read.take("m2_r", rows.shape, 0.0, EXACT)
    own.m2_d[:, rows] = read.take("m2_d", (m, rows.size), 0.0, EXACT)
    own.seen[rows] = read.count("seen", rows.shape, 0, EXACT)
    own.m2_alpha[:] = read.take("m2_alpha", (m,), 0.0, LARGEST_SUM)
    own.s2[:, rows] = read.take("s2", (m, rows.size), 0.0, LARGEST_SUM)
    core.work.base[rows * W] = read.take("optimistic", rows.shape, 0.0, LARGEST_SUM)
    core.work.base[rows * W + m + 1] = core.counts.sum_r[rows] / np.maximum(core.counts.n_visits[rows], 1.0)
    if settings.known.size and not np.isnan(settings.known[0, 0]):
        core.work.base[rows * W + m + 1] = settings.known[0, rows]
    core.work.values.reshape(-1, W)[cells, : m + 2] = read.take(
        "values", (cells.size, m + 2), -LARGEST_SUM, LARGEST_SUM
    )
    if shared and len(set(core.counts.n_cells.tolist())) > 1:
        raise ValidationError("state.n_cells differs between steps; where steps are shared it must not")
    if shared and (core.counts.state_of != core.counts.state_of[0]).any():
        raise ValidationError("state.state_of differs between steps; where steps are shared it must not")
    own.pooled[:] = read.take("pooled", own.pooled.shape, 0.0, LARGEST_SUM)
    own.logged[:] = read.count("logged", (1,), 0, EXACT)
    own.clock[:] = read.count("clock", (1,), 0, EXACT)
    own.heat[:] = read.take("heat", (1,), 1.0, HOTTEST)
    own.told[:] = read.take("told", own.told.shape, -LARGEST_SUM, LARGEST_SUM)
    read.finish()
    if settings.revealed is not None:
        open_known(core, own, settings)
