"""Whether SPIR-V gives every value a number of its own: what a faulty code generator gets wrong, and drivers die of.

Looks at nothing else; a whole validation is the device's.

Source: SPIR-V specification, binary form (Khronos).
"""

from __future__ import annotations

import struct

__all__ = ["number_given_twice"]

_HEADER_WORDS = 5
_RESULT_FIRST = frozenset({7, 11, 73, 248, *range(19, 39)})
"""Instructions whose first operand is their result: strings, imports, groups, labels, types."""

_RESULT_SECOND = frozenset(
    {
        *(1, 12, 54, 55, 57, 59, 60, 61, 227, 245),
        *range(41, 47),
        *range(48, 53),
        *range(65, 71),
        *range(77, 85),
        *range(109, 125),
        *range(126, 153),
        *range(154, 192),
        *range(194, 206),
        *range(229, 243),
    }
)
"""Instructions whose second operand is their result, behind its type."""


def number_given_twice(module: bytes) -> int | None:
    """The first number that two instructions give to their results; ``None`` where there is none.

    Args:
        module: in the byte order of this machine, as a code generator here makes it.
    """
    words: tuple[int, ...] = struct.unpack(f"<{len(module) // 4}I", module[: len(module) // 4 * 4])
    seen: set[int] = set()
    at = _HEADER_WORDS
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        place = 1 if opcode in _RESULT_FIRST else 2 if opcode in _RESULT_SECOND else 0
        if length == 0 or at + length > len(words):
            return None
        if place and place < length:
            number = words[at + place]
            if number in seen:
                return number
            seen.add(number)
        at += length
    return None
