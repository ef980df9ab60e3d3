"""What ProxDOME keeps beside the empirical model, in memory and in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.certificates.kernels import SIZE
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.kernels.borrow import hold
from flexdome.learners.proximal.data_kernels import Choices, Dual, Proximal, Report, Scales
from flexdome.learners.proximal.error_kernels import open_cells, open_known, reopen
from flexdome.learners.proximal.noise_kernels import shrink_means
from flexdome.learners.proximal.plan_kernels import LARGEST_SHARE, SMALLEST_SHARE
from flexdome.learners.seen.counts import OptimisticModel, _zeros
from flexdome.learners.seen.file import _visited_cells, _visited_rows, model_state, restore_model
from flexdome.learners.seen.kernels import Settings
from flexdome.learners.state import EXACT, LARGEST_SUM, StateReader

__all__ = ["proximal_arrays", "proximal_state", "report_of", "restore_proximal", "set_scales"]

Arrays = dict[str, npt.NDArray[Any]]
SEEN = ("high", "count", "mean", "m2")  # of the units; the others follow, but not from the last episode's
SCALES = tuple(f"scale_{name}" for name in Scales._fields)
OWN = (
    "m2_r", "m2_d", "seen", "m2_alpha", "s2", "lucky", "doubts", "luck", "optimistic", "values", "pooled", "shared",
    "pools", "logged", "clock", "kept", "has_kept", "share", "since", "report", "judged", "below", "promise", *SCALES,
)  # fmt: skip
LARGEST_LOG = 1e4  # a probability of a file is no smaller than its exponential
BY_CONSTRAINT = ("utilities", "errors", "margin", "thresholds")


def report_of(numbers: Float, m: int) -> Report:
    """Named views of the numbers of a plan, along the last axis."""
    parts, at = [], 0
    for name in Report._fields[1:]:
        size = m if name in BY_CONSTRAINT else 1
        parts.append(numbers[..., at : at + size])
        at += size
    return Report(numbers, *parts)


def set_scales(scales: Scales, utilities: Float) -> None:
    """The units of utilities that are known: every (step, state, action) counts as tried."""
    every = utilities.reshape(utilities.shape[0], -1)
    scales.high[:], scales.count[:] = every.max(axis=1), every.shape[1]
    scales.mean[:] = every.mean(axis=1)
    scales.m2[:] = ((every - scales.mean[:, None]) ** 2).sum(axis=1)


def proximal_arrays(model: OptimisticModel) -> Proximal:
    """The arrays of a learner that has seen nothing; memory follows what is touched."""
    H, _, A = model.shape
    m, rows = model.core.policy.lam.size, H * A * model.C
    numbers = np.zeros(len(Report._fields) - 1 + len(BY_CONSTRAINT) * (m - 1))
    own = Proximal(
        m2_r=_zeros(rows),
        m2_d=_zeros((m, rows)),
        seen=_zeros(rows),
        m2_alpha=np.zeros(m),
        s2=_zeros((m, rows)),
        lucky=_zeros((m, rows)),
        doubts=_zeros(rows),
        luck=_zeros(H * model.C),
        q=_zeros(rows * model.W),
        x=_zeros(rows),
        mass=_zeros(H * model.C),
        joint=_zeros((m, A * model.C)),
        kept=_zeros(rows),
        hope=_zeros(rows),
        reach=_zeros(rows),
        worth=np.zeros(1),
        beyond=_zeros(rows),
        has_kept=np.zeros(1, dtype=np.int64),
        share=np.full(1, LARGEST_SHARE),
        since=np.zeros(1, dtype=np.int64),
        pooled=np.tile(np.arange(H, 0, -1.0) ** 2 / 12.0, (1 + 2 * m, 1)),
        pools=np.zeros((3, 1 + m, H)),
        opened=np.zeros(H, dtype=np.int64),
        logged=np.zeros(1, dtype=np.int64),
        clock=np.zeros(1, dtype=np.int64),
        scales=Scales(**{name: np.zeros(m) for name in SEEN}, top=np.ones(m), middle=np.full(m, 0.5), width=np.ones(m)),
        report=report_of(numbers, m),
        dual=Dual(
            **{name: np.zeros(m) for name in Dual._fields[:-2]}, jacobian=np.zeros((m, m)), work=np.zeros((m, m))
        ),
        sums=np.zeros(1 + 2 * m),
        judged=np.zeros(m),
        below=np.zeros(m),
        promise=np.zeros((1 + m, SIZE)),
    )
    return hold(own)


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
        "lucky": own.lucky[:, rows],
        "doubts": own.doubts[rows],
        "luck": own.luck[cells],
        "optimistic": core.work.base[rows * W],
        "values": core.work.values.reshape(-1, W)[cells, : m + 2],
        "pooled": own.pooled[: 1 + m],
        "shared": own.pooled[1 + m :],
        "pools": own.pools.copy(),
        "logged": own.logged.copy(),
        "clock": own.clock.copy(),
        "kept": own.kept[rows],
        "has_kept": own.has_kept.copy(),
        "share": own.share.copy(),
        "since": own.since.copy(),
        "report": own.report.numbers.copy(),
        "judged": own.judged.copy(),
        "below": own.below.copy(),
        "promise": own.promise[1:],
        **{f"scale_{name}": getattr(own.scales, name).copy() for name in Scales._fields},
    }


def restore_proximal(
    model: OptimisticModel, own: Proximal, settings: Settings, choices: Choices, episode: int, state: Arrays
) -> None:
    """Take back what :func:`proximal_state` gave; a state that does not fit together is refused."""
    if "heat" in state:
        state = _of_version_3(own, state)
    if "pools" not in state:  # of version 4: nothing shrunk yet, and the next plan looks at all rows again
        state = {**state, "pools": np.zeros(own.pools.shape), "clock": np.zeros(1, dtype=np.int64)}
    if "judged" not in state:  # of version 5: the sums of its episodes were not counted
        state = {**state, "judged": own.judged, "below": own.below, "promise": own.promise[1:]}
    if "since" not in state:  # of version 6: mixtures begin now
        state = {**state, "since": episode + 1 + np.reshape(state.get("logged", 0), -1)}
    for name in OWN:
        if name not in state:
            raise ValidationError(f"state.{name} is missing")
    rest = {name: part for name, part in state.items() if name not in OWN}
    read = StateReader({name: state[name] for name in OWN})
    logged = read.take("logged", (1,), -float(episode), EXACT, whole=True).astype(np.int64)  # below 0: some forgotten
    restore_model(model, settings, episode + min(0, int(logged[0])), rest, chained=not choices.shared)
    core, W = model.core, model.W
    m = core.policy.lam.size
    rows, cells = _visited_rows(model, core.counts.n_cells), _visited_cells(model, core.counts.n_cells)
    open_cells(core, own, settings, choices)
    _restore_scales(own.scales, read)  # as they were when all rows were looked at
    reopen(core, own, settings, choices)
    own.m2_r[rows] = read.take("m2_r", rows.shape, 0.0, EXACT)
    own.m2_d[:, rows] = read.take("m2_d", (m, rows.size), 0.0, EXACT)
    own.seen[rows] = read.count("seen", rows.shape, 0, EXACT)
    own.m2_alpha[:] = read.take("m2_alpha", (m,), 0.0, LARGEST_SUM)
    own.s2[:, rows] = read.take("s2", (m, rows.size), 0.0, LARGEST_SUM)
    own.lucky[:, rows] = read.take("lucky", (m, rows.size), 0.0, LARGEST_SUM)
    own.doubts[rows] = read.take("doubts", rows.shape, 0.0, LARGEST_SUM)
    own.luck[cells] = read.take("luck", cells.shape, 0.0, LARGEST_SUM)
    core.work.base[rows * W] = read.take("optimistic", rows.shape, 0.0, LARGEST_SUM)
    own.pools[:] = read.take("pools", own.pools.shape, -LARGEST_SUM, LARGEST_SUM)
    read.agree("pools", own.pools[:2] >= 0.0, "must not be below 0")
    shrink_means(core, own, settings)
    core.work.values.reshape(-1, W)[cells, : m + 2] = read.take(
        "values", (cells.size, m + 2), -LARGEST_SUM, LARGEST_SUM
    )
    if choices.shared and len(set(core.counts.n_cells.tolist())) > 1:
        raise ValidationError("state.n_cells differs between steps; where steps are shared it must not")
    if choices.shared and (core.counts.state_of != core.counts.state_of[0]).any():
        raise ValidationError("state.state_of differs between steps; where steps are shared it must not")
    own.kept[rows] = read.take("kept", rows.shape, -LARGEST_LOG, 1e-6)
    own.has_kept[:] = read.count("has_kept", (1,), 0, 2)
    own.share[:] = read.take("share", (1,), SMALLEST_SHARE, LARGEST_SHARE)
    own.since[:] = read.count("since", (1,), 0, EXACT)
    own.pooled[: 1 + m] = read.take("pooled", (1 + m, own.pooled.shape[1]), 0.0, LARGEST_SUM)
    own.pooled[1 + m :] = read.take("shared", (m, own.pooled.shape[1]), -LARGEST_SUM, LARGEST_SUM)
    own.logged[:] = logged
    own.clock[:] = read.count("clock", (1,), 0, EXACT)
    own.report.numbers[:] = read.take("report", own.report.numbers.shape, -LARGEST_SUM, LARGEST_SUM)
    own.judged[:] = read.count("judged", (m,), 0, episode)
    own.below[:] = read.count("below", (m,), 0, EXACT)
    read.agree("below", own.below <= own.judged, "must not exceed judged")
    own.promise[1:] = read.take("promise", (m, SIZE), -LARGEST_SUM, LARGEST_SUM)
    read.agree("promise", own.promise[1:, :3] >= 0.0, "must have counts, totals and squares of 0 or more")
    read.finish()
    if settings.revealed:
        open_known(core, own, settings, choices)


def _restore_scales(scales: Scales, read: StateReader) -> None:
    m = scales.high.shape
    for name in Scales._fields:
        least = 0.0 if name in ("count", "m2", "width") else -EXACT
        getattr(scales, name)[:] = read.take(f"scale_{name}", m, least, EXACT)
    read.agree("scale_width", scales.width > 0.0, "must be above 0")


def _of_version_3(own: Proximal, state: Arrays) -> Arrays:
    """The state of version 3 in the words of version 4: units from the means of what was tried, no heat.

    The next plan looks at all rows again.
    """
    m = own.m2_alpha.size
    missing = [name for name in ("told", "n_visits", "sum_d", "logits", "heat") if name not in state]
    if missing or np.shape(state["told"]) != (7 + 4 * m,) or np.ndim(state["n_visits"]) != 1:
        raise ValidationError("state is that of version 3, and not all of it is there")
    visits, told = np.asarray(state["n_visits"], dtype=np.float64), np.asarray(state["told"], dtype=np.float64)
    means = np.asarray(state["sum_d"], dtype=np.float64) / np.maximum(visits, 1.0)
    units = Scales(*(np.array(part) for part in own.scales))
    if (visits > 0).any() and not units.count.any():
        set_scales(units, means[:, visits > 0])
    report = report_of(np.zeros(own.report.numbers.shape), m)
    report.numbers[: 1 + 4 * m] = told[: 1 + 4 * m]
    report.trials[:], report.temperature[:], _, report.safe[:], report.untried[:], report.solved[:] = told[1 + 4 * m :]
    report.share[:] = report.weight[:] = 1.0
    return {
        **{name: part for name, part in state.items() if name not in ("told", "heat")},
        "clock": np.zeros(1, dtype=np.int64),
        "kept": np.asarray(state["logits"]),
        "lucky": np.zeros((m, visits.size)),
        "doubts": np.zeros(visits.size),
        "luck": np.zeros(np.shape(state.get("entropy", ()))),
        "shared": np.zeros((m, own.pooled.shape[1])),
        "has_kept": np.asarray(report.safe > 0.0, dtype=np.int64),
        "share": own.share.copy(),
        "report": report.numbers,
        **{f"scale_{name}": getattr(units, name) for name in Scales._fields},
    }
