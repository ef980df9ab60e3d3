"""Several threads at one learner: a second change is refused, a reader waits, and nothing else differs."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.learners import Learner
from flexdome.learners.turn import Turn
from runs import World, small_cmdp

IDS = ("flexdome", "uopt-rpgpd", "rpd-oe", "anchordome", "proxdome", "optcmdp-bonus", "s-ops")


def learner_of(name: str, cmdp: fd.CMDP, episodes: int = 4000) -> Learner:
    options: dict[str, Any] = {}
    if name == "s-ops":
        options = {"safe_policy": fd.safe_policy(cmdp, 0.1), "replan": 1.5}
    if name == "optcmdp-bonus":
        options = {"replan": 1.1}
    return fd.make_learner(name, cmdp.problem(), episodes=episodes, **options)


def while_simulated(learner: Learner, cmdp: fd.CMDP, act: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """The history of a simulation, and what ``act`` gave or raised again and again meanwhile."""
    answers: list[Any] = []
    done = threading.Event()

    def others() -> None:
        while not done.is_set():
            try:
                answers.append(act())
            except fd.FlexDOMEError as error:
                answers.append(error)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        history = fd.simulate(learner, cmdp, seed=3)
    finally:
        done.set()
        thread.join()
    return history, answers


@pytest.mark.parametrize("name", IDS)
def test_reading_a_learner_while_it_is_simulated_changes_no_bit(name: str) -> None:
    cmdp = small_cmdp(2, S=4, A=2, H=3)
    alone = fd.simulate(learner_of(name, cmdp), cmdp, seed=3)
    learner = learner_of(name, cmdp)
    history, read = while_simulated(
        learner, cmdp, lambda: (learner.beliefs(), learner.policy, learner.multipliers, learner.visits)
    )
    assert (history.reward_gap == alone.reward_gap).all()
    assert (history.multipliers == alone.multipliers).all()
    assert read
    for beliefs, policy, _, visits in read:  # each of a learner that is whole
        assert np.isfinite(beliefs.value)
        np.testing.assert_allclose(policy.sum(axis=-1), 1.0, atol=1e-9)
        assert (visits.sum(axis=(1, 2)) == visits[0].sum()).all()


def test_a_reader_gets_its_turn_in_the_middle_of_a_simulation() -> None:
    cmdp = small_cmdp(2, S=4, A=2, H=3)
    learner = learner_of("flexdome", cmdp, 200_000)
    _, seen = while_simulated(learner, cmdp, lambda: learner.visits[0].sum())
    assert any(0 < count < 200_000 for count in seen)


@pytest.mark.parametrize("name", IDS)
def test_a_second_thread_that_changes_a_learner_is_refused_and_changes_nothing(name: str) -> None:
    cmdp = small_cmdp(2, S=4, A=2, H=3)
    world = World(cmdp)
    alone = fd.simulate(learner_of(name, cmdp), cmdp, seed=3)
    learner = learner_of(name, cmdp)
    episode = world.play(learner.policy)
    inside, go_on = threading.Event(), threading.Event()
    pause = learner.turn.pause

    def stop_once() -> None:
        inside.set()
        assert go_on.wait(30)
        pause()

    learner.turn.pause = stop_once  # type: ignore[method-assign]
    histories: list[fd.History] = []
    thread = threading.Thread(target=lambda: histories.append(fd.simulate(learner, cmdp, seed=3)))
    thread.start()
    try:
        assert inside.wait(60)
        changes = {
            "observe": lambda: learner.observe(episode),
            "preload": lambda: learner.preload([episode]),
            "set_thresholds": lambda: learner.set_thresholds(learner.problem.thresholds),
            "simulate": lambda: fd.simulate(learner, cmdp, episodes=1),
        }
        for method, change in changes.items():
            with pytest.raises(fd.BusyError, match=f"{method} is called while another thread is in simulate"):
                change()
    finally:
        go_on.set()
        thread.join()
    assert (histories[0].reward_gap == alone.reward_gap).all()
    learner.observe(episode)  # and afterwards it is free again


def test_two_threads_that_observe_lose_no_episode_without_a_word() -> None:
    cmdp = small_cmdp(2, S=4, A=2, H=3)
    learner = learner_of("flexdome", cmdp)
    episode = World(cmdp).play(learner.policy)
    refused = [0, 0]

    def work(k: int) -> None:
        for _ in range(500):
            try:
                learner.observe(episode)
            except fd.BusyError:
                refused[k] += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.episode + sum(refused) == 1000
    assert learner.visits[0].sum() == learner.episode


def test_a_copy_of_a_learner_has_a_turn_of_its_own() -> None:
    cmdp = small_cmdp(2, S=4, A=2, H=3)
    learner = learner_of("flexdome", cmdp, 50)
    twin = copy.deepcopy(learner)
    done: list[fd.History] = []

    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: done.append(fd.simulate(twin, cmdp, seed=1)))
        thread.start()
        thread.join()

    learner.turn.change("observe", elsewhere)
    assert (done[0].reward_gap == fd.simulate(learner, cmdp, seed=1).reward_gap).all()


def test_a_turn_costs_less_than_a_microsecond_an_episode() -> None:
    turn = Turn()
    best = np.inf
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(1000):
            turn.change("observe", int)
        best = min(best, time.perf_counter() - began)
    assert best / 1000 < 5e-6  # a machine may be busy: about 0.5 microseconds on a quiet one


def test_an_error_inside_gives_the_turn_back() -> None:
    cmdp = small_cmdp(2, S=4, A=2, H=3)
    learner = learner_of("flexdome", cmdp)
    with pytest.raises(fd.FlexDOMEError):
        learner.observe("no episode")  # type: ignore[arg-type]
    free: list[int] = []
    thread = threading.Thread(target=lambda: free.append(learner.turn.change("observe", int)))
    thread.start()
    thread.join()
    assert free == [0]
