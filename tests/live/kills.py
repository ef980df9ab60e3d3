"""Kill a process that keeps a journal, at random instants: ``python kills.py DIR ROUNDS SEED``.

One process imports everything and forks a writer for each round, which goes on with the journal of the last one. It
is killed (SIGKILL) after a random time, and the learner that is recovered is compared, array by array, with a twin
that was told the same episodes and never killed. Every fourth round the time counts from the fork, so that recovery
is hit too; in the others from the first acknowledgement. Prints the number of episodes, of torn records, and of kills
that came while a snapshot was written.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback

import numpy as np

import flexdome as fd

cmdp = fd.make_cmdp("inventory-v1")
PROBLEM = cmdp.problem()
EPISODES = fd.sample_episodes(cmdp, np.full((7, 6, 6), 1.0 / 6.0), 500, seed=3)


def write(path: str, acknowledge: int) -> None:
    """Go on with the journal for ever; the number of every episode is acknowledged through a pipe."""
    journal = fd.Journal(path, snapshot_seconds=0.002)
    while True:
        t = journal.learner.episode
        if t % 101 == 100 and len(journal.learner.threshold_changes) < t // 101 + 1:
            journal.set_thresholds([1.0 + t % 3])
        journal.observe(EPISODES[t % len(EPISODES)])
        os.write(acknowledge, (t + 1).to_bytes(8, "little"))


def follow(twin: fd.FlexDOME, until: int, changes: int) -> None:
    """What the writer told its learner, told to the twin."""
    while twin.episode < until:
        t = twin.episode
        if t % 101 == 100 and len(twin.threshold_changes) < t // 101 + 1:
            twin.set_thresholds([1.0 + t % 3])
        twin.observe(EPISODES[t % len(EPISODES)])
    if len(twin.threshold_changes) < changes:  # killed between the two
        twin.set_thresholds([1.0 + until % 3])


def killed(path: str, delay: float, from_first: bool) -> int:
    """The last episode that a writer acknowledged before it was killed; 0 where there was none."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            write(path, into)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(into)
    last = os.read(out, 8) if from_first else b""
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    while piece := os.read(out, 1 << 16):
        last = (last + piece)[-8 - (len(last) + len(piece)) % 8 :]
    os.close(out)
    whole = len(last) // 8 * 8
    return int.from_bytes(last[whole - 8 : whole], "little") if whole else 0


def main(path: str, rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fd.Journal(path, fd.FlexDOME(PROBLEM, episodes=10**6)).close()
    twin = fd.FlexDOME(PROBLEM, episodes=10**6)
    torn = half = 0
    for k in range(rounds):
        before = twin.episode
        acknowledged = max(killed(path, float(rng.uniform(0.0, 0.03)), k % 4 > 0), before)
        half += any(name.endswith(".tmp") for name in os.listdir(path))
        learner = fd.recover(path)
        assert acknowledged <= learner.episode <= acknowledged + 1, (k, acknowledged, learner.episode)
        follow(twin, learner.episode, len(learner.threshold_changes))
        mine, other = learner.state(), twin.state()
        assert mine.keys() == other.keys()
        for name, array in mine.items():
            assert np.array_equal(array, other[name], equal_nan=True), (k, name)
        assert learner.threshold_changes == twin.threshold_changes, k
        assert np.array_equal(learner.policy, twin.policy), k
        with fd.Journal(path) as journal:
            torn += journal.dropped is not None
            assert not any(name.endswith(".tmp") for name in os.listdir(path))
    print(twin.episode, torn, half)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
