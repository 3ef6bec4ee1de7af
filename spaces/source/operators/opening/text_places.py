"""Members that are known as text, for the time in which a function is put in the place of its call: places and types.

Untyped places are made of such text, renamed like everything else, and become text again. May not transform anything
else, and may not judge whether a call can go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.spaces.source.expressions import parse_place
from tuner.spaces.source.kinds import plain_type
from tuner.spaces.source.operators.opening.membership import declared_kinds, types_in
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.structures import Member, Structures
from tuner.spaces.source.syntax import Expr, Field, Function, Index, Name, Number, Opaque, Param, Unary
from tuner.spaces.source.walks import map_expressions, transform

__all__ = ["Kinds", "as_text", "is_reference", "with_places"]

_OPERAND = re.compile(r"[A-Za-z_]\w*(?:\s*(?:->|\.)\s*[A-Za-z_]\w*|\[\w+\])*")
_REFERENCE = re.compile(r"(?:(?:const|struct)\s+)*[A-Za-z_]\w*(?:\s+const)?\s*&\s*[A-Za-z_]\w*")
_ZERO = Number("0")


def read_place(text: str) -> Expr | None:
    """A member as a place without types; ``None`` for any other text, and where a part of it cannot be read."""
    place = parse_place(text)
    return None if place is None else with_places(place)


def with_places(part: Any) -> Any:
    """Statements or expressions in which members that are known as text are places, their types left open."""

    def change(expr: Expr) -> Expr:
        place = read_place(expr.text) if isinstance(expr, Opaque) else None
        return expr if place is None else place

    return map_expressions(part, change)


def as_text(part: Any) -> Any:
    """Statements with such places as text again, and without ``*`` of ``&``."""

    def plain(expr: Any) -> Any:
        match expr:
            case Index(base=Unary(op="&", operand=operand), index=index) if index == _ZERO:
                return operand
            case Unary(op="*", operand=Unary(op="&", operand=operand)):
                return operand
        return expr

    def change(expr: Expr) -> Expr:
        return Opaque(_text(expr)) if isinstance(expr, Field) and not expr.type else expr

    # Children first, so that a place's own text is made of that of its parts.
    return map_expressions(transform(part, plain), change)


def _text(expr: Expr) -> str:
    """A place as it is written; parts that hold an operator have parentheses."""
    match expr:
        case Opaque(text=text) if _OPERAND.fullmatch(text):
            return text
        case Field(base=Index(base=base, index=index), name=name) if index == _ZERO:
            return f"{_text(base)}->{name}"
        case Field(base=base, name=name):
            return f"{_text(base)}.{name}"
        case Index(base=base, index=index):
            return f"{_text(base)}[{expression_text(index)}]"
        case Name(id=name):
            return name
    return f"({expression_text(expr)})"


def is_reference(param: Param, language: str) -> bool:
    """Whether a parameter is a plain reference of C++."""
    return (
        language in ("c++", "cuda")
        and param.suffix == "?"
        and not param.stars
        and _REFERENCE.fullmatch(param.text.strip()) is not None
    )


@dataclass(frozen=True, slots=True)
class Kinds:
    """Types of names and places in one function: the plain type, and how many subscripts lead to it."""

    names: Mapping[str, Member]
    types: Structures | None

    @classmethod
    def of(cls, function: Function, within: Function) -> Kinds:
        """Types in a function of the text that another one stands in."""
        found = {n: next(iter(k)) for n, k in declared_kinds(function).items() if len(k) == 1}
        for param in function.params:
            if is_reference(param, within.language) and len(declared_kinds(function)[param.name]) == 1:
                found[param.name] = Member(plain_type(param.base), 0)
        return cls(found, types_in(within))

    def of_place(self, expr: Expr) -> tuple[str, int] | None:
        """The type of a name, an element, a member or an address of one; ``None`` where it is not known."""
        match expr:
            case Opaque(text=text):
                place = read_place(text)
                return None if place is None or isinstance(place, Opaque) else self.of_place(place)
            case Name(id=name):
                found = self.names.get(name)
                return None if found is None or found.depth < 0 else self._meant(found.type, found.depth)
            case Unary(op="&", operand=Name() | Index() | Field() | Opaque() as operand):
                found_at = self.of_place(operand)
                return None if found_at is None or found_at[1] else (found_at[0], 1)
            case Index(base=base):
                found_at = self.of_place(base)
                return None if found_at is None or found_at[1] < 1 else (found_at[0], found_at[1] - 1)
            case Field(base=base, name=name):
                return self._of_member(self.of_place(base), name)
        return None

    def _of_member(self, of: tuple[str, int] | None, name: str) -> tuple[str, int] | None:
        if of is None or of[1] or self.types is None:
            return None
        pointee = self.types.pointee(of[0], name)
        if pointee is not None:
            return self._meant(pointee.type, 2 if pointee.rows else 1)
        member = self.types.members(of[0]).get(name)
        return None if member is None else self._meant(member.type, member.depth)

    def of_return(self, function: Function) -> tuple[str, int] | None:
        """What a function returns, likewise."""
        return self._meant(function.head.replace("*", " "), function.head.count("*"))

    def _meant(self, kind: str, depth: int) -> tuple[str, int] | None:
        kind = plain_type(kind)
        if "volatile" in kind.split() or "_Atomic" in kind:
            return None
        if self.types is not None:
            kind = self.types.held(kind) or self.types.meant(kind)
        return kind, depth

    def is_number(self, expr: Expr) -> bool:
        """Whether a name or place is one number for certain."""
        found = self.of_place(expr)
        return (
            found is not None
            and not found[1]
            and self.types is not None
            and self.types.is_arithmetic(found[0])
        )
