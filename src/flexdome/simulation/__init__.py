"""Where a learner and the truth meet: simulation, known-model iteration, exact metrics."""

from flexdome.simulation.history import History, Snapshot
from flexdome.simulation.known_model import Iterates, iterate
from flexdome.simulation.run import simulate

__all__ = ["History", "Iterates", "Snapshot", "iterate", "simulate"]
