"""Run a learner on a CMDP, with exact metrics.

The one room where a learner and the truth meet. How its episodes are run is the business of the runner that its class
names (:mod:`flexdome.simulation.runners`); here are the random numbers, the order of chunks, and the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import as_int, as_items, check_room, shown
from flexdome.errors import ValidationError
from flexdome.learners import Learner
from flexdome.planning import solve
from flexdome.simulation.history import History, Snapshot
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.runners import Chunk, Draws, runner_of
from flexdome.theory.constants import LONGEST

__all__ = ["simulate"]

CHUNK = 8192  # episodes whose random numbers are drawn at once, at most
CHUNK_BYTES = 1 << 25  # of random numbers that are held at once, unless one episode alone takes more


def simulate(
    learner: Learner,
    cmdp: CMDP,
    episodes: int | None = None,
    seed: int = 0,
    evaluate_every: int = 1,
    snapshots: Iterable[int] = (),
    observer: Callable[[History], None] | None = None,
) -> History:
    """Run ``learner`` on ``cmdp`` and return the exact account of what it did.

    Parameters
    ----------
    episodes : how many more; None runs to the learner's planned number. A second call continues the first
    seed : the run's seed: first states, actions, transitions, noise and thresholds
    evaluate_every : evaluate the policy exactly in episodes 1, 1 + k, 1 + 2k, ... (1: every one)
    snapshots : episodes before which policy, multipliers and visits are kept
    observer : called with the account of every few thousand episodes as they are done, one after the other. It may read
        the learner and must not change it; what it raises ends the run, with the learner as far as it is

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> learner = fd.FlexDOME(cmdp.problem(), episodes=500)
    >>> a = fd.simulate(learner, cmdp, episodes=200, seed=7)
    >>> b = fd.simulate(learner, cmdp, seed=7)
    >>> (a + b).strong_regret.shape
    (500,)
    """
    seed = as_int("seed", seed, 0)
    every = as_int("evaluate_every", evaluate_every, 1, LONGEST)
    _check_fit(learner, cmdp)
    if observer is not None and not callable(observer):
        raise ValidationError(f"observer is {shown(observer)}; it must be a function of a History, or None")
    return learner.turn.change("simulate", _simulate, learner, cmdp, episodes, seed, every, snapshots, observer)


def _simulate(
    learner: Learner,
    cmdp: CMDP,
    episodes: int | None,
    seed: int,
    every: int,
    snapshots: Iterable[int],
    observer: Callable[[History], None] | None,
) -> History:
    first, m = learner.episode + 1, cmdp.constraints
    count = max(learner.episodes - learner.episode, 0) if episodes is None else episodes
    last = first + as_int("episodes", count, 0, LONGEST - learner.episode) - 1
    check_room(f"episodes is {last + 1 - first}; the history", (last + 1 - first) * (2 + 4 * m))
    wanted = _wanted(snapshots, first)
    kept: dict[int, Snapshot] = {}
    best = solve(cmdp)
    runner = runner_of(learner)(learner, cmdp)
    series = runner.series()
    known, randomness = learner.problem.thresholds_known, Randomness(cmdp, seed)
    most = max(1, min(CHUNK, CHUNK_BYTES // randomness.bytes_of_an_episode(known)))
    empty = Chunk.empty(np.zeros(0, dtype=bool), m, series)  # so that a series without episodes is one too
    chunks = [empty]
    position = first

    def history(start: int, pieces: list[Chunk], kept: dict[int, Snapshot]) -> History:
        exact = np.concatenate([piece.exact for piece in pieces])
        values = np.concatenate([piece.values for piece in pieces])[exact]
        return History(
            first=start,
            planned=learner.episodes,
            episodes=np.flatnonzero(exact) + start,
            reward_gap=best.value - values[:, 0],
            violation=cmdp.alpha[:, None] - values[:, 1:].T,
            multipliers=np.concatenate([piece.multipliers for piece in pieces]).T.copy(),
            alpha=np.array(cmdp.alpha),
            realised=np.concatenate([piece.realised for piece in pieces]).T.copy(),
            diagnostics={
                name: np.concatenate([piece.diagnostics[name] for piece in pieces]).T.copy() for name in series
            },
            snapshots=kept,
        )

    while position <= last:
        if wanted and wanted[-1] == position:
            kept[wanted.pop()] = _snapshot(learner)
        cut = min(last + 1, position + most, *wanted[-1:])
        uniforms = randomness.uniforms(position, cut - position)
        thresholds = np.zeros((0, 0, 0)) if known else randomness.thresholds(position, cut - position)
        chunk = Chunk.empty((np.arange(position, cut) - 1) % every == 0, m, series)
        runner.run(Draws(uniforms, thresholds), chunk)
        chunks.append(chunk)
        if observer is not None:
            observer(history(position, [empty, chunk], {}))
            if learner.episode != cut - 1:
                raise ValidationError(
                    f"observer changed the learner: it is at episode {learner.episode}, not {cut - 1}"
                )
        position = cut
        learner.turn.pause()
    if wanted and wanted[-1] == position:
        kept[position] = _snapshot(learner)
    return history(first, chunks, kept)


def _wanted(snapshots: Iterable[int], first: int) -> list[int]:
    """The episodes from ``first`` on, last to first."""
    given = as_items("snapshots", snapshots, "it must be a series of episodes")
    wanted = {as_int(f"snapshots[{k}]", t, 1, LONGEST) for k, t in enumerate(given)}
    return sorted((t for t in wanted if t >= first), reverse=True)


def _check_fit(learner: Learner, cmdp: CMDP) -> None:
    if not isinstance(learner, Learner):
        raise ValidationError(f"learner is {shown(learner)}; it must be a Learner")
    if not isinstance(cmdp, CMDP):
        raise ValidationError(f"cmdp is {shown(cmdp)}; it must be a CMDP")
    problem = learner.problem
    mine = (problem.states, problem.actions, problem.horizon, problem.constraints)
    true = (cmdp.states, cmdp.actions, cmdp.horizon, cmdp.constraints)
    if mine != true:
        raise ValidationError(f"the learner's problem has (S, A, H, m) = {mine}; the CMDP has {true}")
    if not problem.initial_estimated and (problem.initial != cmdp.initial).any():
        raise ValidationError("the learner's problem has another initial distribution than the CMDP")
    if cmdp.allowed is not None and (problem.allowed is None or (problem.allowed & ~cmdp.allowed).any()):
        raise ValidationError("the learner's problem allows actions that the CMDP does not")


def _snapshot(learner: Learner) -> Snapshot:
    return Snapshot(learner.policy, learner.multipliers, learner.visits)
