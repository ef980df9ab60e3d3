"""Learners in files: a resumed run has the bits of one never saved, and no file makes a kernel read astray."""

from __future__ import annotations

import io
import json
import math
import os
import random
import resource
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.cmdp.archive import read_archive, write_archive
from runs import LAWS, World, bits, learned, problem_of, same_history, small_cmdp
from strategies import SEEDS, cmdps

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example rewrites its file
UNIFORM = np.full((4, 5, 3), 1 / 3)


def learner_of(cmdp: fd.CMDP, law: str = "known", **options: Any) -> fd.FlexDOME:
    return fd.FlexDOME(problem_of(cmdp, law), **{"episodes": 200, "margin_scale": 2e-4, **options})


def example(episodes: int = 30) -> fd.FlexDOME:
    """A learner whose file holds a bit of everything."""
    cmdp = small_cmdp(m=2, law="steps")
    learner = learner_of(cmdp, schedules=fd.Schedules(lambda t: 0.3 / t**0.5, 0.1, fd.theory.theorem2(0.1).margin))
    learner.preload([World(cmdp, 9).play(UNIFORM) for _ in range(5)])
    learner.set_thresholds([0.5, math.nan])
    if episodes:
        fd.simulate(learner, cmdp, episodes=episodes)
        learner.set_thresholds([math.nan, math.nan])
    return learner


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.learner"


@pytest.fixture
def saved(path: Path) -> Path:
    example().save(path)
    return path


def again(learner: fd.FlexDOME, path: Path) -> fd.FlexDOME:
    learner.save(path)
    loaded = fd.load_learner(path)
    assert isinstance(loaded, fd.FlexDOME)
    return loaded


