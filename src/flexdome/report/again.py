"""The command that makes a curve again, and the file it needs.

A curve is one learner on one environment with every seed of its experiment: an experiment of its own, written in TOML.
Its runs have the ids of the runs behind the curve, so that the command finds them in a store that has them and computes
them in one that has not. Commands are for the directory of the results: their ``--out`` is where they are called.
"""

from __future__ import annotations

import json
import re
from typing import Any

from flexdome.errors import FlexDOMEError
from flexdome.experiments import ExperimentSpec, experiment_names, named_experiment

__all__ = ["CURVE_COMMAND", "command", "curve_toml"]

CURVE_COMMAND = "flexdome run curve.toml --out ."
PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def command(spec: ExperimentSpec) -> str | None:
    """``flexdome run NAME ... --out .`` where the experiment is ours, perhaps with other episodes or seeds; else None.

    >>> from flexdome.experiments import named_experiment
    >>> command(named_experiment("fixed").changed(episodes=500))
    'flexdome run fixed --episodes 500 --out .'
    """
    if spec.name not in experiment_names():
        return None
    ours = named_experiment(spec.name)
    words = ["flexdome", "run", spec.name]
    if spec.episodes != ours.episodes:
        words += ["--episodes", str(spec.episodes)]
    if spec.seeds != ours.seeds:
        words += ["--seeds", *map(str, spec.seeds)]
    if spec.instance != ours.instance and spec.instance is not None:
        words += ["--instance", str(spec.instance)]
    words += ["--out", "."]
    changed = ours.changed(episodes=spec.episodes, seeds=spec.seeds, instance=spec.instance)
    same = changed.id == spec.id and (spec.instance is not None or ours.instance is None)
    return " ".join(words) if same else None


def curve_toml(spec: ExperimentSpec, environment: str, learner: str) -> str:
    """An experiment of one curve; a model file is named without its folder, one of a store by its place there.

    >>> from flexdome.experiments import named_experiment
    >>> print(curve_toml(named_experiment("fixed").changed(seeds=(0, 1)), "paper-v1", "Vanilla PD"))
    name = "fixed"
    episodes = 80000
    seeds = [0, 1]
    <BLANKLINE>
    [[environments]]
    id = "paper-v1"
    <BLANKLINE>
    [[learners]]
    id = "optprimaldual"
    options = {tuning = "practical"}
    label = "Vanilla PD"
    <BLANKLINE>
    """
    place = next(row for row in spec.environments if row.name == environment)
    who = next(row for row in spec.learners if row.name == learner)
    head: dict[str, Any] = {"name": spec.name, "episodes": spec.episodes, "seeds": list(spec.seeds)}
    if spec.instance is not None:
        head["instance"] = spec.instance
    tables = {"environments": place.model_dump(mode="json"), "learners": who.model_dump(mode="json")}
    tables["learners"]["problem"] = who.problem.model_dump(mode="json", exclude_defaults=True)
    if place.file is not None:
        kept = place.sha256 is not None  # in the store, by its content
        tables["environments"]["file"] = f"models/{place.sha256}.npz" if kept else place.file.name
    lines = [f"{key} = {_toml(value)}" for key, value in head.items()]
    for name, row in tables.items():
        lines += ["", f"[[{name}]]"]
        lines += [f"{key} = {_toml(value)}" for key, value in _told(row).items()]
    return "\n".join(lines) + "\n"


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """Without what is not set: a field that is None, an empty table or list."""
    pruned = {key: _told(value) if key == "problem" else value for key, value in row.items()}
    return {key: value for key, value in pruned.items() if value is not None and value not in ({}, [])}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{key if PLAIN.fullmatch(key) else _toml(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    raise FlexDOMEError(f"{value!r} cannot be written in TOML")
