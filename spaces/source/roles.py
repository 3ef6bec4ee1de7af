"""What part the loops and arrays of an edit's site play, apart from their names: so that edits can be told to others.

A role is plain JSON. It says how loops lie in each other and how they move through memory; it proves nothing. May not
apply edits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.spaces.source.affine import moves
from tuner.spaces.source.syntax import Assign, For, Function, If, Index, Name
from tuner.spaces.source.walks import index_chain, inner_bodies, names_in, subtrees

__all__ = ["apart", "role"]

_LOOPS = ("loop", "loops", "row", "rows", "tile", "around")
"""What edits call loops."""

_DEEP = 4.0
_OTHER_COUNT = 0.5
_OTHER_ARGUMENT = 0.1
_LEFT_OUT = ("op", "function", "parameters", "constraints", "fits", "assumes", "array", *_LOOPS)


def role(function: Function, site: Mapping[str, Any]) -> dict[str, Any]:
    """The role of a site.

    Args:
        function: that the site is of, before the edit.
        site: an edit, or an operator's arguments.

    Returns:
        ``loops``: for each loop, in the order of the site, eleven numbers from 0 to 1 (how deep it is and how deep what
        lies in it, whether it runs over tiles, whether bounds in it move, whether it moves no subscript, whether it
        adds up, how it moves reads and writes, whether there are branches); ``array``: whether it is written and read,
        and its subscripts; ``plain``: numbers and truth values among the other arguments.
    """
    paths = {path[-1].key: path for path in _paths(function.body)}
    found = [paths[key] for key in _keys(site) if key in paths]
    plain = {k: v for k, v in site.items() if k not in _LEFT_OUT and isinstance(v, bool | int)}
    return {
        "loops": [_loop(path) for path in found],
        "array": _array(function, str(site["array"])) if "array" in site else [],
        "plain": plain,
    }


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How much two roles differ: 0 for none; over 0.5 they have little in common."""
    mine, theirs = one["loops"], other["loops"]
    total = _OTHER_COUNT * abs(len(mine) - len(theirs))
    pairs = list(zip(mine, theirs, strict=False))
    total += sum(_difference(a, b) for a, b in pairs) / max(1, len(pairs))
    if one["array"] or other["array"]:
        same = len(one["array"]) == len(other["array"])
        total += 0.5 * _difference(one["array"], other["array"]) if same else _OTHER_COUNT
    names = {*one["plain"], *other["plain"]}
    total += _OTHER_ARGUMENT * sum(one["plain"].get(n) != other["plain"].get(n) for n in names)
    return float(total)


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / max(1, len(one)) * 2.0


def _keys(site: Mapping[str, Any]) -> Iterator[str]:
    for name in _LOOPS:
        value = site.get(name, ())
        yield from ((value,) if isinstance(value, str) else value)


def _paths(body: Sequence[Any], around: tuple[For, ...] = ()) -> Iterator[tuple[For, ...]]:
    """Every loop with those around it, outermost first."""
    for stmt in body:
        path = around
        if isinstance(stmt, For):
            path = (*around, stmt)
            yield path
        for part in inner_bodies(stmt):
            yield from _paths(part, path)


def _loop(path: tuple[For, ...]) -> list[float]:
    loop = path[-1]
    inside = list(subtrees(loop.body))
    loops = [n for n in inside if isinstance(n, For)]
    reads, writes = _elements(inside)
    moved = [moves(e, loop.var) for e in reads]
    written = [moves(e, loop.var) for e in writes]
    height = max((len(p) for p in _paths(loop.body)), default=0)
    variables = {f.var for f in path if not isinstance(f.step, Name)}
    ragged = any(variables & names_in((f.start, f.limit)) for f in (loop, *loops))
    return [
        min(1.0, sum(not isinstance(f.step, Name) for f in path[:-1]) / _DEEP),
        min(1.0, height / _DEEP),
        float(isinstance(loop.step, Name)),
        float(ragged),
        float(not any((*moved, *written))),
        _share(written, 0),
        _share(moved, 0),
        _share(moved, 1),
        _share(moved, 2),
        _share(written, 1),
        float(any(isinstance(n, If) for n in inside)),
    ]


def _elements(nodes: Sequence[Any]) -> tuple[list[Index], list[Index]]:
    """Elements that are read, and those that are written."""
    bases = {id(n.base) for n in nodes if isinstance(n, Index)}
    targets = [n.target for n in nodes if isinstance(n, Assign) and isinstance(n.target, Index)]
    plain = {id(n.target) for n in nodes if isinstance(n, Assign) and n.op == "="}
    reads = [n for n in nodes if isinstance(n, Index) and id(n) not in bases and id(n) not in plain]
    return reads, targets


def _share(moves: Sequence[int], kind: int) -> float:
    return sum(m == kind for m in moves) / len(moves) if moves else 0.0


def _array(function: Function, name: str) -> list[float]:
    nodes = list(subtrees(function.body))
    reads, writes = _elements(nodes)

    def of(elements: Sequence[Index]) -> list[int]:
        chains = [index_chain(e) for e in elements]
        return [len(s) for base, s in chains if isinstance(base, Name) and base.id == name]

    dims = max((*of(reads), *of(writes)), default=0)
    return [float(bool(of(writes))), float(bool(of(reads))), min(1.0, dims / _DEEP)]
