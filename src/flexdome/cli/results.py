"""Tables and figures of results, for the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from flexdome.analysis import PairedDifference, Results, paired_difference, ranked_settings, summary
from flexdome.cli.experiments import count
from flexdome.cli.tables import plain_table, say, show

__all__ = ["COLUMNS", "put", "show_differences", "show_ranking", "show_summary", "write_comparison", "write_sweep"]

LABELS = {
    "strong_regret": ("strong regret", 0),
    "strong_violation": ("strong violation", 1),
    "late_violation": ("after the first tenth", 1),
    "last_gap": ("last gap", 3),
    "last_violation": ("last violation", 3),
    "weak_regret": ("weak regret", 0),
    "weak_violation": ("weak violation", 1),
    "late_regret": ("regret after the first tenth", 0),
    "crossings": ("crossings", 1),
    "wobble": ("wobble", 4),
}
COLUMNS = ("strong_regret", "strong_violation", "late_violation", "last_gap", "last_violation")
ESCAPED = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def text(mean: float, error: float | None, digits: int) -> str:
    """Mean ± standard error."""
    return f"{mean:,.{digits}f}" + ("" if error is None else f" ± {error:,.{digits}f}")


def show_summary(results: Results, metrics: Sequence[str] = COLUMNS, format: str = "text") -> None:
    """Print what became of each learner on each environment, and of how many runs where some are missing."""
    spec = results.experiment
    title = f"{spec.name}: {spec.episodes:,} episodes, {count(len(spec.seeds), 'seed')}, mean ± standard error"
    if results.missing:
        title += f"; {count(len(results.missing), 'run')} {'is' if len(results.missing) == 1 else 'are'} missing"
    found = summary(results.finals, metrics=metrics)
    if format == "csv":
        sys.stdout.write(found.write_csv())
        return
    some = found["n"].min() != len(spec.seeds)
    rows = []
    for (environment, learner), group in found.group_by("environment", "learner", maintain_order=True):
        by = {row["metric"]: row for row in group.iter_rows(named=True)}
        cells = (text(by[name]["mean"], by[name]["se"], LABELS[name][1]) for name in metrics)
        rows.append((str(environment), str(learner), *([str(group["n"][0])] if some else ()), *cells))
    labels = (LABELS[name][0] for name in metrics)
    put(title, ("environment", "learner", *(["runs"] if some else ()), *labels), rows, format, keys=2)


def show_differences(results: Results, against: str, metric: str, format: str = "text") -> None:
    """Print each learner's metric less that of ``against``, on common random numbers; CSV has a column a number."""
    label, digits = LABELS[metric]
    found = list(_differences(results, against, metric))
    if format == "csv":
        names = ["environment", "learner", "baseline", "metric", "episodes", "n", "mean", "se", "low", "high"]
        cells = [
            (place, pair.a, against, metric, results.experiment.episodes, pair.n, pair.mean, pair.error)
            + ((pair.interval.low, pair.interval.high) if pair.interval else (None, None))
            + (pair.lower, pair.equal, pair.higher)
            for place, pair in found
        ]
        frame = pl.DataFrame(cells, schema=[*names, "lower", "equal", "higher"], orient="row", infer_schema_length=None)
        sys.stdout.write(frame.write_csv())
        return
    some = any(pair.n != len(results.experiment.seeds) for _, pair in found)
    rows = []
    for place, pair in found:
        interval = pair.interval
        span = "-" if interval is None else f"{interval.low:,.{digits}f} to {interval.high:,.{digits}f}"
        counts = (str(number) for number in (*([pair.n] if some else ()), pair.lower, pair.equal, pair.higher))
        rows.append((place, pair.a, text(pair.mean, pair.error, digits), span, *counts))
    of = "" if some else f" of {count(len(results.experiment.seeds), 'pair')}"
    title = (
        f"{label} after {results.experiment.episodes:,} episodes, less that of {against} in the same run: "
        f"mean ± standard error{of} and 95 % interval"
    )
    head = ("environment", "learner", "difference", "interval", *(["pairs"] if some else ()))
    put(title, (*head, "lower", "equal", "higher"), rows, format, keys=2)


def _differences(results: Results, against: str, metric: str) -> Iterator[tuple[str, PairedDifference]]:
    """The environment, and the difference of every learner there that has runs in common with ``against``."""
    keys = ("environment", "learner", "instance", "seed")
    seeds: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for environment, learner, *which in results.finals.select(keys).iter_rows():
        seeds.setdefault((environment, learner), set()).add((which[0], which[1]))
    for place in (environment.name for environment in results.experiment.environments):
        for name in (learner.name for learner in results.experiment.learners):
            if name != against and seeds.get((place, name), set()) & seeds.get((place, against), set()):
                yield place, paired_difference(results.finals, metric, name, against, place)


def show_ranking(results: Results, score: str, over: str) -> pl.DataFrame:
    """Print the settings of a sweep, best first; the table comes back."""
    found = ranked_settings(results.finals, score, over)
    table = plain_table(f"Settings, best first: {score}, {over} over runs", "setting", "score", "regret", "violation")
    for row in found.iter_rows(named=True):
        numbers = (row["score"], row["strong_regret"], row["strong_violation"])
        table.add_row(row["learner"], *(f"{number:,.1f}" for number in numbers))
    show(table)
    return found


def write_comparison(results: Results, stem: Path, metrics: Sequence[str], log: str) -> list[Path]:
    """Write the figure of an experiment, rows are environments, and the data behind it; where comes back."""
    from flexdome.figures import comparison_figure, save

    figure = comparison_figure(results, metrics=metrics, log=log)
    return list(save(figure, stem, data=results.curves))


def write_sweep(results: Results, table: pl.DataFrame, score: str, over: str, stem: Path) -> list[Path]:
    """Write what each option of a sweep does to the score, and the table behind it; where comes back."""
    from flexdome.figures import save, sweep_figure

    options = {learner.name: learner.options for learner in results.experiment.learners}
    if not any(options.values()):
        return []
    return list(save(sweep_figure(table, options, f"{score}, {over} over runs"), stem, data=table))


def put(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], format: str = "text", keys: int = 1) -> None:
    """Print a table for people, whose first ``keys`` columns name a row, or as LaTeX or Markdown."""
    if format == "text":
        table = plain_table("", *head)
        for row in rows:
            table.add_row(*row)
        say(title)  # by itself: a table folds its own title to its width
        show(table, keys)
    elif format == "markdown":
        print(f"{title}\n")
        cells = [[cell.replace("|", r"\|") for cell in row] for row in (head, ["---"] * len(head), *rows)]
        print("\n".join(f"| {' | '.join(row)} |" for row in cells))
    else:
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (head, *rows)]
        columns = "ll" + "r" * (len(head) - 2)
        print("\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\hline", lines[0], r"\hline", *lines[1:]]))
        print("\n".join([r"\hline", r"\end{tabular}", f"% {title}"]))


def _latex(cell: str) -> str:
    escaped = "".join(ESCAPED.get(character, character) for character in cell).replace("±", r"$\pm$")
    return f"$-${escaped[1:]}" if escaped.startswith("-") and len(escaped) > 1 else escaped
