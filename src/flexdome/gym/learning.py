"""Learning from an environment that publishes no model.

Any environment with ``Discrete`` actions and ``Discrete`` or binned observations is driven through
``learner.observe``, an episode of the learner's horizon at a time. An episode that terminates early goes to one more
state, the last of the problem, where it earns 0 and costs nothing. Nothing is known exactly here: what is reported is
what was realised, and, of the last policy, estimates with intervals.

**The interval.** With n independent episodes whose sums X lie in a range of width R, with probability 1 - delta

    |mean(X) - E X| <= sqrt(2 var(X) ln(4 / delta) / n) + 7 R ln(4 / delta) / (3 (n - 1))

(empirical Bernstein: Maurer and Pontil 2009, Theorem 4, on both sides). It holds at every n, for every distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flexdome.cmdp import Episode, Problem
from flexdome.cmdp.episode import Scaled
from flexdome.cmdp.validation import Float, as_array, as_float, as_int, check_room, shown, switch
from flexdome.errors import ValidationError
from flexdome.gym.discretize import Grid, fit_grid
from flexdome.gym.transition_tables import calls_with_reward
from flexdome.learners import Learner
from flexdome.theory.constants import LONGEST

__all__ = ["Estimate", "Learned", "learn", "problem_for"]

DELTA = 0.05


@dataclass(frozen=True)
class Estimate:
    """A mean that is not known exactly: between ``low`` and ``high`` with probability ``level``."""

    mean: float
    low: float
    high: float
    episodes: int
    level: float = 1.0 - DELTA

    def __str__(self) -> str:
        return (
            f"{self.mean:.4g} (estimate from {self.episodes} episode{'s' * (self.episodes != 1)}, "
            f"{100 * self.level:g} % interval {self.low:.4g} to {self.high:.4g})"
        )


@dataclass(frozen=True, eq=False)
class Learned:
    """What happened, and what the last policy is estimated to do.

    Attributes
    ----------
    rewards : (T,) sums of the episodes that were learned from, in the environment's units
    costs : (T, m) likewise
    lengths : (T,) steps before the end
    reward, cost : estimates of the last policy's values from episodes that were not learned from, None where
        ``evaluate`` was 0
    limits : (m,) what the cost of an episode may be on average; NaN where it is not known
    """

    rewards: Float
    costs: Float
    lengths: Float
    reward: Estimate | None
    cost: tuple[Estimate, ...] | None
    limits: Float

    def __str__(self) -> str:
        lines = [f"{len(self.rewards)} episodes learned from"]
        if self.reward is not None and self.cost is not None:
            lines.append(f"  reward of the last policy: {self.reward}")
            for i, (one, limit) in enumerate(zip(self.cost, self.limits, strict=True)):
                verdict = (
                    "limit not known" if math.isnan(limit)
                    else f"within the limit {limit:g}" if one.high <= limit
                    else f"above the limit {limit:g}" if one.low > limit
                    else f"not told apart from the limit {limit:g}"
                )  # fmt: skip
                lines.append(f"  cost {i} of the last policy: {one}: {verdict}")
        return "\n".join(lines)


def problem_for(
    env: Any,
    *,
    horizon: int,
    limit: Any,
    slater_gap: float,
    discretize: Any = None,
    stationary: bool = True,
    resets: int = 1000,
    seed: int = 0,
) -> Problem:
    """The problem that :func:`learn` poses to a learner: one state for each observation or bin, and one for the end.

    Parameters
    ----------
    env : an environment with ``Discrete`` actions
    horizon : steps of an episode
    limit : the largest expected cost of an episode, or one for each constraint
    slater_gap : by how much some policy is known to stay below every limit
    discretize : None for ``Discrete`` observations, or a :class:`Grid` (or a function with ``states``)
    stationary : whether the environment is the same at every step, as most are
    resets : the distribution of the first state is estimated from so many
    """
    H, first = as_int("horizon", horizon, 1, 2**53), as_int("seed", seed, 0)
    limits = np.atleast_1d(as_array("limit", limit)[0])
    A, state = _actions(env), _observer(env, discretize, None, first)
    starts = np.zeros(state.states + 1)
    for k in range(as_int("resets", resets, 1, LONGEST)):
        starts[state(_started(env, first if k == 0 else None))] += 1.0
    return Problem(
        states=state.states + 1,
        actions=A,
        horizon=H,
        initial=starts / starts.sum(),
        thresholds=H - limits,
        slater_gap=slater_gap,
        stationary=stationary,
    )


def learn(
    env: Any,
    learner: Learner,
    episodes: int,
    *,
    cost: Callable[..., Any] | None = None,
    discretize: Any = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    evaluate: int = 0,
    seed: int = 0,
    each: Callable[[int, float, Float], None] | None = None,
) -> Learned:
    """Let ``learner`` play ``episodes`` episodes in ``env`` and learn from each.

    Parameters
    ----------
    env : any environment with ``Discrete`` actions, of five values a step or of six (the third is the cost)
    learner : its problem has a state for each observation or bin, and one more for the end (:func:`problem_for`)
    cost : what one step costs, in [0, 1]: a function of (observation, action, next observation) or of these and the
        reward; m numbers where there are m constraints. None takes ``info["cost"]``
    discretize : None for ``Discrete`` observations; a :class:`Grid`; numbers of bins for each dimension, whose ranges
        are taken from 100 episodes of random play that are not learned from; or a function from an observation to a
        state
    reward_range : (low, high) of a step's reward
    evaluate : play so many more episodes with the last policy, without learning, and estimate its values from them
    seed : of the environment's first reset and of the actions drawn
    each : called after every episode with its number, reward and costs

    Notes
    -----
    A threshold that must be estimated takes its samples from ``info["threshold"]``. An environment that cuts an episode
    before the learner's horizon is refused: what would have come is not known.
    """
    drive = _Drive(env, _as_learner(learner), cost, discretize, reward_range, as_int("seed", seed, 0))
    T, n = as_int("episodes", episodes, 0, LONGEST), as_int("evaluate", evaluate, 0, LONGEST)
    if n == 1:
        raise ValidationError("evaluate is 1; an interval needs at least 2 episodes")
    if each is not None and not callable(each):
        raise ValidationError(f"each is {shown(each)}; it must be a function, or None")
    problem = learner.problem
    for name, count in (("episodes", T), ("evaluate", n)):
        check_room(f"{name} is {count}; what happens in them", count * (2 + problem.constraints))
    sums, costs, lengths = np.zeros(T), np.zeros((T, problem.constraints)), np.zeros(T)
    for t in range(T):
        episode, sums[t], costs[t], lengths[t] = drive.play(learner.policy)
        learner.observe(episode)
        if each is not None:
            each(learner.episode, float(sums[t]), costs[t])
    reward: Estimate | None = None
    estimates: tuple[Estimate, ...] | None = None
    if n > 0:
        played = [drive.play(learner.policy)[1:3] for _ in range(n)]
        H = problem.horizon
        least, most = H * min(drive.low, 0.0), H * max(drive.high, 0.0)
        reward = _estimate(np.array([total for total, _ in played]), least, most)
        estimates = tuple(_estimate(column, 0.0, float(H)) for column in np.array([c for _, c in played]).T)
    return Learned(sums, costs, lengths, reward, estimates, problem.horizon - problem.thresholds)


def _estimate(sums: Float, least: float, most: float) -> Estimate:
    """The mean of sums that lie in [least, most]."""
    n, log = len(sums), math.log(4.0 / DELTA)
    half = math.sqrt(2.0 * float(sums.var(ddof=1)) * log / n) + 7.0 * (most - least) * log / (3.0 * (n - 1))
    mean = float(sums.mean())
    return Estimate(mean, max(mean - half, least), min(mean + half, most), n)


def _as_learner(learner: Any) -> Learner:
    if not isinstance(learner, Learner):
        raise ValidationError(f"learner is {shown(learner)}; it must be a learner, such as fd.FlexDOME(problem, ...)")
    return learner


def _actions(env: Any) -> int:
    space: Any = getattr(env, "action_space", None)
    if not hasattr(space, "n") or getattr(space, "start", 0) != 0:
        raise ValidationError(f"env.action_space is {shown(space)}; it must be Discrete, from 0 on")
    return as_int("env.action_space.n", space.n, 1)


def _started(env: Any, seed: int | None) -> Any:
    """The first observation of an episode."""
    answer = env.reset(seed=seed)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ValidationError(f"env.reset gave {shown(answer)}; it must be (observation, info)")
    return answer[0]


def _single(value: Any) -> Any:
    """The one entry of an array of one."""
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value


class _Numbered:
    """Observations that are states already, or that a function of the user's makes states."""

    def __init__(self, states: int, function: Callable[[Any], Any] | None = None) -> None:
        self.states, self._function = states, function

    def __call__(self, observation: Any) -> int:
        value = observation if self._function is None else self._function(observation)
        return as_int("observation", _single(value), 0, self.states - 1)