def refusal(path: Path) -> str:
    """The message with which loading fails."""
    with pytest.raises(fd.FileFormatError) as caught:
        fd.load_learner(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


# -- resume ---------------------------------------------------------------------------------------------

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "optimistic": {"unvisited": "optimistic"},
    "no margin": {"margin": False},
    "no regularisation": {"regularisation": False},
    "an unscaled bonus": {"scale_entropy_bonus": False, "bonus_scale": 0.03},
    "a narrow box": {"dual_bound": 0.07, "delta": 0.01, "seed": 5},
    "own functions": {"schedules": fd.Schedules(lambda t: 0.3 / t**0.5, lambda t: 0.2 / t, lambda t: [1 / t, 2 / t])},
    "own numbers": {"schedules": fd.Schedules(0.1, 0.2, [0.3, 0.4])},
    "Theorem 2": {"schedules": fd.theory.theorem2(0.3, c_eta=3.0)},
    "own functions without regularisation": {"schedules": fd.Schedules(lambda t: 0.3, 0.2), "regularisation": False},
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("case", VARIANTS)
def test_a_resumed_run_has_the_bits_of_one_never_saved(path: Path, case: str, law: str) -> None:
    cmdp = small_cmdp(m=2, law=law, noise="bernoulli", initial=np.full(5, 0.2))
    through, first = (learner_of(cmdp, law, **VARIANTS[case]) for _ in range(2))
    whole = fd.simulate(through, cmdp, seed=2)
    start = fd.simulate(first, cmdp, episodes=80, seed=2)
    resumed = again(first, path)
    assert learned(resumed) == learned(first)
    rest = fd.simulate(resumed, cmdp, seed=2)
    assert same_history(whole, start + rest)
    assert learned(resumed) == learned(through)


def test_a_learner_that_has_seen_nothing_can_be_saved(path: Path) -> None:
    cmdp = small_cmdp()
    through, fresh = learner_of(cmdp), learner_of(cmdp)
    resumed = again(fresh, path)
    assert same_history(fd.simulate(resumed, cmdp), fd.simulate(through, cmdp))


@pytest.mark.parametrize("saves", [(0,), (1,), (2, 3), (50,), tuple(range(0, 120, 10))], ids=str)
def test_a_run_may_be_saved_anywhere_and_often(path: Path, saves: tuple[int, ...]) -> None:
    cmdp = small_cmdp(S=9, law="normal")
    world, through, resumed = World(cmdp), learner_of(cmdp), learner_of(cmdp)
    for t in range(120):
        if t in saves:
            resumed = again(resumed, path)
        episode = world.play(through.policy)
        through.observe(episode)
        resumed.observe(episode)
    assert learned(resumed) == learned(through)


def test_a_run_is_resumed_after_logged_data_and_changed_thresholds(path: Path) -> None:
    cmdp = small_cmdp(m=2)
    log = [World(cmdp, 1).play(UNIFORM) for _ in range(20)]
    learners = [learner_of(cmdp), learner_of(cmdp)]
    for k, change in enumerate(("preload", "run", "set", "run", "preload", "set", "run", "estimate", "run")):
        for learner in learners:
            if change == "preload":
                learner.preload(log)
            elif change == "run":
                fd.simulate(learner, cmdp, episodes=15, seed=4)
            elif change == "set":
                learner.set_thresholds([0.1 * k, 0.2 * k], slater_gap=0.3)
            else:
                learner.set_thresholds([math.nan, 0.2])
        learners[1] = again(learners[1], path)
        assert learned(learners[0]) == learned(learners[1])
    changes = learners[1].threshold_changes
    assert changes[:2] == [(15, [0.2, 0.4]), (30, [0.5, 1.0])]
    assert changes[2][0] == 45
    assert np.isnan(changes[2][1][0])
    assert learners[1].problem.slater_gap == 0.3
    assert learners[1].first_problem.slater_gap == learners[0].first_problem.slater_gap
    assert learners[1].first_problem.slater_gap_exact
    assert (learners[1].first_problem.thresholds == learners[0].first_problem.thresholds).all()


def test_a_run_is_resumed_after_its_pool_has_grown(path: Path) -> None:
    cmdp = small_cmdp(S=40, A=2, H=5)
    through, resumed = learner_of(cmdp), learner_of(cmdp)
    fd.simulate(through, cmdp, episodes=2000)
    fd.simulate(resumed, cmdp, episodes=1000)
    assert resumed.model.core.counts.pool_cell.size > 3000
    resumed = again(resumed, path)
    fd.simulate(resumed, cmdp, episodes=1000)
    assert learned(resumed) == learned(through)


def test_a_learner_that_was_told_the_model_keeps_it(path: Path) -> None:
    cmdp = small_cmdp()
    learner = fd.FlexDOME(cmdp.problem(reveal=("rewards", "utilities", "transitions")), episodes=50)
    problem = again(learner, path).problem
    assert (problem.rewards == cmdp.rewards).all()
    assert (problem.utilities == cmdp.utilities).all()
    assert (problem.transitions == cmdp.transitions).all()


@settings(SHARED, max_examples=40)
@given(cmdp=cmdps(laws=True), seed=SEEDS, data=st.data())
def test_any_learner_comes_back(path: Path, cmdp: fd.CMDP, seed: int, data: st.DataObject) -> None:
    problem = cmdp.problem(hide=data.draw(st.sampled_from(((), ("thresholds",)))))
    options = {"unvisited": data.draw(st.sampled_from(("paper", "optimistic"))), "episodes": 40}
    options |= {"bonus_scale": data.draw(st.sampled_from((0.0, 1e-3, 1.0, 1e90)))}
    through = fd.FlexDOME(problem, **options)
    cut = data.draw(st.integers(0, 40))
    fd.simulate(through, cmdp, episodes=cut, seed=seed)
    resumed = again(through, path)
    for learner in (through, resumed):
        fd.simulate(learner, cmdp, seed=seed)
    assert learned(resumed) == learned(through)


def test_extreme_learners_come_back(path: Path) -> None:
    cmdp = small_cmdp(m=2)
    schedules = fd.Schedules(1e100, 0.0, 1e100)
    through = learner_of(cmdp, schedules=schedules, dual_bound=1e100, bonus_scale=1e90)
    fd.simulate(through, cmdp, episodes=50)
    resumed = again(through, path)
    for learner in (through, resumed):
        fd.simulate(learner, cmdp, episodes=50)
    assert learned(resumed) == learned(through)


def test_numpys_numbers_may_be_options(path: Path) -> None:
    learner = learner_of(small_cmdp(), episodes=np.int64(70), seed=np.uint8(3), delta=np.float32(0.5))
    loaded = again(learner, path)
    assert (loaded.episodes, loaded.seed, loaded.options()["delta"]) == (70, 3, 0.5)


def test_saving_changes_nothing(path: Path) -> None:
    learner = example()
    before = bits(learner)
    learner.save(path)
    assert bits(learner) == before


def test_the_same_learner_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    fd.load_learner(saved).save(other)
    first, second = (read_archive(p, "flexdome-learner", 1) for p in (saved, other))
    assert first[0] == second[0]
    assert {k: v.tobytes() for k, v in first[1].items()} == {k: v.tobytes() for k, v in second[1].items()}


def test_a_file_holds_plain_arrays_and_grows_with_what_was_visited(path: Path) -> None:
    learner = fd.FlexDOME(fd.Problem(100_000, 5, 10, 0, [1.0], 0.5))
    learner.observe(fd.Episode([0] * 10, [0] * 10, [0.5] * 10, [0.5] * 10))
    learner.save(path)
    assert path.stat().st_size < 100_000 * 8 + 20_000  # the initial distribution, and little else
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["state.n_visits"].shape == (50,)


# -- own schedules --------------------------------------------------------------------------------------


def test_a_function_is_known_up_to_the_episode_after_the_plan(path: Path) -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp, schedules=fd.Schedules(lambda t: 0.3 / t, 0.1, lambda t: 1 / t), episodes=50)
    fd.simulate(learner, cmdp, episodes=20)
    resumed = again(learner, path)
    fd.simulate(resumed, cmdp, snapshots=(51,))
    assert resumed.beliefs().margin == pytest.approx(1 / 51)
    resumed = again(resumed, path)
    fd.simulate(resumed, cmdp, episodes=1)
    before = bits(resumed)
    with pytest.raises(fd.ValidationError, match="eta at episode 52 is unknown; this learner comes from a file"):
        fd.simulate(resumed, cmdp, episodes=1)
    assert bits(resumed) == before
    assert learned(again(resumed, path)) == learned(resumed)


