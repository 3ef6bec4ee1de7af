"""A server's answer, one JSON object or a stream of events, as text and counts; whatever comes, nothing is raised but
:class:`Malformed`.

Source: OpenAI API reference, chat completions and its streaming events.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["Decoded", "Malformed", "decode"]

_PREFIX = "data:"
_MOST_TOKENS = 1 << 40


class Malformed(ValueError):
    """The body is not what a server has to send; one line."""


@dataclass(slots=True, kw_only=True)
class Decoded:
    """Text, why the model stopped, and the server's counts where it gives them."""

    text: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    whole: bool = True


def decode(body: bytes) -> Decoded:
    """Reads a body of either kind, whichever was asked for.

    Raises:
        Malformed: it is neither.
    """
    text = body.decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    if text.startswith(("data:", "event:", ":", "id:", "retry:")):
        return _events(text)
    value = _json(text)
    decoded = Decoded()
    _error_in(value)
    if not _choice(value, decoded, "message"):
        raise Malformed("the reply has no choices")
    _usage(value, decoded)
    return _clean(decoded)


def _events(text: str) -> Decoded:
    decoded = Decoded(whole=False)
    pieces: list[str] = []
    chosen = False
    for line in re.split(r"\r\n|\r|\n", text):
        if not line.startswith(_PREFIX):
            continue
        data = line[len(_PREFIX) :].strip()
        if data == "[DONE]":
            decoded.whole = True
            break
        if not data:
            continue
        try:
            value = _json(data)
        except Malformed:
            if not pieces:
                raise
            # A stream that is cut off ends within an event.
            break
        _error_in(value)
        decoded.text = ""
        chosen = _choice(value, decoded, "delta") or chosen
        pieces.append(decoded.text)
        _usage(value, decoded)
    if not chosen:
        raise Malformed("the stream has no choices")
    decoded.text = "".join(pieces)
    decoded.whole = decoded.whole or bool(decoded.finish)
    return _clean(decoded)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(f"the reply is not JSON: {text[:80]!r}") from None


def _error_in(value: Any) -> None:
    if not isinstance(value, dict):
        raise Malformed("the reply is no JSON object")
    error = value.get("error")
    if error:
        said = error.get("message") if isinstance(error, dict) else error
        raise Malformed(f"the server says: {said!s:.200}")


def _choice(value: dict[str, Any], decoded: Decoded, key: str) -> bool:
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return False
    message = first.get(key)
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        # Some servers send parts.
        content = "".join(p.get("text", "") for p in content if isinstance(p, dict) and _is_text(p))
    decoded.text = content if isinstance(content, str) else ""
    finish = first.get("finish_reason")
    if isinstance(finish, str):
        decoded.finish = finish[:40]
    return True


def _is_text(part: dict[str, Any]) -> bool:
    return isinstance(part.get("text"), str)


def _usage(value: dict[str, Any], decoded: Decoded) -> None:
    usage = value.get("usage")
    if not isinstance(usage, dict):
        return
    for name in ("prompt_tokens", "completion_tokens"):
        count = usage.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MOST_TOKENS:
            setattr(decoded, name, count)


def _clean(decoded: Decoded) -> Decoded:
    # A lone surrogate, which JSON can spell, has no place in a file.
    decoded.text = decoded.text.encode("utf-8", "replace").decode()
    decoded.finish = decoded.finish.encode("utf-8", "replace").decode()
    return decoded
