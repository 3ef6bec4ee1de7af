"""A region's text as the compiler sees it for given values of tunables: conditionals decided, own macros replaced.

What hangs on anything else (the compiler's macros, those of headers, tunables without a value) stays as it is written.
Names of macros that stand for one number stay too. May not read statements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.macros import (
    PIECE,
    Macro,
    evaluate,
    expand,
    is_number,
    macro_of,
    number_macro,
    truth,
)

__all__ = ["configured", "deciding", "known_names"]

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?P<word>\w*)(?P<rest>.*)", re.DOTALL)
_PRAGMA = re.compile(r'_Pragma\s*\(\s*"((?:\\.|[^"\\\n])*)"\s*\)')
_BLANK = re.compile(r"\n[ \t]*(?=\n)(?:\n[ \t]*(?=\n))+")


def deciding(text: str) -> set[str]:
    """The names in a file's ``#if`` and ``#elif``; guards of defaults ask by ``#ifndef`` and do not count."""
    found: set[str] = set()
    for piece in PIECE.finditer(text):
        parts = _DIRECTIVE.match(piece["directive"] or "")
        if parts is not None and parts["word"] in ("if", "elif"):
            found |= set(re.findall(r"[A-Za-z_]\w*", parts["rest"]))
    return found


def configured(
    text: str,
    start: int,
    end: int,
    values: Mapping[str, int],
    *,
    known: Mapping[str, bool] = MappingProxyType({}),
) -> str:
    """A part of a file with its conditionals decided and the file's macros replaced.

    Args:
        text: the whole file.
        start: of the part, in characters.
        end: likewise.
        values: of tunables, which the compiler is given.
        known: names of which is known whether the compiler itself defines them.

    Raises:
        Refused: the part is not compiled with these values, cuts through a conditional, or uses a macro wrongly.
    """
    walk = _Walk(text, start, end, values, known)
    for piece in PIECE.finditer(text):
        if piece.start() >= end:
            break
        walk.take(piece)
    return walk.finished()


def known_names(language: str) -> dict[str, bool]:
    """Names of which is known whether every compiler of a language defines them."""
    # OpenCL C may be compiled as C++, too.
    return {} if language == "opencl" else {"__cplusplus": language in ("c++", "cuda")}


@dataclass(slots=True)
class _Frame:
    """One conditional: whether its branch is compiled (``None``: who knows), and whether an earlier one was."""

    now: bool | None
    outside: bool | None
    taken: bool
    kept: bool


@dataclass(slots=True)
class _Walk:
    """The way through a file; what lies in the part is collected."""

    text: str
    start: int
    end: int
    values: Mapping[str, int]
    known: Mapping[str, bool]
    macros: dict[str, Macro | None] = field(default_factory=dict)
    defined: dict[str, bool] = field(default_factory=dict)
    frames: list[_Frame] = field(default_factory=list)
    depth: int | None = None
    waiting: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.macros = {name: number_macro(value) for name, value in self.values.items()}
        self.defined = {**self.known, **dict.fromkeys(self.values, True)}

    def take(self, piece: re.Match[str]) -> None:
        inside = piece.start() >= self.start
        if inside and self.depth is None:
            self.depth = len(self.frames)
            if self._now() is not True:
                raise Refused("the region is not compiled with these values")
        if piece["directive"]:
            self._flush()
            self._directive(piece["directive"], inside)
        elif inside and self._now() is not False:
            self.waiting.append(piece[0])

    def finished(self) -> str:
        self._flush()
        if self.depth is None or len(self.frames) != self.depth:
            raise Refused("the region cuts through a conditional")
        return _BLANK.sub("\n", "".join(self.made))

    def _now(self) -> bool | None:
        return self.frames[-1].now if self.frames else True

    def _flush(self) -> None:
        if not self.waiting:
            return
        known = {
            n: m for n, m in self.macros.items() if m is not None and (n in self.values or not is_number(m))
        }
        changed = "".join(expand(self.waiting, known))
        self.made.append(_PRAGMA.sub(_as_directive, changed))
        self.waiting = []

    def _directive(self, line: str, inside: bool) -> None:
        parts = _DIRECTIVE.match(line)
        word, rest = ("", "") if parts is None else (parts["word"], parts["rest"])
        begins = False
        if word in ("elifdef", "elifndef"):
            raise Refused(f"#{word} is not known")
        if word in ("if", "ifdef", "ifndef"):
            kept = self._open(word, rest)
        elif word in ("elif", "else", "endif"):
            before = self.frames[-1].kept if self.frames else False
            kept = self._go_on(word, rest)
            begins = word == "elif" and kept and not before
        else:
            if self._now() is False:
                return
            kept = True
            if word in ("define", "undef"):
                kept = self._define(word, rest)
            elif word == "include" and '"' in rest:
                # It may define anything again.
                self.macros = {n: number_macro(v) for n, v in self.values.items()}
                self.defined = {**self.known, **dict.fromkeys(self.values, True)}
        if not (inside and kept):
            return
        if begins:
            line = line.replace("elif", "if", 1)
        if word == "pragma":
            line = "".join(expand(_words(line), {n: number_macro(v) for n, v in self.values.items()}))
        self.made.append(line)

    def _condition(self, word: str, rest: str) -> bool | None:
        if word in ("if", "elif"):
            return truth(evaluate(rest, self.macros, self.defined))
        name = rest.split()[0] if rest.split() else ""
        known = self.defined.get(name)
        return known if known is None or word == "ifdef" else not known

    def _open(self, word: str, rest: str) -> bool:
        outside = self._now()
        if outside is False:
            self.frames.append(_Frame(False, outside, True, False))
            return False
        value = self._condition(word, rest)
        now = None if value is None else (outside if value else False)
        self.frames.append(_Frame(now, outside, value is True, value is None))
        return value is None

    def _go_on(self, word: str, rest: str) -> bool:
        if not self.frames or (self.depth is not None and len(self.frames) <= self.depth):
            raise Refused("the region cuts through a conditional")
        frame = self.frames[-1]
        if word == "endif":
            self.frames.pop()
            return frame.kept
        if frame.kept:
            return True
        if frame.taken:
            frame.now = False
            return False
        value = True if word == "else" else self._condition(word, rest)
        if value is None:
            frame.now, frame.kept = None, True
            return True
        frame.now = frame.outside if value else False
        frame.taken = value
        return False

    def _define(self, word: str, rest: str) -> bool:
        """Takes in a definition; whether it has to stay in the text."""
        name, macro = macro_of(rest) if word == "define" else (rest.split()[0] if rest.split() else "", None)
        if self._now() is None:
            self.macros[name] = None
            self.defined.pop(name, None)
            return True
        self.defined[name] = word == "define"
        if word == "undef":
            self.macros.pop(name, None)
        else:
            self.macros[name] = macro
        replaced = word == "define" and macro is not None and not is_number(macro)
        return not replaced or re.search(rf"\b{name}\b", self.text[self.end :]) is not None


def _as_directive(found: re.Match[str]) -> str:
    words = re.sub(r"\\(.)", r"\1", found[1])
    return f"\n#pragma {words}\n"


def _words(line: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*|\d[\w.]*|.", line, re.DOTALL)
