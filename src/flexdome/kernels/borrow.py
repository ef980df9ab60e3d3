"""Arrays without reference counts.

Numba counts references to an array, atomically, whenever it reads one from a tuple, slices it or passes it on: about
5 ns each, half the time of an episode at the paper's size. ``borrow`` returns the same arrays with the owner struck
out, so that there is nothing to count. The caller must keep the originals alive: arguments of a kernel called from
Python are, arrays made inside a kernel are not.
"""

from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

__all__ = ["borrow"]


def borrow_plain(value):
    """Return the value itself."""
    return value


def _strike(context, builder, kind, value):
    """``value`` with the owner of every array in it set to null."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, part in enumerate(kind.types):
            struck = _strike(context, builder, part, builder.extract_value(value, i))
            value = builder.insert_value(value, struck, i)
    return value


@intrinsic
def _borrow(typing_context, value):
    def generate(context, builder, signature, arguments):
        return _strike(context, builder, signature.args[0], arguments[0])

    return value(value), generate


borrow = borrow_plain if config.DISABLE_JIT else _borrow
