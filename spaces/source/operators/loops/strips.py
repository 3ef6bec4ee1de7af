"""A loop split within strips of its iterations: what a later part needs of an earlier one is kept in short arrays.

Compilers make vectors of a loop in which every access goes by one and no iteration waits for another. Of elements that
lie apart, sums in order, or stores on a condition they are to be had by themselves: read before, added up or stored
behind. Source: Allen and Kennedy, "Optimizing compilers for modern architectures" (2002), scalar expansion and loop
distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.kinds import is_number, is_pure, types_of
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    Refused,
    Site,
    all_loops,
    analyse,
    argument,
    body_of,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    keep_promises,
    knowing_members,
    known_loop,
    loop_of,
    loops_of,
    loops_where,
    parameter,
    replace_statement,
    require_known,
)
from tuner.spaces.source.operators.bounds import add, minimum, upper_end
from tuner.spaces.source.operators.loops.push import Inner, Point, Run, expand
from tuner.spaces.source.operators.simple_loops import split_of
from tuner.spaces.source.operators.teams.teams import directives_of
from tuner.spaces.source.operators.values.vectors import LANES
from tuner.spaces.source.places import Path, place_of, places_in
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
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
    Stmt,
    Ternary,
)
from tuner.spaces.source.walks import (
    declared_names,
    exchanged,
    index_chain,
    inner_bodies,
    names_in,
    operands,
    statements,
    subtrees,
    written_names,
)
from tuner.spaces.source.widths import type_of

__all__ = ["OPERATORS"]

_STRIPS = (16, 32, 64, 128, 256)
_MOST_READ = 48


def read_first(function: Function, args: Args) -> Function:
    """Reads elements that lie apart once, before anything else in an iteration.

    Takes ``loop``, which does not write them.
    """
    loop, _ = known_loop(function, args)
    if len(loops_of(loop)) > 1:
        raise Refused(f"loop {loop.key} is not the innermost")
    found = _apart(function, loop)
    if not found:
        raise Refused(f"loop {loop.key} reads no elements that lie apart")
    kinds, body, made = types_of(function), loop.body, list[Stmt]()
    taken: set[str] = set()
    for place in found:
        base = place_of(place).base
        assert isinstance(base, Name)
        name = fresh_name(function, "_".join((base.id, *place_of(place).path)), taken)
        taken.add(name)
        made.append(Decl(f"const {type_of(place, kinds)}", name, (), place))
        body = exchanged(body, place, Name(name))
    return replace_statement(function, loop, [replace(loop, body=(*made, *body))])


def _apart(function: Function, loop: For) -> list[Expr]:
    """Elements and members that a loop reads and does not write, other than those beside the next iteration's."""
    own = declared_names(loop.body, all_counters=True)
    moving = written_names(loop.body) | own
    written = _written(loop.body)
    values = {id(s.init) for s in loop.body if isinstance(s, Decl)}
    kinds = types_of(function)
    found: dict[Expr, None] = {}
    for expr in _reads(loop.body, ()):
        place = place_of(expr)
        base = place.base
        if not isinstance(base, Name) or not (place.outer or place.path) or base.id in own:
            continue
        subscripts = names_in((place.outer, place.inner))
        if loop.var not in subscripts or not subscripts.isdisjoint(moving) or id(expr) in values:
            continue
        if _met(base.id, place.path, written) or not is_number(type_of(expr, kinds)):
            continue
        if place.path or not _goes_by_one(expr, loop.var):
            found[expr] = None
    return list(found) if len(found) <= _MOST_READ else []


def _reads(body: Sequence[Stmt], conditions: tuple[Expr, ...]) -> Iterator[Expr]:
    """Places that statements read, of those on conditions the ones that these do not seem to keep from being read."""
    for stmt in body:
        if isinstance(stmt, If):
            yield from _always(stmt.condition) if not conditions else ()
            for part in inner_bodies(stmt):
                yield from _reads(part, (*conditions, stmt.condition))
        elif isinstance(stmt, Block):
            yield from _reads(stmt.body, conditions)
        elif isinstance(stmt, Decl | ExprStmt):
            value = stmt.init if isinstance(stmt, Decl) else stmt.expr
            target = value.target if isinstance(value, Assign) else None
            if value is not None:
                yield from (e for e in _always(value) if e is not target and _is_there(e, conditions))


def _always(expr: Expr) -> Iterator[Expr]:
    """The places that an expression reads whatever it is: none right of ``&&``, ``||`` and ``?``."""
    match expr:
        case Ternary(condition=condition):
            yield from _always(condition)
        case Binary(op="&&" | "||", left=left):
            yield from _always(left)
        case Index() | Field():
            yield expr
        case _:
            for part in operands(expr):
                yield from _always(part)


