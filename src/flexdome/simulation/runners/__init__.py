"""One runner for each family of learners: many episodes with exact metrics, in compiled chunks.

A class of learners names its runner, and it is imported when it is needed. A runner does what the public methods of
the class that names it do; where one of them is overridden further down, on a subclass or on the learner itself, the
learner is run through ``observe``. Hooks that are asked for outside a run (files, thresholds) may be overridden.
"""

from __future__ import annotations

from importlib import import_module

from flexdome.errors import ValidationError
from flexdome.learners import Learner
from flexdome.learners.hooks import HOOKS
from flexdome.simulation.runners.base import Chunk, Draws, Runner, buffers_of

__all__ = ["OBSERVED", "Chunk", "Draws", "Runner", "buffers_of", "overridden", "runner_of"]

OBSERVED = Learner.runner


def runner_of(learner: Learner) -> type[Runner]:
    """The runner that the learner's class names, or the one through ``observe``."""
    kind = type(learner)
    declares = next(cls for cls in kind.__mro__ if "runner" in vars(cls))
    own = overridden(learner, declares) or learner.problem.initial_estimated  # compiled loops draw first states as told
    target: str = OBSERVED if own else vars(declares)["runner"]
    return _load(kind, target)


def overridden(learner: Learner, declares: type) -> list[str]:
    """The public methods and properties of ``declares`` that the learner has of its own."""
    below = type(learner).__mro__[: type(learner).__mro__.index(declares)]
    names = [name for space in (*below, learner) for name in vars(space) if not name.startswith("_")]
    return [name for name in names if name not in HOOKS and _is_method(getattr(declares, name, None))]


def _is_method(member: object) -> bool:
    return callable(member) or hasattr(member, "__get__")


def _load(kind: type, target: str) -> type[Runner]:
    try:
        module, name = str(target).split(":")
        runner = getattr(import_module(module), name)
    except (AttributeError, ValueError, ImportError) as error:
        raise ValidationError(
            f"{kind.__name__}.runner is {target!r}; it must be 'package.module:Class' ({error})"
        ) from error
    if not (isinstance(runner, type) and issubclass(runner, Runner)):
        raise ValidationError(f"{kind.__name__}.runner is {target!r}; it must name a Runner")
    return runner
