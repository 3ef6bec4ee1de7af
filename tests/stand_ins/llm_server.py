"""A server on the loopback that speaks chat completions, well or badly, as each test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass
class Reply:
    """What to answer one request with. ``text`` is wrapped as a completion; ``raw`` is sent as it is."""

    text: str = ""
    raw: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    usage: dict[str, Any] | None = field(default_factory=lambda: dict(USAGE))
    finish: str = "stop"
    delay_s: float = 0.0
    hang: bool = False
    drip: bool = False
    cut: bool = False
    done: bool = True


Script = Callable[[int, dict[str, Any]], Reply]


class Server:
    """Requests so far, and the address."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    number = len(outer.requests)
                    outer.requests.append(body)
                    outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                try:
                    outer.answer(self, outer.script(number, body), bool(body.get("stream")))
                except (BrokenPipeError, ConnectionResetError):
                    return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, handler: BaseHTTPRequestHandler, reply: Reply, stream: bool) -> None:
        self.stopping.wait(reply.delay_s)
        if reply.hang:
            self.stopping.wait(600)
            return
        body = reply.raw if reply.raw is not None else self.body(reply, stream)
        handler.send_response(reply.status)
        events = stream and reply.raw is None and reply.status == 200
        handler.send_header("Content-Type", "text/event-stream" if events else "application/json")
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) * (2 if reply.cut else 1)))
        handler.end_headers()
        if reply.drip:
            for byte in body:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                if self.stopping.wait(0.05):
                    return
        handler.wfile.write(body)
        handler.wfile.flush()

    @staticmethod
    def body(reply: Reply, stream: bool) -> bytes:
        if reply.status != 200:
            return json.dumps({"error": {"message": reply.text or "no", "type": "error"}}).encode()
        if not stream:
            message = {"role": "assistant", "content": reply.text}
            value: dict[str, Any] = {
                "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}]
            }
            if reply.usage is not None:
                value["usage"] = reply.usage
            return json.dumps(value).encode()
        pieces = [reply.text[i : i + 40] for i in range(0, len(reply.text), 40)]
        events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": p}}]} for p in pieces]
        if not reply.cut:
            events.append({"choices": [{"delta": {}, "finish_reason": reply.finish}]})
        if reply.usage is not None and not reply.cut:
            events.append({"choices": [], "usage": reply.usage})
        text = "".join(f"data: {json.dumps(e)}\n\n" for e in events)
        return (text + ("data: [DONE]\n\n" if reply.done and not reply.cut else "")).encode()

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    """A server with a script: request number and body to a reply."""
    server = Server(script)
    try:
        yield server
    finally:
        server.close()


def always(text: str, **more: Any) -> Script:
    return lambda number, body: Reply(text, **more)


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it does not come to hold"
        time.sleep(0.01)
