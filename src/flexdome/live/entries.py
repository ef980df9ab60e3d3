"""What a record of a journal holds: its number, the episode before which it was told, of what kind it is, and a body.

An episode is written as it was checked: whether it has thresholds, states and actions as 32-bit whole numbers, rewards,
utilities and thresholds as float64, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.episode import Scaled
from flexdome.cmdp.validation import Float
from flexdome.errors import FileFormatError, ValidationError
from flexdome.learners import Learner
from flexdome.live.journal_records import Torn, read_records

__all__ = ["EPISODE", "HEAD", "LOGGED", "THRESHOLDS", "as_episode", "entries", "episode_bytes", "replay"]

EPISODE, LOGGED, THRESHOLDS = range(3)
HEAD = struct.Struct("<QQB")  # number of the record, episodes observed before it, kind


def entries(path: Path, file: Any, at: int, number: int) -> Iterator[Any]:
    """(where it ends, episode, kind, body) of each record from byte ``at`` on, numbered in order; then ``Torn``."""
    try:
        for entry in read_records(file, at):
            if isinstance(entry, Torn):
                yield entry
                return
            end, body = entry
            if len(body) < HEAD.size:
                raise FileFormatError(f"is damaged: record {number} has {len(body)} bytes")
            found, episode, kind = HEAD.unpack_from(body)
            if found != number:
                raise FileFormatError(f"is damaged: record {found} stands where {number} belongs")
            yield end, episode, kind, body[HEAD.size :]
            number += 1
    except FileFormatError as error:
        raise FileFormatError(f"{path} {error}") from None


def replay(learner: Learner, kind: int, body: bytes) -> None:
    """Tell ``learner`` what a record holds."""
    if kind == EPISODE:
        episode, rest = as_episode(body, learner.problem)
        if rest:
            raise ValidationError(f"{len(rest)} bytes are left over")
        learner.observe(episode)
    elif kind == LOGGED:
        (count,), rest, items = struct.unpack_from("<Q", body), body[8:], []
        for _ in range(count):
            episode, rest = as_episode(rest, learner.problem)
            items.append(episode)
        learner.preload(items)
    elif kind == THRESHOLDS:
        *alpha, gap = np.frombuffer(body, dtype="<f8")
        learner.take_thresholds(np.array(alpha), None if np.isnan(gap) else float(gap))
    else:
        raise ValidationError(f"its kind is {kind}, which is not known here")


def episode_bytes(data: tuple[Any, ...]) -> bytes:
    """One episode as it was checked: whether it has thresholds, then its arrays."""
    states, actions, rewards, utilities, thresholds = data
    return b"".join(
        (
            b"\1" if thresholds.size else b"\0",
            states.astype("<i4").tobytes(),
            actions.astype("<i4").tobytes(),
            rewards.astype("<f8", copy=False).tobytes(),
            utilities.astype("<f8", copy=False).tobytes(),
            thresholds.astype("<f8", copy=False).tobytes(),
        )
    )


def as_episode(body: bytes, problem: Problem) -> tuple[Episode, bytes]:
    """The episode at the beginning of ``body``, and what follows."""
    H, m = problem.horizon, problem.constraints
    sizes = [4 * (H + 1), 4 * H, 8 * H, 8 * m * H, 8 * m * H if body[:1] == b"\1" else 0]
    ends = np.cumsum([1, *sizes]).tolist()
    if len(body) < ends[-1]:
        raise ValidationError(f"an episode has {len(body)} bytes; it must have {ends[-1]}")
    parts = [body[a:b] for a, b in pairwise(ends)]
    states, actions = (np.frombuffer(part, dtype="<i4") for part in parts[:2])
    rewards: Float = np.frombuffer(parts[2], dtype="<f8")
    utilities, thresholds = (np.frombuffer(part, dtype="<f8").reshape(-1, H) for part in parts[3:])
    return Scaled(states, actions, rewards, utilities, thresholds if thresholds.size else None), body[ends[-1] :]
