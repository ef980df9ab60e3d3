"""Sums over eight explicit lanes: the one place where machine vectors are written out.

Without fastmath a compiler must add in the order written, so a plain sum of products runs at the latency of
one addition. Eight lanes, added pairwise at the end, are an order of summation of our own: the same bits on
every machine whatever its vector width, and three times the speed. :func:`dot_plain` is the readable twin and
what runs when compilation is off.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from flexdome.kernels.jit import kernel

__all__ = ["dot", "dot_plain"]

LANES = 8


def dot_plain(x, y):
    """``sum_k x[k] y[k]`` in the order of :func:`dot`."""
    lanes = np.zeros(LANES)
    whole = len(x) // LANES * LANES
    for k in range(0, whole, LANES):
        lanes += x[k : k + LANES] * y[k : k + LANES]
    lanes = lanes[:4] + lanes[4:]
    lanes = lanes[:2] + lanes[2:]
    total = lanes[0] + lanes[1]
    for k in range(whole, len(x)):
        total += x[k] * y[k]
    return total


@intrinsic
def _dot(typing_context, x, y):
    """The vector loop, in LLVM's own words: no reassociation, no fused multiply-add."""
    signature = types.float64(x, y)

    def generate(context, builder, signature, arguments):
        double = ir.DoubleType()
        vector = ir.VectorType(double, LANES)
        left, right = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        length = cgutils.unpack_tuple(builder, left.shape)[0]
        lanes = ir.Constant(length.type, LANES)
        whole = builder.mul(builder.sdiv(length, lanes), lanes)
        sums = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        with cgutils.for_range_slice(builder, whole.type(0), whole, lanes, inc=True) as (k, _):
            loaded = []
            for array in (left, right):
                place = builder.bitcast(builder.gep(array.data, [k]), vector.as_pointer())
                loaded.append(builder.load(place, align=8))
            builder.store(builder.fadd(builder.load(sums), builder.fmul(*loaded)), sums)
        lane = [builder.extract_element(builder.load(sums), ir.Constant(ir.IntType(32), i)) for i in range(LANES)]
        while len(lane) > 1:
            half = len(lane) // 2
            lane = [builder.fadd(a, b) for a, b in zip(lane[:half], lane[half:], strict=True)]
        total = cgutils.alloca_once_value(builder, lane[0])
        with cgutils.for_range_slice(builder, whole, length, length.type(1), inc=True) as (k, _):
            a, b = (builder.load(builder.gep(array.data, [k])) for array in (left, right))
            builder.store(builder.fadd(builder.load(total), builder.fmul(a, b)), total)
        return builder.load(total)

    return signature, generate


@kernel
def _dot_compiled(x, y):
    return _dot(x, y)


dot = dot_plain if config.DISABLE_JIT else _dot_compiled
