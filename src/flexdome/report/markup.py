"""Text that becomes HTML: everything is escaped unless this module made it."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

__all__ = ["Markup", "as_json", "element", "joined", "table"]


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


def _inner(item: object) -> str:
    return str(item) if isinstance(item, Markup) else html.escape(str(item), quote=True)


def element(tag: str, *inner: object, **attributes: object) -> Markup:
    """An element; ``class_`` is the attribute class, ``aria_label`` is aria-label, True an attribute without a value.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{_inner(value)}"')
    return Markup(f"<{' '.join(words)}>{''.join(map(_inner, inner))}</{tag}>")


def joined(parts: Iterable[object]) -> Markup:
    """Parts one after the other, each escaped unless it is markup."""
    return Markup("\n".join(map(_inner, parts)))


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], named: int = 1, words: Collection[int] = ()
) -> Markup:
    """A table below its caption, in a box of its own that scrolls on a narrow screen.

    Parameters
    ----------
    named : how many columns at the left are words; the first of them names the row
    words : further columns that are words, and are broken into lines
    """
    kinds = ["words" if k < named or k in words else None for k in range(len(head))]
    cells = [element("th", text, scope="col", class_=kind) for text, kind in zip(head, kinds, strict=True)]
    body = []
    for row in rows:
        first = element("th", row[0], scope="row")
        rest = (element("td", text, class_=kind) for text, kind in zip(row[1:], kinds[1:], strict=True))
        body.append(element("tr", first, *rest))
    inner = element("thead", element("tr", *cells)), element("tbody", *body)
    box = element(
        "div",
        element("table", *inner, aria_label=caption),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
    return joined([element("p", caption, class_="caption"), box])


def as_json(content: Any) -> Markup:
    """JSON that may stand inside a script element: no character of it can end the element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