def _observer(env: Any, discretize: Any, states: int | None, seed: int) -> Grid | _Numbered:
    """From an observation to a state; ``states`` is how many there may be, where that is known from elsewhere."""
    if isinstance(discretize, Grid):
        return discretize
    if callable(discretize):
        known = getattr(discretize, "states", states)
        if known is None:
            raise ValidationError("discretize has no attribute 'states'; it must say how many there are")
        return _Numbered(as_int("discretize.states", known, 1), discretize)
    if discretize is not None:
        return fit_grid(env, discretize, seed=seed)
    space: Any = getattr(env, "observation_space", None)
    if not hasattr(space, "n") or getattr(space, "start", 0) != 0:
        raise ValidationError(
            f"env.observation_space is {shown(space)}; it must be Discrete, from 0 on, or discretize must be given"
        )
    return _Numbered(as_int("env.observation_space.n", space.n, 1))


class _Played(Scaled):
    """An episode of an environment; that nothing began in its first state before is no reason to refuse it."""

    begins_anywhere = True


class _Drive:
    """An environment, as a learner meets it."""

    def __init__(self, env: Any, learner: Learner, cost: Any, discretize: Any, reward_range: Any, seed: int) -> None:
        problem = learner.problem
        self.env, self.problem, self.seed = env, problem, seed
        if cost is not None and not callable(cost):
            raise ValidationError(f"cost is {shown(cost)}; it must be a function, or None for info['cost']")
        self.cost, self.with_reward = cost, cost is not None and calls_with_reward(cost)
        pair, _ = as_array("reward_range", reward_range)
        if pair.shape != (2,) or not pair[0] < pair[1]:
            raise ValidationError(f"reward_range is {shown(reward_range)}; it must be (low, high) with low < high")
        self.low, self.high = float(pair[0]), float(pair[1])
        if _actions(env) != problem.actions:
            raise ValidationError(f"the environment has {_actions(env)} actions; the problem has {problem.actions}")
        self.state = _observer(env, discretize, problem.states - 1, seed)
        if self.state.states not in (problem.states - 1, problem.states):
            raise ValidationError(
                f"the problem has {problem.states} states; it must have {self.state.states + 1}: "
                f"{self.state.states} observations, and one state for the end"
            )
        limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
        if limit is not None and limit < problem.horizon:
            raise ValidationError(
                f"the horizon is {problem.horizon}; the environment cuts episodes after {limit} steps"
            )
        self.rng = np.random.default_rng([seed, 1])
        self.begun = False

    def play(self, policy: Float) -> tuple[Episode, float, Float, int]:
        """One episode of ``policy``: what a learner observes, the sums of rewards and costs, and the steps it had."""
        H, m = self.problem.horizon, self.problem.constraints
        observation = _started(self.env, None if self.begun else self.seed)
        self.begun = True
        states, actions, rewards = [self.state(observation)], list[int](), list[float]()
        costs, thresholds = np.zeros((m, H)), np.full((m, H), np.nan)
        ended = truncated = False
        while len(actions) < H and not ended:
            h, s = len(actions), states[-1]
            if truncated:
                raise ValidationError(f"the environment cut an episode after {h} steps; the horizon is {H}")
            a = self._draw(policy[h, s])
            after, reward, given, ended, truncated, info = self._step(a)
            r = as_float("reward", reward, self.low, self.high)
            costs[:, h] = self._paid(given, info, (observation, a, after, r))
            thresholds[:, h] = self._sampled(info)
            states.append(self.state(after))
            actions.append(a)
            rewards.append(r)
            observation = after
        n = len(actions)
        scaled = (np.array(rewards) - self.low) / (self.high - self.low)
        samples = None if self.problem.thresholds_known else thresholds[:, :n]
        utilities = 1.0 - costs[:, :n]
        if n == H:
            episode: Episode = _Played(states, actions, scaled, utilities, samples)
        else:
            nothing = as_float("reward after the end", (0.0 - self.low) / (self.high - self.low), 0.0, 1.0)
            if self.state.states == self.problem.states:
                raise ValidationError(
                    f"an episode ended after {n} steps; the problem must have one state more, for the end"
                )
            episode = _Played.padded(
                H, self.state.states, states, actions, scaled, utilities, samples, reward=nothing, utility=1.0
            )
        return episode, float(np.sum(rewards)), costs.sum(axis=1), n

    def _step(self, action: int) -> tuple[Any, Any, list[Any], bool, bool, Mapping[str, Any]]:
        """What the environment answers; the cost where it is one of six values."""
        answer = self.env.step(action)
        if not isinstance(answer, tuple) or len(answer) not in (5, 6):
            rule = (
                "it must be (observation, reward, terminated, truncated, info), with a cost in the third place or not"
            )
            raise ValidationError(f"env.step gave {shown(answer)}; {rule}")
        after, reward, *given, ended, truncated, info = answer
        if not isinstance(info, Mapping):
            raise ValidationError(f"info is {shown(info)}; it must be a dictionary")
        flags = switch("terminated", _single(ended)), switch("truncated", _single(truncated))
        return after, _single(reward), given, *flags, info

    def _draw(self, pi: Float) -> int:
        return int(min(np.searchsorted(np.cumsum(pi), self.rng.random(), side="right"), np.flatnonzero(pi)[-1]))

    def _paid(self, given: list[Any], info: Any, step: tuple[Any, ...]) -> Float:
        m = self.problem.constraints
        if self.cost is not None:
            paid = self.cost(*(step if self.with_reward else step[:3]))
        elif given:
            paid = given[0]
        elif "cost" in info:
            paid = info["cost"]
        else:
            raise ValidationError(f"info has {shown(list(info))}; it must have 'cost', or cost must be given")
        costs = np.atleast_1d(as_array("cost", paid)[0])
        if costs.shape != (m,):
            raise ValidationError(f"cost has shape {costs.shape}; it must be ({m},)")
        return np.array([as_float(f"cost[{i}]", c, 0.0, 1.0) for i, c in enumerate(costs)])

    def _sampled(self, info: Any) -> Float | float:
        if self.problem.thresholds_known:
            return math.nan
        if "threshold" not in info:
            raise ValidationError(f"info has {shown(list(info))}; it must have 'threshold', which must be estimated")
        samples, m = np.atleast_1d(as_array("info['threshold']", info["threshold"])[0]), self.problem.constraints
        if samples.shape != (m,):
            raise ValidationError(f"info['threshold'] has shape {samples.shape}; it must be ({m},)")
        return samples
