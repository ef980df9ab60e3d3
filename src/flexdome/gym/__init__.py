"""Gymnasium in both directions.

Out: every registered CMDP is a Gymnasium environment, one at a time (:class:`CMDPEnv`) or many in one compiled call
(:class:`CMDPVectorEnv`), and with :class:`SixTuple` in the convention of safety-gymnasium and omnisafe. Importing this
room registers them all under ``flexdome/``, so that ``gym.make("flexdome.gym:flexdome/Paper-v1")`` needs no other
import.

In: :func:`from_gymnasium` reads the transition table that an environment publishes and gives an exact CMDP;
:func:`learn` lets a learner loose on an environment that publishes nothing. Both look at what an environment has, not
at its class, and need no Gymnasium themselves.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from flexdome.errors import FlexDOMEError
from flexdome.gym.discretize import Grid, fit_grid
from flexdome.gym.learning import Estimate, Learned, learn, problem_for
from flexdome.gym.registration import gymnasium_id, register
from flexdome.gym.transition_tables import TableCMDP, Units, from_gymnasium

if TYPE_CHECKING:
    from flexdome.gym.environment import CMDPEnv as CMDPEnv
    from flexdome.gym.six import SixTuple as SixTuple
    from flexdome.gym.vector import CMDPVectorEnv as CMDPVectorEnv

_NEEDS_GYMNASIUM = {"CMDPEnv": "environment", "CMDPVectorEnv": "vector", "SixTuple": "six"}

__all__ = [
    "CMDPEnv",
    "CMDPVectorEnv",
    "Estimate",
    "Grid",
    "Learned",
    "SixTuple",
    "TableCMDP",
    "Units",
    "fit_grid",
    "from_gymnasium",
    "gymnasium_id",
    "learn",
    "problem_for",
    "register",
]


def __getattr__(name: str) -> Any:
    if name not in _NEEDS_GYMNASIUM:
        raise AttributeError(f"module 'flexdome.gym' has no attribute {name!r}")
    if find_spec("gymnasium") is None:
        raise FlexDOMEError(f"{name} needs gymnasium: pip install 'flexdome[gymnasium]'")
    return getattr(import_module(f"flexdome.gym.{_NEEDS_GYMNASIUM[name]}"), name)


if find_spec("gymnasium") is not None:
    register()
