"""Reads members of structures, and lists of first values, in a function's tree where its text says what they are.

May not change what is computed, nor where anything lies.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from tuner.spaces.source.directives import macros_in, unread
from tuner.spaces.source.expressions import parse_expression, parse_items, parse_place
from tuner.spaces.source.kinds import is_pure, keeps_value, plain_type, writable
from tuner.spaces.source.operators.base import Keys, fresh_name
from tuner.spaces.source.operators.bounds import joined
from tuner.spaces.source.operators.naming import RETURN, declared_as_text
from tuner.spaces.source.operators.opening.references import dereferenced, references, with_pointers
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.structures import Member, Structures, structures
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    Field,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import (
    children,
    index_chain,
    map_expressions,
    names_in,
    opaque_words,
    statements,
    subtrees,
    with_bodies,
)

__all__ = ["declared_kinds", "types_in", "with_members"]

_OVERLOAD = re.compile(r"\boperator\b")
_LITERAL = re.compile(r"\(\s*(\w+)\s*\)\s*\(((?:[^()]|\([^()]*\))*)\)")
_TYPED = re.compile(r"\(\s*((?:struct\s+)?\w+)\s*\)\s*(\{.*\})", re.DOTALL)
_MOST_ITEMS = 64


def with_members(function: Function, types: Structures, *, returns: bool = False) -> Function:
    """A function with its members and lists read as far as their types are known.

    Args:
        function: any.
        types: of its text.
        returns: whether to give values that are returned a declaration of their own, so that they can be read.
    """
    body = _with_results(function, types) if returns else function.body
    given = replace(function, body=body)
    found = references(given, types)
    if not found and not any(isinstance(n, Opaque) for n in subtrees(body)):
        return function
    while True:
        made = _with_members(with_pointers(given, found), types, found)
        left = opaque_words(made.body)
        if left.isdisjoint(found):
            return made
        # What is left as text means the reference, and no pointer.
        found = {name: decl for name, decl in found.items() if name not in left}


def _with_members(function: Function, types: Structures, found: Collection[str]) -> Function:
    reader = _Reader(function, types, found)
    body = _without_pointers(map_expressions(function.body, reader.expression))
    return _Lists(replace(function, body=body), reader).function()


def _with_results(function: Function, types: Structures) -> tuple[Stmt, ...]:
    """Statements in which ``return a.x;`` is ``float result = a.x; return result;``, which converts likewise."""
    kind = plain_type(function.head)
    if not types.is_known(kind):
        return function.body
    taken: list[str] = []

    def read(stmt: Stmt) -> tuple[Stmt, ...]:
        found = RETURN.fullmatch(stmt.text.strip()) if isinstance(stmt, OpaqueStmt) else None
        value = None if found is None else parse_expression(found[1].strip())
        if value is None or not any(isinstance(n, Opaque) for n in subtrees(value)):
            return (stmt,)
        taken.append(fresh_name(function, "result", taken))
        return (Decl(kind, taken[-1], (), value), OpaqueStmt(f"return {taken[-1]};"))

    def visit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        # A loop that returns is left as it is.
        inner = (s if isinstance(s, For) else with_bodies(s, visit) for s in body)
        return tuple(made for stmt in inner for made in read(stmt))

    return visit(function.body)


def types_in(function: Function) -> Structures | None:
    """The structures that a function's text defines; ``None`` where nothing is known for sure."""
    if unread(function.file) or macros_in(function.file):
        return None
    # In C++ an operator of the user's own may do anything with a structure.
    if function.language in ("c++", "cuda") and _OVERLOAD.search(function.file):
        return None
    return structures(function.file, function.language)


