"""Kernels compiled ahead."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from flexdome.cli import main
from flexdome.experiments import (
    ExperimentSpec,
    LearnerSpec,
    Processes,
    RunSpec,
    Store,
    compiling,
    driver,
    run_experiments,
)
from flexdome.experiments.compiling import is_compiled, mark_compiled, seconds_to_compile
from flexdome.experiments.warmup import warm_up
from flexdome.experiments.worker import attempt
from flexdome.kernels.jit import cache_directory


def test_what_was_compiled_ahead_is_in_the_cache() -> None:
    done = dict(warm_up(["rpd-oe", "flexdome"], workers=1))
    assert set(done) == {"rpd-oe", "flexdome"}
    folder = cache_directory()
    assert folder is not None
    assert list(folder.rglob("*run_primal_dual*.nbc"))


def test_a_run_says_that_it_compiles_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = tmp_path / "one.toml"
    experiment.write_text(
        'episodes = 3\nseeds = [0]\n[[environments]]\nid = "media-v1"\n[[learners]]\nid = "flexdome"\n'
    )
    words = ["run", str(experiment), "--workers", "0", "--out"]
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("flexdome.kernels.jit.cache_directory", lambda other=None: tmp_path / "empty")
    assert main([*words, str(tmp_path / "cold")]) == 0
    assert "compiling, about 9 s, once" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "warm")]) == 0
    assert "compiling" not in capsys.readouterr().err


@pytest.mark.parametrize("other", ["python", "place", "time"])
def test_another_installation_is_told_that_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    (tmp_path / "kernels-0").mkdir()
    monkeypatch.setattr("flexdome.kernels.jit.cache_directory", lambda other=None: tmp_path / "kernels-0")
    compiling._place.cache_clear()
    mark_compiled("flexdome", 4.0)
    assert is_compiled("flexdome")
    assert seconds_to_compile(["flexdome"]) == 0
    source = tmp_path / "kernel.py"
    source.touch()
    if other == "python":
        monkeypatch.setattr(compiling.sys.implementation, "cache_tag", "cpython-399")
    else:
        monkeypatch.setattr("flexdome.kernels.jit.kernel_sources", lambda: [source])
    compiling._place.cache_clear()
    if other == "time":
        mark_compiled("flexdome", 4.0)
        os.utime(source, (1.0, 1.0))
        compiling._place.cache_clear()
    assert not is_compiled("flexdome")
    assert seconds_to_compile(["flexdome"]) == 4
    monkeypatch.undo()
    compiling._place.cache_clear()


def test_learners_of_different_kernels_are_compiled_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    class Watched(Processes):
        def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            calls.append(("worker", arguments[0]["learner"]["id"]))
            return super().submit(function, *arguments)

    def here(run: RunSpec, store: Store) -> None:
        calls.append(("here", run.learner.id))
        compile_here(run, store)

    compile_here = driver._compile_here
    monkeypatch.setattr(driver, "_compile_here", here)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("flexdome.kernels.jit.cache_directory", lambda other=None: tmp_path / "empty")
    ids = ("flexdome", "optprimaldual", "uopt-rpgpd")
    learners = [LearnerSpec(id=id) for id in ids]
    spec = ExperimentSpec(name="two", episodes=3, seeds=[0], environments=[{"id": "media-v1"}], learners=learners)
    assert run_experiments([spec], Store(tmp_path / "out"), Watched(1)).computed == 3
    assert calls[:3] == [("worker", "flexdome"), ("here", "uopt-rpgpd"), ("here", "optprimaldual")]
    marks = sorted(path.name for path in (tmp_path / "empty").glob("compiled-*"))
    assert [mark.rpartition("-")[0] for mark in marks] == [f"compiled-{id}" for id in ids]


def test_a_worker_that_dies_while_it_compiles_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "attempt", die_once)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("flexdome.kernels.jit.cache_directory", lambda other=None: tmp_path / "empty")
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    learners = [LearnerSpec(id="flexdome"), LearnerSpec(id="uopt-rpgpd")]
    spec = ExperimentSpec(name="two", episodes=3, seeds=[0], environments=[{"id": "media-v1"}], learners=learners)
    outcome = run_experiments([spec], Store(tmp_path / "out"), Processes(1))
    assert (tmp_path / "died").exists()
    assert outcome.computed == 2


def die_once(*arguments: Any) -> Any:
    """In a worker: die the first time."""
    if not Path(os.environ["DIED"]).exists():
        Path(os.environ["DIED"]).touch()
        os._exit(1)
    return attempt(*arguments)


def test_learners_side_by_side_are_expected_to_take_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flexdome.kernels.jit.cache_directory", lambda other=None: tmp_path)
    ids = ["flexdome", "uopt-rpgpd", "optpess-pd"]
    assert [seconds_to_compile(ids), seconds_to_compile(ids, 2), seconds_to_compile(ids, 8)] == [27, 14, 9]


def test_the_command_says_what_it_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "flexdome", "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("flexdome: ")


def test_a_learner_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "flexdom"]) == 2
    assert "learners has 'flexdom'; it must be one of flexdome" in capsys.readouterr().err
