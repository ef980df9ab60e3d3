"""The problem: a constrained MDP, its thresholds, what a learner may know of it, and files."""

from flexdome.cmdp.chance import chance_constraint
from flexdome.cmdp.episode import Episode
from flexdome.cmdp.model import CMDP
from flexdome.cmdp.problem import Problem
from flexdome.cmdp.storage import load_cmdp, save_cmdp
from flexdome.cmdp.threshold import Threshold
from flexdome.cmdp.units import Quantity

__all__ = ["CMDP", "Episode", "Problem", "Quantity", "Threshold", "chance_constraint", "load_cmdp", "save_cmdp"]
