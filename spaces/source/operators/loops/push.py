"""Moving the loops over a tile's points to the innermost place, past the loops that the body has.

``for i: {s; for k: t}`` over a block of ``i`` becomes ``{for i: s; for k: for i: t}``. Local scalars that live across
those pieces get an element for each point. May not decide whether that is legal beyond giving the new order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tuner.spaces.source.kinds import writable
from tuner.spaces.source.operators.base import Refused
from tuner.spaces.source.operators.bounds import subtract
from tuner.spaces.source.scan import Leaf
from tuner.spaces.source.syntax import Assign, Decl, Expr, ExprStmt, For, Index, Name, Number, Stmt
from tuner.spaces.source.walks import map_expressions, names_in, subtrees

__all__ = ["Inner", "Piece", "Point", "Run", "expand", "order_of", "pieces", "with_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A blocked loop.

    Attributes:
        loop: as it was.
        base: the variable that counts its blocks; empty where the points are counted from 0.
        size: points in a block.
        key: of the loop over a block's points.
        type: of the counter.
    """

    loop: For
    base: str
    size: Expr
    key: str
    type: str

    @property
    def number(self) -> Expr:
        """Which point of its block the loop is at."""
        return subtract(Name(self.loop.var), Name(self.base) if self.base else Number("0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Neighbouring statements that go into one loop over the points; ``first`` is the first's place."""

    first: int
    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A loop that the point loops move into."""

    place: int
    loop: For
    parts: tuple[Piece, ...]


Piece = Run | Inner


def pieces(body: Sequence[Stmt], points: Sequence[For]) -> tuple[Piece, ...]:
    """How a body splits into what the point loops go around."""
    counters = {f.var for f in points}
    made: list[Piece] = []
    for place, stmt in enumerate(body):
        last = made[-1] if made else None
        if isinstance(stmt, For) and counters.isdisjoint(names_in((stmt.start, stmt.limit, stmt.step))):
            made.append(Inner(place=place, loop=stmt, parts=pieces(stmt.body, points)))
        elif isinstance(last, Run):
            made[-1] = replace(last, stmts=(*last.stmts, stmt))
        else:
            made.append(Run(first=place, stmts=(stmt,)))
    return tuple(made)


def order_of(leaf: Leaf, parts: Sequence[Piece], points: Sequence[For]) -> tuple[int | str, ...]:
    """When a statement runs once the point loops are innermost; its position is that in the unblocked loops."""
    keys = [f.key for f in points]
    order: list[int | str] = [0]
    rest = leaf.position[2 * len(keys) :]
    while True:
        place = int(rest[0])
        for number, piece in enumerate(parts):
            if isinstance(piece, Inner) and piece.place == place:
                order += [number, piece.loop.key]
                parts, rest = piece.parts, rest[2:]
                break
            if isinstance(piece, Run) and piece.first <= place < piece.first + len(piece.stmts):
                order.append(number)
                for key in keys:
                    order += [key, 0]
                return (*order, *rest)
        else:
            raise Refused("a statement is not where it was")


def expand(
    parts: tuple[Piece, ...],
    points: Sequence[Point],
    fresh: Callable[[str], str],
    only: Collection[str] | None = None,
) -> tuple[tuple[Piece, ...], tuple[Decl, ...]]:
    """Gives local scalars that live across pieces an element for each point.

    Args:
        parts: of the body.
        points: the blocked loops.
        fresh: gives an array's name for a scalar's.
        only: names whose values differ between points; ``None`` for all.

    Returns:
        The pieces with such declarations turned into assignments, and the arrays to declare before them.
    """
    shared = {name: fresh(f"{name}_block") for name in sorted(_shared(parts, only))}
    declared: list[Decl] = []

    def element(name: str) -> Expr:
        place: Expr = Name(shared[name])
        for point in points:
            place = Index(place, point.number)
        return place

    def change(expr: Expr) -> Expr:
        return element(expr.id) if isinstance(expr, Name) and expr.id in shared else expr

    def visit(run: Run) -> Iterator[Stmt]:
        for stmt in run.stmts:
            if isinstance(stmt, Decl) and stmt.name in shared:
                dims = (*(p.size for p in points), *stmt.dims)
                declared.append(Decl(writable(stmt.type), shared[stmt.name], dims, None, stmt.suffix))
                if stmt.init is not None:
                    value = map_expressions(stmt.init, change)
                    yield ExprStmt(Assign("=", element(stmt.name), value))
            else:
                yield map_expressions(stmt, change)

    return with_runs(parts, visit), tuple(declared)


def with_runs(parts: Sequence[Piece], change: Callable[[Run], Iterable[Stmt]]) -> tuple[Piece, ...]:
    """Pieces with the statements of their runs changed, without runs of which nothing is left."""
    made: list[Piece] = []
    for piece in parts:
        if isinstance(piece, Inner):
            made.append(replace(piece, parts=with_runs(piece.parts, change)))
        elif kept := tuple(change(piece)):
            made.append(replace(piece, stmts=kept))
    return tuple(made)


def _shared(parts: Sequence[Piece], only: Collection[str] | None) -> set[str]:
    """Names declared in one run and used in another piece."""
    found: set[str] = set()

    def visit(pieces: Sequence[Piece]) -> None:
        for number, piece in enumerate(pieces):
            if isinstance(piece, Inner):
                visit(piece.parts)
                continue
            declared = {s.name for s in piece.stmts if isinstance(s, Decl)}
            for other in pieces[number + 1 :]:
                part = other.stmts if isinstance(other, Run) else other.loop
                found.update(declared & names_in(part))
            for stmt in piece.stmts:
                if isinstance(stmt, Decl) and stmt.dims and stmt.name in found and stmt.init is not None:
                    raise Refused(f"{stmt.name} is an array with an initial value")

    visit(parts)
    if only is not None:
        found &= set(only)
    stmts = list(_in_runs(parts))
    names = [s.name for s in stmts if isinstance(s, Decl) and s.name in found]
    inner = [n.name for s in stmts for n in subtrees(s) if isinstance(n, Decl) and n is not s]
    if len(set(names)) < len(names) or not found.isdisjoint(inner):
        raise Refused("two variables of the same name are declared")
    return found


def _in_runs(parts: Sequence[Piece]) -> Iterator[Stmt]:
    for piece in parts:
        yield from piece.stmts if isinstance(piece, Run) else _in_runs(piece.parts)
