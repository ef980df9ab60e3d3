"""FlexDOME tuned for safety first: the least regret among settings without late violation.

    python -m benchmarks.tune_safe            some minutes; prints the table of docs/tuning.md

T = 20,000 on instances 0 and 1 of ten families, development instances that no table reports. A setting is safe if no
run has violation after the first tenth of its episodes; of the safe ones the least geometric mean of strong regret
wins, relative to the stated scales with a margin scale of 5e-5 and untried actions optimistic.
"""

from __future__ import annotations

from itertools import product

import numpy as np

import flexdome as fd

EPISODES, PLANNED = 20_000, 80_000
FAMILIES = (
    ("paper-v1", {}),
    ("paper-stochastic-v1", {}),
    ("independent-v1", {}),
    ("conflict-v1", {}),
    ("multi-v1", {"constraints": 2}),
    ("bernoulli-v1", {}),
    ("tight-v1", {}),
    ("river-v1", {}),
    ("media-v1", {}),
    ("inventory-v1", {}),
)
SEEDS = (0, 1)
LATE = 0.01  # of strong violation: rounding
HOPELESS = 50.0  # of late violation: the other instances need not be run
FIRST = {"margin_scale": 5e-5}
NAMES = ("regularisation_scale", "step_scale", "margin_scale", "bonus_scale")
MARGINS = (2.5e-5, 5e-5, 1e-4)  # for a regularisation of 1: what the margin has to cover grows with it
GRID = (
    *product((0.03, 0.1, 0.3, 1.0), (1.0, 3.0, 10.0, 30.0), MARGINS, (0.0, 1e-3)),
    *product((0.1, 0.2, 0.3), (30.0, 100.0, 300.0), (3.5e-5, 5e-5, 7e-5, 1e-4), (0.0,)),  # the second round
)


def main() -> None:
    """Print the best settings, as Markdown."""
    instances = [(fd.make_cmdp(id, seed=seed, **more), seed) for id, more in FAMILIES for seed in SEEDS]
    problems = [cmdp.problem() for cmdp, _ in instances]

    def measure(options: dict[str, float]) -> np.ndarray | None:
        rows = []
        for (cmdp, seed), problem in zip(instances, problems, strict=True):
            learner = fd.FlexDOME(problem, episodes=PLANNED, unvisited="optimistic", **options)
            history = fd.simulate(learner, cmdp, episodes=EPISODES, seed=seed)
            violation = history.strong_violation
            late = violation[-1] - violation[EPISODES // 10 - 1]
            if late > HOPELESS:
                return None
            rows.append((history.strong_regret[-1], violation[-1], late))
        return np.array(rows)

    base, found = measure(FIRST), []
    if base is None:
        raise SystemExit("the setting that all are compared with has late violation")
    for reg, step, margin, bonus in dict.fromkeys(GRID):
        options = dict(zip(NAMES, (reg, step, margin * reg, bonus), strict=True))
        rows = measure(options)
        if rows is not None:
            ratio = np.exp(np.log((rows[:, 0] + 10.0) / (base[:, 0] + 10.0)).mean())
            found.append((rows[:, 2].max() > LATE, ratio, options, rows))
    print("| setting | regret, relative | mean strong violation | largest late violation |\n|---|---|---|---|")
    for _, ratio, options, rows in sorted(found, key=lambda row: row[:2])[:8]:
        text = ", ".join(f"{k}={v:g}" for k, v in options.items())
        print(f"| {text} | {ratio:.2f} | {rows[:, 1].mean():,.0f} | {rows[:, 2].max():,.2f} |")
    print(f"| stated scales, margin_scale=5e-5 | 1 | {base[:, 1].mean():,.0f} | {base[:, 2].max():,.2f} |")


if __name__ == "__main__":
    main()