def test_a_function_is_known_up_to_the_next_episode_of_a_learner_past_its_plan(path: Path) -> None:
    cmdp = small_cmdp()
    learner = learner_of(cmdp, schedules=fd.Schedules(lambda t: 0.3 / t, 0.1), episodes=10)
    fd.simulate(learner, cmdp, episodes=25)
    assert fd.simulate(again(learner, path), cmdp, episodes=1).last == 26


@pytest.mark.parametrize("case", ["as it is", "own numbers", "Theorem 2"])
def test_a_formula_goes_on_past_the_plan(path: Path, case: str) -> None:
    cmdp = small_cmdp(m=2)
    through, resumed = (learner_of(cmdp, **VARIANTS[case]) for _ in range(2))
    fd.simulate(resumed, cmdp, episodes=100)
    resumed = again(resumed, path)
    for learner in (through, resumed):
        fd.simulate(learner, cmdp, episodes=300 - learner.episode)
    assert learned(resumed) == learned(through)


# -- writing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [OSError("disk full"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("where", ["numpy.lib.format.write_array", "zipfile.ZipFile.close", "os.fsync", "os.replace"])
def test_an_interrupted_save_leaves_the_previous_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, where: str, stop: BaseException
) -> None:
    before = saved.read_bytes()

    def interrupted(*args: Any, **options: Any) -> None:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(where, interrupted)
        with pytest.raises(fd.FlexDOMEError if isinstance(stop, OSError) else type(stop)):
            example(60).save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_disk_that_is_full_at_any_byte_leaves_the_previous_file(saved: Path) -> None:
    """No file may grow beyond a limit: every write up to it succeeds and the next fails."""
    before, later = saved.read_bytes(), example(60)
    later.save(saved.parent / "whole")
    size = (saved.parent / "whole").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (*range(0, size, 97), size - 2, size - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(fd.FlexDOMEError, match="cannot be written"):
                later.save(saved)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert saved.read_bytes() == before
    assert sorted(os.listdir(saved.parent)) == sorted([saved.name, "whole"])
    later.save(saved)
    assert learned(fd.load_learner(saved)) == learned(later)  # type: ignore[arg-type]


def test_a_process_killed_while_saving_leaves_a_file_that_resumes(path: Path) -> None:
    code = """
        import sys, flexdome as fd
        cmdp = fd.make_cmdp("media-v1")
        learner = fd.FlexDOME(cmdp.problem(), episodes=10**6)
        while True:
            fd.simulate(learner, cmdp, episodes=3)
            learner.save(sys.argv[1])
            print(learner.episode, flush=True)
    """
    cmdp = fd.make_cmdp("media-v1")
    for pause in (0.0, random.Random(0).random() / 10):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(5):
            reported = int(child.stdout.readline())
        time.sleep(pause)
        child.kill()
        reported = int((["0", *child.stdout.read().split()])[-1]) or reported
        child.wait()
        child.stdout.close()
        learner, through = fd.load_learner(path), fd.FlexDOME(cmdp.problem(), episodes=10**6)
        assert learner.episode in (reported, reported + 3)
        fd.simulate(through, cmdp, episodes=learner.episode)
        assert learned(learner) == learned(through)  # type: ignore[arg-type]


def test_a_path_that_is_none_is_refused() -> None:
    for bad in (None, 3, ""):
        with pytest.raises(fd.ValidationError, match=r"path is .*; it must be the path of a file"):
            example(0).save(bad)  # type: ignore[arg-type]
        with pytest.raises(fd.ValidationError, match=r"path is .*; it must be the path of a file"):
            fd.load_learner(bad)  # type: ignore[arg-type]


# -- damage ---------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_refused(path: Path) -> None:
    assert "does not exist" in refusal(path)


def test_a_cmdp_is_not_a_learner(path: Path) -> None:
    fd.save_cmdp(small_cmdp(), path)
    assert "has format 'flexdome-cmdp'; it must be 'flexdome-learner'" in refusal(path)


def test_a_file_truncated_anywhere_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for length in (*range(0, len(data), 101), *range(len(data) - 60, len(data))):
        saved.write_bytes(data[:length])
        refusal(saved)


def test_a_changed_byte_is_refused_or_does_not_matter(saved: Path) -> None:
    """Some bytes of a zip, such as times, say nothing about the arrays."""
    data, whole = saved.read_bytes(), learned(fd.load_learner(saved))  # type: ignore[arg-type]
    refused = tried = 0
    for position in range(0, len(data), 37):
        saved.write_bytes(data[:position] + bytes([data[position] ^ 0x81]) + data[position + 1 :])
        tried += 1
        try:
            assert learned(fd.load_learner(saved)) == whole  # type: ignore[arg-type]
        except fd.FileFormatError:
            refused += 1
    assert refused > 0.8 * tried


@SHARED
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda tail: b"PK\x03\x04" + tail)))
def test_arbitrary_bytes_are_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    refusal(path)


