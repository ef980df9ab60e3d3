"""One HTML document: head, style and scripts around sections and data.

Its content security policy lets nothing be loaded and no script run but the two that are in it, by their checksums.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from flexdome.report.markup import Markup, as_json, element, joined

__all__ = ["document"]


def document(name: str, sections: Sequence[Markup], data: dict[str, Any], live: str) -> str:
    """The page as text; ``live`` is the state that a server gave it, or empty."""
    style = _asset("uplot.css") + _asset("page.css")
    scripts = [_asset("uplot.js"), _asset("page.js")]
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    asked = "'self'" if live else "'none'"
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"connect-src {asked}; script-src {allowed}"
    )
    head = joined(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", f"{name}: flexdome report"),
            element("style", Markup(style)),
        ]
    )
    bar = element(
        "header",
        element("a", "Skip to the results", href="#main", class_="skip"),
        element("a", "flexdome", href="#main", class_="brand", aria_label="flexdome, to the top"),
        element("button", "Theme: as the system", type="button", id="theme", hidden=True),
    )
    body = joined(
        [
            bar,
            element("main", *sections, id="main"),
            element("script", as_json(data), type="application/json", id="data"),
            *(element("script", Markup(text)) for text in scripts),
        ]
    )
    whole = element("html", element("head", head), "\n", element("body", body), lang="en", data_live=live or None)
    return f"<!doctype html>\n{whole}\n"


def _asset(name: str) -> str:
    return (files("flexdome.report") / "assets" / name).read_text(encoding="utf-8")
