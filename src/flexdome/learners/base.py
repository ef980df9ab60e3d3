"""What every learner is: a policy to play next, and a method that takes what happened.

A learner sees a :class:`~flexdome.cmdp.Problem`, never the CMDP. ``observe`` is its definition, one episode at a time;
simulation runs the same steps in compiled chunks, with the same bits. One thread at a time may be in a learner
(:mod:`flexdome.learners.turn`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.problem import as_problem
from flexdome.cmdp.validation import Float, as_array, as_int, shown
from flexdome.errors import ValidationError
from flexdome.learners.hooks import refuse_old_names
from flexdome.learners.options import stored_options
from flexdome.learners.turn import Turn, changing, reading
from flexdome.policies import draw_action
from flexdome.theory.constants import LONGEST

if TYPE_CHECKING:
    from flexdome.certificates import Certificate, Recorded, Seen

__all__ = ["Beliefs", "Learner"]

Arrays = dict[str, npt.NDArray[Any]]
ACTIONS = 0xAC7  # the stream that actions are drawn from


@dataclass(frozen=True)
class Beliefs:
    """What a learner holds to be true of the policy it is about to play.

    Attributes
    ----------
    value, utilities : estimated V_r and (m,) V_d of ``learner.policy`` (optimistic, if the learner is)
    thresholds : (m,) known or estimated
    margin : (m,) the safety margin of the next episode
    widths : (H, S, A) confidence width of each cell's reward and utilities
    visits : (H, S, A) how often each cell was seen
    """

    value: float
    utilities: Float
    thresholds: Float
    margin: Float
    widths: Float
    visits: Float

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={getattr(self, name)}" for name in ("value", "utilities", "thresholds", "margin"))
        return f"Beliefs({held}, widths and visits {self.visits.shape})"


class Learner(ABC):
    """The interface that simulation, files and live use rely on. Derive your own learner from it.

    A constructor takes the problem, ``episodes=``, ``seed=`` and options of its own. It calls ``super().__init__`` with
    the first three, and keeps each option as an attribute of the same name: files and exports read it there.

    These must be written:

    * ``id`` : its name, in the registry and in files
    * ``policy``, ``multipliers`` : what is played next; (H, S, A) and (m,)
    * ``observe`` : learn from one episode. Call ``checked_episode`` first, which refuses a bad one before anything has
      changed, and ``count_episode`` last
    * ``preload`` : the same for a log, by ``checked_episodes``; logged episodes are not counted
    * ``beliefs`` : what is held to be true of the policy
    * ``state``, ``restore`` : everything learned as arrays, and back. With them, ``save`` and ``load_learner`` continue
      bit for bit

    These may be:

    * ``mixture`` : for a learner that draws the policy of an episode from several
    * ``thresholds_changed`` : called after ``set_thresholds``, where something was derived from the old thresholds
    * ``seen_counts`` : what was counted, for ``certify`` without fresh episodes
    * ``utility_means`` : mean utilities, for ``export``
    * ``options`` : where an option is not an attribute of its name, or not JSON
    * ``masks`` : True, if it keeps to the actions that ``problem.allowed`` allows; one that does not refuses such a
      problem
    * ``gaps`` : True, if it takes episodes in which a utility is NaN, a sample that is missing, and does not count it
    * ``status``, ``how`` : what a user is told
    * ``runner`` : ``"package.module:Class"`` of the runner that ``simulate`` runs it with, in compiled chunks. It does
      what the public methods of the class that names it do. Where one of them is overridden below that class, except
      the hooks asked for outside a run (:data:`flexdome.learners.hooks.HOOKS`), ``observe`` is called instead, which is
      always right

    One thread at a time may change a learner: methods that change it are decorated with
    :func:`flexdome.learners.turn.changing`, those that read it with :func:`~flexdome.learners.turn.reading`.
    :func:`flexdome.check_learner` says all that is wrong with one. ``examples/uniform_learner`` is the smallest.

    Attributes
    ----------
    problem : what the learner was told
    episodes : how many are planned
    episode : how many were observed
    seed : of random numbers of its own
    """

    id: ClassVar[str]
    how: ClassVar[str] = "what it holds to be best"
    masks: ClassVar[bool] = False
    gaps: ClassVar[bool] = False
    runner: ClassVar[str] = "flexdome.simulation.runners.observed:Observed"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_old_names(cls)

    def __init__(self, problem: Problem, episodes: int, seed: int) -> None:
        as_problem(problem)
        if problem.allowed is not None and not self.masks:
            raise ValidationError(
                f"problem.allowed forbids some actions; {type(self).__name__} does not keep to a mask of actions"
            )
        self._problem = self.first_problem = problem
        self.episodes = as_int("episodes", episodes, 1, LONGEST)
        self.seed = as_int("seed", seed, 0)
        self.turn = Turn()
        self._played = np.zeros(1, dtype=np.int64)  # an array, so that a kernel counts what it has really learned
        self.threshold_changes: list[tuple[int, list[float]]] = []

    @property
    def problem(self) -> Problem:
        """What the learner was told."""
        return self._problem

    @property
    def episode(self) -> int:
        """Episodes observed so far."""
        return int(self._played[0])

    @episode.setter
    def episode(self, count: int) -> None:
        self._played[0] = count

    @property
    @abstractmethod
    def policy(self) -> Float:
        """(H, S, A) to play next."""

    @property
    @abstractmethod
    def multipliers(self) -> Float:
        """(m,) paired with that policy."""

    @property
    def mixture(self) -> tuple[Float, Float]:
        """Weights (k,) and policies (k, H, S, A) that an episode is drawn from; k = 1 for most learners."""
        return np.ones(1), self.policy[None]

    @abstractmethod
    def observe(self, episode: Episode) -> None:
        """Learn from one episode played with ``policy``; a bad one is refused whole and changes nothing."""

    @abstractmethod
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Take logged episodes as data, whatever policy made them; they do not count as played.

        Either all are taken or, if one is bad, none. A learner that moves by steps stays where it is; one that plans
        anew plans again.
        """

    @abstractmethod
    def beliefs(self) -> Beliefs:
        """What the learner holds to be true of the policy it is about to play."""

    @property
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.beliefs().visits

    @changing
    def set_thresholds(self, thresholds: npt.ArrayLike, slater_gap: float | None = None) -> None:
        """Change the known thresholds from the next episode on; the change is recorded and saved.

        Where the problem has quantities, these are their limits and thresholds, in their units. NaN makes a threshold
        one that is estimated from its samples (0 until there is one, as in the first episode). ``slater_gap`` replaces
        the bound on the Slater gap in ``problem``, where the old one no longer holds; what was derived from it when the
        learner was made (the dual box, the schedules) stays. Thresholds that a known safe policy, where one was given,
        does not exceed are refused, and change nothing.
        """
        self.take_thresholds(self.checked_thresholds(self._problem.as_thresholds(thresholds), slater_gap), slater_gap)

    def checked_thresholds(self, alpha: Float, slater_gap: float | None = None) -> Float:
        """``alpha`` (m,), as inside; thresholds that this learner cannot go on with are refused."""
        from flexdome.learners.safe_policy import refuse_without_room
        from flexdome.planning import SafePolicy

        safe, changed = getattr(self, "safe_policy", None), self._with_thresholds(alpha, slater_gap)
        if isinstance(safe, SafePolicy):
            refuse_without_room(changed, np.atleast_1d(safe.utilities))
        return changed.thresholds

    def _with_thresholds(self, alpha: Float, slater_gap: float | None) -> Problem:
        gap = self._problem.known_slater_gap if slater_gap is None else slater_gap
        return self._problem.changed(thresholds=alpha, slater_gap=gap, slater_gap_exact=False)

    @changing
    def take_thresholds(self, alpha: Float, slater_gap: float | None = None) -> None:
        """What :meth:`set_thresholds` does, with (m,) thresholds as inside whatever the units of the problem are."""
        m, given = self._problem.constraints, as_array("thresholds", alpha, finite=False)[0].shape
        if given != (m,):
            raise ValidationError(f"thresholds has shape {given}; there are m = {m} constraints")
        self._problem = changed = self._with_thresholds(alpha, slater_gap)
        self.threshold_changes.append((self.episode, [float(alpha) for alpha in changed.thresholds]))
        self.thresholds_changed()

    @classmethod
    def _remade(cls, problem: Problem, options: dict[str, Any]) -> Learner:
        """A learner with the options that a file has, before :meth:`restore` gives it what it learned."""
        return cls(problem, **options)

    def initial(self, begun: Iterable[int] = ()) -> Float:
        """(S,) probabilities of the first state: as they were told, or counted in what was seen.

        ``begun`` are the first states of episodes that are about to be learned from, and count too. Where nothing is
        known every state is as likely as another.
        """
        if not self._problem.initial_estimated:
            return self._problem.initial
        counts = self.visits[0].sum(axis=-1)
        for s in begun:
            counts[s] += 1.0
        total = float(counts.sum())
        return counts / total if total > 0.0 else self._problem.initial

    def checked_episode(self, episode: Any) -> tuple[Any, ...]:
        """The arrays of one episode, checked against the problem: states, actions, rewards, utilities, thresholds.

        A bad one is a ValidationError that says what is wrong with it.
        """
        if not isinstance(episode, Episode):
            raise ValidationError(f"episode is {shown(episode)}; it must be an Episode")
        try:
            return episode.checked(self._problem, self.gaps)
        except ValidationError as error:
            if not self.gaps and "utilities[" in str(error) and "] is nan" in str(error):
                raise ValidationError(
                    f"{error}; {type(self).__name__} takes no episode with a missing sample"
                ) from None
            raise

    def checked_episodes(self, episodes: Any) -> list[tuple[Any, ...]]:
        """The arrays of every episode of a log; one that is bad names its place.

        What a log of the user's own raises while it is read (a lost connection) is the user's, and comes through.
        """
        try:
            series = iter(episodes)
        except Exception as error:  # whatever a foreign object raises instead
            raise ValidationError(f"episodes is {shown(episodes)}; it must be a series of Episodes") from error
        checked: list[tuple[Any, ...]] = []
        for episode in series:
            try:
                checked.append(self.checked_episode(episode))
            except ValidationError as error:
                raise ValidationError(f"episodes[{len(checked)}]: {error}") from None
        return checked

    @reading
    def act(self, h: int, s: int | str) -> Any:
        """Draw the action of step ``h`` (from 0 on) in state ``s`` from ``policy``.

        A state that is called by its name is answered with the name of an action, where actions have names.

        The random number depends on the learner's seed, the episode and the step alone: there is nothing to save, a
        learner that was loaded or recovered goes on with the same actions, and asking twice gives the same answer.
        """
        step = as_int("h", h, 0, self._problem.horizon - 1)
        state, names = self._problem.state(s), self._problem.action_names
        numbers = np.random.default_rng([self.seed, ACTIONS, self.episode]).random(step + 1)
        action = draw_action(self.policy[step, state], float(numbers[step]))
        return names[action] if isinstance(s, str) and names is not None else action

    @reading
    def status(self) -> Any:
        """What is played next and why, what is known, and what would change it; ``print`` it to read it."""
        from flexdome.learners.status import Status

        beliefs, problem = self.beliefs(), self._problem
        seen = beliefs.visits.sum(axis=-1, keepdims=True) > 0
        possible = True if problem.allowed is None else problem.allowed
        return Status(
            episode=self.episode + 1,
            episodes=self.episodes,
            how=self.how,
            utilities=np.array(beliefs.utilities),
            thresholds=np.array(beliefs.thresholds),
            margin=np.array(beliefs.margin),
            multipliers=np.array(self.multipliers),
            estimated=np.isnan(problem.thresholds),
            tried=int((beliefs.visits > 0).sum()),
            untried=int((possible & (beliefs.visits == 0) & seen).sum()),
            units=problem.units,
        )

    @reading
    def export(self, path: str | os.PathLike[str]) -> None:
        """Write what is to be played next as a plain file: ``.json``, ``.csv``, ``.npz``, or ``.h``, a C table.

        With it go how often each action was tried, the mean utilities that it gave, and where it comes from.
        ``fd.Policy.load`` reads the first three, and needs NumPy only.
        """
        from flexdome.learners.export import write_policy

        write_policy(self, path)

    def count_episode(self) -> None:
        """One more episode observed; ``observe`` calls it when it is done."""
        self._played[0] += 1

    @reading
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to ``path`` (no pickle); an interruption at any byte leaves the previous file."""
        from flexdome.learners.files import write_learner

        write_learner(self, path)

    @reading
    def certify(
        self,
        delta: float = 0.05,
        episodes: Iterable[Episode] | Recorded | None = None,
        *,
        threshold_range: Any = None,
        threshold_scale: Any = None,
    ) -> Certificate:
        """With what confidence the policy that is played next meets the thresholds (:mod:`flexdome.certificates`).

        The learner chose it from what it has seen, so that only method ``"model"`` may use that. ``episodes`` are fresh
        ones that this very policy, or mixture, played after it was chosen: they need far fewer.
        """
        from flexdome.certificates import certify_mixture, certify_seen

        declared = {"threshold_range": threshold_range, "threshold_scale": threshold_scale}
        weights, policies = self.mixture
        if episodes is not None:
            return certify_mixture(policies[weights > 0.0], self._problem, episodes, delta, **declared)
        return certify_seen(weights, policies, self._problem, self.seen_counts(), delta, **declared)

    # -- hooks, asked for outside a run ------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """The constructor's options as JSON, from which the learner is made again; the problem is not among them.

        They are the attributes that have the names of the constructor's parameters. ``schedules`` is stored by itself.
        """
        return stored_options(self)

    @abstractmethod
    def state(self) -> Arrays:
        """Everything learned since the constructor, as arrays by name."""

    @abstractmethod
    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave, in a learner made anew with the same options; ``episode`` is set before.

        A file may be damaged: check what you take (:class:`flexdome.learners.state.StateReader`).
        """

    def thresholds_changed(self) -> None:  # noqa: B027 (most learners read the problem afresh)
        """Called after the thresholds of ``problem`` were changed."""

    def seen_counts(self) -> Seen:
        """What was counted, for :meth:`certify`."""
        raise ValidationError(
            f"{type(self).__name__} keeps no counts; pass episodes that its present policy played to certify it"
        )

    def utility_means(self) -> Float | None:
        """(m, H, S, A) mean utilities that were seen, NaN where nothing was; None where a learner keeps none."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(episode {self.episode} of {self.episodes})"
