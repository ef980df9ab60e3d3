"""Learners at work: small CMDPs, roll-outs in plain Python, and everything that a learner holds, as bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import flexdome as fd
from flexdome.learners import Learner
from flexdome.learners.primal_dual.reference import NumpyFlexDOME
from flexdome.simulation import History

LAWS = ("known", "hidden", "normal", "steps")


def small_cmdp(
    seed: int = 0,
    S: int = 5,
    A: int = 3,
    H: int = 4,
    m: int = 1,
    *,
    law: str = "known",
    noise: Any = "none",
    initial: Any = 0,
    stationary: bool = False,
    sparse: bool = False,
    fraction: float = 0.8,
    masked: bool = False,
    spread: float = 1.0,
    unit: float = 1.0,
) -> fd.CMDP:
    """A random CMDP; each threshold is ``fraction`` of the way to what the uniform policy reaches.

    ``spread`` is how much rewards and utilities differ, ``unit`` how large utilities are.
    ``masked`` forbids about two actions in five, and leaves one at least.
    """
    rng = np.random.default_rng([seed, S, A, H, m])
    step = () if stationary else (H,)
    r, d = rng.random((*step, S, A)), rng.random((m, *step, S, A))
    if spread != 1.0:
        r, d = 0.5 + spread * (r - 0.5), 0.5 + spread * (d - 0.5)
    d = unit * d
    K = min(2, S) if sparse else S
    p = rng.dirichlet(np.full(K, 0.5), size=(*step, S, A))
    options: dict[str, Any] = {"horizon": H, "noise": noise}
    if masked:
        allowed = rng.random((H, S, A)) < 0.6
        allowed |= np.eye(A, dtype=bool)[rng.integers(0, A, size=(H, S))]
        options["allowed"] = allowed

    def build(thresholds: Any) -> fd.CMDP:
        if sparse:
            nxt = np.argsort(rng_next.random((*step, S, A, S)), axis=-1)[..., :K]
            return fd.CMDP.from_successors(nxt, p, r, d, thresholds, initial, **options)
        return fd.CMDP(p, r, d, thresholds, initial, **options)

    rng_next = np.random.default_rng([seed, 1])
    free = build(np.zeros(m))
    alpha = fraction * fd.baselines(free).uniform[1].utilities
    rng_next = np.random.default_rng([seed, 1])
    if law == "normal":
        return build([fd.Threshold.normal(a, 0.5 * a) for a in alpha])
    if law == "steps":
        return build([fd.Threshold.uniform(0.0, 2.0 * a, per="step") for a in alpha])
    return build(alpha)


def problem_of(cmdp: fd.CMDP, law: str = "known") -> fd.Problem:
    return cmdp.problem(hide=("thresholds",) if law == "hidden" else ())


class World:
    """Plays a CMDP in plain Python."""

    def __init__(self, cmdp: fd.CMDP, seed: int = 0) -> None:
        self.cmdp = cmdp
        self.rng = np.random.default_rng([seed, 7])
        p = cmdp.to_dense().transitions
        self.cumulative = np.cumsum(np.broadcast_to(p, (cmdp.horizon, *p.shape[1:])), axis=-1)

    def _draw(self, cumulative: np.ndarray) -> int:
        return int(np.searchsorted(cumulative / cumulative[-1], self.rng.random(), side="right"))

    def play(self, policy: np.ndarray) -> fd.Episode:
        cmdp, H, m = self.cmdp, self.cmdp.horizon, self.cmdp.constraints
        states, actions = [self._draw(np.cumsum(cmdp.initial))], []
        for h in range(H):
            actions.append(self._draw(np.cumsum(policy[h, states[h]])))
            states.append(self._draw(self.cumulative[h, states[h], actions[h]]))
        at = (np.arange(H), states[:-1], actions)
        seen = np.stack([cmdp.rewards[at], *(d[at] for d in cmdp.utilities)])
        if cmdp.noise == "bernoulli":
            seen = (self.rng.random(seen.shape) < seen).astype(float)
        alpha = np.concatenate([law.sample(self.rng.random((1, H))) for law in cmdp.thresholds])
        return fd.Episode(states, actions, seen[0], seen[1:], alpha.reshape(m, H))


def follow(learner: fd.FlexDOME, twin: NumpyFlexDOME, cmdp: fd.CMDP, episodes: int, seed: int = 0) -> float:
    """Let the learner and its twin observe the same episodes; the largest difference that was ever seen."""
    world = World(cmdp, seed)
    worst = 0.0
    for t in range(episodes):
        episode = world.play(learner.policy)
        learner.observe(episode)
        twin.observe(episode)
        worst = max(worst, distance(learner, twin, beliefs=t % 50 == 0 or t == episodes - 1))
    return worst


def distance(learner: fd.FlexDOME, twin: NumpyFlexDOME, beliefs: bool = False) -> float:
    """How far the learner's policy and multipliers (and what it believes) are from its twin's."""
    parts = [learner.policy - twin.policy, learner.multipliers - twin.lam]
    if beliefs:
        told, (_, V) = learner.beliefs(), twin.evaluate()
        parts += [told.value - V[0], told.utilities - V[1:-1], told.visits - twin.N]
    with np.errstate(invalid="ignore"):
        gaps = [float(np.abs(part).max()) for part in parts]
    return max(np.inf if np.isnan(gap) else gap for gap in gaps)


def _constants(settings: Any) -> Iterator[tuple[str, Any]]:
    """Names and numbers, switches among them, of a learner's settings."""
    for name, part in settings._asdict().items():
        if name == "form" and part is not None:
            yield from _constants(part)
        else:
            yield f"settings.{name}", part


