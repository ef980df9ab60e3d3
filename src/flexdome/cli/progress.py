"""How far an experiment is: a live line on a terminal, plain lines elsewhere. On stderr; results go to stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from flexdome.experiments import Event, ExperimentSpec
from flexdome.experiments.compiling import seconds_to_compile

__all__ = ["Display"]

PLAIN_SECONDS = 5.0  # between plain lines
SETTLING = 5.0  # seconds after the first episodes, which waited for processes and code: the pace before is of neither


def clock(seconds: float) -> str:
    """``1:05`` or ``2:03:04``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Display:
    """Watch runs: runs done, episodes per second, time left. Damage, retries and failures get a line each."""

    def __init__(self, experiments: Iterable[ExperimentSpec], at_once: int = 1) -> None:
        experiments = list(experiments)
        self.runs = {run.id: run.episodes for experiment in experiments for run in experiment.runs()}
        ids = (row.id for experiment in experiments for row in experiment.learners)
        self.compiling = seconds_to_compile(ids, at_once)
        self.done = self.stored = 0
        self.failed: set[str] = set()
        self.at = dict.fromkeys(self.runs, 0)
        self.before = 0  # episodes that were there when we came
        self.began = self.said = time.monotonic()
        self.working: float | None = None  # since when; the code has been compiled by then
        self.moving: float | None = None  # since when there are episodes
        console = Console(stderr=True)
        self.live = _live(console) if console.is_terminal else None
        self.task = self.live.add_task("", total=None) if self.live else None

    def __enter__(self) -> Self:
        if self.compiling:
            self._say(f"compiling, about {self.compiling} s, once (`flexdome warmup` does it ahead)")
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def __call__(self, event: Event) -> None:
        """Take note of what happened."""
        id = event.run.id
        if event.kind == "started" and self.working is None:
            self.working = time.monotonic()
        if event.kind in ("stored", "resumed"):
            self.before += event.episode
            self.stored += event.kind == "stored"
        if event.kind in ("stored", "finished", "failed"):
            self.done += 1
        if event.kind == "failed":
            self.failed.add(id)
        if event.kind in ("advanced", "finished") and self.moving is None:
            self.moving = time.monotonic()
        self.at[id] = event.episode
        if event.text:
            self._say(f"{event.run.learner.name} on {event.run.environment.name}, seed {event.run.seed}: {event.text}")
        if event.kind in ("advanced", "finished", "failed"):
            self._show(last=self.done == len(self.runs))

    @property
    def speed(self) -> float:
        """Episodes per second since the workers have work."""
        since = self.began if self.working is None else self.working
        return (sum(self.at.values()) - self.before) / max(time.monotonic() - since, 1e-3)

    @property
    def total(self) -> int:
        """Episodes that there will be in the end; of a run that failed those that there are."""
        return sum(self.at[id] if id in self.failed else episodes for id, episodes in self.runs.items())

    @property
    def left(self) -> float:
        """Seconds, at the speed so far."""
        return (self.total - sum(self.at.values())) / max(self.speed, 1e-3)

    def _text(self, last: bool) -> str:
        """Runs done, and the pace once it is one."""
        parts = [f"{self.done} of {len(self.runs)} runs"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        if self.moving is not None and (last or time.monotonic() - self.moving >= SETTLING):
            parts.append(f"{self.speed:,.0f} episodes/s")
            parts += [] if last else [f"{clock(self.left)} left"]
        return ", ".join(parts)

    def _show(self, last: bool) -> None:
        text = self._text(last)
        if self.live and self.task is not None:
            self.live.update(self.task, description=text, completed=sum(self.at.values()), total=self.total)
        elif last or time.monotonic() - self.said >= PLAIN_SECONDS:
            self.said = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def _say(self, text: str) -> None:
        if self.live:
            self.live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


class _Elapsed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(clock(task.elapsed or 0.0))


def _live(console: Console) -> Progress:
    columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False), _Elapsed())
    return Progress(*columns, console=console, transient=True)
