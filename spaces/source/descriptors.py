"""What kind of variant a program is: axes that mean something for kernels, read off the tree. May not compile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tuner.spaces.source.affine import moves
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import Assign, Binary, Call, Decl, For, Function, Index, Number, OpaqueStmt
from tuner.spaces.source.walks import subtrees, without_spares

__all__ = ["AXES", "describe"]

_VECTOR = re.compile(r"(float|int|double|uint)(2|4|8|16)|__m(64|128|256|512)[ih]?d?|(u?int|float)\d+x\d+_t")
"""A type that holds several numbers: of OpenCL and CUDA, of Intel's and of Arm's intrinsics."""

_SHARED = re.compile(r"\b(__local|local|__shared__)\b")

AXES: Mapping[str, tuple[str, ...]] = {
    "tiling": ("none", "one loop", "two loops", "three or more"),
    "vectors": ("left to the compiler", "asked for", "written"),
    "values": ("in place", "scalars", "block in registers"),
    "staging": ("none", "packed", "shared by a group"),
    "access": ("next to each other", "mixed", "strided"),
    "synchronisation": ("none", "barriers", "exchange between items"),
    "intensity": ("under one operation an access", "one or two", "more"),
    "launch": ("as given", "its own"),
}
"""Levels of each axis, in the order of a descriptor's numbers."""


def describe(program: Program) -> tuple[int, ...]:
    """The level on each axis of :data:`AXES`; of several functions, the highest."""
    functions = [replace(f, body=without_spares(f.body)) for f in program.functions.values()]
    found = [_describe(f) for f in functions] or [(0,) * (len(AXES) - 1)]
    levels = tuple(max(own) for own in zip(*found, strict=True))
    return (*levels, int(program.launch != program.entry.launch))


def _describe(function: Function) -> tuple[int, ...]:
    nodes = list(subtrees(function.body))
    arrays = [n for n in nodes if isinstance(n, Decl) and n.dims]
    pragmas = [p for n in nodes if isinstance(n, For) for p in n.pragmas]
    written = any("vector_size" in text for text in function.preamble)
    written |= any(isinstance(n, Decl) and _VECTOR.fullmatch(n.type.split()[-1]) for n in nodes)
    shared = any(_SHARED.search(a.type) for a in arrays)
    tiled = min(_tiles(function.body), 3)
    block = any(not _is_packed(a) and not _SHARED.search(a.type) for a in arrays)
    scalars = any(isinstance(n, Decl) and not n.dims and "const" not in n.type.split() for n in nodes)
    return (
        tiled,
        2 if written else int(any("vectorize" in p for p in pragmas)),
        2 if block else int(scalars),
        2 if shared else int(any(_is_packed(a) for a in arrays)),
        _access(function),
        _synchronisation(nodes),
        _intensity(function),
    )


def _is_packed(array: Decl) -> bool:
    """Whether an array is what packing makes: aligned, and not one of a block, which has that in its name."""
    return "aligned" in array.suffix and not array.name.split("_")[-1].startswith("block")


def _synchronisation(nodes: list[object]) -> int:
    calls = [n.function for n in nodes if isinstance(n, Call)]
    texts = [n.text for n in nodes if isinstance(n, OpaqueStmt)]
    if any("shfl" in word or "sub_group" in word for word in (*calls, *texts)):
        return 2
    return int(any(word.startswith(("barrier", "__syncthreads", "work_group_barrier")) for word in calls))


def _intensity(function: Function) -> int:
    """Operations for each access to memory in innermost loops (in the body where there are none), in three classes."""
    operations = accesses = 0
    for body in [f.body for f in _innermost(function)] or [function.body]:
        inside = {id(n) for e in subtrees(body) if isinstance(e, Index) for n in subtrees(e.index)}
        for node in subtrees(body):
            if id(node) in inside:
                continue
            accesses += isinstance(node, Index)
            operations += isinstance(node, Call) or (
                isinstance(node, Binary | Assign) and node.op.rstrip("=") in ("+", "-", "*", "/")
            )
    if operations < accesses:
        return 0
    return 1 if operations <= 2 * accesses else 2


def _innermost(function: Function) -> list[For]:
    loops = (n for n in subtrees(function.body) if isinstance(n, For))
    return [f for f in loops if not any(isinstance(n, For) for n in subtrees(f.body))]


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
    for loop in _innermost(function):
        inner = {id(n.base) for n in subtrees(loop.body) if isinstance(n, Index)}
        for node in subtrees(loop.body):
            if isinstance(node, Index) and id(node) not in inner:
                near += moves(node, loop.var) == 1
                far += moves(node, loop.var) == 2
    if not far:
        return 0
    return 1 if near else 2
