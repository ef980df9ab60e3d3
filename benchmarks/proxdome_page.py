"""The tables of docs/proxdome.md: ProxDOME, from a safe policy and without one, on seeds that nobody had looked at.

    flexdome run strong-fresh --out DIR; flexdome run strong-unseen --out DIR
    python -m benchmarks.proxdome_page DIR

The first table is of the families that ProxDOME was made on (T = 80,000), the second of those that were made to break
it (T = 40,000), twenty seeds each. Regret and violation are the strong ones: a
mean, and the worst run in brackets. *Late* is the worst violation after the first tenth of a run, and in how many runs
it is above 0.01. Ratios are of mean regrets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from flexdome.analysis import aggregate
from flexdome.experiments import Store, named_experiment

PLAIN, SAFE, OTHER = "ProxDOME", "ProxDOME, from a safe policy", "FlexDOME, safe"
LATE = 0.01
HEAD = (
    "environment", "runs", "ProxDOME, regret (worst) / violation (worst)", "late (runs)", "FlexDOME, safe", "ratio",
    "from a safe policy, regret (worst) / violation (worst)", "unsafe runs", "ratio",
)  # fmt: skip


def short(value: float) -> str:
    """A number with three digits that count, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}" if value else "0"


def pair(frame: pl.DataFrame) -> str:
    """Regret (worst) / violation (worst)."""
    one, other = frame["strong_regret"].to_numpy(), frame["strong_violation"].to_numpy()
    return f"{short(one.mean())} ({short(one.max())}) / {short(other.mean())} ({short(other.max())})"


def rows(finals: pl.DataFrame) -> list[list[str]]:
    """The cells of one table, and what they say all together at the end."""
    table, ratios, beside, late_runs, unsafe_runs, runs = [], [], [], 0, 0, 0
    for (name,), here in finals.group_by(["environment"], maintain_order=True):
        plain, safe, other = (here.filter(pl.col("learner") == learner) for learner in (PLAIN, SAFE, OTHER))
        if not plain.height:
            continue
        late = plain["late_violation"].to_numpy()
        runs, late_runs = runs + plain.height, late_runs + int((late > LATE).sum())
        regret = plain["strong_regret"].mean()
        cells = [f"`{name}`", str(plain.height), pair(plain), f"{short(late.max())} ({int((late > LATE).sum())})"]
        if other.height:
            ratios.append(regret / other["strong_regret"].mean())
            values = [short(other[f"strong_{metric}"].mean()) for metric in ("regret", "violation")]
            cells += [" / ".join(values), f"{ratios[-1]:.2g}"]
        else:
            cells += ["", ""]
        if safe.height:
            both = safe.join(plain, on="seed", suffix="_plain")
            beside.append(both["strong_regret"].mean() / both["strong_regret_plain"].mean())
            unsafe = int((safe["strong_violation"].to_numpy() > 0.0).sum())
            unsafe_runs += unsafe
            cells += [pair(safe), f"{unsafe} of {safe.height}", f"{beside[-1]:.2f}"]
        else:
            cells += ["", "", ""]
        table.append(cells)
    said = f"{runs} runs, {late_runs} late; unsafe from a safe policy: {unsafe_runs}"
    for what, numbers in (("FlexDOME's regret", ratios), ("its own from a safe policy", beside)):
        if numbers:
            said += f"; against {what}: median {np.median(numbers):.2f}, {min(numbers):.2g} to {max(numbers):.2g}"
    return [*table, [said]]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="directory of the runs; what is missing is left out")
    store = Store(parser.parse_args().results)
    for name in ("strong-fresh", "strong-unseen"):
        spec = named_experiment(name)
        *table, said = rows(aggregate(store, spec, skip_missing=True).finals)
        print(f"{name}, T = {spec.episodes:,}\n\n| {' | '.join(HEAD)} |\n|---|" + "---:|" * (len(HEAD) - 1))
        print(*(f"| {' | '.join(cells)} |" for cells in table), "", said[0], "", sep="\n")


if __name__ == "__main__":
    main()
