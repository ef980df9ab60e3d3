"""The command line as a user types it."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

import flexdome as fd
from flexdome.cli import main
from flexdome.cli.commands import COMMANDS


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)
    assert "--version" in out


def test_warmup_says_what_it_takes(capsys):
    with pytest.raises(SystemExit):
        main(["warmup", "--help"])
    out = capsys.readouterr().out
    assert "flexdome warmup [-h] [LEARNER ...]" in out
    assert "ids of learners (default: all)" in out


def test_list_shows_every_environment(capsys):
    assert main(["list", "environments"]) == 0
    out = capsys.readouterr().out
    assert all(id in out for id in fd.ENVIRONMENTS)


def test_list_shows_every_learner_with_its_claims(capsys):
    assert main(["list", "learners"]) == 0
    out = capsys.readouterr().out
    assert all(id in out for id in fd.LEARNERS)
    assert "T^(5/6), strong" in out


def test_list_learners_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    assert main(["list", "learners"]) == 0
    rows = re.sub("\x1b[^m]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, rows)) <= 80
    assert len(rows) < 80
    assert sum(row.startswith((" uopt-rpgpd ", " optcmdp-bonus ")) for row in rows) == 2


def test_show_says_what_a_learner_needs_claims_and_takes(capsys):
    assert main(["show", "dope"]) == 0
    out = capsys.readouterr().out
    for text in (
        "version 1",
        "program of S^2 A H variables",
        "safe policy, known thresholds",
        "zero, strong",
        "replan",
    ):
        assert text in out


@pytest.mark.parametrize(
    ("id", "lines"),
    [
        (
            "flexdome",
            [
                "claimed     regret T^(5/6), strong; violation near-constant, strong; last iterate",
                "            margin = True: False switches the safety margin off (an ablation)",
                "            scale_entropy_bonus = True: whether c_b scales the entropy's bonus too",
            ],
        ),
        ("guard", ["claimed     no rate of regret; violation zero, strong"]),
        ("proxdome", ["claimed     nothing"]),
    ],
)
def test_show_explains_claims_and_options(id, lines, capsys):
    assert main(["show", id]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


def test_every_option_of_our_learners_is_explained(capsys):
    for id in fd.LEARNERS:
        assert main(["show", id]) == 0
        options = capsys.readouterr().out.partition("\noption ")[2].splitlines()
        assert not [line for line in options if not re.search(r"[a-z_]+( = .+)?: \S", line)]


def test_show_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    assert main(["show", "flexdome"]) == 0
    rows = re.sub("\x1b[^m]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[0].split() == ["learner", "flexdome,", "version", "2"]


def test_show_says_how_large_an_environment_is(capsys):
    assert main(["show", "paper-v1"]) == 0
    out = capsys.readouterr().out
    assert "20 states, 5 actions, 5 steps, 1 constraint, thresholds 2.497" in out
    assert "horizon = 5" in out


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"flexdome {fd.__version__}\n"


def test_solve_prints_the_exact_optimum(capsys):
    assert main(["solve", "media-v1"]) == 0
    out = capsys.readouterr().out
    assert f"{fd.solve(fd.make_cmdp('media-v1')).value:.6f}" in out


def test_solve_reads_a_saved_model(tmp_path, capsys):
    path = tmp_path / "model.npz"
    fd.save_cmdp(fd.make_cmdp("media-v1"), path)
    assert main(["solve", str(path), "--method", "lp"]) == 0
    assert "3.253" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["solve", "papr-v1"], 2, "did you mean paper-v1"),
        (["solve", "missing.npz"], 2, "does not exist"),
        (["solve", "paper-v1", "--seed", "-1"], 2, "seed is -1"),
        (["show", "flexdom"], 2, "unknown learner or environment 'flexdom'; did you mean flexdome?"),
        (["run", "fixd"], 2, "did you mean fixed"),
        (["run", "missing.toml"], 2, "missing.toml cannot be read"),
        (["run", "fixed", "--episodes", "0"], 2, "episodes is 0"),
        (["run", "fixed", "--workers", "-1"], 2, "workers is -1"),
        (["compare", "fixed", "--out", "nowhere"], 2, "15 of 15 runs of fixed are not in nowhere"),
        (["compare", "fixed", "--baseline", "FlexDOM"], 2, "did you mean FlexDOME"),
        (["resume", "nowhere"], 2, "nowhere holds no experiment"),
        (["status", "nowhere"], 2, "nowhere holds no experiment"),
        (["report", "nowhere"], 2, "nowhere holds no experiment"),
        (["sweep", "flexdome", "paper-v1", "--option", "margin_scale"], 2, "it must be NAME=A,B,..."),
        (["sweep", "flexdome", "paper-v1", "--option", "margin=1", "margin=2"], 2, "option 'margin' is given twice"),
        (["sweep", "flexdom", "paper-v1", "--option", "margin=1"], 2, "did you mean flexdome"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(words, code, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("flexdome: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


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


# -- experiments -----------------------------------------------------------------------------------------------------

SMALL = """
episodes = 60
seeds = [0, 1]
environments = [{id = "media-v1"}, {id = "multi-v1"}]
learners = [{id = "flexdome", label = "ours"}, {id = "rpd-oe", options = {tuning = "practical"}}]
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def test_list_shows_every_experiment_of_ours(capsys):
    assert main(["list", "experiments"]) == 0
    out = capsys.readouterr().out
    assert "ablations-wide" in out
    assert "Figure 1, top row" in out


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_explains_itself_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"\n  flexdome {command}" in capsys.readouterr().out


