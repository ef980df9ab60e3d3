"""Safe online reinforcement learning in constrained MDPs.

``import flexdome as fd``; every public name is imported on first use, so that the import itself is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flexdome import theory as theory
    from flexdome.certificates import Monitor as Monitor
    from flexdome.certificates import certify as certify
    from flexdome.cmdp import CMDP as CMDP
    from flexdome.cmdp import Episode as Episode
    from flexdome.cmdp import Problem as Problem
    from flexdome.cmdp import Quantity as Quantity
    from flexdome.cmdp import Threshold as Threshold
    from flexdome.cmdp import chance_constraint as chance_constraint
    from flexdome.cmdp import load_cmdp as load_cmdp
    from flexdome.cmdp import save_cmdp as save_cmdp
    from flexdome.errors import BusyError as BusyError
    from flexdome.errors import ConvergenceError as ConvergenceError
    from flexdome.errors import FileFormatError as FileFormatError
    from flexdome.errors import FlexDOMEError as FlexDOMEError
    from flexdome.errors import InfeasibleError as InfeasibleError
    from flexdome.errors import OutputError as OutputError
    from flexdome.errors import ValidationError as ValidationError
    from flexdome.families import ENVIRONMENTS as ENVIRONMENTS
    from flexdome.families import make_cmdp as make_cmdp
    from flexdome.gym import from_gymnasium as from_gymnasium
    from flexdome.gym import learn as learn
    from flexdome.learners import LEARNERS as LEARNERS
    from flexdome.learners import load_learner as load_learner
    from flexdome.learners import make_learner as make_learner
    from flexdome.learners.guarded.guard import Guard as Guard
    from flexdome.learners.guarded.suredome import SureDOME as SureDOME
    from flexdome.learners.primal_dual.flexdome import FlexDOME as FlexDOME
    from flexdome.learners.proximal.proxdome import ProxDOME as ProxDOME
    from flexdome.live import Journal as Journal
    from flexdome.live import read_episodes as read_episodes
    from flexdome.live import recover as recover
    from flexdome.live import sample_episodes as sample_episodes
    from flexdome.live import write_episodes as write_episodes
    from flexdome.planning import SafePolicy as SafePolicy
    from flexdome.planning import baselines as baselines
    from flexdome.planning import evaluate as evaluate
    from flexdome.planning import mix as mix
    from flexdome.planning import occupancy as occupancy
    from flexdome.planning import saddle_point as saddle_point
    from flexdome.planning import safe_policy as safe_policy
    from flexdome.planning import slater_gap as slater_gap
    from flexdome.planning import solve as solve
    from flexdome.policies import Policy as Policy
    from flexdome.simulation import check_learner as check_learner
    from flexdome.simulation import iterate as iterate
    from flexdome.simulation import play as play
    from flexdome.simulation import simulate as simulate
    from flexdome.theory import Schedules as Schedules

__version__ = "0.1.0"

_ROOMS = {
    "certificates": ("Monitor", "certify"),
    "cmdp": ("CMDP", "Episode", "Problem", "Quantity", "Threshold", "chance_constraint", "load_cmdp", "save_cmdp"),
    "errors": (
        "BusyError",
        "ConvergenceError",
        "FileFormatError",
        "FlexDOMEError",
        "InfeasibleError",
        "OutputError",
        "ValidationError",
    ),
    "families": ("ENVIRONMENTS", "make_cmdp"),
    "gym": ("from_gymnasium", "learn"),
    "learners": ("LEARNERS", "load_learner", "make_learner"),
    "learners.guarded.guard": ("Guard",),
    "learners.guarded.suredome": ("SureDOME",),
    "learners.primal_dual.flexdome": ("FlexDOME",),
    "learners.proximal.proxdome": ("ProxDOME",),
    "live": ("Journal", "read_episodes", "recover", "sample_episodes", "write_episodes"),
    "planning": (
        "SafePolicy",
        "baselines",
        "evaluate",
        "mix",
        "occupancy",
        "saddle_point",
        "safe_policy",
        "slater_gap",
        "solve",
    ),
    "policies": ("Policy",),
    "simulation": ("check_learner", "iterate", "play", "simulate"),
    "theory": ("Schedules",),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [*_HOME, "__version__", "theory"]


def __getattr__(name: str) -> Any:
    if name == "theory":
        return import_module("flexdome.theory")
    if name not in _HOME:
        raise AttributeError(f"module 'flexdome' has no attribute {name!r}")
    value = getattr(import_module(f"flexdome.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