def _is_there(expr: Expr, conditions: Sequence[Expr]) -> bool:
    """Whether the elements in an expression are there whichever way conditions are.

    ``if (i > 0)`` may be what keeps ``a[i - 1]`` from being read, ``if (mask[i])`` may not. A subscript that is read
    itself may be anything.
    """
    compared = {n.id for c in conditions for n in _bare(c)}
    for _, place in places_in(expr) if conditions else ():
        subscripts = (place.outer, place.inner)
        read = any(isinstance(n, Index | Field | Call) for n in subtrees(subscripts))
        if read or not compared.isdisjoint(names_in(subscripts)):
            return False
    return True


def _bare(expr: Expr) -> Iterator[Name]:
    """Names in an expression that are no part of a subscript."""
    if isinstance(expr, Name):
        yield expr
    elif not isinstance(expr, Index | Field):
        for part in operands(expr):
            yield from _bare(part)


def _goes_by_one(expr: Expr, var: str) -> bool:
    _, subscripts = index_chain(expr)
    poly = polynomial(subscripts[-1], {var})
    if poly is None or var in names_in(subscripts[:-1]):
        return False
    return poly.get((var,), 0) == 1 and not any(var in m and m != (var,) for m in poly)


def _written(part: tuple[Stmt, ...]) -> list[tuple[str, Path]]:
    """Variables with the paths to what of them is assigned to."""
    targets = [place_of(n.target) for n in subtrees(part) if isinstance(n, Assign)]
    return [(t.base.id, t.path) for t in targets if isinstance(t.base, Name)]


def _met(name: str, path: Path, written: Sequence[tuple[str, Path]]) -> bool:
    """Whether what is written may be a place, or a part of it."""
    return any(name == n and all(a == b for a, b in zip(path, p, strict=False)) for n, p in written)


def compute_first(function: Function, args: Args) -> Function:
    """Computes the values of a branch whether or not it is taken; what it stores stays on its condition.

    Takes ``loop``; ``at``, which of the statements of its body the branch is.
    """
    loop = loop_of(function, args)
    body = body_of(loop)
    at = argument(args, "at", int)
    branch = body[at] if 0 <= at < len(body) else None
    if not isinstance(branch, If):
        raise Refused(f"statement {at} of loop {loop.key} is no branch")
    require_known(loop, f"loop {loop.key}")
    analyse(function, [loop], args)
    if not is_pure(branch.condition) or branch.other:
        raise Refused("the branch has another one beside it")
    ahead, left = _divided(function, branch)
    own = {s.name for s in ahead if isinstance(s, Decl)}
    others = [s.name for s in statements(function.body) if isinstance(s, Decl)]
    if not ahead or any(others.count(name) > 1 for name in own):
        raise Refused("nothing of the branch can be computed before it is known whether it is taken")
    kept = replace(branch, then=left)
    made = tuple(part for s in loop.body for part in ((*ahead, kept) if s is branch else (s,)))
    return replace_statement(function, loop, [replace(loop, body=made)])


def _divided(function: Function, branch: If) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """What of a branch computes values that nothing but itself knows, also those that it stores; and the rest."""
    kinds, own, taken = types_of(function), set[str](), set[str]()
    ahead: list[Stmt] = []
    left: list[Stmt] = []

    def free(value: Expr | None) -> bool:
        return value is None or (
            _fails_nowhere(value, kinds)
            and _is_there(value, [branch.condition])
            and not _changed(value, left)
        )

    for stmt in branch.then:
        match stmt:
            case Decl(init=init, name=name) if free(init):
                own.add(name)
                ahead.append(stmt)
            case ExprStmt(expr=Assign(target=Name(id=name), value=value)) if name in own and free(value):
                ahead.append(stmt)
            case ExprStmt(
                expr=Assign(op="=", target=Index() | Field() as target, value=Binary() as value) as store
            ) if free(value) and type_of(value, kinds) and is_number(type_of(target, kinds)):
                name = fresh_name(function, "value", taken)
                taken.add(name)
                ahead.append(Decl(f"const {type_of(target, kinds)}", name, (), value))
                left.append(replace(stmt, expr=replace(store, value=Name(name))))
                own -= names_in(target)
            case Comment():
                ahead.append(stmt)
            case _:
                left.append(stmt)
                own -= written_names((stmt,)) | names_in((stmt,))
    return tuple(ahead), tuple(left)


def _fails_nowhere(value: Expr, kinds: dict[str, str]) -> bool:
    """Whether a value can be computed of any numbers: fractions, and whole numbers without division and shift."""
    risky = [n for n in subtrees(value) if isinstance(n, Binary) and n.op in ("/", "%", "<<", ">>")]
    return is_pure(value) and all(type_of(n, kinds) in LANES for n in risky)