# -- hostile files --------------------------------------------------------------------------------------


def forge(path: Path, header: Any = None, **arrays: Any) -> None:
    """The saved file with changes to its header and arrays (None takes one away); checksums are right."""
    stored, kept = read_archive(path, "flexdome-learner", 1)
    changed = {**kept, **{name.replace("__", "."): array for name, array in arrays.items()}}
    write_archive(
        path, stored if header is None else header(stored), {k: v for k, v in changed.items() if v is not None}
    )


def stored(path: Path) -> dict[str, Any]:
    return {name: array.copy() for name, array in read_archive(path, "flexdome-learner", 1)[1].items()}


def changed(path: Path, name: str, change: Any) -> None:
    """The saved file with one array changed in place by ``change`` (or replaced by what it returns)."""
    array = stored(path)[name]
    result = change(array)
    forge(path, **{name: array if result is None else result})


def put(index: Any, value: Any) -> Any:
    def change(array: np.ndarray) -> None:
        array[index] = value

    return change


def added(index: Any, value: Any) -> Any:
    def change(array: np.ndarray) -> None:
        array[index] += value

    return change


def swapped(array: np.ndarray) -> None:
    array[[0, -1]] = array[[-1, 0]]


STATE: dict[str, tuple[str, Any, str]] = {
    "more cells than states": ("n_cells", put(1, 99), "state.n_cells[1] is 99.0; it must lie in [0, 5]"),
    "cells below zero": ("n_cells", put(1, -1), "state.n_cells[1] is -1.0; it must lie in [0, 5]"),
    "half a cell": ("n_cells", lambda a: a - 0.5, "state.n_cells[0] must hold whole numbers"),
    "cells that are nan": ("n_cells", lambda a: a * np.nan, "state.n_cells[0] is nan; it must be finite"),
    "cells of other steps": ("n_cells", lambda a: a[1:], "state.n_cells has shape (3,); it must be (4,)"),
    "fewer cells than there are": ("n_cells", added(2, -1), "state.n_visits has shape"),
    "a state beyond the last": ("state_of", put(3, 5), "state.state_of[3] is 5.0; it must lie in [0, 4]"),
    "a negative state": ("state_of", put(0, -1), "state.state_of[0] is -1.0; it must lie in [0, 4]"),
    "a state twice": ("state_of", lambda a: put(-1, a[-2])(a), "state.state_of names a state twice in one step"),
    "states in a table": ("state_of", lambda a: a[None], "state.state_of has shape (1, 15); it must be (15,)"),
    "negative visits": ("n_visits", put(0, -1.0), "state.n_visits[0] is -1.0; it must lie in [0,"),
    "half a visit": ("n_visits", added(0, 0.5), "state.n_visits[0] must be whole"),
    "visits that are inf": ("n_visits", put(0, np.inf), "state.n_visits[0] is inf; it must be finite"),
    "a visit too many": ("n_visits", added(0, 1.0), "state.n_visits counts 35 to 36 visits in a step"),
    "visits of a cell moved": (
        "n_visits",
        lambda a: added(-1, a[-2])(a) or put(-2, 0.0)(a),
        "state.pool_count does not lead to each cell as often as it was visited",
    ),
    "more successors than cells": ("length", put(0, 9), "state.length[0] is 9.0; it must lie in [0, 5]"),
    "negative successors": ("length", put(0, -4), "state.length[0] is -4.0; it must lie in [0, 5]"),
    "successors after the last step": ("length", put(-1, 1), "state.length["),
    "a successor beyond all cells": ("pool_cell", put(0, 10**6), "state.pool_cell[0] is 1000000.0; it must lie in"),
    "a negative successor": ("pool_cell", put(0, -1), "state.pool_cell[0] is -1.0; it must lie in [0, 31]"),
    "a successor in the same step": ("pool_cell", put(0, 0), "state.pool_cell[0] is not a visited cell of the next"),
    "a successor never visited": ("pool_cell", put(0, 15), "state.pool_cell[0] is not a visited cell of the next"),
    "a successor in the last lane": ("pool_cell", put(-1, 31), "state.pool_cell["),
    "a successor twice": ("pool_cell", lambda a: put(1, a[0])(a), "state.pool_cell names a successor twice"),
    "a successor seen never": ("pool_count", put(0, 0.0), "state.pool_count[0] is 0.0; it must lie in [1,"),
    "a successor seen half": ("pool_count", added(0, 0.5), "state.pool_count[0] must be whole"),
    "a successor seen too often": ("pool_count", added(0, 1.0), "is not the number of times that a successor"),
    "a count too few": ("pool_count", lambda a: a[:-1], "state.pool_count has shape"),
    "counts that are nan": ("pool_count", put(0, np.nan), "state.pool_count[0] is nan; it must be finite"),
    "tried rows too many": ("n_tried", added(0, 1), "state.n_tried does not count the rows with visits"),
    "tried rows below zero": ("n_tried", put(0, -1), "state.n_tried[0] is -1.0; it must lie in"),
    "a tried row beyond all rows": ("tried", put(0, 10**6), "state.tried[0] is 1000000.0; it must lie in [0, 95]"),
    "a negative tried row": ("tried", put(0, -1), "state.tried[0] is -1.0; it must lie in [0, 95]"),
    "a tried row twice": ("tried", lambda a: put(1, a[0])(a), "state.tried does not list the rows with visits"),
    "tried rows in another step": ("tried", swapped, "state.tried does not list the rows with visits, step after"),
    "rewards above the visits": ("sum_r", put(0, 1e6), "state.sum_r[0] exceeds the number of visits"),
    "rewards that are nan": ("sum_r", put(0, np.nan), "state.sum_r[0] is nan; it must be finite"),
    "negative rewards": ("sum_r", put(0, -0.1), "state.sum_r[0] is -0.1; it must lie in [0,"),
    "utilities above the visits": ("sum_d", put((1, 0), 1e6), "state.sum_d[1, 0] exceeds the number of visits"),
    "utilities of one constraint": ("sum_d", lambda a: a[:1], "state.sum_d has shape (1, 45); it must be (2, 45)"),
    "a logit that is nan": ("logits", put(0, np.nan), "state.logits[0] is nan; it must be finite"),
    "a logit above zero": ("logits", put(0, 1.0), "state.logits[0] is 1.0; it must lie in"),
    "a logit that is not the policy's": ("logits", added(0, -0.5), "is not the exponential of its logit"),
    "a policy that is nan": ("pi", put(0, np.nan), "state.pi[0] is nan; it must be finite"),
    "a policy above one": ("pi", put(0, 1.5), "state.pi[0] is 1.5; it must lie in [0, 1]"),
    "a policy that does not sum to one": ("pi", lambda a: 0.5 * a, "belongs to a policy that does not sum to one"),
    "an entropy of its own": ("entropy", added(0, 0.1), "state.entropy[0] is not the entropy of its policy"),
    "an entropy that is inf": ("entropy", put(0, np.inf), "state.entropy[0] is inf; it must be finite"),
    "an untried probability of its own": ("untried", put(0, 0.9), "state.untried[0] is not the probability of"),
    "a multiplier outside its box": ("lam", put(0, 1e9), "state.lam[0] is 1000000000.0; it must lie in [0,"),
    "a negative multiplier": ("lam", put(1, -1.0), "state.lam[1] is -1.0; it must lie in [0,"),
    "a multiplier that is nan": ("lam", put(1, np.nan), "state.lam[1] is nan; it must be finite"),
    "a multiplier too many": ("lam", lambda a: np.append(a, 0.0), "state.lam has shape (3,); it must be (2,)"),
    "a plan that is nan": ("plan", put(0, np.nan), "state.plan[0] is nan; it must be finite"),
    "threshold samples that are inf": ("alpha_sum", put(0, np.inf), "state.alpha_sum[0] is inf; it must be finite"),
    "more samples than steps": ("alpha_count", put(0, 1e6), "state.alpha_count[0] is 1000000.0; it must lie in"),
    "half a sample": ("alpha_count", added(0, -0.5), "state.alpha_count[0] must hold whole numbers"),
}


