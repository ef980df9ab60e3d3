"""What is wrong with an experiment, in one sentence of our own: field, value, rule.

Pydantic finds it; its words are for people who write in Python, so each kind of error has words of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError as PydanticError

from flexdome.cmdp.validation import shown
from flexdome.errors import ValidationError, unknown_name

__all__ = ["Keys", "sentence"]

Keys = Callable[[Sequence[int | str]], list[str]]
JSON_KINDS = ("list", "dict", "str", "bool", "int", "float", "none")
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "string": "a text",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "path": "the path of a file",
    "none": "left out",
}
BOUNDS = {
    "greater_than": ("gt", "larger than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "smaller than"),
    "less_than_equal": ("le", "at most"),
}


def sentence(error: PydanticError, keys: Keys) -> str:
    """What is wrong first; ``keys`` says which keys the table at some place may have."""
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda one: one["type"] != "extra_forbidden")  # a misspelt key is why another is missing
    kind, where, context = first["type"], _path(first["loc"]), first.get("ctx", {})
    if kind == "extra_forbidden":
        *parents, name = first["loc"]
        return str(unknown_name(f"key in {_path(parents)}" if parents else "key", str(name), keys(parents)))
    if kind == "missing":
        return f"{where} is missing"
    inner = context.get("error")
    if isinstance(inner, ValidationError):
        return f"{where}: {inner}" if where else str(inner)
    rule = str(inner) if kind == "value_error" else _rule(kind, context)
    return f"{where} is {shown(first['input'])}; {rule}"


def _rule(kind: str, context: dict[str, Any]) -> str:
    if kind in BOUNDS:
        name, words = BOUNDS[kind]
        return f"it must be {words} {context[name]}"
    if kind in ("too_short", "too_long"):
        few = kind == "too_short"
        count = context["min_length" if few else "max_length"]
        return f"it must have at {'least' if few else 'most'} {count} entr{'y' if count == 1 else 'ies'}"
    if kind in ("string_too_short", "string_too_long"):
        few = kind == "string_too_short"
        return (
            f"it must have at {'least' if few else 'most'} {context['min_length' if few else 'max_length']} characters"
        )
    if kind == "string_pattern_mismatch":
        return f"it must match {context['pattern']}"
    if kind == "literal_error":
        return f"it must be {context['expected']}"
    if kind == "finite_number":
        return "it must be finite"
    if kind in ("int_from_float", "int_parsing", "int_parsing_size"):
        return "it must be a whole number"
    word = kind.partition("_")[0]
    return f"it must be {KINDS[word]}" if word in KINDS else "it is not a value that an experiment can have"


def _path(parts: Sequence[int | str]) -> str:
    """``learners[1].options``."""
    named = [part for part in parts if part not in JSON_KINDS]  # pydantic names the kind of a JSON value it tried
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in named)
    return text.removeprefix(".")
