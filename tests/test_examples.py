"""A researcher's learner, from its class to a paper; the engineer's plant is in ``live/test_dosing_plant.py``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "margin_plans"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example's package where Python finds it, as ``pip install ./examples/margin_plans`` would put it."""
    folder = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*install, "--disable-pip-version-check", "--target", str(folder), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run(installed, *words):
    done = subprocess.run(
        [sys.executable, *map(str, words)], env=installed, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_researchers_learner_is_checked_compared_and_written_up(installed, tmp_path):
    said = run(installed, EXAMPLE / "write_up.py", tmp_path, 40)
    assert said.count("✓") > 8
    table = (tmp_path / "table.tex").read_text()
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 2 * 4  # a heading; four learners on two environments
    assert [row.split(" & ")[1] for row in rows[1:5]] == ["MarginPlans", "FlexDOME", "ProxDOME", "OptCMDP"]
    assert all(row.count(r"$\pm$") == 3 for row in rows[1:])
    assert "MarginPlans" in (tmp_path / "differences.tex").read_text()
    assert (tmp_path / "figures" / "margin-plans.pdf").stat().st_size > 5_000


def test_a_researchers_learner_may_enter_the_ranking(installed):
    code = "import flexdome.ranking as r; print(r.entry_experiment(r.entry_learner('margin-plans'), True).episodes)"
    assert run(installed, "-c", code).strip() == "20000"


@pytest.mark.slow
def test_a_researchers_learner_is_ranked(installed, tmp_path):
    said = run(installed, "-m", "flexdome", "rank", "margin-plans", "--quick", "--out", tmp_path)
    assert "margin-plans" in said
    assert list(tmp_path.glob("*.html"))
