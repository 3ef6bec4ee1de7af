"""Macros and directives of a text, by name and kind: where there are any that matter, nothing else is said of it.

What the compiler's preprocessor leaves has none. May not say what a macro stands for or what a condition comes to.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import code, words
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.printer import function_text
from tuner.spaces.source.syntax import Function, Opaque, OpaqueStmt
from tuner.spaces.source.walks import subtrees

__all__ = ["macro_words", "macros_in", "plain_text", "require_plain_text", "unread"]

_DEFINE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*define[ \t]+([A-Za-z_]\w*)(.*)", re.MULTILINE)
_NUMBER = re.compile(r"[ \t]+\(?-?\.?\d[\w.]*\)?\s*(//.*|/\*.*)?")
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*((?!pragma\b)\w+)", re.MULTILINE)
_HARMLESS = re.compile(
    r"^[ \t]*#[ \t]*(?:"
    r"pragma[ \t]+(?:once|GCC[ \t]+(?:diagnostic|ivdep|unroll)|clang[ \t]+(?:diagnostic|loop)|omp|unroll|nounroll|ivdep"
    r"|(?:no)?unroll_and_jam|acc|hmpp\w*|simd|(?:no)?vector|_CRI|pgi|intel|loop_count|concurrent|prefetch|(?:end)?region"
    r"|warning|mark|message|OPENCL[ \t]+EXTENSION)\b.*"
    r"|include[ \t]*<(?:[a-z]+|(?:math|std\w+|string|float|limits|assert|\w+intrin|omp|cuda\w*)\.h)>.*"
    r"|ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+\(?-?\d\w*\)?[ \t]*\n[ \t]*#[ \t]*endif\b.*"
    r"|define[ \t]+\w+[ \t]+\(?-?\.?\d[\w.]*\)?[ \t]*"
    r")$",
    re.MULTILINE,
)
"""What goes with a loop, is for other compilers, brings the language's own functions, or gives a number its name."""
_LEFT = re.compile(r"^[ \t]*((?:#|%:).*)", re.MULTILINE)


@lru_cache(maxsize=64)
def macros_in(text: str) -> frozenset[str]:
    """Macros that a text defines as anything but one number."""
    found = _DEFINE.findall(plain_text(text))
    return frozenset(name for name, body in found if body.strip() and not _NUMBER.fullmatch(body))


@lru_cache(maxsize=64)
def macro_words(text: str) -> frozenset[str]:
    """Words of all definitions of macros in a text."""
    return frozenset[str]().union(*(words(body) for _, body in _DEFINE.findall(plain_text(text))))


@lru_cache(maxsize=64)
def unread(text: str) -> str:
    """The first directive on which the meaning of a text may hang; empty where there is none."""
    found = _LEFT.search(_HARMLESS.sub("", plain_text(text)))
    return " ".join(found[1].split()) if found is not None else ""


def plain_text(text: str) -> str:
    """A text with blanks for comments and strings, and lines that go on as one."""
    return code(text.replace("\\\n", " "))


@kept_by_identity(1 << 10)
def _hides(function: Function) -> str:
    texts = [n.text for n in subtrees((function.outer, function.body)) if isinstance(n, Opaque | OpaqueStmt)]
    directive = next((m for text in (function.signature, *texts) if (m := _DIRECTIVE.search(text))), None)
    if directive is not None:
        return f"the function has #{directive[1]} in it"
    macros = macros_in(function.source)
    named = macros & words(function_text(function)) if macros else None
    return f"the function names {min(named)}, a macro" if named else ""


def require_plain_text(function: Function) -> None:
    """Refuses a function of which the compiler sees another text: one with macros or conditionals in it."""
    reason = _hides(function)
    if reason:
        raise Refused(reason)
