"""An endpoint on the loopback in front of a server with models: lets so many calls through, counts their tokens.

Whoever is compared talks to one of these, so that calls and tokens are counted alike and the key stays here.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tuner.search.llm.decode import Malformed, decode

__all__ = ["Endpoint"]

_PATH = "/v1/chat/completions"
_MOST_BYTES = 8 << 20
_TIMEOUT_S = 600.0
_USED_UP = "the budget of calls is used up"


class Endpoint:
    """Calls that were answered and what they took.

    Attributes:
        url: the address to give away.
        calls: answered so far.
        prompt_tokens, completion_tokens: by the server's count.
        refused_s: by the monotonic clock when a call beyond the budget came first; ``None``: none did.

    Args:
        base_url: of the server, with ``/v1`` or what it has instead.
        key: for the server; empty for none.
        calls: that may be answered.
    """

    def __init__(self, base_url: str, key: str, calls: int) -> None:
        self._to = base_url.rstrip("/") + _PATH.removeprefix("/v1")
        self._key = key
        self._most = calls
        self._begun = 0
        self._lock = threading.Lock()
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        self.refused_s: float | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                size = min(int(self.headers.get("Content-Length") or 0), _MOST_BYTES)
                status, kind, body = outer._answer(self.path, self.rfile.read(size))
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except (BrokenPipeError, ConnectionResetError):
                    return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        if path != _PATH:
            return _error(404, f"only {_PATH} is passed on")
        with self._lock:
            if self._begun >= self._most:
                self.refused_s = self.refused_s or time.monotonic()
                return _error(403, _USED_UP)
            self._begun += 1
        status, kind, answer = self._asked(body)
        with self._lock:
            if status != 200:
                # What the server refused was no call.
                self._begun -= 1
                return status, kind, answer
            self.calls += 1
            try:
                decoded = decode(answer)
            except Malformed:
                return status, kind, answer
            self.prompt_tokens += decoded.prompt_tokens or 0
            self.completion_tokens += decoded.completion_tokens or 0
        return status, kind, answer

    def _asked(self, body: bytes) -> tuple[int, str, bytes]:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._to, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                kind = response.headers.get("Content-Type", "application/json")
                return response.status, kind, response.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            return error.code, "application/json", error.read(_MOST_BYTES)
        except OSError as error:
            return _error(502, f"no server answers: {error}")


def _error(status: int, message: str) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps({"error": {"message": message}}).encode()
