"""Source files as text and back, whatever their encoding: each byte comes back as it was.

Bytes that are no UTF-8, such as those of Latin-1 in old C, become characters of Unicode's private use area, one for one
byte. So texts can be cut, compared, and written into JSON as any other; compilers get the file's own bytes.

Source: the characters are those that MirOS's OPTU-8 has for the same purpose.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "free_name",
    "lines_of_text",
    "readable_text",
    "source_bytes",
    "source_text",
    "text_of_file",
    "with_changes",
]

_FIRST, _HALF = 0xEF80, 0x80
"""The character of the byte 0x80, and the first byte that may be no UTF-8."""
_KEPT = re.compile("[\uef80-\uefff]")
_KEPT_BYTES = re.compile(rb"\xee[\xbe\xbf][\x80-\xbf]")
_STRAY = re.compile("[\udc80-\udcff]")
"""How Python marks bytes that are no UTF-8; JSON has no such characters."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def source_text(data: bytes) -> str:
    """A source file's text.

    >>> source_text("ä".encode()), source_text("ä".encode("latin-1"))
    ('ä', '\\uefe4')
    """
    # A file may hold these very characters: then their bytes are kept one by one.
    data = _KEPT_BYTES.sub(lambda found: b"".join(_character(b).encode() for b in found[0]), data)
    text = data.decode("utf-8", "surrogateescape")
    return _STRAY.sub(lambda found: _character(ord(found[0]) & 0xFF), text)


def source_bytes(text: str) -> bytes:
    """What a source file holds whose text this is.

    >>> source_bytes(source_text(b"/* \\xe4\\xf6 */"))
    b'/* \\xe4\\xf6 */'
    """
    return _KEPT_BYTES.sub(lambda found: bytes((_byte(found[0].decode()),)), text.encode())


def free_name(name: str, texts: Sequence[str]) -> str:
    """A name like this one that no text has."""
    while any(re.search(rf"\b{name}\b", text) for text in texts):
        name += "_"
    return name


def text_of_file(path: Path) -> str:
    """A source file's text with ``\\n`` as its line ends.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no text.
    """
    data = path.read_bytes()
    if b"\0" in data:
        raise ValueError("it is no text, or in UTF-16")
    return source_text(data).replace("\r\n", "\n")


def readable_text(text: str) -> str:
    """A text for people: bytes that are no UTF-8 as the characters of Latin-1 that they most often are."""
    return _KEPT.sub(lambda found: chr(_byte(found[0])), text)


def lines_of_text(text: str) -> list[str]:
    """Lines with their ends as compilers and ``patch`` count them: a form feed ends none."""
    return _LINE.findall(text)


def with_changes(given: str, text: str) -> str:
    """A text's lines with the line ends that they have in another, which new lines are given as most of it has them.

    Args:
        given: with ``\\n``, ``\\r\\n`` or both.
        text: what is to become of it, with ``\\n`` alone.
    """
    before, after = lines_of_text(given), lines_of_text(text)
    plain = [line.replace("\r\n", "\n") for line in before]
    if plain == before:
        return text
    most = "\r\n" if 2 * given.count("\r\n") > given.count("\n") else "\n"
    made: list[str] = []
    for kind, first, last, begin, end in difflib.SequenceMatcher(None, plain, after, False).get_opcodes():
        new = (line.replace("\n", most) for line in after[begin:end])
        made += before[first:last] if kind == "equal" else new
    return "".join(made)


def _character(byte: int) -> str:
    return chr(_FIRST + byte - _HALF)


def _byte(character: str) -> int:
    return ord(character) - _FIRST + _HALF
