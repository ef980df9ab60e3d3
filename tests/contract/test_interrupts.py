"""An interrupt, wherever it comes, loses nothing: what goes on afterwards is what would have been without it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners import Learner
from runs import World, small_cmdp

PROGRAMS = [
    "optcmdp",
    "optcmdp-bonus",
    "optdual",
    "optaug",
    "optpess-lp",
    "dope",
    "sv-ops",
    "s-ops",
    "cpd-po",
    "omdpd",
]
CMDP = small_cmdp(3, S=2, A=2, H=2, law="steps")
EPISODES = 6


def make(name: str, replan: Any) -> Learner:
    options = {"safe_policy": fd.safe_policy(CMDP, 0.02)} if name in ("optaug", "optpess-lp", "dope", "s-ops") else {}
    return fd.make_learner(name, CMDP.problem(), episodes=EPISODES, replan=replan, tuning="practical", **options)


def episodes() -> list[fd.Episode]:
    world = World(CMDP, 5)
    return [world.play(np.full((2, 2, 2), 0.5)) for _ in range(EPISODES)]


def everything(learner: Learner) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in learner.state().items()}


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line that is executed in the learners' own modules."""

    def __init__(self, line: int) -> None:
        self.left, self.lines = line, 0

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if "flexdome/learners" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        if event == "line":
            self.lines += 1
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def observed(name: str, replan: Any, at: int = 0, line: int = 0) -> tuple[Learner, int, bool]:
    """A learner after all episodes, interrupted in that line of that episode; lines executed there, and whether."""
    learner, lines, came = make(name, replan), 0, False
    for k, episode in enumerate(episodes()):
        if k == at:
            interrupt = Interrupt(line)
            sys.settrace(interrupt)
            try:
                learner.observe(episode)
            except KeyboardInterrupt:
                came = True
            finally:
                sys.settrace(None)
            lines = interrupt.lines
        if learner.episode == k:  # not counted, so not learned: once more
            learner.observe(episode)
    learner.settle()  # type: ignore[attr-defined]  # the last line of the last episode may be what was cut
    return learner, lines, came


def interrupted(method: Callable[[Any], None], argument: Any, line: int) -> None:
    """Call ``method``, interrupted in that line."""
    sys.settrace(Interrupt(line))
    try:
        method(argument)
    except KeyboardInterrupt:
        return
    finally:
        sys.settrace(None)
    raise AssertionError("there was no interrupt")


@pytest.mark.parametrize("replan", ["episode", "doubling", 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_in_any_line_of_a_plan_changes_no_bit_of_what_follows(name: str, replan: Any) -> None:
    at = EPISODES - 2 if replan != 3 else 2
    whole, lines, _ = observed(name, replan, at)
    expected = everything(whole)
    rng = np.random.default_rng([PROGRAMS.index(name), len(str(replan))])
    cuts = np.unique(np.append(rng.integers(1, lines + 1, 12), np.arange(max(lines - 14, 1), lines + 1)))
    interrupted = 0
    for line in cuts:
        cut, _, came = observed(name, replan, at, int(line))
        interrupted += came
        assert everything(cut) == expected, f"line {line} of {lines}"
    assert interrupted == cuts.size


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_file_saved_after_an_interrupt_goes_on_where_it_was(name: str, tmp_path: Any) -> None:
    whole, lines, _ = observed(name, "doubling", 1)
    for line in range(max(lines - 12, 1), lines + 1):
        learner = make(name, "doubling")
        for k, episode in enumerate(episodes()):
            if k == 1:
                interrupted(learner.observe, episode, line)
                learner.save(tmp_path / "learner")
                learner = fd.load_learner(tmp_path / "learner")
            if learner.episode == k:
                learner.observe(episode)
        assert everything(learner) == everything(whole), f"line {line} of {lines}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_log_that_is_interrupted_was_not_taken(name: str) -> None:
    log = episodes()[:3]
    whole = make(name, "episode")
    whole.observe(log[0])
    counter = Interrupt(0)
    sys.settrace(counter)
    whole.preload(log)
    sys.settrace(None)
    refused = 0
    for line in np.unique(np.linspace(1, counter.lines, 20).astype(int)):
        learner = make(name, "episode")
        learner.observe(log[0])
        before = everything(learner)
        interrupted(learner.preload, log, int(line))
        refused += everything(learner) == before
        assert everything(learner) in (before, everything(whole)), f"line {line}"  # nothing, or after all everything
    assert refused > 10


def test_the_first_plan_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    learner = make("optcmdp", "episode")
    plan = type(learner)._plan  # type: ignore[attr-defined]
    monkeypatch.setattr(type(learner), "_plan", lambda self, n: made.append(n) or plan(self, n))
    assert made == []
    learner.policy  # noqa: B018
    learner.policy  # noqa: B018
    assert made == [0]
