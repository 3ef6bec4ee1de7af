"""The process that talks to servers: requests as JSON lines on stdin, answers as JSON lines on stdout.

It alone holds the keys, and takes them out of whatever a server says before that leaves it. Run with ``-m``; it ends
with its stdin. May not see generated code run, nor write any file.
"""

from __future__ import annotations

import ctypes
import email.utils
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
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

_BAD_REQUEST = (400, 404, 405, 415, 422, 500)
"""Codes by which servers refuse a parameter; llama.cpp gives 500 for a role that a template does not know."""

_STREAM = re.compile(r"\bstream(?:ing|ed)?\b", re.IGNORECASE)
_SYSTEM = re.compile(r"\bsystem\b.{0,40}\brole|\brole\b.{0,60}\bsystem\b", re.IGNORECASE)

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


class _Ended(Exception):
    """A try that gives an answer other than ``ok``."""

    def __init__(
        self, status: str, message: str, *, wait_s: float | None = None, again: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.wait_s = wait_s
        self.again = again
        """Whether the request was changed, and is sent once more whatever the number of retries."""


@dataclass(slots=True)
class _Try:
    """One request on its way.

    Attributes:
        headers: beside those that every request has.
        left: parameters that the server does not take as they are.
    """

    client: openai.OpenAI
    parameters: dict[str, Any]
    timeout_s: float
    headers: Mapping[str, Any]
    left: set[str]

    def __post_init__(self) -> None:
        for name in sorted(self.left):
            self._without(name)

    def send(self) -> Decoded:
        """Sends it and reads the reply.

        Raises:
            _Ended: what became of it instead.
        """
        deadline = time.monotonic() + self.timeout_s
        timeout = openai.Timeout(self.timeout_s, connect=min(_CONNECT_S, self.timeout_s))
        completions = self.client.chat.completions.with_streaming_response
        try:
            with completions.create(
                **self.parameters, timeout=timeout, extra_headers=self.headers
            ) as response:
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
        name = self._unknown(str(error.body or error.message)) if code in _BAD_REQUEST else None
        if name is not None and name not in self.left:
            self.left.add(name)
            self._without(name)
            return _Ended("refused", said, again=True)
        if code >= _OVERLOADED:
            return _Ended("unavailable", said, wait_s=_retry_after_s(error.response.headers))
        return _Ended("refused", said)

    def _unknown(self, said: str) -> str | None:
        """What of the request the server does not take, by its words; ``None`` where that is nothing known."""
        parameters = self.parameters
        for name in _OPTIONAL:
            if name in parameters and name in said:
                return name
        if "max_tokens" in parameters and "max_completion_tokens" in said:
            return "max_tokens"
        if "stream" in parameters and _STREAM.search(said):
            return "stream"
        if parameters["messages"][0]["role"] == "system" and _SYSTEM.search(said):
            return "system"
        return None

    def _without(self, name: str) -> None:
        """Leaves out a parameter, or says the same in the other way that servers know."""
        parameters = self.parameters
        if name == "max_tokens" and name in parameters:
            parameters["max_completion_tokens"] = parameters.pop(name)
        elif name == "stream":
            parameters.pop("stream", None)
            parameters.pop("stream_options", None)
        elif name == "system":
            parameters["messages"] = _without_system(parameters["messages"])
        else:
            parameters.pop(name, None)


Learned = dict[tuple[str | None, str], frozenset[str]]
"""What servers were found not to take, by address and model."""


def exchange(
    request: Mapping[str, Any],
    key: str,
    learned: Learned | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """One request with its retries.

    Args:
        request: as the client sends it.
        key: for the server; taken out of the answer. Empty for none.
        learned: from requests before, and for those to come.
        sleep: between tries.
    """
    started, tries, failed, retries = time.monotonic(), 0, 0, int(request["retries"])
    number, status, message = int(request["number"]), "", ""
    server = (request["base_url"], request["model"])
    learned = {} if learned is None else learned
    with openai.OpenAI(api_key=key or "none", base_url=request["base_url"], max_retries=0) as client:
        attempt = _Try(
            client,
            _parameters(request),
            float(request["timeout_s"]),
            {} if key else {"Authorization": openai.Omit()},
            set(learned.get(server, ())),
        )
        while failed <= retries:
            tries += 1
            try:
                decoded = attempt.send()
            except _Ended as ended:
                status, message = ended.status, ended.message
                if ended.again:
                    continue
                failed += 1
                wait_s = _wait_s(ended, failed)
                if wait_s is None or failed > retries:
                    break
                sleep(wait_s)
                continue
            except Exception as error:
                # A connection may fail in as many ways as the library below has errors; what was sent may be charged.
                status, message = "broken", f"{type(error).__name__}: {error}"
                break
            # Words of a refusal may mislead; what was answered then was right.
            learned[server] = frozenset(attempt.left)
            return _answer(number, decoded, key, tries, time.monotonic() - started)
    nothing = Decoded(status=status, message=message)
    return _answer(number, nothing, key, tries, time.monotonic() - started)


def _answer(number: int, decoded: Decoded, key: str, tries: int, wall_s: float) -> Answer:
    return Answer(
        number=number,
        status=decoded.status,
        text=_hidden(decoded.text, key),
        prompt_tokens=decoded.prompt_tokens,
        completion_tokens=decoded.completion_tokens,
        finish=_hidden(decoded.finish, key) if decoded.whole else "cut",
        message=_one_line(_hidden(decoded.message, key)),
        tries=tries,
        wall_s=wall_s,
    )


def _without_system(messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The same said by the user: some models know no other role."""
    first, *rest = messages
    if first["role"] != "system" or not rest:
        return list(messages)
    return [{**rest[0], "content": f"{first['content']}\n\n{rest[0]['content']}"}, *rest[1:]]


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
    words = text.encode("utf-8", "replace").decode().split()
    # It is printed: nothing in it may be for a terminal.
    plain = "".join(c if c.isprintable() else "?" for c in " ".join(words))
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
    lock, learned = threading.Lock(), Learned()
    keys = json.loads(sys.stdin.readline() or "{}")

    def answer(request: Mapping[str, Any]) -> None:
        key = keys.get(request["api_key_env"], "")
        line = json.dumps(exchange(request, key, learned).to_json())
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
