"""What a function does with its pointers, guessed from its syntax tree: reads, writes, extents, divisions.

Guesses for a first spec only: nothing else may rely on them. Follows calls of functions whose text is known.
"""

from __future__ import annotations

import re

from tuner.core.polynomials import Polynomial, constant
from tuner.spec.first.first_writes import Index, Step, filled_by
from tuner.spec.first.uses import Lookup, Use, narrow
from tuner.spec.first.values import ROOTS, factors
from tuner.spec.reading.c_types import c_type
from tuner.spec.reading.extents import counters, extents, least, reach
from tuner.spec.reading.frames import Frame
from tuner.spec.reading.methods import method_object
from tuner.spec.reading.nodes import Node, body_of, parameter_nodes, plain_type, walk
from tuner.spec.reading.trees import THROUGH, callee_name, inner_nodes, peeled, referenced

__all__ = ["Visitor"]

_MAX_CALLS = 3

_PLACES = {"ArraySubscriptExpr", "DeclRefExpr", "MemberExpr", "CXXOperatorCallExpr", "CXXMemberCallExpr"}
_ELEMENTS = {"operator[]", "operator()", "at"}
"""Methods that give an element."""
_FIXED = re.compile(r"[\w ]+?((?:\[\d+\])+)")
_LOOPS = {"ForStmt", "WhileStmt", "DoStmt", "CXXForRangeStmt"}

_ENDS = {"exit", "_exit", "_Exit", "quick_exit", "abort"}
"""Functions that end a process."""
_ELEMENT = re.compile(r"\b(?:const|volatile|restrict|__restrict)\b|[*()]|\[[^\[\]]*\]")
_FILLERS = {"memset", "memcpy", "memmove", "__builtin_memset", "__builtin_memcpy", "__builtin_memmove"}


