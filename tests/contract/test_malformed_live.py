"""What meets a system: certificates, guards, journals, tables, policies in files, Gymnasium. One argument at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import flexdome as fd
from flexdome.certificates import load_episodes, save_episodes
from malformed import FILE, Call, episode, listed, policy, safe, told, world

JOURNAL = (*FILE, "journal", "directory", "learner")


def episodes(n: int = 3) -> list[fd.Episode]:
    return [fd.Episode(**episode()) for _ in range(n)]


@cache
def table() -> Any:
    return fd.write_episodes(fd.sample_episodes(world(), policy(), 3))


def fresh() -> fd.FlexDOME:
    return fd.FlexDOME(told(), episodes=20)


def journal(**given: Any) -> None:
    """A journal in a folder of its own."""
    shutil.rmtree("journal", ignore_errors=True)
    fd.Journal(**{"path": "journal", "learner": fresh(), **given}).close()


def kept(method: str) -> Callable[..., Any]:
    """A method of an open journal."""

    def call(**given: Any) -> None:
        shutil.rmtree("kept", ignore_errors=True)
        with fd.Journal("kept", fresh()) as open_:
            getattr(open_, method)(**given)

    return call


def certificates() -> dict[str, Call]:
    problem, pi = told(), policy()
    names = {"policy": ("policies",), "episodes": ("episode", "Episode")}
    given = {"problem": problem, "delta": 0.1, "threshold_range": None, "threshold_scale": None}
    return {
        "certify": Call(
            fd.certify,
            {"policy": pi, "episodes": episodes(), "played_by": policy(), "chosen_from_data": False, "method": None,
             "clip": 100.0, **given},
            names,
        ),
        "Monitor": Call(fd.Monitor, given),
        "Monitor.observe": Call(fd.Monitor(problem).observe, {"episode": episodes(1)[0]}),
        "save_episodes": Call(save_episodes, {"path": "x.npz", "problem": problem, "episodes": episodes()},
                              {"path": FILE, **names}),
        "load_episodes": Call(load_episodes, {"path": "episodes.npz", "problem": problem}, {"path": FILE}),
        "Guard": Call(
            lambda learner=None, **rest: fd.Guard(learner, **rest),
            {"learner": fresh(), "fallback": safe(), "delta": 0.1, "threshold_range": None, "threshold_scale": None},
        ),
        "Learner.certify": Call(
            fresh().certify, {"delta": 0.1, "episodes": episodes(), "threshold_range": None, "threshold_scale": None},
            names,
        ),
    }  # fmt: skip


def lives() -> dict[str, Call]:
    cmdp, learner = world(), fresh()
    there = fd.Policy(policy(), visits=np.ones((3, 3, 2)), utilities=np.full((2, 3, 3, 2), 0.5))
    frame = table()
    return {
        "Journal": Call(journal, {"path": "journal", "fsync": False, "snapshot_seconds": 0.25}, {"path": JOURNAL}),
        "Journal.observe": Call(kept("observe"), {"episode": episodes(1)[0]}),
        "Journal.preload": Call(kept("preload"), {"episodes": episodes()}),
        "Journal.set_thresholds": Call(kept("set_thresholds"), {"thresholds": [0.5, 0.5], "slater_gap": 0.5}),
        "recover": Call(fd.recover, {"path": "journaled"}, {"path": JOURNAL}),
        "sample_episodes": Call(
            fd.sample_episodes, {"cmdp": cmdp, "policy": policy(), "n": 2, "seed": 0}, long=("n",)
        ),
        "play": Call(
            fd.play,
            {"policy": policy(), "cmdp": cmdp, "episodes": 2, "seed": 0, "first": 1, "problem": told()},
            long=("episodes",),
        ),
        "read_episodes": Call(
            fd.read_episodes,
            {"table": frame, "columns": None, "horizon": 3, "end": None, "reward": 0.0, "fill": None},
            {"table": ("column", "episode", "step", "state", "action", "reward", "utilit", "row", "threshold", "path"),
             "columns": ("column",), "horizon": ("steps",)},
            each=2,
        ),
        "write_episodes": Call(
            fd.write_episodes,
            {"episodes": episodes(), "path": "x.csv", "form": "utilities"},
            {"path": FILE, "episodes": ("episode",)},
        ),
        "Policy": Call(
            fd.Policy,
            {"policy": policy(), "visits": np.ones((3, 3, 2)), "utilities": np.full((2, 3, 3, 2), 0.5),
             "provenance": {"learner": "x"}},
        ),
        "Policy.act": Call(there.act, {"h": 0, "s": 0, "u": 0.5}),
        "Policy.explain": Call(there.explain, {"h": 0, "s": 0}),
        "Policy.load": Call(fd.Policy.load, {"path": "policy.json"}, {"path": (*FILE, "policy", "ends in")}),
        "Policy.to_bytes": Call(there.to_bytes, {"suffix": ".json"}),
        "Learner.act": Call(learner.act, {"h": 0, "s": 0}),
        "Learner.export": Call(learner.export, {"path": "x.json"}, {"path": (*FILE, "ends in")}),
        "Learner.preload": Call(lambda **given: fresh().preload(**given), {"episodes": episodes()}),
    }  # fmt: skip


@cache
def lake() -> Any:
    import gymnasium

    return gymnasium.make("FrozenLake-v1", map_name="4x4")


def gyms() -> dict[str, Call]:
    return {
        "from_gymnasium": Call(
            fd.from_gymnasium,
            {"env": lake(), "horizon": 4, "cost": np.full((16, 4), 0.5), "limit": 3.0, "reward": None, "initial": None,
             "reward_range": (0.0, 1.0), "name": "x"},
            {"horizon": ("limits",)},
            own=("cost", "reward"),
        ),
    }  # fmt: skip


@cache
def everything() -> dict[str, Call]:
    return {**certificates(), **lives(), **gyms()}


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    """A folder with what can be read in it; whatever is written stays there."""
    monkeypatch.chdir(tmp_path)
    save_episodes("episodes.npz", told(), episodes())
    fresh().export("policy.json")
    fd.Journal("journaled", fresh()).close()


SLOW = ("Journal.observe", "Journal.set_thresholds")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in everything()])
def test_what_meets_a_system_takes_a_value_or_refuses_it_by_name(name):
    found = everything()[name].complaints()
    assert not found, listed(found)
