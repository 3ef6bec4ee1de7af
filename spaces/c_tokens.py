"""C-like text (C, C++, OpenCL C, CUDA) as tokens that know where they stand, without a grammar.

For :mod:`tuner.spaces.mutations`; decides nothing about what is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

__all__ = ["KEYWORDS", "Token", "closing", "operand_after", "operand_before", "scan"]

_TOKEN = re.compile(
    r"""(?P<skip>^[ \t]*\#(?:[^\n\\]|\\.)*|[^\S\n]+|\n|//[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlLuU]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
_BEFORE_BODY = {")", "const", "noexcept", "override", "final", ";"}
"""In C of before 1989 the types of parameters stand there, each with a semicolon."""
KEYWORDS = {"return", "sizeof", "case", "else", "do", "goto"}
"""Names before an operand that are no operand themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token.

    Attributes:
        kind: ``text``, ``number``, ``name`` or ``mark``.
        text: as it stands there.
        start, end: characters from the beginning.
        body: whether it stands in a function's body.
        place: ``start``, ``bound`` or ``step`` within the head of a loop, ``extent`` of a declared array; else empty.
    """

    kind: str
    text: str
    start: int
    end: int
    body: bool = False
    place: str = ""


def scan(text: str) -> list[Token]:
    """All tokens but comments and preprocessor lines; those within the bodies of functions are marked."""
    raw = [
        Token(kind=m.lastgroup or "", text=m[0], start=m.start(), end=m.end())
        for m in _TOKEN.finditer(text)
        if m.lastgroup != "skip"
    ]
    return _extents(_place(_mark_bodies(raw)))


def _mark_bodies(tokens: list[Token]) -> list[Token]:
    stack: list[bool] = []
    marked = []
    for i, token in enumerate(tokens):
        inside = any(stack)
        marked.append(replace(token, body=inside))
        if token.text == "{":
            stack.append(inside or (i > 0 and tokens[i - 1].text in _BEFORE_BODY))
        elif token.text == "}" and stack:
            stack.pop()
    return marked


def _place(tokens: list[Token]) -> list[Token]:
    """Says of each token whether it stands in a loop's ``start``, ``bound`` or ``step``."""
    placed = list(tokens)
    for i, token in enumerate(tokens[:-1]):
        if token.text not in ("for", "while") or tokens[i + 1].text != "(":
            continue
        parts = ["start", "bound", "step"] if token.text == "for" else ["bound"]
        depth, part = 0, 0
        for j in range(i + 1, len(tokens)):
            text = tokens[j].text
            depth += (text in _OPEN) - (text in _CLOSE)
            if depth == 0:
                break
            if text == ";" and depth == 1:
                part += 1
            elif part < len(parts):
                placed[j] = replace(placed[j], place=parts[part])
    return placed


def _extents(tokens: list[Token]) -> list[Token]:
    """Marks what stands between the brackets of an array that is declared: another extent only costs memory."""
    placed = list(tokens)
    for i, token in enumerate(tokens):
        if token.text != "[" or i < 2 or tokens[i - 1].kind != "name":
            continue
        if tokens[i - 2].kind != "name" or tokens[i - 2].text in KEYWORDS:
            continue
        end: int | None = i
        while end is not None and end < len(tokens) and tokens[end].text == "[":
            last = closing(tokens, end)
            for j in range(end + 1, len(tokens) if last is None else last):
                placed[j] = replace(placed[j], place="extent")
            end = None if last is None else last + 1
    return placed


def operand_after(tokens: Sequence[Token], i: int) -> int | None:
    """Index of the last token of the operand that follows."""
    j = i + 1
    while j < len(tokens) and tokens[j].text in ("-", "+", "!", "~", "*", "&"):
        j += 1
    if j >= len(tokens):
        return None
    if tokens[j].text == "(":
        end = closing(tokens, j)
    elif tokens[j].kind in ("name", "number"):
        end = j
    else:
        return None
    while end is not None and end + 1 < len(tokens):
        following = tokens[end + 1].text
        if following in ("(", "["):
            end = closing(tokens, end + 1)
        elif following in (".", "->") and end + 2 < len(tokens):
            end += 2
        else:
            break
    return end


def operand_before(tokens: Sequence[Token], i: int) -> int | None:
    """Index of the first token of the operand that ends before ``i``."""
    j = i - 1
    while j >= 0:
        if tokens[j].text in (")", "]"):
            opening = _opening(tokens, j)
            if opening is None:
                return None
            j = opening
            if j > 0 and (tokens[j - 1].kind == "name" or tokens[j - 1].text in (")", "]")):
                if tokens[j - 1].text in KEYWORDS | {"if", "for", "while", "switch"}:
                    return j
                j -= 1
                continue
            return j
        if tokens[j].kind not in ("name", "number"):
            return None
        if j >= 2 and tokens[j - 1].text in (".", "->"):
            j -= 2
            continue
        return j
    return None


def closing(tokens: Sequence[Token], i: int) -> int | None:
    """Index of the bracket that closes the one at ``i``."""
    return _match(tokens, range(i, len(tokens)), _OPEN, _CLOSE)


def _opening(tokens: Sequence[Token], i: int) -> int | None:
    return _match(tokens, range(i, -1, -1), _CLOSE, _OPEN)


def _match(tokens: Sequence[Token], where: range, more: Iterable[str], less: Iterable[str]) -> int | None:
    more, less = set(more), set(less)
    depth = 0
    for j in where:
        depth += (tokens[j].text in more) - (tokens[j].text in less)
        if depth == 0:
            return j
    return None
