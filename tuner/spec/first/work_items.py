"""What an OpenCL kernel does with its arguments: the numbers of its work-items count as loops do, as far as guards say.

Guesses for a first spec only: nothing else may rely on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.first.findings import Findings, examine
from tuner.spec.first.uses import Lookup
from tuner.spec.reading.extents import counters, symbol
from tuner.spec.reading.frames import Frame
from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import callee_name, inner_nodes, peeled

__all__ = ["examine_items"]

_NUMBER = "get_global_id"
_BEHIND = {"<": 0, "<=": 1}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_REFUSED = {">=": "<", ">": "<="}
"""What holds behind ``if (i >= n) return;``."""


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
