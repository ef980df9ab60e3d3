"""One episode of a monitor."""

import numpy as np

from flexdome.certificates.kernels import BOUND, DEAD, MISSING, bernstein_both, betting
from flexdome.kernels.jit import kernel

__all__ = ["SCALES", "watch"]

SCALES = (100, 1_000, 10_000)  # episodes of a block
LEVEL = DEAD  # where a block keeps its log(1 / a)


@kernel(inline=True)
def share_of_block(k):
    """6 / (pi^2 k^2), k = 1, 2, ...: they sum to 1."""
    return 6.0 / (np.pi * np.pi * k * k)


@kernel
def watch(observed, utilities, count, limits, states, capitals, grid, blocks, reference, found):
    """Take one episode, ``observed`` (H,) rewards and ``utilities`` (m, H), unless an entry is not in [0, 1].

    ``count`` (1,) episodes; ``limits`` (2 + m,): log(1 / a) of the upper sequences of the utilities, a of one scale of
    one variable's change, and for each utility what must not be missing, of H. ``states`` (m, SIZE) and ``capitals``
    (m, G), on ``grid`` (2, G), are lower sequences of what is missing from H. ``blocks`` (1 + m, J, SIZE) are the
    sequences of the present block of each of ``SCALES``; ``reference`` (1 + m, 2) the intersection of all intervals so
    far. Where a variable's intervals have become disjoint, ``found[0]`` (2, 1 + m) is set to the number of the episode;
    where too much is missing, ``found[1]`` is. What comes back is -1 where the episode was not taken, else how many
    numbers in ``found`` are new.

    A utility that is NaN was not sampled: it counts as 1 for the upper sequence, and the blocks of that utility pass
    over the episode.
    """
    m, H = utilities.shape
    for h in range(H):
        if not (observed[h] >= 0.0 and observed[h] <= 1.0):
            return -1
        for i in range(m):
            if not ((utilities[i, h] >= 0.0 and utilities[i, h] <= 1.0) or np.isnan(utilities[i, h])):
                return -1
    t = count[0]
    count[0] += 1
    new = 0
    for j in range(1 + m):
        x, whole = 0.0, True
        for h in range(H):
            f = observed[h] if j == 0 else utilities[j - 1, h]
            whole = whole and not np.isnan(f)
            x += 1.0 if np.isnan(f) else f
        x = min(x / H, 1.0)
        if j > 0:
            refuted = betting(states[j - 1], capitals[j - 1], grid, 1.0 - x, limits[0])
            if found[1, j] == 0 and refuted > 0.0 and refuted >= limits[1 + j]:
                found[1, j] = t + 1
                new += 1
        for s in range(len(SCALES)):
            block = blocks[j, s]
            k, place = t // SCALES[s], t % SCALES[s]
            if place == 0:
                block[:] = 0.0
                block[LEVEL] = -np.log(0.5 * limits[1] * share_of_block(k + 1.0))
            if whole:
                bernstein_both(block, x, block[LEVEL])
                reference[j, 0] = max(reference[j, 0], block[BOUND])
                reference[j, 1] = min(reference[j, 1], 1.0 - block[MISSING])
        if found[0, j] == 0 and reference[j, 0] > reference[j, 1]:
            found[0, j] = t + 1
            new += 1
    return new
