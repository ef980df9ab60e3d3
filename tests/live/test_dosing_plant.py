"""The example of a dosing plant: from a CSV to a certified policy file, told in the plant's own units."""

import runpy
from pathlib import Path

import polars as pl

import flexdome as fd

EXAMPLE = Path(__file__).parents[2] / "examples" / "dosing_plant.py"


def test_a_log_becomes_a_policy_on_disk(tmp_path, capsys):
    runpy.run_path(str(EXAMPLE))["main"](60, tmp_path)
    said = capsys.readouterr().out
    log = pl.read_csv(tmp_path / "log.csv")
    assert log.columns == ["day", "hour", "level", "rate", "yield", "out of band"]
    policy = fd.Policy.load(tmp_path / "policy.json")
    assert policy.visits.sum() == (200 + 60) * 24
    assert policy.act(0, "4-5 mg/l", 0.3).endswith("ml/h")
    assert "limit 2.5 mg/l" in said
    assert "episode 61: shown safe" in said
    assert "out of band: certified safe; in [" in said
    assert "] mg/l, limit 2.5 mg/l" in said
    assert "kg of yield" in said
    assert "constraint 0" not in said
