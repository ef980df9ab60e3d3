"""The two inner loops of a soft Bellman sweep over the empirical model, with explicit machine vectors.

Values of a cell and of a row are ``W`` neighbouring numbers (a multiple of four). ``row_means`` evaluates one row of
the empirical model for all of them at once and keeps the result; ``mix_rows`` averages the rows of one cell with its
policy. Both are intrinsics for the reason given in :mod:`flexdome.kernels.vectors`; the ``_plain`` functions are the
readable twins, bit for bit, and what runs when compilation is off.
"""

import numpy as np
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from flexdome.kernels.lanes import BLOCK, TOGETHER, _constant, _load, _splat, _store, _vector
from flexdome.kernels.vectors import _array, _loop

__all__ = ["mix_rows", "mix_rows_plain", "row_means", "row_means_plain"]


def row_means_plain(cell, count, start, n, inverse, values, later, base, row, W, out):
    """``out[row] = base[row] + sum_k count_k values[cell_k + later] / N``, W numbers.

    ``cell`` and ``count`` are the pool of successors; this row's are n entries from ``start`` on, and after them up to
    a multiple of four entries with count 0. ``inverse`` is 1 / N. ``later`` is how many cells behind the ones in the
    list its successors are.
    """
    for j in range(0, W, BLOCK):
        e = np.zeros((TOGETHER, BLOCK))
        for k in range(start, start + (n + TOGETHER - 1) // TOGETHER * TOGETHER):
            here = (cell[k] + later) * W + j
            e[(k - start) % TOGETHER] += count[k] * values[here : here + BLOCK]
        e = (e[0] + e[2]) + (e[1] + e[3])
        at = row * W + j
        out[at : at + BLOCK] = base[at : at + BLOCK] + e * inverse


def mix_rows_plain(values, cell, q, pi, row, C, A, W):
    """``values[cell] = sum_a pi_a q_a`` over the A rows ``row``, ``row + C``, ...; W numbers each."""
    for j in range(0, W, BLOCK):
        total = np.zeros(BLOCK)
        for a in range(A):
            at = (row + a * C) * W + j
            total += pi[row + a * C] * q[at : at + BLOCK]
        values[cell * W + j : cell * W + j + BLOCK] = total


@intrinsic
def _row_means(typing_context, cell, count, start, n, inverse, values, later, base, row, W, out):
    def generate(context, builder, signature, arguments):
        cell, count, values, base, out = (
            _array(context, builder, signature, arguments, i).data for i in (0, 1, 5, 7, 10)
        )
        start, n, inverse, later, row, W = (arguments[i] for i in (2, 3, 4, 6, 8, 9))
        values = builder.gep(values, [builder.mul(later, W)])
        e = [cgutils.alloca_once(builder, _vector(BLOCK)) for _ in range(TOGETHER)]
        end = builder.add(builder.add(start, n), n.type(TOGETHER - 1))
        scale = _splat(builder, inverse, BLOCK)
        blocks, _ = _loop(builder, W.type(0), W, BLOCK)
        with blocks as (j, _):
            for part in e:
                builder.store(_constant(0.0, BLOCK), part)
            successors, _ = _loop(builder, start, end, TOGETHER)
            with successors as (k, _):
                for i, part in enumerate(e):
                    entry = builder.add(k, k.type(i))
                    target = builder.sext(builder.load(builder.gep(cell, [entry])), W.type)
                    place = builder.add(builder.mul(target, W), j)
                    weight = _splat(builder, builder.load(builder.gep(count, [entry])), BLOCK)
                    product = builder.fmul(weight, _load(builder, values, place, BLOCK))
                    builder.store(builder.fadd(builder.load(part), product), part)
            e0, e1, e2, e3 = (builder.load(part) for part in e)
            mean = builder.fadd(builder.fadd(e0, e2), builder.fadd(e1, e3))
            place = builder.add(builder.mul(row, W), j)
            first = _load(builder, base, place, BLOCK)
            _store(builder, builder.fadd(first, builder.fmul(mean, scale)), out, place, BLOCK)
        return context.get_dummy_value()

    integer, number = types.intp, types.float64
    return types.void(cell, count, integer, integer, number, values, integer, base, integer, integer, out), generate


@intrinsic
def _mix_rows(typing_context, values, cell, q, pi, row, C, A, W):
    def generate(context, builder, signature, arguments):
        values, q, pi = (_array(context, builder, signature, arguments, i).data for i in (0, 2, 3))
        cell, row, C, A, W = (arguments[i] for i in (1, 4, 5, 6, 7))
        total = cgutils.alloca_once(builder, _vector(BLOCK))
        blocks, _ = _loop(builder, W.type(0), W, BLOCK)
        with blocks as (j, _):
            builder.store(_constant(0.0, BLOCK), total)
            with cgutils.for_range_slice(builder, A.type(0), A, A.type(1), inc=True) as (a, _):
                here = builder.add(row, builder.mul(a, C))
                weight = _splat(builder, builder.load(builder.gep(pi, [here])), BLOCK)
                product = builder.fmul(weight, _load(builder, q, builder.add(builder.mul(here, W), j), BLOCK))
                builder.store(builder.fadd(builder.load(total), product), total)
            _store(builder, builder.load(total), values, builder.add(builder.mul(cell, W), j), BLOCK)
        return context.get_dummy_value()

    integer = types.intp
    return types.void(values, integer, q, pi, integer, integer, integer, integer), generate


row_means = row_means_plain if config.DISABLE_JIT else _row_means
mix_rows = mix_rows_plain if config.DISABLE_JIT else _mix_rows
