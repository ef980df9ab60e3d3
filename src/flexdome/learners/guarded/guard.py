"""Any learner, with a proof of safety around it.

A learner proposes; what is played is a mixture of policies that are frozen, with lower bounds on their utilities that
hold at all times (:mod:`flexdome.learners.guarded.ledger`). Nothing is asked of the learner, and nothing of the model::

    policies = {0: the known safe policy, l_0 = its utilities}
    an epoch, begun after t episodes, of n = max(50, t / 2), or max(50, t) once a base was found:
      freeze the learner's policy as candidate k, with confidence delta_k = 10 delta / ((k + 9) (k + 10) m); l_k = 0
      in each episode, while k is a candidate:
        play k with probability gamma_jk and j otherwise, j the base with the smallest (r* - r_j) (1 - gamma) / gamma
        the episode moves the bounds of the policy that played it, and of no other; the learner learns from all
        certified (l_k >= alpha), or k earns less than what is known (by two standard errors): no candidate any more
      else: play the base j and the policy k with the largest (1 - gamma_jk) r_j + gamma_jk r_k

r_k is the mean of the rewards that policy k brought, r* the largest of them (and H / 1000). A policy whose bounds are
below alpha is of use too: it is played as often as the room of a base allows. **Safety** (docs/suredome.md): with
probability 1 - delta every mixture that is ever played has V_{d_i} >= alpha_i for every i.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from flexdome.certificates import Seen
from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.episode import Scaled
from flexdome.cmdp.mask import refuse_forbidden
from flexdome.cmdp.validation import Float, frozen, shown
from flexdome.errors import ValidationError
from flexdome.learners.base import Beliefs, Learner
from flexdome.learners.files import rebuilt_learner, stored_learner
from flexdome.learners.guarded.certified import Certified
from flexdome.learners.guarded.kernels import KEEN, UNTIL, choose
from flexdome.learners.safe_policy import as_safe_policy
from flexdome.learners.state import Arrays, StateReader, as_state
from flexdome.learners.turn import changing, reading
from flexdome.planning import SafePolicy

__all__ = ["Guard", "Guarded"]

FIRST = 50  # episodes of the first epochs
GROWTH = (0.5, 1.0)  # later ones, in all episodes before: while no other base is known, and after that
INNER = "learner."  # the arrays of the learner inside


class Stored(dict[str, Any]):
    """What a file has of the learner inside, whose arrays follow."""


class Guarded(Certified):
    """A learner inside a guard; :func:`Guard` makes one from a learner that you have.

    Parameters
    ----------
    inside : the learner inside: a name of the registry, which is then made with ``options``, or a learner for the same
        problem, which is taken over. One that watches a safe policy of its own (SureDOME, another guard, ProxDOME with
        ``safe_policy``) is refused: it would take the guard's episodes for its own
    options : of the learner inside, where it is made
    safe_policy : a known safe policy and its utilities (:class:`flexdome.SafePolicy`)
    delta : the probability with which any mixture that is ever played may be unsafe
    threshold_range, threshold_scale : what is known of thresholds that are sampled (:func:`flexdome.certify`)
    seed : of the draws
    """

    id: ClassVar[str] = "guard"
    masks: ClassVar[bool] = True  # if the learner inside does; the same is true of samples that are missing
    runner: ClassVar[str] = "flexdome.simulation.runners.guarded:Guarding"

    def __init__(
        self,
        problem: Problem,
        episodes: int = 80_000,
        seed: int = 0,
        *,
        inside: Any = "proxdome",
        options: dict[str, Any] | None = None,
        safe_policy: Any = None,
        delta: float = 0.05,
        threshold_range: Any = None,
        threshold_scale: Any = None,
    ) -> None:
        super().__init__(problem, episodes, seed, safe_policy, delta, threshold_range, threshold_scale)
        self._stored: Stored | None = None
        if isinstance(inside, Stored):
            self._stored = inside
            return
        self.learner = self._taken(inside, options)
        self.settle()

    @classmethod
    def _remade(cls, problem: Problem, options: dict[str, Any]) -> Learner:
        """A guard as a file has it: the learner inside comes with its arrays."""
        inside = options.get("inside")
        return cls(problem, **{**options, **({"inside": Stored(inside)} if isinstance(inside, dict) else {})})

    def _taken(self, inside: Any, options: dict[str, Any] | None) -> Learner:
        """The learner inside, made or taken over; it must not hold every episode for one of its own draws."""
        from flexdome.learners.proximal.proxdome import ProxDOME

        learner = self._made(inside, options)
        if isinstance(learner, Certified) or (isinstance(learner, ProxDOME) and learner.safe_policy is not None):
            raise ValidationError(
                f"inside is a {type(learner).__name__} with a safe policy of its own, which it holds the episodes of a "
                "guard against; it must be a learner without one"
            )
        return learner

    def _made(self, inside: Any, options: dict[str, Any] | None) -> Learner:
        from flexdome.learners import LEARNERS, make_learner

        if not isinstance(inside, str | Learner) or (isinstance(inside, str) and inside not in LEARNERS):
            raise ValidationError(f"inside is {shown(inside)}; it must be the id of a learner, or a learner")
        if not isinstance(options, dict | None) or not all(isinstance(name, str) for name in options or ()):
            raise ValidationError(f"options is {shown(options)}; it must be a dict of options of the learner inside")
        if not isinstance(inside, Learner):
            given = {"episodes": self.episodes, "seed": self.seed, **(options or {})}
            try:
                return make_learner(inside, self.problem, **given)
            except ValidationError as error:
                raise ValidationError(f"options of the learner inside: {error}") from None
        if options is not None:
            raise ValidationError(f"options is {shown(options)}; it must be None where a learner is given")
        theirs, ours = inside.problem, self.problem
        same = all(getattr(theirs, name) == getattr(ours, name) for name in ("states", "actions", "horizon"))
        if not (same and theirs.constraints == ours.constraints):
            raise ValidationError("inside is a learner for a problem of another size; it must be for the same")
        refuse_forbidden("inside.problem.uniform", theirs.uniform, ours.allowed)
        return inside

    # -- what is played ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Begin an epoch with a new candidate if it is time, and decide what is played."""
        alpha, book = self.thresholds, self.ledger.book
        if self.episode >= book.places[UNTIL]:
            self._begin(alpha)
        choose(book, alpha)

    def _begin(self, alpha: Float) -> None:
        """Freeze the learner's policy, as the candidate of an epoch."""
        growth = GROWTH[int(len(self.ledger.bases(alpha)) > 1)]
        until = self.episode + max(FIRST, int(growth * self.episode))
        beliefs = self.learner.beliefs()
        values = np.append(beliefs.value, beliefs.utilities)
        self.ledger.freeze(self.learner.policy, values, alpha, keen=True, until=until)

    def _being_certified(self) -> bool:
        return bool(self.ledger.book.places[KEEN])

    @property
    @reading
    def multipliers(self) -> Float:
        """(m,) of the learner inside."""
        lam: Float = frozen(np.array(self.learner.multipliers))
        return lam

    @property
    @reading
    def visits(self) -> Float:
        """(H, S, A) how often each cell was seen."""
        return self.learner.visits

    # -- what is learned -----------------------------------------------------------------------------------------------

    def _take(self, episode: Episode, data: tuple[Any, ...]) -> None:
        self.learner.observe(episode)

    @changing
    def preload(self, episodes: Iterable[Episode]) -> None:
        """Give logged episodes to the learner inside, and begin an epoch with what it proposes then.

        They prove nothing: no bound moves.
        """
        log = [Scaled(*arrays) for arrays in self.checked_episodes(episodes)]
        self.learner.preload(log)
        if log:
            self.ledger.book.places[UNTIL] = self.episode
            self.settle()

    def checked_thresholds(self, alpha: Float, slater_gap: float | None = None) -> Float:
        """``alpha`` (m,), as inside; thresholds that the guard or the learner inside cannot take are refused."""
        checked = super().checked_thresholds(alpha, slater_gap)
        gap = self.problem.known_slater_gap if slater_gap is None else slater_gap
        return self.learner.checked_thresholds(checked, gap)

    def thresholds_changed(self) -> None:
        """Tell the learner inside, and decide anew what is played."""
        self.laws = self._as_laws()
        self.learner.take_thresholds(self.problem.thresholds, self.problem.known_slater_gap)
        self.settle()

    @reading
    def beliefs(self) -> Beliefs:
        """What is held of the mixture: its estimated reward, and lower bounds on its utilities, which need no margin.

        ``widths`` and ``visits`` are those of the learner inside.
        """
        status, inside = self.status(), self.learner.beliefs()
        none = np.zeros(self.problem.constraints)
        return Beliefs(status.reward, status.bounds, status.thresholds, none, inside.widths, inside.visits)

    def seen_counts(self) -> Seen:
        """What the learner inside has counted, for :meth:`certify`."""
        return self.learner.seen_counts()

    def utility_means(self) -> Float | None:
        """(m, H, S, A) mean utilities that the learner inside has seen."""
        return self.learner.utility_means()

    # -- for files -----------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """The constructor's options, as JSON."""
        header, _ = stored_learner(self.learner)
        return {**super().options(), "inside": header}

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        _, arrays = stored_learner(self.learner)
        return {**{INNER + name: array for name, array in arrays.items()}, **super().state()}

    def restore(self, state: Arrays) -> None:
        """Take back what :meth:`state` gave; what cannot be is refused."""
        from flexdome.learners import LEARNERS

        as_state(state)
        if self._stored is None:
            raise ValidationError("options.inside is missing; it must be what was stored of the learner inside")
        inside = {name[len(INNER) :]: array for name, array in state.items() if name.startswith(INNER)}
        self.learner = rebuilt_learner(self._stored, inside, LEARNERS)
        self._stored = None
        read = StateReader({name: array for name, array in state.items() if not name.startswith(INNER)})
        self._restored(read)
        read.finish()
        self.settle()


def Guard(
    learner: Learner,
    fallback: SafePolicy,
    delta: float = 0.05,
    *,
    threshold_range: Any = None,
    threshold_scale: Any = None,
) -> Guarded:
    """``learner`` with a proof of safety around it: with probability 1 - ``delta`` no unsafe mixture is ever played.

    Parameters
    ----------
    learner : any; the guard takes it over, with its seed
    fallback : a known safe policy and its utilities
    delta : in (0, 1)
    threshold_range, threshold_scale : what is known of thresholds that are sampled (:func:`flexdome.certify`)

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> guarded = fd.Guard(fd.FlexDOME(cmdp.problem(), episodes=500), fd.safe_policy(cmdp, 0.3), delta=0.05)
    >>> float(fd.simulate(guarded, cmdp).strong_violation[-1])
    0.0
    """
    if not isinstance(learner, Learner):
        raise ValidationError(f"learner is {shown(learner)}; it must be a Learner")
    safe = as_safe_policy(Guarded.id, learner.problem, fallback, "fallback")
    declared = {"threshold_range": threshold_range, "threshold_scale": threshold_scale}
    return Guarded(
        learner.problem, learner.episodes, learner.seed, inside=learner, safe_policy=safe, delta=delta, **declared
    )
