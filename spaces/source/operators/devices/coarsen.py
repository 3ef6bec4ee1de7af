"""Thread coarsening: how much a work-item (thread) does.

Groups run in no order, so that one group may do the work of several, statement by statement: that is what coarsening
rests on. The launch changes with the source. May not judge what is fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tuner.spaces.source.kinds import hidden
from tuner.spaces.source.operators.base import (
    DEVICE,
    Args,
    Keys,
    Refused,
    Site,
    all_loops,
    define,
    fresh_name,
    knowing_members,
    parameters,
    require_known,
)
from tuner.spaces.source.operators.bounds import joined
from tuner.spaces.source.operators.devices.beyond import Beyond
from tuner.spaces.source.operators.devices.guards import (
    assigned,
    conjuncts,
    differing,
    negated,
    reads_memory,
    truth,
)
from tuner.spaces.source.operators.devices.threads import (
    AXES,
    coordinate,
    dims_of,
    is_barrier,
    is_exit,
    is_return,
    is_shared,
    launch_of,
    place_names,
    with_launch,
)
from tuner.spaces.source.operators.loops.push import Inner, Piece, Point, Run, expand, pieces
from tuner.spaces.source.operators.naming import behind
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    Number,
    Stmt,
)
from tuner.spaces.source.walks import map_expressions, names_in, statements, subtrees, written_names

__all__ = ["OPERATORS"]

_ELSEWHERE = re.compile(
    r"get_(global|group|num|enqueued)_\w+|(blockIdx|gridDim)(\..*)?|\w*barrier\w*|__syncthreads\w*|grid_group|this_grid"
)
"""Words by which what a name hides asks for its group, or waits for it."""
_COUNTING = re.compile(r"\w*(atom|printf|async|exchange)\w*", re.IGNORECASE)
"""Functions of which it shows how often they are called, whatever they are called with."""
_COUNTS = (1, 2, 4, 8)


def coarsen(function: Function, args: Args) -> Function:
    """Lets a group do the work of several neighbouring ones, statement by statement, in registers of its items.

    What is the same for all of them is computed once. Where an item may end early, blocks of groups in which none does
    are done so, others one after the other.

    Args:
        function: a kernel; its stores have to stand under a condition on the place along each axis, because the last
            group may reach beyond the launch as it was.
        args: ``axes``; one of ``parameters`` for each.
    """
    launch = launch_of(function)
    axes = args.get("axes")
    if not isinstance(axes, list) or not axes or len(set(axes)) < len(axes):
        raise Refused(f"the edit's 'axes' is {axes!r}")
    if not all(isinstance(a, int) and 0 <= a < len(launch.grid) for a in axes):
        raise Refused("the launch has no such axes")
    _require_in_sight(function)
    made, counts = define(function, args, len(axes))
    body, grid = made.body, [e.text for e in launch.grid]
    loops: list[For] = []
    for axis, count in zip(axes, counts, strict=True):
        part = fresh_name(made, f"part_{AXES[axis]}")
        body = _renumbered(replace(made, body=body), axis, part, count)
        key = Keys(made).new(part)
        loops.append(For(key, "int", part, Number("0"), "<", count, Number("1"), (), ("unroll",)))
        grid[axis] = f"ceil(({grid[axis]}) / {count.id})"
    frame = _frame(function, body, tuple(loops))
    # Where items never end early, one axis after the other: what depends on one of them only is not done for both.
    steps = [tuple(loops)] if frame.guards else [(f,) for f in loops]
    for step in steps:
        frame = _frame(function, body, step)
        for loop in step:
            _require_bounded(replace(made, body=body), frame, loop.var)
        body = _versioned(replace(made, body=body), frame)
    outermost = {id(s) for s in body}
    inner = [s for s in statements(body) if isinstance(s, Decl) and id(s) not in outermost]
    if function.language == "opencl" and any(is_shared(s.type) for s in inner):
        raise Refused("what a group shares would be declared in an inner scope")
    return with_launch(replace(made, body=body), grid=grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """A kernel's body over several parts.

    Attributes:
        loops: over the parts, outermost first.
        own: names whose values may differ between parts.
        first: what is done once before.
        plain: declarations that are cheap to make again for each part.
        guards: conditions under which an item goes on, which depend on the part.
        rest: the work.
    """

    loops: tuple[For, ...]
    own: frozenset[str]
    first: tuple[Stmt, ...]
    plain: tuple[Decl, ...]
    guards: tuple[Expr, ...]
    rest: tuple[Stmt, ...]


def _renumbered(function: Function, axis: int, part: str, count: Expr) -> tuple[Stmt, ...]:
    """The body as one of ``count`` groups in the place of one does it."""
    language = function.language
    require_known(tuple(s for s in function.body if not is_exit(s)), "the kernel")
    if place_names(function, axis).isdisjoint({"get_group_id", "get_global_id", f"blockIdx.{AXES[axis]}"}):
        raise Refused("the kernel does not ask for its group along this axis")
    group, item, items = (coordinate(language, w, axis) for w in ("group", "item", "items"))
    own: Expr = Binary("+", Binary("*", group, count), Name(part))
    forbidden = (coordinate(language, "groups", axis), coordinate(language, "total", axis))
    everywhere = Binary("+", Binary("*", own, items), item)

    def change(expr: Expr) -> Expr:
        if expr in forbidden:
            raise Refused("the kernel asks how many groups there are")
        if expr == group:
            return own
        return everywhere if expr == Call("get_global_id", (Number(str(axis)),)) else expr

    return tuple(s for s in map_expressions(function.body, change) if not isinstance(s, Comment))


def _require_in_sight(function: Function) -> None:
    """Refuses what names hide of an item's group, and what changes that parts have in common."""
    changed = assigned(function.body) & {p.name for p in function.params if not p.is_array}
    if changed:
        raise Refused(f"{min(changed)} changes from one part to the next")
    again = hidden(function)
    if again:
        # Names get elements for parts, whatever they mean where they stand.
        raise Refused(f"{again} is declared again where it already means something")
    outer = [f.key for f in all_loops(function) if not f.type]
    if outer:
        raise Refused(f"the counter of loop {outer[0]} is declared before it")
    asks = sorted(w for w in behind(function, function.body) if _ELSEWHERE.fullmatch(w))
    if asks:
        raise Refused(f"the kernel asks for its group by {asks[0]} behind a name")