def bits(learner: fd.FlexDOME) -> dict[str, Any]:
    """Everything that a learner holds, work space and reserve too."""
    core = learner.model.core
    return {
        **{name: array.tobytes() for part in core for name, array in part._asdict().items()},
        **{name: np.asarray(part, dtype=np.float64).tobytes() for name, part in _constants(learner.settings)},
        "episode": learner.episode,
        "thresholds": learner.problem.thresholds.tobytes(),
        "changes": repr(learner.threshold_changes),
    }


def learned(learner: fd.FlexDOME) -> dict[str, Any]:
    """What a learner knows and decided, wherever in memory it is kept."""
    state = {name: array.tobytes() for name, array in learner.state().items()}
    alike = {"episode": learner.episode, "changes": repr(learner.threshold_changes)}
    return {**state, **alike, "policy": learner.policy.tobytes(), "multipliers": learner.multipliers.tobytes()}


class Observed(Learner):
    """Another learner behind ``observe`` alone: simulation cannot use its compiled chunks. Keeps the episodes."""

    id = "observed"

    def __init__(self, inner: Learner) -> None:
        super().__init__(inner.problem, inner.episodes, inner.seed)
        self.inner, self.seen = inner, []
        self.episode = inner.episode

    policy = property(lambda self: self.inner.policy)
    multipliers = property(lambda self: self.inner.multipliers)

    def observe(self, episode: fd.Episode) -> None:
        self.seen.append(episode)
        self.inner.observe(episode)
        self.episode += 1

    def preload(self, episodes: Any) -> None:
        self.inner.preload(episodes)

    def beliefs(self) -> Any:
        return self.inner.beliefs()

    def options(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any) -> None:
        pass


def same_history(a: Any, b: Any) -> bool:
    """Whether two histories have the same bits."""
    arrays = ("episodes", "reward_gap", "violation", "multipliers")
    return (
        (a.first, a.planned) == (b.first, b.planned)
        and all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays)
        and all(getattr(a, name).shape == getattr(b, name).shape for name in arrays)
        and a.diagnostics.keys() == b.diagnostics.keys()
        and all(a.diagnostics[k].tobytes() == b.diagnostics[k].tobytes() for k in a.diagnostics)
        and a.snapshots.keys() == b.snapshots.keys()
        and all(
            getattr(a.snapshots[t], name).tobytes() == getattr(b.snapshots[t], name).tobytes()
            for t in a.snapshots
            for name in ("policy", "multipliers", "visits")
        )
    )


def compiled_and_plain(code: str, folder: Path) -> tuple[Any, Any]:
    """What a script saves to its first argument, run with compilation and without; a warning is an error."""
    found = []
    path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    for name, flag in (("compiled", "0"), ("plain", "1")):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code), str(folder / f"{name}.npy")],
            env={**os.environ, "NUMBA_DISABLE_JIT": flag, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(np.load(folder / f"{name}.npy"))
    return found[0], found[1]


def in_pieces(learner: Learner, cmdp: fd.CMDP, cuts: list[int], episodes: int, **options: Any) -> History:
    """A run of ``episodes`` that stops at every cut, put together again."""
    parts = [fd.simulate(learner, cmdp, episodes=end - learner.episode, **options) for end in [*sorted(cuts), episodes]]
    together = parts[0]
    for part in parts[1:]:
        together = together + part
    return together


def three_states():
    """Three states, one step each way: the optimum is solved by hand.

    From state 0 action 0 leads to state 1 (reward 1, utility 0), action 1 to state 2 (reward 0, utility 1); two steps.
    The first step earns nothing. With alpha = 0.4 the best is to go to state 2 with probability 0.4: value 0.6, and
    the multiplier is 1.
    """
    p = np.zeros((2, 3, 2, 3))
    p[0, 0, 0, 1] = p[0, 0, 1, 2] = 1.0
    p[0, 1:, :, 0] = 1.0
    p[1, :, :, 0] = 1.0
    r, d = np.zeros((2, 3, 2)), np.zeros((1, 2, 3, 2))
    r[1, 1], d[0, 1, 2] = 1.0, 1.0
    return fd.CMDP(p, r, d, [0.4], 0)