@pytest.mark.parametrize("case", STATE)
def test_a_state_that_does_not_fit_together_is_refused(saved: Path, case: str) -> None:
    name, change, message = STATE[case]
    changed(saved, f"state.{name}", change)
    text = refusal(saved)
    assert "does not hold a valid learner" in text
    assert message in text


NAMES = [
    "n_cells", "n_visits", "state_of", "length", "pool_cell", "pool_count", "n_tried", "tried", "sum_r", "sum_d",
    "logits", "pi", "entropy", "untried", "lam", "plan", "alpha_sum", "alpha_count",
]  # fmt: skip


def test_every_array_of_the_state_is_known_to_these_tests(saved: Path) -> None:
    assert {name[6:] for name in stored(saved) if name.startswith("state.")} == set(NAMES)
    assert {name for name, _, _ in STATE.values()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_part_of_the_state_is_refused(saved: Path, name: str) -> None:
    forge(saved, **{f"state.{name}": None})
    assert f"state.{name} is missing" in refusal(saved)


def test_an_unknown_part_of_the_state_is_refused(saved: Path) -> None:
    forge(saved, **{"state.more": np.ones(1)})
    assert "state has 'more', which is not known here" in refusal(saved)


def test_a_learner_that_claims_more_episodes_than_it_saw_is_refused(saved: Path) -> None:
    forge(saved, lambda header: {**header, "episode": 36})
    assert "every step must have one in each of at least 36 episodes" in refusal(saved)


def test_a_refused_state_changes_nothing() -> None:
    learner = example()
    state = {**learner.state(), "alpha_count": np.array([np.nan])}
    before = bits(learner)
    with pytest.raises(fd.ValidationError, match="alpha_count"):
        learner.restore(state)
    assert bits(learner) == before


def use(path: Path) -> None:
    """Load, run and save: either the file is refused, or the learner works."""
    try:
        learner = fd.load_learner(path)
    except fd.FileFormatError as error:
        assert "does not hold a valid learner" in str(error)  # noqa: PT017  either outcome is right
        return
    cmdp = small_cmdp(m=2, law="steps")
    problem = learner.problem
    if (problem.states, problem.actions, problem.horizon, problem.constraints) == (5, 3, 4, 2):
        with np.errstate(all="raise", under="ignore"):
            world = World(cmdp)
            for _ in range(3):
                try:
                    learner.observe(world.play(UNIFORM))
                except fd.ValidationError as error:  # a table of its own that ends here, or a product above one
                    assert "episode" in str(error)  # noqa: PT017
                    break
        policy = learner.policy
        np.testing.assert_allclose(policy.sum(axis=-1), 1.0, atol=1e-8)
        assert (policy >= 0).all()
        assert np.isfinite(learner.multipliers).all()


NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 3, 7, 8, 15, 31, 32, 95, 96, 2**31, 2**62, -(2**62), 0.5, np.nan, np.inf, 1e300]),
    st.floats(),
    st.integers(-(2**62), 2**62),
)


