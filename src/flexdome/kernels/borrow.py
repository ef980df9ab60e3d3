"""Arrays that nobody counts, and named tuples of them that are handed on as one address.

Numba keeps a tuple as one value and counts references, atomically, to every array in it. With the ninety arrays of a
learner a mention of ``core`` is a copy of five hundred numbers for LLVM to take apart again, an array that is read from
it, sliced or passed on costs about 5 ns, and a call from Python unpacks them all. So there are two types more:

- ``borrow(x)``, in a kernel: the same array (or tuple of arrays) without an owner, so that there is nothing to count;
  what is sliced out of it has none either.
- ``hold(x)``, outside: the same named tuple with a table of where its arrays are and of its numbers. Python sees the
  tuple. A kernel gets the table's address, reads a field when it is asked for it by name, and finds borrowed arrays.

An index of a borrowed array counts from its front. Numba takes a negative one to count from the back, and looks at the
sign of each: the compiler no longer sees that neighbours are neighbours, and writes a loop over them with gathers and
scatters.

The caller must keep the originals alive: arguments of a kernel called from Python are, arrays made inside a kernel are
not. Nothing may be allocated from a borrowed array (``copy``, arithmetic on whole arrays): it would never be freed.
"""

import operator
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils, config
from numba.core.datamodel.models import ArrayModel, PrimitiveModel
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, register_model, typeof_impl, unbox
from numba.np.arrayobj import (
    getitem_array_tuple,
    getitem_arraynd_intp,
    load_item,
    populate_array,
    setitem_array,
    store_item,
)

__all__ = ["Held", "borrow", "hold"]

Fields = TypeVar("Fields", bound=tuple[Any, ...])
WORD = 8  # bytes: a number, the address of an array, or one of its sizes
NUMBERS = (types.int64, types.float64, types.boolean)


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


def _place(context, builder, kind, array, index_type, index):
    """The address of one number of a borrowed array; None where the index names more, or counts from the back."""
    index_types = index_type.types if isinstance(index_type, types.BaseTuple) else (index_type,)
    if len(index_types) != kind.ndim or not all(isinstance(part, types.Integer) for part in index_types):
        return None
    given = cgutils.unpack_tuple(builder, index) if isinstance(index_type, types.BaseTuple) else [index]
    if any(isinstance(one.constant, int) and one.constant < 0 for one in _constants(index)):
        return None
    numbers = [
        context.cast(builder, one, its_type, types.uintp if not its_type.signed else types.intp)
        for one, its_type in zip(given, index_types, strict=True)
    ]
    array = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, array, numbers, boundscheck=context.enable_boundscheck)


def _constants(index):
    """The constants that an index, or a tuple of them, is written with."""
    while isinstance(index, ir.instructions.InsertValue):
        index, one = index.operands
        if isinstance(one, ir.Constant):
            yield one
    if isinstance(index, ir.Constant):
        yield from index.constant if isinstance(index.constant, list | tuple) else [index]


def _get(plain):
    def get(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1])
        if place is None:
            return plain(context, builder, signature, arguments)
        return load_item(context, builder, signature.args[0], place)

    return get


lower_builtin(operator.getitem, Borrowed, types.Integer)(_get(getitem_arraynd_intp))
lower_builtin(operator.getitem, Borrowed, types.BaseTuple)(_get(getitem_array_tuple))


@lower_builtin(operator.setitem, Borrowed, types.Any, types.Any)
def _set(context, builder, signature, arguments):
    kind, index_type, value_type = signature.args
    place = _place(context, builder, kind, arguments[0], index_type, arguments[1])
    if place is None:
        return setitem_array(context, builder, signature, arguments)
    store_item(context, builder, kind, context.cast(builder, arguments[2], value_type, kind.dtype), place)
    return None


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


class Held(types.Type):
    """The address of a table: the fields of a named tuple, one after the other."""

    def __init__(self, tuple_type):
        self.tuple_type = tuple_type
        self.places, at = {}, 0
        for name, kind in zip(tuple_type.fields, tuple_type.types, strict=True):
            self.places[name] = at
            at += words_of(kind)
        super().__init__(f"held({tuple_type})")

    def field(self, name):
        """The type of a field."""
        return self.tuple_type.types[self.tuple_type.fields.index(name)]


