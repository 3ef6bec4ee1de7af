"""Which names of a function something may change, besides what they are declared with.

For numbers that other parts of the package reason with, and for locals that are to be moved. May not look at values.
"""

from __future__ import annotations

import re

from tuner.spaces.source.kinds import element_types_of, is_floating, is_integer, is_pure, plain_type
from tuner.spaces.source.lexical import words
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    Field,
    For,
    Function,
    Index,
    Name,
    Opaque,
    OpaqueStmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import names_in, root_of, subtrees

__all__ = ["EXIT", "changed_names", "exposed_names"]

EXIT = re.compile(r"(return\b[^;]*|continue|break)\s*;")
"""Statements known as text that change nothing."""


def changed_names(function: Function) -> set[str]:
    """Names that an assignment, a loop's head, or what :func:`exposed_names` finds may change."""
    found = set(exposed_names(function))
    for node in subtrees((*function.outer, *function.body)):
        match node:
            case Assign(target=target) if not isinstance(target, Index | Field):
                found |= names_in(target)
            case For(type="", var=var):
                found.add(var)
    return found


@kept_by_identity(1 << 8)
def exposed_names(function: Function) -> frozenset[str]:
    """Names that may be reached by more than themselves: by an address, a reference, or text."""
    found: set[str] = set()
    cpp = function.language in ("c++", "cuda")
    for node in subtrees((*function.outer, *function.body)):
        match node:
            case Unary(op="&", operand=operand):
                # Of an element or a member that of what it lies in, not that of its subscript.
                found |= names_in(root_of(operand) if isinstance(operand, Index | Field) else operand)
            case Call(function=name, arguments=arguments) if not is_pure(node) and name != "__builtin_assume":
                # Of C only a macro changes what it is given by name.
                found |= set() if not cpp and _is_declared(name, function) else names_in(arguments)
            case Binary(op="<<" | ">>" | "&", left=left, right=right) if cpp and not _is_whole(
                left, function
            ):
                found |= names_in((left, right))
            case Decl(type=kind, init=init) if init is not None and (
                "&" in kind or (cpp and not _copies(kind, init))
            ):
                found |= names_in(init)
            case OpaqueStmt(text=text) if EXIT.fullmatch(text.strip()) and "=" not in text:
                pass
            case Opaque(text=text) | OpaqueStmt(text=text):
                found |= words(text)
    return frozenset(found)


def _is_whole(expr: Expr, function: Function) -> bool:
    """Whether an operator after an expression is that of whole numbers, and none that may change what is behind it."""
    types = element_types_of(function)
    return all(is_integer(types.get(name, "")) for name in names_in(expr)) and is_pure(expr)


def _copies(kind: str, init: Expr) -> bool:
    """Whether a variable that is declared with another one is not made by what may take a reference to it."""
    number = is_integer(kind) or is_floating(kind) or "*" in kind or plain_type(kind) in ("auto", "bool")
    return number or not isinstance(init, Name | Ternary)


def _is_declared(name: str, function: Function) -> bool:
    """Whether a name is a function's in the text, and no macro's that stands where its declaration is not seen."""
    before = re.findall(rf"([\w*]+)\s+\**{name}\s*\(", function.source)
    return (
        not {"define", "return", "else", "do", "goto", "case"}.issuperset(before) and "define" not in before
    )