@settings(SHARED, max_examples=300)
@given(data=st.data(), value=NUMBERS, name=st.sampled_from(NAMES))
def test_any_number_in_place_of_another_is_refused_or_harmless(
    path: Path, data: st.DataObject, value: float, name: str
) -> None:
    if not path.exists():
        example().save(path)
    original = path.read_bytes()
    array = stored(path)[f"state.{name}"]
    wide = array.astype(np.int64 if isinstance(value, int) else np.float64)
    wide.flat[data.draw(st.integers(0, wide.size - 1))] = value
    forge(path, **{f"state.{name}": wide})
    use(path)
    path.write_bytes(original)


@settings(SHARED, max_examples=150)
@given(data=st.data())
def test_any_array_in_place_of_another_is_refused_or_harmless(path: Path, data: st.DataObject) -> None:
    if not path.exists():
        example().save(path)
    original = path.read_bytes()
    name = data.draw(st.sampled_from(sorted(stored(path))))
    dtype = data.draw(st.sampled_from(("?", "i1", ">i4", "u8", "f2", "<f4", ">f8")))
    shape = data.draw(st.sampled_from([stored(path)[name].shape]) | st.lists(st.integers(0, 4), max_size=3))
    forge(path, **{name: np.full(shape, data.draw(st.integers(0, 3)), dtype=dtype)})
    use(path)
    path.write_bytes(original)


HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "a version of the future": ({"version": 2}, "has version 2 of flexdome-learner; this program reads version 1"),
    "a key too many": ({"more": 1}, "header has ['episode', 'first', 'format', 'learner', 'more', 'options', ...]; it"),
    "a key too few": ({"first": ...}, "header has ['episode', 'format', 'learner', 'options', 'problem', "),
    "an unknown learner": ({"learner": "other"}, "learner is 'other'; it is not registered here"),
    "a learner that is a list": ({"learner": ["flexdome"]}, "learner is ['flexdome']; it is not registered here"),
    "options that are a list": ({"options": []}, "options is []; it must be an object"),
    "an unknown option": ({"options": {"speed": 3}}, "speed"),
    "the problem among the options": ({"options": {"problem": 3}}, "problem"),
    "a bad option": ({"options": {"delta": 7}}, "delta is 7.0; it must be in [0, 1]"),
    "an option of the wrong kind": ({"options": {"margin": 1}}, "margin is 1; it must be True or False"),
    "a negative episode": ({"episode": -1}, "episode is -1; it must be between 0 and"),
    "a fraction of an episode": ({"episode": 1.5}, "episode is 1.5; it must be a whole number"),
    "a huge episode": ({"episode": 10**30}, "episode is 1000000000000000000000000000000; it must"),
    "a problem that is a word": ({"problem": "x"}, "problem has 'x'; it must have"),
    "a problem without states": ({"problem": {}}, "problem has []; it must have"),
    "schedules that are a number": ({"schedules": 3}, "schedules has 3; it must have eta, margin, tau"),
    "no schedules where there are tables": ({"schedules": None}, "arrays has"),
    "an unknown schedule": (
        {"schedules": {"eta": {"cosine": [1]}, "tau": {"constant": 0.1}, "margin": {"constant": 0}}},
        "schedules.eta is {'cosine': [1]}; that is not known here",
    ),
    "a schedule with two kinds": (
        {"schedules": {"eta": {"power": [1, 0], "table": []}, "tau": {"constant": 0.1}, "margin": {"constant": 0}}},
        "schedules.eta is {'power': [1, 0], 'table': []}; it must be an object with one key",
    ),
    "a power of four numbers": (
        {"schedules": {"eta": {"table": []}, "tau": {"power": [1, 2, 3, 4]}, "margin": {"constant": 0}}},
        "schedules.tau is {'power': [1, 2, 3, 4]}; that is not known here",
    ),
    "a step that is negative": (
        {"schedules": {"eta": {"table": []}, "tau": {"constant": -1}, "margin": {"constant": 0}}},
        "tau at episode 1 is -1.0; it must lie in [0, 1e+100]",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_lies_is_refused(saved: Path, case: str) -> None:
    changes, message = HEADERS[case]
    forge(saved, lambda header: {k: v for k, v in {**header, **changes}.items() if v is not ...})
    assert message in refusal(saved)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("states", 6, "initial has shape (5,)"),
        ("states", 10**12, "states is 1000000000000; it must be between"),
        ("actions", 4, "state.n_visits has shape"),
        ("actions", 2**31 - 1, "cells; this learner counts at most"),
        ("horizon", 3, "state.n_cells has shape (4,); it must be (3,)"),
        ("horizon", 10**9, "horizon is 1000000000; the file holds less than one number for each step"),
        ("horizon", 2.5, "horizon is 2.5; it must be a whole number"),
        ("slater_gap", -1, "slater_gap is -1.0; it must be positive"),
        ("slater_gap_exact", 3, "slater_gap_exact is 3; it must be True or False"),
        ("stationary", None, "stationary is None; it must be True or False"),
    ],
)
def test_a_problem_that_lies_is_refused(saved: Path, key: str, value: Any, message: str) -> None:
    forge(saved, lambda header: {**header, "problem": {**header["problem"], key: value}})
    assert message in refusal(saved)


