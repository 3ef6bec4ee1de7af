"""Locals declared in the loops that alone use them, so that each round has its own.

Much C declares everything at the top of a function, where what one round computes seems to be for the next. May move
only what each round gives a value before it asks for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.operators.base import Args, Operator
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Decl,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import names_in, statements

__all__ = ["OPERATORS", "plain_locals"]

_WORD = re.compile(r"[A-Za-z_]\w*")
_PLAIN = re.compile(r"[A-Za-z_]\w*(?: [A-Za-z_]\w*)*")
_NUMBER = re.compile(
    r"(?:(?:unsigned|signed|short|long|int|char|float|double|bool|half|size_t|ptrdiff_t|u?int\d+_t)(?: |$))+"
)
"""In C++ a first value and a later one may be different things for any other type."""
_LASTS = re.compile(
    r"\b(const|volatile|static|extern|register|thread_local|_Thread_local|__thread|auto"
    r"|(__)?(local|global|constant|private)|__(shared|device|constant|managed)__)\b"
)
_JUMPS = re.compile(r"\b(goto|case|default|setjmp)\b|^\s*\w+\s*:(?!:)", re.MULTILINE)


def declare_inside(function: Function, _: Args) -> Function:
    """Declares locals where a loop's round gives them their value, if no more than that round uses it.

    Args:
        function: to change.
    """
    made = function
    for decl in _candidates(function):
        body = _declared(made.body, decl, inside=False)
        if body is not None:
            made = replace(made, body=_without(body, decl))
    if made is function:
        raise Refused("no local could be declared in a loop")
    return made


def _sites(function: Function, _: bool) -> Iterator[dict[str, Any]]:
    if any(_declared(function.body, decl, inside=False) is not None for decl in _candidates(function)):
        yield {}


def _candidates(function: Function) -> list[Decl]:
    """Plain locals without a first value that count no loop."""
    counters = {s.var for s in statements(function.body) if isinstance(s, For)}
    return [d for d in plain_locals(function) if d.init is None and d.name not in counters]


def plain_locals(function: Function) -> list[Decl]:
    """Plain locals, each the only one of its name, that are known by nothing but that."""
    within = list(statements(function.body))
    if any(isinstance(s, OpaqueStmt) and _JUMPS.search(s.text) for s in within):
        return []
    declared = [s for s in within if isinstance(s, Decl)]
    known = Counter(d.name for d in (*declared, *function.outer))
    known += Counter(p.name for p in function.params)
    # What text names, a `return` too, has to find it where it stands.
    texts = [s.text for s in within if isinstance(s, OpaqueStmt)]
    texts += [text for s in within if isinstance(s, For) for text in s.pragmas]
    taken = {*exposed_names(function), *_WORD.findall(" ".join(texts))}
    return [
        d
        for d in declared
        if known[d.name] == 1
        and d.name not in taken
        and not (d.dims or d.suffix or _LASTS.search(d.type))
        and (_PLAIN.fullmatch(d.type) if function.language in ("c", "opencl") else _NUMBER.fullmatch(d.type))
    ]


def _declared(body: tuple[Stmt, ...], decl: Decl, *, inside: bool) -> tuple[Stmt, ...] | None:
    """Statements with the declaration where the local is first given a value; ``None`` where that is not in a round."""
    made: list[Stmt] = []
    for number, stmt in enumerate(body):
        if decl.name not in names_in(stmt):
            made.append(stmt)
            continue
        if inside and isinstance(stmt, ExprStmt) and _gives(stmt, decl.name):
            assert isinstance(stmt.expr, Assign)
            return (*made, replace(decl, init=stmt.expr.value), *body[number + 1 :])
        changed = _within(stmt, decl, inside=inside)
        if changed is None:
            return None
        made.append(changed)
    return tuple(made)


def _within(stmt: Stmt, decl: Decl, *, inside: bool) -> Stmt | None:
    """The same of a statement that has others in it."""
    match stmt:
        case For() if decl.name not in names_in((stmt.start, stmt.limit, stmt.step)):
            body = _declared(stmt.body, decl, inside=True)
            return None if body is None else replace(stmt, body=body)
        case Block():
            body = _declared(stmt.body, decl, inside=inside)
            return None if body is None else replace(stmt, body=body)
        case If() if decl.name not in names_in(stmt.condition):
            then = _declared(stmt.then, decl, inside=inside)
            other = _declared(stmt.other, decl, inside=inside)
            return None if then is None or other is None else replace(stmt, then=then, other=other)
    return None


def _gives(stmt: ExprStmt, name: str) -> bool:
    match stmt.expr:
        case Assign(op="=", target=Name(id=target), value=value):
            return target == name and name not in names_in(value)
    return False


def _without(body: tuple[Stmt, ...], decl: Decl) -> tuple[Stmt, ...]:
    """Statements without a declaration."""
    made: list[Stmt] = []
    for stmt in body:
        match stmt:
            case _ if stmt is decl:
                continue
            case For() | Block():
                made.append(replace(stmt, body=_without(stmt.body, decl)))
            case If():
                then, other = _without(stmt.then, decl), _without(stmt.other, decl)
                made.append(replace(stmt, then=then, other=other))
            case _:
                made.append(stmt)
    return tuple(made)


OPERATORS = (
    Operator(
        name="declare_inside",
        summary="locals declared in the loops that alone use them",
        apply=declare_inside,
        sites=_sites,
        opens=True,
        members=True,
    ),
)
