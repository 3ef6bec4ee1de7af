"""How much two programs differ: small vectors of what their trees hold, nothing learnt. May not compile."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator

from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Decl,
    Expr,
    For,
    Function,
    If,
    Index,
    Number,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import names_in, subtrees

__all__ = ["Embedding", "distance", "embed"]

WIDTH = 128
"""Numbers of a vector."""

Embedding = tuple[float, ...]
"""A vector of length 1, or of zeros for a program without statements."""


def embed(program: Program) -> Embedding:
    """Counts of what stands in what, hashed to :data:`WIDTH` places, on a logarithmic scale, scaled to length 1.

    A feature is a kind of node with the kind of its parent and how many loops it is in; names and sizes do not count.
    Source: feature hashing as in Weinberger et al., "Feature hashing for large scale multitask learning" (2009).
    """
    counts: Counter[int] = Counter()
    for function in program.functions.values():
        for feature in _features(function):
            place = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=4).digest(), "little")
            counts[place % WIDTH] += 1
    values = [math.log1p(counts[i]) for i in range(WIDTH)]
    length = math.sqrt(math.fsum(v * v for v in values))
    return tuple(v / length for v in values) if length else tuple(values)


def distance(a: Embedding, b: Embedding) -> float:
    """1 less the cosine: 0 for the same direction, 1 for nothing in common."""
    return max(0.0, 1.0 - math.fsum(x * y for x, y in zip(a, b, strict=True)))


def _features(function: Function) -> Iterator[str]:
    for param in function.params:
        yield f"param {' '.join(param.qualifiers)} {'const' in param.base.split()}"
    if function.launch is not None:
        for axis, (grid, block) in enumerate(zip(function.launch.grid, function.launch.block, strict=False)):
            yield f"launch {axis} {len(grid.names)} {len(block.names)}"
    yield from _of_body(function.body, "function", ())


def _of_body(body: tuple[Stmt, ...], parent: str, loops: tuple[str, ...]) -> Iterator[str]:
    depth = len(loops)
    for stmt in body:
        kind = _kind(stmt)
        yield f"{depth} {parent} {kind}"
        match stmt:
            case For():
                yield from (f"{depth} pragma {p.split('(')[0]}" for p in stmt.pragmas)
                yield from _of_body(stmt.body, kind, (stmt.var, *loops))
            case If():
                yield from _of_body(stmt.then, kind, loops)
                yield from _of_body(stmt.other, "else", loops)
            case Block():
                yield from _of_body(stmt.body, kind, loops)
            case _:
                for expr in subtrees(stmt):
                    if isinstance(expr, Index):
                        # How the loops around move it, innermost first: that is what the order of loops changes.
                        yield f"element {''.join(_move(expr, var) for var in loops)}"
                    elif isinstance(expr, Expr):
                        yield f"{depth} {kind} {_kind(expr)}"


def _move(element: Index, var: str) -> str:
    """How a loop moves an access: not at all, to the next element, or further."""
    if var not in names_in(element.index):
        return "0"
    poly = polynomial(element.index, {var})
    return "1" if poly is not None and poly.get((var,)) == 1 else "n"


def _kind(node: Stmt | Expr) -> str:
    match node:
        case For(step=step):
            return "loop" if isinstance(step, Number) else "tiles"
        case Decl(dims=dims):
            return "array" if dims else "scalar"
        case Binary(op=op) | Assign(op=op):
            return op
        case Call(function=function):
            return f"call {function}"
        case OpaqueStmt(text=text):
            return f"text {text.split('(')[0][:12]}"
    return type(node).__name__
