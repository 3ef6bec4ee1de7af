"""One byte string for one value: the basis of every hash, so that equal content has equal digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["canonical_json", "digest", "digest_json", "from_canonical", "from_json"]

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)
_DECODER = json.JSONDecoder()


def _encoding() -> Callable[[Any], str]:
    """What :data:`_ENCODER` does, which makes its part in C anew for every value: as long as a short body takes."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    text = json.encoder.encode_basestring
    in_c = make(None, _ENCODER.default, text, None, ":", ",", True, False, False)
    return lambda value: "".join(in_c(value, 0))


_encode = _encoding()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space.

    Raises:
        ValueError: for NaN and infinities, which JSON cannot hold (encode them as strings or ``None``).
        TypeError: for anything that is not JSON's own kind of value (NumPy scalars included).
        RecursionError: for what holds itself.
    """
    return _encode(value)


def from_json(text: str) -> Any:
    """The inverse of :func:`canonical_json`."""
    return json.loads(text)


def from_canonical(text: str) -> Any:
    """The same for what :func:`canonical_json` has just made: nothing is looked for around the value."""
    return _DECODER.raw_decode(text)[0]


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Mapping[str, Any] | list[Any] | tuple[Any, ...] | str | int | float | None) -> str:
    """:func:`digest` of :func:`canonical_json`."""
    return digest(canonical_json(value).encode())
