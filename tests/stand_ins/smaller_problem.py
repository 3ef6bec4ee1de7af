"""A spec as it is written, but for the sizes of its problem: calls of micros- instead of milliseconds."""

from __future__ import annotations

import re

__all__ = ["smaller_problem"]

_PROBLEM = re.compile(r"(?<=^problem: \{)[^}\n]*(?=\})", re.MULTILINE)
_SIZE = re.compile(r"\b\d+\b")
_SMALLER = {
    1 << 22: 4096,
    1 << 20: 4096,
    1 << 16: 1024,
    4096: 256,
    2048: 128,
    1024: 128,
    256: 64,
    160: 32,
    96: 32,
}
"""What ``tuner init`` begins with by the depth of the work; what is not among them is the source's own."""


def smaller_problem(text: str) -> str:
    """The text of a first spec with smaller first sizes, which blocks divide as they do the given ones."""

    def smaller(found: re.Match[str]) -> str:
        return _SIZE.sub(lambda size: str(_SMALLER.get(int(size[0]), int(size[0]))), found[0])

    return _PROBLEM.sub(smaller, text)
