"""Episodes of a policy in a known CMDP, as a learner would observe them."""

from __future__ import annotations

import numpy.typing as npt

from flexdome.cmdp import CMDP, Episode
from flexdome.cmdp.episode import Scaled
from flexdome.simulation.played import played_arrays

__all__ = ["sample_episodes"]


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
    s, a, r, d, samples = played_arrays("n", cmdp, policy, n, seed)
    return [Scaled(s[t], a[t], r[t], d[t], None if samples is None else samples[t]) for t in range(len(a))]