def test_run_computes_once_and_shows_the_table(small, capsys):
    assert main(["run", "small.toml", "--workers", "0"]) == 0
    first = capsys.readouterr()
    assert "8 runs computed, 0 there already" in first.out
    assert "strong violation" in first.out
    assert "8 of 8 runs" in first.err
    assert main(["run", "small.toml", "--workers", "0"]) == 0
    assert "0 runs computed, 8 there already" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_full_disk_has_the_exit_code_of_output_that_cannot_be_written(command, small, capsys, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    workers = ["--workers", "0"]
    if command == "compare":
        assert main(["run", "small.toml", *workers]) == 0
    monkeypatch.setattr("flexdome.cmdp.archive.os.fsync", full)
    assert main([command, "small.toml", *(workers if command == "run" else [])]) == 1
    assert "cannot be written: No space left on device" in capsys.readouterr().err


def test_labels_are_shown_as_they_were_written(small, capsys):
    (small / "small.toml").write_text(SMALL.replace("ours", "[/b] [red]x[/red] :smile:"))
    assert main(["run", "small.toml", "--workers", "0", "--episodes", "9", "--seeds", "0"]) == 0
    assert "[/b] [red]x[/red] :smile:" in capsys.readouterr().out


def test_run_takes_other_seeds_and_episodes(small, capsys):
    assert main(["run", "small.toml", "--workers", "0", "--episodes", "9", "--seeds", "3", "--instance", "1"]) == 0
    out = capsys.readouterr().out
    assert "4 runs computed" in out
    assert "9 episodes, 1 seed" in out


def test_compare_writes_the_figure_and_the_differences(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    capsys.readouterr()
    assert main(["compare", "small", "--baseline", "ours", "--metric", "strong_regret"]) == 0
    out = capsys.readouterr().out
    assert "less that of ours" in out
    for suffix in ("png", "svg", "pdf", "parquet"):
        assert (small / "results" / "figures" / f"small.{suffix}").stat().st_size > 500


def test_sweep_ranks_every_combination(small, capsys):
    words = [
        "sweep",
        "flexdome",
        "media-v1",
        "multi-v1",
        "--option",
        "margin_scale=0,1e-4",
        "unvisited=paper,optimistic",
    ]
    assert main([*words, "--episodes", "30", "--seeds", "0", "--workers", "0"]) == 0
    out = capsys.readouterr().out
    assert "8 runs computed" in out
    assert all(f"margin_scale={c}, unvisited={u}" in out for c in ("0", "0.0001") for u in ("paper", "optimistic"))
    assert (small / "results" / "figures" / "sweep.png").stat().st_size > 500
    words += ["--score", "strong_regret + 10 * late_violation", "--over", "worst"]
    assert main([*words, "--episodes", "30", "--seeds", "0", "--workers", "0"]) == 0
    assert "strong_regret + 10 * late_violation, worst" in capsys.readouterr().out
    assert main([*words[:6], "--score", "strong_regrets", "--workers", "0"]) == 2
    assert "did you mean strong_regret" in capsys.readouterr().err


def test_status_and_resume_know_what_was_asked_for(small, capsys):
    from flexdome.experiments import Store, load_experiment

    main(["run", "small.toml", "--workers", "0"])
    store = Store(small / "results")
    run = next(load_experiment(small / "small.toml").runs())
    store.discard(run)
    capsys.readouterr()
    assert main(["status", "results", "--verify"]) == 0
    assert "420 of 480" in capsys.readouterr().out
    assert main(["resume", "results", "--workers", "0"]) == 0
    assert "1 run computed, 7 there already" in capsys.readouterr().out
    assert store.has(run)


def test_status_tells_a_script_that_files_are_damaged(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    path = next(small.glob("results/runs/*/history.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["status", "results", "--verify"]) == 2
    assert "1 run damaged" in capsys.readouterr().err
    assert main(["status", "results"]) == 0


def test_sweep_takes_a_model_file(small, capsys):
    fd.save_cmdp(fd.make_cmdp("media-v1"), small / "mine.npz")
    words = ["sweep", "flexdome", "mine.npz", "--option", "margin_scale=0,1e-4", "--episodes", "9", "--seeds", "0"]
    assert main([*words, "--workers", "0"]) == 0
    assert "2 runs computed" in capsys.readouterr().out


BROKEN = """
from flexdome import FlexDOME


class Broken(FlexDOME):
    id = "broken"

    def observe(self, episode):
        raise RuntimeError("a bug of its own")
"""


def test_a_failing_run_is_an_error_after_the_others_are_done_with_its_traceback_kept(small, capsys, monkeypatch):
    (small / "broken_learner.py").write_text(BROKEN)
    (small / "small.toml").write_text(
        SMALL.replace('"rpd-oe", options = {tuning = "practical"}', '"broken_learner:Broken"')
    )
    monkeypatch.syspath_prepend(small)
    assert main(["run", "small.toml", "--workers", "1"]) == 5
    captured = capsys.readouterr()
    assert "4 runs computed" in captured.out
    assert "4 runs failed: RuntimeError: a bug of its own" in captured.err
    assert 'broken_learner.py", line 9, in observe' in captured.err
    assert main(["status", "results", "--failures"]) == 0
    out = capsys.readouterr().out
    assert "failed: 4 runs of broken_learner:Broken: RuntimeError: a bug of its own" in out
    assert out.count('broken_learner.py", line 9, in observe') == 4
    assert out.count(", in episode 1 or later:\n") == 4
    assert main(["compare", "small"]) == 2
    err = capsys.readouterr().err
    assert "4 of 8 runs of small are not in results (4 failed: `flexdome status results --failures` shows why)" in err
    assert "--skip-missing goes on without them" in err
    assert main(["compare", "small", "--skip-missing", "--baseline", "ours"]) == 0
    captured = capsys.readouterr()
    assert "4 runs are missing" in captured.out
    assert "skipped: 4 of 8 runs" in captured.err
    with pytest.raises(RuntimeError, match="a bug of its own"):
        main(["run", "small.toml", "--workers", "0"])
    (small / "broken_learner.py").write_text(BROKEN.replace("raise RuntimeError", "super().observe(episode) or str"))
    words = [sys.executable, "-m", "flexdome", "run", "small.toml", "--workers", "0"]
    mended = subprocess.run(words, env=os.environ | {"PYTHONPATH": f"{small}:{os.environ.get('PYTHONPATH', '')}"})
    assert mended.returncode == 0


def test_tables_come_as_latex_csv_and_markdown(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    capsys.readouterr()
    assert main(["compare", "small", "--metrics", "weak_regret", "crossings", "--format", "latex"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("\\begin{tabular}{llrr}\n\\hline\nenvironment & learner & weak regret & crossings")
    assert "small.png" in captured.err
    assert main(["compare", "small", "--format", "csv"]) == 0
    rows = pl.read_csv(io.StringIO(capsys.readouterr().out))
    assert rows.columns[:5] == ["environment", "learner", "metric", "n", "mean"]
    assert rows.height == 2 * 2 * 5
    assert main(["compare", "small", "--format", "markdown", "--baseline", "ours"]) == 0
    first, second = capsys.readouterr().out.split("\n\nstrong violation after 60 episodes, less that of ours")
    assert first.startswith("small: 60 episodes, 2 seeds, mean ± standard error\n\n| environment | learner | strong")
    assert second.startswith(" in the same run: mean ± standard error of 2 pairs and 95 % interval\n\n| environment |")


def test_compare_says_which_of_two_experiments_of_one_name_it_takes(small, capsys):
    from flexdome.experiments import load_experiment

    spec = load_experiment("small.toml")
    first, second = (spec.changed(episodes=episodes, seeds=[0]) for episodes in (8, 9))
    for episodes in ("8", "9"):
        main(["run", "small.toml", "--workers", "0", "--episodes", episodes, "--seeds", "0"])
    capsys.readouterr()
    assert main(["compare", "small"]) == 0
    captured = capsys.readouterr()
    assert "small: 9 episodes" in captured.out
    assert captured.err == (
        f"flexdome: small is small-{second.id} (9 episodes, 1 seed, 2 learners), the latest of 2 in results; "
        f"give NAME-ID for another: small-{first.id} (8 episodes, 1 seed, 2 learners)\n"
    )
    assert main(["compare", f"small-{first.id}"]) == 0
    captured = capsys.readouterr()
    assert "small: 8 episodes" in captured.out
    assert not captured.err


def test_csv_with_a_baseline_is_one_table_of_numbers(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    capsys.readouterr()
    assert main(["compare", "small", "--format", "csv", "--baseline", "ours", "--metric", "last_gap"]) == 0
    rows = pl.read_csv(io.StringIO(capsys.readouterr().out))
    assert rows.select("environment", "learner", "baseline", "metric", "episodes", "n").rows() == [
        (place, "rpd-oe", "ours", "last_gap", 60, 2) for place in ("media-v1", "multi-v1")
    ]
    assert all(rows[name].dtype == pl.Float64 for name in ("mean", "se", "low", "high"))
    assert (rows["low"] <= rows["mean"]).all()
    assert (rows["lower"] + rows["equal"] + rows["higher"] == 2).all()


def test_a_row_says_of_how_many_runs_it_is_where_some_are_missing(small, capsys):
    from flexdome.experiments import Store, load_experiment

    main(["run", "small.toml", "--workers", "0"])
    capsys.readouterr()
    runs = list(load_experiment("small.toml").runs())
    words = ["compare", "small", "--skip-missing", "--format", "markdown", "--metrics", "crossings"]
    assert main(words) == 0
    assert "| environment | learner | crossings |" in capsys.readouterr().out
    Store("results").discard(runs[0])
    assert main([*words, "--baseline", "ours"]) == 0
    out = capsys.readouterr().out
    assert "1 run is missing" in out
    assert "| environment | learner | runs | crossings |" in out
    assert "| media-v1 | ours | 1 |" in out
    assert "| media-v1 | rpd-oe | 2 |" in out
    assert "| interval | pairs | lower |" in out
    Store("results").discard(runs[3])
    assert main([*words, "--baseline", "ours"]) == 0  # seed 1 of the one, seed 0 of the other: no pair
    assert "| media-v1 | rpd-oe | 1 |" in capsys.readouterr().out


NARROW = """
episodes = 9
seeds = [0, 1]
environments = [{id = "media-v1"}, {id = "multi-v1"}]
learners = [{id = "flexdome", label = "FlexDOME, practical"}, {id = "rpd-oe", label = "A-learner-of-one-long-word"}]
"""


def test_no_word_is_split_on_a_narrow_terminal(small, capsys, monkeypatch):
    (small / "narrow.toml").write_text(NARROW)
    main(["run", "narrow.toml", "--workers", "0"])
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    shown = []
    for words in (["compare", "narrow", "--baseline", "FlexDOME, practical"], ["status", "results"]):
        assert main(words) == 0
        shown.append(re.sub("\x1b[^m]*m", "", capsys.readouterr().out))
        assert max(map(len, shown[-1].splitlines())) <= 80
    whole = {word for text in shown for word in text.split()}
    assert {"environment", "A-learner-of-one-long-word", "FlexDOME,", "violation", "difference", "experiment"} <= whole
    assert any(re.fullmatch("[0-9a-f]{16}", word) for word in whole)
    assert re.search(r"A-learner-of-one-long-word +-?[0-9.]+ ± [0-9.]+", shown[0])


def test_figures_show_the_metrics_that_are_asked_for(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    words = ["compare", "small", "--curves", "weak_regret", "strong_violation", "--constraints", "--log", "both"]
    assert main(words) == 0
    drawn = pl.read_parquet(small / "results" / "figures" / "small.parquet")
    assert {f"strong_violation_{i}" for i in range(3)} < set(drawn["metric"])


def test_status_watches_until_everything_is_done(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    capsys.readouterr()
    assert main(["status", "results", "--watch", "--every", "0.1"]) == 0
    assert "480 of 480" in capsys.readouterr().out


def test_status_watched_by_a_pipe_says_what_changed_when_it_does(small, capsys, monkeypatch):
    from flexdome.cli import look
    from flexdome.experiments import Store, load_experiment

    main(["run", "small.toml", "--workers", "0"])
    store, spec = Store(small / "results"), load_experiment("small.toml")
    runs, said = list(spec.runs()), []
    for run in runs[:2]:
        store.discard(run)
    capsys.readouterr()

    def rest(seconds):
        said.append(capsys.readouterr().out)
        if len(said) == 2:
            main(["resume", "results", "--workers", "0"])
            capsys.readouterr()

    monkeypatch.setattr(look.time, "sleep", rest)
    assert main(["status", "results", "--watch"]) == 0
    begun = f"small-{spec.id}: 6 of 8 runs complete, 0 under way, 0 failed, 360 of 480 episodes\n"
    assert said == [begun, ""]
    assert capsys.readouterr().out == begun.replace("6 of 8", "8 of 8").replace("360", "480")


def test_force_computes_again(small, capsys):
    main(["run", "small.toml", "--workers", "0"])
    capsys.readouterr()
    assert main(["run", "small.toml", "--workers", "0", "--force"]) == 0
    assert "8 runs computed, 0 there already" in capsys.readouterr().out


def test_ctrl_c_says_how_to_go_on_and_the_same_command_goes_on(small):
    words = [sys.executable, "-m", "flexdome", "run", "small.toml", "--episodes", "5000000", "--workers", "2"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not list(small.glob("results/runs/*/checkpoint.json")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "flexdome resume results" in err
    assert "Traceback" not in err
    assert list(small.glob("results/runs/*/checkpoint.json"))


def test_reproduce_makes_every_figure_and_says_what_does_not_hold(small, capsys, monkeypatch):
    from flexdome import figures
    from flexdome.cli import reproduce

    drawn, save = {}, figures.save

    def kept(figure, stem, **more):
        drawn[stem.name] = figure
        return save(figure, stem, **more)

    monkeypatch.setattr(figures, "save", kept)
    monkeypatch.setattr(reproduce, "QUICK", {"episodes": 40, "seeds": (0, 1)})
    assert main(["reproduce", "--quick", "--workers", "0"]) == 0
    out = capsys.readouterr().out
    assert "the paper's flat curve" in out
    assert "statements of the paper hold, which judges nothing: this is not the paper's setting" in out
    folder = small / "results" / "quick" / "figures"
    for name in reproduce.PRODUCTS:
        for suffix in ("png", "svg", "pdf", "parquet"):
            assert (folder / f"{name}.{suffix}").stat().st_size > 500
    text = (folder.parent / "statements.md").read_text()
    assert text.startswith("# Quick look (not the paper)")
    assert "OPTAUG-CMDP" in text
    page = (folder.parent / "report.html").read_text(encoding="utf-8")
    assert len(page) < 5_000_000
    assert all(f">{spec}</h2>" in page for product in reproduce.PRODUCTS.values() for spec in product)
    assert "Quick look, not the paper: " in page
    assert "have T = 40 and 2 seeds, where the paper has T = 80,000 and 5" in page
    assert 'class="mark elsewhere"' in page
    assert not any(f'class="mark {mark}"' in page for mark in ("holds", "parts", "open"))
    assert set(drawn) == set(reproduce.PRODUCTS)
    for name, figure in drawn.items():
        texts = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
        assert any("Not the paper's setting" in text for text in texts), name


def test_reproduce_makes_only_what_is_asked_for(small, capsys, monkeypatch):
    from flexdome.cli import reproduce

    monkeypatch.setattr(reproduce, "QUICK", {"episodes": 20, "seeds": (0,)})
    assert main(["reproduce", "--quick", "--one-instance", "--workers", "0", "--table", "1", "--out", "here"]) == 0
    assert {path.stem for path in (small / "here" / "figures").iterdir()} == {"table-1"}


def test_a_part_of_reproduce_keeps_the_statements_about_the_others(small, capsys, monkeypatch):
    from flexdome.cli import reproduce

    monkeypatch.setattr(reproduce, "QUICK", {"episodes": 20, "seeds": (0,)})
    words = ["reproduce", "--quick", "--workers", "0", "--out", "here"]
    statements = small / "here" / "statements.md"
    assert main([*words, "--figure", "2", "--table", "1"]) == 0
    both = statements.read_text()
    assert main([*words, "--figure", "2"]) == 0
    assert statements.read_text() == both
    assert main([*words, "--figure", "2", "--one-instance"]) == 0
    assert "instance 0 alone" in statements.read_text()
    assert "OPTAUG-CMDP" not in statements.read_text()


@pytest.mark.slow
def test_the_suite_is_a_page_a_figure_and_targets(small, capsys, monkeypatch):
    from flexdome.cli import reproduce

    monkeypatch.setattr(reproduce, "QUICK", {"episodes": 6})
    assert main(["reproduce", "--suite", "strong", "--quick", "--seeds", "1", "--workers", "0"]) == 0
    out = capsys.readouterr().out
    assert "strong regret at most a quarter of the opponent's on every family" in out
    folder = small / "results" / "quick" / "figures"
    page = (folder / "suite-strong.md").read_text()
    titles = "ProxDOME against FlexDOME|ProxDOME against every learner|For long, T = 6"
    numbers, against, every, long, long_against, long_every = re.split(rf"^#+ (?:{titles})$", page, flags=re.M)
    for part in (numbers, against):
        assert "`grid-v1`" in part
        assert "`rover-v1`" in part
    assert "AnchorDOME" in numbers
    assert "CPD-PO" not in numbers  # with --all
    assert "| FlexDOME | 19 |" in every
    for part in (long, long_against):
        assert "`river-v1`" in part
        assert "`grid-v1`" not in part
    assert "| FlexDOME | 9 |" in long_every
    assert against.count("of the families") == long_against.count("of the families") == 1
    assert (folder / "suite-strong.png").stat().st_size > 500
