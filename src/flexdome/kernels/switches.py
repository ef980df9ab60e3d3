"""Switches that are thrown when a kernel is compiled.

A field of a tuple that is None when a kernel is called is of a type of its own, so the kernel is compiled for it. Numba
leaves what hangs on it to LLVM: ``if settings.slips`` is typed, lowered and only then thrown away. The pass here writes
False where such a field is read, once everything is inlined and before any type is inferred, and Numba's own pruning
of dead branches does the rest: what is switched off is not compiled. A field that is False or True is looked at when
the kernel runs.
"""

from numba import types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.typed_passes import InlineOverloads
from numba.core.untyped_passes import InlineInlinables

from flexdome.kernels.borrow import Held, borrow

__all__ = ["Compiler"]


@register_pass(mutates_CFG=False, analysis_only=False)
class NoneFields(FunctionPass):
    """Write False for fields of arguments that are None."""

    _name = "none_fields"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        """Whether something was written."""
        definitions, known, changed = build_definitions(state.func_ir.blocks), {}, False

        def type_of(name):
            """The type of a variable that is an argument or was read from one; None where that is not known."""
            if name not in known:
                known[name] = None  # while it is looked for: what is defined by itself adds nothing
                found = {kind for value in definitions.get(name, ()) if (kind := of_value(value)) is not None}
                known[name] = found.pop() if len(found) == 1 else None
            return known[name]

        def of_value(value):
            if isinstance(value, ir.Arg):
                return state.args[value.index]
            if isinstance(value, ir.Var):
                return type_of(value.name)
            if isinstance(value, ir.Expr) and value.op == "getattr":
                kind = type_of(value.value.name)
                kind = kind.tuple_type if isinstance(kind, Held) else kind
                if isinstance(kind, types.BaseNamedTuple) and value.attr in kind.fields:
                    return kind.types[kind.fields.index(value.attr)]
            if isinstance(value, ir.Expr) and value.op == "call" and len(value.args) == 1:
                called = definitions.get(value.func.name, ())
                if len(called) == 1 and getattr(called[0], "value", None) is borrow:
                    return type_of(value.args[0].name)
            if isinstance(value, ir.Expr) and value.op == "static_getitem" and isinstance(value.index, int):
                return of_item(value.value.name, value.index)
            return None

        def of_item(name, index):
            """The type of one of the values that were written side by side: ``a, b = c, d``."""
            whole = definitions.get(name, ())
            if len(whole) == 1 and isinstance(whole[0], ir.Expr):
                if whole[0].op == "exhaust_iter":
                    return of_item(whole[0].value.name, index)
                if whole[0].op == "build_tuple":
                    return type_of(whole[0].items[index].name)
            return None

        for block in state.func_ir.blocks.values():
            for statement in block.body:
                if isinstance(statement, ir.Assign):
                    value = statement.value
                    if isinstance(value, ir.Expr) and value.op == "getattr" and of_value(value) == types.none:
                        statement.value, changed = ir.Const(False, value.loc), True
        if changed:
            state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return changed


class Compiler(CompilerBase):
    """Numba's compiler, with that pass, and without the one that inlines overloads.

    That one ends by removing what it takes to be dead: also what is stored into an array whose way from an argument it
    cannot follow, as through :func:`~flexdome.kernels.borrow.borrow`.
    """

    def define_pipelines(self):
        """One: nopython."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(NoneFields, InlineInlinables)
        passes.passes = [step for step in passes.passes if step[0] is not InlineOverloads]
        passes.finalize()
        return [passes]
