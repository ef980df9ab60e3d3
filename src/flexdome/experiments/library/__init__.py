"""The experiments that come with the package, one TOML file each."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from flexdome.cmdp.validation import as_text
from flexdome.errors import unknown_name
from flexdome.experiments.specs import ExperimentSpec, load_experiment

__all__ = ["experiment_names", "find_experiment", "named_experiment"]


def experiment_names() -> list[str]:
    """The names, sorted."""
    return sorted(
        item.name.removesuffix(".toml") for item in files(__package__).iterdir() if item.name.endswith(".toml")
    )


def named_experiment(name: str) -> ExperimentSpec:
    """One of them.

    >>> from flexdome.experiments import named_experiment
    >>> [learner.name for learner in named_experiment("fixed").learners]
    ['FlexDOME', 'UOpt-RPGPD', 'Vanilla PD']
    """
    name = as_text("name", name)
    if name not in experiment_names():
        raise unknown_name("experiment", name, experiment_names())
    with as_file(files(__package__) / f"{name}.toml") as path:
        return load_experiment(path)


def find_experiment(text: str) -> ExperimentSpec:
    """The experiment in a TOML file, or one of ours by name."""
    path = Path(as_text("text", text))
    return load_experiment(path) if path.suffix == ".toml" or path.is_file() else named_experiment(text)
