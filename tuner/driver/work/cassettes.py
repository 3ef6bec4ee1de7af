"""Exchanges with models that stand in for the models in another run: out of a run's record, or out of a file with
nothing else in it, which may be given away. Must not write an address of a server, the name of a key, or what a server
said of itself.

A file is one JSON object, compressed with gzip; equal exchanges give equal bytes. ``docs/llm.md`` says what is in it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.core.canonical import canonical_json, from_json
from tuner.core.errors import RecordError, UsageError
from tuner.core.files import write_atomically
from tuner.driver.state.exchanges import Call
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import Llm
from tuner.driver.state.strangers import holding_together
from tuner.recorders.record import RunRecord
from tuner.search.llm.exchange import Answer, Model

__all__ = ["MOST_BYTES", "read_cassette", "write_cassette"]

MOST_BYTES = 128 << 20
"""Of a file, unpacked; more is neither written nor read."""

_FORMAT = "remix-tuner cassette"
_MAGIC = b"\x1f\x8b"
_OWN_WORDS = ("ok", "declined", "no_text")
"""Statuses whose message is the tuner's or the model's: those of others may name hosts, accounts and parts of keys."""

_MODEL = ("name", "prompt_usd", "completion_usd", "role")
_SETTINGS = ("max_tokens", "timeout_s", "retries", "stream", "temperature", "when_spent", "concurrent")
_MOST_TOKENS = 1 << 40
_HINT = "it was changed or cut off: write it anew with tuner export RUN --cassette FILE"

_Count = Annotated[int, Field(ge=0, le=_MOST_TOKENS)]
_Price = Annotated[float, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Model(_Part):
    name: Annotated[str, Field(min_length=1, max_length=500)]
    prompt_usd: _Price
    completion_usd: _Price
    role: Literal["all", "ideas", "write"]


class _Settings(_Part):
    models: Annotated[list[_Model], Field(min_length=1, max_length=100)]
    max_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)]
    timeout_s: _Seconds
    retries: Annotated[int, Field(ge=0, le=1000)]
    stream: bool
    temperature: float | None
    when_spent: Literal["stop", "go_on"]
    concurrent: Annotated[int, Field(ge=1, le=1000)]


class _Answer(_Part):
    status: Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
    text: str
    prompt_tokens: _Count | None
    completion_tokens: _Count | None
    finish: Annotated[str, Field(max_length=40)]
    message: Annotated[str, Field(max_length=1000)]
    tries: _Count
    wall_s: _Seconds


class _Said(_Part):
    role: str
    content: str


class _Exchange(_Part):
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    model: str
    purpose: str
    attempt: _Count
    delay: _Count
    prompt: list[_Said]
    answer: _Answer | None


class _File(_Part):
    format: Literal["remix-tuner cassette"]
    version: Literal[1]
    settings: _Settings
    exchanges: Annotated[list[_Exchange], Field(min_length=1)]


def read_cassette(path: Path) -> tuple[Llm, list[dict[str, Any]]]:
    """The exchanges of a run's record or of a file, with the settings that they were made with.

    Raises:
        RecordError: the file is neither, or does not hold together.
        UsageError: the run has asked no model.
    """
    if _is_file(path):
        return _of_file(path)
    with _asked(path) as (state, settings):
        return settings, [
            {"key": call.key, "delay": call.reply_steps - call.steps, "answer": _answer(state, call)}
            for call in state.exchanges.calls
        ]


def write_cassette(run: Path, path: Path) -> list[dict[str, Any]]:
    """Writes the exchanges of a run's record to a file; returns them as they stand there.

    Raises:
        RecordError: the run's record cannot be read.
        UsageError: the run has asked no model, or too much for a file.
    """
    with _asked(run) as (state, settings):
        exchanges = [_exchange(state, call) for call in state.exchanges.calls]
        value = {
            "format": _FORMAT,
            "version": 1,
            "settings": {
                "models": [{name: getattr(m, name) for name in _MODEL} for m in settings.models],
                **{name: getattr(settings, name) for name in _SETTINGS},
            },
            "exchanges": exchanges,
        }
        data = canonical_json(value).encode()
    if len(data) > MOST_BYTES:
        raise UsageError(f"{run} has asked for more than {MOST_BYTES >> 20} MB", "use the record itself")
    packed = bytearray(gzip.compress(data, 9, mtime=0))
    # The system that packed it, which versions of zlib name differently.
    packed[9] = 255
    write_atomically(path, bytes(packed))
    return exchanges


@contextmanager
def _asked(path: Path) -> Iterator[tuple[RunState, Llm]]:
    """A run that has asked models, with its texts, and the settings that it did so with."""
    with RunRecord.read(path) as record:
        state = RunState(record.blob)
        for event in record.events():
            with holding_together(f"event {event.seq} ({event.kind})"):
                apply(state, event)
        llm = None if state.start is None else state.settings.llm
        if llm is None or not state.exchanges.calls:
            raise UsageError(
                f"{path} holds no exchange with a model", "name the record of a run that has asked one"
            )
        with holding_together(str(path)):
            yield state, llm


def _answer(state: RunState, call: Call) -> dict[str, Any] | None:
    reply = call.reply
    if reply is None:
        return None
    return Answer(
        number=call.number,
        status=reply["status"],
        text=state.text(reply["text"]),
        prompt_tokens=reply["prompt_tokens"],
        completion_tokens=reply["completion_tokens"],
        finish=reply["finish"],
        message=reply["message"],
        tries=reply["tries"],
        wall_s=reply["wall_s"],
    ).to_json()


def _exchange(state: RunState, call: Call) -> dict[str, Any]:
    answer = _answer(state, call)
    if answer is not None:
        del answer["number"]
        if answer["status"] not in _OWN_WORDS:
            answer["message"] = f"{answer['status']} when it was recorded"
    return {
        "key": call.key,
        "model": call.model,
        "purpose": call.purpose.value,
        "attempt": call.attempt,
        "delay": 0 if answer is None else call.reply_steps - call.steps,
        "prompt": from_json(state.text(call.prompt)),
        "answer": answer,
    }


def _is_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _of_file(path: Path) -> tuple[Llm, list[dict[str, Any]]]:
    try:
        read = _File.model_validate_json(_unpacked(path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(
            f"{path} is no cassette: {place and f'{place}: '}{first['msg'][:200]}", _HINT
        ) from None
    given = read.settings
    settings = Llm(
        models=tuple(Model(**m.model_dump()) for m in given.models),
        **{name: getattr(given, name) for name in _SETTINGS},
    )
    return settings, [_entry(number, e) for number, e in enumerate(read.exchanges)]


def _entry(number: int, exchange: _Exchange) -> dict[str, Any]:
    answer: Mapping[str, Any] | None = None if exchange.answer is None else exchange.answer.model_dump()
    return {
        "key": exchange.key,
        "delay": exchange.delay,
        "answer": None if answer is None else {"number": number, **answer},
    }


def _unpacked(path: Path) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(path.read_bytes()[:MOST_BYTES], MOST_BYTES + 1)
    except (OSError, zlib.error) as error:
        raise RecordError(f"{path} cannot be read ({error})", _HINT) from None
    if len(data) > MOST_BYTES:
        raise RecordError(f"{path} holds more than {MOST_BYTES >> 20} MB", _HINT)
    if not unpacker.eof or unpacker.unused_data:
        raise RecordError(f"{path} ends early or late", _HINT)
    return data
