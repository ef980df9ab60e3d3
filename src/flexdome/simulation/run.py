"""Run a learner on a CMDP, with exact metrics.

The one room where a learner and the truth meet: the learner's arrays and the model go together into a compiled kernel
that plays, measures and learns many episodes at a time. A learner that plans now and then is played, measured and
recorded in compiled calls from one plan to the next. Any other runs through ``observe``, with compiled roll-outs and
evaluations around it. All see the same random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import CMDP, Episode
from flexdome.cmdp.validation import Float, as_int, as_items, check_room, shown
from flexdome.errors import ValidationError
from flexdome.kernels.rollout import Buffers, play, run_primal_dual
from flexdome.learners import Learner
from flexdome.learners.primal_dual.anchordome import AnchorDOME
from flexdome.learners.primal_dual.family import PrimalDualLearner
from flexdome.learners.programs.family import ProgramLearner
from flexdome.learners.programs.kernels import play_fixed
from flexdome.planning import solve
from flexdome.planning.evaluation import evaluate_batch
from flexdome.simulation.handed import handed_mixture, handed_multipliers, handed_policy
from flexdome.simulation.history import History, Snapshot
from flexdome.simulation.kinds import as_compiled, as_program, as_proximal
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.runners.anchored import run_anchored
from flexdome.simulation.runners.proximal import run_chunk, told_diagnostics
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
) -> History:
    """Run ``learner`` on ``cmdp`` and return the exact account of what it did.

    Parameters
    ----------
    episodes : how many more; None runs to the learner's planned number. A second call continues the first
    seed : the run's seed: first states, actions, transitions, noise and thresholds
    evaluate_every : evaluate the policy exactly in episodes 1, 1 + k, 1 + 2k, ... (1: every one)
    snapshots : episodes before which policy, multipliers and visits are kept

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
    return learner.turn.change("simulate", _simulate, learner, cmdp, episodes, seed, every, snapshots)


