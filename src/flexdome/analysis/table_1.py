"""The paper's Table 1 (Zuo, Wang and He 2026), with what was measured beside what is claimed.

The claims of a learner are those of its registry entry, so that a learner that joins the registry joins the table,
below the rows of the paper. Where nothing is claimed nothing is ticked: a tick beside no claim would look like one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from flexdome.analysis.aggregation import Results
from flexdome.analysis.frames import only_row
from flexdome.cmdp.validation import as_items, as_text, instance_of
from flexdome.errors import ValidationError
from flexdome.learners import LEARNERS, Entry

__all__ = ["PAPER", "table1"]

MOST = 10_000  # results, or names
PAPER = {
    "optaug": "OPTAUG-CMDP",
    "cpd-po": "CPD-PO",
    "omdpd": "OMDPD",
    "rpd-oe": "RPD-OE",
    "uopt-rpgpd": "UOpt-RPGPD",
    "flexdome": "FlexDOME",
}
MORE = {
    "optprimaldual": "Vanilla PD",
    "optpess-pd": "OptPess-PD",
    "optcmdp-bonus": "OptCMDP-bonus",
    "optpess-lp": "OptPess-LP",
    "optdual": "OptDual",
    "optcmdp": "OptCMDP",
    "dope": "DOPE",
    "sv-ops": "SV-OPS",
    "s-ops": "S-OPS",
    "proxdome": "ProxDOME",
    "anchordome": "AnchorDOME",
    "suredome": "SureDOME",
    "guard": "Guard",
}  # names of ours that are not in the paper's table
SCHEMA = {
    "part": pl.String,
    "algorithm": pl.String,
    "id": pl.String,
    "citation": pl.String,
    "claimed_regret": pl.String,
    "claimed_violation": pl.String,
    "last_iterate": pl.Boolean,
    "unknown_safe_policy": pl.Boolean,
    "stochastic_threshold": pl.Boolean,
    "status": pl.String,
    "setting": pl.String,
    "tuning": pl.String,
    "replan": pl.String,
    "safe_slack": pl.Float64,
    "environment": pl.String,
    "episodes": pl.Int64,
    "n": pl.Int64,
    "regret_exponent": pl.Float64,
    "regret_low": pl.Float64,
    "regret_high": pl.Float64,
    "violation_exponent": pl.Float64,
    "violation_low": pl.Float64,
    "violation_high": pl.Float64,
}


def table1(results: Results | Iterable[Results] = (), environments: Sequence[str] | None = None) -> pl.DataFrame:
    """Table 1 with measured growth exponents and their intervals.

    A learner that was run has one row for every setting (its label in the experiment) and environment; one that was not
    has one row with the status ``"not run"``. A measured exponent is null where the series has none (it is zero).

    Parameters
    ----------
    results : one experiment's, or several
    environments : which to show, None for all

    Returns
    -------
    part ("paper" or "more"), algorithm, id, citation, claimed_regret, claimed_violation, last_iterate,
    unknown_safe_policy, stochastic_threshold (these three null where nothing is claimed), status ("measured" or "not
    run"), setting, tuning and replan (null where they are the learner's default), safe_slack (of the safe policy that
    it was given, as a part of the Slater gap; null where it was given none), environment, episodes, n, and for regret
    and violation ``_exponent``, ``_low``, ``_high``
    """
    items = (
        [results]
        if isinstance(results, Results)
        else as_items("results", results, "it must be a series of Results", MOST)
    )
    measured = [row for k, one in enumerate(items) for row in _measured(instance_of(f"results[{k}]", one, Results))]
    if environments is not None:
        known = {row["environment"] for row in measured}
        named = as_items("environments", environments, "it must be names of environments", MOST)
        environments = [as_text(f"environments[{k}]", name) for k, name in enumerate(named)]
        for name in environments:
            if measured and name not in known:
                raise ValidationError(f"environment {name!r} was not measured; these were: {', '.join(sorted(known))}")
        measured = [row for row in measured if row["environment"] in environments]
    rows: list[dict[str, Any]] = []
    for id in [*PAPER, *(id for id in LEARNERS if id not in PAPER)]:
        claim = _claim(LEARNERS[id])
        found = [{**claim, **row} for row in _distinct(measured) if row["id"] == id]
        rows += found or [{**claim, "status": "not run"}]
    return pl.DataFrame(rows, schema=SCHEMA)


def _claim(entry: Entry) -> dict[str, Any]:
    return {
        "part": "paper" if entry.id in PAPER else "more",
        "algorithm": {**PAPER, **MORE}.get(entry.id, entry.id),
        "id": entry.id,
        "citation": entry.citation,
        "claimed_regret": entry.regret,
        "claimed_violation": entry.violation,
        "last_iterate": entry.last_iterate if entry.claims else None,
        "unknown_safe_policy": "safe policy" not in entry.needs if entry.claims else None,
        "stochastic_threshold": "known thresholds" not in entry.needs if entry.claims else None,
    }


def _measured(result: Results) -> list[dict[str, Any]]:
    rows = []
    specs = {learner.name: learner for learner in result.experiment.learners}
    for (environment, learner), group in result.exponents.group_by(["environment", "learner"], maintain_order=True):
        spec = specs[str(learner)]
        replan = spec.options.get("replan")
        row: dict[str, Any] = {
            "id": spec.id,
            "status": "measured",
            "setting": learner,
            "tuning": spec.options.get("tuning"),
            "replan": None if replan is None else str(replan),
            "safe_slack": spec.problem.safe_slack,
            "environment": environment,
            "episodes": result.experiment.episodes,
            "n": group["n"].max(),
        }
        for metric, prefix in (("strong_regret", "regret"), ("strong_violation", "violation")):
            found = only_row("exponents", group, environment=str(environment), learner=spec.name, metric=metric)
            row |= {f"{prefix}_{name}": found[name] for name in ("exponent", "low", "high")}
        rows.append(row)
    return rows


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same setting in several experiments is one row."""
    return [row for k, row in enumerate(rows) if row not in rows[:k]]
