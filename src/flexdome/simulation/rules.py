"""The rules that every learner keeps, each a sentence and a function that raises what it saw.

They are listed, with the methods that each is about, in :mod:`flexdome.simulation.check`.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flexdome.cmdp import CMDP, Episode
from flexdome.cmdp.validation import shown
from flexdome.errors import FlexDOMEError
from flexdome.kernels.rollout import play
from flexdome.learners import Entry, Learner
from flexdome.learners.files import read_learner
from flexdome.simulation.handed import handed_mixture, handed_multipliers, handed_policy
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.run import simulate
from flexdome.simulation.runners import OBSERVED, buffers_of

__all__ = [
    "CheckError",
    "Failure",
    "Rule",
    "Subject",
    "bad_episodes_are_refused",
    "it_can_be_made",
    "logged_data_are_taken",
    "observe_is_simulate",
    "policies_are_distributions",
    "require",
    "runs_are_seeded",
    "runs_can_be_cut",
    "saving_resumes",
    "the_runner_tells_the_truth",
    "the_truth_is_out_of_reach",
    "thresholds_can_be_changed",
]

EPISODES = 60
SEED = 11
CLOSE = 1e-9  # times H: rounding
UNLIKELY = 1e-6


class CheckError(FlexDOMEError):
    """A learner broke rules that every learner keeps.

    Attributes
    ----------
    failures : one for each rule that was broken or could not be checked: the rule, what was seen, and the methods to
        look at
    """

    failures: tuple[Failure, ...] = ()


class Failure(NamedTuple):
    """A rule that was broken: what was seen, the methods to look at, and the error, if one was raised.

    ``unchecked``: nobody knows whether it is, for what was seen of a rule before it came in between.
    """

    rule: str
    seen: str
    methods: tuple[str, ...]
    error: Exception | None = None
    unchecked: bool = False


class _Local(Entry):
    """A row for a class that need not be registered, nor importable by name."""

    def __init__(self, learner: type[Learner]) -> None:
        super().__init__(learner.id, "", 1, "", "", "", "")
        object.__setattr__(self, "_class", learner)

    def load(self) -> type[Learner]:
        """The class itself."""
        learner: type[Learner] = self._class  # type: ignore[attr-defined]
        return learner


class Subject:
    """The learner class under test, on one small CMDP."""

    def __init__(self, learner: type[Learner], cmdp: CMDP, options: dict[str, Any], randomises: bool) -> None:
        self.learner, self.cmdp, self.options, self.randomises = learner, cmdp, options, randomises
        self.problem = cmdp.problem()
        self.notes: list[str] = []

    def make(self, seed: int = 0) -> Learner:
        """A new learner."""
        return self.learner(self.problem, episodes=EPISODES, seed=seed, **self.options)

    def episodes(self, learner: Learner, count: int, observe: bool = True) -> list[Episode]:
        """Play ``count`` episodes of ``learner``, which observes them (or only its present policy is played)."""
        randomness = Randomness(self.cmdp, SEED)
        first = learner.episode + 1
        uniforms, samples = randomness.uniforms(first, count), randomness.thresholds(first, count)
        buffers = buffers_of(self.cmdp)
        played = []
        for t in range(count):
            play(handed_policy(learner, self.cmdp), tuple(self.cmdp.model), uniforms, t, buffers)
            states, actions, rewards, utilities = (array.copy() for array in buffers[:4])
            thresholds = None if learner.problem.thresholds_known else samples[t]
            played.append(Episode(states, actions, rewards, utilities, thresholds))
            if observe:
                learner.observe(played[-1])
        return played


def require(holds: bool, otherwise: str) -> None:
    """Unless it holds, that is what was seen."""
    if not holds:
        raise CheckError(otherwise)


def _same(a: Learner, b: Learner) -> bool:
    return bool((a.policy == b.policy).all() and (a.multipliers == b.multipliers).all())


def it_can_be_made(subject: Subject) -> None:
    """It is made as learner(problem, episodes=, seed=) with its options, and knows what it was told."""
    learner = subject.make(seed=3)
    require(learner.problem is subject.problem, "problem is not what the constructor was given")
    require(learner.episodes == EPISODES, f"episodes is {learner.episodes} where {EPISODES} were given")
    require(learner.seed == 3, f"seed is {shown(learner.seed)} where 3 was given")
    require(learner.episode == 0, f"episode is {learner.episode} before the first")


def policies_are_distributions(subject: Subject) -> None:
    """Every policy it plays, and every one it may draw, is a distribution over actions."""
    learner = subject.make()
    for _ in range(EPISODES // 2):
        handed_policy(learner, subject.cmdp)
        handed_mixture(learner, subject.cmdp)
        lam = handed_multipliers(learner)
        require(bool((lam >= 0).all()), "a multiplier is negative")
        subject.episodes(learner, 1)


def observe_is_simulate(subject: Subject) -> None:
    """Observe and simulate give the same policies and multipliers, bit for bit."""
    one, other = subject.make(), subject.make()
    subject.episodes(one, EPISODES)
    simulate(other, subject.cmdp, episodes=EPISODES, seed=SEED)
    require(_same(one, other), "after the same episodes the policies or multipliers differ")
    require(one.episode == other.episode == EPISODES, "episode does not count the episodes")


def the_runner_tells_the_truth(subject: Subject) -> None:
    """The gaps, violations and multipliers that its runner tells are those of its policies in the true model."""
    plain = type(subject.learner.__name__, (subject.learner,), {"runner": OBSERVED})
    history = simulate(subject.make(), subject.cmdp, episodes=EPISODES, seed=SEED)
    learner = plain(subject.problem, episodes=EPISODES, seed=0, **subject.options)
    true = simulate(learner, subject.cmdp, episodes=EPISODES, seed=SEED)
    for name in ("reward_gap", "violation", "multipliers"):
        one, other = getattr(history, name), getattr(true, name)
        apart = np.abs(one - other).max(initial=0.0) if one.shape == other.shape else np.inf
        require(bool(apart <= CLOSE * subject.cmdp.horizon), f"{name} is up to {apart:.3g} from what is true")


def runs_can_be_cut(subject: Subject) -> None:
    """A run cut in two is the run."""
    one, other = subject.make(), subject.make()
    whole = simulate(one, subject.cmdp, episodes=40, seed=SEED)
    first = simulate(other, subject.cmdp, episodes=17, seed=SEED)
    pieces = first + simulate(other, subject.cmdp, episodes=23, seed=SEED)
    require(bool((whole.reward_gap == pieces.reward_gap).all() and _same(one, other)), "the pieces differ")


def saving_resumes(subject: Subject) -> None:
    """A saved learner continues bit for bit where it stood."""
    learner = subject.make()
    subject.episodes(learner, 20)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        learner.save(path)
        again = read_learner(path, {learner.id: _Local(subject.learner)})
    require(_same(learner, again) and learner.episode == again.episode, "the loaded learner differs at once")
    subject.episodes(learner, 20)
    subject.episodes(again, 20)
    require(_same(learner, again), "the loaded learner differs after twenty more episodes")


def bad_episodes_are_refused(subject: Subject) -> None:
    """A bad episode is refused whole, with nothing changed."""
    learner, twin = subject.make(), subject.make()
    subject.episodes(learner, 5)
    subject.episodes(twin, 5)
    good = subject.episodes(learner, 1, observe=False)[0]
    s, r, d = (np.array(x, dtype=np.float64) for x in (good.states, good.rewards, good.utilities))
    states = s.astype(np.int64)
    out_of_range = states.copy()
    out_of_range[1] = subject.cmdp.states
    nan, large, negative, missing = r.copy(), d.copy(), d.copy(), d.copy()
    nan[-1], large[0, -1], negative[-1, 0], missing[-1, -1] = np.nan, 1.5, -0.1, np.nan
    action = np.array(good.actions)
    action[0] = -1
    samples = None if good.thresholds is None else np.full(d.shape, np.inf)
    cases = {
        "a state out of range": Episode(out_of_range, good.actions, r, d, good.thresholds),
        "a NaN reward": Episode(states, good.actions, nan, d, good.thresholds),
        "a utility above 1": Episode(states, good.actions, r, large, good.thresholds),
        "a negative utility": Episode(states, good.actions, r, negative, good.thresholds),
        "a NaN utility": Episode(states, good.actions, r, missing, good.thresholds),
        "a negative action": Episode(states, action, r, d, good.thresholds),
        "a missing action": Episode(states, np.asarray(good.actions)[:-1], r, d, good.thresholds),
        "a missing state": Episode(states[:-2], good.actions, r, d, good.thresholds),
    }
    if samples is not None:
        cases["an infinite threshold"] = Episode(states, good.actions, r, d, samples)
    if learner.gaps:
        del cases["a NaN utility"]  # a sample that is missing
    for what, bad in cases.items():
        try:
            learner.preload([good, bad])
        except FlexDOMEError:
            require(_same(learner, twin), f"{what} in a log was refused but changed the learner")
        else:
            raise CheckError(f"{what} in a log was accepted")
        try:
            learner.observe(bad)
        except FlexDOMEError:
            require(learner.episode == 5 and _same(learner, twin), f"{what} was refused but changed the learner")
        else:
            raise CheckError(f"{what} was accepted")
    subject.episodes(learner, 10)
    subject.episodes(twin, 10)
    require(_same(learner, twin), "refused episodes left a trace that shows later")


def runs_are_seeded(subject: Subject) -> None:
    """The same run seed repeats a run and another does not; its own seed matters if and only if it randomises."""

    def gaps(run_seed: int, own_seed: int = 0) -> Any:
        learner = subject.make(own_seed)
        history = simulate(learner, subject.cmdp, episodes=EPISODES, seed=run_seed)
        return history.reward_gap, history.multipliers, learner.policy

    first, again, other = gaps(SEED), gaps(SEED), gaps(2)
    same = all((a == b).all() for a, b in zip(first, again, strict=True))
    require(same, "the same seed gave another run")
    own_seeds = (5, 6, 7) if subject.randomises else (5,)
    others = [gaps(SEED, own_seed=seed) for seed in own_seeds]
    depends = any((a != b).any() for own in others for a, b in zip(first, own, strict=True))
    if depends and not subject.randomises:
        mixed = _all_draw_the_same(subject, 2) < 1.0
        require(mixed, "the learner's own seed changed the run of a learner that is not said to randomise")
    elif subject.randomises and not depends:
        seen = "four seeds of its own gave the same run, though it is said to randomise"
        require(subject.learner.mixture is not Learner.mixture, seen)
        require(_all_draw_the_same(subject, 1 + len(own_seeds)) > UNLIKELY, seen)
        subject.notes.append(
            "That its draws depend on its own seed could not be seen: hardly an episode had a mixture."
        )
    learner_moves = any((np.diff(a, axis=-1) != 0).any() for a in first[:2])
    differs = any((a != b).any() for a, b in zip(first, other, strict=True))
    require(differs or not learner_moves, "two run seeds gave the same run")


def _all_draw_the_same(subject: Subject, seeds: int) -> float:
    """How likely it is that the mixtures of a run give ``seeds`` independent series of draws that are all the same."""
    learner, chance = subject.make(), 1.0
    for _ in range(EPISODES):
        weights, _policies = handed_mixture(learner, subject.cmdp)
        chance *= float((weights**seeds).sum())
        subject.episodes(learner, 1)
    return chance


def logged_data_are_taken(subject: Subject) -> None:
    """Preload takes logged episodes as data and does not count them as played."""
    learner, twin = subject.make(), subject.make()
    log = subject.episodes(twin, 5, observe=False)
    same = subject.make()
    for one in (learner, same):
        one.preload(log)
    require(learner.episode == 0, f"episode is {learner.episode} after preload")
    held = learner.multipliers
    if held.flags.writeable:
        held += 1.0
        require(_same(learner, same), "multipliers hands out the learner's own array")
    require(_same(learner, same), "the same log gave two policies")
    require(float(learner.beliefs().visits.sum()) == 5 * subject.cmdp.horizon, "preload did not count the visits")


def thresholds_can_be_changed(subject: Subject) -> None:
    """New thresholds are taken from the next episode on, recorded and saved; the wrong number of them is refused."""
    learner, twin = subject.make(), subject.make()
    for one in (learner, twin):
        subject.episodes(one, 10)
    try:
        learner.set_thresholds(np.zeros(subject.cmdp.constraints + 1))
    except FlexDOMEError:
        require(not learner.threshold_changes and _same(learner, twin), "refused thresholds changed the learner")
    else:
        raise CheckError("one threshold too many was accepted")
    halves = subject.cmdp.alpha / 2.0
    for one in (learner, twin):
        one.set_thresholds(halves)
    require(bool((learner.problem.thresholds == halves).all()), "problem has the old thresholds")
    require(bool((learner.beliefs().thresholds == halves).all()), "beliefs has the old thresholds")
    require(learner.threshold_changes == [(10, halves.tolist())], "the change is not recorded")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        learner.save(path)
        again = read_learner(path, {learner.id: _Local(subject.learner)})
    require(again.threshold_changes == learner.threshold_changes, "the change is not in the file")
    subject.episodes(learner, 20)
    subject.episodes(again, 20)
    simulate(twin, subject.cmdp, episodes=20, seed=SEED)
    require(_same(learner, again), "the loaded learner differs after a change of thresholds")
    require(_same(learner, twin), "after a change of thresholds observe and simulate differ")


def the_truth_is_out_of_reach(subject: Subject) -> None:
    """It holds no CMDP, nor the arrays of one."""
    learner = subject.make()
    simulate(learner, subject.cmdp, episodes=5, seed=SEED)
    own = [kind for kind in type(learner).__mro__ if not kind.__module__.startswith(("flexdome.", "abc", "builtins"))]
    stack: list[Any] = [learner.__dict__, *(dict(vars(kind)) for kind in own)]
    for kind in own:
        for function in vars(kind).values():
            cells = getattr(function, "__closure__", None) or ()
            stack.extend(cell.cell_contents for cell in cells if cell.cell_contents is not kind)
    seen: set[int] = set()
    while stack:
        thing = stack.pop()
        if isinstance(thing, np.ndarray):
            for array in (subject.cmdp.model.p, subject.cmdp.model.f):
                require(not np.shares_memory(thing, array), "an array of the CMDP is reachable from its attributes")
        if id(thing) in seen or isinstance(thing, (type, np.ndarray, str, int, float)):
            continue
        seen.add(id(thing))
        require(not isinstance(thing, CMDP), "a CMDP is reachable from its attributes")
        if isinstance(thing, (dict, list, tuple, set)) or hasattr(thing, "__dict__"):
            stack.extend(x for x in _held(thing) if not callable(x) and type(x).__name__ != "module")


def _held(thing: Any) -> list[Any]:
    """What ``thing`` holds; a dict is asked itself, since gc is silent on one whose values an object keeps (3.13)."""
    return [*dict.keys(thing), *dict.values(thing)] if isinstance(thing, dict) else gc.get_referents(thing)


Rule = Callable[[Subject], None]
