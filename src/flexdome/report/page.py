"""One HTML file from a store: text and tables made here, charts drawn by the script that comes with them.

The file holds everything: style, script, the plotting library and the curves. Every name that comes from a store is
text. Curves get what the rest leaves of five megabytes, and are thinned until they fit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from flexdome.analysis import Results, aggregate, paired_difference, summary
from flexdome.analysis.statistics import ENOUGH, of_few_runs
from flexdome.cmdp.archive import as_path, write_whole
from flexdome.errors import FlexDOMEError
from flexdome.experiments import ExperimentSpec, Store
from flexdome.figures import styles_for
from flexdome.report.common import common_runs
from flexdome.report.document import document
from flexdome.report.markup import Markup
from flexdome.report.run_curves import Detail, count_curves, curves_of, label_of
from flexdome.report.sections import SHOWN, about, overview, section
from flexdome.report.sentences import statements

__all__ = ["Page", "make_page", "write_report"]

BUDGET = 3_200_000  # characters of curves
LARGEST_PAGE = 5_000_000  # bytes of a page, as promised
FINEST, FINEST_SEED, COARSEST = 240, 80, 8  # stretches
MEAN_POINT, SEED_POINT = 16.0, 32.0 / 3.0  # characters of a point: twelve and eight bytes in base64
MEAN_NAME, SEED_NAME = 100.0, 16.0  # and of what stands around a curve
PAIRED = ("strong_regret", "strong_violation", "late_violation")


@dataclass(frozen=True)
class Page:
    """A page, and in how many stretches its means and its single seeds were cut (0: single seeds are not shown)."""

    html: str
    detail: Detail


def write_report(
    store: Store,
    path: str | os.PathLike[str] | None = None,
    skipped: Callable[[str], None] | None = None,
    first: Sequence[Markup] = (),
    rates: bool = True,
) -> Path:
    """Write the page of everything in a store; where it is (``report.html`` in the store) comes back.

    ``first`` are sections that come before everything else; ``rates`` is whether the paper's Table 1 is shown.
    """
    target = store.path / "report.html" if path is None else as_path("path", path)
    data = make_page(store, skipped, first=first, rates=rates).html.encode()
    if len(data) > LARGEST_PAGE and skipped is not None:
        skipped(f"nothing, but {target} has {len(data):,} bytes: there are too many curves for {LARGEST_PAGE:,}")
    write_whole(target, data)
    return target


def make_page(
    store: Store,
    skipped: Callable[[str], None] | None = None,
    budget: int = BUDGET,
    live: str = "",
    first: Sequence[Markup] = (),
    rates: bool = True,
) -> Page:
    """The page of every experiment in a store; one that cannot be read is an error, or a sentence to ``skipped``.

    Parameters
    ----------
    budget : characters that curves may take
    live : the state that a server gave this page; it then asks that server for the state, and nothing else
    first : sections that come before everything else
    rates : whether the paper's Table 1 is shown, with what was measured here
    """
    specs = store.experiments(skipped)
    if not specs:
        raise FlexDOMEError(
            f"{store.path} holds no experiment; `flexdome run EXPERIMENT --out {store.path}` starts one"
        )
    found = [(spec, aggregate(store, spec, skip_missing=True)) for spec in specs]
    begun = [(spec, results) for spec, results in found if results.finals.height]
    if not begun:
        raise FlexDOMEError(f"{store.path} holds no complete run; `flexdome resume {store.path}` finishes them")
    sections, data, said = list(first), [], [statements(results) for _, results in begun]
    idle = [spec.name for spec, results in found if not results.finals.height]
    sections.append(overview(store, begun, said, idle, rates))
    for k, (spec, results) in enumerate(begun):
        numbers = summary(results.finals, metrics=tuple(SHOWN))
        sections.append(section(k, spec, results, numbers, said[k], store))
        data.append(_data(spec, results, numbers))
    name = store.path.resolve().name
    rest = len(document(name, [*sections, about((0, 0))], {"experiments": data}, live).encode())
    detail = _detail(store, specs, min(budget, LARGEST_PAGE - rest))
    for part, (spec, _) in zip(data, begun, strict=True):
        part["curves"] = curves_of(store, spec, detail)
        part["metrics"] = [
            [metric, label_of(metric)]
            for metric in dict.fromkeys(metric for place in part["curves"].values() for metric in place)
        ]
    return Page(document(name, [*sections, about(detail)], {"experiments": data}, live), detail)


# -- how much fits -------------------------------------------------------------------------------------------------


def _detail(store: Store, specs: Sequence[ExperimentSpec], budget: int) -> Detail:
    """The most stretches whose curves fit into ``budget`` characters; single seeds go first."""
    counts = [count_curves(store, spec) for spec in specs]
    means, seeds = (sum(column) for column in zip(*counts, strict=True))

    def size(mean: int, seed: int) -> float:
        points: float = 2.5 * (means * mean * MEAN_POINT + seeds * seed * SEED_POINT)  # two a stretch, and early ones
        names: float = means * MEAN_NAME + (seeds * SEED_NAME if seed else 0.0)
        return points + names

    for k in range(20):
        fine = max(int(FINEST * 0.84**k), COARSEST)
        coarse = max(int(FINEST_SEED * 0.84**k), COARSEST)
        if size(fine, coarse) <= budget:
            return fine, coarse
    return next((n for n in range(FINEST // 2, COARSEST, -1) if size(n, 0) <= budget), COARSEST), 0


def _data(spec: ExperimentSpec, results: Results, numbers: pl.DataFrame) -> dict[str, Any]:
    """What the script draws, but for the curves."""
    names = [learner.name for learner in spec.learners]
    styles = styles_for(names)
    points = numbers.filter(pl.col("metric").is_in(["strong_regret", "strong_violation"]))
    pareto: dict[str, dict[str, Any]] = {}
    for row in points.iter_rows(named=True):
        short = row["metric"].removeprefix("strong_")
        pareto.setdefault(row["environment"], {}).setdefault(row["learner"], {})[short] = [
            row["mean"],
            row["se"] or 0.0,
        ]
        pareto[row["environment"]][row["learner"]]["n"] = row["n"]
    shared = common_runs(results.finals)["environment"].value_counts()
    whole = results.finals["environment"].value_counts()
    pairs = _pairs(results)
    return {
        "name": spec.name,
        "episodes": spec.episodes,
        "learners": [
            {"name": name, "colour": styles[name].colour, "dashes": styles[name].dashes, "marker": styles[name].marker}
            for name in names
        ],
        "pareto": pareto,
        "alike": [row[0] for row in shared.join(whole, on=["environment", "count"]).sort("environment").iter_rows()],
        "pairs": pairs,
        "few": of_few_runs(row[-1] + row[-2] + row[-3] for row in pairs),
        "enough": ENOUGH,
        "paired": [[metric, SHOWN[metric]] for metric in PAIRED],
    }


def _pairs(results: Results) -> list[list[Any]]:
    """``[environment, metric, a, b, mean, low, high, a lower, equal, a higher]`` of every two learners, once."""
    rows: list[list[Any]] = []
    for (environment,), finals in results.finals.group_by(["environment"], maintain_order=True):
        seeds: dict[str, set[tuple[int, int]]] = {}
        for name, instance, seed in finals.select("learner", "instance", "seed").iter_rows():
            seeds.setdefault(name, set()).add((instance, seed))
        names = list(seeds)
        for k, a in enumerate(names):
            for b in names[k + 1 :]:
                if not seeds[a] & seeds[b]:
                    continue
                for metric in PAIRED:
                    pair = paired_difference(finals, metric, a, b)
                    ends = (pair.interval.low, pair.interval.high) if pair.interval else (None, None)
                    counts = (pair.lower, pair.equal, pair.higher)
                    rows.append([environment, metric, a, b, *map(_rounded, (pair.mean, *ends)), *counts])
    return rows


def _rounded(value: float | None) -> float | None:
    """Seven digits, as curves have."""
    return None if value is None else float(f"{value:.7g}")
