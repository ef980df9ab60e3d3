"""The page of a directory whose runs are under way, on this machine alone.

A server from the standard library on the loopback address. It answers two paths: ``/``, the page as it is now, and
``/state``, a word that changes whenever a run finishes. The page asks for that word and loads itself again when it is
another one. No path is ever looked up on disk.

A browser on this machine can be made to send requests by pages from elsewhere. So a request must name this server as
its host (a foreign name that resolves to the loopback address is refused), must not come from another site, must be a
GET or a HEAD without a body, and must be short.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlunsplit

from flexdome.cmdp.validation import as_int, instance_of
from flexdome.errors import FlexDOMEError, OutputError
from flexdome.experiments import Store
from flexdome.report.markup import Markup, element
from flexdome.report.page import make_page

__all__ = ["LivePage", "ReportServer"]

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")
LONGEST_TARGET, MOST_HEADER = 200, 8_192  # characters
PATIENCE = 10.0  # seconds for a request to arrive
REST, BUSY = 2.0, 3.0  # seconds between two looks at the store, and at least so many times what a page takes
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class LivePage:
    """The page of a store, made again when something has finished since it was made; safe to ask from many threads."""

    def __init__(self, store: Store, rest: float = REST) -> None:
        self.store = instance_of("store", store, Store)
        self._rest, self._lock = rest, threading.Lock()
        self._looked, self._made_in = -float("inf"), 0.0
        self._state, self._made_of, self._page = "", "", b""

    def state(self) -> str:
        """A word that stands for the experiments and complete runs that there are."""
        with self._lock:
            return self._look()

    def page(self) -> bytes:
        """The page of what there is."""
        with self._lock:
            state = self._look()
            if state != self._made_of:
                began = time.monotonic()
                try:
                    text = make_page(self.store, skipped=lambda sentence: None, live=state).html
                except FlexDOMEError as error:  # nothing is complete yet, or a file is damaged and will be mended
                    return _waiting(str(error)).encode()
                self._page, self._made_of = text.encode(), state
                self._made_in = time.monotonic() - began
            return self._page

    def _look(self) -> str:
        now = time.monotonic()
        if now - self._looked >= max(self._rest, BUSY * self._made_in):
            digest = hashlib.sha256()
            for spec in self.store.experiments(skipped=lambda sentence: digest.update(sentence.encode())):
                digest.update(f"{spec.name} {spec.id}".encode())
                digest.update(bytes(self.store.has(run) for run in spec.runs()))
            self._state, self._looked = digest.hexdigest()[:16], time.monotonic()
        return self._state


class ReportServer(ThreadingHTTPServer):
    """A server of one store's page; ``port`` 0 takes a free one."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, store: Store, port: int = 0, rest: float = REST) -> None:
        self.live = LivePage(store, rest)
        try:
            super().__init__((LOOPBACK, as_int("port", port, 0, 65_535)), _Handler)
        except OSError as error:
            raise OutputError(f"port {port} cannot be had: {error.strerror or error}") from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return urlunsplit(("http", f"{LOOPBACK}:{self.server_port}", "/", "", ""))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong; a reader that went away is no event."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    timeout = PATIENCE
    server_version, sys_version = "flexdome", ""

    def do_GET(self) -> None:
        refusal = self._refusal()
        if refusal is not None:
            self._answer(refusal, refusal.phrase.encode())
        elif self.path == "/":
            self._answer(HTTPStatus.OK, self.server.live.page(), "text/html")
        else:
            self._answer(HTTPStatus.OK, self.server.live.state().encode())

    do_HEAD = do_GET

    def _not_allowed(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"GET and HEAD only")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _not_allowed

    def _refusal(self) -> HTTPStatus | None:
        hosts = [f"{name}:{self.server.server_port}" for name in NAMES]
        if self.headers.get_all("Host") not in [[host] for host in hosts]:
            return HTTPStatus.MISDIRECTED_REQUEST
        origins = [urlunsplit(("http", host, "", "", "")) for host in hosts]
        if self.headers.get("Origin", origins[0]) not in origins:
            return HTTPStatus.FORBIDDEN
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN
        if "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0") != "0":
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if len(self.path) > LONGEST_TARGET:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        if sum(len(name) + len(value) for name, value in self.headers.items()) > MOST_HEADER:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        return None if self.path in ("/", "/state") else HTTPStatus.NOT_FOUND

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        """Nothing is logged."""


def _waiting(sentence: str) -> str:
    head = Markup('<meta charset="utf-8"><meta http-equiv="refresh" content="3">')
    inner = element("head", head, element("title", "flexdome report")), element("body", element("p", sentence))
    return f"<!doctype html>\n{element('html', *inner, lang='en')}\n"
