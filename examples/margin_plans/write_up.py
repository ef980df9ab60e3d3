"""From a learner of one's own to a table, a figure and a rank.

    python write_up.py OUT [EPISODES] [--rank]      OUT/table.tex, OUT/differences.tex, OUT/figures/margin-plans.pdf

Needs the package beside it: ``pip install ./examples/margin_plans``. Every step is a command that could be typed; an
interrupted run goes on where it was.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from margin_plans.learner import MarginPlans

import flexdome as fd

EXPERIMENT = Path(__file__).with_name("margin-plans.toml")
METRICS = ("strong_regret", "strong_violation", "late_violation")


def flexdome(*words: object) -> str:
    """What a command of flexdome prints."""
    command = [sys.executable, "-m", "flexdome", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def write_up(out: Path, episodes: int | None = None, rank: bool = False) -> None:
    """Check the learner, run the comparison, write it up, and rank the learner."""
    for sentence in fd.check_learner(MarginPlans):
        print("✓", sentence)
    shorter = () if episodes is None else ("--episodes", episodes)
    flexdome("run", EXPERIMENT, "--out", out, *shorter)
    for name, how in (("table", ("--metrics", *METRICS)), ("differences", ("--baseline", "FlexDOME"))):
        printed = flexdome("compare", EXPERIMENT.stem, "--out", out, *how, "--format", "latex")
        first = printed.index(r"\begin{tabular}", printed.index(r"\end{tabular}") if name == "differences" else 0)
        table = printed[first : printed.index(r"\end{tabular}", first) + len(r"\end{tabular}")]
        (out / f"{name}.tex").write_text(table + "\n", encoding="utf-8")
    print(out / "table.tex", out / "differences.tex", out / "figures" / "margin-plans.pdf")
    if rank:
        print(flexdome("rank", "margin-plans", "--quick", "--out", out / "rank"))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--rank"]
    write_up(Path(words[0]), *map(int, words[1:2]), rank="--rank" in sys.argv)
