"""One byte string for one value: the basis of every hash, so that equal content has equal digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["canonical_json", "digest", "digest_json", "from_json"]

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space.

    Raises:
        ValueError: for NaN and infinities, which JSON cannot hold (encode them as strings or ``None``).
        TypeError: for anything that is not JSON's own kind of value (NumPy scalars included).
    """
    return _ENCODER.encode(value)


def from_json(text: str) -> Any:
    """The inverse of :func:`canonical_json`."""
    return json.loads(text)


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Mapping[str, Any] | list[Any] | tuple[Any, ...] | str | int | float | None) -> str:
    """:func:`digest` of :func:`canonical_json`."""
    return digest(canonical_json(value).encode())
