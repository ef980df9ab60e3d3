"""The learners that solve a program: how fast, what replanning changes, who stays safe.

python -m benchmarks.programs            times: a long run with replan=1.1, and planning in every episode
python -m benchmarks.programs --full     also the tables of docs/programs.md (some minutes)
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import flexdome as fd
from benchmarks.timing import human, machine, seconds

T = 80_000
OCCUPANCY = ("optcmdp-bonus", "optpess-lp")
LEARNERS = (*OCCUPANCY, "optdual", "optcmdp", "dope", "optaug", "cpd-po", "sv-ops", "s-ops", "omdpd")
RULES: tuple[Any, ...] = ("episode", 1.1, 2.0, "doubling", 50)


def make(name: str, cmdp: fd.CMDP, episodes: int, slack: float | None = None, **options: Any) -> Any:
    """The learner, with a safe policy of half the Slater gap (or ``slack``) if it needs one."""
    if "safe policy" in fd.LEARNERS[name].needs:
        options["safe_policy"] = fd.safe_policy(cmdp, 0.5 * fd.slater_gap(cmdp) if slack is None else slack)
    return fd.make_learner(name, cmdp.problem(), episodes=episodes, **options)


def long_runs() -> None:
    """80,000 episodes at the paper's size, exact metrics in each, plans when t has grown by a tenth."""
    cmdp = fd.make_cmdp("paper-v1", seed=0)
    for name in LEARNERS:
        fd.simulate(make(name, cmdp, T, replan=1.1, tuning="practical"), cmdp, episodes=20)  # compiles
        learner = make(name, cmdp, T, replan=1.1, tuning="practical")
        spent = seconds(lambda learner=learner: fd.simulate(learner, cmdp))
        goal = "< 60 s" if name in OCCUPANCY else "< 300 s"
        print(f"{name + ', 80,000 episodes, S=20 A=H=5, replan=1.1':<66} {human(spent):>9}   {goal}", flush=True)


def every_episode(episodes: int = 200) -> None:
    """Planning in every episode, at the size of OMDPD's own experiment."""
    cmdp = fd.make_cmdp("independent-v1", seed=0, states=5, actions=3, horizon=5)
    for name in LEARNERS:
        for tuning in ("theory", "practical"):
            learner = make(name, cmdp, 3_000, tuning=tuning)
            spent = seconds(lambda learner=learner: fd.simulate(learner, cmdp, episodes=episodes)) / episodes
            print(f"{name + f', every episode, S=5 A=3 H=5, {tuning}':<66} {human(spent):>9}   < 50 ms", flush=True)


def replanning(episodes: int = 1_500, seeds: int = 2) -> None:
    """What ``replan`` changes: strong regret and strong violation, and the number of plans, as Markdown."""
    cmdp = fd.make_cmdp("independent-v1", seed=0, states=5, actions=3, horizon=5)
    print("| learner | " + " | ".join(f"`{rule!r}`" for rule in RULES) + " |\n|---|" + "---|" * len(RULES))
    for name in LEARNERS:
        cells = []
        for rule in RULES:
            rows = []
            for seed in range(seeds):
                learner = make(name, cmdp, episodes, replan=rule, tuning="practical")
                history = fd.simulate(learner, cmdp, seed=seed)
                ends = history.strong_regret[-1], history.strong_violation[-1]
                rows.append((*ends, history.diagnostics["replanned"].sum()))
            regret, violation, plans = np.mean(rows, axis=0)
            cells.append(f"{regret:,.0f} / {violation:,.0f} ({plans:,.0f})")
        print(f"| `{name}` | " + " | ".join(cells) + " |", flush=True)


def two_ways() -> fd.CMDP:
    """Two states, two actions, two steps: small enough that the theory's constants let go of the safe policy."""
    p = np.zeros((2, 2, 2, 2))
    p[:, :, 0, 0] = 1.0
    p[:, :, 1] = (0.2, 0.8)
    r, d = np.zeros((2, 2, 2)), np.zeros((1, 2, 2, 2))
    r[1, 1], d[0, :, 0, 0] = 1.0, 1.0
    return fd.CMDP(p, r, d, [0.7], 0)


def safety(episodes: int = 100_000, seeds: int = 20) -> None:
    """The theory's constants on a small instance: the worst violation, and when the safe policy is left."""
    cmdp = two_ways()
    print("| learner | largest signed violation | safe policy left in episode | gap at first | last |")
    print("|---|---|---|---|---|")
    for name in ("optpess-lp", "dope", "s-ops"):
        worst, left, first, last = -np.inf, [], 0.0, []
        for seed in range(seeds):
            learner = make(name, cmdp, episodes, slack=1.2, seed=seed, replan=1.1)
            history = fd.simulate(learner, cmdp, seed=seed)
            worst = max(worst, float(history.violation.max()))
            left.append(int(np.flatnonzero(history.diagnostics["baseline"] < 1.0)[0]) + 1)
            first, tail = float(history.reward_gap[0]), history.reward_gap[-episodes // 10 :]
            last.append(float(tail.mean()))
        when = f"{min(left)} to {max(left)}" if min(left) < max(left) else str(left[0])
        print(f"| `{name}` | {worst:.4f} | {when} | {first:.3f} | {np.mean(last):.3f} |", flush=True)


def main(full: bool | None = None) -> None:
    """Print the table."""
    if full is None:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--full", action="store_true", help="also the tables of docs/programs.md")
        full = bool(parser.parse_args().full)
    print(machine())
    every_episode()
    long_runs()
    if full:
        replanning()
        safety()


if __name__ == "__main__":
    main()
