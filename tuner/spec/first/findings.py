"""What is known of a function's arguments for a first spec, when its syntax tree has been looked through.

Guesses for a first spec only: nothing else may rely on them. Follows calls of functions whose text is known. Of OpenCL
kernels the numbers of work-items count as loops do, as far as guards say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.first.accesses import Visitor
from tuner.spec.first.first_writes import note_written_first
from tuner.spec.first.uses import Lookup, Use, declare, index_arrays, index_members, limits
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.extents import counters, symbol
from tuner.spec.reading.frames import Frame
from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.nodes import Node, parameter_nodes, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import callee_name, inner_nodes, only_read_whole, peeled

__all__ = ["Findings", "examine", "examine_items"]

Prepare = Callable[[Frame], None]
"""Adds to what is known of a function's variables before it is looked through."""
_NUMBER = "get_global_id"
_BEHIND = {"<": 0, "<=": 1}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_REFUSED = {">=": "<", ">": "<="}
"""What holds behind ``if (i >= n) return;``."""


@dataclass(slots=True)
class Findings:
    """What is known of a function.

    Attributes:
        uses: by argument position.
        sizes: names of integer arguments that bound loops or shape arrays, in order of the arguments; of pointers
            to one integer too.
        depth: deepest nest of loops.
        indices: positions of the array arguments whose elements may be indices, bounds or counts.
        members: of arrays of structures those that may be.
        pitches: those of the sizes that only say how far apart rows lie, as `lda` does: no loop ends there.
        margins: those that loops only stop short of, as `halo` in `i < n - halo`.
        counts: positions of the array arguments whose elements say how far loops go that begin at a constant.
        least: what a number must be at least by a comparison, as in `assert(length >= n)`; of the sizes.
        limits: how far accesses reach, and the declared extents that they are to stay within.
        exponents: those of the sizes that powers of two are made of, as `1 << n`.
        elements: of array arguments whose elements are sizes the names of these, by argument position and index.
    """

    uses: dict[int, Use]
    sizes: list[str]
    depth: int
    indices: frozenset[int] = frozenset()
    members: Mapping[int, Sequence[str]] = field(default_factory=dict)
    pitches: frozenset[str] = frozenset()
    margins: frozenset[str] = frozenset()
    counts: frozenset[int] = frozenset()
    least: dict[str, str] = field(default_factory=dict)
    limits: frozenset[tuple[str, str]] = frozenset()
    exponents: frozenset[str] = frozenset()
    elements: dict[int, dict[int, str]] = field(default_factory=dict)

    @property
    def shaping(self) -> frozenset[str]:
        """Names that extents of arrays have."""
        shapes = [use.shape or () for use in self.uses.values()]
        return frozenset(name for shape in shapes for extent in shape for name in extent.names)


def examine(function: Function, lookup: Lookup, prepare: Prepare = lambda _: None) -> Findings:
    """Looks through a function.

    Args:
        function: with its tree.
        lookup: gives other functions of the file and its headers by name.
        prepare: adds what is known besides.
    """
    found = _examined(function, lookup, prepare, {}, {})
    parameters = dict(function.parameters)
    whole = [
        (position, name)
        for position, (name, kind) in enumerate(function.parameters)
        if kind.pointer and not kind.reference and kind.whole and found.uses[position].few
    ]
    few = {
        position: name
        for position, name in whole
        if not any(f"{name}_{place}" in parameters for place in found.uses[position].places)
    }
    indices = [
        position
        for position in found.indices & found.uses.keys()
        if found.sizes and _is_index(function.parameters[position][1]) and not found.uses[position].written
    ]
    indices += found.members if found.sizes else []
    ranges = {position: variable(found.sizes[0]) for position in indices if position not in few}
    return _examined(function, lookup, prepare, few, ranges) if few or ranges else found


def _is_index(kind: CType) -> bool:
    return kind.whole and kind.dtypes[0].endswith(("32", "64")) and not kind.reference


def _examined(
    function: Function,
    lookup: Lookup,
    prepare: Prepare,
    few: Mapping[int, str],
    ranges: Mapping[int, Polynomial],
) -> Findings:
    """As :func:`examine`.

    Args:
        function: with its tree.
        lookup: gives other functions by name.
        prepare: adds what is known besides.
        few: arrays whose elements may be sizes: those of which only some are read, each by a constant index.
        ranges: arrays whose elements are indices, and one more than the largest.
    """
    uses = {i: Use() for i, (_, kind) in enumerate(function.parameters) if kind.pointer}
    frame = _frame(function)
    frame.elements, frame.ranges = dict(few), dict(ranges)
    declare(uses, frame)
    prepare(frame)
    visitor = Visitor(uses, lookup)
    visitor.run(frame, 0)
    note_written_first(uses, visitor.order, function.tree)
    named = set(frame.bound_names)
    for use in uses.values():
        for shape in (use.declared, *use.shapes):
            named |= {name for extent in shape if extent is not None for name in extent.names}
    elements = {
        position: {
            place: each for place in sorted(uses[position].places) if (each := f"{name}_{place}") in named
        }
        for position, name in few.items()
    }
    return Findings(
        uses=uses,
        sizes=[
            *(n for n, _ in function.parameters if n in named),
            *(name for names in elements.values() for name in names.values()),
        ],
        depth=visitor.deepest,
        indices=index_arrays(function, lookup),
        members=index_members(function, lookup),
        pitches=frozenset(named - frame.bound_names),
        margins=frozenset(frame.bound_names - frame.ends),
        counts=frozenset(frame.counts),
        least=_least(frame, named),
        limits=limits([*uses.values(), *visitor.fixed])
        | {_not_negative(each) for each in (*frame.exponents, *visitor.lowest)},
        exponents=frozenset().union(*(each.names for each in frame.exponents)),
        elements={position: names for position, names in elements.items() if names},
    )


