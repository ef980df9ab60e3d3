"""One episode of a monitor."""

import numpy as np

from flexdome.certificates.kernels import bernstein, betting
from flexdome.kernels.jit import kernel

__all__ = ["watch"]


@kernel(inline=True)
def share_of_block(k):
    """6 / (pi^2 k^2), k = 1, 2, ...: they sum to 1."""
    return 6.0 / (np.pi * np.pi * k * k)


@kernel
def watch(observed, utilities, count, levels, targets, states, capitals, grid, lengths, blocks, reference, found):
    """Take one episode, ``observed`` (H,) rewards and ``utilities`` (m, H), unless an entry is not in [0, 1].

    ``count`` (1,) episodes; ``levels`` (2,): log(1 / a) of the upper sequences of the utilities, and a of one scale of
    one variable's change. ``states`` (m, SIZE), ``capitals`` (m, G), on ``grid`` (2, G), are lower sequences of
    what is missing from H. ``blocks`` (1 + m, J, 2, SIZE) are the sequences of the present block of each scale, both
    sides, ``lengths`` (J,); ``reference`` (1 + m, 2) the intersection of all intervals so far. Where a variable's
    intervals have become disjoint, ``found[0]`` (2, 1 + m) is set to the number of the episode; where what is missing
    exceeds ``targets`` (m,), ``found[1]`` is. What comes back is -1 where the episode was not taken, else how many
    numbers in ``found`` are new.
    """
    m, H = utilities.shape
    for h in range(H):
        if not (observed[h] >= 0.0 and observed[h] <= 1.0):
            return -1
        for i in range(m):
            if not (utilities[i, h] >= 0.0 and utilities[i, h] <= 1.0):
                return -1
    t = count[0]
    count[0] += 1
    new = 0
    for j in range(1 + m):
        x = 0.0
        for h in range(H):
            x += observed[h] if j == 0 else utilities[j - 1, h]
        x = min(x / H, 1.0)
        if j > 0:
            refuted = betting(states[j - 1], capitals[j - 1], grid, 1.0 - x, levels[0])
            if found[1, j] == 0 and refuted > 0.0 and refuted >= targets[j - 1]:
                found[1, j] = t + 1
                new += 1
        for s in range(lengths.size):
            block = blocks[j, s]
            k, place = t // lengths[s], t % lengths[s]
            if place == 0:
                block[:] = 0.0
            log_level = -np.log(0.5 * levels[1] * share_of_block(k + 1.0))
            low = bernstein(block[0], x, log_level)
            high = 1.0 - bernstein(block[1], 1.0 - x, log_level)
            reference[j, 0] = max(reference[j, 0], low)
            reference[j, 1] = min(reference[j, 1], high)
        if found[0, j] == 0 and reference[j, 0] > reference[j, 1]:
            found[0, j] = t + 1
            new += 1
    return new
