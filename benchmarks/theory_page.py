"""The numbers and figures of docs/theory.md.

    python -m benchmarks.theory_page audit        four minutes: the audit of paper-stochastic-v1, twenty instances
    python -m benchmarks.theory_page statements   one minute: the figure of six statements, twenty instances
    python -m benchmarks.theory_page exponents    two minutes: the sweep over exponents, twenty instances
    python -m benchmarks.theory_page last         two minutes: Theorem 2 on twenty instances
    python -m benchmarks.theory_page margins      half a minute: the margin that some families need

Each prints its tables in markdown and writes its figures to the directory given second (docs/figures, unless said).
"""

from __future__ import annotations

import sys
from pathlib import Path

import flexdome as fd
from flexdome.audit import Depth, audit, drift_witness, last_iterates, margin_cover, sweep_exponents
from flexdome.audit.exponents import TAU
from flexdome.audit.figures import counts_figure, exponents_figure, last_iterate_figure, statements_figure
from flexdome.audit.known import drift_findings, lemma2_findings, recursion_findings, step_findings
from flexdome.audit.last_iterate import EPSILONS, last_iterate_findings
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


def main() -> None:
    """One of the five, by name."""
    what = {"margins": margins, "audit": audited, "statements": statements, "exponents": exponents, "last": last}
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parents[1] / "docs" / "figures"
    what[sys.argv[1]](out)


if __name__ == "__main__":
    main()
