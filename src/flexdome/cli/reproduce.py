"""One command for every figure and table of the paper, and for what they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flexdome.cli.experiments import Address, Count, Workers

if TYPE_CHECKING:
    from flexdome.analysis import Results
    from flexdome.experiments import ExperimentSpec, Store

__all__ = ["reproduce"]

QUICK: dict[str, Any] = {"episodes": 4_000, "seeds": (0, 1, 2)}
PRODUCTS = {
    "figure-1": ("stochastic", "fixed", "ablations"),
    "figure-1-theory": ("stochastic-theory", "fixed-theory"),
    "figure-1-wide": ("stochastic-wide", "fixed-wide", "ablations-wide"),
    "figure-1-elsewhere": ("independent", "conflict"),
    "figure-2": ("sensitivity-bonus", "sensitivity-margin"),
    "table-1": ("table1",),
}
TITLES = {
    "stochastic": "Stochastic thresholds",
    "fixed": "Fixed thresholds",
    "ablations": "Ablations, stochastic thresholds",
    "independent": "Reward and utility independent",
    "conflict": "Reward and utility partly opposed",
}
STATED = r"FlexDOME as the paper states it ($c_b = 10^{-3}$, $c_\epsilon = 10^{-5}$)"
NOTES = {
    "figure-1": f"{STATED}; peers in practical tuning",
    "figure-1-theory": f"{STATED}; peers in their theory's tuning",
    "figure-1-wide": r"FlexDOME with $c_\epsilon = 5 \times 10^{-5}$; peers in practical tuning",
    "figure-1-elsewhere": f"{STATED} unless said otherwise; peers in practical tuning",
}
MARKS = {True: "holds", False: "does not hold", None: "open"}
FLAT = 1  # the claim of the title: strong violation is near-constant
PROGRAMS = "table1-programs"  # learners that solve a program, and our own: on demand
SUITE, LONG, SLOW = ("strong", "strong-rover", "strong-dial"), "strong-long", "strong-programs"


def reproduce(
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: results)")] = None,
    quick: bool = False,
    figure: tuple[Literal[1, 2], ...] = (),
    table: tuple[Literal[1], ...] = (),
    suite: tuple[Literal["strong"], ...] = (),
    all: bool = False,
    seeds: Count = None,
    one_instance: bool = False,
    workers: Workers = None,
    cluster: Address = None,
) -> None:
    """Run the paper's experiments and write its figures and Table 1 (Zuo et al. 2026), with what they depend on.

    The setting as the paper states it, the setting in which its claim holds, and the same comparison where reward and
    utility are not each other's mirror. Where the paper's picture is not reproduced, one sentence says so.

    For example:
      flexdome reproduce
      flexdome reproduce --quick
      flexdome reproduce --figure 2 --workers 4
      flexdome reproduce --table 1 --all
      flexdome reproduce --suite strong --seeds 5

    Args:
        out: directory of all results (for a quick look results/quick); the same command on it continues
        quick: 4,000 episodes and 3 seeds: a minute, to see that it works
        figure: only these figures
        table: only these tables
        suite: the strong suite instead: many learners on every family, which takes hours
        all: also run, for Table 1, our learners and those that solve a program, for the suite those of slow programs
        seeds: only the first N seeds
        one_instance: all runs on instance 0 instead of run seed k on instance k
        workers: processes on this machine; 0: none but this one
        cluster: address of a Dask scheduler, instead of processes here
    """
    import time

    from flexdome.analysis import aggregate
    from flexdome.cli.experiments import compute, warn
    from flexdome.cli.progress import clock
    from flexdome.cmdp.archive import write_whole
    from flexdome.experiments import Store, named_experiment
    from flexdome.report import write_report

    began = time.monotonic()
    out = out or Path("results/quick" if quick else "results")
    products = _products(figure, table)
    changes: dict[str, Any] = {**(QUICK if quick else {}), **({"instance": 0} if one_instance else {})}
    names = [*SUITE, LONG, SLOW] if suite else [name for product in products for name in PRODUCTS[product]]
    if "table-1" in products and not suite:
        names.append(PROGRAMS)
    specs = {name: _changed(named_experiment(name), changes, seeds) for name in names}
    store = Store(out)
    wanted = {name: spec for name, spec in specs.items() if all or name not in (PROGRAMS, SLOW)}
    compute(list(wanted.values()), store, workers, cluster)
    if suite:
        from flexdome.cli.strong_suite import write_suite

        results = {name: aggregate(store, spec, skip_missing=name not in wanted) for name, spec in specs.items()}
        parts = [result for name, result in results.items() if name != LONG]
        print(*write_suite(out / "figures" / "suite-strong", parts, [results[LONG]]), sep="\n")
        print(f"one page with all of it: {write_report(store, skipped=warn)}")
        return
    title = "Quick look (not the paper): what" if quick else "What"
    title = f"# {title} holds of the paper's statements, and what does not{' (instance 0 alone)' * one_instance}"
    target = out / "statements.md"
    sections = _sections(target, title)
    for product in products:
        sections[product], said = _make(product, specs, store, out / "figures")
        print(*said, "", sep="\n")
    lines = [line for product in PRODUCTS for line in sections.get(product, ())]
    write_whole(target, "\n".join([title, "", *lines]).encode())
    page = write_report(store, skipped=warn)
    print(f"figures with their data: {out / 'figures'}; every statement: {target}; one page with all of it: {page}")
    print(f"({clock(time.monotonic() - began)})")


def _changed(spec: ExperimentSpec, changes: Mapping[str, Any], seeds: int | None) -> ExperimentSpec:
    changed = spec.changed(**changes)
    return changed if seeds is None else changed.changed(seeds=changed.seeds[:seeds])


def _products(figure: Sequence[int], table: Sequence[int]) -> list[str]:
    """The names in ``PRODUCTS`` that were asked for; all, if nothing was."""
    if not figure and not table:
        return list(PRODUCTS)
    wanted = [f"figure-{k}" for k in figure] + [f"table-{k}" for k in table]
    return [name for name in PRODUCTS if any(name == one or name.startswith(f"{one}-") for one in wanted)]


def _sections(path: Path, title: str) -> dict[str, list[str]]:
    """What an earlier command said about the products, by product; nothing if it was about another setting."""
    if not path.is_file():
        return {}
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    sections: dict[str, list[str]] = {}
    product = ""
    for line in lines if first == title else ():
        if line.startswith("## "):
            product = line.removeprefix("## ").partition(":")[0]
        if product:
            sections.setdefault(product, []).append(line)
    return sections


Lines = tuple[list[str], list[str]]  # for the file, and for the terminal


def _make(product: str, specs: Mapping[str, ExperimentSpec], store: Store, folder: Path) -> Lines:
    """Write one figure or table with its data; what there is to say about it comes back."""
    from flexdome.analysis import aggregate

    names = [*PRODUCTS[product], *([PROGRAMS] if product == "table-1" else [])]
    results = [aggregate(store, specs[name], skip_missing=name == PROGRAMS) for name in names]
    if product == "table-1":
        return _table1(folder / product, results)
    if product == "figure-2":
        return _figure2(folder / product, *results)
    return _figure1(folder / product, results)


def _caveat(results: Results) -> str:
    """What a figure says below its panels where it is not the paper's setting."""
    from flexdome.analysis import unlike_the_paper

    setting = unlike_the_paper(results)
    return "" if setting is None else f"\nNot the paper's setting: {setting}."


