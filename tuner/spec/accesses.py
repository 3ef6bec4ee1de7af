"""What a function does with its pointers, guessed from its syntax tree: reads, writes, extents.

Guesses for a first spec only: nothing else may rely on them. Follows calls of functions in the same file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.spec.extents import extents, moves, symbol
from tuner.spec.indexing import NARROW, index_arrays
from tuner.spec.polynomials import Polynomial, constant, variable
from tuner.spec.signature import Function, Node, walk

__all__ = ["Findings", "Use", "examine"]

_MAX_CALLS = 3
_LARGE = 1000
"""A size by which extents are compared."""

_THROUGH = {
    "ParenExpr",
    "ImplicitCastExpr",
    "CStyleCastExpr",
    "CXXStaticCastExpr",
    "CXXFunctionalCastExpr",
    "ConstantExpr",
    "ExprWithCleanups",
}
_LOOPS = {"ForStmt", "WhileStmt", "DoStmt"}

_FILLERS = {"memset", "memcpy", "memmove", "__builtin_memset", "__builtin_memcpy", "__builtin_memmove"}
Index = tuple[Polynomial | None, ...]
"""One index for each dimension in the source; ``None`` for one that is no polynomial."""


@dataclass(slots=True)
class Use:
    """What happens to one pointer argument."""

    read: bool = False
    written: bool = False
    unclear: bool = False
    shapes: list[tuple[Polynomial, ...]] = field(default_factory=list)
    lost: bool = False
    """Whether the extent of some access is unknown."""

    def note(self, mode: str) -> None:
        """Adds one access: ``read``, ``write`` or ``both``."""
        self.read = self.read or mode != "write"
        self.written = self.written or mode != "read"

    @property
    def shape(self) -> tuple[Polynomial, ...] | None:
        """The best guess: most dimensions, then the largest of the others."""
        return max(self.shapes, key=lambda s: (len(s), [(e.at(_LARGE), e.text()) for e in s]), default=None)


@dataclass(slots=True)
class Findings:
    """What is known of a function.

    Attributes:
        uses: by argument position.
        sizes: names of integer arguments that bound loops or shape arrays, in order of the arguments.
        depth: deepest nest of loops.
        indices: positions of the array arguments whose elements may be indices, bounds or counts.
        pitches: those of the sizes that only say how far apart rows lie, as `lda` does: no loop ends there.
    """

    uses: dict[int, Use]
    sizes: list[str]
    depth: int
    indices: frozenset[int] = frozenset()
    pitches: frozenset[str] = frozenset()


def examine(function: Function, lookup: Callable[[str], Function | None]) -> Findings:
    """Looks through a function.

    Args:
        function: with its tree.
        lookup: gives other functions of the file by name.
    """
    uses = {i: Use() for i, (_, kind) in enumerate(function.parameters) if kind.pointer}
    frame = _Frame(function)
    for i, node in enumerate(_parameters(function.tree)):
        name, kind = function.parameters[i]
        if kind.pointer:
            frame.pointers[node["id"]] = (i, constant(0))
        elif any(d.startswith(("int", "uint")) for d in kind.dtypes):
            frame.values[node["id"]] = variable(name)
    visitor = _Visitor(uses, lookup)
    visitor.run(frame, 0)
    named = set(visitor.bound_names)
    for use in uses.values():
        for shape in use.shapes:
            named |= {name for extent in shape for name in extent.names}
    return Findings(
        uses=uses,
        sizes=[n for n, _ in function.parameters if n in named],
        depth=visitor.deepest,
        indices=index_arrays(function, lookup),
        pitches=frozenset(named - visitor.bound_names),
    )


def _parameters(tree: Node) -> list[Node]:
    return [c for c in tree.get("inner", []) if c and c.get("kind") == "ParmVarDecl"]


class _Frame:
    """One function being looked through: what its variables stand for, and its loops of a constant length."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.pointers: dict[str, tuple[int, Polynomial | None]] = {}
        self.values: dict[str, Polynomial] = {}
        self.bounds: dict[str, Polynomial] = {}
        self.short: set[str] = set()
        self.modified = {
            _referenced(child)
            for node in walk(function.tree)
            if _changes(node)
            for child in (_peel(_inner(node)[0]),)
            if child.get("kind") == "DeclRefExpr"
        }


def _inner(node: Node) -> list[Node]:
    return [child if child else {} for child in node.get("inner", [])]


def _peel(node: Node) -> Node:
    while node.get("kind") in _THROUGH and _inner(node):
        node = _inner(node)[0]
    return node


