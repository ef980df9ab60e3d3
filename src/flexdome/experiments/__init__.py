"""An experiment is data; its results are files; engines compute what is missing."""

from flexdome.experiments.driver import Event, Outcome, run_experiments
from flexdome.experiments.engines import Cluster, Engine, Processes, Serial, make_engine
from flexdome.experiments.library import experiment_names, find_experiment, named_experiment
from flexdome.experiments.specs import (
    EnvironmentSpec,
    ExperimentSpec,
    LearnerSpec,
    ProblemSpec,
    RunSpec,
    load_experiment,
)
from flexdome.experiments.store import Store

__all__ = [
    "Cluster",
    "Engine",
    "EnvironmentSpec",
    "Event",
    "ExperimentSpec",
    "LearnerSpec",
    "Outcome",
    "ProblemSpec",
    "Processes",
    "RunSpec",
    "Serial",
    "Store",
    "experiment_names",
    "find_experiment",
    "load_experiment",
    "make_engine",
    "named_experiment",
    "run_experiments",
]
