"""The paper's experiment as stated, and the settings in which its claim holds.

    python -m benchmarks.paper_settings      prints the table of docs/flexdome.md (about half a minute)

T = 80,000, instance seed k with run seed k, k = 0..4; mean and standard error over the five.
"""

from __future__ import annotations

import numpy as np

import flexdome as fd

T = 80_000
SEEDS = range(5)
SETTINGS = {
    "stated: c_e = 1e-5, exact Slater gap": ({}, {}),
    "c_e = 5e-5, exact Slater gap": ({}, {"margin_scale": 5e-5}),
    "c_e = 1e-5, Slater gap bounded by 0.1": ({"slater_gap": 0.1}, {}),
    "c_e = 5e-5, untried actions optimistic": ({}, {"margin_scale": 5e-5, "unvisited": "optimistic"}),
}
ENVIRONMENTS = ("paper-v1", "paper-stochastic-v1")


def measure(environment: str, known: dict[str, float], options: dict[str, object]) -> dict[str, np.ndarray]:
    """Strong regret, strong violation, its part after the first tenth, and the last violation, for each seed."""
    rows = []
    for seed in SEEDS:
        cmdp = fd.make_cmdp(environment, seed=seed)
        learner = fd.FlexDOME(cmdp.problem(**known), episodes=T, **options)
        history = fd.simulate(learner, cmdp, seed=seed)
        total = history.strong_violation
        rows.append((history.strong_regret[-1], total[-1], total[-1] - total[T // 10 - 1], history.violation[0, -1]))
    names = ("strong regret", "strong violation", "after the first tenth", "last episode's violation")
    return dict(zip(names, np.array(rows).T, strict=True))


def text(values: np.ndarray, digits: int) -> str:
    """Mean and standard error."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return f"{values.mean():,.{digits}f} ± {error:,.{digits}f}"


def table() -> str:
    """The table, as Markdown."""
    lines = ["| environment | setting | strong regret | strong violation | after the first tenth | last violation |"]
    lines.append("|---|---|---|---|---|---|")
    for environment in ENVIRONMENTS:
        for name, (known, options) in SETTINGS.items():
            regret, violation, late, last = measure(environment, known, options).values()
            cells = (text(regret, 0), text(violation, 1), text(late, 1), text(last, 3))
            lines.append(f"| `{environment}` | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
