"""Partial sums: a sum grows in several vectors at once, which are joined after the loop.

That is another order of additions. May not decide whether that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import plain_type, types_of
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Operator,
    Refused,
    all_loops,
    analyse,
    argument,
    body_of,
    counter_type,
    define,
    find_loop,
    fresh_key,
    fresh_name,
    loops_of,
    parameter,
    rekeyed,
    replace_statement,
    require_simple_loop,
)
from tuner.spaces.source.operators.bounds import left_over, require_no_wrap, upper_end
from tuner.spaces.source.operators.loop_pragmas import fully_unrolled
from tuner.spaces.source.operators.values.vectors import (
    LANES,
    WIDENS,
    Lanes,
    type_of,
    vector_statement,
    vector_type,
)
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    Stmt,
    Unary,
)
from tuner.spaces.source.updates import update_of
from tuner.spaces.source.walks import index_chain, names_in, subtrees, written_names

__all__ = ["OPERATORS"]


def partial_sums(function: Function, args: Args) -> Function:
    """Adds up in several vectors at once and joins them after the loop: another order of additions.

    Args:
        function: to change.
        args: ``loop``; ``reassociate`` has to be true; ``parameters``: vectors, lanes.
    """
    if args.get("reassociate") is not True:
        raise Refused("partial sums add in another order, which numerics does not allow")
    loop = find_loop(function, argument(args, "loop"))
    require_simple_loop(function, loop)
    found = analyse(function, [loop], args)
    reason = found.carried_by(loop.key)
    if reason:
        raise Refused(reason)
    kinds = types_of(function)
    sums = _sums(loop, kinds)
    element = type_of(next(iter(sums.values())), kinds)
    if element not in LANES or any(type_of(t, kinds) != element for t in sums.values()):
        raise Refused(f"loop {loop.key} does not sum in one floating-point type")
    made, (vectors, width) = define(function, args, 2)
    text = width.id if isinstance(width, Name) else ""
    vector = fresh_name(made, f"{element}_{text.lower()}")
    narrow = fresh_name(made, f"float_{text.lower()}") if element == "double" else ""
    summed = _summed(made, loop, sums, (vector, element, narrow), (vectors, width))
    types = [vector_type(vector, element, text)]
    if any(isinstance(n, Call) and n.function == WIDENS for n in subtrees(tuple(summed))):
        types.append(vector_type(narrow, "float", text))
    made = replace(made, preamble=(*made.preamble, *types))
    return replace_statement(made, loop, summed)


def _sums(loop: For, kinds: dict[str, str]) -> dict[str, Expr]:
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
    function: Function,
    loop: For,
    sums: dict[str, Expr],
    types: tuple[str, str, str],
    sizes: tuple[Expr, Expr],
) -> list[Stmt]:
    vector, element, narrow = types
    vectors, width = sizes
    kind = counter_type(function, loop)
    kinds = {n: plain_type(k) for n, k in types_of(function).items()}
    kinds |= dict.fromkeys(sums, element)
    names = {old: fresh_name(function, old) for old in sums}
    base, part, lane, steps = (
        fresh_name(function, n) for n in (f"{loop.var}_block", "part", "lane", "steps")
    )
    size = Binary("*", vectors, width)
    lanes = Lanes(
        element=element,
        vector=vector,
        counter=loop.var,
        kinds=kinds,
        const=frozenset(n for n, k in types_of(function).items() if "const" in k.split()),
        wide=frozenset(names.values()),
        steps=steps,
        narrow=narrow,
    )
    offset = Binary("/", Binary("-", Name(loop.var), Name(base)), width)
    by_target = {target: Index(Name(names[old]), offset) for old, target in sums.items()}
    body: list[Stmt] = []
    for stmt in body_of(loop):
        update = (
            update_of(stmt.expr) if isinstance(stmt, ExprStmt) and isinstance(stmt.expr, Assign) else None
        )
        if update is not None:
            stmt = ExprStmt(replace(update.assignment, target=by_target[update.target]))
        turned, lanes = vector_statement(stmt, lanes)
        body.append(turned)
    end = upper_end(loop)
    require_no_wrap(function, loop)
    whole = left_over(loop, size, end)
    unroll = fully_unrolled(function)
    limit = Binary("+", Name(base), size)
    taken = {f.key for f in all_loops(function)}

    def key(stem: str) -> str:
        made = fresh_key(function, stem, taken)
        taken.add(made)
        return made

    points = For(loop.key, kind, loop.var, Name(base), "<", limit, width, tuple(body), unroll)
    main = For(key(base), kind, base, loop.start, "<", whole, size, (points,))
    tail = For(
        key(loop.var), kind, loop.var, whole, "<", end, Number("1"), rekeyed(function, loop.body, taken)
    )
    zero = Unary("-", Number("0.0f" if element == "float" else "0.0"))
    declare: list[Stmt] = [Decl(vector, n, (vectors,)) for n in names.values()]
    if steps in names_in(tuple(body)):
        each = ExprStmt(Assign("=", Index(Name(steps), Name(lane)), Name(lane)))
        declare += [
            Decl(vector, steps, ()),
            For(key(lane), "int", lane, Number("0"), "<", width, Number("1"), (each,)),
        ]
    clear = [
        ExprStmt(Assign("=", Index(Name(n), Name(part)), Binary("-", zero, _zeros(vector))))
        for n in names.values()
    ]
    join: list[Stmt] = []
    for old, target in sums.items():
        value = Index(Index(Name(names[old]), Name(part)), Name(lane))
        join.append(ExprStmt(Assign("+=", target, value)))
    inner = For(key(lane), "int", lane, Number("0"), "<", width, Number("1"), tuple(join))
    return [
        *declare,
        For(key(part), "int", part, Number("0"), "<", vectors, Number("1"), tuple(clear), unroll),
        main,
        For(key(part), "int", part, Number("0"), "<", vectors, Number("1"), (inner,), unroll),
        tail,
    ]


def _zeros(vector: str) -> Expr:
    return Opaque(f"({vector}){{0}}")


def _sum_sites(function: Function, reassociate: bool) -> Iterator[dict[str, Any]]:
    if not reassociate:
        return
    kinds = types_of(function)
    for loop in all_loops(function):
        if len(loops_of(loop)) > 1:
            continue
        try:
            sums = _sums(loop, kinds)
        except Refused:
            continue
        element = type_of(next(iter(sums.values())), kinds)
        if element in LANES:
            lanes = LANES[element]
            first = parameter(function, f"PARTS_{loop.var}", (1, 2, 4, 8), 4)
            second = parameter(function, f"LANES_{loop.var}", lanes, lanes[-1], [first["name"]])
            yield {"loop": loop.key, "reassociate": True, "parameters": [first, second]}


OPERATORS: Iterable[Operator] = (
    Operator(
        name="partial_sums",
        summary="adds up in several vectors (another order of additions)",
        apply=partial_sums,
        sites=_sum_sites,
        languages=HOST,
        members=True,
    ),
)
