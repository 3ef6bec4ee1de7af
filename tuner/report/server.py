"""The live page over HTTP: on loopback only, for reading only, for pages of its own only.

A page from elsewhere that a browser has open could reach loopback as well, by its address or by a name that it makes
point there (DNS rebinding). So every request has to name this server as its host, and none that a browser marks as
coming from another site is answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tuner.core.errors import MachineError, TunerError
from tuner.report.gallery import Gallery
from tuner.report.page import encode, live_page, policy

__all__ = ["DEFAULT_PORT", "ReportServer", "serve"]

DEFAULT_PORT = 8765
SELF = "'self'"
LOOPBACK = "127.0.0.1"
IDLE_S = 30.0
"""A connection that says nothing for so long is closed."""


class ReportServer(ThreadingHTTPServer):
    """Serves the runs of a gallery.

    Args:
        gallery: what is shown.
        port: on 127.0.0.1; 0 for any that is free.

    Raises:
        MachineError: the port cannot be had.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, gallery: Gallery, port: int = DEFAULT_PORT) -> None:
        self.gallery = gallery
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise MachineError(
                f"port {port} cannot be listened on: {error}",
                "name another with --port; 0 takes any that is free",
            ) from error

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def hosts(self) -> frozenset[str]:
        """What a request may name as its host."""
        return frozenset(f"{name}:{self.port}" for name in (LOOPBACK, "localhost"))


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    server_version = "tuner"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        """Answers the page, the list of runs, or one run's data."""
        if not self._welcome():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this server answers its own pages only")
            return
        parts = urlsplit(self.path)
        try:
            if parts.path == "/":
                self._send(HTTPStatus.OK, "text/html", live_page(self.server.gallery.names()))
            elif parts.path == "/runs":
                self._send(HTTPStatus.OK, "application/json", json.dumps(self.server.gallery.names()))
            elif parts.path.startswith("/data/"):
                seen = parse_qs(parts.query).get("seen", [""])[0]
                self._data(unquote(parts.path.removeprefix("/data/")), seen)
            else:
                self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")
        except TunerError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))

    do_HEAD = do_GET

    def _welcome(self) -> bool:
        host = self.headers.get("Host", "").lower()
        site = self.headers.get("Sec-Fetch-Site", "none")
        data = self.path.startswith(("/data/", "/runs"))
        return host in self.server.hosts and (not data or site in ("none", "same-origin"))

    def _data(self, name: str, seen: str) -> None:
        run = self.server.gallery.run(name)
        if run is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", f"there is no run {name}")
            return
        found = run.data(seen)
        if found is None:
            self._send(HTTPStatus.NO_CONTENT, "application/json", "")
        else:
            self._send(HTTPStatus.OK, "application/json", encode(found))

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{policy(SELF)}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                # The reader went away.
                self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal belongs to who started the server."""


def serve(place: Path, *, port: int = DEFAULT_PORT, begun: Callable[[str], None]) -> None:
    """Serves until it is interrupted.

    Args:
        place: a run record or a folder of them.
        port: on 127.0.0.1; 0 for any that is free.
        begun: told the page's address.

    Raises:
        UsageError: there is nothing at that place.
        RecordError: the file is no run record.
        MachineError: the port cannot be had.
    """
    with ReportServer(Gallery(place), port) as server:
        begun(server.url)
        try:
            server.serve_forever(poll_interval=0.25)
        except KeyboardInterrupt:
            return
