"""A dosing plant, from a log of logged days to a safe policy on disk.

    python examples/dosing_plant.py [days] [folder]    400 days; the log and the policy go to the folder

The level in a tank is measured every hour, in twelve bins of 1 mg/l, and one of five rates is set. What the plant
yields grows with the level; above 8 mg/l and below 3 mg/l it is out of its band. There is a CSV of what the operators
did, and no model. The log is read, a learner begins with it and then sets the rates itself, day by day. In the end its
policy is written to a file that needs no learner, and the file is tried on days that nobody learns from, which certify
it.

Everything is told in names and in mg/l. ``Plant`` stands for the real one; nothing below it looks inside.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import flexdome as fd

LEVELS = [f"{k}-{k + 1} mg/l" for k in range(12)]
RATES = ["0 ml/h", "10 ml/h", "20 ml/h", "30 ml/h", "40 ml/h"]
HOURS = 24


class Plant:
    """What the real plant would do: a level that decays, is dosed, and is never quite what was meant."""

    def __init__(self, seed: int) -> None:
        self.rng, self.level = np.random.default_rng(seed), 4.0

    def morning(self) -> str:
        """The first level of a day."""
        self.level = float(self.rng.uniform(3.0, 6.0))
        return LEVELS[int(self.level)]

    def hour(self, rate: str) -> tuple[float, float, str]:
        """The yield in kg, how far the level was out of its band in mg/l, and the next level."""
        produced, out = 0.5 * self.level, max(3.0 - self.level, self.level - 8.0, 0.0)
        dosed = 0.06 * float(rate.split()[0]) * self.rng.uniform(0.8, 1.2)
        self.level = float(np.clip(0.82 * self.level + dosed + self.rng.normal(0.0, 0.3), 0.0, 11.999))
        return produced, out, LEVELS[int(self.level)]


def operators(level: str, rng: np.random.Generator) -> str:
    """What was done so far: more below 5 mg/l, less above, and not always."""
    habit = 3 if LEVELS.index(level) < 4 else 2 if LEVELS.index(level) < 6 else 0
    return RATES[int(rng.integers(5)) if rng.random() < 0.3 else habit]


def write_log(path: Path, days: int) -> None:
    """The CSV that a plant would have: a row an hour."""
    plant, rng, rows = Plant(1), np.random.default_rng(2), []
    for day in range(days):
        level = plant.morning()
        for hour in range(HOURS):
            rate = operators(level, rng)
            produced, out, after = plant.hour(rate)
            rows.append((day, hour, level, rate, produced, out))
            level = after
    pl.DataFrame(rows, schema=["day", "hour", "level", "rate", "yield", "out of band"], orient="row").write_csv(path)


def main(days: int, folder: Path) -> None:
    """The one page."""
    write_log(folder / "log.csv", 200)

    problem = fd.Problem(
        states=LEVELS,
        actions=RATES,
        horizon=HOURS,
        stationary=True,
        reward=fd.Quantity("yield", 0, 6, "kg"),
        subject_to=[fd.Quantity("out of band", 0, 4, "mg/l", limit=2.5)],
    )
    columns = {"episode": "day", "step": "hour", "state": "level", "action": "rate"}
    log = fd.read_episodes(folder / "log.csv", columns, problem=problem)
    learner = fd.ProxDOME(problem, episodes=days)
    learner.preload(log)
    print(learner.status())

    plant, rng = Plant(3), np.random.default_rng(4)

    def day(act: Callable[[int, str], str]) -> fd.Episode:
        levels, rates, produced, out = [plant.morning()], [], [], []
        for hour in range(HOURS):
            rates.append(act(hour, levels[-1]))
            kg, mg, after = plant.hour(rates[-1])
            produced.append(kg)
            out.append(mg)
            levels.append(after)
        return fd.Episode(levels, rates, produced, [out])

    for _ in range(days):
        learner.observe(day(learner.act))
    print(learner.status())

    learner.export(folder / "policy.json")
    policy = fd.Policy.load(folder / "policy.json")
    fresh = [day(lambda hour, level: policy.act(hour, level, rng.random())) for _ in range(2000)]
    print(fd.certify(policy.policy, problem, fresh, delta=0.05))
    print(policy.explain(12, "5-6 mg/l"))


if __name__ == "__main__":
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as spare:
        main(int(given[0]) if given else 400, Path(given[1]) if given[1:] else Path(spare))