def _without_pointers(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements in which members that are arrays stay text where they are used without all of their subscripts."""
    whole: set[int] = set()
    for node in subtrees(body):
        if isinstance(node, Index):
            base, subscripts = index_chain(node)
            if isinstance(base, Field) and base.type.count("*") == len(subscripts):
                whole.add(id(base))

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Field) and "*" in expr.type and id(expr) not in whole:
            return Opaque(expression_text(expr))
        return expr

    return map_expressions(body, change)


class _Reader:
    """Text as members, as far as types are known."""

    def __init__(self, function: Function, types: Structures, found: Collection[str]) -> None:
        self.types = types
        self._references = found
        self.vectors = function.language == "opencl"
        # What is declared in a way that cannot be read may be anything.
        unsure = declared_as_text(function)
        kinds = {n: k for n, k in declared_kinds(function).items() if n not in unsure and len(k) == 1}
        self._kinds = {name: next(iter(found)) for name, found in kinds.items()}

    def expression(self, expr: Expr) -> Expr:
        """The member, or the vector of values, that a text stands for; itself where that is not known."""
        if not isinstance(expr, Opaque):
            return expr
        literal = _LITERAL.fullmatch(expr.text) if self.vectors else None
        if literal is not None:
            return self._vector(expr, literal[1], literal[2])
        place = parse_place(expr.text)
        place = None if place is None else self.named(place)
        typed = None if place is None else self._typed(place)
        if typed is None:
            return expr
        # Subscripts may hold members of their own.
        return map_expressions(typed[0], self.expression)

    def named(self, expr: Expr) -> Expr:
        """What was just read, with what names of references stand for."""
        return map_expressions(expr, lambda e: dereferenced(e, self._references))

    def _vector(self, expr: Opaque, kind: str, given: str) -> Expr:
        """``(float4)(a, b, c, d)`` of OpenCL."""
        items = parse_items(given)
        if not items or not self.types.is_even(kind):
            return expr
        read = [map_expressions(self.named(i), self.expression) for i in items]
        if not all(is_pure(i) for i in read):
            return expr
        return Cast(kind, joined(",", read))

    def _typed(self, place: Expr) -> tuple[Expr, Member] | None:
        """A place with the types of its members, and what it is; ``None`` where it is not known to be one."""
        match place:
            case Name(id=name):
                root = self._kinds.get(name)
                return None if root is None else (place, root)
            case Index(base=base):
                found = self._typed(base)
                if found is None or found[1].depth < 1:
                    return None
                return replace(place, base=found[0]), replace(found[1], depth=found[1].depth - 1)
            case Field(base=base, name=name):
                found = self._typed(base)
                if found is None or found[1].depth:
                    return None
                member = self.types.members(found[1].type).get(name)
                kind = self.types.components(found[1].type, name) if self.vectors else ""
                if member is None and kind:
                    return Field(found[0], name, kind, several=True), Member(kind, 0)
                if member is None or not self.types.is_known(member.type):
                    return None
                kind = self.types.meant(member.type)
                stars = f" {'*' * member.depth}" if member.depth else ""
                return Field(found[0], name, kind + stars), Member(kind, member.depth)
        return None

    def is_number(self, expr: Expr) -> bool:
        """Whether a value is known to be one number, no vector or structure."""
        waiting: list[Any] = [expr]
        while waiting:
            node = waiting.pop()
            match node:
                case Field(type=kind, several=True):
                    known = self.types.is_arithmetic(kind)
                case Name() | Index() | Field():
                    typed = self._typed(node)
                    known = typed is not None and not typed[1].depth
                    known = known and typed is not None and self.types.is_arithmetic(typed[1].type)
                case Cast(type=kind):
                    known = self.types.is_arithmetic(kind)
                case _:
                    known = isinstance(node, Number | Unary | Binary | Ternary | Call | tuple)
                    waiting += children(node)
            if not known:
                return False
        return True


def declared_kinds(function: Function) -> dict[str, set[Member]]:
    """What names are declared as, with the stars and dimensions of each."""
    found: dict[str, set[Member]] = {}
    for p in function.params:
        depth = p.stars + bool(p.suffix)
        depth = -1 if "?" in p.suffix or "&" in p.text or depth > 1 else depth
        found.setdefault(p.name, set()).add(Member(plain_type(p.base), depth))
    within = tuple(statements(function.body))
    for d in (*function.variables, *function.outer, *(s for s in within if isinstance(s, Decl))):
        stars = d.type.count("*")
        depth = -1 if "&" in d.type or stars > 1 or (stars and d.dims) else len(d.dims) + stars
        found.setdefault(d.name, set()).add(Member(plain_type(d.type), depth))
    for loop in within:
        if isinstance(loop, For) and loop.type:
            found.setdefault(loop.var, set()).add(Member(plain_type(loop.type), 0))
    return found


class _Lists:
    """Lists of first values as assignments behind the declaration."""

    def __init__(self, function: Function, reader: _Reader) -> None:
        self._function = function
        self._reader = reader
        self._types = reader.types
        self._names: set[str] = set()
        self._keys = Keys(function)

    def function(self) -> Function:
        """The function without such lists, where they can be told."""
        return replace(self._function, body=self._scope(self._function.body, within=False))

    def _scope(self, body: tuple[Stmt, ...], *, within: bool) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Decl):
                items = self._items(stmt)
                made += (self._told(stmt, items, within=within) if items else ()) or (stmt,)
            else:
                inner = partial(self._scope, within=within or isinstance(stmt, For))
                made.append(with_bodies(stmt, inner))
        return tuple(made)

    def _items(self, decl: Decl) -> tuple[Expr, ...] | None:
        """The values that a declaration lists: in braces, of its own type or without one, or for a vector of CUDA."""
        match decl.init:
            case Opaque(text=text):
                typed = _TYPED.fullmatch(text)
                if typed is not None and plain_type(typed[1]) == plain_type(decl.type):
                    text = typed[2]
                items = parse_items(text) if text.startswith("{") else None
                return None if items is None else tuple(map(self._reader.named, items))
            case Call(function=name, arguments=arguments) if self._function.language == "cuda":
                kind = self._types.meant(decl.type)
                whole = name == f"make_{kind}" and len(arguments) == len(self._types.members(kind))
                return arguments if whole and not self._redefined(name) else None
        return None

    def _redefined(self, name: str) -> bool:
        """Whether the text may mean another function by a name of CUDA's."""
        text = self._function.file.replace("return ", "(")
        return re.search(rf"[\w>&*]\s+{name}\s*\(|\bdefine\s+{name}\b", text) is not None

    def _told(self, decl: Decl, given: tuple[Expr, ...], *, within: bool) -> list[Stmt]:
        """The declaration without its list, and what gives it its values; nothing where that is not known."""
        kind = set(decl.type.split())
        strange = keeps_value(decl) or kind & {"static", "constexpr", "volatile"} or {"*", "&"} & {*decl.type}
        # A table that nothing changes is worth more as it is.
        fixed = "const" in kind and (not within or self._chooses(decl.name))
        if strange or fixed or len(given) > _MOST_ITEMS:
            return []
        items = [map_expressions(i, self._reader.expression) for i in given]
        if not all(is_pure(i) and self._reader.is_number(i) for i in items) or decl.name in names_in(
            tuple(items)
        ):
            return []
        plain = replace(decl, type=writable(decl.type), init=None)
        if len(decl.dims) == 1 and self._types.is_arithmetic(decl.type):
            return [plain, *self._elements(decl, items)]
        if not decl.dims and self._types.is_even(decl.type):
            return [plain, *self._members(decl, items)]
        return []

    def _chooses(self, name: str) -> bool:
        """Whether a function or a text that is handed a constant may be another one for a variable (C++)."""
        if self._function.language not in ("c++", "cuda"):
            return False
        for node in subtrees(self._function.body):
            match node:
                case Call() | Unary(op="&") if not is_pure(node) and name in names_in(node):
                    return True
        return name in opaque_words(self._function.body)

    def _elements(self, decl: Decl, items: list[Expr]) -> list[Stmt]:
        array, size = Name(decl.name), decl.dims[0]
        whole = items == [Number("0")] or (len(items) == 1 and _is_zero(items[0]))
        count = 0 if whole else len(items)
        made: list[Stmt] = [
            ExprStmt(Assign("=", Index(array, Number(str(at))), item))
            for at, item in enumerate(items[:count])
        ]
        if size == Number(str(count)):
            return made
        var = fresh_name(self._function, "at", self._names)
        self._names.add(var)
        clear = ExprStmt(Assign("=", Index(array, Name(var)), Number("0")))
        return [
            *made,
            For(self._keys.new(var), "int", var, Number(str(count)), "<", size, Number("1"), (clear,)),
        ]

    def _members(self, decl: Decl, items: list[Expr]) -> list[Stmt]:
        members = list(self._types.members(decl.type).items())
        values = [*items, *(Number("0") for _ in members[len(items) :])]
        made: list[Stmt] = []
        for (name, member), value in zip(members, values, strict=True):
            assert member is not None
            place = Field(Name(decl.name), name, self._types.meant(member.type))
            made.append(ExprStmt(Assign("=", place, value)))
        return made


def _is_zero(item: Expr) -> bool:
    return isinstance(item, Number) and re.fullmatch(r"0|0?\.0*[fF]?|0\.[fF]?", item.text) is not None
