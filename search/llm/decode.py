"""A server's answer, one JSON object or a stream of events, as text and counts; whatever comes, nothing is raised but
:class:`Malformed`.

Source: OpenAI API reference, chat completions and its streaming events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.search.llm.forms import Message, plain_finish

__all__ = ["Decoded", "Malformed", "decode"]

_PREFIX = "data:"
_ERROR = "error:"
_FIELDS = (_PREFIX, _ERROR, "event:", ":", "id:", "retry:")
_MOST_TOKENS = 1 << 40


class Malformed(ValueError):
    """The body is not what a server has to send; one line."""


@dataclass(slots=True, kw_only=True)
class Decoded:
    """Text, why the model stopped, and the server's counts where it gives them.

    ``status`` is not ``ok`` where a model said something else than text, which ``message`` names.
    """

    text: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    whole: bool = True
    status: str = "ok"
    message: str = ""


@dataclass(slots=True)
class _Body:
    """What has been read of a body so far."""

    message: Message = field(default_factory=Message)
    finish: str = ""
    chosen: bool = False
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, value: Any, first: str, other: str) -> None:
        """Takes in an object; its message stands under the first key, with some servers under the other."""
        if not isinstance(value, dict):
            raise Malformed("the reply is no JSON object")
        _error_in(value)
        self._usage(value.get("usage"))
        choices = value.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        # Nobody asked for a second reply.
        if not isinstance(choice, dict) or choice.get("index") not in (None, 0):
            return
        self.chosen = True
        _error_in(choice)
        said = choice.get(first)
        if not said and not self.message.begun:
            said = choice.get(other)
        if isinstance(said, dict):
            self.message.add(said)
        elif isinstance(choice.get("text"), str):
            self.message.add_text(choice["text"])
        finish = choice.get("finish_reason")
        if isinstance(finish, str):
            self.finish = plain_finish(finish)

    def decoded(self, *, whole: bool) -> Decoded:
        """All of it."""
        finish = self.finish or ("" if whole else "cut")
        verdict = self.message.verdict(finish, reasoning_tokens=self.counts.get("reasoning_tokens", 0))
        return Decoded(
            text=_clean(verdict.text),
            finish=_clean(self.finish),
            prompt_tokens=self.counts.get("prompt_tokens"),
            completion_tokens=self.counts.get("completion_tokens"),
            whole=whole,
            status=verdict.status,
            message=_clean(verdict.message),
        )

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("completion_tokens_details")
        if isinstance(details, dict):
            self._count(details, "reasoning_tokens")
        for name in ("prompt_tokens", "completion_tokens"):
            self._count(usage, name)

    def _count(self, counts: Mapping[str, Any], name: str) -> None:
        count = counts.get(name)
        if type(count) is int and 0 <= count < _MOST_TOKENS:
            self.counts[name] = count


def decode(body: bytes) -> Decoded:
    """Reads a body of either kind, whichever was asked for.

    Raises:
        Malformed: it is neither.
    """
    text = body.decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    if text.startswith(_FIELDS):
        return _events(text)
    read = _Body()
    read.add(_json(text), "message", "delta")
    if not read.chosen:
        raise Malformed("the reply has no choices")
    return read.decoded(whole=True)


def _events(text: str) -> Decoded:
    read, whole = _Body(), False
    for line in re.split(r"\r\n|\r|\n", text):
        if line.startswith(_ERROR):
            # llama.cpp had a field of its own for it.
            raise Malformed(f"the server says: {line.removeprefix(_ERROR).strip():.200}")
        if not line.startswith(_PREFIX):
            continue
        data = line[len(_PREFIX) :].strip()
        if data == "[DONE]":
            whole = True
            break
        if not data:
            continue
        try:
            value = _json(data)
        except Malformed:
            if not read.message.begun:
                raise
            # A stream that is cut off ends within an event.
            break
        read.add(value, "delta", "message")
    if not read.chosen:
        raise Malformed("the stream has no choices")
    return read.decoded(whole=whole or bool(read.finish))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(f"the reply is not JSON: {text[:80]!r}") from None


def _error_in(value: Mapping[str, Any]) -> None:
    error = value.get("error")
    if error:
        said = error.get("message") if isinstance(error, dict) else error
        raise Malformed(f"the server says: {said!s:.200}")


def _clean(text: str) -> str:
    # A lone surrogate, which JSON can spell, has no place in a file.
    return text.encode("utf-8", "replace").decode()
