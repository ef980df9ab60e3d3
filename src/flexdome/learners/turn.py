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
from threading import Lock, RLock, get_ident
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from flexdome.errors import BusyError

__all__ = ["Turn", "changing", "reading"]

P = ParamSpec("P")
R = TypeVar("R")
MOMENT = 50e-6  # seconds, for another thread to wake up


class _Change:
    """The context in which a learner is changed."""

    def __init__(self, turn: Turn, name: str) -> None:
        self.turn, self.name = turn, name

    def __enter__(self) -> None:
        turn = self.turn
        if not turn.change.acquire(blocking=False):
            raise BusyError(
                f"{self.name} is called while another thread is in {turn.name} of the same learner; "
                "one thread at a time may change a learner"
            )
        turn.name = self.name
        turn.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.turn.__exit__(kind, error, at)
        self.turn.change.release()


class Turn:
    """Whose turn it is in one learner. As a context, it waits for the turn to read."""

    def __init__(self) -> None:
        self.change = RLock()  # held by the thread whose method changes the learner, from its first line to its last
        self.name = ""  # of that method
        self.gate, self.state = Lock(), Lock()  # ``state`` is held while the learner is looked at or not whole
        self.owner, self.depth = 0, 0  # of ``state``: a method may call another
        self.waiting: set[int] = set()

    def to_change(self, name: str) -> _Change:
        """The context of the method ``name``; :class:`~flexdome.BusyError` where another thread is in one."""
        return _Change(self, name)

    def __enter__(self) -> None:
        me = get_ident()
        if self.owner != me:
            self.waiting.add(me)
            try:
                with self.gate:  # one who reads again and again does not overtake who waits here
                    self.state.acquire()
            finally:
                self.waiting.discard(me)
            self.owner = me
        self.depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.owner = 0
            self.state.release()

    def pause(self) -> None:
        """Let those who wait read, in the middle of a change, where the learner is whole."""
        if self.waiting:
            depth, self.depth = self.depth, 1
            self.__exit__(None, None, None)
            try:
                time.sleep(MOMENT)
            finally:
                self.__enter__()
                self.depth = depth

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
        with self.turn.to_change(name):
            return method(self, *args, **kwargs)

    return in_turn


def reading(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """A method that reads its learner: it waits while another thread changes it."""

    @wraps(method)
    def in_turn(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **kwargs)

    return in_turn