def words_of(kind):
    """How many words of the table a field takes: an array its address and its shape."""
    if isinstance(kind, types.BaseNamedTuple):
        return sum(words_of(part) for part in kind.types)
    if isinstance(kind, types.Array) and kind.layout == "C":
        return 1 + kind.ndim
    if kind == types.none:
        return 0
    if kind in NUMBERS:
        return 1
    raise TypeError(f"a {kind} cannot be held")


@register_model(Held)
class HeldModel(PrimitiveModel):
    """One pointer."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, cgutils.intp_t.as_pointer())


@infer_getattr
class HeldFields(AttributeTemplate):
    """Numbers, borrowed arrays, and tuples that are held too."""

    key = Held

    def generic_resolve(self, kind, name):
        """The type that is read."""
        if name not in kind.places:
            return None
        part = kind.field(name)
        return Held(part) if isinstance(part, types.BaseNamedTuple) else borrowed(part)


@lower_getattr_generic(Held)
def read_field(context, builder, kind, table, name):
    """Read one field of the table."""
    part, at = kind.field(name), kind.places[name]

    def word(k):
        return builder.gep(table, [cgutils.intp_t(at + k)], inbounds=True)

    if isinstance(part, types.BaseNamedTuple):
        return word(0)
    if part == types.none:
        return context.get_dummy_value()
    if part == types.boolean:
        return builder.icmp_signed("!=", builder.load(word(0)), cgutils.intp_t(0))
    if not isinstance(part, types.Array):
        return builder.load(builder.bitcast(word(0), context.get_value_type(part).as_pointer()))
    kind = borrowed(part)
    array = context.make_array(kind)(context, builder)
    itemsize = cgutils.intp_t(context.get_abi_sizeof(context.get_data_type(part.dtype)))
    shape = [builder.load(word(1 + k)) for k in range(part.ndim)]
    strides = [itemsize]
    for size in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    data = builder.inttoptr(builder.load(word(0)), array.data.type)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return array._getvalue()


class Handle:
    """A named tuple and its table.

    Numba's dispatcher asks an object for ``_numba_type_`` before it asks Python's ``typeof``: 0.7 us instead of 4.5.
    """

    __slots__ = ("_numba_type_", "address", "source", "table")

    def __init__(self, source):
        self.source, self._numba_type_ = source, Held(typeof(source))
        self.table = np.array(list(_words(source, self._numba_type_.tuple_type)), dtype=np.int64)
        self.address = self.table.ctypes.data

    def __getattr__(self, name):
        return getattr(self.source, name)

    def _replace(self, **changes):
        return hold(self.source._replace(**changes))

    def __iter__(self):
        return iter(self.source)

    def __getitem__(self, index):
        return self.source[index]

    def __reduce__(self):  # the table is of this process and of these arrays
        return hold, (self.source,)


def _words(value, kind):
    if isinstance(kind, types.BaseNamedTuple):
        for part, its_kind in zip(value, kind.types, strict=True):
            yield from _words(part, its_kind)
    elif isinstance(kind, types.Array):
        yield value.ctypes.data
        yield from value.shape
    elif kind == types.float64:
        yield int(np.float64(value).view(np.int64))
    elif kind != types.none:
        yield int(value)


@typeof_impl.register(Handle)
def _typeof_handle(value, context):
    return value._numba_type_


@unbox(Held)
def _unbox_handle(kind, value, c):
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    pointer = c.builder.inttoptr(address, c.context.get_value_type(kind))
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def hold(fields: Fields) -> Fields:
    """A named tuple of C-contiguous arrays, numbers, None and such tuples, to be handed to kernels as one address.

    It looks like the tuple: fields are read by name or unpacked.
    """
    return fields if config.DISABLE_JIT else cast(Fields, Handle(fields))


borrow = borrow_plain if config.DISABLE_JIT else _borrow
