"""What a journal costs an episode, and how long recovery takes.

    python -m benchmarks.journal [full]    full: recovery after a million episodes

A dosing plant of S = 12, A = 5, H = 24 and m = 2. Chunks of 200 episodes go through a learner alone and through one
with a journal, in turn; what is told is the difference in processor time an episode, snapshots included: its median
over the chunks, and its upper quartile. Recovery is the best of five calls.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import flexdome as fd
from benchmarks.timing import human, machine, seconds

CHUNK = 200


def plant(seed: int = 0) -> tuple[fd.CMDP, list[fd.Episode]]:
    """A random plant, and episodes of its uniform policy."""
    rng = np.random.default_rng(seed)
    S, A, H, m = 12, 5, 24, 2
    p = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    f = rng.random((1 + m, S, A))
    cmdp = fd.CMDP(p, f[0], f[1:], [0.3 * H] * m, 0, horizon=H)
    return cmdp, fd.sample_episodes(cmdp, np.full((H, S, A), 1.0 / A), CHUNK, seed=1)


def spent(observe: Callable[[fd.Episode], None], episodes: list[fd.Episode]) -> float:
    """Processor time of one chunk, an episode."""
    begun = time.process_time()
    for episode in episodes:
        observe(episode)
    return (time.process_time() - begun) / len(episodes)


def line(what: str, measured: str, goal: str = "") -> None:
    """Print one line of the table."""
    print(f"{what:<66} {measured:>22}   {goal}", flush=True)


def cost(make: Callable[[], Any], name: str, episodes: list[fd.Episode], fsync: bool = False, chunks: int = 30) -> None:
    """What the journal adds to an episode of a learner."""
    with tempfile.TemporaryDirectory() as folder:
        plain, journal = make(), fd.Journal(folder, make(), fsync=fsync)
        for observe in (plain.observe, journal.observe):
            spent(observe, episodes)
        extra = [spent(journal.observe, episodes) - spent(plain.observe, episodes) for _ in range(chunks)]
        journal.close()
    middle, upper = (max(float(x), 0.0) for x in np.quantile(extra, (0.5, 0.75)))
    how = "with fsync" if fsync else "without fsync"
    goal = "" if fsync else "< 100 µs"
    line(f"a journal, an episode of {name}, {how}", f"{human(middle)}, {human(upper)}", goal)


def recovery(make: Callable[[], Any], episodes: list[fd.Episode], count: int) -> None:
    """How long it takes to have the learner back."""
    with tempfile.TemporaryDirectory() as folder:
        with fd.Journal(folder, make()) as journal:
            for t in range(count):
                journal.observe(episodes[t % CHUNK])
        taken = min(seconds(lambda: fd.recover(folder)) for _ in range(5))
    line(f"recovery after {count:,} episodes", human(taken), "< 1 s")


def main(full: bool | None = None) -> None:
    """Print the table."""
    print(machine())
    cmdp, episodes = plant()
    problem = cmdp.problem()

    def flexdome() -> Any:
        return fd.FlexDOME(problem, episodes=10**6)

    cost(flexdome, "FlexDOME", episodes)
    cost(
        lambda: fd.make_learner("optcmdp-bonus", problem, episodes=10**6, replan="doubling"), "OptCMDP-bonus", episodes
    )
    cost(flexdome, "FlexDOME", episodes, fsync=True, chunks=5)
    for count in (1_000, 10_000, 1_000_000) if full else (1_000, 10_000):
        recovery(flexdome, episodes, count)


if __name__ == "__main__":
    main("full" in sys.argv[1:])
