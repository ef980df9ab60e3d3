"""One HTML file from a store: text and tables made here, charts drawn by the script that comes with them.

The file holds everything: style, script, the plotting library and the curves. Its content security policy lets nothing
be loaded and no script run but the two that are in it, by their checksums. Every name that comes from a store is text.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from flexdome.analysis import Results, aggregate, paired_difference, summary, table1
from flexdome.cmdp.archive import as_path, write_whole
from flexdome.errors import FlexDOMEError
from flexdome.experiments import ExperimentSpec, RunSpec, Store
from flexdome.figures import pareto_front, styles_for, table_cells
from flexdome.report.again import command, curve_toml
from flexdome.report.curves import Detail, count_curves, curves_of, label_of
from flexdome.report.markup import Markup, as_json, element, joined, table
from flexdome.report.sentences import notices, statements

__all__ = ["Page", "make_page", "write_report"]

BUDGET = 3_200_000  # characters of curves
LARGEST = 5_000_000  # bytes of a page, as promised
FINEST, FINEST_SEED, COARSEST = 240, 80, 8  # stretches
MEAN_POINT, SEED_POINT = 16.0, 32.0 / 3.0  # characters of a point: twelve and eight bytes in base64
SHOWN = {
    "strong_regret": "Strong regret",
    "strong_violation": "Strong violation",
    "late_violation": "Strong violation after the first tenth",
    "last_gap": "Last gap",
    "last_violation": "Last violation",
}
PAIRED = ("strong_regret", "strong_violation", "late_violation")
MARKED = {"holds": "as the paper says", "parts": "unlike the paper", "open": "not settled"}


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
) -> Path:
    """Write the page of everything in a store; where it is (``report.html`` in the store) comes back.

    ``first`` are sections that come before everything else.
    """
    target = store.path / "report.html" if path is None else as_path("path", path)
    data = make_page(store, skipped, first=first).html.encode()
    if len(data) > LARGEST and skipped is not None:
        skipped(f"nothing, but {target} has {len(data):,} bytes: there are too many curves for {LARGEST:,}")
    write_whole(target, data)
    return target


def make_page(
    store: Store,
    skipped: Callable[[str], None] | None = None,
    budget: int = BUDGET,
    live: str = "",
    first: Sequence[Markup] = (),
) -> Page:
    """The page of every experiment in a store; one that cannot be read is an error, or a sentence to ``skipped``.

    Parameters
    ----------
    budget : characters that curves may take
    live : the state that a server gave this page; it then asks that server for the state, and nothing else
    first : sections that come before everything else
    """
    specs = store.experiments(skipped)
    if not specs:
        raise FlexDOMEError(
            f"{store.path} holds no experiment; `flexdome run EXPERIMENT --out {store.path}` starts one"
        )
    detail = _detail(store, specs, budget)
    found = [(spec, aggregate(store, spec, skip_missing=True)) for spec in specs]
    begun = [(spec, results) for spec, results in found if results.finals.height]
    if not begun:
        raise FlexDOMEError(f"{store.path} holds no complete run; `flexdome resume {store.path}` finishes them")
    sections, data, said = [], [], []
    for k, (spec, results) in enumerate(begun):
        numbers = summary(results.finals, metrics=tuple(SHOWN))
        said.append(statements(results))
        sections.append(_section(k, spec, results, numbers, said[-1], store))
        data.append(_data(spec, results, numbers, curves_of(store, spec, detail)))
    idle = [spec.name for spec, results in found if not results.finals.height]
    head = _overview(store, begun, said, idle)
    return Page(
        _document(store.path.resolve().name, [*first, head, *sections, _about(detail)], {"experiments": data}, live),
        detail,
    )


# -- how much fits -------------------------------------------------------------------------------------------------


def _detail(store: Store, specs: Sequence[ExperimentSpec], budget: int) -> Detail:
    """The most stretches whose curves fit into ``budget`` characters; single seeds go first."""
    counts = [count_curves(store, spec) for spec in specs]
    means, seeds = (sum(column) for column in zip(*counts, strict=True))

    def size(mean: int, seed: int) -> float:
        points: float = means * mean * MEAN_POINT + seeds * seed * SEED_POINT
        return 2.5 * points  # two points a stretch, and early ones

    for k in range(20):
        fine = max(int(FINEST * 0.84**k), COARSEST)
        coarse = max(int(FINEST_SEED * 0.84**k), COARSEST)
        if size(fine, coarse) <= budget:
            return fine, coarse
    return next((n for n in (120, 80, 60, 40, 30, 20, 12) if size(n, 0) <= budget), COARSEST), 0


# -- an experiment -------------------------------------------------------------------------------------------------


def _section(
    k: int, spec: ExperimentSpec, results: Results, numbers: pl.DataFrame, said: Sequence[tuple[str, str]], store: Store
) -> Markup:
    seeds = f"{len(spec.seeds)} seed{'s' * (len(spec.seeds) > 1)}"
    runs = sum(1 for _ in spec.runs())
    facts = f"{spec.episodes:,} episodes, {seeds}, {runs - len(results.missing)} of {runs} runs, id {spec.id}"
    parts: list[object] = [
        element("h2", spec.name, id=f"h{k}"),
        element("p", spec.description, class_="lead") if spec.description else "",
        element("p", facts, class_="facts"),
        element("h3", "What to notice"),
        element("ul", *(element("li", text) for text in notices(results, numbers))),
    ]
    if said:
        held = sum(mark == "holds" for mark, _ in said)
        rows = (element("li", element("b", MARKED[mark], class_=f"mark {mark}"), " ", text) for mark, text in said)
        parts += [
            element("h3", "The paper's statements and this measurement"),
            element("p", f"{held} of {len(said)} hold here. What does not hold comes first."),
            element("ul", *rows, class_="statements"),
        ]
    parts += [
        element("div", class_="interactive", data_experiment=str(k)),
        element(
            "noscript", element("p", "The charts need a script, which this browser does not run. The tables do not.")
        ),
        element("h3", "Final numbers"),
        _finals(results, numbers),
        element("h3", "Regret against violation, in numbers"),
        _pareto(numbers),
        element("h3", "What is behind every curve"),
        _behind(spec, results, store),
    ]
    return element("section", *parts, aria_labelledby=f"h{k}", id=f"experiment-{k}")


def _finals(results: Results, numbers: pl.DataFrame) -> Markup:
    exponents = {
        (row["environment"], row["learner"], row["metric"]): row for row in results.exponents.iter_rows(named=True)
    }
    rows = []
    for (environment, learner), group in numbers.group_by(["environment", "learner"], maintain_order=True):
        by = {row["metric"]: row for row in group.iter_rows(named=True)}
        powers = (exponents[environment, learner, metric] for metric in ("strong_regret", "strong_violation"))
        cells = [_estimate(by[metric]) for metric in SHOWN]
        cells += [_span(row["exponent"], row["low"], row["high"]) for row in powers]
        rows.append((learner, environment, str(by["strong_regret"]["n"]), *cells))
    head = ("Learner", "Environment", "Runs", *SHOWN.values(), "Regret exponent", "Violation exponent")
    caption = (
        "Mean over runs and its 95 % bootstrap interval at the last episode. Exponent: slope of the logarithm of the "
        "mean cumulative series over that of the episode, for the last fifteen sixteenths."
    )
    return table(caption, head, rows, named=2)


def _pareto(numbers: pl.DataFrame) -> Markup:
    rows = []
    for (environment,), group in numbers.group_by(["environment"], maintain_order=True):
        wide = group.pivot("metric", index="learner", values="mean")
        front = pareto_front(wide.select("strong_regret", "strong_violation").to_numpy())
        for k, row in enumerate(wide.iter_rows(named=True)):
            verdict = "beaten by nobody in both" if k in front else "beaten or equalled in both"
            points = (_number(row["strong_regret"]), _number(row["strong_violation"]))
            rows.append((row["learner"], environment, *points, verdict))
    head = ("Learner", "Environment", "Strong regret", "Strong violation", "Place")
    return table("Mean strong regret and violation, and who is on the Pareto front.", head, rows, named=2)


def _behind(spec: ExperimentSpec, results: Results, store: Store) -> Markup:
    there = set(results.finals["run"])
    groups: dict[tuple[str, str], list[RunSpec]] = {}
    for run in spec.runs():
        if run.id in there:
            groups.setdefault((run.environment.name, run.learner.name), []).append(run)
    blocks = []
    line = command(spec)
    if line is not None:
        said = "All curves of this experiment come again with"
        blocks.append(element("p", said, " ", element("code", line)))
    for place in spec.environments:
        for learner in spec.learners:
            runs = groups.get((place.name, learner.name), [])
            if not runs:
                continue
            markers = [store.marker(run) for run in runs]
            versions = {_versions(marker.get("versions")) for marker in markers}
            instance = f"instance {spec.instance} for all" if spec.instance is not None else "seed k on instance k"
            options = ", ".join(f"{key} = {value}" for key, value in learner.options.items()) or "all at their defaults"
            told = learner.problem.model_dump(mode="json", exclude_defaults=True)
            facts = {
                "Learner": learner.id,
                "Options": options,
                "Told of the truth": ", ".join(f"{key} = {value}" for key, value in told.items()) or "as usual",
                "Seeds": f"{', '.join(str(run.seed) for run in runs)} ({instance})",
                "Made with": " / ".join(sorted(versions)),
                "Runs": ", ".join(run.id for run in runs),
            }
            if place.digest is not None and place.file is not None:
                facts["Model"] = f"{place.name}, SHA-256 {place.digest}"
            terms = (part for key, text in facts.items() for part in (element("dt", key), element("dd", text)))
            blocks.append(
                element(
                    "details",
                    element("summary", f"{learner.name} on {place.name}"),
                    element("dl", *terms),
                    *_again(spec, place.name, learner.name),
                )
            )
    return joined(blocks)


def _again(spec: ExperimentSpec, environment: str, learner: str) -> list[Markup]:
    try:
        text = curve_toml(spec, environment, learner)
    except FlexDOMEError as error:
        return [element("p", f"No file says this curve alone: {error}.")]
    said = "This curve alone: save the lines below as curve.toml, in the directory of the results, then"
    run = element("code", "flexdome run curve.toml")
    return [element("p", said, " ", run), element("pre", element("code", text), tabindex="0")]


def _versions(found: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items()) if isinstance(found, Mapping) else "not said"


# -- the whole -----------------------------------------------------------------------------------------------------


def _overview(
    store: Store,
    begun: Sequence[tuple[ExperimentSpec, Results]],
    said: Sequence[Sequence[tuple[str, str]]],
    idle: Sequence[str],
) -> Markup:
    rows = []
    for k, (spec, results) in enumerate(begun):
        marks = [mark for mark, _ in said[k]]
        runs = sum(1 for _ in spec.runs())
        link = element("a", spec.name, href=f"#experiment-{k}")
        paper = f"{marks.count('holds')} of {len(marks)}" if marks else "none to check"
        rows.append((link, spec.description, f"{runs - len(results.missing)} of {runs}", f"{spec.episodes:,}", paper))
    head = ("Experiment", "What it is", "Runs", "Episodes", "Paper's statements that hold")
    parts: list[object] = [
        element("h1", f"Results in {store.path.resolve().name}"),
        element(
            "p",
            "Strong regret and strong violation count every episode that is worse than the optimum, or unsafe, and let "
            "no other episode make up for it. All numbers are exact values of the policies that were played.",
            class_="lead",
        ),
        table("The experiments on this page.", head, rows, named=2),
    ]
    if idle:
        parts.append(element("p", f"Asked for, with no complete run yet: {', '.join(idle)}."))
    chosen = [results for spec, results in begun if spec.name.startswith("table1")] or [r for _, r in begun]
    rates = table1(chosen)
    idle_ids = rates.filter(pl.col("part") != "paper", pl.col("status") == "not run")["id"].to_list()
    heads, cells, notes = table_cells(rates.filter(~pl.col("id").is_in(idle_ids)))
    if idle_ids:
        notes.append(f"Known to flexdome, not in the paper's table, and not run here: {', '.join(idle_ids)}.")
    claims = 6  # columns; what is claimed stands in the first row of an algorithm alone
    filled: list[tuple[str, ...]] = []
    for row in cells:
        filled.append(row if row[0] else (*filled[-1][:claims], *row[claims:]))
    inner = (
        table("Table 1 of the paper: what is claimed, and the growth exponents measured here.", heads, filled),
        *(element("p", text, class_="note") for text in notes),
    )
    parts += [element("h2", "Claimed and measured rates", id="rates"), *inner]
    return element("section", *parts, aria_labelledby="rates")


def _about(detail: Detail) -> Markup:
    fine, coarse = detail
    seeds = (
        f"single seeds in {coarse}"
        if coarse
        else "single seeds are left out, since there are too many of them for one page"
    )
    lines = (
        "Means and standard errors are taken over seeds in every episode, before anything is left out. Then the "
        f"episodes are cut into stretches: means in {fine} equal ones, {seeds}, and finer ones are added at the start. "
        "Of each stretch a curve keeps the episode of its smallest and of its largest value, and of the run the "
        "first and the last, so no peak is lost and nothing is smoothed. Values in charts have seven digits.",
        "Bands are one standard error. Intervals are 95 % percentile bootstraps over runs. Paired differences compare "
        "runs that met the same instance and the same random numbers.",
        "A logarithmic axis has no place for zero or less: where a shown curve goes there, the axis is linear close to "
        "zero, and the chart says so. In the Pareto picture zero has a place of its own at the edge.",
        f"Made by flexdome {import_module('flexdome').__version__}. Charts: uPlot 1.6.32, MIT licence, within this "
        "file. The page loads nothing from anywhere.",
    )
    return element(
        "section",
        element("h2", "How this page is made", id="about"),
        *(element("p", text) for text in lines),
        aria_labelledby="about",
    )


def _data(spec: ExperimentSpec, results: Results, numbers: pl.DataFrame, curves: dict[str, Any]) -> dict[str, Any]:
    """What the script draws."""
    names = [learner.name for learner in spec.learners]
    styles = styles_for(names)
    metrics = dict.fromkeys(metric for place in curves.values() for metric in place)
    points = numbers.filter(pl.col("metric").is_in(["strong_regret", "strong_violation"]))
    pareto: dict[str, dict[str, Any]] = {}
    for row in points.iter_rows(named=True):
        short = row["metric"].removeprefix("strong_")
        pareto.setdefault(row["environment"], {}).setdefault(row["learner"], {})[short] = [
            row["mean"],
            row["se"] or 0.0,
        ]
    return {
        "name": spec.name,
        "episodes": spec.episodes,
        "learners": [
            {"name": name, "colour": styles[name].colour, "dashes": styles[name].dashes, "marker": styles[name].marker}
            for name in names
        ],
        "metrics": [[metric, label_of(metric)] for metric in metrics],
        "curves": curves,
        "pareto": pareto,
        "pairs": _pairs(results),
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
                    low, high = (pair.interval.low, pair.interval.high) if pair.interval else (None, None)
                    counts = (pair.lower, pair.equal, pair.higher)
                    rows.append([environment, metric, a, b, pair.mean, low, high, *counts])
    return rows


def _document(name: str, sections: Sequence[Markup], data: dict[str, Any], live: str) -> str:
    style = _asset("uplot.css") + _asset("page.css")
    scripts = [_asset("uplot.js"), _asset("page.js")]
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    asked = "'self'" if live else "'none'"
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"connect-src {asked}; script-src {allowed}"
    )
    head = joined(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", f"{name}: flexdome report"),
            element("style", Markup(style)),
        ]
    )
    bar = element(
        "header",
        element("a", "Skip to the results", href="#main", class_="skip"),
        element("a", "flexdome", href="#main", class_="brand", aria_label="flexdome, to the top"),
        element("button", "Theme: as the system", type="button", id="theme", hidden=True),
    )
    body = joined(
        [
            bar,
            element("main", *sections, id="main"),
            element("script", as_json(data), type="application/json", id="data"),
            *(element("script", Markup(text)) for text in scripts),
        ]
    )
    whole = element("html", element("head", head), "\n", element("body", body), lang="en", data_live=live or None)
    return f"<!doctype html>\n{whole}\n"


def _asset(name: str) -> str:
    return (files("flexdome.report") / "assets" / name).read_text(encoding="utf-8")


def _estimate(row: Mapping[str, Any]) -> Markup:
    return _span(row["mean"], row["low"], row["high"])


def _span(value: float | None, low: float | None, high: float | None) -> Markup:
    if value is None:
        return Markup("none")
    interval = "" if low is None or high is None else element("small", f"[{_number(low)}, {_number(high)}]")
    return joined([_number(value), interval])


def _number(value: float) -> str:
    """Four digits, with separators and a true minus sign."""
    if value == 0.0:
        return "0"
    size = abs(value)
    text = f"{value:,.0f}" if size >= 999.5 else f"{value:.4g}" if size >= 1e-3 else f"{value:.2e}"
    return text.replace("-", "\N{MINUS SIGN}")
