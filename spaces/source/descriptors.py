"""What kind of variant a program is: axes that mean something for kernels, read off the tree. May not compile."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import (
    Decl,
    For,
    Function,
    Index,
    Number,
    index_chain,
    subtrees,
)

__all__ = ["AXES", "describe"]

AXES: Mapping[str, tuple[str, ...]] = {
    "tiling": ("none", "one loop", "two loops", "three or more"),
    "vectors": ("left to the compiler", "asked for", "written"),
    "values": ("in place", "scalars", "block in registers"),
    "staging": ("none", "packed"),
    "access": ("next to each other", "mixed", "strided"),
}
"""Levels of each axis, in the order of a descriptor's numbers."""


def describe(program: Program) -> tuple[int, ...]:
    """The level on each axis of :data:`AXES`; of several functions, the highest."""
    found = [_describe(f) for f in program.functions.values()] or [(0,) * len(AXES)]
    return tuple(max(levels) for levels in zip(*found, strict=True))


def _describe(function: Function) -> tuple[int, ...]:
    nodes = list(subtrees(function.body))
    arrays = [n for n in nodes if isinstance(n, Decl) and n.dims]
    pragmas = [p for n in nodes if isinstance(n, For) for p in n.pragmas]
    written = any("vector_size" in text for text in function.preamble)
    tiled = min(_tiles(function.body), 3)
    block = any("aligned" not in a.suffix for a in arrays)
    scalars = any(isinstance(n, Decl) and not n.dims and "const" not in n.type.split() for n in nodes)
    return (
        tiled,
        2 if written else int(any("vectorize" in p for p in pragmas)),
        2 if block else int(scalars),
        int(any("aligned" in a.suffix for a in arrays)),
        _access(function),
    )


def _tiles(part: object, depth: int = 0) -> int:
    """How many loops over tiles or blocks lie in each other."""
    deepest = depth
    for node in part if isinstance(part, tuple) else ():
        own = depth + int(isinstance(node, For) and not isinstance(node.step, Number))
        for inner in (getattr(node, name, ()) for name in ("body", "then", "other")):
            deepest = max(deepest, own, _tiles(inner, own))
    return deepest


def _access(function: Function) -> int:
    """How the innermost loops walk: 0 when every moving access goes to the next element, 2 when none does."""
    near = far = 0
    for loop in subtrees(function.body):
        if not isinstance(loop, For) or any(isinstance(n, For) for n in subtrees(loop.body)):
            continue
        inner = {id(n.base) for n in subtrees(loop.body) if isinstance(n, Index)}
        for node in subtrees(loop.body):
            if isinstance(node, Index) and id(node) not in inner:
                moves = _moves(node, loop.var)
                near += moves == 1
                far += moves == 2
    if not far:
        return 0
    return 1 if near else 2


def _moves(node: Index, var: str) -> int:
    """0 when an access stays with a counter, 1 when it goes to the next element, 2 when further."""
    _, subscripts = index_chain(node)
    for distance, subscript in enumerate(reversed(subscripts)):
        poly = polynomial(subscript, {var})
        if poly is None:
            return 2
        moving = {m: c for m, c in poly.items() if var in m}
        if moving:
            return 1 if not distance and moving in ({(var,): 1}, {(var,): -1}) else 2
    return 0
