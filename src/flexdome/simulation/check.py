"""What any learner must be able to do, ours or anyone's: ``fd.check_learner(MyLearner)``.

Each check is a sentence. A learner that fails one gets a :class:`CheckError` that says which, and what was seen.
"""

from __future__ import annotations

import gc
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flexdome.cmdp import CMDP, Episode, Threshold
from flexdome.cmdp.validation import shown, switch
from flexdome.errors import FlexDOMEError, ValidationError
from flexdome.families import make_cmdp
from flexdome.kernels.rollout import play
from flexdome.learners import LEARNERS, Entry, Learner
from flexdome.learners.files import read_learner
from flexdome.planning import baselines, safe_policy, slater_gap
from flexdome.simulation.handed import handed_mixture, handed_multipliers, handed_policy
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.run import simulate
from flexdome.simulation.runners import OBSERVED, buffers_of

__all__ = ["CheckError", "check_learner"]

EPISODES = 60
SEED = 11
CLOSE = 1e-9  # times H: rounding


class CheckError(FlexDOMEError):
    """A learner broke one of the rules that every learner keeps."""


class _Local(Entry):
    """A row for a class that need not be registered, nor importable by name."""

    def __init__(self, learner: type[Learner]) -> None:
        super().__init__(learner.id, "", 1, "", "", "", "")
        object.__setattr__(self, "_class", learner)

    def load(self) -> type[Learner]:
        """The class itself."""
        learner: type[Learner] = self._class  # type: ignore[attr-defined]
        return learner


class _Subject:
    """The learner class under test, on one small CMDP."""

    def __init__(self, learner: type[Learner], cmdp: CMDP, options: dict[str, Any], randomises: bool) -> None:
        self.learner, self.cmdp, self.options, self.randomises = learner, cmdp, options, randomises
        self.problem = cmdp.problem()

    def make(self, seed: int = 0) -> Learner:
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


def check_learner(
    learner: type[Learner], cmdp: CMDP | None = None, *, randomises: bool | None = None, **options: Any
) -> list[str]:
    """Check a learner class on a small CMDP (or on yours); the sentences that were checked come back.

    Parameters
    ----------
    learner : a subclass of :class:`flexdome.learners.Learner`, built as ``learner(problem, episodes=, seed=, ...)``
    cmdp : the CMDP to check it on; None is a small one of five states, with one known and one stochastic threshold
    randomises : whether the learner draws random numbers of its own, so that its seed matters; None asks the registry
    options : of the learner; one with an option ``safe_policy`` gets a policy with half the Slater gap if none is given

    Examples
    --------
    >>> import flexdome as fd
    >>> len(fd.check_learner(fd.FlexDOME)) > 5
    True
    """
    if not (isinstance(learner, type) and issubclass(learner, Learner)):
        raise ValidationError(f"learner is {shown(learner)}; it must be a subclass of flexdome.learners.Learner")
    if cmdp is not None and not isinstance(cmdp, CMDP):
        raise ValidationError(f"cmdp is a {type(cmdp).__name__}; it must be a CMDP")
    if randomises is not None:
        randomises = switch("randomises", randomises)
    else:
        randomises = learner.id in LEARNERS and LEARNERS[learner.id].randomises
    cmdp = small_cmdp() if cmdp is None else cmdp
    needs = learner.id not in LEARNERS or "safe policy" in LEARNERS[learner.id].needs
    if needs and "safe_policy" in inspect.signature(learner).parameters:
        options.setdefault("safe_policy", safe_policy(cmdp, 0.5 * slater_gap(cmdp)))
    subject = _Subject(learner, cmdp, options, randomises)
    for check in CHECKS:
        try:
            check(subject)
        except CheckError as error:
            raise CheckError(f"{learner.__name__} breaks a rule. {check.__doc__} But {error}.") from None
        except Exception as error:
            raise CheckError(
                f"{learner.__name__} breaks a rule. {check.__doc__} But {type(error).__name__} was raised: {error}."
            ) from error
    return [str(check.__doc__) for check in CHECKS]


def small_cmdp() -> CMDP:
    """Five states, three actions, four steps, two constraints: one threshold known, one drawn at every step."""
    base = make_cmdp("multi-v1", states=5, actions=3, horizon=4, constraints=2)
    alpha = base.alpha
    laws = [float(alpha[0]), Threshold.bernoulli(float(alpha[1]) / 4.0, 4.0, per="step")]
    return CMDP(base.transitions, base.rewards, base.utilities, laws, base.initial, name="small")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CheckError(otherwise)


def _same(a: Learner, b: Learner) -> bool:
    return bool((a.policy == b.policy).all() and (a.multipliers == b.multipliers).all())


