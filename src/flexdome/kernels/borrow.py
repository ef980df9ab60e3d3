"""Arrays without reference counts.

Numba counts references to an array, atomically, whenever it reads one from a tuple, slices it or passes it on: about
5 ns each, half the time of an episode at the paper's size, and for each of them a page of code to compile. ``borrow``
returns the same arrays as a type of their own that has no owner, so that there is nothing to count; what is sliced out
of them has none either. The caller must keep the originals alive: arguments of a kernel called from Python are, arrays
made inside a kernel are not. Nothing may be allocated from a borrowed array (``copy``, arithmetic on whole arrays): it
would never be freed.
"""

from numba import types
from numba.core import cgutils, config
from numba.core.datamodel.models import ArrayModel
from numba.extending import intrinsic, register_model

__all__ = ["borrow"]


def borrow_plain(value):
    """Return the value itself."""
    return value


class Borrowed(types.Array):
    """An array that nobody counts."""

    def __init__(self, dtype, ndim, layout, readonly=False, aligned=True):
        if readonly:
            self.mutable = False
        name = f"borrowed({dtype}, {ndim}d, {layout}, {'readonly' if readonly else 'mutable'}, {aligned})"
        super().__init__(dtype, ndim, layout, readonly=readonly, name=name, aligned=aligned)

    def copy(self, dtype=None, ndim=None, layout=None, readonly=None):
        """The type of a slice."""
        return Borrowed(
            self.dtype if dtype is None else dtype,
            self.ndim if ndim is None else ndim,
            self.layout if layout is None else layout,
            readonly=not self.mutable if readonly is None else readonly,
            aligned=self.aligned,
        )

    def unify(self, typing_context, other):
        """Of two borrowed arrays a borrowed one."""
        kind = super().unify(typing_context, other)
        return borrowed(kind) if kind is not None and isinstance(other, Borrowed) else kind


@register_model(Borrowed)
class BorrowedModel(ArrayModel):
    """The numbers of an array, none of which are looked into for owners."""

    def traverse(self, builder):
        """Nothing."""
        return []

    def inner_models(self):
        """None."""
        return []


def borrowed(kind):
    """The type of what is borrowed."""
    if isinstance(kind, types.Array) and not isinstance(kind, Borrowed):
        return Borrowed(kind.dtype, kind.ndim, kind.layout, readonly=not kind.mutable, aligned=kind.aligned)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types(
            [borrowed(part) for part in kind.types], getattr(kind, "instance_class", None)
        )
    return kind


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
        if signature.args[0] == signature.return_type:
            return arguments[0]
        return _strike(context, builder, signature.args[0], arguments[0])

    return borrowed(value)(value), generate


borrow = borrow_plain if config.DISABLE_JIT else _borrow
