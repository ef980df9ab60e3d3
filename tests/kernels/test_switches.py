"""Kernels are compiled for what is switched on, and count no references to what is borrowed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import config

from flexdome.kernels.borrow import borrow
from flexdome.kernels.jit import kernel

compiled = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


class Inner(NamedTuple):
    switch: bool | None
    data: np.ndarray


class Outer(NamedTuple):
    inner: Inner
    scale: float


@kernel(inline=True)
def part(outer: Any, k: int) -> Any:
    if outer.inner.switch is not None:
        return outer.inner.data[k].no_such_thing
    return outer.scale * outer.inner.data[k]


@kernel
def total(outer: Any, other: Any) -> Any:
    outer, other, more = borrow(outer), borrow(other), borrow(other)
    row = outer.inner.data[1:]
    return part(outer, 0) + row[0] + other[0] + more[1]


def test_what_is_switched_off_is_not_compiled() -> None:
    assert total(Outer(Inner(None, np.array([3.0, 5.0])), 2.0), np.array([7.0, 11.0])) == 6.0 + 5.0 + 7.0 + 11.0


@compiled
def test_what_is_switched_on_is() -> None:
    with pytest.raises(Exception, match="no_such_thing"):
        total(Outer(Inner(True, np.array([3.0, 5.0])), 2.0), np.array([7.0, 11.0]))


@compiled
def test_no_reference_to_a_borrowed_array_or_a_slice_of_it_is_counted() -> None:
    total(Outer(Inner(None, np.array([3.0, 5.0])), 2.0), np.array([7.0, 11.0]))
    code = next(iter(total.inspect_llvm().values()))
    body = code[code.index("define ") : code.index("\n}\n")]
    assert "NRT_incref" not in body
    assert "NRT_decref" not in body
