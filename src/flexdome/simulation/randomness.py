"""The random numbers of a run.

One stream each for first states, actions, transitions, noise and thresholds, all from the run's seed. A stream uses the
same number of uniforms for every episode, needed or not, so its position is a function of the episode's number alone:
cutting a run into pieces, resuming it, or changing the learner never changes the numbers that are met.
"""

from __future__ import annotations

import numpy as np

from flexdome.cmdp import CMDP
from flexdome.cmdp.validation import Float

__all__ = ["Randomness"]

STREAMS = ("start", "action", "next", "noise", "threshold")


class Randomness:
    """Uniforms for the episodes of one run on one CMDP."""

    def __init__(self, cmdp: CMDP, seed: int) -> None:
        H, m = cmdp.horizon, cmdp.constraints
        self._cmdp, self._seed = cmdp, seed
        self._width = {"start": 1, "action": H, "next": H, "noise": H * (1 + m), "threshold": m * H}

    def _uniforms(self, stream: str, first: int, count: int) -> Float:
        bits = np.random.PCG64(np.random.SeedSequence([self._seed, STREAMS.index(stream)]))
        bits.advance((first - 1) * self._width[stream])
        return np.random.Generator(bits).random((count, self._width[stream]))

    def bytes_of_an_episode(self, thresholds_known: bool) -> int:
        """What the numbers of one episode take, with thresholds (uniforms and samples) where these are drawn."""
        unused = () if self._cmdp.noise == "bernoulli" else ("noise",)
        widths = {name: width for name, width in self._width.items() if name not in unused}
        widths["threshold"] *= 0 if thresholds_known else 2
        return 8 * sum(widths.values())

    def uniforms(self, first: int, count: int) -> tuple[Float, Float, Float, Float]:
        """(start, action, next, noise), a row an episode from ``first`` on; noise is empty where means are observed."""
        noisy = self._cmdp.noise == "bernoulli"
        noise = self._uniforms("noise", first, count) if noisy else np.zeros((0, 0))
        start, action, following = (self._uniforms(name, first, count) for name in ("start", "action", "next"))
        return start, action, following, noise

    def thresholds(self, first: int, count: int) -> Float:
        """(count, m, H) threshold samples."""
        H, m = self._cmdp.horizon, self._cmdp.constraints
        u = self._uniforms("threshold", first, count).reshape(count, m, H)
        samples = np.empty_like(u)
        for i, law in enumerate(self._cmdp.thresholds):
            if law.per == "episode":
                samples[:, i] = law.sample(np.ascontiguousarray(u[:, i, :1]))
            else:
                samples[:, i] = law.sample(np.ascontiguousarray(u[:, i]))
        return samples
