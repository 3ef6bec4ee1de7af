"""What a part of a function reads and writes, statement by statement, with the loops around each.

Refuses whatever it cannot see through: calls that are not pure mathematics, pointers, jumps, opaque text. May not
reason about dependences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.spaces.source.accesses import Access, Accesses, Scope
from tuner.spaces.source.constructs import UnknownConstruct
from tuner.spaces.source.kinds import Refused, is_integer, is_narrow, is_pure, keeps_value
from tuner.spaces.source.memo import Kept, kept_or_raised
from tuner.spaces.source.places import member_variable, places_in, touched
from tuner.spaces.source.printer import statement_text
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Call,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    Field,
    For,
    Function,
    If,
    Index,
    Name,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import assigned_names, inner_bodies, names_in, subtrees

__all__ = ["Leaf", "Scan", "scan"]

_At = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A statement without loops inside.

    Attributes:
        stmt: itself.
        loops: around it inside the scanned part, outermost first, their bounds with constants filled in.
        position: the way to it: places in bodies, and the keys of the loops entered.
        reduction: the place that an associative update adds to; ``None`` when it is none.
        floating: whether that update is in floating point.
    """

    stmt: Stmt
    loops: tuple[For, ...]
    position: tuple[int | str, ...]
    accesses: tuple[Access, ...]
    reduction: Access | None = None
    floating: bool = True

    @property
    def text(self) -> str:
        """For messages: the statement on one line."""
        return _line(self.stmt, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scanned part.

    Attributes:
        leaves: in the order of the source.
        outer: loops around the part, outermost first.
        pointers: what is accessed of pointer parameters, members that were taken and arrays of the file; whether each
            is ``restrict``, or an array.
        written: those of them that are written.
        moving: names that change inside the part.
        fractions: variables that are no whole numbers.
    """

    leaves: tuple[Leaf, ...]
    outer: tuple[For, ...]
    pointers: Mapping[str, bool]
    written: frozenset[str]
    moving: frozenset[str]
    fractions: frozenset[str]

    @property
    def assumes_separate(self) -> bool:
        """Whether reasoning about the part takes it for granted that pointer parameters do not overlap."""
        loose = [name for name, restrict in self.pointers.items() if not restrict]
        return bool(self.written) and len(self.pointers) > 1 and bool(loose)


_SCANNED: Kept[tuple[Any, Scan | Refused]] = Kept(1024)
"""By function and part: many moves ask the same of one program."""


def scan(function: Function, part: Sequence[Stmt]) -> Scan:
    """What a part of a function does.

    Args:
        function: that holds the part.
        part: neighbouring statements of the function, by identity.

    Raises:
        Refused: something in the part cannot be seen through.
    """
    key, held = (id(function), *map(id, part)), (function, tuple(part))
    return kept_or_raised(_SCANNED, key, held, lambda: _scanned(function, part), Refused)


def _scanned(function: Function, part: Sequence[Stmt]) -> Scan:
    walker = _Walker(function, part)
    walker.visit(function.body, Scope(), (), (), False)
    if not walker.found:
        raise Refused("the part is not in this function")
    return Scan(
        leaves=tuple(walker.leaves),
        outer=walker.outer,
        pointers=walker.accesses.pointers,
        written=frozenset(walker.accesses.written),
        moving=frozenset(walker.accesses.moving),
        fractions=frozenset(walker.accesses.fractions),
    )


class _Walker:
    def __init__(self, function: Function, part: Sequence[Stmt]) -> None:
        self.part = {id(s) for s in part}
        self.accesses = Accesses(function)
        self.assigned = assigned_names(function.body)
        self.leaves: list[Leaf] = []
        self.outer: tuple[For, ...] = ()
        self.found = False
        self.count = 0

    def visit(
        self, body: Sequence[Stmt], scope: Scope, loops: tuple[For, ...], at: _At, inside: bool
    ) -> None:
        for place, stmt in enumerate(body):
            now = inside or id(stmt) in self.part
            if now and not inside:
                self.outer = loops if not self.found else self.outer
                self.found = True
            own: tuple[For, ...] = loops if inside else ()
            here = (*at, place) if inside else (place,)
            match stmt:
                case Decl():
                    if now:
                        self._leaf(stmt, scope, own, here)
                    scope = self._declare(stmt, scope, own, inside=now)
                case For():
                    self._loop(stmt, scope, own if now else loops, here, now)
                case Block() | If() if not now or isinstance(stmt, Block):
                    for part in inner_bodies(stmt):
                        self.visit(part, scope, own if now else loops, here, now)
                case If() if any(isinstance(s, For | Decl) for s in subtrees(stmt)):
                    # Its branches may be run or not: that they are is the stricter of the two.
                    self._leaf(ExprStmt(stmt.condition), scope, own, (*here, 0))
                    for number, part in enumerate(inner_bodies(stmt)):
                        self.visit(part, scope, own, (*here, number + 1), now)
                case Comment():
                    pass
                case _ if now:
                    self._leaf(stmt, scope, own, here)

    def _loop(self, loop: For, scope: Scope, loops: tuple[For, ...], here: _At, now: bool) -> None:
        if now:
            self.accesses.moving.add(loop.var)
            for bound in (loop.start, loop.limit, loop.step):
                if not is_pure(bound):
                    raise Refused(f"a bound of loop {loop.key} is no plain expression")
                for _, place in places_in(bound):
                    if place.path:
                        self.accesses.of_place(place, scope, write=False)
        filled = replace(loop, start=scope.fill(loop.start), limit=scope.fill(loop.limit), body=())
        inner = Scope(
            {k: v for k, v in scope.constants.items() if k != loop.var},
            scope.private,
            scope.variables | {loop.var},
        )
        self.visit(loop.body, inner, (*loops, filled), (*here, loop.key), now)

    def _declare(self, decl: Decl, scope: Scope, loops: tuple[For, ...], *, inside: bool) -> Scope:
        constants = dict(scope.constants)
        private = dict(scope.private)
        constants.pop(decl.name, None)
        private.pop(decl.name, None)
        words = decl.type.split()
        # A name is a symbol where an element, or what a call gives, is nothing that bounds can be reasoned about with.
        known = not any(isinstance(e, Call | Field | Index) for e in subtrees(decl.init))
        plain = decl.init is not None and is_pure(decl.init) and known
        # The expression stands for the name only while it still has the value that the name was given.
        counted = self.accesses.shared_vars - scope.variables
        unsteady = self.assigned | self.accesses.fractions | counted
        if is_narrow(decl.type) or not unsteady.isdisjoint(names_in((decl.init,))):
            plain = False
        if "const" in words and is_integer(decl.type) and not decl.dims and decl.init and plain:
            constants[decl.name] = scope.fill(decl.init)
        elif inside:
            self.count += 1
            private[decl.name] = (f"{decl.name}@{self.count}", tuple(f.var for f in loops))
            self.accesses.moving.add(decl.name)
        return Scope(constants, private, scope.variables)

    def _leaf(self, stmt: Stmt, scope: Scope, loops: tuple[For, ...], here: _At) -> None:
        unknown = next((s for s in subtrees(stmt) if isinstance(s, OpaqueStmt)), None)
        if unknown is not None:
            raise UnknownConstruct("the part", unknown)
        accesses: list[Access] = []
        reduction: Access | None = None
        floating = True
        if isinstance(stmt, Decl):
            if "*" in stmt.type:
                raise Refused(f"{stmt.name} is a pointer of its own")
            if keeps_value(stmt):
                raise Refused(f"{stmt.name} keeps its value from one iteration to the next")
            if stmt.init is None:
                return
            accesses += self.accesses.read(stmt.init, scope)
            inner = self._declare(stmt, scope, loops, inside=True)
            self.count -= 1
            if stmt.name in inner.private:
                private = f"{stmt.name}@{self.count + 1}"
                subscripts: tuple[Expr, ...] = tuple(Name(f.var) for f in loops)
                for path in touched(self.accesses.paths, stmt.name, ()):
                    variable = member_variable(private, path)
                    accesses.append(Access(variable=variable, subscripts=subscripts, write=True))
        else:
            for part in _simple(stmt):
                if isinstance(part, Assign):
                    accesses += self.accesses.assigned(part, scope)
                else:
                    accesses += self.accesses.read(part, scope)
            if isinstance(stmt, ExprStmt) and isinstance(stmt.expr, Assign):
                reduction, floating = self.accesses.updated(stmt.expr, scope)
        made = Leaf(
            stmt=stmt,
            loops=loops,
            position=here,
            accesses=tuple(accesses),
            reduction=reduction,
            floating=floating,
        )
        self.leaves.append(made)


def _simple(stmt: Stmt) -> Iterator[Expr]:
    """The expressions of a statement without loops and declarations; conditions count as always taken."""
    match stmt:
        case ExprStmt(expr=expr):
            yield expr
        case If(condition=condition, then=then, other=other):
            yield condition
            for inner in (*then, *other):
                yield from _simple(inner)
        case Block(body=body):
            for inner in body:
                yield from _simple(inner)


def _line(stmt: Stmt, width: int) -> str:
    line = " ".join(statement_text(stmt).split())
    return line if len(line) <= width else f"{line[: width - 3]}…"
