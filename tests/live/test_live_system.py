"""The example with two processes, killed three times."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "live_system.py"


def test_a_learner_killed_three_times_is_told_of_every_hour_exactly_once(capfd):
    example = runpy.run_path(str(EXAMPLE))
    example["__file__"] = str(EXAMPLE)
    kept, starts = example["control"](patients=8, name="flexdome", seed=1)
    assert (kept, starts) == (8, 4)
    said = capfd.readouterr().out
    for instant in ("between two patients", "in minute 30", "with an hour on the way"):
        assert f"killed {instant}" in said
    assert "patient    8: mean BIS" in said