def _changed(value: Expr, left: Sequence[Stmt]) -> bool:
    """Whether statements declare or change what a value is computed from."""
    written = [
        *_written(tuple(left)),
        *((s.name, ()) for s in statements(tuple(left)) if isinstance(s, Decl)),
    ]
    places = [(p.base.id, p.path) for _, p in places_in(value) if isinstance(p.base, Name)]
    return any(_met(name, path, written) for name, path in places)


def split_in_strips(function: Function, args: Args) -> Function:
    """Splits a loop in two within strips of its iterations, with arrays of a strip's values between the parts.

    Takes ``loop``; ``at``, how many statements the first part keeps; one of ``parameters``, the strip's length, or none
    where the loop is a part of such a strip.
    """
    loop, split, order = split_of(function, args)
    analyse(function, [loop], args).check(order)
    strip = _strip_around(function, loop)
    made, kind = function, counter_type(function, loop)
    if strip is None:
        made, (size,) = define(function, args, 1)
        base = fresh_name(made, f"{loop.var}_strip")
        point = Point(loop=loop, base=base, size=size, key=loop.key, type=kind)
    else:
        point = Point(loop=loop, base=strip.var, size=strip.step, key=loop.key, type=kind)
    runs = (Run(first=0, stmts=loop.body[:split]), Run(first=split, stmts=loop.body[split:]))
    pieces, declared = expand(runs, (point,), partial(fresh_name, made))
    if any(d.dims[1:] or not is_number(d.type) for d in declared):
        raise Refused("what the second part needs of the first is more than numbers")
    parts = [p.stmts for p in pieces if not isinstance(p, Inner)]
    if len(parts) != 2 or not declared:
        raise Refused(f"the second part of loop {loop.key} needs no value of the first")
    keys = Keys(made)
    shared = directives_of(loop) if strip is None else ()
    first = replace(
        loop, type=point.type, pragmas=tuple(p for p in loop.pragmas if p not in shared), body=parts[0]
    )
    end = upper_end(loop)
    if strip is None:
        first = replace(
            first, start=Name(point.base), op="<", limit=minimum(add(Name(point.base), point.size), end)
        )
    pair: tuple[Stmt, ...] = (*declared, first, replace(first, key=keys.new(loop.key), body=parts[1]))
    if strip is None:
        key = keys.new(point.base)
        pair = (For(key, point.type, point.base, loop.start, "<", end, point.size, pair, shared),)
    return keep_promises(function, replace_statement(made, loop, pair), "the loop in parts")


def _strip_around(function: Function, loop: For) -> For | None:
    """The loop over strips of which a loop goes through one, and no further."""
    around = [f for f in all_loops(function) if any(s is loop for s in f.body)]
    if not around or loop.start != Name(around[0].var) or not isinstance(loop.limit, Ternary):
        return None
    strip = around[0]
    return strip if loop.limit == minimum(add(loop.start, strip.step), loop.limit.other) else None


def _part_of(stmt: Stmt, loop: For) -> str:
    """What a statement of a loop is: a read of what lies apart, a sum in order, a store, or a computation."""
    match stmt:
        case Decl(init=Index() | Field() as init) if place_of(init).path or not _goes_by_one(init, loop.var):
            return "read"
        case If():
            return "store"
        case ExprStmt(expr=Assign(op=op, target=Index() | Field() as target)):
            if loop.var not in names_in(target):
                return "sum"
            return "store" if place_of(target).path or not _goes_by_one(target, loop.var) else "compute"
        case ExprStmt(expr=Assign(op=op, target=Name(id=name))) if op != "=" and name not in declared_names(
            loop.body
        ):
            return "sum"
    return "compute"


@for_each_loop
def _strip_sites(function: Function, loop: For) -> Iterator[Site]:
    if len(loops_of(loop)) > 1 or not loop.by_one:
        return
    body = body_of(loop)
    parts = [_part_of(s, loop) for s in body]
    inside = _strip_around(function, loop) is not None
    sizes = [] if inside else [parameter(function, f"STRIP_{loop.var}", _STRIPS, 64)]
    for at in range(1, len(body)):
        if parts[at] != parts[at - 1]:
            yield {"loop": loop.key, "at": at} | ({"parameters": sizes} if sizes else {})


_read_sites = loops_where(
    lambda function, loop: len(loops_of(loop)) == 1 and _apart(function, loop), assumes=["elements exist"]
)


@for_each_loop
def _branch_sites(_: Function, loop: For) -> Iterator[Site]:
    for at, stmt in enumerate(body_of(loop)):
        if isinstance(stmt, If) and not stmt.other:
            yield {"loop": loop.key, "at": at, "assumes": ["elements exist"]}


OPERATORS = (
    knowing_members(read_first, _read_sites, "reads elements that lie apart first"),
    knowing_members(compute_first, _branch_sites, "computes a branch's values before its condition"),
    knowing_members(split_in_strips, _strip_sites, "splits a loop within strips of it", blocks=True),
)
