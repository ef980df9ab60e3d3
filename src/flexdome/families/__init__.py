"""Every named CMDP, random or from a real problem.

A family is a function from an instance seed and a few sizes to a CMDP; its id carries a version, and an edit
that changes an instance makes a new version. The registry holds names only: nothing is built or imported
before it is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import as_int, shown
from flexdome.errors import ValidationError, unknown_name

__all__ = ["ENVIRONMENTS", "Environment", "make_cmdp"]


@dataclass(frozen=True)
class Environment:
    """One row of the registry: where a family lives, and what it is in a few words."""

    id: str
    target: str
    summary: str

    def load(self) -> Callable[..., CMDP]:
        """The family's function."""
        module, name = self.target.split(":")
        function: Callable[..., CMDP] = getattr(import_module(f"flexdome.families.{module}"), name)
        return function


_ROWS = (
    Environment("paper-v1", "random:paper", "the paper's experiment, fixed threshold: S=20, A=H=5, d = 1 - r"),
    Environment("paper-stochastic-v1", "random:paper_stochastic", "the paper's experiment, normal thresholds"),
    Environment("independent-v1", "random:independent", "reward and utility independent"),
    Environment("conflict-v1", "random:conflict", "reward and utility partly opposed"),
    Environment("multi-v1", "random:multi", "three constraints"),
    Environment("garnet-v1", "random:garnet", "sparse, any size"),
    Environment("kitamura-v1", "random:kitamura", "Kitamura et al. 2024: S=30, A=3, H=10, d = 1 - r"),
    Environment("tight-v1", "random:tight", "Slater gap 0.05"),
    Environment("bernoulli-v1", "random:bernoulli", "0/1 observations, 0/H thresholds at every step"),
    Environment("media-v1", "structured:media", "media streaming: fast and slow links to a buffer"),
    Environment("inventory-v1", "structured:inventory", "stock control with an ordering and holding budget"),
    Environment("factored-v1", "structured:factored", "three states in a ring, every move costs"),
    Environment("oscillator-v1", "structured:oscillator", "two states, reward and constraint the same value"),
    Environment("rover-v1", "grids:rover", "Mars rover on an 8x8 grid with pits"),
    Environment("river-v1", "structured:river", "river swim with a costly sprint"),
    Environment("grid-v1", "grids:grid", "slippery 5x5 grid with tempting hazards"),
    Environment("opposed-v1", "several:opposed", "three utilities partly opposed, 93 % of the largest smallest one"),
    Environment("band-v1", "several:band", "one quantity neither too small nor too large"),
    Environment("dosing-v1", "several:dosing", "a level kept in a band by rates that cost"),
    Environment("small-units-v1", "awkward:small_units", "independent-v1 with the utility in hundredths"),
    Environment("rare-costs-v1", "awkward:rare_costs", "accidents, one in fifty, seen as 0 or 1"),
    Environment("contexts-v1", "awkward:contexts", "two hundred contexts whose actions hardly differ"),
    Environment("twins-v1", "awkward:twins", "twenty actions, ten of which are the same"),
    Environment("rare-starts-v1", "awkward:rare_starts", "first states that come up once in five hundred episodes"),
    Environment("traps-v1", "awkward:traps", "tempting actions that lead where there is no way out"),
    Environment("deep-sea-v1", "awkward:deep_sea", "a reward at the end of one long way that costs"),
    Environment("noisy-v1", "awkward:noisy", "threshold samples with a spread of 2 H"),
    Environment("lottery-v1", "awkward:lottery", "threshold samples of two values, one of them rare"),
    Environment("rapids-v1", "awkward:rapids", "a longer river with a stronger stream"),
    Environment("frozen-lake-v1", "toy_text:frozen_lake", "Gymnasium's slippery 4x4 lake, holes as the cost"),
    Environment("cliff-walking-v1", "toy_text:cliff_walking", "Gymnasium's walk along a cliff, falls as the cost"),
    Environment("taxi-v1", "toy_text:taxi", "Gymnasium's taxi, illegal pick-ups and drop-offs as the cost"),
    Environment("propofol-v1", "applications:propofol", "an anaesthetic: depth in a band, and blood pressure"),
    Environment("grid-storage-v1", "applications:grid_storage", "a battery that keeps a station's frequency"),
    Environment("admission-v1", "applications:admission", "who is let into a queue whose mean delay is limited"),
)

ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType({row.id: row for row in _ROWS})


def make_cmdp(id: str, seed: int = 0, **options: Any) -> CMDP:
    """Build the instance ``seed`` of a named family; ``options`` are the family's own (sizes and the like).

    >>> import flexdome as fd
    >>> fd.make_cmdp("garnet-v1", seed=3, states=100, actions=4, horizon=10, successors=5).states
    100
    """
    if not isinstance(id, str):
        raise ValidationError(f"environment is {shown(id)}; it must be a name such as 'paper-v1'")
    if id not in ENVIRONMENTS:
        raise unknown_name("environment", id, ENVIRONMENTS)
    seed = as_int("seed", seed, 0)
    function = ENVIRONMENTS[id].load()
    allowed = [name for name in inspect.signature(function).parameters if name != "seed"]
    for name in options:
        if name not in allowed:
            if not allowed:
                raise ValidationError(f"unknown option {name!r}; {id} takes none")
            raise unknown_name(f"option of {id}", name, allowed)
    return function(seed, **options)
