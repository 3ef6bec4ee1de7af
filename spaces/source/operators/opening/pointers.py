"""Arrays in the place of local pointers into them, so that other operators see what is read and written.

May not change what is computed, nor where an element lies.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tuner.spaces.source.constructs import construct
from tuner.spaces.source.kinds import MAY_WRAP, Refused, is_integer, is_pure, lasts, plain_type, types_of
from tuner.spaces.source.lexical import unused
from tuner.spaces.source.operators.base import (
    Args,
    argument,
    declarations_where,
    only_declaration,
    opener,
    replace_statement,
    where_it_applies,
)
from tuner.spaces.source.operators.naming import is_array, names_known
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    Field,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import children, exchanged, map_expressions, subtrees

__all__ = ["OPERATORS", "kept_subscript", "require_subscripts_only", "whole_type"]

_FIT = "subscripts fit"


def forward_pointer(function: Function, args: Args) -> Function:
    """Puts an array with a subscript further on in the place of a local pointer into it.

    Takes ``pointer``, its name.
    """
    name = argument(args, "pointer")
    decl = only_declaration(function, name)
    if decl is None or "*" not in decl.type or decl.dims or decl.init is None:
        raise Refused(f"{name} is not declared once as a pointer with a beginning")
    if decl.type.count("*") != 1 or "volatile" in decl.type or name in {p.name for p in function.params}:
        raise Refused(f"{name} is no plain pointer")
    if lasts(decl):
        raise Refused(f"{name} keeps its value from one call to the next")
    base, offset = _place(function, decl.init)
    types = types_of(function)
    if plain_type(types.get(base.id, "")) != plain_type(decl.type):
        raise Refused(f"{name} and {base.id} point to different types")
    if any(_may_change(function, each) for each in (name, base.id)):
        raise Refused(f"{name} or {base.id} changes")
    function = replace(
        function, body=exchanged(function.body, Unary("*", Name(name)), Index(Name(name), Number("0")))
    )
    require_subscripts_only(function, name, types)
    kept, offset = ([], offset) if offset is None else kept_subscript(function, name, offset, types)

    def change(expr: Expr) -> Expr:
        if not (isinstance(expr, Index) and expr.base == Name(name)):
            return expr
        if offset is None or expr.index == Number("0"):
            return Index(base, expr.index if offset is None else offset)
        return Index(base, Binary("+", offset, expr.index))

    made = replace_statement(function, decl, kept)
    return replace(made, body=map_expressions(made.body, change))


def index_first(function: Function, _: Args) -> Function:
    """Writes ``p[0]`` for ``*p`` wherever ``p`` is a plain pointer."""
    made = function.body
    for name, kind in types_of(function).items():
        if kind.count("*") == 1 and not {"[", "&"} & set(kind):
            made = exchanged(made, Unary("*", Name(name)), Index(Name(name), Number("0")))
    if made == function.body:
        raise Refused("no plain pointer is used by a star")
    return replace(function, body=made)


def _may_change(function: Function, pointer: str) -> bool:
    """Whether something else is put into a variable that is a pointer, in text too."""
    step = r"(?:\+\+|--)"
    written = re.compile(
        rf"{step}\W*\b{pointer}\b|\b{pointer}\b\W*?(?:{step}|(?<![=!<>])=(?!=))|&\s*\b{pointer}\b"
    )
    for node in subtrees(function.body):
        if isinstance(node, Assign) and node.target == Name(pointer):
            return True
        if isinstance(node, Opaque | OpaqueStmt) and written.search(node.text):
            return True
    return False


_forward_sites = declarations_where(
    lambda decl: "*" in decl.type and not decl.dims and decl.init is not None, "pointer", assumes=[_FIT]
)


def _place(function: Function, expr: Expr) -> tuple[Name, Expr | None]:
    """The array that a pointer points into, and how far."""
    match expr:
        case Name(id=name) if is_array(function, name):
            return expr, None
        case Unary(op="&", operand=Index(base=Name() as base, index=index)) if is_array(function, base.id):
            return base, index
        case Binary(op="+" | "-" as op, left=left, right=right):
            base, before = _place(function, left)
            if before is None:
                return base, right if op == "+" else Unary("-", right)
            return base, Binary(op, before, right)
    raise Refused("where a pointer points to is not known")


def kept_subscript(
    function: Function, name: str, index: Expr, types: dict[str, str]
) -> tuple[list[Stmt], Expr]:
    """A constant for where a pointer begins, declared as it was there, where that is more than a number."""
    if isinstance(index, Number):
        return [], index
    at = unused(f"{name}_at", names_known(function))
    return [Decl(f"const {whole_type(index, types)}", at, (), index)], Name(at)


def require_subscripts_only(function: Function, name: str, types: dict[str, str]) -> None:
    """Refuses a pointer that is used for anything but elements at signed whole numbers."""
    uses = subscripts = 0
    for node in subtrees(function.body):
        if isinstance(node, Opaque | OpaqueStmt) and re.search(rf"\b{name}\b", node.text):
            raise Refused(f"{name} is used in {construct(node)}")
        uses += node == Name(name)
        if isinstance(node, Index) and node.base == Name(name):
            subscripts += 1
            whole_type(node.index, types)
    if uses != subscripts:
        raise Refused(f"{name} is used without a subscript")


def whole_type(expr: Expr, types: dict[str, str]) -> str:
    """The signed type that a subscript is computed in."""
    if not is_pure(expr):
        raise Refused("a subscript is no plain expression")
    wide = False
    waiting: list[Any] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Number) and not node.text.isdigit():
            raise Refused(f"{node.text} is no plain whole number")
        if isinstance(node, Name | Field):
            # A name that the function does not declare is a macro's number.
            unknown = "int" if isinstance(node, Name) and node.id.isupper() else ""
            kind = node.type if isinstance(node, Field) else types.get(node.id, unknown).replace("*", "")
            if not is_integer(kind) or MAY_WRAP.search(kind):
                raise Refused(f"{expression_text(node)} is not known to be a signed whole number")
            wide = wide or bool(re.search(r"\b(long|ptrdiff_t|ssize_t|int64_t)\b", kind))
            # What a member is of is a structure, and its subscripts are no part of the number.
            continue
        if isinstance(node, Call):
            raise Refused("a subscript is no plain expression")
        waiting += children(node)
    return "long" if wide else "int"


OPERATORS = (
    opener(
        forward_pointer,
        _forward_sites,
        "an array with a subscript further on in the place of a local pointer into it",
    ),
    opener(index_first, where_it_applies(index_first), "`p[0]` in the place of `*p`"),
)