def _figure1(stem: Path, results: Sequence[Results]) -> Lines:
    import polars as pl

    from flexdome.analysis import unlike_the_paper, verdicts
    from flexdome.figures import Row, curves_figure, save

    rows = [Row(TITLES[result.experiment.name.partition("-")[0]], result.curves) for result in results]
    seeds = len(results[0].experiment.seeds)
    note = f"{NOTES[stem.name]}. Mean and standard error over {seeds} seeds.{_caveat(results[0])}"
    data = pl.concat(r.curves.select(pl.lit(r.experiment.name).alias("experiment"), pl.all()) for r in results)
    save(curves_figure(rows, note=note), stem, data=data)
    lines, said = [], [stem.name]
    for result in results:
        found = verdicts(result)
        lines += [f"## {stem.name}: {result.experiment.description}", ""]
        lines += [f"- **{MARKS[verdict.holds]}**: {verdict.text}" for verdict in found] + [""]
        held = sum(verdict.holds is True for verdict in found)
        judged = f"{held} of {len(found)} statements of the paper hold"
        if unlike_the_paper(result) is not None:
            judged += ", which judges nothing: this is not the paper's setting"
        said.append(f"  {result.experiment.name}: {judged}")
        said += [f"    {MARKS[verdict.holds]}: {verdict.text}" for verdict in found if verdict.claim == FLAT]
    return lines, said


def _figure2(stem: Path, bonus: Results, margin: Results) -> Lines:
    import polars as pl

    from flexdome.analysis import sensitivity
    from flexdome.figures import save, sensitivity_figure

    frames = {"bonus_scale": sensitivity(bonus, "bonus_scale"), "margin_scale": sensitivity(margin, "margin_scale")}
    data = pl.concat(frame.select(pl.lit(name).alias("option"), pl.all()) for name, frame in frames.items())
    figure = sensitivity_figure(frames["bonus_scale"], frames["margin_scale"], note=_caveat(bonus).strip())
    save(figure, stem, data=data)
    title = f"{stem.name}: sensitivity to the scales, final values at T = {bonus.experiment.episodes:,}"
    lines = ["| option | value | strong regret | strong violation |", "|---|---|---|---|"]
    for name, frame in frames.items():
        for (scale,), group in frame.group_by(["scale"], maintain_order=True):
            cells = {
                row["metric"]: f"{row['mean']:,.0f} ± {row['se'] or 0.0:,.0f}" for row in group.iter_rows(named=True)
            }
            lines.append(f"| {name} | {scale:g} | {cells['strong_regret']} | {cells['strong_violation']} |")
    return [f"## {title}", "", *lines, ""], [title, *lines]


def _table1(stem: Path, results: Sequence[Results]) -> Lines:
    from flexdome.analysis import table1
    from flexdome.cmdp.archive import write_whole
    from flexdome.figures import save, table_figure, table_markdown

    table = table1(results)
    save(table_figure(table), stem, data=table)
    text = table_markdown(table)
    write_whole(stem.with_name(f"{stem.name}.md"), text.encode())
    spec = results[0].experiment
    where = ", ".join(environment.name for environment in spec.environments)
    title = f"{stem.name}: claimed rates beside growth exponents measured on {where}, T = {spec.episodes:,}"
    return [f"## {title}", "", *text.splitlines(), ""], [title, *text.splitlines()]
