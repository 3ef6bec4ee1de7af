"""Shared (local) memory: tiles of what a group reads again and again, loaded together; padded, double buffered.

What is staged is only read by the kernel and does not change while it runs, so that a copy is as good. May not judge
what is fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tuner.spaces.source.kinds import is_floating, writable
from tuner.spaces.source.operators.base import (
    DEVICE,
    Args,
    Keys,
    Refused,
    Site,
    argument,
    attempt,
    counter_type,
    define,
    find_loop,
    fresh_name,
    knowing_members,
    parameters,
    require_known,
)
from tuner.spaces.source.operators.bounds import add, joined, minimum, subtract, upper_end
from tuner.spaces.source.operators.devices.guards import is_counted, is_harmless, truth
from tuner.spaces.source.operators.devices.threads import (
    Threads,
    barrier,
    block_items,
    coordinate,
    dims_of,
    filled,
    numbered,
    read_only,
    read_threads,
    shared_type,
    uniform_names,
)
from tuner.spaces.source.operators.devices.tiles import Tile, find_tile, is_tile
from tuner.spaces.source.operators.simple_loops import require_simple_loop
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
from tuner.spaces.source.walks import map_expressions, names_in, statements, substitute, written_names

__all__ = ["OPERATORS"]

_DEPTHS = (4, 8, 16, 32, 64)
_PADS = (0, 1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Everything that emitting a staged kernel needs."""

    threads: Threads
    loop: For
    tiles: tuple[Tile, ...]
    depth: Expr
    pad: Expr
    items: Expr
    own: str
    active: str
    double: bool
    members: bool


def stage(function: Function, args: Args) -> Function:
    """Cuts a loop into tiles whose elements the items of a group load together into shared memory.

    Args:
        function: a kernel whose items do not wait for one another yet, with one loop that is the same for all items.
        args: ``loop``; ``arrays``; ``double``: load the next tile while the last one is used; two of ``parameters``:
            depth of a tile, padding of its rows.
    """
    key = argument(args, "loop")
    arrays = args.get("arrays")
    if not isinstance(arrays, list) or not arrays:
        raise Refused(f"the edit's 'arrays' is {arrays!r}")
    threads = read_threads(function)
    loop = find_loop(function, key)
    _check_loop(function, threads, loop)
    made, (depth, pad) = define(function, args, 2)
    taken: list[str] = []
    tiles = []
    for array in arrays:
        tile = find_tile(made, threads, loop, array, taken)
        taken.append(tile.name)
        tiles.append(tile)
    own, active = (fresh_name(made, stem, taken) for stem in ("own_item", "active"))
    plan = _Plan(
        threads=threads,
        loop=loop,
        tiles=tuple(tiles),
        depth=depth,
        pad=pad,
        items=joined("*", [block_items(made, axis) for axis in range(dims_of(made))]),
        own=own,
        active=active,
        double=args.get("double") is True,
        members=function.members,
    )
    return replace(made, body=_emit(made, plan))


def _check_loop(function: Function, threads: Threads, loop: For) -> None:
    if not any(s is loop for s in threads.body):
        raise Refused(f"loop {loop.key} is not at the outermost level of the work")
    require_simple_loop(function, loop)
    require_known(threads.body, "the kernel")
    if any(isinstance(s, For) for s in statements(loop.body)):
        raise Refused(f"loop {loop.key} holds loops")
    moving = set(threads.ids.values()) | {d.name for d in threads.before} | written_names(threads.body)
    bounds = (loop.start, loop.limit)
    if not moving.isdisjoint(names_in(bounds)):
        raise Refused(f"loop {loop.key} is not the same for all items")
    if not is_harmless((loop.start, loop.limit), uniform_names(function)):
        raise Refused(f"a bound of loop {loop.key} is not for items to compute that have ended")


def _emit(function: Function, plan: _Plan) -> tuple[Stmt, ...]:
    language, threads, loop = function.language, plan.threads, plan.loop
    numbers = numbered(language, threads)
    tiles = [_declared(function, plan, tile) for tile in plan.tiles]
    at = next(i for i, s in enumerate(threads.body) if s is loop)
    work: list[Stmt] = [Decl("const int", plan.own, (), _own_item(function))]
    if threads.conditions:
        work.append(Decl("const int", plan.active, (), truth(joined("&&", threads.conditions))))
    uniform = uniform_names(function)
    before = _guarded(plan, threads.body[:at], uniform)
    after = _guarded(plan, threads.body[at + 1 :], uniform)
    return (*tiles, *numbers, *threads.before, *work, *before, *_tiled(function, plan), *after)


