"""A small world, and calls of which one argument at a time is replaced by what it should not be.

The rule is in :mod:`hostile`; the values depend on one seed. What is wrong with a call is listed whole, so that one run
shows every hole there is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import flexdome as fd
from hostile import EVERYWHERE, changed, complaint, reframed

SEED = 20260
FILE = ("cannot be", "does not exist", "is not a regular file", "not a flexdome file", "has format")


def small(law: str = "known") -> fd.CMDP:
    """Three states, two actions, three steps, two constraints."""
    rng = np.random.default_rng(5)
    p, r, d = rng.dirichlet(np.ones(3), size=(3, 3, 2)), rng.random((3, 3, 2)), rng.random((2, 3, 3, 2))
    laws: list[Any] = [0.6, 0.7]
    if law == "sampled":
        laws[1] = fd.Threshold.uniform(0.4, 1.0)
    return fd.CMDP(p, r, d, laws, 0, name="small")


@cache
def world(law: str = "known") -> fd.CMDP:
    return small(law)


@cache
def told(law: str = "known") -> fd.Problem:
    return world(law).problem()


@cache
def safe() -> fd.SafePolicy:
    return fd.safe_policy(world(), 0.5 * fd.slater_gap(world()))


def episode(law: str = "known") -> dict[str, Any]:
    samples = {"thresholds": np.full((2, 3), 0.5)} if law == "sampled" else {}
    return {
        "states": np.array([0, 1, 2, 0]),
        "actions": np.array([0, 1, 0]),
        "rewards": np.array([0.5, 0.25, 1.0]),
        "utilities": np.array([[0.5, 0.25, 1.0], [0.0, 1.0, 0.5]]),
        **samples,
    }


def policy() -> Any:
    return np.full((3, 3, 2), 0.5)


@dataclass(frozen=True)
class Call:
    """A function and arguments with which it works.

    ``named`` are other names that an error may use for an argument; ``same`` tells, before and after a refused call,
    what must be the same. Every other value is tried without the arguments that the function has defaults for, where it
    works so and the call is not ``whole``. ``long`` are arguments whose large values are right, and take as long as
    they say; ``own`` are arguments that are functions of the caller's, whose errors are the caller's too. ``each`` is
    how many entries and types of every column of a frame are changed.
    """

    function: Callable[..., Any]
    valid: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    same: Callable[[], Any] | None = None
    own: tuple[str, ...] = ()
    each: int = 3
    whole: bool = False

    def arguments(self) -> list[str]:
        """What can be replaced."""
        kinds = inspect.signature(self.function).parameters.values()
        own = [one.name for one in kinds if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        return [name for name in dict.fromkeys((*own, *self.valid)) if name not in self.fixed]

    def _required(self) -> Mapping[str, Any]:
        """The arguments without those that have a default, or all where it does not work so, or takes long then."""
        kinds = inspect.signature(self.function).parameters
        needed = [name for name in self.valid if name not in kinds or kinds[name].default is inspect.Parameter.empty]
        fewer = {name: self.valid[name] for name in needed}
        if self.whole or set(self.long) - set(needed) or self.own or len(fewer) == len(self.valid):
            return self.valid
        try:
            self.function(**fewer)
        except fd.FlexDOMEError:
            return self.valid
        return fewer

    def complaints(self, seed: int = SEED) -> list[str]:
        """Every value of every argument that is not taken as the rule says."""
        found = []
        self.function(**self.valid)
        before = self.same() if self.same else None
        fewer = self._required()
        for argument in self.arguments():
            rng = np.random.default_rng([seed, *argument.encode()])
            valid = self.valid.get(argument)
            made = {**EVERYWHERE, **(changed(valid, rng) if isinstance(valid, np.ndarray | list) else {})}
            if isinstance(valid, pl.DataFrame):
                made |= reframed(valid, rng, self.each)
            names = (argument, *self.named.get(argument, ()))
            for k, (label, make) in enumerate(made.items()):
                given = fewer if k % 2 else self.valid
                if argument in self.long and isinstance(make(), int) and make() > 1000:
                    continue
                if argument in self.own and callable(make()):
                    continue
                wrong = complaint(
                    lambda value, name=argument, rest=given: self.function(**{**rest, name: value}), make, names
                )
                if wrong is not None:
                    found.append(f"{argument} = {label} {wrong}")
                if self.same is not None and self.same() != before:
                    found.append(f"{argument} = {label} was refused but left a trace")
                    before = self.same()
        return found


def listed(found: list[str]) -> str:
    return "\n".join(text.encode("ascii", "backslashreplace").decode() for text in found)