class Visitor:
    """One pass through a function: what happens to its arguments, and what its loops go as far as.

    Args:
        uses: of the arguments, by position; they are added to.
        lookup: gives other functions by name.
    """

    def __init__(self, uses: dict[int, Use], lookup: Lookup) -> None:
        self._uses = uses
        self._lookup = lookup
        self._calls: list[str] = []
        self._around: list[Node] = []
        """The node that is looked at, behind those around it."""
        self.order: list[Step] = []
        """What happens to elements, one after the other."""
        self.fixed: list[Use] = []
        """Accesses of arrays that are no arguments."""
        self.lowest: set[Polynomial] = set()
        """The smallest values of indices that sizes keep from being negative."""
        self.deepest = 0

    def run(self, frame: Frame, depth: int) -> None:
        """Looks through a function's body."""
        frame.learn_bounds()
        self._visit(body_of(frame.function.tree), "read", frame, depth)

    def _visit(self, node: Node, mode: str, frame: Frame, depth: int) -> None:
        kind = node.get("kind", "")
        inner = inner_nodes(node)
        self._around.append(node)
        self._divisions(node, frame)
        if kind in _LOOPS:
            frame.enter(node)
            depth += node.get("id") not in frame.short
            self.deepest = max(self.deepest, depth)
        if kind == "ArraySubscriptExpr":
            self._subscript(node, mode, frame, depth)
        elif kind == "DeclRefExpr":
            self._name(node, mode, frame)
        elif kind == "BinaryOperator" and node.get("opcode") == "=":
            target, value = map(frame.pointer, inner)
            # A row in another place of its own argument is still one of that.
            if target is None or value is None or target[0] != value[0]:
                self._visit(inner[1], "read", frame, depth)
            self._visit(inner[0], "write", frame, depth)
        elif kind == "CompoundAssignOperator":
            self._visit(inner[1], "read", frame, depth)
            self._change(node, frame, depth)
        elif kind == "UnaryOperator" and node.get("opcode") in ("++", "--"):
            self._change(node, frame, depth)
        elif kind == "UnaryOperator" and node.get("opcode") == "*":
            self._dereference(inner[0], mode, frame, depth)
        elif kind == "VarDecl" and inner and self._alias(node, frame):
            pass
        elif kind == "CXXForRangeStmt":
            # The comparison and the step of its own pointer say nothing.
            for child in (*inner[:-4], *inner[-2:]):
                self._visit(child, "read", frame, depth)
        elif kind == "ForStmt" and len(inner) == 5:
            # A step of the head comes behind the body.
            for child in (*inner[:3], inner[4], inner[3]):
                self._visit(child, "read", frame, depth)
        elif kind == "CallExpr":
            self._call(inner, frame, depth)
        elif kind == "UnaryExprOrTypeTraitExpr":
            # `sizeof *to` reads nothing.
            pass
        elif kind == "MemberExpr" and node.get("isArrow"):
            self._dereference(inner[0], mode, frame, depth)
        elif kind == "CXXOperatorCallExpr" and len(inner) == 3 and callee_name(inner[0]) == "operator=":
            self._visit(inner[2], "read", frame, depth)
            self._visit(inner[1], "write", frame, depth)
        elif kind in ("CXXOperatorCallExpr", "CXXMemberCallExpr"):
            self._method(inner, mode, frame, depth)
        elif kind == "VarDecl" and inner and plain_type(node).endswith("&"):
            self._visit(inner[-1], "both" if _may_change(inner[-1]) else "read", frame, depth)
        elif kind in THROUGH or kind in ("MemberExpr", "ExtVectorElementExpr"):
            for child in inner:
                self._visit(child, mode, frame, depth)
        else:
            for child in inner:
                self._visit(child, "read", frame, depth)
        self._around.pop()

    def _change(self, node: Node, frame: Frame, depth: int) -> None:
        """Something is added to a place; behind that a pointer leads further."""
        place = inner_nodes(node)[0]
        name = referenced(peeled(place))
        if name in frame.pointers and name not in frame.references:
            step = frame.step(node) if name in frame.walked else None
            if step is not None and name in frame.bounds:
                frame.bounds[name] += step
        else:
            self._visit(place, "both", frame, depth)

    def _divisions(self, node: Node, frame: Frame) -> None:
        """Notes the arguments by whose elements is divided, or which have to be positive for another reason."""
        inner = inner_nodes(node)
        if node.get("opcode") in ("/", "/=", "%", "%="):
            parts = inner[1:]
        elif node.get("kind") == "CallExpr" and re.fullmatch(ROOTS, callee_name(inner[0])):
            parts = inner[1:2]
        elif node.get("kind") == "IfStmt" and any(callee_name(n) in _ENDS for n in walk(inner[1])):
            parts = [small for n in walk(inner[0]) if (small := _smaller(n))]
        else:
            return
        for position in {p for part in parts for p in factors(part, frame)}:
            self._uses[position].divides = True

    def _alias(self, node: Node, frame: Frame) -> bool:
        """Notes what a local variable stands for; whether it is a pointer into an argument."""
        value = inner_nodes(node)[-1]
        written = plain_type(node)
        if written.endswith("&"):
            return self._second_name(node["id"], value, frame)
        if "*" in written or "(&)" in written:
            target = frame.pointer(value)
            if target is not None:
                if target[1] == (constant(0),) and "[" in written:
                    # `double (*u)[n] = (double (*)[n])memory;` says what lies there.
                    self._uses[target[0]].declare(frame.declared(node), c_type(node["type"]).inner)
                frame.pointers[node["id"]] = frame.moved(node["id"], target)
                return True
        elif node["id"] not in frame.modified:
            known = frame.polynomial(value)
            if known is not None:
                frame.values[node["id"]] = known
        return False

    def _second_name(self, name: str, value: Node, frame: Frame) -> bool:
        """Notes what a local reference refers to; whether it is an argument's number or element."""
        value = peeled(value)
        if value.get("kind") == "UnaryOperator" and value.get("opcode") == "*":
            target = frame.pointer(inner_nodes(value)[0])
        else:
            target = frame.pointer({"kind": "UnaryOperator", "opcode": "&", "inner": [value]})
        if target is None:
            return False
        frame.pointers[name] = target
        frame.references.add(name)
        return True

    def _subscript(self, node: Node, mode: str, frame: Frame, depth: int) -> None:
        indices: list[Node] = []
        while node.get("kind") == "ArraySubscriptExpr":
            base, index = inner_nodes(node)
            indices.insert(0, index)
            node = peeled(base)
        for index in indices:
            self._visit(index, "read", frame, depth)
        found = frame.pointer(node)
        if found is None:
            kind = _FIXED.fullmatch(str(node.get("type", {}).get("qualType", "")))
            if kind:
                lengths = tuple(constant(int(length)) for length in re.findall(r"\d+", kind[1]))
                self.fixed.append(Use(declared=lengths))
                self._extent(self.fixed[-1], tuple(map(frame.polynomial, indices)), frame)
            # An array that is a member of an element: what happens to it happens to the element.
            self._visit(node, mode, frame, depth)
            return
        position, (*outer, offset) = found
        known = narrow(indices[0])
        if known is not None and len(indices) == 1 and found[1] == (constant(0),):
            self._uses[position].note(mode)
            self._uses[position].shapes.append((constant(known),))
            self._happens(position, mode, (None,), frame)
            return
        first, *inner = map(frame.polynomial, indices)
        whole = None if first is None or offset is None else offset + first
        self._access(position, (*outer, whole, *inner), mode, frame)

    def _access(self, position: int, indices: Index, mode: str, frame: Frame) -> None:
        """Notes what happens to one element of an argument."""
        self._uses[position].note(mode)
        self._extent(self._uses[position], indices, frame)
        self._happens(position, mode, indices, frame)

    def _happens(
        self, position: int, mode: str, indices: Index, frame: Frame, filled: Polynomial | None = None
    ) -> None:
        if mode == "write" and self._calls:
            self.order.append(Step(position, mode, indices, (), None))
            return
        filled = filled_by(indices, frame) if filled is None else filled
        self.order.append(Step(position, mode, indices, tuple(self._around), filled))

    def _dereference(self, pointer: Node, mode: str, frame: Frame, depth: int) -> None:
        found = frame.pointer(pointer)
        if found is None:
            self._visit(pointer, "read", frame, depth)
            return
        self._access(*found, mode, frame)
        if peeled(pointer).get("opcode") == "++":
            self._visit(peeled(pointer), "read", frame, depth)

    def _name(self, node: Node, mode: str, frame: Frame) -> None:
        found = frame.pointers.get(referenced(node))
        if referenced(node) not in frame.references:
            self._escape(node, frame)
        elif found is not None:
            self._access(*found, mode, frame)

    def _escape(self, node: Node, frame: Frame) -> None:
        """A pointer that goes where it cannot be followed."""
        found = frame.pointers.get(referenced(node))
        if found is not None:
            use = self._uses[found[0]]
            use.lost = True
            use.note("both")
            use.unclear = True

    def _call(self, inner: list[Node], frame: Frame, depth: int) -> None:
        arguments = inner[1:]
        name = callee_name(inner[0])
        if name in _FILLERS and len(arguments) == 3:
            self._fill(arguments, frame, depth)
            return
        followed = None
        if name and len(self._calls) < _MAX_CALLS and name not in self._calls:
            pointed = any(frame.pointer(a) is not None for a in arguments)
            followed = self._lookup(name) if pointed else None
        gives_place = followed is not None and followed.returns is not None and "&" in followed.returns.text
        if followed is None or gives_place or len(followed.parameters) != len(arguments):
            for argument in arguments:
                self._visit(argument, "both" if _may_change(argument) else "read", frame, depth)
            return
        inside = frame.called(followed)
        kinds = [kind for _, kind in followed.parameters]
        for parameter, argument, kind in zip(parameter_nodes(followed.tree), arguments, kinds, strict=True):
            target = frame.pointer(argument)
            if kind.reference:
                inside.references.add(parameter["id"])
                if target is None and not kind.constant:
                    self._visit(argument, "both", frame, depth)
                    continue
            elif referenced(peeled(argument)) in frame.references:
                target = None
            if target is not None:
                inside.pointers[parameter["id"]] = inside.moved(parameter["id"], target)
                continue
            self._visit(argument, "read", frame, depth)
            if parameter["id"] not in inside.modified:
                inside.made[parameter["id"]] = (argument, frame)
            value = frame.polynomial(argument)
            if value is not None:
                inside.values[parameter["id"]] = value
        # Counters of the caller keep their bounds: offsets and values may be made of them.
        inside.bounds.update(frame.bounds)
        inside.starts.update(frame.starts)
        self._calls.append(name)
        self.run(inside, depth)
        self._calls.pop()

    def _method(self, inner: list[Node], mode: str, frame: Frame, depth: int) -> None:
        """A method, or an operator, whose object it may change; of one that gives an element that is what changes."""
        callee, *arguments = inner
        named = peeled(callee)
        if named.get("kind") == "DeclRefExpr" and callee_name(callee) in _ELEMENTS:
            self._visit(arguments.pop(0), mode, frame, depth)
        elif named.get("kind") == "MemberExpr":
            of = method_object(callee)
            changed = "const" not in plain_type(of).split() if named.get("isArrow") else _may_change(of)
            gives = named.get("name") in _ELEMENTS
            self._visit(callee, mode if gives else "both" if changed else "read", frame, depth)
        for argument in arguments:
            self._visit(argument, "both" if _may_change(argument) else "read", frame, depth)

    def _fill(self, arguments: list[Node], frame: Frame, depth: int) -> None:
        """`memset(to, 0, n * sizeof *to)` and `memcpy(to, from, n * sizeof *to)`."""
        target, source, size = arguments
        self._visit(size, "read", frame, depth)
        count = frame.polynomial(size)
        for pointer, mode in ((target, "write"), (source, "read")):
            found = frame.pointer(pointer)
            if found is None:
                self._visit(pointer, "read", frame, depth)
                continue
            position, (*outer, offset) = found
            end = None if count is None or offset is None else offset + count - constant(1)
            self._uses[position].note(mode)
            self._extent(self._uses[position], (*outer, end), frame)
            whole = found[1] == (constant(0),) and _counts_elements(size, pointer)
            self._happens(position, mode, (None,), frame, count if whole else None)

    def _extent(self, use: Use, indices: Index, frame: Frame) -> None:
        use.accessed(indices)
        lowest = [least(i, frame.bounds, frame.starts) for i in indices if i is not None]
        self.lowest |= {low for low in lowest if low is not None and low.rounded_up().names}
        found: tuple[Polynomial | None, ...] | None
        if len(indices) == 1:
            index = indices[0]
            found = None if index is None else extents(index, frame.bounds)
            use.lost = use.lost or not all(
                name[1:] in frame.bounds for name in counters(index or constant(0))
            )
        else:
            found = tuple(None if i is None else reach(i, frame.bounds) for i in indices)
        shape = tuple(extent for extent in found or () if extent is not None)
        if found is None or len(shape) < len(found):
            use.lost = True
            use.partly.append(found or ())
        else:
            use.shapes.append(shape)


def _may_change(argument: Node) -> bool:
    """Whether what is called takes the place itself, by reference: no conversion to its value, or to `const`."""
    return argument.get("kind") in _PLACES and argument.get("valueCategory") == "lvalue"


def _counts_elements(size: Node, pointer: Node) -> bool:
    """Whether bytes are counted by the size of what a pointer leads to."""
    element = _ELEMENT.sub(" ", plain_type(peeled(pointer))).split()
    asked = [node for node in walk(size) if node.get("name") == "sizeof"]
    kinds = (node.get("argType") or (inner_nodes(node) or [{}])[0].get("type", {}) for node in asked)
    counted = [_ELEMENT.sub(" ", str(kind.get("qualType", ""))).split() for kind in kinds]
    return counted == [element] or (not counted and element[-1:] == ["char"])


def _smaller(condition: Node) -> Node:
    """Of `x < 0` what is smaller; nothing of other conditions."""
    inner = inner_nodes(condition)
    if condition.get("opcode") in (">", ">="):
        inner.reverse()
    return inner[0] if condition.get("opcode") in ("<", "<=", ">", ">=") else {}
