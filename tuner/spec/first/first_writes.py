"""Which arrays of a function are written before they are read, so that nothing depends on what they hold before.

Careful: what is not seen to be written in every case counts as read first. For first specs only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.first.uses import Use
from tuner.spec.reading.extents import counters, moves
from tuner.spec.reading.frames import Frame
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.trees import THROUGH, changed_in, inner_nodes, peeled, referenced

__all__ = ["Index", "Step", "filled_by", "note_written_first"]

Index = tuple[Polynomial | None, ...]
"""One index for each dimension in the source; ``None`` for one that is no polynomial."""

_LARGE = 1000
"""A size by which strides are compared."""
# A member that is written says nothing of the others.
_PLAIN = THROUGH | {*("ArraySubscriptExpr", "DeclRefExpr", "UnaryOperator", "CallExpr")}
_LEAVING = {"BreakStmt", "ContinueStmt", "ReturnStmt", "GotoStmt", "IndirectGotoStmt", "CXXThrowExpr"}
_JUMPS = {"LabelStmt", "IndirectGotoStmt"}


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What happens to an element.

    Attributes:
        position: of the argument.
        mode: ``read``, ``write`` or ``both``.
        indices: which element.
        around: nodes that this lies in, the outermost first, and itself; of what a called function writes none.
        filled: how many elements the loops around it write, all from the first on; ``None`` where not all.
    """

    position: int
    mode: str
    indices: Index
    around: tuple[Node, ...]
    filled: Polynomial | None


def filled_by(indices: Index, frame: Frame) -> Polynomial | None:
    """How many elements the counters of an index reach, where that is each from the first to the last."""
    reached = constant(1)
    for index in indices:
        rest, within = index, constant(1)
        strides = [] if index is None else [(index.factor_of(name), name) for name in counters(index)]
        for stride, name in sorted(strides, key=lambda one: 0 if one[0] is None else one[0].at(_LARGE)):
            bound = frame.bounds.get(name[1:])
            begins = frame.starts.get(name[1:]) == constant(0)
            if stride is None or stride != within or bound is None or moves(bound) or not begins:
                return None
            assert rest is not None
            rest, within = rest - stride * variable(name), within * bound
        if rest != constant(0):
            return None
        reached = reached * within
    return reached


def note_written_first(uses: Mapping[int, Use], steps: Sequence[Step], tree: Node) -> None:
    """Says of arguments whether each of their elements is written before it is read.

    Args:
        uses: by position.
        steps: what happens to elements, in order.
        tree: of the function.
    """
    if any(node.get("kind") in _JUMPS for node in walk(tree)):
        return
    for position, use in uses.items():
        own = [step for step in steps if step.position == position]
        use.fresh = _written_first(own, use.shape)


def _written_first(steps: Sequence[Step], shape: Sequence[Polynomial] | None) -> bool:
    elements = None if shape is None else math.prod(shape, start=constant(1))
    before: list[Step] = []
    for step in steps:
        if step.mode == "write":
            before.append(step)
        elif not any(_covers(write, step, elements) for write in before):
            return False
    return True


def _covers(write: Step, read: Step, elements: Polynomial | None) -> bool:
    """Whether an element that is read was written by an earlier step, in the same run through a block around both."""
    if write.indices == read.indices and None not in read.indices:
        ids = {name[1:] for index in read.indices if index is not None for name in counters(index)}
        for block, inside in _blocks(write, read):
            if all(map(_is_plain, inside)) and not ids & changed_in(block):
                return True
    if elements is None or write.filled != elements:
        return False
    moving = {name[1:] for index in write.indices if index is not None for name in counters(index)}
    shared = {id(node) for node in read.around}
    # Loops around both are not at their end yet.
    ended = (inside for _, inside in _blocks(write, read) if shared.isdisjoint(map(id, inside)))
    return any(_goes_through(inside, moving) for inside in ended)


def _blocks(write: Step, read: Step) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Blocks around both, and what is around the write within."""
    shared = {id(node) for node in read.around}
    for at, node in enumerate(write.around):
        switched = at and write.around[at - 1].get("kind") == "SwitchStmt"
        if node.get("kind") == "CompoundStmt" and id(node) in shared and not switched:
            yield node, write.around[at + 1 :]


def _is_plain(node: Node) -> bool:
    """Whether all below is done once when the node is."""
    return node.get("kind") in _PLAIN or (node.get("kind"), node.get("opcode")) == ("BinaryOperator", "=")


def _goes_through(inside: Sequence[Node], moving: set[str]) -> bool:
    """Whether loops with these counters, each by ones and to its end, are all that is between a block and a write."""
    counted = set[str]()
    for node in inside:
        if node.get("kind") == "ForStmt":
            counter = _counter(node)
            if not counter or any(child.get("kind") in _LEAVING for child in walk(node)):
                return False
            counted.add(counter)
        elif node.get("kind") != "CompoundStmt" and not _is_plain(node):
            return False
    return moving <= counted


def _counter(loop: Node) -> str:
    """The counter of a loop that goes on by ones, whatever its body does; empty for any other."""
    *_, condition, step, body = [*inner_nodes(loop), {}, {}, {}][:5]
    by_one = step.get("opcode") == "++" or (
        step.get("opcode") == "+=" and peeled(inner_nodes(step)[1]).get("value") == "1"
    )
    counter = referenced(peeled(inner_nodes(step)[0])) if by_one else ""
    return counter if condition.get("opcode") in ("<", "<=", "!=") and counter not in changed_in(body) else ""