def _simulate(
    learner: Learner, cmdp: CMDP, episodes: int | None, seed: int, every: int, snapshots: Iterable[int]
) -> History:
    first = learner.episode + 1
    count = max(learner.episodes - learner.episode, 0) if episodes is None else episodes
    last = first + as_int("episodes", count, 0, LONGEST - learner.episode) - 1
    check_room(f"episodes is {last + 1 - first}; the history", (last + 1 - first) * (2 + 4 * cmdp.constraints))
    wanted = _wanted(snapshots, first)
    kept: dict[int, Snapshot] = {}
    best = solve(cmdp)
    compiled, program, proximal = as_compiled(learner), as_program(learner), as_proximal(learner)
    notes: dict[str, list[Float]] = {}
    if program is not None:  # no episode, no number, but the same series
        notes = {name: [none] for name, none in _empty_notes(program, cmdp.constraints, 0).items()}
    randomness = Randomness(cmdp, seed)
    most = max(1, min(CHUNK, CHUNK_BYTES // randomness.bytes_of_an_episode(learner.problem.thresholds_known)))
    m = cmdp.constraints
    pieces: list[Float] = []
    margins: list[Float] = []
    told: list[Float] = []
    position = first
    while position <= last:
        if wanted and wanted[-1] == position:
            kept[wanted.pop()] = _snapshot(learner)
        cut = min(last + 1, position + most, *wanted[-1:])
        numbers = np.arange(position, cut)
        out = np.full((numbers.size, 2 + 4 * m), np.nan)
        exact = (numbers - 1) % every == 0
        if compiled is not None:
            margins.append(_run_compiled(compiled, cmdp, randomness, position, exact, out))
        elif program is not None:
            margins.append(_run_program(program, cmdp, randomness, position, exact, out, notes))
        elif proximal is not None:
            told.append(run_chunk(proximal, cmdp, randomness, position, exact, out, episode_buffers(cmdp)))
        else:
            _run_observed(learner, cmdp, randomness, position, exact, out)
        pieces.append(out)
        position = cut
        learner.turn.pause()
    if wanted and wanted[-1] == position:
        kept[position] = _snapshot(learner)
    table = np.concatenate(pieces) if pieces else np.zeros((0, 2 + 4 * m))
    evaluated = np.flatnonzero((np.arange(first, last + 1) - 1) % every == 0)
    diagnostics: dict[str, Float] = {}
    if compiled is not None or program is not None:
        diagnostics = {
            "value": table[:, 1 + 2 * m].copy(),
            "utilities": table[:, 2 + 2 * m : 2 + 3 * m].T.copy(),
            "thresholds": table[:, 2 + 3 * m :].T.copy(),
            "margin": np.concatenate(margins).T.copy() if margins else np.zeros((m, 0)),
        }
    elif proximal is not None:
        plans = np.concatenate(told) if told else np.zeros((0, proximal.own.told.size))
        diagnostics = told_diagnostics(plans, m)
    diagnostics |= {name: np.concatenate(parts, axis=-1) for name, parts in notes.items()}
    return History(
        first=first,
        planned=learner.episodes,
        episodes=evaluated + first,
        reward_gap=best.value - table[evaluated, 0],
        violation=cmdp.alpha[:, None] - table[evaluated, 1 : 1 + m].T,
        multipliers=table[:, 1 + m : 1 + 2 * m].T.copy(),
        diagnostics=diagnostics,
        snapshots=kept,
    )


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
    if (problem.initial != cmdp.initial).any():
        raise ValidationError("the learner's problem has another initial distribution than the CMDP")


def _snapshot(learner: Learner) -> Snapshot:
    return Snapshot(learner.policy, learner.multipliers, learner.visits)


def episode_buffers(cmdp: CMDP, W: int = 4) -> Buffers:
    H, S, A, m = cmdp.horizon, cmdp.states, cmdp.actions, cmdp.constraints
    return Buffers(
        states=np.zeros(H + 1, dtype=np.int64),
        actions=np.zeros(H, dtype=np.int64),
        rewards=np.zeros(H),
        utilities=np.zeros((m, H)),
        values=np.zeros(1 + m),
        q=np.zeros((2, S)),
        x=np.zeros(S * A),
        step=np.zeros((3, W)),
        alpha=np.zeros(m),
        none=np.zeros((0, 0)),
    )


def _run_compiled(
    learner: PrimalDualLearner,
    cmdp: CMDP,
    randomness: Randomness,
    first: int,
    exact: npt.NDArray[np.bool_],
    out: Float,
) -> Float:
    """A chunk in the kernel; the margins (n, m) used come back."""
    count = exact.size
    uniforms = randomness.uniforms(first, count)
    known = learner.problem.thresholds_known
    thresholds = np.zeros((0, 0, 0)) if known else randomness.thresholds(first, count)
    schedules = learner.schedule(first, count)
    buffers = episode_buffers(cmdp, learner.model.W)
    done = 0
    while done < count:
        learner.model.reserve()
        core, settings = learner.model.core, learner.settings
        play_on = tuple(cmdp.model), uniforms, thresholds, schedules, done, exact, out, buffers, learner._played
        if isinstance(learner, AnchorDOME):
            done = run_anchored(core, learner.anchor, settings, learner.anchor_rate, *play_on)
        else:
            done = run_primal_dual(core, settings, *play_on)
    return schedules[2]


def _run_program(
    learner: ProgramLearner,
    cmdp: CMDP,
    randomness: Randomness,
    first: int,
    exact: npt.NDArray[np.bool_],
    out: Float,
    notes: dict[str, list[Float]],
) -> Float:
    """A chunk, from plan to plan: the policy is evaluated once, its episodes are played and recorded in one call."""
    learner.settle()
    m, count = cmdp.constraints, exact.size
    uniforms = randomness.uniforms(first, count)
    known = learner.problem.thresholds_known
    thresholds = np.zeros((0, 0, 0)) if known else randomness.thresholds(first, count)
    buffers, truth = episode_buffers(cmdp), tuple(cmdp.model)
    said = _empty_notes(learner, m, count)
    choice = np.zeros(count, dtype=np.int64)
    done = 0
    while done < count:
        begin, (weights, policies) = done, learner.mixture
        values = evaluate_batch(cmdp.model, policies)
        end = min(done + learner.steady(), count)
        choice[begin:end] = learner.draws(end - begin)
        row = np.concatenate([weights @ values, learner.multipliers, learner.planned_values, learner.thresholds])
        about = {"replanned": float(learner.planned == learner.episode), **learner.notes()}
        done = play_fixed(
            learner.records, policies, choice, learner.replan.doubling, truth, uniforms, thresholds, begin, end,
            buffers, learner._doubled, learner._played,
        )  # fmt: skip
        out[begin:done] = row
        out[begin:done, : 1 + m][~exact[begin:done]] = np.nan
        for name, value in about.items():
            said[name][begin:done] = value
        said["replanned"][begin + 1 : done] = 0.0
        if learner.own_randomness:
            drawn = values[choice[begin:done]]
            said["drawn_value"][begin:done], said["drawn_utilities"][:, begin:done] = drawn[:, 0], drawn[:, 1:].T
        learner.settle()
        learner.turn.pause()
    for name, series in said.items():
        notes.setdefault(name, []).append(series)
    return np.zeros((count, m))


def _empty_notes(learner: ProgramLearner, m: int, count: int) -> dict[str, Float]:
    """Room for what a learner says of its plans, and for the values of the policies that were drawn."""
    said = {name: np.zeros(count) for name in ("replanned", *learner.notes())}
    if learner.own_randomness:
        said |= {"drawn_value": np.zeros(count), "drawn_utilities": np.zeros((m, count))}
    return said


def _run_observed(
    learner: Learner,
    cmdp: CMDP,
    randomness: Randomness,
    first: int,
    exact: npt.NDArray[np.bool_],
    out: Float,
) -> None:
    """A chunk through ``observe``, episode by episode."""
    m = cmdp.constraints
    uniforms = randomness.uniforms(first, exact.size)
    known = learner.problem.thresholds_known
    thresholds = None if known else randomness.thresholds(first, exact.size)
    buffers = episode_buffers(cmdp)
    for t in range(exact.size):
        policy = handed_policy(learner, cmdp)
        out[t, 1 + m : 1 + 2 * m] = handed_multipliers(learner)
        if exact[t]:
            weights, policies = handed_mixture(learner, cmdp)
            out[t, : 1 + m] = weights @ evaluate_batch(cmdp.model, policies)
        play(policy, tuple(cmdp.model), uniforms, t, buffers)
        learner.observe(
            Episode(
                buffers.states.copy(),
                buffers.actions.copy(),
                buffers.rewards.copy(),
                buffers.utilities.copy(),
                None if thresholds is None else thresholds[t],
            )
        )
        learner.turn.pause()
