"""A source with the headers of its own project in the place of their ``#include``.

What the compiler sees of the project before a kernel's text, so that macros and functions of headers are known there as
those of the file itself are. What cannot be told for sure is refused: a header that could be one of two, one that
is named by a macro, a directive or a pragma that is not known. May not decide conditionals or replace macros.

Source: ISO/IEC 9899:2011, 6.10.2.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.macros import PIECE, pieces

__all__ = ["HARMLESS_PRAGMA", "directive_of", "includes_own", "spliced"]

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?P<word>\w*)(?P<rest>.*)", re.DOTALL)
_NAMED = re.compile(r'\s*(?:"(?P<own>[^"\n]+)"|<(?P<other>[^>\n]+)>)\s*')
_NEGATED = re.compile(r"\s*!\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*")
_PLAIN = frozenset(
    {"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif"}
    | {"pragma", "error", "warning", "include", "line"}
)
HARMLESS_PRAGMA = re.compile(
    r"(once|GCC (diagnostic|ivdep|unroll)|clang (diagnostic|loop)|omp|unroll|nounroll|ivdep|mark|message|"
    r"OPENCL EXTENSION)\b"
)
"""Pragmas that mean the same wherever a function's text stands, or that go with a loop."""

_UNREADABLE = re.compile(r"\w\\\n\w|\?\?[=/'()!<>-]|^[ \t]*%:", re.MULTILINE)
_DEEPEST = 40
_LARGEST = 500_000


def spliced(name: str, text: str, files: Mapping[str, str], include: Sequence[str] = ()) -> str:
    """A file's text with headers in the place of their includes.

    Directives lose their comments. Guards of headers are left out where nothing hangs on them.

    Args:
        name: the file's.
        text: its text, or the beginning of it.
        files: the project's other files by their names, relative to one folder.
        include: folders of headers, relative to it.

    Raises:
        Refused: what the compiler sees is not known for sure.
    """
    return _Splicing(files, include).read(name, text, 0, 0)


def includes_own(text: str) -> bool:
    """Whether a text includes a file in quotes."""
    found = (directive_of(m["directive"]) for m in PIECE.finditer(text) if m["directive"])
    return any(word == "include" and '"' in rest for word, rest in found)


def directive_of(line: str) -> tuple[str, str]:
    """A directive's word and the rest of its line, without comments."""
    parts = _DIRECTIVE.match(line.replace("\\\n", " "))
    if parts is None:
        return "", ""
    return parts["word"], "".join(pieces(parts["rest"])).strip()


