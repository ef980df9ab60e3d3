"""The parts of a page: what it is about, an experiment in words and tables, how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import polars as pl

from flexdome.analysis import Results, table1, unlike_the_paper
from flexdome.analysis.statistics import of_few_runs
from flexdome.analysis.verdicts import PAPER_EPISODES, PAPER_SEEDS
from flexdome.errors import FlexDOMEError
from flexdome.experiments import ExperimentSpec, RunSpec, Store, experiment_names, named_experiment
from flexdome.experiments.code import said_code
from flexdome.figures import table_cells
from flexdome.report.again import CURVE_COMMAND, command, curve_toml
from flexdome.report.common import MOST_NAMES, beaten_by, listed
from flexdome.report.markup import Markup, element, joined, table
from flexdome.report.run_curves import Detail
from flexdome.report.sentences import ELSEWHERE, notices

__all__ = ["SHOWN", "about", "overview", "section"]

SHOWN = {
    "strong_regret": "Strong regret",
    "strong_violation": "Strong violation",
    "late_violation": "Strong violation after the first tenth",
    "last_gap": "Last gap",
    "last_violation": "Last violation",
}
MARKED = {
    "holds": "as the paper says",
    "parts": "unlike the paper",
    "open": "not settled",
    ELSEWHERE: "not the paper's setting",
}


def section(
    k: int, spec: ExperimentSpec, results: Results, numbers: pl.DataFrame, said: Sequence[tuple[str, str]], store: Store
) -> Markup:
    """The k-th experiment: what to notice, the paper's statements, a place for the charts, tables, provenance."""
    seeds = f"{len(spec.seeds)} seed{'s' * (len(spec.seeds) > 1)}"
    runs = sum(1 for _ in spec.runs())
    facts = f"{spec.episodes:,} episodes, {seeds}, {runs - len(results.missing)} of {runs} runs, id {spec.id}"
    parts: list[object] = [
        element("h2", spec.name, id=f"h{k}"),
        element("p", spec.description, class_="lead") if spec.description else "",
        element("p", facts, class_="facts"),
        element("h3", "What to notice"),
        element("ul", *(element("li", text) for text in notices(results, store))),
    ]
    if said:
        setting = unlike_the_paper(results)
        held = sum(mark == "holds" for mark, _ in said)
        judged = f"{held} of {len(said)} hold here. What does not hold comes first."
        if setting is not None:
            judged = f"These runs have {setting}: what they show, below, neither confirms nor refutes the paper."
        rows = (element("li", element("b", MARKED[mark], class_=f"mark {mark}"), " ", text) for mark, text in said)
        parts += [
            element("h3", "The paper's statements and this measurement"),
            element("p", judged),
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
        _pareto(results, numbers),
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
    few = of_few_runs(numbers["n"].to_list())
    return joined([table(caption, head, rows, named=2), *([element("p", few, class_="note")] if few else [])])


def _pareto(results: Results, numbers: pl.DataFrame) -> Markup:
    wide = numbers.pivot("metric", index=["environment", "learner", "n"], values="mean")
    beaten = beaten_by(results.finals)
    rows = []
    for row in wide.iter_rows(named=True):
        others = beaten[row["environment"], row["learner"]]
        place = f"beaten by {listed(others, MOST_NAMES)}" if others else "beaten by nobody"
        points = (_number(row["strong_regret"]), _number(row["strong_violation"]))
        rows.append((row["learner"], row["environment"], str(row["n"]), *points, place))
    head = ("Learner", "Environment", "Runs", "Strong regret", "Strong violation", "Place")
    caption = (
        "Mean strong regret and violation. A learner is beaten by one that has less of one and no more of the other, "
        "over the runs that both have."
    )
    return table(caption, head, rows, named=2)


def _behind(spec: ExperimentSpec, results: Results, store: Store) -> Markup:
    there = set(results.finals["run"])
    groups: dict[tuple[str, str], list[RunSpec]] = {}
    for run in spec.runs():
        if run.id in there:
            groups.setdefault((run.environment.name, run.learner.name), []).append(run)
    blocks = []
    line = command(spec)
    if line is not None:
        said = "All curves of this experiment come again, in the directory of the results, with"
        blocks.append(element("p", said, " ", element("code", line)))
    blocks.append(element("p", "Runs that are there are not computed again; in an empty directory they are."))
    for place in spec.environments:
        for learner in spec.learners:
            runs = groups.get((place.name, learner.name), [])
            if not runs:
                continue
            markers = [store.marker(run) for run in runs]
            versions, codes = ({said(marker.get(key)) for marker in markers} for key, said in SAID.items())
            instance = f"instance {spec.instance} for all" if spec.instance is not None else "seed k on instance k"
            options = ", ".join(f"{key} = {value}" for key, value in learner.options.items()) or "all at their defaults"
            told = learner.problem.model_dump(mode="json", exclude_defaults=True)
            facts = {
                "Learner": learner.id,
                "Code": " / ".join(sorted(codes)),
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
    said = "This curve alone: save the lines below as curve.toml in the directory of the results, and there"
    run = element("code", CURVE_COMMAND)
    return [element("p", said, " ", run), element("pre", element("code", text), tabindex="0")]


def _versions(found: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items()) if isinstance(found, Mapping) else "not said"


def _code(found: Any) -> str:
    """Version of the learner, and of one from elsewhere package and fingerprint of its sources."""
    return said_code(found) if isinstance(found, Mapping) else "not said"


SAID = {"versions": _versions, "code": _code}  # of a marker


def overview(
    store: Store,
    begun: Sequence[tuple[ExperimentSpec, Results]],
    said: Sequence[Sequence[tuple[str, str]]],
    idle: Sequence[str],
    rates: bool = True,
) -> Markup:
    """What is on the page, and the rates that are claimed and measured."""
    rows = []
    for k, (spec, results) in enumerate(begun):
        marks = [mark for mark, _ in said[k]]
        runs = sum(1 for _ in spec.runs())
        link = element("a", spec.name, href=f"#experiment-{k}")
        paper = f"{marks.count('holds')} of {len(marks)}" if marks else "none to check"
        paper = MARKED[ELSEWHERE] if ELSEWHERE in marks else paper
        rows.append((link, spec.description, f"{runs - len(results.missing)} of {runs}", f"{spec.episodes:,}", paper))
    done = len({run for _, results in begun for run in results.finals["run"]})
    counted = f"{len(begun)} experiment{'s' * (len(begun) > 1)}, {done:,} run{'s' * (done != 1)}"
    head = ("Experiment", "What it is", "Runs", "Episodes", "Paper's statements that hold")
    parts: list[object] = [
        element("h1", "Results", id="results"),
        element("p", f"From the directory {store.path.resolve().name}: {counted}.", class_="facts"),
        element(
            "p",
            "Strong regret and strong violation count every episode that is worse than the optimum, or unsafe, and let "
            "no other episode make up for it. All numbers are exact values of the policies that were played.",
            class_="lead",
        ),
        *(element("p", text, class_="lead warning") for text in _shortened(begun)),
        table("The experiments on this page.", head, rows, named=2),
    ]
    if idle:
        parts.append(element("p", f"Asked for, with no complete run yet: {', '.join(idle)}."))
    if rates:
        parts += [element("h2", "Claimed and measured rates", id="rates"), *_rates(begun)]
    return element("section", *parts, aria_labelledby="results")


def _rates(begun: Sequence[tuple[ExperimentSpec, Results]]) -> list[Markup]:
    """Table 1 of the paper."""
    chosen = [results for spec, results in begun if spec.name.startswith("table1")] or [r for _, r in begun]
    measured = table1(chosen)
    idle_ids = measured.filter(pl.col("part") != "paper", pl.col("status") == "not run")["id"].to_list()
    heads, cells, notes = table_cells(measured.filter(~pl.col("id").is_in(idle_ids)))
    if idle_ids:
        names = measured.filter(pl.col("id").is_in(idle_ids))["algorithm"].to_list()
        notes.append(f"Known to flexdome, not in the paper's table, and not run here: {', '.join(names)}.")
    claims = 6  # columns; what is claimed stands in the first row of an algorithm alone
    filled: list[tuple[str, ...]] = []
    for row in cells:
        filled.append(row if row[0] else (*filled[-1][:claims], *row[claims:]))
    return [
        table("Table 1 of the paper: what is claimed, and the growth exponents measured here.", heads, filled),
        *(element("p", text, class_="note") for text in notes),
    ]


def _shortened(begun: Sequence[tuple[ExperimentSpec, Results]]) -> list[str]:
    """Which of our experiments about the paper have fewer episodes or seeds here, if any."""
    said: dict[str, list[str]] = {}
    for spec, results in begun:
        setting = unlike_the_paper(results)
        if setting is None or spec.name not in experiment_names():
            continue
        ours = named_experiment(spec.name)
        if spec.episodes < ours.episodes == PAPER_EPISODES or len(spec.seeds) < len(ours.seeds) == PAPER_SEEDS:
            said.setdefault(setting, []).append(spec.name)
    return [
        f"Quick look, not the paper: {listed(names, MOST_NAMES)} {'has' if len(names) == 1 else 'have'} {setting}. It "
        "shows that everything works, and judges nothing that the paper says."
        for setting, names in said.items()
    ]


def about(detail: Detail) -> Markup:
    """How curves were thinned, what bands and intervals are, and what made the page."""
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
