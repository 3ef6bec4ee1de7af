"""Which names of a function something may change, besides what they are declared with, or under another name.

For numbers that other parts of the package reason with, for bounds of loops, and for locals that are to be moved. May
not look at values or reason about dependences.
"""

from __future__ import annotations

import re

from tuner.spaces.source.kinds import (
    Refused,
    element_types_of,
    is_floating,
    is_integer,
    is_pure,
    plain_type,
    types_of,
)
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

__all__ = ["EXIT", "changed_names", "exposed_names", "require_steady_bounds"]

EXIT = re.compile(r"(return\b[^;]*|continue|break)\s*;")
"""Statements known as text that change nothing."""
_REFERENCE = re.compile(r"&\s*([A-Za-z_]\w*)\s*[={(]")


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


def require_steady_bounds(function: Function, loop: For) -> None:
    """Refuses a loop that may change, by a call or by another name, what its bounds are made of."""
    bounds = (loop.start, loop.limit)
    pointed, referring = _other_names(function)
    types = types_of(function)
    # What a parameter points to is taken to be its own, unless it is made to point elsewhere.
    given = _given(function)
    followed = {root_of(n) for n in subtrees(bounds) if isinstance(n, Index | Field)}
    elsewhere = any(
        not isinstance(n, Name) or (n.id not in given and "*" in types.get(n.id, "*")) for n in followed
    )
    elsewhere |= not names_in(bounds).isdisjoint(referring)
    calls = [n for n in subtrees(loop.body) if isinstance(n, Call) and not is_pure(n)]
    # What C++ hands over by its name may be taken by reference.
    pointed = pointed | (names_in(tuple(c.arguments for c in calls)) if function.language != "c" else set())
    members = any(isinstance(n, Field) for n in subtrees(bounds))
    # A pointer may lead to a variable of the file; names in capitals are constants.
    of_file = any(n not in types and not n.isupper() for n in names_in(bounds))
    led_to = elsewhere or members or not pointed.isdisjoint(names_in(bounds))
    if not (led_to or of_file):
        return
    if calls:
        raise Refused(f"a call in loop {loop.key} may change what a bound is made of")
    for node in subtrees(loop.body):
        if not isinstance(node, Assign):
            continue
        target = root_of(node.target)
        if target == node.target and isinstance(target, Name) and target.id not in pointed:
            continue
        if not led_to and isinstance(target, Name) and is_floating(types.get(target.id, "")):
            # Whole numbers are not where fractions are stored.
            continue
        # A name that is not known may be a pointer too, or stand for something else.
        if not isinstance(target, Name) or (target.id not in given and "*" in types.get(target.id, "*")):
            raise Refused(f"a pointer in loop {loop.key} may lead to what a bound is made of")
        kind = node.target.type if isinstance(node.target, Field) else types.get(target.id, "")
        if elsewhere and not is_floating(kind):
            raise Refused(f"loop {loop.key} may change what a bound points or refers to")


@kept_by_identity(1 << 10)
def _given(function: Function) -> set[str]:
    """Parameters that nothing is assigned to."""
    moved = {n.target for n in subtrees(function.body) if isinstance(n, Assign)}
    return {p.name for p in function.params if Name(p.name) not in moved}


@kept_by_identity(1 << 10)
def _other_names(function: Function) -> tuple[set[str], set[str]]:
    """Variables whose address is taken or that are referred to, and local references that are known as text."""
    pointed: set[str] = set()
    referring: set[str] = set()
    for node in subtrees(function.body):
        if isinstance(node, Unary) and node.op == "&":
            pointed |= names_in(node.operand)
        elif isinstance(node, Opaque | OpaqueStmt) and "&" in node.text:
            pointed |= words(node.text)
            referring |= set(_REFERENCE.findall(node.text))
    return pointed, referring
