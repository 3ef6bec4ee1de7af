"""Diagonals of a grid side by side in memory, so that a sweep whose elements wait for one another runs in vectors.

What lies on one diagonal of such a sweep does not depend on each other, but lies rows apart. The grid is copied into a
local buffer, diagonal by diagonal; all sweeps run there, along the diagonals; then it is copied back. Where the buffer
is too small, the sweeps run as they were. May not judge what is fast.

Source: Wolfe, "Loop skewing: the wavefront method revisited" (1986), for the order; the layout follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.core.compilers import CLANG
from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spaces.source.affine import plus
from tuner.spaces.source.dependence import Dependences
from tuner.spaces.source.kinds import is_unsigned, plain_type, types_of
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Keys,
    Operator,
    Refused,
    Site,
    analyse,
    argument,
    argument_list,
    body_of,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    parameters,
    perfect_nest,
    replace_statement,
)
from tuner.spaces.source.operators.bounds import add, maximum, minimum, subtract, upper_end
from tuner.spaces.source.operators.loop_pragmas import independent, of_width
from tuner.spaces.source.operators.simple_loops import simple_nest
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Index,
    Name,
    Number,
    Stmt,
    Ternary,
)
from tuner.spaces.source.walks import index_chain, map_expressions, names_in, subtrees

__all__ = ["OPERATORS"]

_MOST_LAG = 4
_CELLS = (1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18)
_WIDTHS = (4, 8, 16, 32)
_ELEMENTS = ("float", "double")
_Offset = tuple[int, int]


def diagonals(function: Function, args: Args) -> Function:
    """Runs sweeps over a grid along its diagonals, in a copy that has them side by side.

    Takes ``loops``, over rows and columns, or with one over time before them; ``lag``: how many columns a diagonal
    moves on for each row; ``parameters``: elements of the buffer at most, and for clang the width of vectors.
    """
    keys = argument_list(args, "loops")
    lag = argument(args, "lag", int)
    if len(keys) not in (2, 3) or not 1 <= lag <= _MOST_LAG:
        raise Refused("it takes two loops, or three, and a lag")
    nest = simple_nest(function, keys)
    assign = _plain(function, nest)
    found = analyse(function, [nest[0]], args)
    outer, inner = nest[-2:]
    if not found.carried_by(inner.key):
        raise Refused(f"the iterations of loop {inner.key} do not wait for one another")
    time = nest[0].key if len(nest) == 3 else ""
    reason = found.backward(lambda _: f"{lag}*{outer.key}+{inner.key}", within=time, still=True)
    if reason:
        raise Refused(f"{reason} (within a diagonal)")
    grid = _grid(function, found, nest, assign, lag)
    made, (cells, *widths) = define(function, args, 2 if function.compiler == CLANG else 1)
    return replace_statement(made, nest[0], _emit(made, grid, cells, widths))


def _plain(function: Function, nest: Sequence[For]) -> Assign:
    """The one assignment of a nest that counts alike."""
    first, *others = (counter_type(function, f) for f in nest)
    if any(k != first for k in others) or is_unsigned(first):
        raise Refused("the loops do not count in one signed type")
    body = body_of(nest[-1])
    if len(body) != 1 or not isinstance(body[0], ExprStmt) or not isinstance(body[0].expr, Assign):
        raise Refused(f"loop {nest[-1].key} is more than one assignment")
    return body[0].expr


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """What is known of a sweep.

    Attributes:
        nest: its loops, the last two over rows and columns.
        assign: its statement.
        array: that it goes over.
        element: the array's type.
        type: of the counters.
        lag: columns for each row along a diagonal.
        offsets: rows and columns between the element that is written and those that are used, by subscripts.
    """

    nest: tuple[For, ...]
    assign: Assign
    array: str
    element: str
    type: str
    lag: int
    offsets: Mapping[tuple[Expr, ...], _Offset]

    @property
    def rows(self) -> tuple[int, int]:
        """The least and the greatest row offset."""
        found = [row for row, _ in self.offsets.values()]
        return min(found), max(found)

    @property
    def ahead(self) -> tuple[int, int]:
        """The least and the greatest number of diagonals between two elements."""
        found = [self.lag * row + column for row, column in self.offsets.values()]
        return min(found), max(found)

    def lean(self, row: Expr) -> Expr:
        """How many diagonals a row is ahead."""
        return row if self.lag == 1 else Binary("*", Number(str(self.lag)), row)

    def columns(self, row: int) -> tuple[int, int]:
        """The least and the greatest column offset in a row."""
        found = [column for at, column in self.offsets.values() if at == row]
        return min(found), max(found)


def _grid(function: Function, found: Dependences, nest: Sequence[For], assign: Assign, lag: int) -> _Grid:
    base, subscripts = index_chain(assign.target)
    array = base.id if isinstance(base, Name) else ""
    element = plain_type(types_of(function).get(array, ""))
    if element not in _ELEMENTS or not subscripts:
        raise Refused("what is written is no element of a floating-point array")
    offsets: dict[tuple[Expr, ...], _Offset] = {}
    for leaf in found.leaves:
        for access in leaf.accesses:
            if access.variable == array:
                offsets[access.subscripts] = _offset(found.place(access), nest)
    chains = [index_chain(e) for e in subtrees(assign) if isinstance(e, Index)]
    used = {at for base, at in chains if base == Name(array)}
    if not used <= set(offsets) or offsets[subscripts] != (0, 0):
        raise Refused(f"the places in {array} cannot be told apart")
    return _Grid(
        nest=tuple(nest),
        assign=assign,
        array=array,
        element=element,
        type=counter_type(function, nest[-1]),
        lag=lag,
        offsets=offsets,
    )


def _offset(place: tuple[Polynomial, ...], nest: Sequence[For]) -> _Offset:
    """Rows and columns from the element of an iteration."""
    outer, inner = nest[-2:]
    if len(place) != 2:
        raise Refused("the array has no rows and columns")
    left = [p - variable(f.var) for p, f in zip(place, (outer, inner), strict=True)]
    if any(p != constant(p.get((), 0)) for p in left):
        raise Refused("a place is not next to the one that is written")
    row, column = (p.get((), 0) for p in left)
    return row, column


def _emit(function: Function, grid: _Grid, cells: Expr, widths: Sequence[Expr]) -> tuple[Stmt, ...]:
    outer, inner = grid.nest[-2:]
    names = {
        what: fresh_name(function, f"{grid.array}_{what}")
        for what in ("rows", "columns", "height", "diagonals", "diagonal", "row")
    }
    rows, columns = Name(names["rows"]), Name(names["columns"])
    kind = f"const {grid.type}"
    before = (
        Decl(kind, names["rows"], (), subtract(upper_end(outer), outer.start)),
        Decl(kind, names["columns"], (), subtract(upper_end(inner), inner.start)),
    )
    tall = plus(rows, grid.rows[1] - grid.rows[0])
    count = Binary("+", grid.lean(Binary("-", rows, Number("1"))), columns)
    room = plus(count, grid.ahead[1] - grid.ahead[0])
    fits: Expr = Binary("&&", Binary(">", rows, Number("0")), Binary(">", columns, Number("0")))
    if len(grid.nest) == 3:
        fits = Binary("&&", fits, Binary("<", grid.nest[0].start, upper_end(grid.nest[0])))
    fits = Binary("&&", fits, Binary("<=", room, Binary("/", cells, tall)))
    build = _Build(function=function, grid=grid, names=names, key=Keys(function).new)
    sweep = build.sweep(count, widths)
    if len(grid.nest) == 3:
        sweep = replace(grid.nest[0], key=build.key(grid.nest[0].key), type=grid.type, body=(sweep,))
    then = (
        Decl(kind, names["height"], (), tall),
        Decl(grid.element, names["diagonals"], (cells,)),
        *build.copies(inwards=True),
        sweep,
        *build.copies(inwards=False),
    )
    return (*before, If(fits, then, (grid.nest[0],)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """What emitting loops needs; ``key`` gives each loop one of its own."""

    function: Function
    grid: _Grid
    names: Mapping[str, str]
    key: Callable[[str], str]

    def cell(self, diagonal: Expr, row: Expr) -> Expr:
        """An element of the buffer, by diagonal and row counted from the first ones that are written."""
        diagonal = plus(diagonal, -self.grid.ahead[0])
        row = plus(row, -self.grid.rows[0])
        place = Binary("+", Binary("*", diagonal, Name(self.names["height"])), row)
        return Index(Name(self.names["diagonals"]), place)

    def sweep(self, count: Expr, widths: Sequence[Expr]) -> For:
        """One sweep, along the diagonals."""
        grid, lag = self.grid, Number(str(self.grid.lag))
        outer, inner = grid.nest[-2:]
        diagonal, row = Name(self.names["diagonal"]), Name(self.names["row"])
        columns = Name(self.names["columns"])
        past: Expr = Binary("+", Binary("-", diagonal, columns), lag)
        past = past if grid.lag == 1 else Binary("/", past, lag)
        first = Ternary(Binary("<", diagonal, columns), Number("0"), past)
        reached = add(diagonal if grid.lag == 1 else Binary("/", diagonal, lag), Number("1"))
        assign = self._moved(diagonal, row)
        here = {
            outer.var: add(row, outer.start) if outer.start != Number("0") else row,
            inner.var: add(Binary("-", diagonal, grid.lean(row)), inner.start),
        }
        kind = f"const {grid.type}"
        used = names_in(assign)
        body: tuple[Stmt, ...] = (
            *(Decl(kind, n, (), e) for n, e in here.items() if n in used),
            ExprStmt(assign),
        )
        hints = independent(self.function)
        for width in widths:
            hints += of_width(self.function, width.id if isinstance(width, Name) else "", "1")
        limit = minimum(Name(self.names["rows"]), reached)
        along = For(self.key(row.id), grid.type, row.id, first, "<", limit, Number("1"), body, hints)
        return For(
            self.key(diagonal.id), grid.type, diagonal.id, Number("0"), "<", count, Number("1"), (along,)
        )

    def _moved(self, diagonal: Expr, row: Expr) -> Assign:
        """The statement on the buffer."""
        grid = self.grid

        def change(expr: Expr) -> Expr:
            base, subscripts = index_chain(expr)
            if base != Name(grid.array) or subscripts not in grid.offsets:
                return expr
            rows, columns = grid.offsets[subscripts]
            return self.cell(plus(diagonal, grid.lag * rows + columns), plus(row, rows))

        return map_expressions(grid.assign, change)

    def copies(self, *, inwards: bool) -> Iterator[Stmt]:
        """Copies of what is used into the buffer, or of what was written out of it."""
        grid = self.grid
        outer, inner = grid.nest[-2:]
        start, end = outer.start, upper_end(outer)
        if not inwards:
            yield self._copy((start, end), (inner.start, upper_end(inner)), inwards=False)
            return
        widest = grid.columns(0)
        for row in sorted({row for row, _ in grid.offsets.values()}):
            low, high = grid.columns(row)
            columns = (plus(inner.start, low), plus(upper_end(inner), high))
            rows = (plus(start, row), plus(end, row))
            # Between the first row that is written and the last one, the row itself covers what others need of it.
            if row and widest[0] <= low and high <= widest[1]:
                rows = (rows[0], minimum(start, rows[1])) if row < 0 else (maximum(end, rows[0]), rows[1])
            yield self._copy(rows, columns, inwards=True)

    def _copy(self, rows: tuple[Expr, Expr], columns: tuple[Expr, Expr], *, inwards: bool) -> Stmt:
        grid = self.grid
        outer, inner = grid.nest[-2:]
        row, column = subtract(Name(outer.var), outer.start), subtract(Name(inner.var), inner.start)
        cell = self.cell(Binary("+", grid.lean(row), column), row)
        sides = (cell, grid.assign.target) if inwards else (grid.assign.target, cell)
        one: Stmt = ExprStmt(Assign("=", *sides))
        for loop, (start, end) in ((inner, columns), (outer, rows)):
            one = For(self.key(loop.key), grid.type, loop.var, start, "<", end, Number("1"), (one,))
        return one


@for_each_loop
def _sites(function: Function, loop: For) -> Iterator[Site]:
    nest = perfect_nest(loop)
    if len(nest) not in (2, 3) or (len(nest) == 3 and loop.var in _subscripts(nest[-1])):
        return
    row = nest[-2].var
    sizes = parameters(function, (f"CELLS_{row}", _CELLS, 1 << 17), (f"WIDTH_{row}", _WIDTHS, 16))
    for lag in (1, 2):
        told = sizes if function.compiler == CLANG else sizes[:1]
        yield {"loops": [f.key for f in nest], "lag": lag, "parameters": told}


def _subscripts(loop: For) -> set[str]:
    """Names in the subscripts of what is written."""
    targets = (n.target for n in subtrees(loop.body) if isinstance(n, Assign))
    return set().union(*(names_in(index_chain(t)[1]) for t in targets))


OPERATORS = (
    Operator(
        diagonals, _sites, "runs sweeps along diagonals that lie side by side in a copy", languages=HOST
    ),
)
