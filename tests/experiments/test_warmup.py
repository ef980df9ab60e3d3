"""Kernels compiled ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from flexdome.cli import main
from flexdome.experiments.warmup import warm_up
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
    monkeypatch.setattr("flexdome.kernels.jit.cache_directory", lambda: tmp_path / "empty")
    assert main([*words, str(tmp_path / "cold")]) == 0
    assert "compiling, about 9 s, once" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "warm")]) == 0
    assert "compiling" not in capsys.readouterr().err


def test_the_command_says_what_it_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "flexdome", "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("flexdome: ")


def test_a_learner_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "flexdom"]) == 2
    assert "learners has 'flexdom'; it must be one of flexdome" in capsys.readouterr().err