def _guarded(plan: _Plan, stmts: tuple[Stmt, ...], uniform: set[str]) -> tuple[Stmt, ...]:
    """Statements for active items only; variables stay in sight of what follows."""
    if not plan.threads.conditions:
        return stmts
    made: list[Stmt] = []
    held: list[Stmt] = []

    def flush() -> None:
        if held:
            made.append(If(Name(plan.active), tuple(held)))
            held.clear()

    for stmt in stmts:
        if isinstance(stmt, Decl) and is_harmless(stmt.init, uniform):
            flush()
            made.append(stmt)
        elif isinstance(stmt, Decl):
            kind = writable(stmt.type)
            if stmt.dims or stmt.init is None or not (_is_number(kind) or plan.members) or "auto" in kind:
                raise Refused(f"{stmt.name} is no number that could be given its value later")
            flush()
            made.append(Decl(kind, stmt.name, (), Number("0") if _is_number(kind) else None))
            held.append(ExprStmt(Assign("=", Name(stmt.name), stmt.init)))
        else:
            held.append(stmt)
    flush()
    return tuple(made)


def _is_number(kind: str) -> bool:
    return is_counted(kind) or is_floating(kind)


def _own_item(function: Function) -> Expr:
    """The number of an item in its group."""
    language, count = function.language, dims_of(function)
    made = coordinate(language, "item", count - 1)
    for axis in reversed(range(count - 1)):
        made = Binary("+", Binary("*", made, block_items(function, axis)), coordinate(language, "item", axis))
    return made


def _declared(function: Function, plan: _Plan, tile: Tile) -> Decl:
    rows: list[Expr] = []
    if tile.axis is None:
        rows = [plan.depth]
    else:
        size = block_items(function, tile.axis)
        slow, fast = (size, plan.depth) if tile.along else (plan.depth, size)
        rows = [slow, Binary("+", fast, plan.pad)]
    dims = (*((Number("2"),) if plan.double else ()), *rows)
    return Decl(shared_type(function.language, tile.element), tile.name, dims)


def _tiled(function: Function, plan: _Plan) -> tuple[Stmt, ...]:
    loop, language = plan.loop, function.language
    keys = Keys(function)
    first = fresh_name(function, f"{loop.var}_tile", [t.name for t in plan.tiles])
    end = upper_end(loop)
    wait = barrier(language)
    kind = counter_type(function, loop)
    depth_end = minimum(Binary("+", Name(first), plan.depth), end)
    now = fresh_name(function, "buffer")

    def load(at: Expr, buffer: Expr | None) -> tuple[Stmt, ...]:
        return tuple(
            _load(function, plan, tile, at, buffer, keys.new(f"{tile.name}_item")) for tile in plan.tiles
        )

    body = _staged_body(function, plan, Name(first), Name(now) if plan.double else None)
    use: Stmt = For(
        keys.new(loop.key), kind, loop.var, Name(first), "<", depth_end, Number("1"), body, loop.pragmas
    )
    if plan.threads.conditions and not _is_for_all(function, plan, body):
        use = If(Name(plan.active), (use,))
    key = keys.new(first)
    if not plan.double:
        inner: tuple[Stmt, ...] = (*load(Name(first), None), wait, use, wait)
        return (For(key, kind, first, loop.start, "<", end, plan.depth, inner),)
    number = Binary("/", subtract(Name(first), loop.start), plan.depth)
    following = Binary("+", Name(first), plan.depth)
    ahead = If(Binary("<", following, end), load(following, Binary("-", Number("1"), Name(now))))
    inner = (Decl("const int", now, (), Binary("&", number, Number("1"))), wait, ahead, use)
    main = For(key, kind, first, loop.start, "<", end, plan.depth, inner)
    return (*load(loop.start, Number("0")), main)


def _is_for_all(function: Function, plan: _Plan, body: tuple[Stmt, ...]) -> bool:
    """Whether items that have nothing to do may go through the loop all the same, which spares a branch."""
    # What is no number has no value before it is given one.
    if plan.members and any(isinstance(s, Decl) and not _is_number(s.type) for s in plan.threads.body):
        return False
    tiles = {t.name for t in plan.tiles}
    plain = map_expressions(body, lambda e: Number("0") if is_tile(e, tiles) else e)
    for stmt in statements(plain):
        match stmt:
            case ExprStmt(expr=Assign(op=op, target=Name(), value=value)) if op not in ("/=", "%="):
                part: Expr | None = value
            case Decl(init=value) | If(condition=value):
                part = value
            case _:
                return False
        if not is_harmless(part, uniform_names(function)):
            return False
    return True


