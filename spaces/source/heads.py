"""Loops that go on from where their counter stands, as loops that say where they begin.

``int i = 0; for (; i + 4 <= n; i += 4) …; for (; i < n; i++) …`` becomes two loops with counters of their own, which
the rest of the package reads. A loop whose beginning cannot be said stays as it was. May not move statements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.spaces.source.kinds import MAY_WRAP, is_integer, is_pure, types_of
from tuner.spaces.source.lexical import unused
from tuner.spaces.source.syntax import (
    Binary,
    Decl,
    Expr,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import mentions, names_in, statements, subtrees, with_bodies, written_names

__all__ = ["with_begins", "with_counters"]

_HEAD = re.compile(r"\bfor\s*\(([^;(){}]*);([^;{}]*);([^;{}()]*)\)")
_GOING_ON = re.compile(r"\bfor\s*\((\w+) = \1;")
_STEP = re.compile(r"\s*(?:(?P<a>[A-Za-z_]\w*)\s*(?:\+\+|--|[+-]=.*)|(?:\+\+|--)\s*(?P<b>[A-Za-z_]\w*))\s*")
_AHEAD = re.compile(r"\s*(?P<var>[A-Za-z_]\w*)\s*\+\s*(?P<by>\d+|[A-Za-z_]\w*)\s*<=(?P<limit>.+)", re.DOTALL)


def with_begins(text: str) -> str:
    """Text whose loops without a beginning begin where their counter stands, ``for (i = i; …)``.

    ``i + 4 <= n`` is written ``i <= n - 4``, which is the same in signed numbers: :func:`with_counters` says of which
    loops that is known.
    """

    def change(found: re.Match[str]) -> str:
        begin, test, step = found.groups()
        counted = _STEP.fullmatch(step)
        if counted is None:
            return found[0]
        var = counted["a"] or counted["b"]
        ahead = _AHEAD.fullmatch(test)
        if ahead is not None and ahead["var"] == var:
            test = f" {var} <= ({ahead['limit'].strip()}) - {ahead['by']}"
        if not begin.strip():
            begin = f"{var} = {var}"
        return f"for ({begin};{test};{step})"

    return _HEAD.sub(change, text)


def with_counters(function: Function) -> Function | None:
    """A function, read from such text, whose loops count for themselves where that is the same.

    Returns:
        ``None`` where a loop has to stay as it was written.
    """
    body = _scope(function, function.body, set())
    made = replace(function, body=body)
    return None if any(_goes_on(s) or _unsure(made, s) for s in statements(body)) else made


def _goes_on(stmt: Stmt) -> bool:
    if isinstance(stmt, OpaqueStmt):
        return _GOING_ON.search(stmt.text) is not None
    return isinstance(stmt, For) and not stmt.type and stmt.start == Name(stmt.var)


def _unsure(function: Function, stmt: Stmt) -> bool:
    """Whether a loop's limit may be a rewritten one in numbers that may have no sign."""
    if not isinstance(stmt, For) or stmt.op != "<=":
        return False
    limit = stmt.limit
    if not (isinstance(limit, Binary) and limit.op == "-"):
        return False
    types = types_of(function)
    return any(not _signed(types.get(n, "int" if n.isupper() else "")) for n in {stmt.var} | names_in(limit))


def _signed(kind: str) -> bool:
    return is_integer(kind) and MAY_WRAP.search(kind) is None


@dataclass(frozen=True, slots=True)
class _Chain:
    """A variable that counts loops of one scope and nothing else: its declaration and those loops, by place."""

    decl: Decl
    at: int
    loops: tuple[int, ...]


def _scope(function: Function, body: tuple[Stmt, ...], taken: set[str]) -> tuple[Stmt, ...]:
    made = [with_bodies(stmt, lambda part: _scope(function, part, taken)) for stmt in body]
    for at in range(len(made) - 1, -1, -1):
        chain = _chain(made, at)
        if chain is not None:
            made = _counted(function, made, chain, taken)
    return tuple(made)


