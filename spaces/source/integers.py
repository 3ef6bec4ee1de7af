"""What is known of integers at a place in a function, and what follows from it.

What is known are polynomials over symbols that are nowhere negative; isl says what they imply. A symbol is a variable
that stays as it is there, or an element of a table of constants. May not know statements or change anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spaces.source.affine import never, polynomial
from tuner.spaces.source.kinds import is_pure, plain_type, whole_number
from tuner.spaces.source.syntax import Binary, Cast, Expr, Index, Name, Number, Unary

__all__ = ["Known", "rank"]

_SMALL = re.compile(r"(signed |unsigned )?(char|short|short int)|u?int(8|16)_t|uchar|ushort")
_NARROW = re.compile(r"(signed )?int|signed|int32_t")
_WIDE = re.compile(r"(signed )?(long|long int|long long|long long int)|int64_t|ptrdiff_t|ssize_t|intptr_t")
_UNSIGNED = re.compile(r"size_t|uint64_t|uintptr_t|ulong|unsigned long( long)?( int)?")
_INT_MOST = 2**31 - 1
_RANKS = ("int", "long", "size_t")

_ELEMENT = re.compile(r"\w+\[(-?\d+),(-?\d+)\]@")


@lru_cache(maxsize=256)
def rank(kind: str) -> str | None:
    """How a type of integers is computed with.

    Returns:
        ``int`` in 32 bits, ``long`` in 64, ``size_t`` in 64 without sign. ``None`` for 32 bits without sign, which wrap
        around at numbers that occur, for what changes by itself, and for what is no integer.
    """
    if "*" in kind:
        return None
    bare = plain_type(kind)
    if _SMALL.fullmatch(bare):
        return "int"
    patterns = zip((_NARROW, _WIDE, _UNSIGNED), _RANKS, strict=True)
    return next((name for pattern, name in patterns if pattern.fullmatch(bare)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known at a place.

    Attributes:
        source: the file's text, where macros and tables of constants stand.
        facts: polynomials that are not negative.
        names: what each variable stands for, an expression over symbols; ``None`` for what may change.
        ranks: of symbols.
    """

    source: str
    facts: tuple[Polynomial, ...] = ()
    names: Mapping[str, Expr | None]
    ranks: Mapping[str, str]

    def holding(self, *facts: Polynomial) -> Known:
        """With more facts."""
        return replace(self, facts=(*self.facts, *facts))

    def declaring(self, name: str, kind: str, value: Expr | None) -> Known:
        """With a variable that stays as it is from here on.

        Args:
            name: it hides others of that name.
            kind: its type.
            value: over symbols, where it is known.
        """
        own = rank(kind)
        if own is None:
            return self.hiding(name)
        given = None if value is None or _SMALL.fullmatch(plain_type(kind)) else self._rank(value)
        if given == own:
            return replace(self, names={**self.names, name: value})
        symbol = f"{name}@{len(self.ranks)}"
        made = replace(self, names={**self.names, name: Name(symbol)}, ranks={**self.ranks, symbol: own})
        before = None if value is None else polynomial(value, ())
        if before is None or (given, own) != ("int", "long"):
            return made
        return made.holding(variable(symbol) - before, before - variable(symbol))

    def hiding(self, name: str) -> Known:
        """With a variable of which nothing is known."""
        return replace(self, names={**self.names, name: None})

    def integer(self, expr: Expr) -> tuple[Polynomial, str] | None:
        """The value of an expression and how it is computed; ``None`` where that is not known."""
        found = self.resolved(expr)
        kind = None if found is None else self._rank(found)
        poly = None if found is None else polynomial(found, ())
        return None if kind is None or poly is None else (poly, kind)

    def implies(self, poly: Polynomial) -> bool:
        """Whether a polynomial is nowhere negative."""
        parts = [*self.facts, constant(-1) - poly]
        symbols = sorted({s for f in parts for m in f for s in m})
        return never([*parts, *(p for symbol in symbols for p in self._ends(symbol))])

    @property
    def impossible(self) -> bool:
        """Whether no numbers meet all facts."""
        return self.implies(constant(-1))

    def resolved(self, expr: Expr) -> Expr | None:
        """An integer expression over symbols."""
        match expr:
            case Number(text=text):
                return expr if _literal_rank(text) else None
            case Name(id=name):
                if name in self.names:
                    return self.names[name]
                return expr if _is_number(name, self.source) else None
            case Index(base=Name(id=name), index=index):
                at = self.resolved(index) if name not in self.names and is_pure(index) else None
                ends = None if at is None else _table(name, self.source)
                return None if ends is None else Name(f"{name}[{ends[0]},{ends[1]}]@{at}")
            case Unary(op="-" as op, operand=operand):
                inner = self.resolved(operand)
                return None if inner is None else Unary(op, inner)
            case Cast(type=kind, operand=operand):
                inner = self.resolved(operand)
                return None if inner is None else Cast(kind, inner)
            case Binary(op="+" | "-" | "*" as op, left=left, right=right):
                a, b = self.resolved(left), self.resolved(right)
                return None if a is None or b is None else Binary(op, a, b)
        return None

    def _rank(self, expr: Expr) -> str | None:
        """How an expression over symbols is computed."""
        match expr:
            case Number(text=text):
                return _literal_rank(text)
            case Name(id=name):
                return self.ranks.get(name, "int")
            case Unary(operand=operand):
                return self._rank(operand)
            case Cast(type=kind, operand=operand):
                inner, made = self._rank(operand), rank(kind)
                return None if inner is None or (made == "int" and inner != "int") else made
            case Binary(left=left, right=right):
                a, b = self._rank(left), self._rank(right)
                return None if a is None or b is None else max(a, b, key=_RANKS.index)
        return None

    def _ends(self, symbol: str) -> Iterator[Polynomial]:
        """What a symbol itself says: elements of a table lie between its least and its largest."""
        found = _ELEMENT.match(symbol)
        if found is not None:
            yield variable(symbol) - constant(int(found[1]))
            yield constant(int(found[2])) - variable(symbol)
        elif self.ranks.get(symbol) == "size_t":
            yield variable(symbol)