ARRAYS: dict[str, tuple[str, Any, str]] = {
    "an initial distribution that does not sum to one": ("problem.initial", lambda a: 2 * a, "initial sums to 2.0"),
    "thresholds that are not the last ones": (
        "problem.thresholds",
        lambda a: np.full(2, 0.25),
        "does not end with the",
    ),
    "another number of thresholds": ("problem.thresholds", lambda a: a[:1], "thresholds has 1 entries; there were 2"),
    "thresholds above H": (
        "first.thresholds",
        lambda a: np.full(2, 9.0),
        "thresholds[0] is 9.0; it must lie in [0, H]",
    ),
    "changes in the future": ("changes.episode", put(1, 99), "changes.episode is [0.0, 99.0]; it must rise from 0 to"),
    "changes before the start": ("changes.episode", put(0, -1), "it must rise from 0 to 30 at most"),
    "changes out of order": ("changes.episode", lambda a: a[::-1], "it must rise from 0 to 30 at most"),
    "changes at half an episode": (
        "changes.episode",
        lambda a: a + np.array([0.5, 0]),
        "it must rise from 0 to 30 at most",
    ),
    "changes that are nan": ("changes.episode", lambda a: a * np.nan, "changes.episode[0] is nan; it must be finite"),
    "changes without thresholds": ("changes.thresholds", lambda a: a[:1], "changes has shapes (2,) and (1, 2)"),
    "a schedule that is nan": ("schedule.eta", put(7, np.nan), "schedule.eta[7] is nan; it must be finite"),
    "a schedule in a table": ("schedule.eta", lambda a: a[None], "schedule.eta has shape (1, 201); it must have a row"),
    "a schedule without values": ("schedule.eta", lambda a: a[:0], "eta at episode 1 is unknown"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_break_a_rule_are_refused(saved: Path, case: str) -> None:
    name, change, message = ARRAYS[case]
    changed(saved, name, change)
    text = refusal(saved)
    assert "does not hold a valid learner" in text
    assert message in text


@pytest.mark.parametrize("name", ["problem.initial", "problem.thresholds", "changes.episode", "schedule.eta"])
def test_a_missing_array_is_refused(saved: Path, name: str) -> None:
    forge(saved, **{name: None})
    refusal(saved)


def test_an_array_that_belongs_nowhere_is_refused(saved: Path) -> None:
    forge(saved, more=np.ones(3))
    assert "arrays has" in refusal(saved)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(SHARED, max_examples=200)
@given(data=st.data(), value=JSON)
def test_any_value_in_the_header_is_refused_or_harmless(path: Path, data: st.DataObject, value: Any) -> None:
    if not path.exists():
        example().save(path)
    original = path.read_bytes()
    header = read_archive(path, "flexdome-learner", 1)[0]
    places = [(key,) for key in header if key not in ("format", "version")]
    places += [(key, inner) for key in header if isinstance(header[key], dict) for inner in header[key]]
    place = data.draw(st.sampled_from(places))
    changed_header = json.loads(json.dumps(header))
    inner = changed_header
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    forge(path, lambda _: changed_header)
    use(path)
    path.write_bytes(original)


def test_a_member_is_never_unpickled(saved: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    stream = io.BytesIO()
    np.save(stream, np.array([Trap()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, stream.getvalue() if name == "state.pi.npy" else data)
    assert "'state.pi.npy' that does not hold plain numbers" in refusal(saved)
    assert not (tmp_path / "sprung").exists()


def test_a_shifted_schedule_resumes_bit_for_bit(tmp_path: Path) -> None:
    from flexdome.theory.schedules import Power

    cmdp = fd.make_cmdp("media-v1")
    schedules = fd.Schedules(Power(1.0, -0.5, shift=2.0), Power(1.0, -0.4, shift=2.0))
    learner = fd.FlexDOME(cmdp.problem(), episodes=100, schedules=schedules)
    fd.simulate(learner, cmdp, episodes=30)
    learner.save(tmp_path / "learner")
    again = fd.load_learner(tmp_path / "learner")
    for each in (learner, again):
        fd.simulate(each, cmdp, episodes=30)
    assert (learner.policy == again.policy).all()
