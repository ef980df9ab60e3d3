"""The curves of an experiment, from all episodes of all its runs.

The mean over seeds and its standard error are taken in every episode; only then is the mean thinned, and the error is
that of the episodes that are left. Single seeds are thinned by themselves. With m > 1 constraints each has curves of
its own beside those of the largest.

On the page a curve is a string: episodes as 32-bit whole numbers, then values (of a mean also errors) as 32-bit floats,
little-endian, in base64.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.analysis import METRICS, Reader, Series, mean_and_error, series_of
from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError
from flexdome.experiments import ExperimentSpec, RunSpec
from flexdome.report.thinning import stretches, thin

__all__ = ["LABELS", "Detail", "count_curves", "curves_of", "label_of"]

LABELS = {
    "gap": "Optimality gap of each episode",
    "violation": "Violation of each episode",
    "strong_regret": "Strong regret, cumulative",
    "strong_violation": "Strong violation, cumulative",
    "weak_regret": "Weak regret, cumulative",
    "weak_violation": "Weak violation, cumulative",
}
ONE = {"each": "Violation of each episode", "sum": "Strong violation, cumulative"}
LONGEST_CURVE = 2**32 - 1
Detail = tuple[int, int]  # stretches of a mean, and of a single seed (0: none are shown)


def label_of(metric: str) -> str:
    """What the page calls a metric: ``each_0`` and ``sum_0`` are those of constraint 0 alone.

    >>> label_of("sum_1")
    'Strong violation, cumulative: constraint 1'
    """
    kind, _, constraint = metric.partition("_")
    return f"{ONE[kind]}: constraint {constraint}" if kind in ONE else LABELS[metric]


def curves_of(store: Reader, spec: ExperimentSpec, detail: Detail) -> dict[str, dict[str, Any]]:
    """By environment, metric and learner: ``{"mean": curve, "seeds": {seed: curve}}`` of the runs that there are."""
    if spec.episodes > LONGEST_CURVE:
        raise ValidationError(f"{spec.name} has {spec.episodes} episodes; a page shows at most {LONGEST_CURVE}")
    found: dict[str, dict[str, Any]] = {}
    coarse, fine = (stretches(spec.episodes, max(count, 1)) for count in (detail[1], detail[0]))
    for runs in _groups(store, spec):
        place, who = runs[0].environment.name, runs[0].learner.name
        all_series = [series_of(store.read(run)) for run in runs]
        for metric in _metrics(all_series[0]):
            values = np.stack([_values(series, metric) for series in all_series])
            mean, error = mean_and_error(values)
            kept = thin(mean, fine)
            row: dict[str, Any] = {"n": len(runs), "mean": _packed(kept, mean, *([error] if len(runs) > 1 else []))}
            if detail[1] and len(runs) > 1:
                row["seeds"] = {
                    str(run.seed): _packed(thin(one, coarse), one) for run, one in zip(runs, values, strict=True)
                }
            found.setdefault(place, {}).setdefault(metric, {})[who] = row
    return found


def count_curves(store: Reader, spec: ExperimentSpec) -> tuple[int, int]:
    """How many means and how many single seeds the page would have; one run of each group is looked into."""
    means = seeds = 0
    for runs in _groups(store, spec):
        columns = store.read(runs[0]).columns
        constraints = sum(name.startswith("violation_") for name in columns)
        metrics = len(METRICS) + (2 * constraints if constraints > 1 else 0)
        means += metrics
        seeds += metrics * len(runs) if len(runs) > 1 else 0
    return means, seeds


def _groups(store: Reader, spec: ExperimentSpec) -> Iterator[Sequence[RunSpec]]:
    groups: dict[tuple[str, str], list[RunSpec]] = {}
    for run in spec.runs():
        if store.has(run):
            groups.setdefault((run.environment.name, run.learner.name), []).append(run)
    yield from groups.values()


def _metrics(series: Series) -> list[str]:
    constraints = range(len(series.violations)) if len(series.violations) > 1 else ()
    return [*METRICS, *(f"{kind}_{i}" for kind in ONE for i in constraints)]


def _values(series: Series, metric: str) -> Float:
    kind, _, constraint = metric.partition("_")
    if kind not in ONE:
        values: Float = getattr(series, metric)
        return values
    signed: Float = series.violations[int(constraint)]
    return signed if kind == "each" else np.cumsum(np.maximum(signed, 0.0))


def _packed(kept: npt.NDArray[np.int64], *columns: Float) -> str:
    parts = [(kept + 1).astype("<u4").tobytes(), *(column[kept].astype("<f4").tobytes() for column in columns)]
    return base64.b64encode(b"".join(parts)).decode()
