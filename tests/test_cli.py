"""The command line as a user types it."""

import subprocess
import sys

import pytest

import flexdome as fd
from flexdome.cli import main


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("list", "solve", "reproduce"))


def test_list_shows_every_environment(capsys):
    assert main(["list", "environments"]) == 0
    out = capsys.readouterr().out
    assert all(id in out for id in fd.ENVIRONMENTS)


def test_list_shows_every_learner_with_its_claims(capsys):
    assert main(["list", "learners"]) == 0
    out = capsys.readouterr().out
    assert all(id in out for id in fd.LEARNERS)
    assert "T^(5/6), strong" in out


def test_solve_prints_the_exact_optimum(capsys):
    assert main(["solve", "media-v1"]) == 0
    out = capsys.readouterr().out
    assert f"{fd.solve(fd.make_cmdp('media-v1')).value:.6f}" in out


def test_solve_reads_a_saved_model(tmp_path, capsys):
    path = tmp_path / "model.npz"
    fd.save_cmdp(fd.make_cmdp("media-v1"), path)
    assert main(["solve", str(path), "--method", "lp"]) == 0
    assert "3.253" in capsys.readouterr().out


def test_reproduce_prints_one_column_per_instance(capsys):
    assert main(["reproduce", "--seeds", "2"]) == 0
    out = capsys.readouterr().out
    assert "seed 0" in out
    assert "seed 1" in out
    assert "seed 2" not in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["solve", "papr-v1"], 2, "did you mean paper-v1"),
        (["solve", "missing.npz"], 2, "does not exist"),
        (["solve", "paper-v1", "--seed", "-1"], 2, "seed is -1"),
        (["reproduce", "--seeds", "0"], 2, "seeds is 0"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(words, code, message, capsys):
    assert main(words) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("flexdome: ")
    assert err.count("\n") == 1


def test_debug_shows_the_traceback():
    with pytest.raises(fd.ValidationError):
        main(["solve", "papr-v1", "--debug"])


def test_an_infeasible_model_has_an_exit_code_of_its_own(tmp_path, capsys):
    path = tmp_path / "tight.npz"
    fd.save_cmdp(fd.CMDP([[[1.0]]], [[0.5]], [[[0.5]]], [0.9], 0, horizon=1), path)
    assert main(["solve", str(path)]) == 3
    assert "cannot be met" in capsys.readouterr().err


def test_unknown_options_are_refused():
    with pytest.raises(SystemExit) as stop:
        main(["solve", "paper-v1", "--sede", "3"])
    assert stop.value.code == 2


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "flexdome", "solve", "nothing-v1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
