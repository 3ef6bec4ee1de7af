"""How much of a source includes headers before it declares anything; found by its looks. May not compile anything."""

from __future__ import annotations

import re

__all__ = ["length_of_beginning"]

_COMMENT = rb"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
_STEP = re.compile(
    rb"\s+|%b|#[ \t]*(?P<word>\w*)(?:%b|\"(?:\\.|[^\"\\\n])*\"|\\\r?\n|[^\n])*" % (_COMMENT, _COMMENT),
    re.DOTALL,
)
_DEPTHS = {b"if": 1, b"ifdef": 1, b"ifndef": 1, b"endif": -1}
_WORDS = {*_DEPTHS, b"elif", b"else", b"include", b"define", b"undef"}
"""Of directives that clang keeps with what it has precompiled; not all pragmas are."""


def length_of_beginning(text: bytes) -> int:
    r"""The bytes up to the end of the last ``#include``, or of the condition that it is under; 0 where there is none.

    >>> length_of_beginning(b"#include <a.h>\nint n;\n#include <b.h>\n"), length_of_beginning(b"int n;\n")
    (14, 0)
    """
    at = end = depth = 0
    pending = False
    while step := _STEP.match(text, at):
        at, word = step.end(), step["word"]
        if word and word not in _WORDS:
            break
        depth += _DEPTHS.get(word or b"", 0)
        pending |= word == b"include"
        if pending and depth == 0:
            end, pending = at, False
    return end