def _literal_rank(text: str) -> str | None:
    found = whole_number(text)
    return None if found is None else rank(found[1])


@lru_cache(maxsize=512)
def _is_number(name: str, source: str) -> bool:
    """Whether a name is a macro that always stands for a number of type ``int``."""
    bodies = re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b(.*)$", source, re.MULTILINE)
    numbers = [re.fullmatch(r"\s+\(?(0|[1-9]\d*)\)?\s*(//.*|/\*.*\*/\s*)?", body) for body in bodies]
    return bool(numbers) and all(n is not None and int(n[1]) <= _INT_MOST for n in numbers)


@lru_cache(maxsize=512)
def _table(name: str, source: str) -> tuple[int, int] | None:
    """Least and largest element of a table of constant integers; ``None`` for anything else."""
    declared = re.findall(
        rf"^([^\n;{{}}()=]*)\b{name}\s*\[([^\]]*)\]\s*=\s*\{{([^{{}}]*)\}}\s*;", source, re.MULTILINE
    )
    if not declared or len(declared) != len(re.findall(rf"\b{name}\s*(?:\[[^\]]*\]\s*)+=[^=]", source)):
        return None
    numbers: list[int] = []
    for before, _, inside in declared:
        words = before.split()
        constant_words = {"const", "constexpr", "__constant", "constant"} & set(words)
        values = [v.strip() for v in inside.split(",") if v.strip()]
        if (
            not constant_words
            or rank(before) != "int"
            or not all(re.fullmatch(r"[-+]?(0|[1-9]\d*)", v) for v in values)
        ):
            return None
        # Elements that are not listed are zero.
        numbers += [0, *map(int, values)]
    return min(numbers), max(numbers)
