"""What every learner does, to the last bit, before and after a change that should not change it.

    python -m benchmarks.digests record DIR
    python -m benchmarks.digests check DIR

``record`` runs every registered learner for 300 episodes on five families and leaves in DIR a digest of each run (gaps,
violations, multipliers, diagnostics, policies on the way) and the learner saved half way. ``check`` runs them again,
and lets the saved ones go on to the end; it names every run that differs and exits with 1 if one does.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
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


def _digest(history: fd.simulation.History, learner: fd.learners.Learner) -> str:
    parts = [history.reward_gap, history.violation, history.multipliers, learner.policy, learner.multipliers]
    parts += [history.diagnostics[name] for name in sorted(history.diagnostics)]
    parts += [
        part for t in sorted(history.snapshots) for part in (history.snapshots[t].policy, history.snapshots[t].visits)
    ]
    sha = hashlib.sha256(" ".join(sorted(history.diagnostics)).encode())
    for part in parts:
        sha.update(np.ascontiguousarray(part).tobytes())
    return sha.hexdigest()[:16]


def _made(id: str, cmdp: fd.CMDP, options: dict[str, object], reveal: tuple[str, ...]) -> fd.learners.Learner:
    entry = fd.LEARNERS[id]
    told: dict[str, object] = {"reveal": reveal}
    if "safe policy" in entry.needs:
        told["safe_slack"] = 0.5
    if entry.replanning:
        options = {"replan": 1.1, **options}
    return LearnerSpec(id=id, options=options, problem=told).make(cmdp, EPISODES, 0)


def runs() -> Iterator[tuple[str, fd.CMDP, fd.learners.Learner]]:
    """Every run: its name, its CMDP and its learner."""
    for name, (id, options) in FAMILIES.items():
        cmdp = fd.make_cmdp(id, seed=3, **options)
        for learner in fd.LEARNERS:
            yield f"{name}-{learner}", cmdp, _made(learner, cmdp, {}, ())
            takes = inspect.signature(fd.LEARNERS[learner].load()).parameters
            for option, value in VARIANTS.items():
                if option in takes and name in ("paper", "stationary"):
                    yield f"{name}-{learner}-{option}", cmdp, _made(learner, cmdp, {option: value}, ())
            if name in ("constraints", "stationary"):
                yield f"{name}-{learner}-told", cmdp, _made(learner, cmdp, {}, ("rewards", "utilities"))
                yield f"{name}-{learner}-model", cmdp, _made(learner, cmdp, {}, ("transitions",))


def record(folder: Path) -> None:
    """Run all, and leave digests and saved learners."""
    folder.mkdir(parents=True, exist_ok=True)
    digests = {}
    for name, cmdp, learner in runs():
        first = fd.simulate(learner, cmdp, HALF, seed=5, snapshots=SNAPSHOTS)
        learner.save(folder / f"{name}.npz")
        last = fd.simulate(learner, cmdp, EPISODES - HALF, seed=5, snapshots=SNAPSHOTS)
        digests[name] = {"whole": _digest(first + last, learner), "second half": _digest(last, learner)}
    (folder / "digests.json").write_text(json.dumps(digests, indent=1))
    print(f"{len(digests)} runs recorded")


def check(folder: Path) -> int:
    """Run all again, from the start and from the files; 1 if one differs."""
    digests, wrong = json.loads((folder / "digests.json").read_text()), []
    for name, cmdp, learner in runs():
        saved = fd.load_learner(folder / f"{name}.npz")
        last = fd.simulate(saved, cmdp, EPISODES - HALF, seed=5, snapshots=SNAPSHOTS)
        if _digest(last, saved) != digests[name]["second half"]:
            wrong.append(f"{name}, from the file")
        first = fd.simulate(learner, cmdp, HALF, seed=5, snapshots=SNAPSHOTS)
        last = fd.simulate(learner, cmdp, EPISODES - HALF, seed=5, snapshots=SNAPSHOTS)
        if _digest(first + last, learner) != digests[name]["whole"]:
            wrong.append(name)
    for name in wrong:
        print("differs:", name)
    print(f"{len(digests)} runs, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "check"))
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    sys.exit(record(given.folder) if given.command == "record" else check(given.folder))
