"""Checks on tables. Each says which column, in which row, has which value, and which rule that breaks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import polars as pl

from flexdome.cmdp.validation import LARGEST, shown
from flexdome.errors import ValidationError

__all__ = ["LARGEST", "as_table", "check_column", "only_row"]

KINDS: dict[Any, tuple[Callable[[pl.DataType], bool], str]] = {
    pl.String: (lambda kind: kind == pl.String, "a text"),
    pl.Boolean: (lambda kind: kind == pl.Boolean, "true or false"),
    pl.Int64: (lambda kind: kind.is_integer(), "a whole number"),
    pl.Float64: (lambda kind: kind.is_integer() or kind.is_float(), "a real number"),
}


def as_table(
    name: str, value: Any, schema: Mapping[str, Any], nullable: Collection[str] = (), finite: bool = True
) -> pl.DataFrame:
    """``value``, a frame that has the columns of ``schema`` with values of their types, and maybe others.

    Numbers are finite (unless the caller allows otherwise); only ``nullable`` columns have nulls.
    """
    if not isinstance(value, pl.DataFrame):
        raise ValidationError(f"{name} is {shown(value)}; it must be a polars DataFrame")
    columns = []
    for column, kind in schema.items():
        if column not in value.columns:
            raise ValidationError(f"{name} has no column {column}; its columns are {', '.join(value.columns)}")
        given = value[column]
        fits, word = KINDS[kind]
        if not fits(given.dtype) and given.dtype != pl.Null:
            raise ValidationError(f"{name}.{column} has type {given.dtype}; each of its entries must be {word}")
        series = given if given.dtype == kind else given.cast(kind, strict=False)
        if series.null_count() > (given.null_count() if column in nullable else 0):
            known = series.is_not_null() | given.is_null() if column in nullable else series.is_not_null()
            check_column(name, given, known, f"it must be {word}")
        if finite and kind == pl.Float64:
            small = (series.abs() <= LARGEST).fill_null(True)
            check_column(name, given, small, f"it must be finite, and at most {LARGEST:g} in size")
        columns.append(series)
    return value.with_columns(columns)


def check_column(name: str, column: pl.Series, good: pl.Series, rule: str) -> None:
    """Refuse the first entry of a table's column that is not ``good``; ``rule`` says what it must be."""
    bad = (~good).arg_true()
    if bad.len():
        raise ValidationError(f"{name}.{column.name}[{bad[0]}] is {shown(column[bad[0]])}; {rule}")


def only_row(name: str, frame: pl.DataFrame, **where: str) -> dict[str, Any]:
    """The one row of a table that has these values."""
    rows = frame.filter(*(pl.col(column) == value for column, value in where.items()))
    if rows.height != 1:
        words = ", ".join(f"{column} {value!r}" for column, value in where.items())
        raise ValidationError(f"{name} has {rows.height} rows with {words}; it must have one")
    return rows.row(0, named=True)
