"""What every learner does, to the last bit, before and after a change that should not change it.

    python -m benchmarks.digests record DIR
    python -m benchmarks.digests check DIR [--only flexdome]

``record`` runs every registered learner for 300 episodes on five families and leaves in DIR the numbers of each run
(gaps, violations, multipliers, diagnostics, policies on the way) and the learner saved half way. ``check`` runs them
again, and lets the saved ones go on to the end; it names every run that differs, says by how much at most, and exits
with 1 if one does. ``--only`` takes the runs whose names have that word in them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import flexdome as fd
from flexdome.experiments.specs import LearnerSpec

FAMILIES = {
    "paper": ("paper-stochastic-v1", {"states": 6, "actions": 3, "horizon": 4}),
    "constraints": ("multi-v1", {"states": 5, "actions": 3, "horizon": 4, "constraints": 2}),
    "stationary": ("media-v1", {}),
    "sampled": ("bernoulli-v1", {"states": 5, "actions": 4, "horizon": 3}),
    "starts": ("inventory-v1", {}),
}
EPISODES, HALF = 300, 150
SNAPSHOTS = (1, 2, 50, 151, 300)
VARIANTS = {
    "tuning": "practical",
    "unvisited": "optimistic",
    "notebook_slips": True,
    "share_steps": False,
}  # where taken


def _numbers(history: fd.simulation.History, learner: fd.learners.Learner) -> dict[str, np.ndarray]:
    """What a run is held to."""
    numbers = {name: getattr(history, name) for name in ("reward_gap", "violation", "multipliers")}
    numbers |= {"last_policy": learner.policy, "last_multipliers": learner.multipliers}
    numbers |= {f"diagnostics.{name}": series for name, series in history.diagnostics.items()}
    for t, snapshot in history.snapshots.items():
        numbers |= {f"policy.{t}": snapshot.policy, f"visits.{t}": snapshot.visits}
    return numbers


def _apart(numbers: dict[str, np.ndarray], path: Path) -> float | None:
    """The largest difference from what ``path`` holds, None where every bit is the same."""
    with np.load(path) as stored:
        if set(stored.files) != set(numbers):
            return np.inf
        pairs = [(np.asarray(numbers[name]), stored[name]) for name in stored.files]
    if any(a.shape != b.shape for a, b in pairs):
        return np.inf
    if all(a.tobytes() == b.tobytes() for a, b in pairs):
        return None
    return max(float(np.abs(a - b).max(initial=0.0)) for a, b in pairs)


def _made(id: str, cmdp: fd.CMDP, options: dict[str, object], reveal: tuple[str, ...]) -> fd.learners.Learner:
    entry = fd.LEARNERS[id]
    told: dict[str, object] = {"reveal": reveal}
    if "safe policy" in entry.needs:
        told["safe_slack"] = 0.5
    if entry.replanning:
        options = {"replan": 1.1, **options}
    if "threshold_scale" in inspect.signature(entry.load()).parameters:
        options = {"threshold_scale": 1.0, **options}
    return LearnerSpec(id=id, options=options, problem=told).make(cmdp, EPISODES, 0)


def runs() -> Iterator[tuple[str, fd.CMDP, Callable[[], fd.learners.Learner]]]:
    """Every run: its name, its CMDP and what makes its learner."""
    for name, (id, options) in FAMILIES.items():
        cmdp = fd.make_cmdp(id, seed=3, **options)
        for learner in fd.LEARNERS:
            yield f"{name}-{learner}", cmdp, partial(_made, learner, cmdp, {}, ())
            takes = inspect.signature(fd.LEARNERS[learner].load()).parameters
            for option, value in VARIANTS.items():
                if option in takes and name in ("paper", "stationary"):
                    yield f"{name}-{learner}-{option}", cmdp, partial(_made, learner, cmdp, {option: value}, ())
            if name in ("constraints", "stationary"):
                yield f"{name}-{learner}-told", cmdp, partial(_made, learner, cmdp, {}, ("rewards", "utilities"))
                yield f"{name}-{learner}-model", cmdp, partial(_made, learner, cmdp, {}, ("transitions",))


def record(folder: Path) -> None:
    """Run all, and leave numbers and saved learners."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for name, cmdp, make in runs():
        learner = make()
        first = fd.simulate(learner, cmdp, HALF, seed=5, snapshots=SNAPSHOTS)
        learner.save(folder / f"{name}.npz")
        last = fd.simulate(learner, cmdp, EPISODES - HALF, seed=5, snapshots=SNAPSHOTS)
        np.savez(folder / f"{name}.whole.npz", **_numbers(first + last, learner))
        np.savez(folder / f"{name}.half.npz", **_numbers(last, learner))
        names.append(name)
    (folder / "runs.json").write_text(json.dumps(names, indent=1))
    print(f"{len(names)} runs recorded")


def check(folder: Path, only: str) -> int:
    """Run all again, from the start and from the files; 1 if one differs."""
    names, count, wrong = set(json.loads((folder / "runs.json").read_text())), 0, 0
    for name, cmdp, make in runs():
        if only not in name or name not in names:
            continue
        count += 1
        learner = make()
        found: dict[str, float | None] = {}
        try:
            saved = fd.load_learner(folder / f"{name}.npz")
        except fd.FlexDOMEError as error:
            print(f"the file of {name} is refused: {error}", flush=True)
            found[f"{name}, from the file"] = np.inf
        else:
            last = fd.simulate(saved, cmdp, EPISODES - HALF, seed=5, snapshots=SNAPSHOTS)
            found[f"{name}, from the file"] = _apart(_numbers(last, saved), folder / f"{name}.half.npz")
        first = fd.simulate(learner, cmdp, HALF, seed=5, snapshots=SNAPSHOTS)
        last = fd.simulate(learner, cmdp, EPISODES - HALF, seed=5, snapshots=SNAPSHOTS)
        found[name] = _apart(_numbers(first + last, learner), folder / f"{name}.whole.npz")
        for run, apart in found.items():
            if apart is not None:
                print(f"differs: {run}, by {apart:.2g} at most", flush=True)
        wrong += any(apart is not None for apart in found.values())
    print(f"{count} runs, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only runs whose names have this in them")
    given = parser.parse_args()
    sys.exit(record(given.folder) if given.command == "record" else check(given.folder, given.only))
