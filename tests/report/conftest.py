"""A small store with the names that a page must survive."""

import pytest

from flexdome.cli import main
from flexdome.experiments import EnvironmentSpec, ExperimentSpec, LearnerSpec, Serial, Store, run_experiments

HOSTILE = "</script><script>window.broken=1</script>"
QUOTES = "\"'><img src=x onerror=window.broken=1> & ${1} ]]>"
DESCRIPTION = "<b onclick='x'>bold</b> <!-- <script> --> \u2028"


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Two experiments, one with hostile labels and two constraints."""
    store = Store(tmp_path_factory.mktemp("stores") / "small & <odd>")
    learners = (
        LearnerSpec(id="flexdome", label="FlexDOME"),
        LearnerSpec(id="optprimaldual", label="Vanilla PD", options={"tuning": "practical"}),
    )
    plain = ExperimentSpec(
        name="plain", episodes=600, seeds=(0, 1, 2), environments=(EnvironmentSpec(id="paper-v1"),), learners=learners
    )
    odd = ExperimentSpec(
        name="odd",
        description=DESCRIPTION,
        episodes=40,
        seeds=(0, 1),
        environments=(EnvironmentSpec(id="media-v1", label=QUOTES), EnvironmentSpec(id="band-v1")),
        learners=(LearnerSpec(id="flexdome", label=HOSTILE), LearnerSpec(id="optprimaldual", label=QUOTES)),
    )
    outcome = run_experiments([plain, odd], store, Serial())
    assert not outcome.failed
    return store


@pytest.fixture(scope="session")
def page(store, tmp_path_factory):
    """The page as the command writes it."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(store.path), "--page", str(path)]) == 0
    return path
