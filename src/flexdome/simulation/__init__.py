"""Where a learner and the truth meet: simulation, known-model iteration, exact metrics."""

from flexdome.simulation.check import CheckError, check_learner
from flexdome.simulation.history import History, Snapshot
from flexdome.simulation.known_model import Iterates, iterate
from flexdome.simulation.played import play
from flexdome.simulation.run import simulate

__all__ = ["CheckError", "History", "Iterates", "Snapshot", "check_learner", "iterate", "play", "simulate"]
