"""Sends requests to models and takes their answers, without ever waiting unless asked to.

The talking is done by a process of its own (:mod:`tuner.search.llm.worker`): keys, slow servers and huge replies stay
out of the tuner's process, and one that hangs is ended. May not decide what is asked.
"""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tuner.core.errors import MachineError
from tuner.search.llm.exchange import Answer, Model, Request

__all__ = ["Client"]

_PASSED = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
]
_ADDRESS = "OPENAI_BASE_URL"
_SLACK_S = 15.0
_READ_BYTES = 1 << 16


def require_openai() -> None:
    """Whether the library is there.

    Raises:
        MachineError: it is not.
    """
    if importlib.util.find_spec("openai") is None:
        raise MachineError("a model cannot be asked without openai", "pip install 'remix-tuner[llm]'")


class Client:
    """Requests in flight and the process that carries them.

    Args:
        models: that may be asked.
        environment: variables, with the keys; ``os.environ`` where left out.

    Raises:
        MachineError: openai is not installed, or the key of a model is not set.
    """

    def __init__(self, models: tuple[Model, ...], environment: Mapping[str, str] | None = None) -> None:
        require_openai()
        given = dict(os.environ if environment is None else environment)
        self._address = given.get(_ADDRESS) or None
        self._keys: dict[str, str] = {}
        for model in models:
            key = given.get(model.api_key_env, "")
            if not key and model.base_url is None and self._address is None:
                raise MachineError(
                    f"the model {model.name} needs a key, and {model.api_key_env} is not set",
                    f"export {model.api_key_env}=..., or name a server of your own, which needs none, in "
                    "search.llm.base_url",
                )
            self._keys[model.api_key_env] = key
        self._environment = {name: given[name] for name in _PASSED if name in given}
        self._waiting: dict[int, float] = {}
        """By number, when a request is given up."""
        self._ready: list[Answer] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = bytearray()

    def send(self, request: Request) -> None:
        """Sends a request; its answer comes from :meth:`take`."""
        self._waiting[request.number] = time.monotonic() + request.deadline_s + _SLACK_S
        line = json.dumps(self._plain(request)).encode() + b"\n"
        try:
            stdin = self._running().stdin
            assert stdin is not None
            stdin.write(line)
            stdin.flush()
        except OSError:
            self._end_all("broken", "the process that talks to servers ended")

    def take(self, timeout_s: float = 0.0) -> Answer | None:
        """An answer, the oldest first; ``None`` when none has come within so many seconds."""
        until = time.monotonic() + timeout_s
        while not self._ready:
            left_s = until - time.monotonic()
            if not self._waiting or not self._read(max(left_s, 0.0)):
                self._end_late()
                if not self._ready and (left_s <= 0 or not self._waiting):
                    return None
        return self._ready.pop(0)

    def close(self) -> None:
        """Ends the process; safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._buffer.clear()

    def _plain(self, request: Request) -> dict[str, Any]:
        return {
            "number": request.number,
            "model": request.model.name,
            "base_url": request.model.base_url or self._address,
            "api_key_env": request.model.api_key_env,
            "messages": [dict(m) for m in request.messages],
            "max_tokens": request.max_tokens,
            "timeout_s": request.timeout_s,
            "retries": request.retries,
            "stream": request.stream,
            "temperature": request.temperature,
        }

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tuner.search.llm.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                # Ctrl-C is for the tuner, which then ends it.
                process_group=0,
            )
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            os.set_blocking(stdout.fileno(), False)
            # By pipe and not by environment: that of a process can be read by others of the same user.
            stdin.write(json.dumps(self._keys).encode() + b"\n")
            stdin.flush()
        return self._process

    def _read(self, timeout_s: float) -> bool:
        """Takes in what the process has written; whether there was anything."""
        process = self._process
        if process is None or process.stdout is None:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(min(timeout_s, 1.0)):
                return False
        data = os.read(process.stdout.fileno(), _READ_BYTES)
        if not data:
            self._end_all("broken", "the process that talks to servers ended")
            return True
        self._buffer += data
        while b"\n" in self._buffer:
            line, _, rest = bytes(self._buffer).partition(b"\n")
            self._buffer = bytearray(rest)
            answer = Answer(**json.loads(line))
            if self._waiting.pop(answer.number, None) is not None:
                self._ready.append(answer)
        return True

    def _end_late(self) -> None:
        now = time.monotonic()
        if any(now > deadline_s for deadline_s in self._waiting.values()):
            self._end_all("timed_out", "the server neither answers nor ends")

    def _end_all(self, status: str, message: str) -> None:
        """What is in flight gets no answer any more; the next request starts a new process."""
        self._ready += [Answer(number=n, status=status, message=message) for n in sorted(self._waiting)]
        self._waiting.clear()
        self.close()
