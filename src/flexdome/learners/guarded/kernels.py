"""The lower sequence of a policy that is to be certified within a number of episodes that is planned.

As :func:`flexdome.certificates.kernels.betting`, with other bets. Those that serve all times alike,
sqrt(2 l / (v t log t)), pay for it with a width of about 2 sqrt(2 v l / n) after some thousand observations. Here, with
``aim`` the n to be good at,

    lam_t = sqrt(2 l / (v_{t-1} max(t, n / 16)))

for which the width, with mean bets and v known, is sqrt(2 v l / t) after t = n / 16 observations and
(1 + 1 + log 16) / (2 - 1/4) / 2 = 1.36 times sqrt(2 v l / n) after n. Any bets that depend on the past alone keep the
capital a martingale: the bound is right at all times, whatever n is.
"""

import numpy as np

from flexdome.certificates.kernels import BOUND, COUNT, DEAD, FIRST, SQUARES, WORTHLESS, _count
from flexdome.kernels.jit import kernel

__all__ = ["aimed_betting"]

SIXTEENTH = 1.0 / 16.0


@kernel
def aimed_betting(state, capital, grid, x, log_level, aim):
    """One more observation; the lower bound comes back. Arguments as for ``betting``, and the n to be good at."""
    variance = (0.25 + state[SQUARES]) / (state[COUNT] + 1.0)
    bet = np.sqrt(2.0 * log_level / (variance * max(state[COUNT] + 1.0, SIXTEENTH * aim)))
    enough = np.exp(log_level)
    first, last = int(state[FIRST]), capital.size - int(state[DEAD])
    held, mean, most = capital[first:last], grid[0, first:last], grid[1, first:last]
    for g in range(held.size):
        held[g] *= 1.0 + min(most[g], bet) * (x - mean[g])
    while first < last and capital[first] >= enough:
        state[BOUND] = grid[0, first]
        first += 1
    while last > first and capital[last - 1] < WORTHLESS:
        last -= 1
    state[FIRST], state[DEAD] = first, capital.size - last
    _count(state, x)
    return state[BOUND]
