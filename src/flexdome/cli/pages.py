"""One learner or one environment, on a page of the terminal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from flexdome.errors import unknown_name
from flexdome.families import ENVIRONMENTS, make_cmdp
from flexdome.learners import LEARNERS
from flexdome.learners.registry import UNCLAIMED

__all__ = ["SHARED", "page_of", "said_of"]

TAKEN = ("self", "problem", "seed")
SHARED = {  # options of most learners, where their own docstrings say no more
    "episodes": "how many episodes are planned; running past them is allowed and said",
    "delta": "confidence: the probability with which a bound may fail",
    "seed": "of the learner's own draws, where it has any",
    "safe_policy": "a policy that is known to be safe, and its utilities (``fd.SafePolicy``)",
}


def page_of(name: str) -> Iterator[tuple[str, str]]:
    """What there is to say of an id: a word for each line, and the line."""
    if name in LEARNERS:
        return _learner(name)
    if name in ENVIRONMENTS:
        return _environment(name)
    raise unknown_name("learner or environment", name, [*LEARNERS, *ENVIRONMENTS])


def _learner(id: str) -> Iterator[tuple[str, str]]:
    entry = LEARNERS[id]
    yield "learner", f"{id}, version {entry.version}"
    yield "what it is", entry.summary
    yield "source", entry.citation
    rates = {"regret": entry.regret, "violation": entry.violation}
    claims = [f"no rate of {of}" if rate == UNCLAIMED else f"{of} {rate}" for of, rate in rates.items()]
    yield "claimed", "; ".join(claims if entry.claims else ["nothing"]) + "; last iterate" * entry.last_iterate
    yield "needs", ", ".join(entry.needs) or "nothing but the problem"
    if entry.replanning:
        yield "replanning", entry.replanning
    for part in entry.reconstructed:
        yield "reconstructed", part
    for number, change in enumerate(entry.changes, 2):
        yield f"version {number}", _plain(change)
    yield from _options(entry.load(), SHARED)


def _environment(id: str) -> Iterator[tuple[str, str]]:
    entry = ENVIRONMENTS[id]
    yield "environment", id
    yield "what it is", entry.summary
    cmdp = make_cmdp(id, seed=0)
    m = f"{cmdp.constraints} constraint{'s' * (cmdp.constraints != 1)}"
    sizes = f"{cmdp.states} states, {cmdp.actions} actions, {cmdp.horizon} steps, {m}"
    yield "seed 0", f"{sizes}, thresholds {', '.join(f'{alpha:.4g}' for alpha in cmdp.alpha)}"
    yield from _options(entry.load())


def _options(callable_: Any, known: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    said = {**(known or {}), **said_of(callable_)}
    for name, parameter in inspect.signature(callable_).parameters.items():
        if name not in TAKEN and parameter.kind is not parameter.VAR_KEYWORD:
            given = parameter.default
            text = name if given is parameter.empty else f"{name} = {given!r}"
            yield "option", f"{text}: {_plain(said[name])}" if name in said else text


def said_of(thing: Any) -> dict[str, str]:
    """What the section Parameters of a docstring says, by name."""
    found: dict[str, str] = {}
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", inspect.getdoc(thing) or "", re.M | re.S)
    for row in re.split(r"\n(?=\S)", section.group(1).strip()) if section else ():
        names, _, text = row.partition(" : ")
        found |= {name.strip(): " ".join(text.split()) for name in names.split(",") if text}
    return found


def _plain(text: str) -> str:
    """Without the marks of code."""
    return re.sub(r":\w+:`~?([^`]+)`|``(.+?)``", lambda found: found[1] or found[2], text)
