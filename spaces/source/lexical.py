"""What can be said of a piece of C text without parsing it: whether it is whole, and what it names.

Covers C, C++, OpenCL C and CUDA. May not judge what the text means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

__all__ = [
    "bare_directives",
    "closing",
    "code",
    "conditionals",
    "damage",
    "directives",
    "is_switch",
    "overloads",
    "raw_strings",
    "tokens",
    "unbalanced",
    "unused",
    "with_names",
    "without_arguments",
    "words",
]

_PIECE = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    |(?P<open_comment>/\*)
    |(?:u8|[uUL])?R"(?P<mark>[^ ()\\\t\v\f\n]{0,16})\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    |(?P<open_text>")
    |(?P<directive>^[ \t]*\#[ \t]*(?P<word>\w+))
    |(?P<token>\w+|[^\w\s])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_BEFORE = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/(?=(?:[ \t]|/\*(?:[^*\n]|\*(?!/))*\*/)*#)")
_LINE = re.compile(r"(?:[^\n]*\\\r?\n)*[^\n]*")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_SWITCH = re.compile(r"switch\b")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
_DEEPEST = 120
"""Nesting of brackets that readers of trees get along with."""


def damage(text: str) -> str:
    """What of a text would swallow what follows it, one line; empty when nothing does."""
    if "\0" in text:
        return "there is a NUL character"
    if text.rstrip(" \t").endswith("\\"):
        return "the last line goes on with a backslash"
    conditionals = depth = 0
    for found in _PIECE.finditer(text):
        if found["open_comment"]:
            return "a comment is not closed"
        if found["open_text"]:
            return "a string is not closed"
        if found["word"] in ("if", "ifdef", "ifndef"):
            conditionals += 1
        elif found["word"] == "endif":
            conditionals -= 1
            if conditionals < 0:
                return "an #endif has no #if"
        depth += (found["token"] in _OPENING) - (found["token"] in _CLOSING)
        if depth > _DEEPEST:
            return f"brackets are nested more than {_DEEPEST} deep"
    return "an #if has no #endif" if conditionals else ""


def directives(text: str) -> Iterator[tuple[str, range]]:
    """The word of each directive of the preprocessor, and the characters up to the end of its line.

    What looks like one in comments and strings is none.
    """
    for piece in _PIECE.finditer(text):
        if piece["directive"]:
            end = _LINE.match(text, piece.end())
            yield piece["word"], range(piece.start("directive"), piece.end() if end is None else end.end())


def bare_directives(text: str) -> str:
    """A text with blanks for comments that a directive follows in its line."""
    return _BEFORE.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)


def raw_strings(text: str) -> Iterator[range]:
    """Where the raw strings of C++ stand."""
    if 'R"' in text:
        yield from (range(*piece.span()) for piece in _PIECE.finditer(text) if piece["mark"] is not None)


def conditionals(text: str) -> list[tuple[range, ...]]:
    """Where the directives of each conditional of the preprocessor stand, ``#if`` to ``#endif``, inner ones first.

    Each is a range of characters up to the end of its line. What is not closed is left out.
    """
    opened: list[list[range]] = []
    found: list[tuple[range, ...]] = []
    for word, place in directives(text):
        if word not in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            continue
        if word.startswith("if"):
            opened.append([place])
        elif opened:
            opened[-1].append(place)
            if word == "endif":
                found.append(tuple(opened.pop()))
    return found


def unbalanced(text: str) -> str:
    """Which bracket has no other, one line; empty when all have, or when conditionals may hold one twice."""
    waiting: list[str] = []
    for token in tokens(text):
        if token.startswith("#"):
            return ""
        if token in _OPENING:
            waiting.append(_OPENING[token])
        elif token in _CLOSING and (not waiting or waiting.pop() != token):
            return f"a {token!r} closes nothing"
    return f"a {waiting[-1]!r} is missing" if waiting else ""


def closing(text: str, at: int) -> int:
    """Where the bracket is that closes the one at a place; the text's end where there is none."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in _OPENING) - (text[place] in _CLOSING)
        if not depth:
            return place
    return len(text)


def code(text: str) -> str:
    """The text with blanks for its comments and strings, of as many lines."""
    return _PIECE.sub(lambda m: m[0] if m["directive"] or m["token"] else " " + "\n" * m[0].count("\n"), text)


def tokens(text: str) -> list[str]:
    """The text's tokens without comments and white space; a string is one token, ``#`` with its word another."""
    return [
        "#" + m["word"] if m["directive"] else m[0] for m in _PIECE.finditer(text) if m["comment"] is None
    ]


def is_switch(text: str) -> bool:
    """Whether a statement's text is a ``switch``."""
    return _SWITCH.match(text) is not None


@lru_cache(maxsize=1024)
def words(text: str) -> frozenset[str]:
    """The names in a text, keywords and those in comments and strings among them."""
    return frozenset(_WORD.findall(text))


@lru_cache(maxsize=64)
def overloads(text: str) -> bool:
    """Whether a text of C++ has operators of its own; what comments and strings say does not count."""
    # What looks like a character may stand between the marks of two numbers (1'000).
    return "operator" in text and any(
        t == "operator" or (t[0] == "'" and "operator" in t) for t in tokens(text)
    )


def unused(stem: str, taken: Collection[str], mark: str = "_") -> str:
    """A name that is not taken: a stem, with a number behind a mark where it is."""
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}{mark}{number}"
    return name


def with_names(text: str, names: Mapping[str, str]) -> str:
    """A text with other names in the place of some."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)


def without_arguments(name: str) -> str:
    """A name of C++ without arguments of templates, operators aside.

    >>> without_arguments("ns::Grid<pair<int, 3>, 2>::at"), without_arguments("axpy<float, TILE>")
    ('ns::Grid::at', 'axpy')
    """
    while (found := re.sub(r"(?<=\w)\s*<[^<>]*>", "", name)) != name:
        name = found
    return name
