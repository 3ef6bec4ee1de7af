"""Results that are written once and not read again, stored past the caches.

A plain store first fetches the line that it writes to; a non-temporal one of a whole vector does not, which is a third
of the traffic of a loop that reads one array and writes another. May not judge whether the array is too large for the
caches, which decides whether that pays: the run measures it.

Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Non-temporal stores"; Clang Language
Extensions, ``__builtin_nontemporal_store``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tuner.core.compilers import CLANG
from tuner.spaces.source.kinds import is_floating, is_pure, writable
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Keys,
    Operator,
    Refused,
    Site,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    loops_of,
    parameter,
    replace_statement,
    require_independent,
)
from tuner.spaces.source.operators.bounds import add, inline_constants, left_over, minimum, upper_end
from tuner.spaces.source.operators.loop_pragmas import is_fully_unrolled
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.operators.values.vectors import (
    LANES,
    Lanes,
    element_size,
    element_type,
    vector_statement,
    with_lanes,
)
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import index_chain, names_in, statements, substitute, subtrees

__all__ = ["OPERATORS"]

_ADDRESS = "__UINTPTR_TYPE__"
_FENCE = ExprStmt(Call("__atomic_thread_fence", (Name("__ATOMIC_SEQ_CST"),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """What storing past the caches needs.

    Attributes:
        arrays: that are stored to so.
        aligned: the vector type at addresses that are multiples of its size.
        names: of the vectors on their way, each another.
    """

    arrays: frozenset[str]
    aligned: str
    names: Iterator[str]


def stream_stores(function: Function, args: Args) -> Function:
    """Computes a loop in vectors and stores those of arrays that are only written by non-temporal stores.

    The loop begins with single elements up to where the first such store is aligned; a store that is not aligned there
    (rows whose length is no multiple of a vector) is a plain one. After the outermost loop a fence orders the stores
    before all that follow, as plain ones would have been for another thread.

    Takes ``loop``; one of ``parameters``: lanes, a power of 2.
    """
    loop = simple_loop(function, args)
    top = next(s for s in function.body if any(n is loop for n in statements((s,))))
    if any(isinstance(s, OpaqueStmt) for s in statements((top,))):
        raise Refused(f"what is around loop {loop.key} may end before it does")
    require_independent(function, loop, args)
    given, loop = loop, inline_constants(function, loop)
    element = element_type(function, loop)
    arrays = frozenset(a for a in _only_written(function) if _is_stored(loop, a))
    first = _first_store(loop, arrays)
    if first is None:
        raise Refused(f"loop {loop.key} stores to no array that is only written")
    made, (width,) = define(function, args, 1)
    made, lanes = with_lanes(made, loop, element, width)
    stream = _Stream(
        arrays=arrays,
        aligned=fresh_name(made, f"{lanes.vector}_aligned"),
        names=_names(made, "stored"),
    )
    made = replace(made, preamble=(*made.preamble, _aligned_type(stream.aligned, element, width)))
    address = Cast(_ADDRESS, Unary("&", first))
    distance = Binary("/", Unary("-", address), Number(str(element_size(element))))
    vectors = replace(loop, step=width, body=_vectors(loop.body, lanes, stream), pragmas=())
    parts = _around(made, loop, vectors, distance)
    return _fenced(
        replace_statement(made, given, parts), function.body.index(top), len(parts) if top is given else 1
    )


def _names(function: Function, stem: str) -> Iterator[str]:
    taken: set[str] = set()
    while True:
        taken.add(name := fresh_name(function, stem, taken))
        yield name


def _aligned_type(name: str, element: str, width: Name) -> str:
    size = element_size(element)
    return f"typedef {element} {name} __attribute__((vector_size({size} * {width.id}), may_alias));"


def _only_written(function: Function) -> set[str]:
    """Array parameters of which all that is known is plain stores to single elements."""
    stores, uses = Counter[str](), Counter[str]()
    for node in subtrees(function.body):
        if isinstance(node, Assign) and node.op == "=":
            base, subscripts = index_chain(node.target)
            if isinstance(base, Name) and subscripts:
                stores[base.id] += 1
        if isinstance(node, Name):
            uses[node.id] += 1
        elif isinstance(node, OpaqueStmt | Opaque):
            for word in re.findall(r"[A-Za-z_]\w*", node.text):
                uses[word] += 1
    arrays = {p.name for p in function.params if p.is_array and is_floating(p.base)}
    return {name for name, count in stores.items() if name in arrays and uses[name] == count}


def _is_stored(loop: For, array: str) -> bool:
    """Whether the loop stores to an array, and where its counter says."""
    targets = [index_chain(n.target) for n in subtrees(loop.body) if isinstance(n, Assign)]
    own = [subscripts for base, subscripts in targets if base == Name(array)]
    return bool(own) and all(loop.var in names_in(s[-1]) for s in own)


def _first_store(loop: For, arrays: frozenset[str]) -> Expr | None:
    """The place of the first store past the caches, at the first iteration of all loops."""
    for node in subtrees(loop.body):
        if isinstance(node, Assign) and (base := index_chain(node.target)[0]) and isinstance(base, Name):
            if base.id not in arrays:
                continue
            place: Expr = node.target
            # Loops that are further in may start from the counters of those around them.
            for inner in reversed([loop, *loops_of(loop.body)]):
                place = substitute(place, inner.var, inner.start)
            return place
    return None


def _vectors(body: tuple[Stmt, ...], lanes: Lanes, stream: _Stream) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Comment():
                made.append(stmt)
            case For():
                changing = {lanes.counter} | lanes.wide
                bounds = (stmt.start, stmt.limit, stmt.step)
                if not all(is_pure(b) and names_in(b).isdisjoint(changing) for b in bounds):
                    raise Refused(f"the bounds of loop {stmt.key} are not the same for all lanes")
                made.append(replace(stmt, body=_vectors(stmt.body, lanes, stream)))
            case _:
                turned, lanes = vector_statement(stmt, lanes)
                made += _streamed(turned, stmt, lanes, stream)
    return tuple(made)


def _streamed(turned: Stmt, given: Stmt, lanes: Lanes, stream: _Stream) -> list[Stmt]:
    """A statement in vectors, with its store past the caches where it is one of those."""
    if not (isinstance(given, ExprStmt) and isinstance(given.expr, Assign)):
        return [turned]
    base, _ = index_chain(given.expr.target)
    if not (isinstance(base, Name) and base.id in stream.arrays):
        return [turned]
    assert isinstance(turned, ExprStmt)
    assert isinstance(turned.expr, Assign)
    name = next(stream.names)
    address = Unary("&", given.expr.target)
    size = Call("sizeof", (Name(lanes.vector),))
    whole = Binary("==", Binary("%", Cast(_ADDRESS, address), size), Number("0"))
    past = Call("__builtin_nontemporal_store", (Name(name), Cast(f"{stream.aligned} *", address)))
    plain = Assign("=", turned.expr.target, Name(name))
    return [
        Decl(f"const {lanes.vector}", name, (), turned.expr.value),
        If(whole, (ExprStmt(past),), (ExprStmt(plain),)),
    ]


def _around(function: Function, loop: For, vectors: For, distance: Expr) -> list[Stmt]:
    """Single elements up to the first whole vector, so far away, the vectors, and the elements left over."""
    bare = writable(counter_type(function, loop))
    whole, head = (fresh_name(function, f"{loop.var}_{n}") for n in ("aligned", "head"))
    end = upper_end(loop)
    keys = Keys(function)
    width = vectors.step
    rest = left_over(function, replace(loop, start=Name(head)), width, end)
    main = replace(vectors, start=Name(head), op="<", limit=rest)
    first, last = (
        keys.over(replace(loop, pragmas=()), start, limit)
        for start, limit in ((loop.start, Name(head)), (rest, end))
    )
    return [
        Decl(f"const {bare}", whole, (), add(Cast(bare, Binary("%", distance, width)), loop.start)),
        Decl(f"const {bare}", head, (), minimum(Name(whole), end)),
        first,
        main,
        last,
    ]


def _fenced(function: Function, place: int, count: int) -> Function:
    """A fence after a statement that has become so many."""
    at = place + count
    if function.body[at : at + 1] == (_FENCE,):
        return function
    return replace(function, body=(*function.body[:at], _FENCE, *function.body[at:]))


@for_each_loop
def _sites(function: Function, loop: For) -> Iterator[Site]:
    # Of stores past the caches clang alone has a function for any vector.
    if function.compiler != CLANG or not all(map(is_fully_unrolled, loops_of(loop.body))):
        return
    if any(_is_stored(loop, a) for a in _only_written(function)):
        lanes = LANES[element_type(function, loop)]
        found = parameter(function, f"LANES_{loop.var}", lanes, lanes[-1])
        yield {"loop": loop.key, "parameters": [found]}


OPERATORS = (
    Operator(stream_stores, _sites, "stores what is not read again past the caches", languages=HOST),
)
