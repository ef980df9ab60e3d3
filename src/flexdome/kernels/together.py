"""Exact values of several policies at once, on a dense model that is larger than the caches.

A forward pass reads every transition probability once for a handful of operations, so that at S = 500 an evaluation is
as fast as memory is. Eight policies side by side read them once together. Each policy keeps the order of its additions:
the values have the bits of :func:`flexdome.kernels.rollout.exact_values`, whoever it is evaluated with.
"""

import numpy as np
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from flexdome.kernels.jit import kernel
from flexdome.kernels.lanes import _load, _splat, _store
from flexdome.kernels.vectors import LANES, _array

__all__ = ["TOGETHER", "evaluate_together", "propagate_together", "propagate_together_plain"]

TOGETHER = 8  # policies
ROWS = 4  # whose masses are in registers at once


def propagate_together_plain(p, row, K, x, at, n, y):
    """``y[s', b] += x[row, b] p(s' | row)`` for n dense rows in turn and every policy b; all arrays flat."""
    for i in range(n):
        for k in range(K):
            for b in range(TOGETHER):
                y[k * TOGETHER + b] += x[(at + i) * TOGETHER + b] * p[(row + i) * K + k]


@intrinsic
def _propagate_together(typing_context, p, row, K, x, at, n, y):
    """A vector is a number of each policy."""

    def generate(context, builder, signature, arguments):
        p, x, y = (_array(context, builder, signature, arguments, i).data for i in (0, 3, 6))
        row, K, at, n = (arguments[i] for i in (1, 2, 4, 5))
        whole = builder.mul(builder.sdiv(n, n.type(ROWS)), n.type(ROWS))
        for begin, end, rows in ((n.type(0), whole, ROWS), (whole, n, 1)):
            with cgutils.for_range_slice(builder, begin, end, n.type(rows), inc=True) as (i, _):
                first = [builder.add(i, i.type(part)) for part in range(rows)]
                mass = [_load(builder, x, builder.mul(builder.add(at, k), k.type(TOGETHER)), TOGETHER) for k in first]
                weights = [builder.gep(p, [builder.mul(builder.add(row, k), K)]) for k in first]
                with cgutils.for_range_slice(builder, K.type(0), K, K.type(1), inc=True) as (k, _):
                    place = builder.mul(k, k.type(TOGETHER))
                    total = _load(builder, y, place, TOGETHER)
                    for one, weight in zip(mass, weights, strict=True):
                        scale = _splat(builder, builder.load(builder.gep(weight, [k])), TOGETHER)
                        total = builder.fadd(total, builder.fmul(one, scale))
                    _store(builder, total, y, place, TOGETHER)
        return context.get_dummy_value()

    integer = types.intp
    return types.void(p, integer, integer, x, integer, integer, y), generate


propagate_together = propagate_together_plain if config.DISABLE_JIT else _propagate_together


@kernel
def evaluate_together(p, f, mu, policies, values, q, x):
    """V_r and every V_d of ``TOGETHER`` policies under a dense model: ``values`` (TOGETHER, 1 + m).

    ``policies`` is (TOGETHER, H * S * A); a number -n there stands for 1 / n, divided and not multiplied with, as
    uniform policies are. ``q`` is (2, S * TOGETHER) and ``x`` (S * A * TOGETHER) work.
    """
    n_f, H, S, A = f.shape
    SA, K = S * A, p.shape[3]
    p_flat, f_flat = p.reshape(-1), f.reshape(-1)
    sums = np.zeros((LANES, TOGETHER))
    values[:] = 0.0
    for s in range(S):
        for b in range(TOGETHER):
            q[0, s * TOGETHER + b] = mu[s]
    for h in range(H):
        for b in range(TOGETHER):
            for s in range(S):
                mass = q[h % 2, s * TOGETHER + b]
                for row in range(s * A, (s + 1) * A):
                    share = policies[b, h * SA + row]
                    x[row * TOGETHER + b] = mass * share if share >= 0.0 else mass / -share
        if h + 1 < H:
            first = h * SA if p.shape[0] > 1 else 0
            q_next = q[(h + 1) % 2]
            q_next[:] = 0.0
            propagate_together(p_flat, first, K, x, 0, SA, q_next)
        for j in range(n_f):  # in the order of flexdome.kernels.vectors.expectation
            at, whole = (j * H + h) * SA, SA // LANES * LANES
            sums[:] = 0.0
            for row in range(whole):
                for b in range(TOGETHER):
                    sums[row % LANES, b] += f_flat[at + row] * x[row * TOGETHER + b]
            for b in range(TOGETHER):
                for half in (4, 2, 1):
                    for lane in range(half):
                        sums[lane, b] += sums[lane + half, b]
                total = sums[0, b]
                for row in range(whole, SA):
                    total += f_flat[at + row] * x[row * TOGETHER + b]
                values[b, j] += total
