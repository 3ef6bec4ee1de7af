"""What a run record holds, as bytes: bodies in canonical JSON, the chain of hashes, blobs and their names.

Pure functions; may not touch files.

The chain: an event's hash is SHA-256 over the 32 bytes of the hash before it, then, in UTF-8, the canonical
JSON of ``[seq, kind, trial]``, a newline, and the body's canonical JSON. Before the first event stands
:data:`GENESIS`. JSON holds no raw newline, so no two events have the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import zlib
from collections.abc import Mapping
from typing import Any

from tuner.core.canonical import canonical_json
from tuner.core.errors import RecordError

__all__ = [
    "GENESIS",
    "REFERENCE",
    "blob_reference",
    "check_kind",
    "check_trial",
    "encode_body",
    "link",
    "pack",
    "references",
    "unpack",
]

GENESIS = hashlib.sha256(b"remix-tuner run record, version 1").digest()
"""The hash before the first event."""

REFERENCE = "blob:"
"""How a body names a blob: a text of this and 64 hexadecimal digits, and nothing else."""

_KIND = re.compile(r"[a-z][a-z0-9_./-]*")
_IN_TEXT = re.compile(r'(?<!\\)"blob:([0-9a-f]{64})"(?!:)')
"""A reference in canonical JSON: neither a key nor part of a longer text, whose quotes have backslashes."""
_BEGIN = f'"{REFERENCE}'
_INTEGER_LIMIT = 1 << 63
_TEXT = frozenset({str})
_PLAIN = frozenset({int, float, str, bool, type(None)})
_ZLIB_LEVEL = 3
_WORTH_PACKING = 0.9


def blob_reference(data: bytes) -> str:
    """How a body names this blob: ``"blob:"`` and the SHA-256 of the bytes in hexadecimal."""
    return REFERENCE + hashlib.sha256(data).hexdigest()


def check_kind(kind: str) -> str:
    """The kind, when it is one.

    Raises:
        RecordError: for anything but lower-case words joined by ``_ . / -``.
    """
    if not isinstance(kind, str) or _KIND.fullmatch(kind) is None:
        raise RecordError(f"{kind!r} is not a kind of event", "use lower-case letters, digits and _ . / -")
    return str(kind)


def check_trial(trial: int | None) -> int | None:
    """The trial's number, when it is one; raises ``RecordError`` otherwise."""
    if trial is None:
        return None
    if isinstance(trial, bool) or not isinstance(trial, int) or not 0 <= trial < _INTEGER_LIMIT:
        raise RecordError(f"{trial!r} is not a trial's number", "give a number from 0, or None")
    return int(trial)


def encode_body(kind: str, body: Mapping[str, Any]) -> str:
    """The body's canonical JSON.

    Raises:
        RecordError: for what JSON cannot give back: NaN, infinities, keys that are not text, other types,
            lone surrogates, nesting beyond the interpreter's limit. The message says where in the body.
    """
    if not isinstance(body, dict | Mapping):
        raise RecordError(f"the body of a {kind!r} event is {type(body).__name__}", "give a mapping")
    plain = dict(body)
    try:
        if not _keys_are_text(plain):
            raise TypeError("keys must be text")
        text = canonical_json(plain)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        where, what = _culprit(plain) or ("body", str(error))
        raise RecordError(
            f"a {kind!r} event cannot be recorded: {where} is {what}",
            "bodies hold finite numbers, texts, lists, mappings from text, true, false and null",
        ) from error
    return text


def link(previous: bytes, seq: int, kind: str, trial: int | None, text: str) -> bytes:
    """The hash of the event after ``previous``; ``text`` is its body's canonical JSON. 32 bytes."""
    content = f"[{seq},{_quoted(kind)},{_quoted(trial)}]\n{text}"
    return hashlib.sha256(previous + content.encode()).digest()


@functools.lru_cache(maxsize=4096, typed=True)
def _quoted(value: str | int | None) -> str:
    return canonical_json(value)


def references(text: str) -> set[str]:
    """The digests of the blobs that a body names; ``text`` is its canonical JSON."""
    return set(_IN_TEXT.findall(text)) if _BEGIN in text else set()


def pack(data: bytes) -> tuple[bool, bytes]:
    """The bytes to store, and whether they are zlib's: only where that saves a tenth or more."""
    packed = zlib.compress(data, _ZLIB_LEVEL)
    if len(packed) <= _WORTH_PACKING * len(data):
        return True, packed
    return False, data


def unpack(packed: bool, stored: bytes, size_bytes: int) -> bytes:
    """The inverse of :func:`pack`.

    Raises:
        ValueError: the stored bytes are not what ``pack`` made from ``size_bytes`` bytes. No more than that
            is ever unpacked.
    """
    data = stored
    if packed:
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(stored, size_bytes + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        # What zlib stopped short of, or was not its own, would make one blob storable in two ways.
        if not unpacker.eof or unpacker.unused_data:
            raise ValueError("the compressed bytes end early or late")
    if len(data) != size_bytes:
        raise ValueError(f"{len(data)} bytes where {size_bytes} were stored")
    return data


def _keys_are_text(value: Any) -> bool:
    # json turns 1, True and None into texts without a word, so that a reader would see another body.
    # Most of what is in a body is numbers, and this is asked for every event.
    items = value
    if isinstance(value, dict):
        if not _TEXT.issuperset(map(type, value)) and not all(isinstance(key, str) for key in value):
            return False
        items = value.values()
    if _PLAIN.issuperset(map(type, items)):
        return True
    nested = [item for item in items if type(item) not in _PLAIN]
    return all(_keys_are_text(item) for item in nested if isinstance(item, (dict, list, tuple)))


def _culprit(value: Any, where: str = "body", depth: int = 0) -> tuple[str, str] | None:
    if depth > 100:
        return where, "nested too deeply"
    if value is None or isinstance(value, (bool, int)):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else (where, str(float(value)))
    if isinstance(value, str):
        return None if value.isascii() or _encodable(value) else (where, "a text that is not valid Unicode")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"{where}[{key!r}]", f"under a key of type {type(key).__name__}"
            found = _culprit(key, f"a key of {where}", depth + 1) or _culprit(
                item, f"{where}[{key!r}]", depth + 1
            )
            if found:
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = _culprit(item, f"{where}[{index}]", depth + 1)
            if found:
                return found
        return None
    return where, f"of type {type(value).__name__}"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
