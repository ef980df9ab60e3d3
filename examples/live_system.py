"""A controller in one process, the learner in another, and the learner dies now and then.

    python examples/live_system.py [patients] [learner]    300 and proxdome; or flexdome, which is given no safe policy

The controller has a plant (here ``propofol-v1``, an anaesthetic for an hour of surgery, stands for it) and asks for a
rate every five minutes. The learner keeps a journal: an hour that it acknowledged is on disk. Three times it is killed,
each at a worse instant: between two patients, in the middle of an hour, and with an hour sent whose acknowledgement was
not read. The controller starts it again and asks how many hours it knows; if the last one is among them it is not sent
twice. Messages are lines of JSON on the loopback interface, and the learner ends when the controller does.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import flexdome as fd

LOOPBACK = "127.0.0.1"
PLANT = fd.make_cmdp("propofol-v1")


# -- the learner's process -------------------------------------------------------------------------------


def first_learner(name: str, patients: int) -> fd.learners.Learner:
    """What is known before the first patient: sizes and limits, and for ProxDOME a policy that was always used here."""
    options: dict[str, Any] = {"tuning": "practical"}
    if name == "proxdome":
        options = {"safe_policy": fd.safe_policy(PLANT, 0.5 * fd.slater_gap(PLANT))}
    return fd.make_learner(name, PLANT.problem(), episodes=patients, **options)


def serve(folder: str, name: str, patients: int) -> None:
    """Answer one controller until it goes away."""
    begun = (Path(folder) / "journal.log").exists()
    with fd.Journal(folder, None if begun else first_learner(name, patients)) as journal, socket.socket() as door:
        door.bind((LOOPBACK, 0))
        door.listen(1)
        print(door.getsockname()[1], flush=True)
        with door.accept()[0] as line, line.makefile("rw", encoding="utf-8") as wire:
            for request in wire:
                wire.write(json.dumps(answer(journal, json.loads(request))) + "\n")
                wire.flush()


def answer(journal: fd.Journal, message: dict[str, Any]) -> Any:
    """An action, a number of hours, or a sentence."""
    if "step" in message:
        return journal.learner.act(message["step"], message["state"])
    if "hour" in message:
        journal.observe(fd.Episode(**message["hour"]))
    return str(journal.learner.status()) if "status" in message else journal.learner.episode


# -- the controller's process ----------------------------------------------------------------------------


class Remote:
    """The learner as the controller has it: ask, and start it again where it is gone."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.starts = 0
        self.start()

    def start(self) -> None:
        """A new process and a connection to it."""
        command = [sys.executable, __file__, "serve", *self.arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.line = socket.create_connection((LOOPBACK, int(self.process.stdout.readline())), timeout=600)
        self.wire = self.line.makefile("rw", encoding="utf-8")
        self.starts += 1

    def send(self, **message: Any) -> None:
        """Say something, without waiting for what comes back."""
        self.wire.write(json.dumps(message) + "\n")
        self.wire.flush()

    def exchange(self, **message: Any) -> str:
        """Say something, and the line that comes back; nothing from a learner that is dead."""
        try:
            self.send(**message)
            return self.wire.readline()
        except ConnectionError:
            return ""

    def ask(self, **message: Any) -> Any:
        """What the learner answers; the question is put again to one that had to be started."""
        while not (reply := self.exchange(**message)):
            self.restart()
        return json.loads(reply)

    def restart(self) -> None:
        """Start again after a death, and say so."""
        self.close()
        began = time.perf_counter()
        self.start()
        print(f"          the learner is back after {time.perf_counter() - began:.1f} s, and knows {self.ask()} hours")

    def kill(self) -> None:
        """As a power failure would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Hang up; a learner whose controller is gone ends by itself."""
        with suppress(ConnectionError):  # what was not read by a dead learner cannot be sent any more
            self.wire.close()
        self.line.close()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


def treat(remote: Remote, rng: np.random.Generator, killed_at: int | None) -> dict[str, Any]:
    """One patient: what was seen and done in an hour."""
    states, actions = [int(rng.choice(PLANT.states, p=PLANT.initial))], []
    for h in range(PLANT.horizon):
        if h == killed_at:
            print(f"          killed in minute {5 * h} of an operation")
            remote.kill()
        actions.append(remote.ask(step=h, state=states[-1]))
        states.append(int(rng.choice(PLANT.states, p=PLANT.transitions[h, states[-1], actions[-1]])))
    at = (np.arange(PLANT.horizon), states[:-1], actions)
    rewards, utilities = PLANT.rewards[at], np.stack([d[at] for d in PLANT.utilities])
    return {"states": states, "actions": actions, "rewards": rewards.tolist(), "utilities": utilities.tolist()}


def report(remote: Remote, told: int, hour: dict[str, Any], killed: bool) -> None:
    """Tell the learner of an hour exactly once, whenever it dies."""
    if killed:
        remote.send(hour=hour)
        remote.kill()
        print("          killed with an hour on the way")
        if remote.ask() > told:
            return
    remote.ask(hour=hour)


def control(patients: int = 300, name: str = "proxdome", seed: int = 0) -> tuple[int, int]:
    """Treat the patients, kill the learner three times; (hours that the journal holds, times the learner started)."""
    rng, kills = np.random.default_rng(seed), [max(patients * k // 4, k) for k in (1, 2, 3)]
    with tempfile.TemporaryDirectory() as folder:
        remote = Remote(folder, name, str(patients))
        try:
            block = []
            for t in range(patients):
                if t == kills[0]:
                    print("          killed between two patients")
                    remote.kill()
                hour = treat(remote, rng, 6 if t == kills[1] else None)
                report(remote, t, hour, t == kills[2])
                block.append([sum(hour["rewards"]), *(PLANT.horizon - np.sum(hour["utilities"], axis=1))])
                if (t + 1) % max(patients // 10, 1) == 0:
                    reward, off, low = np.mean(block, axis=0)
                    print(
                        f"patient {t + 1:4}: mean BIS {97.4 * (1 - reward / 12):.0f}, off its band by "
                        f"{20 * off / 12:.1f} (limit 1.7), {5 * low:.0f} min of low pressure (limit 10)"
                    )
                    block.clear()
            print(remote.ask(status=True))
        finally:
            remote.close()
        kept = fd.recover(folder).episode
    print(f"{patients} patients treated, {kept} hours in the journal, the learner was started {remote.starts} times")
    return kept, remote.starts


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        control(*(int(x) if x.isdigit() else x for x in sys.argv[1:3]))  # type: ignore[arg-type]