@dataclass(slots=True)
class _Splicing:
    files: Mapping[str, str]
    include: Sequence[str]
    sure: set[str] = field(default_factory=set)
    """Guards, or names of headers with ``#pragma once``, of what was included in any case."""
    unsure: set[str] = field(default_factory=set)
    """Of what was included under a condition."""
    guards: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    """Names that a definition was met of, whatever condition it hangs on."""
    size: int = 0

    def read(self, name: str, text: str, conditions: int, depth: int) -> str:
        self.size += len(text)
        if depth > _DEEPEST or self.size > _LARGEST:
            raise Refused(f"{name} and what it includes do not end, or are too large")
        if _UNREADABLE.search(text):
            raise Refused(f"{name} splits a word over lines, or uses trigraphs")
        made: list[str] = []
        for piece in PIECE.finditer(text):
            if piece[0] == "#":
                raise Refused(f"{name} has a directive behind a comment")
            if not piece["directive"]:
                made.append(piece[0])
                continue
            word, rest = directive_of(piece["directive"])
            conditions += word.startswith("if")
            conditions -= word == "endif"
            made.append(self._directive(name, word, rest, conditions, depth))
        return "".join(made)

    def _directive(self, name: str, word: str, rest: str, conditions: int, depth: int) -> str:
        if (word or rest) and word not in _PLAIN:
            raise Refused(f"{name} has '#{word}', which is not known")
        if word == "pragma" and not HARMLESS_PRAGMA.match(" ".join(rest.split())):
            raise Refused(f"{name} has '#pragma {rest}', which may count for all that follows it")
        if word == "undef" and rest in self.guards:
            raise Refused(f"{name} takes back {rest}, which keeps a header from being read twice")
        if word == "define":
            self.defined.add(re.split(r"\W", rest, maxsplit=1)[0])
        if word != "include":
            return f"#{word} {rest}\n"
        found = _NAMED.fullmatch(rest)
        if found is None:
            raise Refused(f"{name} includes {rest}, and which file that is hangs on a macro")
        header = self._header(found["own"] or found["other"], own=bool(found["own"]))
        return f"#{word} {rest}\n" if header is None else self._included(header, conditions, depth)

    def _header(self, target: str, *, own: bool) -> str | None:
        """The known file that an include means; ``None`` for one of the compiler or the system."""
        wanted = posixpath.normpath(target)
        while wanted.startswith("../"):
            wanted = wanted[3:]
        fitting = [n for n in self.files if n == wanted or n.endswith(f"/{wanted}")]
        if not own and not fitting:
            return None
        brought = [
            n for f in self.include if (n := posixpath.normpath(posixpath.join(f, target))) in self.files
        ]
        if not own and brought:
            # Those folders come before the system's.
            return brought[0]
        if not own:
            raise Refused(f"<{target}> may be {fitting[0]} or a header of the system; write it in quotes")
        if not fitting:
            raise Refused(f"{target} is included and not found; name its folder in kernel.include")
        if len({self.files[n] for n in fitting}) > 1:
            raise Refused(f"{target} may be {' or '.join(fitting)}")
        return fitting[0]

    def _included(self, header: str, conditions: int, depth: int) -> str:
        text = self.files[header]
        guard = _guard(text)
        keys = {guard[0]} if guard else set[str]()
        if _once(text):
            keys.add(f"once {header}")
        if keys & self.unsure:
            raise Refused(f"{header} is included again, after it was under a condition")
        if keys & self.sure:
            return "\n"
        if keys and conditions:
            self.unsure |= keys
        elif keys:
            self.sure |= keys
        # A guard that something else has defined keeps the header out.
        sole = guard is not None and not conditions and guard[0] not in self.defined
        if guard and not conditions:
            self.guards.add(guard[0])
        kept = guard[1] if guard and sole else text
        return f"\n{self.read(header, kept, conditions, depth + 1)}\n"


def _once(text: str) -> bool:
    found = (directive_of(m["directive"]) for m in PIECE.finditer(text) if m["directive"])
    return any(word == "pragma" and rest.split()[:1] == ["once"] for word, rest in found)


def _guard(text: str) -> tuple[str, str] | None:
    """The name that keeps a header from being read twice, and what it keeps, with the name's definition."""
    told = [m for m in PIECE.finditer(text) if not m["comment"] and not m[0].isspace()]
    told = [m for m in told if not (m["directive"] and directive_of(m["directive"]) == ("pragma", "once"))]
    if len(told) < 3 or not all(m["directive"] for m in (told[0], told[1], told[-1])):
        return None
    (first, asked), (second, defined), (last, _) = (
        directive_of(m["directive"]) for m in (told[0], told[1], told[-1])
    )
    negated = _NEGATED.fullmatch(asked) if first == "if" else None
    name = asked if first == "ifndef" else (negated[1] or negated[2]) if negated else ""
    if not name.isidentifier() or second != "define" or defined.split()[:1] != [name] or last != "endif":
        return None
    depth = 0
    for piece in told[:-1]:
        word = directive_of(piece["directive"])[0] if piece["directive"] else ""
        depth += word.startswith("if")
        depth -= word == "endif"
        if depth < 1 or (depth == 1 and word.startswith("el")):
            return None
    return name, text[told[1].start() : told[-1].start()]
