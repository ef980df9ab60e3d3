"""One learner or one environment, on a page of the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from flexdome.cmdp.validation import shown
from flexdome.errors import ValidationError
from flexdome.families import ENVIRONMENTS, make_cmdp
from flexdome.learners import LEARNERS

__all__ = ["page_of"]

TAKEN = ("self", "problem", "seed")


def page_of(name: str) -> Iterator[tuple[str, str]]:
    """What there is to say of an id: a word for each line, and the line."""
    if name in LEARNERS:
        return _learner(name)
    if name in ENVIRONMENTS:
        return _environment(name)
    raise ValidationError(
        f"name is {shown(name)}; it must be the id of a learner or an environment: `flexdome list` shows them"
    )


def _learner(id: str) -> Iterator[tuple[str, str]]:
    entry = LEARNERS[id]
    yield "learner", f"{id}, version {entry.version}"
    yield "what it is", entry.summary
    yield "source", entry.citation
    yield "claimed", f"regret {entry.regret}; violation {entry.violation}" + "; last iterate" * entry.last_iterate
    yield "needs", ", ".join(entry.needs) or "nothing but the problem"
    if entry.replanning:
        yield "replanning", entry.replanning
    for part in entry.reconstructed:
        yield "reconstructed", part
    for number, change in enumerate(entry.changes, 2):
        yield f"version {number}", change
    yield from _options(entry.load())


def _environment(id: str) -> Iterator[tuple[str, str]]:
    entry = ENVIRONMENTS[id]
    yield "environment", id
    yield "what it is", entry.summary
    cmdp = make_cmdp(id, seed=0)
    m = f"{cmdp.constraints} constraint{'s' * (cmdp.constraints != 1)}"
    sizes = f"{cmdp.states} states, {cmdp.actions} actions, {cmdp.horizon} steps, {m}"
    yield "seed 0", f"{sizes}, thresholds {', '.join(f'{alpha:.4g}' for alpha in cmdp.alpha)}"
    yield from _options(entry.load())


def _options(callable_: Any) -> Iterator[tuple[str, str]]:
    for name, parameter in inspect.signature(callable_).parameters.items():
        if name not in TAKEN and parameter.kind is not parameter.VAR_KEYWORD:
            given = parameter.default
            yield "option", name if given is parameter.empty else f"{name} = {given!r}"