def _load(function: Function, plan: _Plan, tile: Tile, at: Expr, buffer: Expr | None, key: str) -> Stmt:
    """All items of a group load a tile together; what lies outside of the problem is zero, of structures anything."""
    language, loop, threads = function.language, plan.loop, plan.threads
    element = f"{tile.name}_item"
    kind = counter_type(function, loop)
    step = fresh_name(function, f"{loop.var}_load")
    inside: Expr = Binary("<", Name(step), upper_end(loop))
    subscript = substitute(tile.subscript, loop.var, Name(step))
    conditions = [filled(threads, c) for c in threads.conditions]
    if tile.axis is None:
        count, places = plan.depth, [Decl(f"const {kind}", step, (), add(at, Name(element)))]
        subscripts: list[Expr] = [Name(element)]
    else:
        size, name = block_items(function, tile.axis), threads.ids[tile.axis]
        width = plan.depth if tile.along else size
        row, column = Binary("/", Name(element), width), Binary("%", Name(element), width)
        count = Binary("*", size, plan.depth)
        first = Binary("*", coordinate(language, "group", tile.axis), size)
        of_id, of_loop = (row, column) if tile.along else (column, row)
        place = fresh_name(function, f"{name}_load")
        places = [
            Decl(f"const {threads.kinds[tile.axis]}", place, (), add(first, of_id)),
            Decl(f"const {kind}", step, (), add(at, of_loop)),
        ]
        subscript = substitute(subscript, name, Name(place))
        subscripts = [row, column]
        conditions = [substitute(c, name, Name(place)) for c in conditions]
    # What is for other places to meet is not known of these.
    others = {n for a, n in threads.ids.items() if a != tile.axis}
    for condition in (c for c in conditions if others.isdisjoint(names_in(c))):
        inside = Binary("&&", inside, condition)
    target: Expr = Name(tile.name)
    for number in (*((buffer,) if buffer is not None else ()), *subscripts):
        target = Index(target, number)
    value: Expr = Index(Name(tile.array), subscript)
    if plan.members and not _is_number(tile.element):
        store: Stmt = If(inside, (ExprStmt(Assign("=", target, value)),))
    else:
        store = ExprStmt(Assign("=", target, Ternary(inside, value, Number("0"))))
    body: tuple[Stmt, ...] = (*places, store)
    return For(key, "int", element, Name(plan.own), "<", count, plan.items, body)


def _staged_body(function: Function, plan: _Plan, first: Expr, buffer: Expr | None) -> tuple[Stmt, ...]:
    """The loop's body reading tiles."""
    places: dict[Index, Expr] = {}
    step = Binary("-", Name(plan.loop.var), first)
    for tile in plan.tiles:
        made: Expr = Name(tile.name)
        if buffer is not None:
            made = Index(made, buffer)
        if tile.axis is not None:
            item = coordinate(function.language, "item", tile.axis)
            for subscript in (item, step) if tile.along else (step, item):
                made = Index(made, subscript)
        else:
            made = Index(made, step)
        places[tile.read] = made

    return map_expressions(plan.loop.body, lambda e: places.get(e, e) if isinstance(e, Index) else e)


def _stage_sites(function: Function, _: bool) -> Iterator[Site]:
    threads = attempt(read_threads, function)
    if threads is None:
        return
    for loop in (s for s in threads.body if isinstance(s, For)):
        arrays = [a for a in read_only(function) if attempt(find_tile, function, threads, loop, a, [])]
        sizes = parameters(function, (f"TILE_{loop.var}", _DEPTHS, 16), ("PAD", _PADS, 0))
        choices = [arrays] if len(arrays) == 1 else [arrays, *([a] for a in arrays)]
        for chosen in (c for c in choices if c):
            for double in (False, True):
                site = {"loop": loop.key, "arrays": chosen, "parameters": sizes}
                yield site | ({"double": True} if double else {})


OPERATORS = (
    knowing_members(stage, _stage_sites, "loads tiles into shared memory together", languages=DEVICE),
)
