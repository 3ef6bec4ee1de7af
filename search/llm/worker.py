"""The process that talks to servers: requests as JSON lines on stdin, answers as JSON lines on stdout.

It alone holds the keys, and takes them out of whatever a server says before that leaves it. Run with ``-m``; it ends
with its stdin. May not see generated code run, nor write any file.
"""

from __future__ import annotations

import ctypes
import email.utils
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import openai

from tuner.search.llm.decode import Decoded, Malformed, decode
from tuner.search.llm.exchange import LONGEST_WAIT_S, Answer

__all__ = ["MOST_BYTES", "exchange", "main"]

MOST_BYTES = 4 << 20
"""Of a body; more is not read."""

_CONNECT_S = 10.0
_FIRST_WAIT_S = 0.5
_BUSY = 429
_OVERLOADED = 500
_HIDDEN = "[key]"
_OPTIONAL = ("stream_options", "temperature")
"""Parameters that a server may not know: left out where it says so."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


class _Ended(Exception):
    """A try that gives an answer other than ``ok``."""

    def __init__(self, status: str, message: str, *, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.wait_s = wait_s


@dataclass(slots=True)
class _Try:
    """One request on its way."""

    client: openai.OpenAI
    parameters: dict[str, Any]
    timeout_s: float

    def send(self) -> Decoded:
        """Sends it and reads the reply.

        Raises:
            _Ended: what became of it instead.
        """
        deadline = time.monotonic() + self.timeout_s
        timeout = openai.Timeout(self.timeout_s, connect=min(_CONNECT_S, self.timeout_s))
        completions = self.client.chat.completions.with_streaming_response
        try:
            with completions.create(**self.parameters, timeout=timeout) as response:
                return decode(self._read(response, deadline))
        except openai.APITimeoutError:
            raise _Ended("timed_out", f"no reply within {self.timeout_s:g} s") from None
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except openai.APIConnectionError as error:
            cause = str(error.__cause__ or error)
            raise _Ended("unreachable", f"no server answers: {cause:.200}", wait_s=0.0) from None
        except Malformed as error:
            raise _Ended("malformed", str(error)) from None

    def _read(self, response: Any, deadline: float) -> bytes:
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise _Ended("too_large", f"the reply has more than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > deadline:
                raise _Ended("timed_out", f"no whole reply within {self.timeout_s:g} s")
        return bytes(body)

    def _refused(self, error: openai.APIStatusError) -> _Ended:
        code = error.status_code
        said = f"the server answers {code}: {_said(error)}"
        if code == _BUSY:
            return _Ended("busy", said, wait_s=_retry_after_s(error.response.headers))
        if code >= _OVERLOADED:
            return _Ended("unavailable", said, wait_s=_retry_after_s(error.response.headers))
        for name in _OPTIONAL:
            if name in self.parameters and name in said:
                del self.parameters[name]
                return _Ended("refused", said, wait_s=0.0)
        if "max_tokens" in self.parameters and "max_completion_tokens" in said:
            self.parameters["max_completion_tokens"] = self.parameters.pop("max_tokens")
            return _Ended("refused", said, wait_s=0.0)
        return _Ended("refused", said)


def exchange(request: Mapping[str, Any], key: str, sleep: Callable[[float], None] = time.sleep) -> Answer:
    """One request with its retries.

    Args:
        request: as the client sends it.
        key: for the server; taken out of the answer.
        sleep: between tries.
    """
    started, tries, retries = time.monotonic(), 0, int(request["retries"])
    number, status, message = int(request["number"]), "", ""
    with openai.OpenAI(api_key=key, base_url=request["base_url"], max_retries=0) as client:
        attempt = _Try(client, _parameters(request), float(request["timeout_s"]))
        while tries <= retries:
            tries += 1
            try:
                decoded = attempt.send()
            except _Ended as ended:
                status, message = ended.status, ended.message
                wait_s = _wait_s(ended, tries)
                if wait_s is None or tries > retries:
                    break
                sleep(wait_s)
                continue
            except Exception as error:
                # A connection may fail in as many ways as the library below has errors; what was sent may be charged.
                status, message = "broken", f"{type(error).__name__}: {error}"
                break
            return Answer(
                number=number,
                status="ok",
                text=_hidden(decoded.text, key),
                prompt_tokens=decoded.prompt_tokens,
                completion_tokens=decoded.completion_tokens,
                finish=_hidden(decoded.finish, key) if decoded.whole else "cut",
                tries=tries,
                wall_s=time.monotonic() - started,
            )
    return Answer(
        number=number,
        status=status,
        message=_one_line(_hidden(message, key)),
        tries=tries,
        wall_s=time.monotonic() - started,
    )


def _parameters(request: Mapping[str, Any]) -> dict[str, Any]:
    limit = "max_completion_tokens" if request["base_url"] is None else "max_tokens"
    made = {"model": request["model"], "messages": request["messages"], limit: request["max_tokens"]}
    if request["temperature"] is not None:
        made["temperature"] = request["temperature"]
    if request["stream"]:
        made |= {"stream": True, "stream_options": {"include_usage": True}}
    return made


def _wait_s(ended: _Ended, tries: int) -> float | None:
    """Seconds to wait before the next try; ``None`` where there is none."""
    if ended.wait_s is None or ended.wait_s > LONGEST_WAIT_S:
        return None
    if ended.status == "refused":
        return 0.0
    return max(ended.wait_s, min(_FIRST_WAIT_S * 2.0 ** (tries - 1), LONGEST_WAIT_S))


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """What the server asks for, in seconds or as a date (RFC 9110, 10.2.3)."""
    given = headers.get("retry-after", "")
    with suppress(ValueError):
        return min(max(float(given), 0.0), 2 * LONGEST_WAIT_S)
    try:
        until_s = float(email.utils.parsedate_to_datetime(given).timestamp())
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(until_s - time.time(), 0.0), 2 * LONGEST_WAIT_S)


def _said(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
    return _one_line(str(body or error.message))


def _one_line(text: str) -> str:
    plain = " ".join(text.encode("utf-8", "replace").decode().split())
    return plain if len(plain) <= 300 else plain[:296] + " ..."


def _hidden(text: str, key: str) -> str:
    return text.replace(key, _HIDDEN) if key else text


def main() -> None:
    """Answers requests until stdin ends."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # Nobody else of this user can read the keys in its memory.
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.nice(10)
    lock = threading.Lock()
    keys = json.loads(sys.stdin.readline() or "{}")

    def answer(request: Mapping[str, Any]) -> None:
        line = json.dumps(exchange(request, keys.get(request["api_key_env"]) or "none").to_json())
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
