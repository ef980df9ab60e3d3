"""What a run says of its progress."""

import pytest

from flexdome.cli import progress
from flexdome.experiments import Event, ExperimentSpec


@pytest.fixture
def clock(monkeypatch):
    """The time, which stands still until it is moved."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def watched(clock):
    spec = ExperimentSpec(
        name="x",
        episodes=1_000_000,
        seeds=[0, 1],
        environments=[{"id": "media-v1"}],
        learners=[{"id": "flexdome"}],
    )
    return progress.Display([spec]), list(spec.runs())


def test_no_time_is_foretold_before_there_is_a_pace(watched, clock, capsys):
    display, (first, _) = watched
    display(Event("started", first))
    clock[0] += 8.0  # a process starts, and reads its code
    display(Event("advanced", first, 16))
    assert capsys.readouterr().err == "0 of 2 runs\n"
    clock[0] += 8.0
    display(Event("advanced", first, 16_016))
    assert capsys.readouterr().err == "0 of 2 runs, 1,001 episodes/s, 33:02 left\n"


def test_runs_that_failed_make_no_pace(watched, clock, capsys):
    display, runs = watched
    for run in runs:
        display(Event("started", run))
        clock[0] += 8.0
        display(Event("failed", run, 0, "a bug"))
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "2 of 2 runs, 2 failed"
    assert not any("episodes/s" in line for line in said)


def test_what_a_failed_run_lacks_takes_no_time(watched, clock, capsys):
    display, (first, second) = watched
    display(Event("started", first))
    display(Event("advanced", first, 1000))
    clock[0] += 10.0
    display(Event("failed", first, 1000, "a bug"))
    display(Event("advanced", second, 1000))
    assert display.left == pytest.approx(999_000 / 200.0)
