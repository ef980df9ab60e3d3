"""Certificates and the monitor on ten families: whether they are right, how tight, how soon, and what they miss.

    python -m benchmarks.certificates                 ten families, 1,000 runs each: the tables of docs/certificates.md
    python -m benchmarks.certificates --runs 50 --families paper-v1 media-v1

Instances have seed 0, every run a seed of its own. Printed are three tables in Markdown; ``--out`` receives the figure
with its data. FlexDOME is the one whose margin covers its bias (``margin_scale=5e-5, unvisited="optimistic"``); both
learners have T = 20,000.

- Coverage: in how many runs of 1,000 episodes *any* bound was wrong at *any* time (bounds are the running best, so the
  last one is wrong if one ever was: no stopping rule can do worse), for each method, at delta = 0.05 and 0.2, of
  ProxDOME's policy. Those episodes of methods (b) and (c) are played by half of it and half of the uniform policy.
- Tightness: the mean width of a utility's interval in per cent of H.
- Episodes until certified: median over 20 runs until every lower bound is above its threshold.
- Power: median over a fifth of the runs until the monitor's alarm, where the threshold is 1, 5 and 10 % of H above the
  utility of ProxDOME's policy, and how often there is an alarm within 20,000 episodes where it is met exactly.
- Change: the same until the alarm of change, where after 5,000 episodes of that policy half of what it does is what
  earns the largest reward, 20 runs.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import flexdome as fd
from benchmarks.timing import machine
from flexdome.certificates import LowerSequence, Recorded
from flexdome.figures.style import TWO_COLUMNS, LineStyle, drawing, legend_above, new_figure, save, styles_for

FAMILIES = (
    *("paper-v1", "independent-v1", "multi-v1", "tight-v1", "bernoulli-v1", "rare-costs-v1"),
    *("river-v1", "grid-v1", "media-v1", "inventory-v1"),
)
METHODS = ("episodes", "reweighted", "model")
DELTAS = (0.05, 0.2)
SHORT, LONG, MOST = 1_000, 10_000, 100_000  # episodes
VIOLATIONS = (0.01, 0.05, 0.1)  # of H
ALARM_WITHIN = 20_000
CHANGE_AT = 5_000
FEW = 20
BLOCK = 50  # runs whose episodes are played at once


class Subject(NamedTuple):
    """A family with thresholds revealed, and policies to look at."""

    cmdp: fd.CMDP
    problem: fd.Problem
    policies: dict[str, np.ndarray]


def subject(family: str, episodes: int = 20_000) -> Subject:
    """Instance 0, its optimum, and what two learners ended with."""
    cmdp = fd.make_cmdp(family)
    problem = cmdp.problem(reveal=("thresholds",))
    policies = {"optimum": fd.solve(cmdp).policy}
    for name, options in (("flexdome", {"margin_scale": 5e-5, "unvisited": "optimistic"}), ("proxdome", {})):
        learner = fd.make_learner(name, cmdp.problem(), episodes=episodes, **options)
        fd.simulate(learner, cmdp, evaluate_every=episodes)
        policies[name] = np.array(learner.policy)
    return Subject(cmdp, problem, policies)


def part(log: Recorded, first: int, count: int) -> Recorded:
    """``count`` episodes of a log."""
    at = slice(first, first + count)
    return Recorded(log.problem, log.states[at], log.actions[at], log.observed[at], log.thresholds[at])


def is_wrong(certificate: Any, truth: Any, alpha: np.ndarray) -> bool:
    """Whether any bound is."""
    low, high = certificate.value
    pairs = zip(certificate.verdicts, alpha, strict=True)
    return (
        not low <= truth.value <= high
        or bool((certificate.lower > truth.utilities).any())
        or bool((certificate.upper < truth.utilities).any())
        or any(not verdict.threshold_lower <= a <= verdict.threshold_upper for verdict, a in pairs)
    )


def coverage(family: str, one: Subject, runs: int) -> list[dict[str, Any]]:
    """One row for each method and delta: runs that were wrong, and the mean width."""
    cmdp, pi = one.cmdp, one.policies["proxdome"]
    other = 0.5 * pi + 0.5 / cmdp.actions
    H, truth = cmdp.horizon, fd.evaluate(cmdp, pi)
    rows: list[dict[str, Any]] = []
    problems: dict[str, tuple[fd.Problem, dict[str, Any]]] = {"": (one.problem, {})}
    if not cmdp.problem().thresholds_known:
        problems[", sampled thresholds"] = (cmdp.problem(), {"threshold_range": (0.0, float(cmdp.horizon))})
    for label, (problem, declared) in problems.items():
        for method in METHODS:
            player, by = (pi, None) if method == "episodes" else (other, other if method == "reweighted" else None)
            options = {"played_by": by, "method": method, **declared}
            wrong, width = dict.fromkeys(DELTAS, 0), dict.fromkeys(DELTAS, 0.0)
            for k in range(runs):
                if k % BLOCK == 0:
                    log = fd.play(player, cmdp, BLOCK * SHORT, seed=7, first=1 + k * SHORT, problem=problem)
                for delta in DELTAS:
                    certificate = fd.certify(pi, problem, part(log, k % BLOCK * SHORT, SHORT), delta, **options)
                    wrong[delta] += is_wrong(certificate, truth, cmdp.alpha)
                    width[delta] += float((certificate.upper - certificate.lower).mean()) / runs / H
            log = fd.play(player, cmdp, FEW * LONG, seed=8, problem=problem)
            for delta in DELTAS:
                wide = [fd.certify(pi, problem, part(log, k * LONG, LONG), delta, **options) for k in range(FEW)]
                rows.append(
                    {
                        "family": family + label,
                        "method": method,
                        "delta": delta,
                        "runs": runs,
                        "wrong": wrong[delta] / runs,
                        "width": width[delta],
                        "width_long": float(np.mean([(c.upper - c.lower).mean() for c in wide])) / H,
                    }
                )
    return rows


def until_certified(family: str, one: Subject, delta: float = 0.05) -> list[dict[str, Any]]:
    """One row for each policy: its least slack, and the median of the episodes until all is certified."""
    H, m, rows = one.cmdp.horizon, one.cmdp.constraints, []
    for name, pi in one.policies.items():
        slack = float((fd.evaluate(one.cmdp, pi).utilities - one.cmdp.alpha).min())
        needed = []
        for seed in range(FEW if slack > 1e-6 * H else 0):
            totals = fd.play(pi, one.cmdp, MOST, seed=100 + seed, problem=one.problem).observed[:, 1:].mean(axis=2)
            last = 0
            for i in range(m):
                target = float(one.cmdp.alpha[i]) / H
                path = LowerSequence(delta / (2 * (1 + m)), also=[target]).path(totals[:, i])
                last = max(last, int(np.searchsorted(path, target)) + 1)
            needed.append(last)
        count = float(np.median(needed)) if needed else math.inf
        rows.append(
            {"family": family, "policy": name, "slack": slack / H, "episodes": count if count <= MOST else math.inf}
        )
    return rows


def power(family: str, one: Subject, runs: int, delta: float = 0.05) -> list[dict[str, Any]]:
    """One row for each violation: the median of the episodes until the alarm, and how often there was one."""
    H, m = one.cmdp.horizon, one.cmdp.constraints
    pi = one.policies["proxdome"]
    unit = float(fd.evaluate(one.cmdp, pi).utilities[0]) / H
    when: dict[float, list[int]] = {violation: [] for violation in (0.0, *VIOLATIONS)}
    for seed in range(runs):
        log = fd.play(pi, one.cmdp, ALARM_WITHIN, seed=10_000 + seed, problem=one.problem)
        missing = 1.0 - log.observed[:, 1].mean(axis=1)
        for violation, times in when.items():
            target = 1.0 - min(unit + violation, 1.0)
            path = LowerSequence(delta / 2 / m, also=[target]).path(missing)
            times.append(int(np.searchsorted(path, target)) + 1 if target > 0.0 else ALARM_WITHIN + 1)
    rows = []
    for violation, times in when.items():
        middle = float(np.median(times))
        rows.append(
            {
                "family": family,
                "violation": violation if unit + violation < 1.0 else math.nan,
                "runs": runs,
                "alarms": float((np.array(times) <= ALARM_WITHIN).mean()),
                "episodes": middle if middle <= ALARM_WITHIN else math.inf,
                "times": times,
            }
        )
    return rows


def until_change(family: str, one: Subject, delta: float = 0.05) -> dict[str, Any]:
    """How long after a change of what is played the monitor says so."""
    before = one.policies["proxdome"]
    after = 0.5 * before + 0.5 * fd.baselines(one.cmdp).best[0]
    shift = fd.evaluate(one.cmdp, after).utilities - fd.evaluate(one.cmdp, before).utilities
    delays, early = [], 0
    relaxed = fd.Problem(
        one.cmdp.states, one.cmdp.actions, one.cmdp.horizon, one.problem.initial, np.zeros(one.cmdp.constraints), 1e-6
    )
    for seed in range(FEW):
        logs = (
            fd.play(before, one.cmdp, CHANGE_AT, seed=500 + seed, problem=relaxed),
            fd.play(after, one.cmdp, CHANGE_AT, seed=900 + seed, problem=relaxed),
        )
        monitor, seen = fd.Monitor(relaxed, delta), math.inf
        for log in logs:
            for k in range(CHANGE_AT):
                d = log.observed[k]
                if monitor.observe(fd.Episode(log.states[k], log.actions[k], d[0], d[1:])) is not None:
                    seen = min(seen, monitor.episodes)
            if seen < math.inf:
                break
        early += seen <= CHANGE_AT
        delays.append(seen - CHANGE_AT)
    return {
        "family": family,
        "shift": float(np.abs(shift).max()) / one.cmdp.horizon,
        "delay": float(np.median(delays)),
        "false": early,
    }


def count(x: float) -> str:
    """A number of episodes."""
    return f"{x:,.0f}" if math.isfinite(x) else "-"


def tables(covered: Any, certified: Any, powered: Any, changed: Any) -> str:
    """The three tables in Markdown."""
    lines = [
        f"Share of runs in which a bound was ever wrong, at delta = 0.05 / 0.2 ({covered[0]['runs']:,} runs of "
        f"{SHORT:,} episodes), and mean width of a utility's interval at delta = 0.05, in % of H, after {SHORT:,} / "
        f"{LONG:,} episodes:",
        "",
        "| family | (a) wrong | (b) wrong | (c) wrong | (a) width | (b) width | (c) width |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(row["family"] for row in covered):
        cells = {(row["method"], row["delta"]): row for row in covered if row["family"] == family}
        wrong = [" / ".join(f"{cells[m, d]['wrong']:.3f}" for d in DELTAS) for m in METHODS]
        at = [cells[m, DELTAS[0]] for m in METHODS]
        width = [f"{100 * row['width']:.1f} / {100 * row['width_long']:.1f}" for row in at]
        lines.append(f"| {family} | {' | '.join(wrong)} | {' | '.join(width)} |")
    names = list(dict.fromkeys(row["policy"] for row in certified))
    lines += [
        "",
        f"Median episodes until certified safe (delta = 0.05, {FEW} runs, - where not within {MOST:,}), and the "
        "policy's least slack in % of H:",
        "",
        f"| family | {' | '.join(f'{name} | slack' for name in names)} |",
        f"|---|{'---|---|' * len(names)}",
    ]
    for family in dict.fromkeys(row["family"] for row in certified):
        rows = [row for row in certified if row["family"] == family]
        cells_ = [f"{count(row['episodes'])} | {100 * row['slack']:.2f}" for row in rows]
        lines.append(f"| {family} | {' | '.join(cells_)} |")
    lines += [
        "",
        f"The monitor (delta = 0.05): median episodes until the alarm at violations of 1, 5 and 10 % of H "
        f"({powered[0]['runs']} runs, - where not within {ALARM_WITHIN:,}), alarms without a violation; "
        f"and a change of what is played, in % of H, with the median episodes until it is seen ({FEW} runs) and how "
        "many were seen before:",
        "",
        "| family | 1 % | 5 % | 10 % | false alarms | change | seen after | false |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(row["family"] for row in powered):
        rows = [row for row in powered if row["family"] == family]
        times = ["not possible" if math.isnan(row["violation"]) else count(row["episodes"]) for row in rows[1:]]
        change = next(row for row in changed if row["family"] == family)
        lines.append(
            f"| {family} | {' | '.join(times)} | {rows[0]['alarms']:.3f} | {100 * change['shift']:.1f} | "
            f"{count(change['delay'])} | {change['false']} |"
        )
    return "\n".join(lines)


def line(style: LineStyle) -> dict[str, Any]:
    """How a family's line is drawn."""
    return {"color": style.colour, "ls": (0, style.dashes) if style.dashes else "-", "lw": 1.1}


