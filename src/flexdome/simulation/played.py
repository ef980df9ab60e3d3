"""Episodes of a policy that does not learn, as a log of a live system would have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flexdome.certificates import Recorded
from flexdome.cmdp import CMDP
from flexdome.cmdp.problem import Problem, as_problem
from flexdome.cmdp.validation import as_int, check_room, instance_of
from flexdome.errors import ValidationError
from flexdome.planning.evaluation import as_policy
from flexdome.simulation.play_kernels import play_all
from flexdome.simulation.randomness import Randomness
from flexdome.theory.constants import LONGEST

__all__ = ["play", "played_arrays"]


def play(
    policy: npt.ArrayLike, cmdp: CMDP, episodes: int, seed: int = 0, first: int = 1, problem: Problem | None = None
) -> Recorded:
    """Episodes of ``policy`` (H, S, A) on ``cmdp``, recorded.

    Parameters
    ----------
    seed, first : the run's seed, and the number of its first episode: the random numbers are those that ``simulate``
        meets in the same episodes
    problem : what is known of the CMDP; None: all that ``cmdp.problem()`` says, without a Slater gap

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("media-v1")
    >>> log = fd.play(fd.solve(cmdp).policy, cmdp, episodes=10)
    >>> len(log), log.actions.shape == (10, cmdp.horizon)
    (10, True)
    """
    instance_of("cmdp", cmdp, CMDP)
    known = cmdp.problem(slater_gap=_some_gap(cmdp)) if problem is None else as_problem(problem)
    s, a, r, d, samples = played_arrays("episodes", cmdp, policy, episodes, seed, first)
    return Recorded.from_arrays(known, s, a, r, d, None if known.thresholds_known else samples)


def played_arrays(
    name: str, cmdp: CMDP, policy: npt.ArrayLike, episodes: int, seed: int, first: int = 1
) -> tuple[Any, ...]:
    """States (n, H + 1), actions (n, H), rewards (n, H), utilities (n, m, H) and threshold samples (n, m, H).

    ``name`` is what the caller calls the number of episodes. Without a threshold that is drawn the last is None.
    """
    pi = as_policy(instance_of("cmdp", cmdp, CMDP), policy)
    if pi.ndim != 3:
        raise ValidationError(f"policy has shape {pi.shape}; it must be {pi.shape[1:]}: one policy")
    H, m = cmdp.horizon, cmdp.constraints
    n = as_int(name, episodes, 0, LONGEST)
    check_room(f"{name} is {n}; {n} episodes", n * H * (6 + 2 * m))
    numbers, start = Randomness(cmdp, as_int("seed", seed, 0)), as_int("first", first, 1, LONGEST)
    states, actions = np.zeros((n, H + 1), dtype=np.int64), np.zeros((n, H), dtype=np.int64)
    rewards, utilities = np.zeros((n, H)), np.zeros((n, m, H))
    play_all(pi, tuple(cmdp.model), numbers.uniforms(start, n), states, actions, rewards, utilities)
    drawn = any(law.law != "fixed" for law in cmdp.thresholds)
    return states, actions, rewards, utilities, numbers.thresholds(start, n) if drawn else None


def _some_gap(cmdp: CMDP) -> float:
    """A Slater gap that a problem accepts; nothing here depends on it."""
    return max(0.5 * (cmdp.horizon - float(cmdp.alpha.max())), 1e-12)
