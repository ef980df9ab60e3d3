"""Sequences, the ranking, thinned curves: what no other file of the fuzz reaches, one argument at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from flexdome import certificates, ranking
from flexdome.experiments import LearnerSpec, Store
from flexdome.report import thinning as report
from malformed import Call, listed


@cache
def finals() -> pl.DataFrame:
    """Some rows of the published numbers."""
    found = ranking.published()
    return found.filter(pl.col("learner").is_in(found["learner"].unique().sort().head(3).to_list()))


def extended(kind: Any) -> Callable[..., None]:
    """More observations; what is refused leaves no trace."""

    def call(**given: Any) -> None:
        sequence = kind(0.1, points=8)
        try:
            sequence.extend(**given)
        except Exception:
            assert sequence.count == 0, "the call was refused but left a trace"
            raise

    return call


def calls() -> dict[str, Call]:
    one, of = finals()["learner"][0], {"finals": ("learner",)}
    return {
        "LowerSequence": Call(certificates.LowerSequence, {"delta": 0.1, "points": 8, "also": [0.3]}),
        "Sequence": Call(certificates.Sequence, {"delta": 0.1, "low": 0.0, "high": 2.0, "points": 8, "also": [0.3]}),
        "thin": Call(report.thin, {"values": np.array([0.0, 2.0, 1.0]), "starts": np.array([0, 1])}),
        "stretches": Call(report.stretches, {"episodes": 100, "count": 5}),
        "outdated": Call(ranking.outdated, {"table": finals()}, {"table": ("learner",)}, each=1),
        "LowerSequence.extend": Call(extended(certificates.LowerSequence), {"xs": np.array([0.5, 0.25])}),
        "Sequence.extend": Call(extended(certificates.Sequence), {"xs": np.array([0.5, 0.25])}),
        "entry_learner": Call(
            ranking.entry_learner, {"id": "flexdome", "options": {}}, {"id": ("learner",), "options": ("option",)}
        ),
        "entry_experiment": Call(ranking.entry_experiment, {"learner": LearnerSpec(id="flexdome"), "quick": True}),
        "final_numbers": Call(ranking.final_numbers, {"store": Store("store"), "experiments": []}),
        "overall_table": Call(ranking.overall_table, {"finals": finals()}, each=1),
        "family_table": Call(ranking.family_table, {"finals": finals(), "learner": one}, of, each=1),
        "versus_table": Call(ranking.versus_table, {"finals": finals(), "learner": one}, of, each=1),
    }


@pytest.mark.parametrize("name", calls())
def test_a_public_callable_of_a_room_takes_a_value_or_refuses_it_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = calls()[name].complaints()
    assert not found, listed(found)
