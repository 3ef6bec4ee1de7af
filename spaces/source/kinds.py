"""Types by name, types without their qualifiers, expressions without effects; and the exception of what is refused.

May not reason about dependences.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.parse import ADDRESS_SPACE, ALIGNED
from tuner.spaces.source.syntax import Assign, Call, Decl, Expr, For, Function, Opaque, Unary
from tuner.spaces.source.walks import scoped, statements, subtrees

__all__ = [
    "MAY_WRAP",
    "Refused",
    "all_types_of",
    "element_types_of",
    "hidden",
    "is_floating",
    "is_integer",
    "is_known_name",
    "is_narrow",
    "is_number",
    "is_pure",
    "is_unsigned",
    "keeps_value",
    "lasts",
    "plain_type",
    "types_of",
    "whole_number",
    "writable",
]

_MATHEMATICAL = (
    r"(sqrt|rsqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|"
    r"asinh|acosh|atanh|fabs|fdim|floor|ceil|trunc|round|fmin|fmax|fma|fmod|hypot|erf|erfc|copysign)[fl]?|abs|labs|llabs"
)
_PURE = re.compile(
    rf"{_MATHEMATICAL}|__builtin_\w*(fabs|sqrt|fma)\w*|get_(global|local|group|num)_(id|size|groups)|native_\w+|"
    rf"std::({_MATHEMATICAL}|isnan|isinf|isfinite|signbit|(min|max|clamp)(<[\w: ]+>)?|"
    r"numeric_limits<[\w: ]+>::(min|max|lowest|epsilon|infinity|quiet_NaN|denorm_min))"
)
_KNOWN = re.compile(r"min|max|f(min|max)|(get|barrier|work_group_barrier|__sync)\w*")
"""Further names that operators go by."""
_INTEGER = re.compile(r"\b(char|short|int|long|size_t|ptrdiff_t|ssize_t|unsigned|u?int\d+_t)\b")
_NUMBER_WORD = re.compile(
    r"_?[bB]ool|_Float16|char|short|int|long|signed|unsigned|float|double|s?size_t|ptrdiff_t|u?int\d+_t"
)
_NARROW = re.compile(
    r"((un)?signed )?(char|short)( int)?|short (un)?signed( int)?|u?int(8|16)_t|uchar|ushort|_?[bB]ool"
)
_UNSIGNED = re.compile(r"\b(unsigned|size_t|uint(32|64)?(_t)?|uintptr_t|ulong)\b")
_OF_STD = re.compile(r"\bstd::(?=(?:size_t|ptrdiff_t|u?int(?:8|16|32|64)_t)\b)")
"""Before names of numbers that C has without it."""
_LASTING = frozenset({"static", "_Thread_local", "thread_local", "__thread"})
MAY_WRAP = re.compile(r"\b(unsigned|u?size_t|uint\d*(_t)?|u?char|ulong|ushort)\b")
"""Types of whole numbers, or their elements', that have no sign or too few bits."""
_FLOATING = re.compile(r"\b(float|double|_Float16|half)\b")
_CONSTANT = ("const", "constexpr", "register")
_WHOLE = re.compile(r"(?P<hexadecimal>0[xX][0-9a-fA-F]+)|(?P<octal>0[0-7]+)|(?P<decimal>0|[1-9][0-9]*)")
_SAYS_NOTHING = frozenset(
    {
        *("static", "inline", "extern", "__inline", "__inline__", "__forceinline__"),
        *("__device__", "__host__", "restrict", "__restrict", "__restrict__", *_CONSTANT),
    }
)
"""Words of a declaration that say nothing of the values; ``volatile`` does: they change by themselves."""


class Refused(Exception):
    """Why a transformation does not apply, one line."""


def types_of(function: Function) -> dict[str, str]:
    """Types by name, of parameters and variables; none of names that repeat with another type."""
    return dict(_types(function))


@kept_by_identity(1 << 10)
def _types(function: Function) -> dict[str, str]:
    found: dict[str, str] = {}
    several = set[str]()
    for name, kind, _ in _variables(function):
        if name in found and _compared(found[name]) != _compared(kind):
            several.add(name)
        found[name] = kind
    return {name: kind for name, kind in found.items() if name not in several}


def _compared(kind: str) -> tuple[str, bool]:
    return plain_type(kind), "*" in kind


def all_types_of(function: Function) -> dict[str, set[str]]:
    """All types that names are declared with, of parameters and variables; of any array a star."""
    found: dict[str, set[str]] = {}
    for name, kind, is_array in _variables(function):
        found.setdefault(name, set()).add("*" if is_array else kind)
    return found


def element_types_of(function: Function) -> dict[str, str]:
    """Plain types by name, of arrays their elements'; none of names that repeat with another type."""
    found: dict[str, set[str]] = {}
    for name, kind, _ in _variables(function):
        found.setdefault(name, set()).add(plain_type(kind))
    return {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1}


