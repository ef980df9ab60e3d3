"""The inner loops of every pass over a model, written out with machine vectors in this one place.

``expectation`` is sum_s' p(s' | row) v(s'); ``propagate`` sends a mass along a row, y += x p(. | row), and
``propagate_rows`` the masses of neighbouring rows; for dense rows and for successor lists. Without fastmath a compiler
must add in the order written, so a plain sum of products runs at the latency of one addition. Eight lanes, added
pairwise at the end, are an order of summation of our own: the same bits on every machine whatever its vector width,
and three times the speed.

Rows are addressed by their number in a flat array, and all are intrinsics rather than functions: slicing a row out, or
passing arrays to a function, counts references atomically and costs as much as twenty products. The ``_plain``
functions are the readable twins, bit for bit, and what runs when compilation is off.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

__all__ = [
    "expectation",
    "expectation_plain",
    "propagate",
    "propagate_plain",
    "propagate_rows",
    "propagate_rows_plain",
]

LANES = 8
# Columns whose sums are in registers at once, the widest first: a sum waits for itself, so the more the better.
GROUPS = ((LANES,) * 4, (LANES, LANES, LANES // 2), (LANES,), (LANES // 2,), (1,))


def expectation_plain(p, nxt, row, K, v):
    """``sum_s' p(s' | row) v(s')``; ``p`` and ``nxt`` flat, ``nxt`` empty for dense rows, K their length."""
    weights = p[row * K : row * K + K]
    if nxt.size:
        total = 0.0
        for weight, k in zip(weights, nxt[row * K : row * K + K], strict=True):
            total += weight * v[k]
        return total
    lanes = np.zeros(LANES)
    whole = K // LANES * LANES
    for k in range(0, whole, LANES):
        lanes += weights[k : k + LANES] * v[k : k + LANES]
    lanes = lanes[:4] + lanes[4:]
    lanes = lanes[:2] + lanes[2:]
    total = lanes[0] + lanes[1]
    for k in range(whole, K):
        total += weights[k] * v[k]
    return total


def propagate_plain(p, nxt, row, K, x, y):
    """``y(s') += x p(s' | row)`` for every s'."""
    for k in range(row * K, row * K + K):
        y[nxt[k] if nxt.size else k - row * K] += x * p[k]


def propagate_rows_plain(p, nxt, row, K, x, at, n, y):
    """Propagate the masses ``x[at : at + n]`` of n rows in turn."""
    for i in range(n):
        propagate_plain(p, nxt, row + i, K, x[at + i], y)


def _array(context, builder, signature, arguments, index):
    return context.make_array(signature.args[index])(context, builder, arguments[index])


def _loop(builder, start, n, width):
    """A loop over k from ``start`` in steps of ``width`` while k + width <= n; its context and its end."""
    step = n.type(width)
    end = builder.add(start, builder.mul(builder.sdiv(builder.sub(n, start), step), step))
    return cgutils.for_range_slice(builder, start, end, step, inc=True), end


def _at(builder, address, k, width):
    """The address of ``width`` numbers from the k-th on."""
    vector = ir.VectorType(ir.DoubleType(), width)
    return builder.bitcast(builder.gep(address, [k]), vector.as_pointer())


def _rows(context, builder, signature, arguments):
    """What the intrinsics start from: the row's numbers, its successors, whether it is dense, its length."""
    p, nxt = (_array(context, builder, signature, arguments, i) for i in (0, 1))
    row, K = arguments[2], arguments[3]
    at = builder.mul(row, K)
    dense = builder.icmp_signed("==", nxt.nitems, nxt.nitems.type(0))
    return builder.gep(p.data, [at]), builder.gep(nxt.data, [at]), dense, K


def _successor(builder, successors, k, target, K):
    """The address of the k-th successor's number in ``target``."""
    return builder.gep(target, [builder.sext(builder.load(builder.gep(successors, [k])), K.type)])


@intrinsic
def _expectation(typing_context, p, nxt, row, K, v):
    """No reassociation beyond the lanes, no fused multiply-add."""

    def generate(context, builder, signature, arguments):
        weights, successors, dense, K = _rows(context, builder, signature, arguments)
        v = _array(context, builder, signature, arguments, 4).data
        total = cgutils.alloca_once_value(builder, ir.DoubleType()(0.0))
        vector = ir.VectorType(ir.DoubleType(), LANES)
        lanes = cgutils.alloca_once(builder, vector)
        with builder.if_else(dense) as (if_dense, if_sparse):
            with if_dense:
                builder.store(ir.Constant(vector, [0.0] * LANES), lanes)
                loop, end = _loop(builder, K.type(0), K, LANES)
                with loop as (k, _):
                    a, b = (builder.load(_at(builder, x, k, LANES), align=8) for x in (weights, v))
                    builder.store(builder.fadd(builder.load(lanes), builder.fmul(a, b)), lanes)
                sums = [builder.extract_element(builder.load(lanes), ir.IntType(32)(i)) for i in range(LANES)]
                while len(sums) > 1:
                    half = len(sums) // 2
                    sums = [builder.fadd(a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
                builder.store(sums[0], total)
                loop, _ = _loop(builder, end, K, 1)
                with loop as (k, _):
                    product = builder.fmul(*(builder.load(builder.gep(x, [k])) for x in (weights, v)))
                    builder.store(builder.fadd(builder.load(total), product), total)
            with if_sparse:
                builder.store(ir.DoubleType()(0.0), total)
                loop, _ = _loop(builder, K.type(0), K, 1)
                with loop as (k, _):
                    value = builder.load(_successor(builder, successors, k, v, K))
                    product = builder.fmul(builder.load(builder.gep(weights, [k])), value)
                    builder.store(builder.fadd(builder.load(total), product), total)
        return builder.load(total)

    return types.float64(p, nxt, types.intp, types.intp, v), generate


@intrinsic
def _propagate(typing_context, p, nxt, row, K, x, y):
    """Dense rows eight numbers at a time, then four, then one."""

    def generate(context, builder, signature, arguments):
        weights, successors, dense, K = _rows(context, builder, signature, arguments)
        mass = arguments[4]
        y = _array(context, builder, signature, arguments, 5).data
        with builder.if_else(dense) as (if_dense, if_sparse):
            with if_dense:
                end = K.type(0)
                for width in (LANES, LANES // 2, 1):
                    scale = ir.Constant(ir.VectorType(ir.DoubleType(), width), ir.Undefined)
                    for i in range(width):
                        scale = builder.insert_element(scale, mass, ir.IntType(32)(i))
                    loop, end = _loop(builder, end, K, width)
                    with loop as (k, _):
                        place = _at(builder, y, k, width)
                        product = builder.fmul(scale, builder.load(_at(builder, weights, k, width), align=8))
                        builder.store(builder.fadd(builder.load(place, align=8), product), place, align=8)
            with if_sparse:
                loop, _ = _loop(builder, K.type(0), K, 1)
                with loop as (k, _):
                    place = _successor(builder, successors, k, y, K)
                    product = builder.fmul(mass, builder.load(builder.gep(weights, [k])))
                    builder.store(builder.fadd(builder.load(place), product), place)
        return context.get_dummy_value()

    return types.void(p, nxt, types.intp, types.intp, types.float64, y), generate


@intrinsic
def _propagate_rows(typing_context, p, nxt, row, K, x, at, n, y):
    """Dense: for each group of columns the sums of all rows stay in registers; y is read and written once."""

    def generate(context, builder, signature, arguments):
        weights, successors, dense, K = _rows(context, builder, signature, arguments)
        at, n = arguments[5], arguments[6]
        x = builder.gep(_array(context, builder, signature, arguments, 4).data, [at])
        y = _array(context, builder, signature, arguments, 7).data
        with builder.if_else(dense) as (if_dense, if_sparse):
            with if_dense:
                end = K.type(0)
                for group in GROUPS:
                    sums = [cgutils.alloca_once(builder, ir.VectorType(ir.DoubleType(), lanes)) for lanes in group]
                    loop, end = _loop(builder, end, K, sum(group))
                    with loop as (k, _):
                        columns = [builder.add(k, k.type(sum(group[:part]))) for part in range(len(group))]
                        for lanes, column, total in zip(group, columns, sums, strict=True):
                            builder.store(builder.load(_at(builder, y, column, lanes), align=8), total)
                        rows = cgutils.for_range_slice(builder, n.type(0), n, n.type(1), inc=True)
                        with rows as (i, _):
                            mass = builder.load(builder.gep(x, [i]))
                            first = builder.mul(i, K)
                            for lanes, column, total in zip(group, columns, sums, strict=True):
                                scale = ir.Constant(ir.VectorType(ir.DoubleType(), lanes), ir.Undefined)
                                for lane in range(lanes):
                                    scale = builder.insert_element(scale, mass, ir.IntType(32)(lane))
                                place = _at(builder, weights, builder.add(first, column), lanes)
                                product = builder.fmul(scale, builder.load(place, align=8))
                                builder.store(builder.fadd(builder.load(total), product), total)
                        for lanes, column, total in zip(group, columns, sums, strict=True):
                            builder.store(builder.load(total), _at(builder, y, column, lanes), align=8)
            with if_sparse:
                rows = cgutils.for_range_slice(builder, n.type(0), n, n.type(1), inc=True)
                with rows as (i, _):
                    mass = builder.load(builder.gep(x, [i]))
                    first = builder.mul(i, K)
                    loop, _ = _loop(builder, K.type(0), K, 1)
                    with loop as (k, _):
                        entry = builder.add(first, k)
                        place = _successor(builder, successors, entry, y, K)
                        product = builder.fmul(mass, builder.load(builder.gep(weights, [entry])))
                        builder.store(builder.fadd(builder.load(place), product), place)
        return context.get_dummy_value()

    return types.void(p, nxt, types.intp, types.intp, x, types.intp, types.intp, y), generate


expectation = expectation_plain if config.DISABLE_JIT else _expectation
propagate = propagate_plain if config.DISABLE_JIT else _propagate
propagate_rows = propagate_rows_plain if config.DISABLE_JIT else _propagate_rows
