"""What is true of a known model: evaluation, constrained optimum, Slater gap, saddle point, mixtures."""

from flexdome.planning.evaluation import Baselines, Evaluation, baselines, evaluate, mix, occupancy
from flexdome.planning.optimum import SafePolicy, Solution, safe_policy, slater_gap, solve, solve_model
from flexdome.planning.saddle import SaddlePoint, saddle_point

__all__ = [
    "Baselines",
    "Evaluation",
    "SaddlePoint",
    "SafePolicy",
    "Solution",
    "baselines",
    "evaluate",
    "mix",
    "occupancy",
    "saddle_point",
    "safe_policy",
    "slater_gap",
    "solve",
    "solve_model",
]