def _counting(function: Function) -> set[str]:
    """Functions that are called as often as there are parts, though their arguments are the same for all."""
    called = {n.function for n in subtrees(function.body) if isinstance(n, Call)}
    return {
        name
        for name in called
        if any(map(_COUNTING.fullmatch, {name, *behind(function, ExprStmt(Call(name, ())))}))
    }


def _frame(function: Function, body: tuple[Stmt, ...], loops: tuple[For, ...]) -> _Frame:
    own = differing(body, {f.var for f in loops} | _counting(function))
    written = assigned(body)
    first: list[Stmt] = []
    plain: list[Decl] = []
    guards: list[Expr] = []
    kept: list[Stmt] = []
    rest = list(body)
    while rest:
        stmt = rest[0]
        if isinstance(stmt, Decl):
            cheap = stmt.init is not None and not stmt.dims and not reads_memory(stmt)
            cheap = cheap and written.isdisjoint(names_in(stmt.init))
            if not cheap or stmt.name in written:
                kept.append(stmt)
            elif stmt.name in own:
                plain.append(stmt)
            else:
                first.append(stmt)
        elif isinstance(stmt, If) and is_exit(stmt):
            if own.isdisjoint(names_in(stmt.condition)):
                first.append(stmt)
            else:
                guards += [negated(function, c) for c in conjuncts(stmt.condition, "||")]
        else:
            break
        rest.pop(0)
    last = rest[0] if len(rest) == 1 else None
    if isinstance(last, If) and not last.other and any(isinstance(n, For) for n in subtrees(last)):
        guards += conjuncts(last.condition, "&&")
        rest = list(last.then)
    return _Frame(
        loops=loops,
        own=frozenset(own),
        first=tuple(first),
        plain=tuple(plain),
        guards=tuple(guards),
        rest=(*kept, *rest),
    )


def _require_bounded(function: Function, frame: _Frame, part: str) -> None:
    """Refuses what could reach beyond the launch as it was, or would let items wait for ones that have ended."""
    body = function.body
    if any(is_return(s) for s in statements(frame.rest)):
        raise Refused("an item may end in the midst of the work")
    if frame.guards and any(is_barrier(n) for n in subtrees(frame.rest)):
        raise Refused("items that wait for one another may end early")
    late = {s.name for s in frame.rest if isinstance(s, Decl)} & names_in(frame.guards)
    if late:
        raise Refused(f"a condition on an item's place needs {min(late)}, which changes")
    beyond = Beyond(function=function, part=part, own=differing(body, {part}))
    if not beyond.guarded(frame.guards):
        beyond.require(frame.rest)


def _versioned(function: Function, frame: _Frame) -> tuple[Stmt, ...]:
    """All parts together; where an item may end early, only if none does, and else one after the other."""
    keys = Keys(function)
    fast = _jammed(function, frame, keys)
    if not frame.guards:
        return (*frame.first, *fast)
    whole = fresh_name(function, "all_inside")
    inside = joined("&&", frame.guards)
    check = ExprStmt(Assign("&=", Name(whole), truth(inside)))
    slow = If(inside, keys.again(frame.rest))
    return (
        *frame.first,
        Decl("int", whole, (), Number("1")),
        *_over_parts(frame, (check,), keys),
        If(Name(whole), fast, _over_parts(frame, (slow,), keys, unrolled=False)),
    )


