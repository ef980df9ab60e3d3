"""One row for each statement: it holds, it fails at some episode by some amount, or it says nothing.

A statement is an inequality left <= right at each of many episodes t, in one or more runs. It

* **fails** where left exceeds right beyond rounding, anywhere: where first, and by how much at worst;
* is **vacuous** where right is everywhere above what is true of every policy anyway (its ``trivial`` level: a gap or a
  violation never exceeds H), so that it holds and says nothing;
* **holds** otherwise; ``speaks_from`` is the first episode from which right stays below the trivial level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from flexdome.cmdp.validation import Float
from flexdome.errors import ValidationError

__all__ = ["Finding", "Series", "Word", "counted", "judged", "numbered"]

Word = Literal["holds", "fails", "vacuous"]
ROUNDING = 1e-9  # relative to one plus the right-hand side


def numbered(count: int, noun: str) -> str:
    """So many of a thing: one run, two runs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@dataclass(frozen=True)
class Series:
    """Both sides of a statement at the episodes ``t`` of one run."""

    label: str
    t: npt.NDArray[np.int64]
    left: Float
    right: Float

    def __post_init__(self) -> None:
        for name in ("t", "left", "right"):
            object.__setattr__(self, name, np.asarray(getattr(self, name)))
        if not self.t.shape == self.left.shape == self.right.shape or self.t.ndim != 1 or not self.t.size:
            shapes = f"{self.t.shape}, {self.left.shape} and {self.right.shape}"
            raise ValidationError(
                f"t, left and right of {self.label} have shapes {shapes}; they must be one (n,), n > 0"
            )


@dataclass(frozen=True)
class Finding:
    """What became of one statement in one setting.

    Attributes
    ----------
    key : a short name, also of its figure's file
    statement, place : what is claimed, and where in the paper
    setting : of what runs
    word : "holds", "fails" or "vacuous"
    checked : how many inequalities were looked at
    where : the first episode at which it fails; run : in which run
    excess : left - right, at its largest (negative: the least slack)
    speaks_from : the first episode from which the right-hand side stays below the trivial level, in every run
    note : one sentence more
    series : what a figure shows; axis : what its y axis is called
    share, allowed : of a statement of probability, the share of runs in which it failed and the share that is claimed
    """

    key: str
    statement: str
    place: str
    setting: str
    word: Word
    checked: int
    excess: float
    where: int | None = None
    run: str | None = None
    speaks_from: int | None = None
    trivial: float | None = None
    note: str = ""
    axis: str = ""
    series: tuple[Series, ...] = field(default=(), repr=False)
    share: float | None = None
    allowed: float | None = None

    @property
    def verdict(self) -> str:
        """In words: ``fails at t = 3 (seed 0), by 0.2``."""
        if self.share is not None and self.word == "fails":
            return f"fails in {100 * self.share:.0f} % of runs, first at t = {self.where:,}"
        if self.word == "fails":
            place = "" if self.where is None else f" at t = {self.where:,}" + (f" ({self.run})" if self.run else "")
            return f"fails{place}, by {self.excess:.3g}" + (" at worst" if place else "")
        if self.word == "holds" and self.speaks_from is not None and self.speaks_from > 1:
            return f"holds, and says something from t = {self.speaks_from:,} on"
        return self.word


def judged(
    key: str,
    statement: str,
    place: str,
    setting: str,
    series: Sequence[Series],
    trivial: float | None = None,
    note: str = "",
    axis: str = "",
    rounding: float = ROUNDING,
) -> Finding:
    """The finding for ``series``, by the rule above."""
    if not series:
        raise ValidationError(f"{statement} was looked at nowhere")
    excess = [one.left - one.right for one in series]
    broken = [
        np.flatnonzero(gap > rounding * (1.0 + np.abs(one.right))) for gap, one in zip(excess, series, strict=True)
    ]
    worst = float(max(np.max(gap) for gap in excess))
    checked = sum(one.t.size for one in series)
    first = [(int(one.t[bad[0]]), one.label) for bad, one in zip(broken, series, strict=True) if bad.size]
    common = (key, statement, place, setting)
    more = {"trivial": trivial, "note": note, "axis": axis, "series": tuple(series)}
    if first:
        where, run = min(first)
        return Finding(*common, "fails", checked, worst, where, run, **more)  # type: ignore[arg-type]
    if trivial is None:
        return Finding(*common, "holds", checked, worst, **more)  # type: ignore[arg-type]
    starts = [_speaks(one, trivial) for one in series]
    if any(start is None for start in starts):
        silent = all(bool((one.right > trivial).all()) for one in series)
        word: Word = "vacuous" if silent or all(start is None for start in starts) else "holds"
        return Finding(*common, word, checked, worst, **more)  # type: ignore[arg-type]
    return Finding(*common, "holds", checked, worst, speaks_from=max(s for s in starts if s), **more)  # type: ignore[arg-type]


def _speaks(one: Series, trivial: float) -> int | None:
    silent = np.flatnonzero(one.right > trivial)
    after = int(silent[-1]) + 1 if silent.size else 0
    return int(one.t[after]) if after < one.t.size else None


def counted(
    key: str, statement: str, place: str, setting: str, failures: Sequence[int | None], allowed: float, note: str = ""
) -> Finding:
    """The finding for a statement of probability: in how many of n runs it failed, and when first.

    ``failures`` has the first episode that failed, or None, of each run; ``allowed`` is the probability of failure that
    is claimed. It fails where that many failures would come up with a probability of at most 1 % (binomial) or less.
    """
    from scipy.stats import binom

    n, bad = len(failures), [t for t in failures if t is not None]
    if not n:
        raise ValidationError(f"{statement} was looked at in no run")
    surprise = float(binom.sf(len(bad) - 1, n, allowed)) if bad else 1.0
    word: Word = "fails" if surprise <= 0.01 else "holds"
    text = f"failed in {len(bad)} of {n} runs, at most {allowed:.3g} of them are claimed"
    return Finding(
        key, statement, place, setting, word, n, len(bad) / n - allowed, where=min(bad) if word == "fails" else None,
        note=f"{text}; {note}" if note else text, share=len(bad) / n, allowed=allowed,
    )  # fmt: skip
