"""One thread at a time in a learner.

Compiled steps run without the interpreter's lock, so two threads in one learner would change its arrays under each
other. A method that *changes* a learner takes its turn or is refused: which of two threads comes first would decide
what is learned. One that *reads* waits for its turn: until the other method ends, or until a simulation pauses between
two pieces of work, where the learner is whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from threading import Condition, RLock, get_ident
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from flexdome.errors import BusyError

__all__ = ["Turn", "changing", "reading"]

P = ParamSpec("P")
R = TypeVar("R")
MOMENT = 50e-6  # seconds, for another thread to wake up
PATIENCE = 0.1  # seconds, that a simulation waits for one who wanted to read


class Turn:
    """Whose turn it is in one learner.

    ``lock`` is held while the learner is looked at or not whole. It is taken by ``with`` alone, so that no interrupt
    leaves it locked; ``changer`` is the thread whose method, ``name``, changes the learner, pauses included.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.changer, self.name = 0, ""
        self.waiting: set[int] = set()
        self._read = Condition(self.lock)

    def change(self, name: str, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``method``, which changes the learner; :class:`~flexdome.BusyError` where another thread does."""
        me = get_ident()
        if self.changer == me:
            return method(*args, **kwargs)
        if self.changer == 0:
            with self.lock:
                if self.changer == 0:
                    try:
                        self.changer, self.name = me, name
                        return method(*args, **kwargs)
                    finally:
                        self.changer = 0
        raise BusyError(
            f"{name} is called while another thread is in {self.name} of the same learner; "
            "one thread at a time may change a learner"
        )

    def read(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``method``, which reads the learner, when the learner is whole."""
        me = get_ident()
        if self.changer == me:
            return method(*args, **kwargs)
        self.waiting.add(me)
        if self.changer != 0:
            time.sleep(MOMENT)  # leaves a simulation time to go on, also where one reads again and again
        with self.lock:
            self.waiting.discard(me)
            try:
                return method(*args, **kwargs)
            finally:
                self._read.notify_all()

    def pause(self) -> None:
        """Let those who wait read, in the middle of a change, where the learner is whole."""
        if self.waiting:
            self._read.wait(PATIENCE)

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        """A copy of a learner has a turn of its own."""
        return Turn, ()


class _HasTurn(Protocol):
    turn: Turn


L = TypeVar("L", bound=_HasTurn)


def changing(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """A method that changes its learner: refused while another thread is in one."""
    name = method.__name__

    @wraps(method)
    def in_turn(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.turn.change(name, method, self, *args, **kwargs)

    return in_turn


def reading(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """A method that reads its learner: it waits while another thread changes it."""

    @wraps(method)
    def in_turn(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.turn.read(method, self, *args, **kwargs)

    return in_turn