def _over_parts(
    frame: _Frame, stmts: tuple[Stmt, ...], keys: Keys, *, unrolled: bool = True
) -> tuple[Stmt, ...]:
    """Statements for each part, with the plain declarations that they need."""
    needed = names_in(stmts)
    before: list[Stmt] = []
    for decl in reversed(frame.plain):
        if decl.name in needed:
            before.insert(0, decl)
            needed |= names_in(decl)
    body: tuple[Stmt, ...] = (*before, *stmts)
    for loop in reversed(frame.loops):
        pragmas = loop.pragmas if unrolled else ()
        body = (replace(loop, key=keys.new(loop.key), body=body, pragmas=pragmas),)
    return body


def _jammed(function: Function, frame: _Frame, keys: Keys) -> tuple[Stmt, ...]:
    """The work for all parts together: loops that are the same for all stay outside of those over parts."""
    marks = [replace(frame.loops[0], var=name) for name in sorted(frame.own)]
    parts = _split(pieces(frame.rest, marks), frame.own)
    points = [Point(loop=f, base="", size=f.limit, key=f.key, type=f.type) for f in frame.loops]
    shared, declared = expand(parts, points, partial(fresh_name, function), frame.own)
    # Which statements are the same for all shows before scalars become elements.
    return (*declared, *_emit(parts, shared, frame, keys))


def _split(parts: Sequence[Piece], own: frozenset[str]) -> tuple[Piece, ...]:
    """Runs cut where statements are the same for all parts: those are executed once."""
    made: list[Piece] = []
    for piece in parts:
        if isinstance(piece, Inner):
            made.append(replace(piece, parts=_split(piece.parts, own)))
            continue
        cheap, once = _repeated(piece.stmts, parts, own), False
        for offset, stmt in enumerate(piece.stmts):
            last = made[-1] if made else None
            before, once = once, _same_for_all(stmt, own) and id(stmt) not in cheap
            if isinstance(last, Run) and offset and before == once:
                made[-1] = replace(last, stmts=(*last.stmts, stmt))
            else:
                made.append(Run(first=piece.first + offset, stmts=(stmt,)))
    return tuple(made)


def _repeated(stmts: Sequence[Stmt], parts: Sequence[Piece], own: frozenset[str]) -> set[int]:
    """Declarations, by identity, that are the same for all parts and yet made again, where they are needed."""
    found: set[int] = set()
    elsewhere: set[str] = set()
    for piece in parts:
        if isinstance(piece, Inner):
            elsewhere |= names_in(piece.loop)
        elif piece.stmts is not stmts:
            elsewhere |= names_in(piece.stmts)
    for place in reversed(range(len(stmts))):
        stmt = stmts[place]
        if not isinstance(stmt, Decl) or stmt.dims or stmt.init is None or reads_memory(stmt):
            continue
        if not names_in(stmt.init).isdisjoint(assigned(stmts)):
            continue
        users = [s for s in stmts[place + 1 :] if stmt.name in names_in(s)]
        differing = all(not _same_for_all(s, own) or id(s) in found for s in users)
        if "const" in stmt.type.split() and stmt.name not in elsewhere and users and differing:
            found.add(id(stmt))
    return found


def _same_for_all(stmt: Stmt, own: frozenset[str]) -> bool:
    return own.isdisjoint(names_in(stmt) | written_names(stmt))


def _emit(before: Sequence[Piece], parts: Sequence[Piece], frame: _Frame, keys: Keys) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    old = {p.first: p for p in before if isinstance(p, Run)}
    loops = {p.place: p for p in before if isinstance(p, Inner)}
    for piece in parts:
        if isinstance(piece, Inner):
            inner = _emit(loops[piece.place].parts, piece.parts, frame, keys)
            made.append(replace(piece.loop, body=inner))
        elif all(_same_for_all(s, frame.own) for s in old[piece.first].stmts):
            made += piece.stmts
        else:
            made += _over_parts(frame, piece.stmts, keys)
    return tuple(made)


def _coarsen_sites(function: Function, _: bool) -> Iterator[Site]:
    if function.launch is None or not function.whole:
        return
    count = dims_of(function)
    choices = [[a] for a in range(count)] + [[b, a] for a in range(count) for b in range(a + 1, count)]
    for axes in choices:
        counts = parameters(function, *((f"COARSEN_{AXES[axis]}", _COUNTS, 2) for axis in axes))
        yield {"axes": axes, "parameters": counts}


OPERATORS = (
    knowing_members(
        coarsen, _coarsen_sites, "lets a group do the work of several", checked=False, languages=DEVICE
    ),
)
