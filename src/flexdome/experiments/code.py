"""Which code a learner is.

Results depend on a learner's code. Ours is told by the version in its registry entry, which is raised whenever an edit
changes results. Nobody promises that of a learner from elsewhere: it is told by its entry's version, the version of
its package, and a fingerprint of its sources, so that results of a learner that was edited since are not taken for
those of the present one.

A learner that is not registered is named ``"my_package.my_module:MyLearner"``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from flexdome.cmdp.validation import shown
from flexdome.errors import ValidationError, unknown_name
from flexdome.experiments.installation import fingerprint
from flexdome.learners import LEARNERS, Entry, Learner
from flexdome.learners.registry import GROUP, UNCLAIMED

__all__ = ["Code", "code_apart", "code_of", "entry_of", "known_learners", "said_code"]

Code = dict[str, int | str]
OURS = "flexdome"


def entry_of(id: str) -> Entry:
    """The entry of a registered learner, or one made up for ``"module:Class"``."""
    if id in LEARNERS:
        return LEARNERS[id]
    if ":" not in id:
        raise unknown_name("learner", id, LEARNERS)
    found = _imported(id)
    return Entry(
        id=id,
        target=id,
        version=1,
        summary=(inspect.getdoc(found) or id).splitlines()[0],
        citation=id,
        regret=UNCLAIMED,
        violation=UNCLAIMED,
    )


def known_learners(id: str) -> Mapping[str, Entry]:
    """The registry, and ``id`` by the name that its own files have."""
    entry = entry_of(id)
    return LEARNERS if id in LEARNERS else {**LEARNERS, entry.load().id: entry}


def code_of(id: str, options: Mapping[str, Any] | None = None) -> Code:
    """What tells the code of learner ``id``: ``version``, and for one from elsewhere ``package`` and ``sources``.

    The same is told of a learner inside another (the option ``inside`` of a guard): ``inside version``.

    >>> from flexdome.experiments.code import code_of
    >>> sorted(code_of("guard", {"inside": "flexdome"}))
    ['inside version', 'version']
    """
    entry, options = entry_of(id), options or {}
    code: Code = {"version": entry.version}
    module = entry.target.partition(":")[0]
    if module.partition(".")[0] != OURS:
        code |= {"package": _package(module), "sources": _sources(module)}
    inside = options.get("inside", _usually_inside(id))
    if isinstance(inside, str) and (inside in LEARNERS or ":" in inside):
        further = options.get("options")
        its = code_of(inside, further if isinstance(further, Mapping) else None)
        code |= {f"inside {name}": value for name, value in its.items()}
    return code


def said_code(code: Mapping[str, int | str]) -> str:
    """``version 2, package my-package 1.0, sources 0123456789abcdef``."""
    names = sorted(code, key=lambda name: (name != "version", name))
    return ", ".join(f"{name} {code[name]}" for name in names)


def code_apart(code: Mapping[str, int | str], other: Mapping[str, int | str]) -> Code:
    """What of ``code`` is not the same in ``other``."""
    return {name: value for name, value in code.items() if other.get(name) != value}


def _usually_inside(id: str) -> Any:
    """The learner that is inside ``id`` where no option says otherwise."""
    parameters = inspect.signature(entry_of(id).load()).parameters
    return parameters["inside"].default if "inside" in parameters else None


@cache
def _imported(id: str) -> type[Learner]:
    module, _, name = id.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # of somebody's module: whatever it is, it is why the learner is not there
        raise ValidationError(f"learner is {id!r}; it cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, Learner):
        raise ValidationError(
            f"learner is {id!r}, which is {shown(found)}; it must be a subclass of flexdome.learners.Learner"
        )
    return found


@cache
def _sources(module: str) -> str:
    """A fingerprint of the outermost package that ``module`` is in, or of its file where it is in none."""
    file = getattr(import_module(module), "__file__", None)
    if file is None:
        return "unknown"
    path = Path(file).resolve()
    while (path.parent / "__init__.py").is_file():
        path = path.parent
    return fingerprint(path)


@cache
def _package(module: str) -> str:
    """The distribution that announces learners of this package, with its version."""
    top = module.partition(".")[0]
    for point in entry_points(group=GROUP):
        if point.module.partition(".")[0] == top and point.dist is not None:
            return f"{point.dist.name} {point.dist.version}"
    return "not installed"
