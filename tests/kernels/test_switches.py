"""Kernels are compiled for what is switched on, and neither copy nor count what is borrowed or held."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import config

from flexdome.kernels import jit
from flexdome.kernels.borrow import borrow, hold
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
    if outer.inner.switch:
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
def test_no_reference_to_a_borrowed_array_or_a_slice_of_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_directory", lambda package: None)  # what comes from a cache cannot be looked into
    fresh = kernel(total.py_func)
    fresh(Outer(Inner(None, np.array([3.0, 5.0])), 2.0), np.array([7.0, 11.0]))
    code = next(iter(fresh.inspect_llvm().values()))
    body = code[code.index("define ") : code.index("\n}\n")]
    assert "NRT_incref" not in body
    assert "NRT_decref" not in body


@kernel
def filled(out: Any, first: int, n: int, value: float) -> None:
    out = borrow(out)
    for k in range(first * 3, first * 3 + n):
        out[k] = value


@kernel
def read(table: Any, i: int, j: int, out: Any) -> None:
    table, out = borrow(table), borrow(out)
    out[0], out[1], out[2] = table[i, j], table[i][j], table[-1, -2]
    out[np.uint64(3)] = table[np.int32(i), np.uint8(j)]
    out[4:] = table[1, 2]


@compiled
def test_neighbours_in_a_borrowed_array_are_written_as_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_directory", lambda package: None)
    fresh = kernel(filled.py_func)
    out = np.zeros(10)
    fresh(out, 1, 5, 2.0)
    assert out.tolist() == [0.0] * 3 + [2.0] * 5 + [0.0] * 2
    code = next(iter(fresh.inspect_llvm().values()))
    assert "masked.scatter" not in code


def test_one_number_of_a_borrowed_array_is_found_by_every_kind_of_index() -> None:
    table, out = np.arange(6.0).reshape(2, 3), np.zeros(6)
    read(table, 1, 0, out)
    assert out.tolist() == [3.0, 3.0, 4.0, 3.0, 5.0, 5.0]


class Kinds(NamedTuple):
    inner: Inner
    table: np.ndarray
    count: int
    scale: float
    on: bool
    off: bool


def kinds() -> Kinds:
    inner = Inner(None, np.array([3.0, 5.0]))
    return hold(Kinds(inner, np.arange(6, dtype=np.int32).reshape(2, 3), -7, -0.5, True, False))


@kernel
def told(kinds: Any, out: Any) -> None:
    table = kinds.table
    out[0], out[1] = kinds.inner.data[1], kinds.inner.data.size
    out[2], out[3], out[4] = table[1, 2], table.shape[0], table.shape[1]
    out[5], out[6] = kinds.count, kinds.scale
    out[7] = 1.0 if kinds.on else 0.0
    out[8] = 1.0 if kinds.off or kinds.inner.switch else 0.0


def test_a_kernel_reads_what_python_reads_of_a_tuple_that_is_held() -> None:
    out = np.full(9, np.nan)
    told(kinds(), out)
    assert out.tolist() == [5.0, 2.0, 5.0, 2.0, 3.0, -7.0, -0.5, 1.0, 0.0]
    inner, table, *numbers = kinds()
    assert (inner.data.tolist(), table.shape, numbers) == ([3.0, 5.0], (2, 3), [-7, -0.5, True, False])


@kernel(inline=True)
def move(kinds: Any, by: Any) -> None:
    if kinds.inner.switch:
        return
    step = by if kinds.scale < 0.0 else kinds.scale
    for k in range(kinds.inner.data.size):
        kinds.inner.data[k] = min(max(kinds.inner.data[k] - step, 0.0), 4.0)


@kernel
def moved(kinds: Any, by: Any) -> None:
    move(borrow(kinds), by)


def test_what_is_stored_into_a_held_tuple_is_not_thrown_away() -> None:
    """Numba once took it for dead: the way from the argument leads through ``borrow``."""
    held = kinds()
    moved(held, 2.0)
    assert held.inner.data.tolist() == [1.0, 3.0]


def test_a_changed_or_copied_tuple_is_held_anew() -> None:
    held = kinds()
    for other in (held._replace(inner=Inner(None, np.array([9.0, 9.0]))), copy.deepcopy(held)):
        moved(other, 2.0)
    assert held.inner.data.tolist() == [3.0, 5.0]
    assert other.inner.data.tolist() == [1.0, 3.0]


@compiled
@pytest.mark.parametrize("value", [np.zeros((4, 4))[:, ::2], np.float32(1.0), "text", [1.0]])
def test_what_a_table_has_no_place_for_cannot_be_held(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be held"):
        hold(Inner(value, np.zeros(1)))