@kept_by_identity(1 << 10)
def _variables(function: Function) -> tuple[tuple[str, str, bool], ...]:
    """Parameters, then variables, with their types and whether they are arrays; the counters of loops last."""
    within = list(statements(function.body))
    declared = (*function.variables, *function.outer, *(s for s in within if isinstance(s, Decl)))
    counters = (s for s in within if isinstance(s, For) and s.type)
    return (
        *((p.name, f"{p.base} *" if p.is_array else p.base, p.is_array) for p in function.params),
        *(
            (d.name, f"{d.row_element} *", True) if d.row_element else (d.name, d.type, bool(d.dims))
            for d in declared
        ),
        *((loop.var, loop.type, False) for loop in counters),
    )


@lru_cache(maxsize=1024)
def plain_type(kind: str) -> str:
    """A type without stars and all words that say nothing of its values: of a pointer or an array its element's.

    ``std::size_t`` is ``size_t``.

    ``volatile`` stays, so what is volatile equals no type that is asked for.
    """
    kind = ALIGNED.sub(" ", kind)
    words = ADDRESS_SPACE.sub(" ", _OF_STD.sub("", kind).replace("*", " ")).split()
    return " ".join(w for w in words if w not in _SAYS_NOTHING)


def writable(kind: str) -> str:
    """A variable's type such that it can be assigned to."""
    return " ".join(w for w in kind.split() if w not in _CONSTANT)


def is_integer(kind: str) -> bool:
    """Whether a type's name is an integer's."""
    return bool(_INTEGER.search(kind)) and not _FLOATING.search(kind) and "*" not in kind


@lru_cache(maxsize=1024)
def whole_number(text: str) -> tuple[int, str] | None:
    """The value and the type of a literal of a whole number; ``None`` for any other text.

    That is the first type that holds the number; one without sign only if it says so, or is no decimal number.
    """
    digits = text.rstrip("uUlL")
    suffix, found = text[len(digits) :].lower(), _WHOLE.fullmatch(digits)
    if found is None:
        return None
    decimal = found["decimal"] is not None
    value = int(digits, 10 if decimal else 8 if found["octal"] else 16)
    for kind, bits in (("int", 31), ("unsigned int", 32), ("long", 63), ("unsigned long", 64)):
        signed = not kind.startswith("unsigned")
        allowed = "u" not in suffix if signed else "u" in suffix or not decimal
        if value < 1 << bits and allowed and ("l" not in suffix or "long" in kind):
            return value, kind
    return None


def is_number(kind: str) -> bool:
    """Whether a type's name is a number's and nothing else, whichever qualifiers it has."""
    words = plain_type(kind).split()
    return bool(words) and all(map(_NUMBER_WORD.fullmatch, words))


def is_narrow(kind: str) -> bool:
    """Whether a type's numbers wrap around, or are cut off, where those of an ``int`` go on."""
    return bool(_NARROW.fullmatch(plain_type(kind)))


def is_unsigned(kind: str) -> bool:
    """Whether what is compared with a type's numbers (of an element, for pointers) loses its sign."""
    return bool(_UNSIGNED.search(kind)) and not is_narrow(kind)


def keeps_value(decl: Decl) -> bool:
    """Whether a variable is there once and not once for each iteration."""
    return lasts(decl) and "const" not in decl.type.split()


def lasts(decl: Decl) -> bool:
    """Whether a variable is there once for all calls, and gets its first value in the first."""
    return not _LASTING.isdisjoint(decl.type.split())


def hidden(function: Function) -> str:
    """A name that is declared again where it already means something; by names the two cannot be told apart."""

    # What nothing asks for any more behind the region is as good as not there.
    outer = (d.name for d in function.outer if d.name in function.read_after)
    around = frozenset([*(p.name for p in function.params), *outer])
    for stmt, known in scoped(function.body, around):
        if isinstance(stmt, Decl) and stmt.name in known:
            return stmt.name
        if isinstance(stmt, For) and stmt.type and stmt.var in known:
            return stmt.var
    return ""


def is_floating(kind: str) -> bool:
    """Whether a type's name is a floating-point number's (of an element, for pointers)."""
    return bool(_FLOATING.search(kind))


def is_known_name(name: str) -> bool:
    """Whether operators know by its name alone what a function does."""
    return bool(_PURE.fullmatch(name) or _KNOWN.fullmatch(name))


def is_pure(expr: Expr) -> bool:
    """Whether evaluating an expression has no effect and always gives the same for the same variables."""
    for part in subtrees(expr):
        if isinstance(part, Assign | Opaque):
            return False
        if isinstance(part, Call) and (part.own == "unknown" or not _PURE.fullmatch(part.function)):
            return False
        if isinstance(part, Unary) and part.op in ("*", "&"):
            return False
    return True
