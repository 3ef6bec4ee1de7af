"""A counter whose values have nothing to do with one another, as several locals with a value each.

Much C declares its counters at the top of a function and uses them again and again, at times as plain numbers in
between; so what comes after a loop seems to need how far it counted. May separate only what no later use needs.

Source: renaming of live ranges, Muchnick, "Advanced Compiler Design and Implementation", 1997, 16.3.3 (webs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.spaces.source.kinds import Refused, is_pure
from tuner.spaces.source.operators.base import Args, Operator, is_used_outside
from tuner.spaces.source.operators.naming import names_known
from tuner.spaces.source.operators.opening.scopes import plain_locals
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import names_in, statements, substitute, written_names

__all__ = ["OPERATORS"]

_LEAVES = re.compile(r"\s*(?:break|continue)\b")

Body = tuple[Stmt, ...]


def separate_values(function: Function, _: Args) -> Function:
    """Gives each value of a counter, and each loop that counts, a variable of its own where no later use needs it.

    Args:
        function: to change.
    """
    made = function
    for decl in _candidates(function):
        made = _separated(made, decl)
    if made is function:
        raise Refused("no counter has values that could be apart")
    return made


def _sites(function: Function, _: bool) -> Iterator[dict[str, Any]]:
    if any(_separated(function, decl) is not function for decl in _candidates(function)):
        yield {}


def _candidates(function: Function) -> list[Decl]:
    """Locals that count loops and are more than counters."""
    counters = {s.var for s in statements(function.body) if isinstance(s, For) and not s.type}
    return [d for d in plain_locals(function) if d.name in counters and is_used_outside(function, d.name)]


def _separated(function: Function, decl: Decl) -> Function:
    """The function with the values of one local apart; itself where there are none."""
    separating = _Separating(decl, names_known(function) | set(re.findall(r"\w+", function.source)))
    body = separating.declared(function.body)
    return replace(function, body=body) if separating.found else function


@dataclass(slots=True)
class _Separating:
    """Separates the values of one local.

    Attributes:
        decl: its declaration.
        taken: names that are no new one.
        found: whether there were any.
    """

    decl: Decl
    taken: set[str]
    found: bool = False
    _name: str = field(init=False)

    def __post_init__(self) -> None:
        self._name = self.decl.name

    def declared(self, body: Body) -> Body:
        """Statements that have the declaration in them or below."""
        for number, stmt in enumerate(body):
            if stmt is self.decl:
                rest = self._apart(body[number + 1 :], live=False)
                used = self.decl.init is not None or self._uses(rest) or not self.found
                return (*body[:number], *((stmt,) if used else ()), *rest)
        return tuple(self._below(stmt, self.declared) for stmt in body)

    def _apart(self, body: Body, *, live: bool) -> Body:
        """Statements in a row.

        Args:
            body: the statements.
            live: whether what follows them may use the value that the local has then.
        """
        made: list[Stmt] = []
        for number, stmt in enumerate(body):
            rest = body[number + 1 :]
            value = self._given(stmt)
            if value is not None:
                end = next((i for i, s in enumerate(rest) if self._given(s) or self._counts(s)), len(rest))
                own = rest[:end]
                if self._uses(own) and not self._is_live(rest[end:], live) and not _leave(own):
                    self.found = True
                    return (*made, *self._renamed(value, own), *self._apart(rest[end:], live=live))
            after = self._is_live(rest, live)
            if isinstance(stmt, For) and self._counts(stmt):
                if not after and not _leave(stmt.body):
                    self.found = True
                    stmt = replace(stmt, type=self.decl.type)
            elif isinstance(stmt, For) and not self._is_own(stmt):
                again = after or self._is_live(stmt.body, after)
                stmt = replace(stmt, body=self._apart(stmt.body, live=again))
            elif isinstance(stmt, If | Block):
                stmt = self._below(stmt, lambda part, after=after: self._apart(part, live=after))
            made.append(stmt)
        return tuple(made)

    def _renamed(self, value: Expr, own: Body) -> Body:
        """A value in a variable of its own, and the statements that use it."""
        name = next(f"{self._name}_{i}" for i in range(2, 1 << 20) if f"{self._name}_{i}" not in self.taken)
        self.taken.add(name)
        changes = self._name in written_names(own) or any(
            isinstance(s, For) and self._counts(s) for s in statements(own)
        )
        kind = self.decl.type if changes else f"const {self.decl.type}"
        return (Decl(kind, name, init=value), *(self._with_name(stmt, name) for stmt in own))

    def _with_name(self, stmt: Stmt, name: str) -> Stmt:
        if isinstance(stmt, For) and self._is_own(stmt):
            return stmt
        if isinstance(stmt, For):
            start, limit, step = (
                substitute(e, self._name, Name(name)) for e in (stmt.start, stmt.limit, stmt.step)
            )
            var = name if stmt.var == self._name else stmt.var
            body = tuple(self._with_name(s, name) for s in stmt.body)
            return replace(stmt, var=var, start=start, limit=limit, step=step, body=body)
        if isinstance(stmt, If):
            stmt = replace(stmt, condition=substitute(stmt.condition, self._name, Name(name)))
        if isinstance(stmt, If | Block):
            return self._below(stmt, lambda part: tuple(self._with_name(s, name) for s in part))
        changed: Stmt = substitute(stmt, self._name, Name(name))
        return changed

    def _below(self, stmt: Stmt, change: Any) -> Stmt:
        """A statement with others in it, these changed."""
        match stmt:
            case For() if not self._is_own(stmt):
                return replace(stmt, body=change(stmt.body))
            case Block():
                return replace(stmt, body=change(stmt.body))
            case If():
                return replace(stmt, then=change(stmt.then), other=change(stmt.other))
        return stmt

    def _given(self, stmt: Stmt) -> Expr | None:
        """What a statement gives the local, where that is all it does."""
        match stmt:
            case ExprStmt(expr=Assign(op="=", target=Name(id=target), value=value)) if target == self._name:
                return value if is_pure(value) and self._name not in names_in(value) else None
        return None

    def _counts(self, stmt: Stmt) -> bool:
        """Whether it is a loop that gives the local its values."""
        return (
            isinstance(stmt, For)
            and stmt.var == self._name
            and not stmt.type
            and self._name not in names_in((stmt.start, stmt.limit, stmt.step))
        )

    def _is_own(self, stmt: For) -> bool:
        """Whether a loop declares another variable of that name."""
        return bool(stmt.type) and stmt.var == self._name

    def _uses(self, body: Sequence[Stmt]) -> bool:
        return any(
            self._name in names_in(part) | written_names(part) or self._counts_any(part)
            for stmt in body
            for part in self._open(stmt)
        )

    def _counts_any(self, part: Any) -> bool:
        return isinstance(part, For) and part.var == self._name and not part.type

    def _open(self, stmt: Stmt) -> Iterator[Any]:
        """Parts of a statement in which the name is the local's."""
        if isinstance(stmt, For) and self._is_own(stmt):
            return
        match stmt:
            case For():
                if self._counts_any(stmt):
                    yield stmt
                yield (stmt.start, stmt.limit, stmt.step)
                for inner in stmt.body:
                    yield from self._open(inner)
            case If():
                yield stmt.condition
                for inner in (*stmt.then, *stmt.other):
                    yield from self._open(inner)
            case Block():
                for inner in stmt.body:
                    yield from self._open(inner)
            case _:
                yield stmt

    def _is_live(self, body: Sequence[Stmt], after: bool) -> bool:
        """Whether the value that the local has before statements may be used in them, or behind them."""
        for number, stmt in enumerate(body):
            if _leave((stmt,)):
                # Where that leads is not followed.
                return True
            if not self._uses((stmt,)):
                continue
            if self._given(stmt) is not None or self._counts(stmt):
                return False
            rest = self._is_live(body[number + 1 :], after)
            match stmt:
                case For():
                    head = (
                        self._name in names_in((stmt.start, stmt.limit, stmt.step)) or stmt.var == self._name
                    )
                    return head or rest or self._is_live(stmt.body, rest)
                case If():
                    asked = self._name in names_in(stmt.condition)
                    return asked or self._is_live(stmt.then, rest) or self._is_live(stmt.other, rest)
                case Block():
                    return self._is_live(stmt.body, rest)
            return True
        return after


def _leave(body: Sequence[Stmt]) -> bool:
    """Whether statements may lead elsewhere than to what follows them."""
    return any(isinstance(s, OpaqueStmt) and _LEAVES.match(s.text) for s in statements(tuple(body)))


OPERATORS = (
    Operator(
        name="separate_values",
        summary="counters that are used again for other values, as several locals",
        apply=separate_values,
        sites=_sites,
        opens=True,
        members=True,
    ),
)
