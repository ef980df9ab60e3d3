"""A docstring of this library as Markdown.

What is indented is a formula or pseudo-code and stays as it is; an underlined line is a heading; double backquotes are
code, and so are roles.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpydoc.docscrape import NumpyDocString

__all__ = ["Parts", "cell", "options_table", "parts", "prose", "text_of"]


@dataclass(frozen=True)
class Parts:
    """A module's docstring taken apart: title, what comes before the first formula, the steps, and its sections."""

    title: str
    idea: str
    steps: str
    sections: Mapping[str, str]


def text_of(thing: object) -> str:
    """Its docstring without the indentation of the source."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def parts(docstring: str) -> Parts:
    """Take a docstring apart; every part is Markdown."""
    title, _, rest = docstring.partition("\n")
    body, *more = re.split(r"^(?=[^\n]+\n-{3,}\n)", rest, flags=re.M)
    sections = {}
    for section in more:
        name, _, text = section.partition("\n")
        sections[name.strip()] = prose(text.partition("\n")[2])
    first = re.search(r"^ {4}", body, re.M)
    start = len(body) if first is None else first.start()
    if first is not None:  # a sentence that leads to the formula goes with it
        ends = [found.end() for found in re.finditer(r"\.(?=\s)", body[:start])]
        start = ends[-1] if ends else 0
    return Parts(inline(title.strip()), prose(body[:start]), prose(body[start:].lstrip()), sections)


def prose(text: str) -> str:
    """Paragraphs as they are, indented blocks as code."""
    lines, code, found = text.strip("\n").splitlines(), False, []
    for k, line in enumerate(lines):
        indented = line.startswith("    ")
        if indented and not code and (not found or not found[-1].strip() or found[-1].strip().endswith(":")):
            found.append("```text")
            code = True
        elif code and line.strip() and not indented:
            code = False
            blank = not found[-1].strip()
            found.insert(len(found) - blank, "```")
        if code:
            found.append(line[4:] if indented else line)
        else:
            found.append(inline(re.sub(r"::$", ":", line)))
        if code and k == len(lines) - 1:
            found.append("```")
    return "\n".join(found).strip()


def inline(text: str) -> str:
    """Backquotes and roles as Markdown has them; a bracket or a dollar is no markup."""
    pieces = re.split(r"(``.+?``|:\w+:`[^`]+`)", text)
    for k, piece in enumerate(pieces):
        if piece.startswith("``"):
            pieces[k] = piece[1:-1]
        elif piece.startswith(":") and piece.endswith("`"):
            pieces[k] = "`" + piece.split("`")[1].lstrip("~") + "`"
        else:
            piece = re.sub(r"([$<])", r"\\\1", piece)
            pieces[k] = re.sub(r"\bdocs/([\w-]+)\.md", r"[\1](../\1.md)", piece)
    return "".join(pieces)


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def options_table(
    function: Callable[..., Any], skip: tuple[str, ...] = (), known: Mapping[str, str] | None = None
) -> str:
    """What a function or class takes beside ``skip``: name, default, what it is."""
    said = dict(known or {})
    docstring = re.sub(r"^Versions\n-+\n.*", "", text_of(function), flags=re.M | re.S)
    for names, kind, words in NumpyDocString(docstring)["Parameters"]:
        for name in names.split(","):
            said[name.strip()] = " ".join([kind, *words]).strip()
    rows = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in skip or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = "needed" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        rows.append(f"| `{name}` | {default} | {cell(inline(said.get(name, '')))} |")
    if not rows:
        return ""
    if not any(name in said for name in inspect.signature(function).parameters):  # told in the text above
        return "\n".join(["| option | default |", "|---|---|", *(row.removesuffix("  |") for row in rows)])
    return "\n".join(["| option | default | |", "|---|---|---|", *rows])