def draw(covered: Any, powered: Any) -> Figure:
    """Coverage, widths, and how the share of alarms grows."""
    families = list(dict.fromkeys(row["family"] for row in powered))
    styles = styles_for(families)
    with drawing():
        figure = new_figure(TWO_COLUMNS, 0.85 * TWO_COLUMNS)
        (left, right), lower = figure.subplots(2, 2)
        for k, method in enumerate(METHODS):
            for family in families:
                rows = [row for row in covered if row["family"] == family and row["method"] == method]
                style = styles[family]
                at = k + 0.6 * (families.index(family) / max(len(families) - 1, 1) - 0.5)
                options = {"color": style.colour, "marker": style.marker, "ls": "", "markersize": 4}
                left.plot([at], [rows[-1]["wrong"]], **options)
                right.plot([at, at], [100 * rows[0]["width"], 100 * rows[0]["width_long"]], color=style.colour, lw=0.8)
                right.plot([at], [100 * rows[0]["width"]], **options)
                right.plot([at], [100 * rows[0]["width_long"]], markerfacecolor="white", **options)
        left.axhline(DELTAS[-1], color="0.2", ls=":", lw=0.9)
        left.text(2.4, DELTAS[-1], r"$\delta$ = 0.2 ", va="bottom", ha="right")
        left.set_ylim(-0.01, 0.25)
        left.set_title("Runs in which a bound was ever wrong", loc="left", fontweight="bold")
        left.set_ylabel("Share of runs")
        right.set_yscale("log")
        right.set_title("Width of a utility's interval", loc="left", fontweight="bold")
        right.set_ylabel(f"% of H, {SHORT:,} (full) and {LONG:,} (open)")
        for axes in (left, right):
            axes.set_xticks(range(len(METHODS)), ["(a) own\nepisodes", "(b) reweighted", "(c) any policy,\nmodel"])
        for axes, violation in zip(lower, (0.01, 0.05), strict=True):
            for row in powered:
                if row["violation"] == violation:
                    style, times = styles[row["family"]], np.sort(row["times"])
                    times = times[times <= ALARM_WITHIN]
                    share = np.arange(1, times.size + 1) / row["runs"]
                    last = share[-1:] if times.size else [0.0]
                    axes.step(np.r_[times, ALARM_WITHIN], np.r_[share, last], where="post", **line(style))
            axes.set_xscale("log")
            axes.set_ylim(-0.02, 1.02)
            axes.set_xlabel("Episode")
            axes.set_title(f"Alarms at a violation of {violation:.0%} of H", loc="left", fontweight="bold")
            axes.set_ylabel("Share of runs")
        handles = [Line2D([], [], marker=style.marker, markersize=4, **line(style)) for style in styles.values()]
        legend_above(figure, handles, families)
    return figure


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    parser.add_argument("--out", type=Path, default=Path("results/certificates"))
    given = parser.parse_args()
    covered, certified, powered, changed = [], [], [], []
    for family in given.families:
        began = time.perf_counter()
        one = subject(family)
        covered += coverage(family, one, given.runs)
        certified += until_certified(family, one)
        powered += power(family, one, max(given.runs // 5, 1))
        changed.append(until_change(family, one))
        print(f"{family}: {time.perf_counter() - began:.0f} s", flush=True)
    parts = {"coverage": covered, "certified": certified, "power": powered, "change": changed}
    flat = [
        pl.DataFrame([{k: v for k, v in row.items() if k != "times"} for row in rows]).select(
            pl.lit(kind).alias("table"), pl.all()
        )
        for kind, rows in parts.items()
    ]
    data = pl.concat(flat, how="diagonal_relaxed")
    save(draw(covered, powered), given.out, data=data)
    print(machine())
    print(tables(covered, certified, powered, changed))


if __name__ == "__main__":
    main()
