"""Register blocking: several iterations of outer loops computed together, their values in registers.

Unroll-and-jam blocks one loop, register blocking two; with ``vector`` the inner one in lanes of a vector type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tuner.spaces.source.kinds import types_of
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Keys,
    Operator,
    Refused,
    Site,
    analyse,
    argument_list,
    attempt,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    keep_promises,
    knowing_members,
    parameter,
    parameters,
    perfect_nest,
    replace_statement,
)
from tuner.spaces.source.operators.bounds import inline_constants, left_over, upper_end
from tuner.spaces.source.operators.loop_pragmas import fully_unrolled, is_fully_unrolled
from tuner.spaces.source.operators.loops.push import (
    Inner,
    Piece,
    Point,
    Run,
    expand,
    order_of,
    pieces,
    with_runs,
)
from tuner.spaces.source.operators.simple_loops import simple_nest
from tuner.spaces.source.operators.teams.teams import directives_of
from tuner.spaces.source.operators.values.vectors import (
    LANES,
    Lanes,
    element_type,
    vector_statement,
    with_lanes,
)
from tuner.spaces.source.syntax import (
    Binary,
    Comment,
    Decl,
    Expr,
    For,
    Function,
    Index,
    Name,
    Number,
    Stmt,
    Ternary,
)
from tuner.spaces.source.walks import index_chain, map_expressions, statements, subtrees
from tuner.spaces.source.widths import holds

__all__ = ["OPERATORS"]

_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
_JAMMED = (1, 2, 3, 4, 6, 8, 16, 32)
_FEW = 8
_MOST_COPIED = 4000
"""Nodes of a body in all its copies: many copies are for short ones, of which compilers make vectors."""
_COLUMNS = (1, 2, 4, 8, 16, 32, 64)
_VECTORS = (1, 2, 3, 4, 6, 8)


def unroll_and_jam(function: Function, args: Args) -> Function:
    """Runs several iterations of a loop together inside the loops that it holds.

    Takes ``loops``, one; one of ``parameters``.
    """
    keys = argument_list(args, "loops")
    if len(keys) != 1:
        raise Refused("unroll_and_jam takes one loop")
    return _block(function, args, keys, vector=False)


def register_block(function: Function, args: Args) -> Function:
    """Computes blocks of two nested loops together; local scalars become one for each point.

    Takes ``loops``, outer and inner; two of ``parameters``, or with ``vector`` three: rows, vectors, lanes.
    """
    keys = argument_list(args, "loops")
    if len(keys) > 2 or (len(keys) < 2 and args.get("vector") is not True):
        raise Refused("register_block takes two loops")
    return _block(function, args, keys, vector=args.get("vector") is True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """What emitting a blocked nest needs."""

    points: tuple[Point, ...]
    lanes: Lanes | None
    width: Expr
    unroll: tuple[str, ...]


def _require_shared_counters(loop: For) -> None:
    """Refuses a variable of each iteration that counts a loop, which iterations share then."""
    within = tuple(statements(loop.body))
    own = {s.name for s in within if isinstance(s, Decl)}
    for stmt in within:
        if isinstance(stmt, For) and not stmt.type and stmt.var in own:
            raise Refused(f"{stmt.var} counts loops and is a variable of each iteration")


def _block(function: Function, args: Args, keys: Sequence[str], *, vector: bool) -> Function:
    given = simple_nest(function, keys)
    _check_order(function, args, given, vector=vector)
    inlined = inline_constants(function, given[0])
    nest = perfect_nest(inlined)[: len(keys)]
    _require_shared_counters(nest[-1])
    parts = pieces(nest[-1].body, nest)
    if not vector and not any(isinstance(p, Inner) for p in parts):
        raise Refused(f"{keys[-1]} holds no loop to move the block into")
    made, names = define(function, args, len(keys) + vector)
    element = element_type(function, nest[-1]) if vector else ""
    sizes: list[Expr] = list(names[: len(keys)])
    if vector:
        sizes[-1] = Binary("*", names[-2], names[-1])
    points = _points(made, nest, sizes)
    parts, declared = expand(parts, points, partial(fresh_name, made))
    build = _Build(points=points, lanes=None, width=names[-1], unroll=fully_unrolled(function))
    if vector:
        made, lanes = with_lanes(made, nest[-1], element, names[-1], declared)
        build = replace(build, lanes=lanes)
        declared = tuple(_vector_array(d, lanes, names[-2]) for d in declared)
        parts = _vector_places(parts, {d.name for d in declared}, points, names[-1])
    made = replace_statement(made, given[0], _around(made, nest, points, (*declared, *_emit(parts, build))))
    return keep_promises(function, made, "several of its iterations together")


def _check_order(function: Function, args: Args, nest: Sequence[For], *, vector: bool) -> None:
    found = analyse(function, [nest[0]], args)
    parts = pieces(nest[-1].body, nest)
    found.check(lambda leaf: order_of(leaf, parts, nest))
    found.check_band([f.key for f in nest])
    if vector:
        found.check_lanes(nest[-1].key)


def _points(function: Function, nest: Sequence[For], sizes: Sequence[Expr]) -> tuple[Point, ...]:
    made: list[Point] = []
    for loop, size in zip(nest, sizes, strict=True):
        base = fresh_name(function, f"{loop.var}_block", [p.base for p in made])
        made.append(Point(loop=loop, base=base, size=size, key=loop.key, type=counter_type(function, loop)))
    return tuple(made)


def _around(
    function: Function, nest: Sequence[For], points: Sequence[Point], body: tuple[Stmt, ...]
) -> tuple[Stmt, ...]:
    """Loops over whole blocks, and what they leave over in the order of the source."""
    keys = Keys(function)
    if len(nest) == 1:
        return _split(function, points[0], body, nest[0].body, keys)
    outer, inner = points
    key = keys.new(inner.loop.key)
    rest = replace(inner.loop, key=key, type=inner.type, body=keys.again(inner.loop.body), pragmas=())
    inside = _split(function, inner, body, inner.loop.body, keys, rows=outer)
    return _split(function, outer, inside, (rest,), keys)


def _split(
    function: Function,
    point: Point,
    body: tuple[Stmt, ...],
    rest: tuple[Stmt, ...],
    keys: Keys,
    rows: Point | None = None,
) -> tuple[Stmt, ...]:
    loop = point.loop
    end = upper_end(loop)
    before: tuple[Stmt, ...] = ()
    if any(isinstance(e, Ternary) for e in subtrees(end)):
        if not holds(point.type, end, types_of(function)):
            raise Refused(f"the counter of loop {loop.key} may not hold where the loop ends")
        name = fresh_name(function, f"{loop.var}_end")
        before = (Decl(f"const {point.type}", name, (), end),)
        end = Name(name)
    size = point.size
    whole = left_over(function, loop, size, end)
    main_key = keys.new(point.base)
    shared = directives_of(loop)
    main = For(main_key, point.type, point.base, loop.start, "<", whole, size, body, shared)
    plain = replace(loop, type=point.type, body=rest, pragmas=shared)
    tail = keys.over(plain, whole, end)
    if rows is not None:
        limit = Binary("+", Name(rows.base), rows.size)
        around = replace(rows.loop, key=keys.new(rows.loop.key), type=rows.type, pragmas=())
        tail = replace(around, start=Name(rows.base), op="<", limit=limit, body=(tail,))
    return (*before, main, tail)


def _emit(parts: Sequence[Piece], build: _Build) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for piece in parts:
        if isinstance(piece, Inner):
            made.append(replace(piece.loop, body=_emit(piece.parts, build)))
        elif all(isinstance(s, Comment) for s in piece.stmts):
            made += piece.stmts
        else:
            made.append(_run(piece, build))
    return tuple(made)


def _run(piece: Run, build: _Build) -> Stmt:
    body = piece.stmts
    step: Expr = Number("1")
    if build.lanes is not None:
        body, step = _vector_run(piece.stmts, build.lanes), build.width
    for number, point in reversed(list(enumerate(build.points))):
        limit = Binary("+", Name(point.base), point.size)
        own = step if number == len(build.points) - 1 else Number("1")
        body = (
            For(point.key, point.type, point.loop.var, Name(point.base), "<", limit, own, body, build.unroll),
        )
    return body[0]


def _vector_run(stmts: Sequence[Stmt], lanes: Lanes) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Comment):
            made.append(stmt)
            continue
        turned, lanes = vector_statement(stmt, lanes)
        made.append(turned)
    return tuple(made)


def _vector_array(decl: Decl, lanes: Lanes, vectors: Expr) -> Decl:
    if decl.type != lanes.element or len(decl.dims) > 2:
        raise Refused(f"{decl.name} is no {lanes.element} that could be a vector")
    return Decl(lanes.vector, decl.name, (*decl.dims[:-1], vectors))


def _vector_places(
    parts: tuple[Piece, ...], names: set[str], points: Sequence[Point], width: Expr
) -> tuple[Piece, ...]:
    """Expanded scalars hold one vector for each ``width`` points of the last loop."""
    last = points[-1]
    offset = Binary("-", Name(last.loop.var), Name(last.base))

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Index):
            base, subscripts = index_chain(expr)
            if isinstance(base, Name) and base.id in names and subscripts[-1] == offset:
                return Index(expr.base, Binary("/", offset, width))
        return expr

    return with_runs(parts, lambda run: map_expressions(run.stmts, change))


@for_each_loop
def _jam_sites(function: Function, loop: For) -> Iterator[Site]:
    # Of a loop whose inner ones are written out, copies would be no more than its own unrolling.
    if loop.by_one and any(isinstance(s, For) and not is_fully_unrolled(s) for s in loop.body):
        most = max(_FEW, _MOST_COPIED // len(list(subtrees(loop.body))))
        found = parameter(function, f"JAM_{loop.var}", [n for n in _JAMMED if n <= most], 4)
        yield {"loops": [loop.key], "parameters": [found]}


@for_each_loop
def _block_sites(function: Function, loop: For) -> Iterator[Site]:
    nest = perfect_nest(loop)
    if len(nest) > 1 and any(isinstance(s, For) for s in nest[1].body):
        sizes = (f"ROWS_{loop.var}", _ROWS, 4), (f"COLUMNS_{nest[1].var}", _COLUMNS, 16)
        yield {"loops": [loop.key, nest[1].key], "parameters": parameters(function, *sizes)}


@for_each_loop
def _vector_sites(function: Function, loop: For) -> Iterator[Site]:
    nest = perfect_nest(loop)
    for loops in (nest[:count] for count in (1, 2) if count <= len(nest)):
        element = attempt(element_type, function, loops[-1])
        if element is None:
            continue
        lanes, var = LANES[element], loops[-1].var
        found = [parameter(function, f"ROWS_{loop.var}", _ROWS, 4)] if len(loops) == 2 else []
        found.append(parameter(function, f"VECTORS_{var}", _VECTORS, 2 * len(loops)))
        found.append(parameter(function, f"LANES_{var}", lanes, lanes[-1]))
        yield {"loops": [f.key for f in loops], "vector": True, "parameters": found}


OPERATORS = (
    knowing_members(
        unroll_and_jam, _jam_sites, "runs several iterations of an outer loop together", blocks=True
    ),
    knowing_members(register_block, _block_sites, "computes a block of two loops in registers", blocks=True),
    Operator(
        register_block,
        _vector_sites,
        "computes a block of rows and vectors in registers",
        name="vector_block",
        languages=HOST,
        blocks=True,
    ),
)
