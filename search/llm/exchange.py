"""One exchange with a model: what is asked, what came back, what it costs at worst and in the end.

Plain values; may not open a connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tuner.core.canonical import digest_json

__all__ = [
    "LEADING",
    "MOST_REPAIRS",
    "Answer",
    "Message",
    "Model",
    "Purpose",
    "Request",
    "Role",
    "bound_tokens",
    "cassette_key",
]

Message = Mapping[str, str]
"""``role`` and ``content``, as chat completions take them."""

_PER_MESSAGE = 16
_PER_REQUEST = 64


class Purpose(StrEnum):
    """What a request is for.

    ``ideas`` asks for a numbered list without code, ``write`` for one idea as code, ``refine`` for a faster form of the
    best version, ``combine`` for one version out of two, and ``repair`` for a corrected reply where the one before
    could not be used, did not compile or computed something else.
    """

    IDEAS = "ideas"
    WRITE = "write"
    REFINE = "refine"
    COMBINE = "combine"
    REPAIR = "repair"


LEADING = (Purpose.REPAIR, Purpose.WRITE, Purpose.REFINE, Purpose.COMBINE)
"""Purposes that lead to versions, in the order in which they are tried first."""

MOST_REPAIRS = 2
"""How often the model is asked to correct the reply to one request."""


class Role(StrEnum):
    """What a model of several is asked for."""

    ALL = "all"
    IDEAS = "ideas"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model with its prices.

    Attributes:
        name: as the server knows it.
        base_url: of an OpenAI-compatible server; ``None`` for OpenAI's own.
        api_key_env: name of the environment variable with the key.
        prompt_usd, completion_usd: for a million tokens.
        role: what it is asked for: everything, only to write versions, or only for ideas and repairs.
    """

    name: str
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    prompt_usd: float = 0.0
    completion_usd: float = 0.0
    role: str = Role.ALL

    def takes(self, purpose: Purpose) -> bool:
        """Whether it is asked for that."""
        short = purpose in (Purpose.IDEAS, Purpose.REPAIR)
        return self.role == Role.ALL or (self.role == Role.IDEAS) == short

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """US dollars for so many tokens."""
        return (prompt_tokens * self.prompt_usd + completion_tokens * self.completion_usd) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client is to send.

    Attributes:
        number: of the call in its run.
        model: whom to ask.
        messages: the conversation so far.
        max_tokens: that the reply may have.
        timeout_s: for each try, from the first byte sent to the last received.
        retries: of a try that the server refused for now (429, 5xx) or that found no server.
        stream: whether the reply comes in pieces.
        temperature: ``None`` leaves it to the server.
    """

    number: int
    model: Model
    messages: Sequence[Message]
    max_tokens: int
    timeout_s: float
    retries: int = 3
    stream: bool = True
    temperature: float | None = None

    @property
    def deadline_s(self) -> float:
        """Seconds after which no answer comes any more: each try with the longest wait after it."""
        return (self.timeout_s + LONGEST_WAIT_S) * (self.retries + 1)


LONGEST_WAIT_S = 60.0
"""What a server may have a client wait between two tries; one that wants more is not asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a request.

    Attributes:
        number: of the call.
        status: ``ok``; ``refused`` (4xx), ``busy`` (429 to the last), ``unavailable`` (5xx to the last),
            ``unreachable``, ``timed_out``, ``broken`` (cut short on the way), ``malformed``, ``too_large``,
            ``declined`` (by the model or a filter), ``no_text`` (reasoning or a call of a tool alone), ``lost`` (the
            tuner was killed while it waited).
        text: of the reply.
        prompt_tokens, completion_tokens: as the server counts; ``None`` where it does not say.
        finish: why the model stopped, as the server says: ``stop``, ``length`` and so on.
        message: one line for people when the status is not ``ok``.
        tries: requests sent.
        wall_s: seconds from the first try.
    """

    number: int
    status: str
    text: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str = ""
    message: str = ""
    tries: int = 1
    wall_s: float = 0.0

    @property
    def free(self) -> bool:
        """Whether the server did no work that it may charge for."""
        return self.status in ("refused", "busy", "unavailable", "unreachable")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def bound_tokens(messages: Sequence[Message]) -> int:
    """Tokens that a prompt has at most: no tokenizer in use makes more tokens of a text than it has bytes."""
    content = sum(len(m["content"].encode()) + _PER_MESSAGE for m in messages)
    return content + _PER_REQUEST


def cassette_key(*, template: str, model: str, purpose: Purpose, subject: Sequence[str], number: int) -> str:
    """What a recorded exchange is found by.

    Measured numbers are in the prompt but not in here: they differ between any two runs.

    Args:
        template: what the prompts are known by.
        model: its name.
        purpose: of the request.
        subject: digests of the versions that the new one is made from; of a repair, the key of the exchange before.
        number: how many requests that repair nothing the model was sent for the same version before.
    """
    return digest_json([template, model, purpose.value, list(subject), number])
