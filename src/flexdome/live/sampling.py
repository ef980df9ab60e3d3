"""Episodes of a policy in a known CMDP, as a learner would observe them."""

from __future__ import annotations

import numpy.typing as npt

from flexdome.cmdp import CMDP, Episode
from flexdome.cmdp.validation import as_int, check_room, instance_of
from flexdome.errors import ValidationError
from flexdome.kernels.rollout import play
from flexdome.planning.evaluation import as_policy
from flexdome.simulation.randomness import Randomness
from flexdome.simulation.runners.base import buffers_of

__all__ = ["sample_episodes"]

AT_ONCE = 4096  # episodes whose random numbers are drawn together


def sample_episodes(cmdp: CMDP, policy: npt.ArrayLike, n: int, seed: int = 0) -> list[Episode]:
    """Draw ``n`` episodes of ``policy`` (H, S, A).

    They meet the random numbers of ``fd.simulate(..., seed=seed)``: a learner that never changed this policy would have
    seen these episodes. Threshold samples are there where a threshold is drawn, and None where all are fixed.

    Examples
    --------
    >>> import flexdome as fd
    >>> cmdp = fd.make_cmdp("inventory-v1")
    >>> episodes = fd.sample_episodes(cmdp, fd.solve(cmdp).policy, 100, seed=1)
    >>> learner = fd.FlexDOME(cmdp.problem(), episodes=1000)
    >>> learner.preload(episodes)
    """
    instance_of("cmdp", cmdp, CMDP)
    pi = as_policy(cmdp, policy)
    if pi.ndim != 3:
        raise ValidationError(f"policy has shape {pi.shape}; it must be {pi.shape[1:]}: one policy")
    count, numbers = as_int("n", n, 0), Randomness(cmdp, as_int("seed", seed, 0))
    H, m = cmdp.horizon, cmdp.constraints
    check_room(f"n is {count}; {count} episodes", count * ((3 + 2 * m) * H + 1))
    drawn = any(law.law != "fixed" for law in cmdp.thresholds)
    buffers, found = buffers_of(cmdp), list[Episode]()
    for first in range(1, count + 1, AT_ONCE):
        some = min(AT_ONCE, count + 1 - first)
        uniforms = numbers.uniforms(first, some)
        thresholds = numbers.thresholds(first, some) if drawn else None
        for t in range(some):
            play(pi, cmdp.model, uniforms, t, buffers)
            states, actions, rewards, utilities = (array.copy() for array in buffers[:4])
            samples = None if thresholds is None else thresholds[t].copy()
            found.append(Episode(states, actions, rewards, utilities, samples))
    return found
