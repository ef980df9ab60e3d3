"""The whole audit of a small experiment, the page in plain words, and both commands."""

import csv

import pytest

import flexdome as fd
from flexdome import theory as th
from flexdome.audit import Depth, audit, errata, explain
from flexdome.cli import main
from flexdome.experiments import load_experiment

TOML = """
name = "tiny"
episodes = 120
seeds = [0, 1]

[[environments]]
id = "paper-stochastic-v1"
options = {states = 4, actions = 3, horizon = 3}

[[learners]]
id = "flexdome"
label = "FlexDOME"
options = {margin_scale = 5e-5}

[[learners]]
id = "flexdome"
label = "no regularisation"
options = {regularisation = false}

[[learners]]
id = "uopt-rpgpd"
"""
DEPTH = Depth(points=12, known=100, watched=30, runs=2, epsilons=(0.6, 0.5, 0.4))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "tiny.toml"
    path.write_text(TOML)
    return path


@pytest.fixture(scope="module")
def found(tiny):
    return audit(load_experiment(tiny), DEPTH)


def test_every_statement_has_a_row_and_a_word(found):
    table = found.table()
    assert set(table["word"].unique()) <= {"holds", "fails", "vacuous"}
    keys = set(table["key"])
    assert {
        "lemma-1-one-step", "lemma-1-one-step-held", "drift-gained", "lemma-2-reward", "lemma-2-violation",
        "strong-duality", "saddle-policy",
        "saddle-multipliers", "interior", "event-thresholds", "event-rewards", "event-utilities",
        "event-transitions", "event-visits", "estimation-reward", "discrepancy", "threshold-all", "exponent-regret",
        "exponent-violation", "theorem-1", "theorem-1-violation", "theorem-2-gap", "theorem-2-violation",
        "theorem-2-zero", "mirror-step", "entropy-to-go",
        "q-bound", "q-exponential", "value-difference", "init-decay", "optimisation-rate", "statistical",
    } <= keys  # fmt: skip
    settings = set(table.filter(table["key"] == "lemma-1-one-step")["setting"])
    assert len(settings) == 2
    assert table.filter(table["key"] == "event-rewards")["word"].to_list() == ["holds", "fails"]


def test_others_are_named_and_not_looked_at(found):
    assert [part.learner for part in found.parts] == ["FlexDOME"]
    assert found.skipped[0].startswith("no regularisation")
    assert "uopt-rpgpd" in found.skipped[1]


def test_files_are_a_table_a_text_and_figures(found, tmp_path):
    files = found.write(tmp_path / "out", figures=False)
    assert [path.name for path in files] == ["audit.csv", "audit.md"]
    with files[0].open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(found.findings)
    text = files[1].read_text()
    assert "Errata" in text
    assert all(line.count("|") >= 5 for line in text.splitlines() if line.startswith("|"))


def test_an_experiment_without_flexdome_is_refused(tiny):
    spec = load_experiment(tiny)
    with pytest.raises(fd.ValidationError, match="no FlexDOME with regularisation"):
        audit(spec.changed(learners=spec.learners[1:]))


@pytest.mark.parametrize("field", ["points", "known", "watched", "runs"])
def test_a_depth_of_nothing_is_refused(field):
    with pytest.raises(fd.ValidationError, match=f"{field} is 1"):
        Depth(**{field: 1})


def test_errata_have_the_numbers_of_the_problem():
    problem = fd.Problem(states=20, actions=5, horizon=5, initial=0, thresholds=[2.5], slater_gap=2.5)
    text = {erratum.claim: erratum.number for erratum in errata(problem, 80_000)}
    assert len(text) == 15
    assert "T^0.48" in text["the sum has sqrt(8 H^3 C_B) before it"]
    ratio = th.corrected_error_constant(problem) / th.error_constant(problem)
    assert f"{ratio:.3f} times" in text["C_B bounds reward, utilities, entropy and thresholds"]
    assert "exponent 53.0" in text["C stands before the sum over j"]
    assert "0.925 and 0.995" in text["f_{t,j+1} / f_{t,j} > 1 for all j"]
    assert "10^31.6" in text["the margin dominates the statistical error"]


def test_the_page_says_from_which_episode_on_and_which_margin():
    cmdp = fd.make_cmdp("paper-v1")
    page = explain(cmdp, cmdp.problem())
    assert "C'' = 1.77 x 10^27" in page
    assert "the theorem says nothing" in page
    assert "3.36e-05" in page
    wrong = explain(cmdp, cmdp.problem(slater_gap=2.502))
    assert "no theorem speaks here" in wrong


def test_explain_from_the_command_line(capsys, tmp_path):
    assert main(["theory", "explain", "--environment", "media-v1", "--slater-gap", "0.5", "--episodes", "1000"]) == 0
    out = capsys.readouterr().out
    assert "a bound that was given; the exact gap is 5" in out
    assert f"{fd.theory.error_constant(fd.make_cmdp('media-v1').problem(slater_gap=0.5)):,.0f}" in out
    path = tmp_path / "model.npz"
    fd.save_cmdp(fd.make_cmdp("media-v1"), path)
    assert main(["theory", "explain", "--environment", str(path)]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "--environment", "papr-v1"], "did you mean paper-v1"),
        (["explain", "--environment", "paper-v1", "--slater-gap", "-1"], "slater_gap is -1.0"),
        (["explain", "--environment", "paper-v1", "--episodes", "0"], "episodes is 0"),
        (["audit", "fixd"], "did you mean fixed"),
        (["audit", "fixed", "--runs", "0"], "runs is 0"),
        (["audit", "fixed", "--episodes", "0"], "episodes is 0"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["theory", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_audit_from_the_command_line(tiny, capsys, tmp_path):
    words = ["theory", "audit", str(tiny), "--points", "10", "--known", "50", "--watched", "20", "--runs", "2"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "strong duality" in out
    assert "not looked at: uopt-rpgpd" in out
    drawn = list((tmp_path / "out" / "figures").rglob("*.png"))
    assert len(drawn) > 40