def _chain(body: Sequence[Stmt], at: int) -> _Chain | None:
    decl = body[at]
    if not isinstance(decl, Decl) or decl.dims or decl.init is None or decl.suffix or not _signed(decl.type):
        return None
    if not is_pure(decl.init) or "const" in decl.type.split() or "*" in decl.type:
        return None
    loops = [place for place in range(at + 1, len(body)) if mentions(body[place], decl.name)]
    for place in loops:
        loop = body[place]
        if not isinstance(loop, For) or loop.var != decl.name or loop.type or not _stays(loop, decl.name):
            return None
    found = [body[place] for place in loops]
    if not loops or not any(_goes_on(loop) for loop in found):
        return None
    return _Chain(decl, at, tuple(loops))


def _stays(loop: For, name: str) -> bool:
    """Whether only a loop's head changes its counter, towards a bound that does not move."""
    changed = written_names(loop.body)
    texts = [n.text for n in subtrees(loop.body) if isinstance(n, OpaqueStmt | Opaque)]
    if name in changed or any(re.search(rf"\b({name}|break|goto)\b", text) for text in texts):
        return False
    bounds = names_in((loop.limit, loop.step))
    return changed.isdisjoint(bounds) and name not in bounds and loop.upward and is_pure(loop.limit)


def _counted(function: Function, body: list[Stmt], chain: _Chain, taken: set[str]) -> list[Stmt]:
    """The scope with the chain's loops declaring their counters; as it was where that cannot be."""
    decl = chain.decl
    loops = [body[place] for place in chain.loops]
    first = loops[0]
    assert isinstance(first, For)
    assert decl.init is not None
    start = decl.init if _goes_on(first) else first.start
    kept: list[Stmt] = []
    if not isinstance(start, Number) and _goes_on(first):
        name = unused(f"{decl.name}_first", taken | set(re.findall(r"\w+", function.source)))
        taken.add(name)
        kept = [Decl(f"const {decl.type}", name, (), start)]
        start = Name(name)
    made = list(body)
    if len(loops) == 1:
        made[chain.loops[0]] = replace(first, type=decl.type, start=start)
    else:
        pair = _blocks_and_rest(loops, start, set(types_of(function)))
        if pair is None or not _unmoved(body, chain, start):
            return body
        for place, loop in zip(chain.loops, pair, strict=True):
            made[place] = replace(loop, type=decl.type)
    made[chain.at : chain.at + 1] = kept
    return made


def _blocks_and_rest(loops: Sequence[Stmt], start: Expr, variables: set[str]) -> tuple[For, For] | None:
    """A loop over whole blocks and one over what they leave over, each with its own range."""
    if len(loops) != 2:
        return None
    blocks, rest = loops
    assert isinstance(blocks, For)
    assert isinstance(rest, For)
    end = rest.limit
    whole = Binary("-", end, blocks.step)
    if not _goes_on(rest) or rest.op != "<" or blocks.op != "<=" or blocks.limit != whole:
        return None
    step = blocks.step
    # A size is a number, or a macro that stands for one.
    number = isinstance(step, Number) and step.text.isdigit()
    if not number and not (isinstance(step, Name) and step.id not in variables):
        return None
    if not isinstance(end, Name):
        return None
    size = end if start == Number("0") else Binary("-", end, start)
    last = Binary("-", end, Binary("%", size, blocks.step))
    return replace(blocks, start=start, op="<", limit=last), replace(rest, start=last)


def _unmoved(body: Sequence[Stmt], chain: _Chain, start: Expr) -> bool:
    """Whether nothing between the loops changes what their ranges are made of."""
    first, last = chain.loops[0], chain.loops[-1]
    loops = [s for s in body[first : last + 1] if isinstance(s, For)]
    names = names_in((start, *(loop.limit for loop in loops)))
    between = [s for s in body[chain.at + 1 : last + 1] if not isinstance(s, Decl)]
    return names.isdisjoint(written_names(tuple(between))) and not any(
        isinstance(n, Index) for n in subtrees(start)
    )