def _operator(callee: Node) -> str:
    """The name of what a call calls; empty where it is no function's name."""
    return str(_peel(callee).get("referencedDecl", {}).get("name", ""))


def _element(index: Node) -> str:
    """The type of the array element that an index is; empty where it is none."""
    index = _peel(index)
    if index.get("kind") != "ArraySubscriptExpr":
        return ""
    kind = index.get("type", {})
    names = {str(kind.get(key, "")).replace("const ", "") for key in ("qualType", "desugaredQualType")}
    return next((name for name in sorted(names) if name in NARROW), "")


def _referenced(node: Node) -> str:
    return str(node.get("referencedDecl", {}).get("id", ""))


def _changes(node: Node) -> bool:
    kind, operator = node.get("kind"), node.get("opcode")
    if kind == "CompoundAssignOperator":
        return True
    return (kind == "BinaryOperator" and operator == "=") or (
        kind == "UnaryOperator" and operator in ("++", "--")
    )


class _Visitor:
    def __init__(self, uses: dict[int, Use], lookup: Callable[[str], Function | None]) -> None:
        self._uses = uses
        self._lookup = lookup
        self._calls: list[str] = []
        self.bound_names: set[str] = set()
        self.deepest = 0

    def run(self, frame: _Frame, depth: int) -> None:
        """Looks through a function's body."""
        for node in walk(frame.function.tree):
            if node.get("kind") in ("ForStmt", "WhileStmt"):
                self._bound(node, frame)
            elif node.get("kind") == "VarDecl" and _inner(node) and node["id"] not in frame.modified:
                # `int end = begin + TILE < n ? begin + TILE : n;` ends a loop further down.
                least = self._lesser(_inner(node)[-1], frame)
                if least is not None:
                    frame.bounds.setdefault(node["id"], least)
        for child in _inner(frame.function.tree):
            if child.get("kind") == "CompoundStmt":
                self._visit(child, "read", frame, depth)

    def _bound(self, loop: Node, frame: _Frame) -> None:
        inner = _inner(loop)
        condition = _peel(
            inner[2] if loop["kind"] == "ForStmt" and len(inner) > 2 else inner[0] if inner else {}
        )
        # Of `i < begin + TILE && i < n` the second says how far it goes.
        parts = sorted(_conjuncts(condition), key=lambda part: self._moves(part, frame))
        for part in parts:
            self._limit(part, loop, frame)

    def _moves(self, condition: Node, frame: _Frame) -> bool:
        inner = _inner(condition)
        high = self._polynomial(inner[-1], frame) if inner else None
        return high is None or moves(high)

    def _limit(self, condition: Node, loop: Node, frame: _Frame) -> None:
        if condition.get("kind") != "BinaryOperator" or condition.get("opcode") not in ("<", "<=", "!="):
            return
        left, right = _inner(condition)
        counters = [
            n for n in walk(left) if n.get("kind") == "DeclRefExpr" and _referenced(n) in frame.modified
        ]
        if len(counters) != 1:
            return
        counter = _referenced(counters[0])
        low = self._polynomial(left, frame)
        high = self._polynomial(right, frame) or self._lesser(right, frame)
        if low is None or high is None or low.factor_of(symbol(counter)) != constant(1):
            return
        bound = high - (low - variable(symbol(counter)))
        if condition["opcode"] == "<=":
            bound = bound + constant(1)
        if moves(bound):
            bound = self._largest(bound, frame) or bound
        if not moves(bound):
            self.bound_names |= bound.names
            if bound.value is not None:
                frame.short.add(loop["id"])
            frame.bounds.setdefault(counter, bound)

    def _lesser(self, node: Node, frame: _Frame) -> Polynomial | None:
        """Of `begin + TILE < n ? begin + TILE : n` the part that no counter moves."""
        node = _peel(node)
        if node.get("kind") != "ConditionalOperator":
            return None
        parts = [self._polynomial(part, frame) for part in _inner(node)[1:]]
        still = [p for p in parts if p is not None and not moves(p)]
        return still[0] if len(still) == 1 and still[0].value is None else None

    def _largest(self, bound: Polynomial, frame: _Frame) -> Polynomial | None:
        """A bound that depends on an outer loop's counter (tiles, triangles), at that counter's end."""
        total = constant(0)
        for monomial, coefficient in bound.terms:
            product = constant(coefficient)
            for name in monomial:
                if name.startswith("@"):
                    outer = frame.bounds.get(name[1:])
                    if outer is None or coefficient < 0:
                        return None
                    product = product * outer
                else:
                    product = product * variable(name)
            total = total + product
        return total

    def _visit(self, node: Node, mode: str, frame: _Frame, depth: int) -> None:
        kind = node.get("kind", "")
        inner = _inner(node)
        if kind in _LOOPS:
            depth += node.get("id") not in frame.short
            self.deepest = max(self.deepest, depth)
        if kind == "ArraySubscriptExpr":
            self._subscript(node, mode, frame, depth)
        elif kind == "DeclRefExpr":
            self._escape(node, frame)
        elif kind == "BinaryOperator" and node.get("opcode") == "=":
            self._visit(inner[1], "read", frame, depth)
            self._visit(inner[0], "write", frame, depth)
        elif kind == "CompoundAssignOperator":
            self._visit(inner[1], "read", frame, depth)
            self._visit(inner[0], "both", frame, depth)
        elif kind == "UnaryOperator" and node.get("opcode") in ("++", "--"):
            self._visit(inner[0], "both", frame, depth)
        elif kind == "UnaryOperator" and node.get("opcode") == "*":
            self._dereference(inner[0], mode, frame, depth)
        elif kind == "VarDecl" and inner and self._alias(node, frame):
            return
        elif kind == "CallExpr":
            self._call(inner, frame, depth)
        elif kind == "MemberExpr" and node.get("isArrow"):
            self._dereference(inner[0], mode, frame, depth)
        elif kind == "CXXOperatorCallExpr" and len(inner) == 3 and _operator(inner[0]) == "operator=":
            self._visit(inner[2], "read", frame, depth)
            self._visit(inner[1], "write", frame, depth)
        elif kind in _THROUGH or kind == "MemberExpr":
            for child in inner:
                self._visit(child, mode, frame, depth)
        else:
            for child in inner:
                self._visit(child, "read", frame, depth)

    def _alias(self, node: Node, frame: _Frame) -> bool:
        """Notes what a local variable stands for; whether it is a pointer into an argument."""
        value = _inner(node)[-1]
        if "*" in node.get("type", {}).get("qualType", ""):
            target = self._pointer(value, frame)
            if target is not None:
                position, offset = target
                frame.pointers[node["id"]] = (position, None if node["id"] in frame.modified else offset)
                return True
        elif node["id"] not in frame.modified:
            known = self._polynomial(value, frame)
            if known is not None:
                frame.values[node["id"]] = known
        return False

    def _pointer(self, node: Node, frame: _Frame) -> tuple[int, Polynomial | None] | None:
        """Which argument a pointer expression points into, and how far."""
        node = _peel(node)
        if node.get("kind") == "DeclRefExpr":
            return frame.pointers.get(_referenced(node))
        if node.get("kind") == "UnaryOperator" and node.get("opcode") == "&":
            target = _peel(_inner(node)[0])
            if target.get("kind") == "ArraySubscriptExpr":
                base, index = _inner(target)
                return self._moved(self._pointer(base, frame), index, frame)
        if node.get("kind") == "BinaryOperator" and node.get("opcode") in ("+", "-"):
            left, right = _inner(node)
            found = self._pointer(left, frame)
            if found is not None:
                return self._moved(found, right, frame, back=node["opcode"] == "-")
            return self._moved(self._pointer(right, frame), left, frame) if node["opcode"] == "+" else None
        return None

    def _moved(
        self, found: tuple[int, Polynomial | None] | None, index: Node, frame: _Frame, *, back: bool = False
    ) -> tuple[int, Polynomial | None] | None:
        if found is None:
            return None
        position, offset = found
        step = self._polynomial(index, frame)
        if offset is None or step is None:
            return position, None
        return position, offset - step if back else offset + step

    def _subscript(self, node: Node, mode: str, frame: _Frame, depth: int) -> None:
        indices: list[Node] = []
        while node.get("kind") == "ArraySubscriptExpr":
            base, index = _inner(node)
            indices.insert(0, index)
            node = _peel(base)
        for index in indices:
            self._visit(index, "read", frame, depth)
        found = self._pointer(node, frame)
        if found is None:
            # An array that is a member of an element: what happens to it happens to the element.
            self._visit(node, mode, frame, depth)
            return
        position, offset = found
        use = self._uses[position]
        use.note(mode)
        known = NARROW.get(_element(indices[0]))
        if known is not None and len(indices) == 1 and offset == constant(0):
            use.shapes.append((constant(known),))
            return
        first = self._polynomial(indices[0], frame)
        whole = None if first is None or offset is None else offset + first
        polynomials = [whole, *(self._polynomial(i, frame) for i in indices[1:])]
        self._extent(use, tuple(polynomials), frame)

    def _dereference(self, pointer: Node, mode: str, frame: _Frame, depth: int) -> None:
        found = self._pointer(pointer, frame)
        if found is None:
            self._visit(pointer, "read", frame, depth)
            return
        use = self._uses[found[0]]
        use.note(mode)
        self._extent(use, (found[1],), frame)

    def _escape(self, node: Node, frame: _Frame) -> None:
        """A pointer that goes where it cannot be followed."""
        found = frame.pointers.get(_referenced(node))
        if found is not None:
            use = self._uses[found[0]]
            use.lost = True
            use.note("both")
            use.unclear = True

    def _call(self, inner: list[Node], frame: _Frame, depth: int) -> None:
        arguments = inner[1:]
        name = _operator(inner[0])
        if name in _FILLERS and len(arguments) == 3:
            self._fill(name, arguments, frame, depth)
            return
        followed = None
        if name and len(self._calls) < _MAX_CALLS and name not in self._calls:
            pointed = any(self._pointer(a, frame) is not None for a in arguments)
            followed = self._lookup(name) if pointed else None
        if followed is None or len(followed.parameters) != len(arguments):
            for argument in arguments:
                self._visit(argument, "read", frame, depth)
            return
        inside = _Frame(followed)
        for parameter, argument in zip(_parameters(followed.tree), arguments, strict=True):
            target = self._pointer(argument, frame)
            if target is not None:
                inside.pointers[parameter["id"]] = target
                continue
            self._visit(argument, "read", frame, depth)
            value = self._polynomial(argument, frame)
            if value is not None:
                inside.values[parameter["id"]] = value
        # Counters of the caller keep their bounds: offsets and values may be made of them.
        inside.bounds.update(frame.bounds)
        self._calls.append(name)
        self.run(inside, depth)
        self._calls.pop()

    def _fill(self, name: str, arguments: list[Node], frame: _Frame, depth: int) -> None:
        """`memset(to, 0, n * sizeof *to)` and `memcpy(to, from, n * sizeof *to)`."""
        target, source, size = arguments
        self._visit(size, "read", frame, depth)
        count = self._polynomial(size, frame)
        for pointer, mode in ((target, "write"), (source, "read")):
            found = self._pointer(pointer, frame)
            if found is None:
                self._visit(pointer, "read", frame, depth)
                continue
            use = self._uses[found[0]]
            use.note(mode)
            end = None if count is None or found[1] is None else found[1] + count - constant(1)
            self._extent(use, (end,), frame)

    def _polynomial(self, node: Node, frame: _Frame) -> Polynomial | None:
        node = _peel(node)
        kind = node.get("kind")
        if kind == "IntegerLiteral":
            return constant(int(node["value"]))
        if kind == "DeclRefExpr":
            reference = _referenced(node)
            if reference in frame.values and reference not in frame.modified:
                return frame.values[reference]
            if node.get("referencedDecl", {}).get("kind") in ("VarDecl", "ParmVarDecl"):
                return variable(symbol(reference))
            return None
        if kind == "UnaryExprOrTypeTraitExpr":
            # Sizes of fills are in bytes, extents in elements: `n * sizeof *to` counts as n.
            return constant(1) if node.get("name") == "sizeof" else None
        if kind == "UnaryOperator" and node.get("opcode") == "-":
            negated = self._polynomial(_inner(node)[0], frame)
            return None if negated is None else constant(0) - negated
        if kind == "BinaryOperator" and node.get("opcode") in ("+", "-", "*"):
            left, right = (self._polynomial(child, frame) for child in _inner(node))
            if left is None or right is None:
                return None
            return {"+": left + right, "-": left - right, "*": left * right}[node["opcode"]]
        return None

    def _extent(self, use: Use, indices: Index, frame: _Frame) -> None:
        shapes = [None if i is None else extents(i, frame.bounds) for i in indices]
        if any(s is None for s in shapes):
            use.lost = True
            return
        if len(shapes) == 1:
            use.shapes.append(shapes[0] or ())
        elif all(s is not None and len(s) == 1 for s in shapes):
            use.shapes.append(tuple(s[0] for s in shapes if s))
        else:
            use.lost = True


def _conjuncts(condition: Node) -> list[Node]:
    condition = _peel(condition)
    if condition.get("kind") == "BinaryOperator" and condition.get("opcode") == "&&":
        return [part for side in _inner(condition) for part in _conjuncts(side)]
    return [condition]