def policies_are_distributions(subject: _Subject) -> None:
    """Every policy it plays, and every one it may draw, is a distribution over actions."""
    learner = subject.make()
    for _ in range(EPISODES // 2):
        try:
            handed_policy(learner, subject.cmdp)
            handed_mixture(learner, subject.cmdp)
            lam = handed_multipliers(learner)
        except ValidationError as error:
            raise CheckError(str(error)) from None
        _require(bool((lam >= 0).all()), "a multiplier is negative")
        subject.episodes(learner, 1)


def observe_is_simulate(subject: _Subject) -> None:
    """Observe and simulate give the same policies and multipliers, bit for bit."""
    one, other = subject.make(), subject.make()
    subject.episodes(one, EPISODES)
    simulate(other, subject.cmdp, episodes=EPISODES, seed=SEED)
    _require(_same(one, other), "after the same episodes the policies or multipliers differ")
    _require(one.episode == other.episode == EPISODES, "episode does not count the episodes")


def the_runner_tells_the_truth(subject: _Subject) -> None:
    """The gaps, violations and multipliers that its runner tells are those of its policies in the true model."""
    plain = type(subject.learner.__name__, (subject.learner,), {"runner": OBSERVED})
    told = simulate(subject.make(), subject.cmdp, episodes=EPISODES, seed=SEED)
    learner = plain(subject.problem, episodes=EPISODES, seed=0, **subject.options)
    true = simulate(learner, subject.cmdp, episodes=EPISODES, seed=SEED)
    for name in ("reward_gap", "violation", "multipliers"):
        one, other = getattr(told, name), getattr(true, name)
        apart = np.abs(one - other).max(initial=0.0) if one.shape == other.shape else np.inf
        _require(bool(apart <= CLOSE * subject.cmdp.horizon), f"{name} is up to {apart:.3g} from what is true")


def runs_can_be_cut(subject: _Subject) -> None:
    """A run cut in two is the run."""
    one, other = subject.make(), subject.make()
    whole = simulate(one, subject.cmdp, episodes=40, seed=SEED)
    first = simulate(other, subject.cmdp, episodes=17, seed=SEED)
    pieces = first + simulate(other, subject.cmdp, episodes=23, seed=SEED)
    _require(bool((whole.reward_gap == pieces.reward_gap).all() and _same(one, other)), "the pieces differ")


def saving_resumes(subject: _Subject) -> None:
    """A saved learner continues bit for bit where it stood."""
    learner = subject.make()
    subject.episodes(learner, 20)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        learner.save(path)
        again = read_learner(path, {learner.id: _Local(subject.learner)})
    _require(_same(learner, again) and learner.episode == again.episode, "the loaded learner differs at once")
    subject.episodes(learner, 20)
    subject.episodes(again, 20)
    _require(_same(learner, again), "the loaded learner differs after twenty more episodes")


def bad_episodes_are_refused(subject: _Subject) -> None:
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
    for what, bad in cases.items():
        try:
            learner.preload([good, bad])
        except FlexDOMEError:
            _require(_same(learner, twin), f"{what} in a log was refused but changed the learner")
        else:
            raise CheckError(f"{what} in a log was accepted")
        try:
            learner.observe(bad)
        except FlexDOMEError:
            _require(learner.episode == 5 and _same(learner, twin), f"{what} was refused but changed the learner")
        else:
            raise CheckError(f"{what} was accepted")
    subject.episodes(learner, 10)
    subject.episodes(twin, 10)
    _require(_same(learner, twin), "refused episodes left a trace that shows later")


def runs_are_seeded(subject: _Subject) -> None:
    """The same run seed repeats a run and another does not; its own seed matters if and only if it randomises."""

    def gaps(run_seed: int, own_seed: int = 0) -> Any:
        learner = subject.make(own_seed)
        history = simulate(learner, subject.cmdp, episodes=EPISODES, seed=run_seed)
        return history.reward_gap, history.multipliers, learner.policy

    first, again, other = gaps(1), gaps(1), gaps(2)
    same = all((a == b).all() for a, b in zip(first, again, strict=True))
    _require(same, "the same seed gave another run")
    others = [gaps(1, own_seed=seed) for seed in ((5, 6, 7) if subject.randomises else (5,))]
    depends = any((a != b).any() for own in others for a, b in zip(first, own, strict=True))
    if subject.randomises:
        _require(depends, "four seeds of its own gave the same run, though it is said to randomise")
    else:
        _require(not depends, "the learner's own seed changed the run of a learner that is not said to randomise")
    learner_moves = any((np.diff(a, axis=-1) != 0).any() for a in first[:2])
    differs = any((a != b).any() for a, b in zip(first, other, strict=True))
    _require(differs or not learner_moves, "two run seeds gave the same run")


def logged_data_are_taken(subject: _Subject) -> None:
    """Preload takes logged episodes as data and does not count them as played."""
    learner, twin = subject.make(), subject.make()
    log = subject.episodes(twin, 5, observe=False)
    same = subject.make()
    for one in (learner, same):
        one.preload(log)
    _require(learner.episode == 0, f"episode is {learner.episode} after preload")
    held = learner.multipliers
    if held.flags.writeable:
        held += 1.0
        _require(_same(learner, same), "multipliers hands out the learner's own array")
    _require(_same(learner, same), "the same log gave two policies")
    _require(float(learner.beliefs().visits.sum()) == 5 * subject.cmdp.horizon, "preload did not count the visits")


def thresholds_can_be_changed(subject: _Subject) -> None:
    """New thresholds are taken from the next episode on, recorded and saved; the wrong number of them is refused."""
    learner, twin = subject.make(), subject.make()
    for one in (learner, twin):
        subject.episodes(one, 10)
    try:
        learner.set_thresholds(np.zeros(subject.cmdp.constraints + 1))
    except FlexDOMEError:
        _require(not learner.threshold_changes and _same(learner, twin), "refused thresholds changed the learner")
    else:
        raise CheckError("one threshold too many was accepted")
    halves = subject.cmdp.alpha / 2.0
    for one in (learner, twin):
        one.set_thresholds(halves)
    _require(bool((learner.problem.thresholds == halves).all()), "problem has the old thresholds")
    _require(bool((learner.beliefs().thresholds == halves).all()), "beliefs has the old thresholds")
    _require(learner.threshold_changes == [(10, halves.tolist())], "the change is not recorded")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        learner.save(path)
        again = read_learner(path, {learner.id: _Local(subject.learner)})
    _require(again.threshold_changes == learner.threshold_changes, "the change is not in the file")
    subject.episodes(learner, 20)
    subject.episodes(again, 20)
    simulate(twin, subject.cmdp, episodes=20, seed=SEED)
    _require(_same(learner, again), "the loaded learner differs after a change of thresholds")
    _require(_same(learner, twin), "after a change of thresholds observe and simulate differ")


def the_truth_is_out_of_reach(subject: _Subject) -> None:
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
                _require(not np.shares_memory(thing, array), "an array of the CMDP is reachable from its attributes")
        if id(thing) in seen or isinstance(thing, (type, np.ndarray, str, int, float)):
            continue
        seen.add(id(thing))
        _require(not isinstance(thing, CMDP), "a CMDP is reachable from its attributes")
        if isinstance(thing, (dict, list, tuple, set)) or hasattr(thing, "__dict__"):
            stack.extend(x for x in gc.get_referents(thing) if not callable(x) and type(x).__name__ != "module")


def forbidden_actions_are_left_alone(subject: _Subject) -> None:
    """An action that is not allowed is never played, never taken from an episode, and does not count as untried."""
    if subject.cmdp.actions == 1:
        return
    masked = _masked(subject)
    try:
        learner = masked.make()
    except ValidationError as error:
        _require(not subject.learner.masks or "mask" in str(error), f"a problem with a mask was refused: {error}")
        return
    policies_are_distributions(masked)  # a policy that may play what is forbidden is none of this CMDP
    observe_is_simulate(masked)
    saving_resumes(masked)
    good = masked.episodes(learner, 20)[-1]
    allowed, held = masked.problem.allowed, learner.policy
    assert allowed is not None
    status = learner.status()
    if hasattr(status, "untried"):
        left = int((allowed & (learner.visits == 0.0)).sum())
        _require(status.untried <= left, f"{status.untried} actions count as untried; {left} are allowed and untried")
    actions = np.array(good.actions)
    actions[0] = int(np.argmin(allowed[0, int(np.asarray(good.states)[0])]))
    bad = Episode(good.states, actions, good.rewards, good.utilities, good.thresholds)
    for played in (True, False):
        try:
            learner.observe(bad) if played else learner.preload([bad])
        except FlexDOMEError:
            _require(bool((learner.policy == held).all()), "a forbidden action was refused but changed the policy")
        else:
            raise CheckError("an episode with a forbidden action was taken")


def _masked(subject: _Subject) -> _Subject:
    """The same CMDP with one action forbidden in every state, and thresholds that can be met without it."""
    cmdp = subject.cmdp.to_dense()
    H, S, A = cmdp.rewards.shape
    allowed = np.ones((H, S, A), dtype=bool)
    h, s = np.ogrid[:H, :S]
    allowed[h, s, (h + s) % A] = False

    def built(laws: Any) -> CMDP:
        return CMDP(
            cmdp.transitions, cmdp.rewards, cmdp.utilities, laws, cmdp.initial, noise=cmdp.noise, allowed=allowed
        )

    alpha = 0.8 * baselines(built(np.zeros(cmdp.constraints))).uniform[1].utilities
    laws = [
        float(a) if law.is_fixed else Threshold.bernoulli(float(a) / H, float(H), per="step")
        for a, law in zip(alpha, cmdp.thresholds, strict=True)
    ]
    made, options = built(laws), dict(subject.options)
    if "safe_policy" in options:
        options["safe_policy"] = safe_policy(made, 0.5 * slater_gap(made))
    return _Subject(subject.learner, made, options, subject.randomises)


CHECKS: tuple[Callable[[_Subject], None], ...] = (
    policies_are_distributions,
    observe_is_simulate,
    the_runner_tells_the_truth,
    runs_can_be_cut,
    saving_resumes,
    bad_episodes_are_refused,
    runs_are_seeded,
    logged_data_are_taken,
    thresholds_can_be_changed,
    the_truth_is_out_of_reach,
    forbidden_actions_are_left_alone,
)
