"""The macros of a source that could be tuned, found by their looks. May not compile anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tuner.core.reaching import reachable

__all__ = ["Macros", "choices", "directives", "macros_of", "names_used", "of_problem", "of_tuning", "spread"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VALUE = r"\(?[ \t]*(\d+)[uUlL]*[ \t]*\)?[ \t]*$"
_GUARDED = re.compile(
    rf"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+{_VALUE}(?=\s*#[ \t]*endif\b)",
    re.MULTILINE,
)
"""By itself: what else stands under the condition would go with the definition."""
_DEFINED = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+{_VALUE}", re.MULTILINE)
_TUNABLE = re.compile(
    r"(?:.*_)?(?:BLOCKS?|TILES?|UNROLL|CHUNK|STRIP|STEP|VECTOR|VEC|WIDTH|LANES|ROWS|COLS|DEPTH|PREFETCH|UF|BS|TS)"
    r"(?:_?(?:SIZE|LEN|WIDTH|FACTOR|DIM|[IJKMNXYZ0-9]))*",
    re.I,
)
_PROBLEM = re.compile(
    r"(?:.*_)?(?:[NMK][IJKLXYZ]?|RADIUS|HALO|TAPS|BINS|ORDER|DEGREE|CLASSES|CHANNELS|STEPS|ITERATIONS|ITERS)"
    r"(?:_?[XYZ0-9])?"
)
_LARGEST = 1 << 20
_BLANKS = re.compile(r"[ \t]+(?=\s)|(?<=\n)\n+")
_ARITHMETIC = r"(?:[-+*/%]|<<|>>)"
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|elif|ifdef|ifndef)\b[^\n]*", re.MULTILINE)


_NAME = re.compile(r"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Macros:
    """Macros of a source with whole numbers as values.

    Attributes:
        guarded: under ``#ifndef``, so that ``-DNAME=value`` takes the place of the value.
        fixed: without, and named like a tunable: nothing outside the source can change them.
        values: what those may be worth trying at, the source's own first.
        missing: what the source uses and nothing defines.
    """

    guarded: dict[str, int]
    fixed: dict[str, int]
    values: dict[str, list[int]]
    missing: tuple[str, ...] = ()

    def without(self, names: Iterable[str]) -> Macros:
        """Without those that a build defines."""
        known = {*names}
        return replace(self, guarded={n: value for n, value in self.guarded.items() if n not in known})


def macros_of(text: str) -> Macros:
    """The macros that the rest of the source uses.

    >>> macros_of("#define TILE 32\\nint a[TILE];").fixed
    {'TILE': 32}
    """
    plain = _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", text)
    guarded = {name: int(value) for name, value in _GUARDED.findall(plain) if _used(name, plain)}
    defined = {name: int(value) for name, value in _DEFINED.findall(plain)}
    fixed = {
        name: value
        for name, value in defined.items()
        if name not in guarded and _TUNABLE.fullmatch(name) and _used(name, plain)
    }
    values = {name: choices(name, value, plain) for name, value in (guarded | fixed).items()}
    small = {name: value for name, value in guarded.items() if value <= _LARGEST and values[name]}
    fixed = {name: value for name, value in fixed.items() if values[name]}
    return Macros(guarded=small, fixed=fixed, values=values)


def choices(name: str, value: int, text: str) -> list[int]:
    """Values for a macro, by what the source does with it; the default comes first, and none says to leave it alone.

    With 0 or 1 it may be a switch, one of several ways, or a number. A loop that 0 leaves out is another problem where
    it runs, and what is stepped by or divided by 1 cannot be 0.

    >>> choices("PAD", 0, "float tile[16][16 + PAD];"), choices("FAST", 0, "#if FAST")
    ([0, 1, 2, 4], [0, 1])
    >>> choices("WAY", 0, "#if WAY == 2"), choices("TERMS", 0, "for (int i = 0; i < TERMS; i++)")
    ([0, 1, 2], [])
    """
    if value > 1:
        return spread(value)
    # A pattern that may begin with blanks tries each of a long row of them.
    without = _BLANKS.sub(" ", _CONDITION.sub("", text))
    word = rf"\(?\s*\b{name}\b\s*\)?"
    bound = re.search(
        rf"(?<![<-])[<>]=?\s*{word}(?!\s*[<>])|{word}\s*[<>]=?\s*[A-Za-z_]|for\s*\([^;]*=\s*{word}\s*;",
        without,
    )
    number = re.search(rf"{_ARITHMETIC}=?\s*{word}|{word}\s*{_ARITHMETIC}|\[\s*{word}\s*\]", without)
    number = number or re.search(rf"^[ \t]*#[ \t]*pragma\b[^\n]*\b{name}\b", without, re.MULTILINE)
    if value == 0 and bound:
        return []
    if number or bound:
        return [0, 1, 2, 4] if value == 0 else [1, 2, 4, 8]
    ways = re.findall(rf"\b{name}\s*[!=]=\s*(\d+)\b|\b(\d+)\s*[!=]=\s*{name}\b", text)
    others = {0, 1, *(int(one or other) for one, other in ways)} - {value}
    return [value, *sorted(others)]


def of_problem(name: str) -> bool:
    """Whether a macro is named like a part of the problem: another value gives other results, not another speed.

    >>> [of_problem(name) for name in ("RADIUS", "NI", "TILE_N", "UNROLL", "BLOCK_SIZE")]
    [True, True, False, False, False]
    """
    return _PROBLEM.fullmatch(name) is not None and _TUNABLE.fullmatch(name) is None


def of_tuning(name: str) -> bool:
    """Whether a macro is named like a part of how something is computed, such as a tile."""
    return _TUNABLE.fullmatch(name) is not None


def spread(value: int) -> list[int]:
    """Values around a default of 2 or more, which comes first: half, twice and four times of it.

    >>> spread(32)
    [32, 16, 64, 128]
    """
    return list(dict.fromkeys([value, value // 2, value * 2, value * 4]))


def _used(name: str, plain: str) -> bool:
    """Whether anything but its definition names it."""
    without = re.sub(rf"^[ \t]*#[ \t]*(?:ifndef|define)[ \t]+{name}\b[^\n]*", "", plain, flags=re.MULTILINE)
    return re.search(rf"\b{name}\b", without) is not None


def directives(text: str) -> str:
    """The directives of a text."""
    return "\n".join(_DIRECTIVE.findall(text))


def names_used(text: str) -> set[str]:
    """The names in code, and in the macros that these name in turn.

    >>> sorted(names_used("#define N M\\n#define K 2\\nint a = N;"))
    ['M', 'N', 'a', 'int']
    """
    macros = {name: set(_NAME.findall(value)) for name, value in _MACRO.findall(text)}
    return reachable(_NAME.findall(_DIRECTIVE.sub(" ", text)), lambda name: macros.get(name, set()))
