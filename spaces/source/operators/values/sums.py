"""Partial sums: a sum grows in several vectors or variables at once, which are joined after the loop.

That is another order of additions. May not decide whether that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.spaces.source.accesses import added_to, own_variables, update_of
from tuner.spaces.source.kinds import types_of, writable
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Keys,
    Refused,
    Site,
    argument,
    body_of,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    knowing_members,
    loops_of,
    parameters,
    reassociating,
    replace_statement,
    require_copies,
    require_independent,
    require_leave,
)
from tuner.spaces.source.operators.bounds import add, left_over, upper_end
from tuner.spaces.source.operators.loop_pragmas import fully_unrolled
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.operators.values.vectors import (
    LANES,
    WIDENS,
    Lanes,
    splat,
    vector_statement,
    vector_type,
    with_lanes,
)
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    Index,
    Name,
    Number,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import index_chain, names_in, substitute, subtrees, written_names
from tuner.spaces.source.widths import type_of

__all__ = ["OPERATORS"]


def partial_sums(function: Function, args: Args) -> Function:
    """Adds up in several vectors at once and joins them after the loop: another order of additions.

    Takes ``loop``; ``reassociate`` has to be true; ``parameters``: vectors, lanes.
    """
    require_leave(args, "partial sums add in another order, which numerics does not allow")
    loop = simple_loop(function, args)
    require_independent(function, loop, args)
    kinds = types_of(function)
    sums = _sums(loop)
    element = type_of(next(iter(sums.values())), kinds)
    if element not in LANES or any(type_of(t, kinds) != element for t in sums.values()):
        raise Refused(f"loop {loop.key} does not sum in one floating-point type")
    made, (vectors, width) = define(function, args, 2)
    made, lanes = with_lanes(made, loop, element, width)
    narrow = fresh_name(made, f"float_{width.id.lower()}") if element == "double" else ""
    summed = _summed(made, loop, sums, replace(lanes, narrow=narrow), (vectors, width))
    if any(isinstance(n, Call) and n.function == WIDENS for n in subtrees(tuple(summed))):
        made = replace(made, preamble=(*made.preamble, vector_type(narrow, "float", width.id)))
    return replace_statement(made, loop, summed)


def _sums(loop: For) -> dict[str, Expr]:
    """Places that a loop adds to beside what it stores, by the names of their partial sums."""
    found: dict[str, Expr] = {}
    for stmt in body_of(loop):
        match stmt:
            case ExprStmt(expr=Assign() as expr) if (update := update_of(expr)) is not None:
                target = update.target
                base, _ = index_chain(target)
                if not isinstance(base, Name):
                    raise Refused(f"{expression_text(target)} is no element of a named array")
                name = base.id
                if target in found.values():
                    raise Refused(f"{expression_text(target)} is added to twice")
                if name in names_in(update.value):
                    raise Refused(f"what is added to {expression_text(target)} depends on it")
                if not names_in(target).isdisjoint(written_names(loop) - {name}):
                    raise Refused(f"{expression_text(target)} changes with the loop")
                found[f"{name}_sums" if f"{name}_sums" not in found else f"{name}_sums_{len(found)}"] = target
            case Decl(dims=()) | ExprStmt(expr=Assign(target=Index())):
                continue
            case _:
                raise Refused(f"loop {loop.key} does more than add up")
    if not found:
        raise Refused(f"loop {loop.key} adds nothing up")
    return found


def _summed(
    function: Function, loop: For, sums: dict[str, Expr], lanes: Lanes, sizes: tuple[Name, Name]
) -> list[Stmt]:
    element, vector = lanes.element, lanes.vector
    vectors, width = sizes
    kind = counter_type(function, loop)
    names = {old: fresh_name(function, old) for old in sums}
    stems = (f"{loop.var}_block", "part", "lane", "steps")
    base, part, lane, steps = (fresh_name(function, stem) for stem in stems)
    size = Binary("*", vectors, width)
    kinds = {**lanes.kinds, **dict.fromkeys(sums, element)}
    lanes = replace(lanes, kinds=kinds, wide=frozenset(names.values()), steps=steps)
    offset = Binary("/", Binary("-", Name(loop.var), Name(base)), width)
    by_target = {target: Index(Name(names[old]), offset) for old, target in sums.items()}
    body: list[Stmt] = []
    for stmt in body_of(loop):
        match stmt:
            case ExprStmt(expr=Assign() as expr) if (update := update_of(expr)) is not None:
                stmt = ExprStmt(replace(update.assignment, target=by_target[update.target]))
        turned, lanes = vector_statement(stmt, lanes)
        body.append(turned)
    end = upper_end(loop)
    whole = left_over(function, loop, size, end)
    unroll = fully_unrolled(function)
    limit = Binary("+", Name(base), size)
    keys = Keys(function)
    points = For(loop.key, kind, loop.var, Name(base), "<", limit, width, tuple(body), unroll)
    main = For(keys.new(base), kind, base, loop.start, "<", whole, size, (points,))
    plain = replace(loop, key=loop.var, type=kind, pragmas=())
    tail = keys.over(plain, whole, end)
    zero = Unary("-", Number("0.0f" if element == "float" else "0.0"))
    declare: list[Stmt] = [Decl(vector, n, (vectors,)) for n in names.values()]

    def each(var: str, limit: Expr, *stmts: Stmt, pragmas: tuple[str, ...] = ()) -> For:
        return For(keys.new(var), "int", var, Number("0"), "<", limit, Number("1"), stmts, pragmas)

    if steps in names_in(tuple(body)):
        step = ExprStmt(Assign("=", Index(Name(steps), Name(lane)), Name(lane)))
        declare += [Decl(vector, steps), each(lane, width, step)]
    clear = [ExprStmt(Assign("=", Index(Name(n), Name(part)), splat(zero, lanes))) for n in names.values()]
    parts = {old: Index(Index(Name(names[old]), Name(part)), Name(lane)) for old in sums}
    join = [ExprStmt(Assign("+=", target, parts[old])) for old, target in sums.items()]
    inner = each(lane, width, *join)
    cleared, joined = (each(part, vectors, *stmts, pragmas=unroll) for stmts in (clear, [inner]))
    return [*declare, cleared, main, joined, tail]


def several_sums(function: Function, args: Args) -> Function:
    """Adds up in several variables by turns, which are joined after the loop: none waits for the one before.

    Takes ``loop``; ``count`` from 2 to 8; ``reassociate`` has to be true.
    """
    require_leave(args, "several sums add in another order, which numerics does not allow")
    loop, count = simple_loop(function, args), argument(args, "count", int)
    require_copies(loop, count)
    kinds = types_of(function)
    sums = _scalar_sums(function, loop)
    keys = Keys(function)
    made, names = function, set[str]()
    before: list[Stmt] = []
    join: list[Stmt] = []
    copies: list[Stmt] = [Block(loop.body)]
    for number in range(1, count):
        own: dict[str, str] = {}
        for name in sums:
            own[name] = copy = fresh_name(made, f"{name}_{number + 1}", names)
            names.add(copy)
            kind = writable(kinds[name])
            before.append(Decl(kind, copy, (), Unary("-", Number("0.0f" if kind == "float" else "0.0"))))
            join.append(ExprStmt(Assign("+=", Name(name), Name(copy))))
        part = substitute(loop.body, loop.var, add(Name(loop.var), Number(str(number))))
        for name, copy in own.items():
            part = substitute(part, name, Name(copy))
        copies.append(Block(keys.again(part)))
    kind, end = counter_type(function, loop), upper_end(loop)
    whole = left_over(function, loop, Number(str(count)), end)
    main = replace(
        loop, type=kind, op="<", limit=whole, step=Number(str(count)), body=tuple(copies), pragmas=()
    )
    rest = replace(keys.over(loop, whole, end), type=kind)
    return replace_statement(function, loop, [*before, main, *join, rest])


def _scalar_sums(function: Function, loop: For) -> list[str]:
    """Variables of the function alone that a loop does nothing with but add to them, each a fraction."""
    kinds = types_of(function)
    own = own_variables(function, loop)
    found = [n for n in added_to(loop.body) if n in own and type_of(Name(n), kinds) in LANES]
    if not found:
        raise Refused(f"loop {loop.key} adds nothing up in a variable")
    return found


@reassociating
@for_each_loop
def _several_sites(function: Function, loop: For) -> Iterator[Site]:
    if len(loops_of(loop)) == 1 and _scalar_sums(function, loop):
        for count in (2, 4, 8):
            yield {"loop": loop.key, "count": count, "reassociate": True}


@reassociating
@for_each_loop
def _sum_sites(function: Function, loop: For) -> Iterator[Site]:
    if len(loops_of(loop)) > 1:
        return
    lanes = LANES.get(type_of(next(iter(_sums(loop).values())), types_of(function)))
    if lanes is not None:
        sizes = (f"PARTS_{loop.var}", (1, 2, 4, 8), 4), (f"LANES_{loop.var}", lanes, lanes[-1])
        yield {"loop": loop.key, "reassociate": True, "parameters": parameters(function, *sizes)}


OPERATORS = (
    knowing_members(
        partial_sums, _sum_sites, "adds up in several vectors (another order of additions)", languages=HOST
    ),
    knowing_members(
        several_sums, _several_sites, "adds up in several variables by turns (another order of additions)"
    ),
)
