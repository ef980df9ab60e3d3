"""The two inner loops of an optimistic primal-dual learner, over explicit machine vectors.

``row_value`` evaluates one row (h, s, a) of the empirical model for the reward, every utility and the entropy at
once: they are neighbouring numbers, ``W`` of them (a multiple of four), so one visited successor is one vector
operation. ``row_values`` does so for all rows of a step that were tried. ``mirror_step`` moves the policies of all
visited states of a step by mirror ascent in log space, eight states at a time, with an exponential and a logarithm of
our own (accurate to a unit or two in the last place, the same bits on every machine).

The ``_plain`` functions are the readable twins and what runs when compilation is off. All but ``mirror_step`` have the
bits of their twins; ``mirror_step`` agrees with its twin to rounding (the library's exp and log round differently).
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from flexdome.kernels.vectors import _array, _at, _loop

__all__ = [
    "BLOCK",
    "LANES",
    "TOGETHER",
    "mirror_step",
    "mirror_step_plain",
    "row_value",
    "row_value_plain",
    "row_values",
    "row_values_plain",
    "start_value",
    "start_value_plain",
]

BLOCK = 4  # numbers side by side in row_value
TOGETHER = 4  # successors at a time: shorter chains of additions, fewer surprises for the branch predictor
LANES = 8  # states side by side in mirror_step
DOUBLE = ir.DoubleType()
INT64 = ir.IntType(64)


def start_value_plain(values, cell, W, share, q, entropy, psi):
    """The part of a cell's value that is not its tried actions': ``share`` of q, and the entropy at place ``psi``."""
    values[cell * W : (cell + 1) * W] = share * q
    values[cell * W + psi] += entropy


def row_value_plain(cell, count, start, n, inverse, values, base, row, W, caps, h, weights, pi, c):
    """Truncated value of a row: q = min(base + p^ V, caps); adds pi q to the state's value, returns q . weights.

    Parameters
    ----------
    cell, count : the pool of successors; this row's are n entries from ``start`` on, in first-visit order, and
        after them up to a multiple of four entries with count 0
    inverse : 1 / N of the row (anything finite where n = 0)
    values : flat (cells, W); those of later steps are read, that of cell ``c`` is added to
    base : flat (rows, W): reward, utilities and entropy of the row itself, with their bonuses
    caps : flat (H, W); ``h`` is the step
    weights : (W,)
    """
    y = 0.0
    caps = caps[h * W : (h + 1) * W]
    for j in range(0, W, BLOCK):
        e = np.zeros((TOGETHER, BLOCK))
        for k in range(start, start + (n + TOGETHER - 1) // TOGETHER * TOGETHER):
            e[(k - start) % TOGETHER] += count[k] * values[cell[k] * W + j : cell[k] * W + j + BLOCK]
        e = (e[0] + e[2]) + (e[1] + e[3])
        q = np.minimum(base[row * W + j : row * W + j + BLOCK] + e * inverse, caps[j : j + BLOCK])
        values[c * W + j : c * W + j + BLOCK] += pi * q
        z = q * weights[j : j + BLOCK]
        y += (z[0] + z[2]) + (z[1] + z[3])
    return y


def row_values_plain(
    tried, tried_cell, first, n, start, length, inverse, pi, cell, count, values, base, W, caps, h, weights, y
):  # fmt: skip
    """:func:`row_value` of the n rows ``tried[first]``, ``tried[first + 1]``, ... in turn, each to its place in ``y``.

    ``tried_cell`` are their cells; ``first`` is also the number of the step's first row, from which ``y`` counts.
    """
    for k in range(first, first + n):
        row = tried[k]
        y[row - first] = row_value_plain(
            cell, count, start[row], length[row], inverse[row], values, base, row, W, caps, h, weights, pi[row],
            tried_cell[k],
        )  # fmt: skip


def mirror_step_plain(logits, pi, y, inverse, entropy, untried, h, C, A, n, keep, eta):
    """``log pi <- keep log pi + eta y``, normalised over the A actions of each of the n cells of step h.

    ``y`` is (A, C), flat. Also updates each cell's entropy and the probability of its untried actions (those whose
    ``inverse`` is 0). Cells up to the next multiple of eight are moved along: their numbers are padding.
    """
    for c in range((n + LANES - 1) // LANES * LANES):
        rows = [(h * A + a) * C + c for a in range(A)]
        z = [keep * logits[row] + eta * y[row - h * A * C] for row in rows]
        top = max(z)
        e = [math.exp(max(x - top, -700.0)) for x in z]
        total = sum(e)
        entropy[h * C + c] = untried[h * C + c] = 0.0
        for row, x, weight in zip(rows, z, e, strict=True):
            logits[row] = x - top - math.log(total)
            pi[row] = weight / total
            entropy[h * C + c] -= pi[row] * logits[row]
            untried[h * C + c] += pi[row] if inverse[row] == 0.0 else 0.0


def _vector(width):
    return ir.VectorType(DOUBLE, width)


def _splat(builder, value, width):
    vector = ir.Constant(_vector(width), ir.Undefined)
    for i in range(width):
        vector = builder.insert_element(vector, value, ir.IntType(32)(i))
    return vector


def _constant(value, width=LANES):
    return ir.Constant(_vector(width), [value] * width)


def _load(builder, address, k, width):
    return builder.load(_at(builder, address, k, width), align=8)


def _store(builder, value, address, k, width):
    builder.store(value, _at(builder, address, k, width), align=8)


def _select_smaller(builder, a, b):
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _select_larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@intrinsic
def _start_value(typing_context, values, cell, W, share, q, entropy, psi):
    def generate(context, builder, signature, arguments):
        values, q = (_array(context, builder, signature, arguments, i).data for i in (0, 4))
        cell, W, share, entropy, psi = (arguments[i] for i in (1, 2, 3, 5, 6))
        first = builder.mul(cell, W)
        scale = _splat(builder, share, BLOCK)
        blocks, _ = _loop(builder, W.type(0), W, BLOCK)
        with blocks as (j, _):
            product = builder.fmul(scale, _load(builder, q, j, BLOCK))
            _store(builder, product, values, builder.add(first, j), BLOCK)
        place = builder.gep(values, [builder.add(first, psi)])
        builder.store(builder.fadd(builder.load(place), entropy), place)
        return context.get_dummy_value()

    integer, number = types.intp, types.float64
    return types.void(values, integer, integer, number, q, number, integer), generate


def _emit_row(builder, parts, cell, count, start, n, inverse, values, base, row, W, caps, h, weights, pi, c):
    """The instructions of :func:`row_value`, whose result comes back; arrays are addresses, ``parts`` room for sums."""
    y, *e = parts
    builder.store(DOUBLE(0.0), y)
    groups = builder.lshr(builder.add(n, n.type(TOGETHER - 1)), n.type(TOGETHER.bit_length() - 1))
    end = builder.add(start, builder.mul(groups, n.type(TOGETHER)))
    share, scale = _splat(builder, pi, BLOCK), _splat(builder, inverse, BLOCK)
    with cgutils.for_range_slice(builder, W.type(0), W, W.type(BLOCK), inc=True) as (j, _):
        for part in e:
            builder.store(_constant(0.0, BLOCK), part)
        with cgutils.for_range_slice(builder, start, end, n.type(TOGETHER), inc=True) as (k, _):
            for i, part in enumerate(e):
                entry = builder.add(k, k.type(i))
                target = builder.sext(builder.load(builder.gep(cell, [entry])), W.type)
                place = builder.add(builder.mul(target, W), j)
                weight = _splat(builder, builder.load(builder.gep(count, [entry])), BLOCK)
                product = builder.fmul(weight, _load(builder, values, place, BLOCK))
                builder.store(builder.fadd(builder.load(part), product), part)
        e0, e1, e2, e3 = (builder.load(part) for part in e)
        mean = builder.fadd(builder.fadd(e0, e2), builder.fadd(e1, e3))
        first = _load(builder, base, builder.add(builder.mul(row, W), j), BLOCK)
        q = builder.fadd(first, builder.fmul(mean, scale))
        cap = _load(builder, caps, builder.add(builder.mul(h, W), j), BLOCK)
        q = _select_smaller(builder, q, cap)
        place = builder.add(builder.mul(c, W), j)
        sum_ = builder.fadd(_load(builder, values, place, BLOCK), builder.fmul(share, q))
        _store(builder, sum_, values, place, BLOCK)
        z = builder.fmul(q, _load(builder, weights, j, BLOCK))
        z0, z1, z2, z3 = (builder.extract_element(z, ir.IntType(32)(i)) for i in range(BLOCK))
        part = builder.fadd(builder.fadd(z0, z2), builder.fadd(z1, z3))
        builder.store(builder.fadd(builder.load(y), part), y)
    return builder.load(y)


def _row_parts(builder):
    return [cgutils.alloca_once(builder, kind) for kind in (DOUBLE, *[_vector(BLOCK)] * TOGETHER)]


@intrinsic
def _row_value(typing_context, cell, count, start, n, inverse, values, base, row, W, caps, h, weights, pi, c):
    def generate(context, builder, signature, arguments):
        given = list(arguments)
        for i in (0, 1, 5, 6, 9, 11):
            given[i] = _array(context, builder, signature, arguments, i).data
        return _emit_row(builder, _row_parts(builder), *given)

    integer, number = types.intp, types.float64
    signature = number(
        cell, count, integer, integer, number, values, base, integer, integer, caps, integer, weights, number, integer
    )  # fmt: skip
    return signature, generate


@intrinsic
def _row_values(
    typing_context, tried, tried_cell, first, n, start, length, inverse, pi, cell, count, values, base, W, caps, h,
    weights, y,
):  # fmt: skip
    def generate(context, builder, signature, arguments):
        given = list(arguments)
        for i in (0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 16):
            given[i] = _array(context, builder, signature, arguments, i).data
        tried, tried_cell, first, n, start, length, inverse, pi, cell, count, values, base, W, caps, h, weights, y = (
            given
        )
        parts = _row_parts(builder)

        def number(array, k):
            value = builder.load(builder.gep(array, [k]))
            return builder.sext(value, INT64) if value.type == ir.IntType(32) else value

        end = builder.add(first, n)
        with cgutils.for_range_slice(builder, first, end, n.type(1), inc=True) as (k, _):
            row, c = number(tried, k), number(tried_cell, k)
            value = _emit_row(
                builder, parts, cell, count, number(start, row), number(length, row), number(inverse, row), values,
                base, row, W, caps, h, weights, number(pi, row), c,
            )  # fmt: skip
            builder.store(value, builder.gep(y, [builder.sub(row, first)]))
        return context.get_dummy_value()

    integer = types.intp
    signature = types.void(
        tried, tried_cell, integer, integer, start, length, inverse, pi, cell, count, values, base, integer, caps,
        integer, weights, y,
    )  # fmt: skip
    return signature, generate


# exp: x = k log 2 + r with |r| <= log(2)/2, Taylor's polynomial of degree 13 in r (error below 1e-17), times 2^k.
# Fused multiply-add is asked for by name here, so every machine computes it, and to the same bits.
MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest whole number in the low bits
LOG2E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490e00
LN2_LOW = 1.90821492927058770002e-10


def _fma(builder, a, b, c):
    kind = ir.FunctionType(_vector(LANES), [_vector(LANES)] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f64")
    return builder.call(function, [a, b, c])


def _exp(builder, x):
    """``exp(x)`` for x in [-700, 0]."""
    integers = ir.VectorType(INT64, LANES)
    shifted = builder.fadd(builder.fmul(x, _constant(LOG2E)), _constant(MAGIC))
    k = builder.fsub(shifted, _constant(MAGIC))
    r = builder.fsub(x, builder.fmul(k, _constant(LN2_HIGH)))
    r = builder.fsub(r, builder.fmul(k, _constant(LN2_LOW)))
    polynomial = _constant(1.0 / math.factorial(13))
    for degree in range(12, -1, -1):
        polynomial = _fma(builder, polynomial, r, _constant(1.0 / math.factorial(degree)))
    exponent = builder.shl(builder.bitcast(shifted, integers), ir.Constant(integers, [52] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(polynomial, integers), exponent), _vector(LANES))


# log: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m - 1) / (m + 1), odd series to s^23.
def _log(builder, x):
    """``log(x)`` for normal positive x."""
    integers = ir.VectorType(INT64, LANES)
    bits = builder.bitcast(x, integers)
    splat = lambda value: ir.Constant(integers, [value] * LANES)  # noqa: E731
    # Subtracting the bits of sqrt(1/2) makes the exponent field count from there.
    offset = builder.sub(bits, splat(0x3FE6A09E667F3BCD))
    k = builder.ashr(offset, splat(52))
    m = builder.bitcast(builder.sub(bits, builder.shl(k, splat(52))), _vector(LANES))
    # A small whole number to double without a 64-bit conversion: put it into the low bits of MAGIC.
    magic = int(np.float64(MAGIC).view(np.int64))
    kd = builder.fsub(builder.bitcast(builder.add(k, splat(magic)), _vector(LANES)), _constant(MAGIC))
    s = builder.fdiv(builder.fsub(m, _constant(1.0)), builder.fadd(m, _constant(1.0)))
    s2 = builder.fmul(s, s)
    series = _constant(2.0 / 23.0)
    for degree in range(21, 1, -2):
        series = _fma(builder, series, s2, _constant(2.0 / degree))
    tail = builder.fmul(builder.fmul(s, s2), series)
    log_m = builder.fadd(builder.fmul(_constant(2.0), s), tail)
    low = builder.fadd(builder.fmul(kd, _constant(LN2_LOW)), log_m)
    return builder.fadd(builder.fmul(kd, _constant(LN2_HIGH)), low)


@intrinsic
def _mirror_step(typing_context, logits, pi, y, inverse, entropy, untried, h, C, A, n, keep, eta):
    def generate(context, builder, signature, arguments):
        arrays = [_array(context, builder, signature, arguments, i).data for i in range(6)]
        logits, pi, y, inverse, entropy, untried = arrays
        h, C, A, n = arguments[6:10]
        keep, eta = (_splat(builder, x, LANES) for x in arguments[10:12])
        largest, total, disorder, share = (cgutils.alloca_once(builder, _vector(LANES)) for _ in range(4))
        cells = builder.mul(h, C)
        rows = builder.mul(cells, A)
        padded = builder.add(n, n.type(LANES - 1))

        def states():
            return _loop(builder, n.type(0), padded, LANES)[0]

        def actions():
            return cgutils.for_range_slice(builder, A.type(0), A, A.type(1), inc=True)

        def place(a, c):
            here = builder.add(builder.mul(a, C), c)
            return here, builder.add(rows, here)

        # Three passes, so that no state waits for the exponentials and the logarithm of the one before; ``entropy`` and
        # ``untried`` are where a pass leaves a number of each state for the next.
        with states() as (c, _):
            builder.store(_constant(-np.inf), largest)
            with actions() as (a, _):
                here, row = place(a, c)
                moved = builder.fmul(keep, _load(builder, logits, row, LANES))
                moved = builder.fadd(moved, builder.fmul(eta, _load(builder, y, here, LANES)))
                _store(builder, moved, logits, row, LANES)
                builder.store(_select_larger(builder, moved, builder.load(largest)), largest)
            top = builder.load(largest)
            builder.store(_constant(0.0), total)
            with actions() as (a, _):
                _, row = place(a, c)
                z = builder.fsub(_load(builder, logits, row, LANES), top)
                _store(builder, z, logits, row, LANES)
                weight = _exp(builder, _select_larger(builder, z, _constant(-700.0)))
                _store(builder, weight, pi, row, LANES)
                builder.store(builder.fadd(builder.load(total), weight), total)
            _store(builder, builder.load(total), untried, builder.add(cells, c), LANES)
        with states() as (c, _):
            cell = builder.add(cells, c)
            whole = _load(builder, untried, cell, LANES)
            _store(builder, builder.fdiv(_constant(1.0), whole), entropy, cell, LANES)
            _store(builder, _log(builder, whole), untried, cell, LANES)
        with states() as (c, _):
            cell = builder.add(cells, c)
            scale, log_total = (_load(builder, array, cell, LANES) for array in (entropy, untried))
            builder.store(_constant(0.0), disorder)
            builder.store(_constant(0.0), share)
            with actions() as (a, _):
                _, row = place(a, c)
                log_p = builder.fsub(_load(builder, logits, row, LANES), log_total)
                p = builder.fmul(_load(builder, pi, row, LANES), scale)
                _store(builder, log_p, logits, row, LANES)
                _store(builder, p, pi, row, LANES)
                builder.store(builder.fsub(builder.load(disorder), builder.fmul(p, log_p)), disorder)
                never = builder.fcmp_ordered("==", _load(builder, inverse, row, LANES), _constant(0.0))
                part = builder.select(never, p, _constant(0.0))
                builder.store(builder.fadd(builder.load(share), part), share)
            _store(builder, builder.load(disorder), entropy, cell, LANES)
            _store(builder, builder.load(share), untried, cell, LANES)
        return context.get_dummy_value()

    integer, number = types.intp, types.float64
    signature = types.void(logits, pi, y, inverse, entropy, untried, integer, integer, integer, integer, number, number)
    return signature, generate


row_value = row_value_plain if config.DISABLE_JIT else _row_value
row_values = row_values_plain if config.DISABLE_JIT else _row_values
start_value = start_value_plain if config.DISABLE_JIT else _start_value
mirror_step = mirror_step_plain if config.DISABLE_JIT else _mirror_step