def _not_negative(exponent: Polynomial) -> tuple[str, str]:
    """Of `m - l` that `l` is at most `m`."""
    more = exponent.rounded_up()
    return (more - exponent).text(), more.text()


def _frame(function: Function) -> Frame:
    """What the function's parameters stand for."""
    frame = Frame(function)
    frame.rows = frozenset(i for i, (_, kind) in enumerate(function.parameters) if kind.rows)
    numbers = only_read_whole(function.tree)
    for i, node in enumerate(parameter_nodes(function.tree)):
        name, kind = function.parameters[i]
        if kind.reference:
            frame.references.add(node["id"])
            number = kind.whole and not (kind.inner or kind.members)
            if node["id"] not in frame.modified and number:
                frame.values[node["id"]] = variable(name)
        if kind.pointer:
            frame.pointers[node["id"]] = frame.moved(node["id"], (i, (constant(0),)))
            if node["id"] in numbers and kind.whole:
                frame.pointed[node["id"]] = variable(name)
        elif kind.whole:
            frame.values[node["id"]] = variable(name)
    return frame


def _least(frame: Frame, sizes: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in walk(frame.function.tree):
        if node.get("kind") == "BinaryOperator" and node.get("opcode") in (">=", "==", "<="):
            high, low = map(frame.polynomial, inner_nodes(node)[:: -1 if node["opcode"] == "<=" else 1])
            if high is None or low is None or not low.names or not low.names <= sizes:
                continue
            for name in high.names - sizes:
                if high == variable(name) and not name.startswith("@"):
                    found.setdefault(name, low.text())
    return found


def examine_items(function: Function, lookup: Lookup, axes: Sequence[str]) -> Findings:
    """As :func:`examine`, of a kernel.

    Args:
        function: with its tree.
        lookup: gives other functions of the file and its headers by name.
        axes: the size that each axis of the launch covers; where no guard says how far its numbers go.
    """

    def known(name: str) -> Function | None:
        found = lookup(name)
        return None if found is None else replace(found, tree=rebuilt(found.tree, _counted))

    def prepare(frame: Frame) -> None:
        for node in walk(frame.function.tree):
            if node.get("kind") == "VarDecl" and inner_nodes(node) and node["id"] not in frame.modified:
                value = frame.polynomial(inner_nodes(node)[-1])
                frame.values |= {} if value is None else {node["id"]: value}
        for counter, bound in _guards(frame):
            frame.bounds.setdefault(counter, bound)
        for axis, size in enumerate(axes):
            frame.bounds.setdefault(f"{_NUMBER} {axis}", variable(size))

    return examine(replace(function, tree=rebuilt(function.tree, _counted)), known, prepare)


def _counted(node: Node) -> Node:
    """A variable in the place of a call that gives the number of a work-item along an axis."""
    inner = inner_nodes(node)
    if node.get("kind") == "CallExpr" and len(inner) == 2 and callee_name(inner[0]) == _NUMBER:
        axis = peeled(inner[1]).get("value")
        if axis is not None:
            meant = {"id": f"{_NUMBER} {axis}", "kind": "VarDecl", "name": _NUMBER}
            return {"kind": "DeclRefExpr", "type": node["type"], "referencedDecl": meant}
    return node


def _guards(frame: Frame) -> Iterator[tuple[str, Polynomial]]:
    """Counters and one more than their largest value, as the conditions say under which something is done."""
    for node in walk(frame.function.tree):
        if node.get("kind") in ("IfStmt", "ConditionalOperator"):
            condition, then = inner_nodes(node)[:2]
            leaves = any(part.get("kind") == "ReturnStmt" for part in (then, *inner_nodes(then)[-1:]))
            for part in walk(condition):
                if part.get("kind") == "BinaryOperator" and part.get("opcode") in _TURNED:
                    yield from _guarded(part, frame, leaves=leaves)


def _guarded(comparison: Node, frame: Frame, *, leaves: bool) -> Iterator[tuple[str, Polynomial]]:
    low, high = map(frame.polynomial, inner_nodes(comparison))
    operator = comparison["opcode"]
    if low is None or high is None:
        return
    if counters(high) and not counters(low):
        low, high, operator = high, low, _TURNED[operator]
    operator = _REFUSED.get(operator, "") if leaves else operator
    found = counters(low)
    # A number that is a constant, as in `x > 0`, is where a row begins.
    if len(found) != 1 or counters(high) or not high.names or operator not in _BEHIND:
        return
    rest = low - variable(found[0])
    if not counters(rest):
        yield found[0].removeprefix(symbol("")), high - rest + constant(_BEHIND[operator])
