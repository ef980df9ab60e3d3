"""The numbers and figures of docs/theory.md.

    python -m benchmarks.theory_page audit        four minutes: the audit of paper-stochastic-v1, twenty instances
    python -m benchmarks.theory_page statements   one minute: the figure of six statements, twenty instances
    python -m benchmarks.theory_page exponents    two minutes: the sweep over exponents, twenty instances
    python -m benchmarks.theory_page last         two minutes: Theorem 2 on twenty instances
    python -m benchmarks.theory_page margins      half a minute: the margin that some families need
    python -m benchmarks.theory_page potentials   seconds: two hundred potentials along a run of the paper's size

Each prints its tables in markdown and writes its figures to the directory given second (docs/figures, unless said).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import flexdome as fd
from flexdome.audit import Depth, audit, drift_witness, last_iterates, margin_cover, sweep_exponents
from flexdome.audit.exponents import TAU
from flexdome.audit.figures import counts_figure, exponents_figure, last_iterate_figure, statements_figure
from flexdome.audit.known import drift_findings, lemma2_findings, recursion_findings, step_findings
from flexdome.audit.theorem_2 import EPSILONS, last_iterate_findings, steps_needed
from flexdome.audit.trajectory import known_steps
from flexdome.experiments import EnvironmentSpec, ExperimentSpec, LearnerSpec
from flexdome.figures import save

INSTANCES = range(20)
SHOWN = (
    "lemma-1-one-step",
    "drift-gained",
    "drift-multipliers",
    "lemma-2-reward",
    "lemma-2-violation",
    "q-exponential",
)


def audited(out: Path) -> None:
    """The audit, its table, and the figure of the success event."""
    spec = ExperimentSpec(
        name="theory-page",
        episodes=80_000,
        seeds=tuple(INSTANCES),
        environments=(EnvironmentSpec(id="paper-stochastic-v1"),),
        learners=(LearnerSpec(id="flexdome", label="FlexDOME", options={"margin_scale": 5e-5}),),
    )
    found = audit(spec, Depth(points=120, runs=40))
    print(found.markdown())
    for power in range(6, 11):
        witness = drift_witness(10.0**power)
        print(f"| 1e{power} | {witness.excess:.2g} | {witness.error:.2g} |")
    counted = [finding for finding in found.findings if finding.share is not None]
    save(counts_figure(counted), out / "theory-events", formats=("png",))


def statements(out: Path) -> None:
    """Six statements about the known model."""
    steps = []
    for seed in INSTANCES:
        cmdp = fd.make_cmdp("paper-v1", seed=seed)
        problem = cmdp.problem()
        schedules = fd.theory.theorem1(problem, margin_scale=5e-5)
        steps.append(known_steps(cmdp, problem, schedules, 20_000, 120, f"instance {seed}"))
    parts = (recursion_findings, drift_findings, lemma2_findings, step_findings)
    rows = {finding.key: finding for part in parts for finding in part(steps, "known model")}
    save(statements_figure([rows[key] for key in SHOWN]), out / "theory-statements", formats=("png",))
    for key in SHOWN:
        print(key, "|", rows[key].verdict, "|", rows[key].note)


def exponents(out: Path) -> None:
    """The sweep, its table and its figure."""
    etas = ("1/2", "2/3", "5/6", "1")
    from fractions import Fraction

    rows = sweep_exponents(
        lambda seed: fd.make_cmdp("paper-v1", seed=seed), INSTANCES, 40_000, etas=[Fraction(x) for x in etas], taus=TAU
    )
    print("| eta | tau, margin | strong regret: median (mean) | strong violation: median (mean) | flat |")
    print("|---|---|---|---|---|")
    for row in rows:
        numbers = (
            f"{row.regret_median:,.0f} ({row.regret:,.0f}) | {row.violation_median:,.1f} ({row.violation:,.0f}) | "
            f"{row.flat} of {row.instances}"
        )
        print(f"| t^(-{row.eta}) | t^(-{row.tau}) | {numbers} |")
    save(exponents_figure(rows), out / "theory-exponents", formats=("png",))


def last(out: Path) -> None:
    """Theorem 2, its findings and its figure, with a margin that covers the multiplier and with one that does not."""
    for c_margin, name in ((2.0, "theory-last-iterate"), (0.5, None)):
        runs = [
            last_iterates(
                fd.make_cmdp("paper-v1", seed=k),
                EPSILONS if name else (0.4, 0.3, 0.2),
                c_margin=c_margin,
                multiple=4.0,
                label=str(k),
            )
            for k in INSTANCES
        ]
        for finding in last_iterate_findings(runs, f"c_margin = {c_margin}"):
            print(finding.setting, "|", finding.statement, "|", finding.verdict, "|", finding.note)
        print(
            "largest last violation for each epsilon:", [max(float(run.violation[j]) for run in runs) for j in range(3)]
        )
        if name:
            save(last_iterate_figure(runs), out / name, formats=("png",))
    saddles()
    bandit()


def saddles() -> None:
    """The gap of the saddle point over epsilon, far below what can be iterated, and its local order."""
    epsilon = np.array([0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005])
    rows = []
    for seed in INSTANCES:
        cmdp, start = fd.make_cmdp("paper-v1", seed=seed), None
        best, gaps = fd.solve(cmdp).value, []
        for one in epsilon.tolist():
            point = fd.saddle_point(cmdp, one, 2.0 * one, start=start)
            start = point.multipliers
            gaps.append(best - point.reward)
        rows.append(gaps)
    gap = np.array(rows)
    order = np.diff(np.log(gap), axis=1) / np.diff(np.log(epsilon))
    print("| epsilon | gap of the saddle point over epsilon | local order down to it |\n|---|---|---|")
    for k, one in enumerate(epsilon.tolist()):
        local = f"{order[:, k - 1].min():.3f} to {order[:, k - 1].max():.3f}" if k else ""
        ratio = gap[:, k] / one
        print(f"| {one:g} | {ratio.min():.3f} to {ratio.max():.3f} | {local} |")


def bandit() -> None:
    """Where the theorem itself says zero, on the smallest problem there is."""
    cmdp = fd.CMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [[[0.0, 1.0]]], [0.1], 0, horizon=1)
    problem, eta, tau, steps = cmdp.problem(), 3.4e-5, 0.05, 6_300_000
    margin = fd.theory.zero_violation_margin(problem, eta, tau, steps)
    run = fd.iterate(cmdp, fd.Schedules(eta, tau, margin), steps)
    bound = fd.theory.last_iterate_terms(problem, eta, tau, margin, steps)
    print(
        f"bandit: margin {margin:.3f}, half the gap {0.5 * problem.slater_gap:g}, {steps:,} steps; gap "
        f"{run.final_gap:.3f} <= {bound.gap:.3f}, violation {run.final_violation[0]:.3f} <= {bound.violation(margin)}"
    )
    paper = fd.make_cmdp("paper-v1").problem()
    for epsilon in (0.1, 0.01, 0.001, 0.0005):
        wanted = fd.theory.zero_violation_margin(paper, epsilon**3, epsilon, steps_needed(epsilon, 4.0))
        print(
            f"paper-v1, epsilon = {epsilon:g}: a margin of {wanted:.3g} = {wanted / epsilon:.4g} epsilon, "
            f"{steps_needed(epsilon, 4.0):.2g} steps"
        )


def margins(out: Path) -> None:
    """C'' and the margin that covers the multiplier, for some families."""
    names = ("paper-v1", "independent-v1", "conflict-v1", "multi-v1", "tight-v1", "media-v1", "inventory-v1", "grid-v1")
    print("| environment | Xi | eps_1 | C'' | lambda* | least c_e | least c_e, late | to spare at T with 1e-5 |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        cmdp = fd.make_cmdp(name)
        problem = cmdp.problem()
        whole, late = (margin_cover(cmdp, problem, first=first) for first in (1, 8_000))
        first = float(fd.theory.theorem1(problem).margin(1))  # type: ignore[operator]
        start = fd.theory.burn_in_episode(problem, 0.1)
        print(
            f"| `{name}` | {problem.slater_gap:.3g} | {first:,.0f} | {float(start):.1e} | {whole.multiplier:.3g} | "
            f"{whole.margin_scale or 0.0:.1e} | {late.margin_scale or 0.0:.1e} | {-whole.last_violation:+.3f} |"
        )


def potentials(out: Path) -> None:
    """Two hundred points, each saddle point found from the one before it, against each found anew."""
    cmdp = fd.make_cmdp("paper-v1")
    schedules = fd.theory.theorem1(cmdp.problem(), margin_scale=5e-5)
    at = np.unique(np.geomspace(1, 80_000, 246).astype(int))[-200:]
    run = fd.iterate(cmdp, schedules, 80_000, snapshots=at.tolist())
    fd.theory.saddle_path(cmdp, schedules, [1])
    began = time.process_time()
    path = fd.theory.potential_path(cmdp, run.snapshots, schedules)
    warm = time.process_time() - began
    began = time.process_time()
    for k in at.tolist():
        fd.theory.saddle_path(cmdp, schedules, [k])
    cold = time.process_time() - began
    print(f"{path.t.size} potentials: {warm:.2f} s of processor time; saddle points found anew {cold / warm:.1f} times")


def main() -> None:
    """One of the six, by name."""
    what = {
        "potentials": potentials,
        "margins": margins,
        "audit": audited,
        "statements": statements,
        "exponents": exponents,
        "last": last,
    }
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[1] / "docs" / "figures"
    what[sys.argv[1]](out)


if __name__ == "__main__":
    main()
