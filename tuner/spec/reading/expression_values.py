"""What the expressions of one function stand for: pointers into its arguments, polynomials of its sizes.

Read from the function's syntax tree; guesses for a first spec only. May not judge what is done with a pointer.
"""

from __future__ import annotations

import re

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.reading.extents import moves, symbol
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import changed_in, inner_nodes, member_path, peeled, referenced

__all__ = ["ExpressionValues", "Place"]

_MOST_SHIFTED = 32

Place = tuple[int, tuple[Polynomial | None, ...]]
"""An argument and how far into it; where its elements are the addresses of rows, which row and how far into that."""


class ExpressionValues:
    """One function's names, and what expressions are that are made of them."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.pointers: dict[str, Place] = {}
        self.values: dict[str, Polynomial] = {}
        self.pointed: dict[str, Polynomial] = {}
        """What lies behind parameters that point to one whole number, which stays as it is."""
        self.bounds: dict[str, Polynomial] = {}
        """Of counters one more than the largest value, in the loop that was entered last."""
        self.references: set[str] = set()
        """Names of C++ that refer to one number and are that number; what they refer to is in ``pointers``."""
        self.rows: frozenset[int] = frozenset()
        """Arguments whose elements are the addresses of rows."""
        self.elements: dict[int, str] = {}
        """Arguments whose elements are sizes, each by itself, and how their names begin."""
        self.ranges: dict[int, Polynomial] = {}
        """Arguments whose elements are indices, and one more than the largest of them."""
        self.exponents: set[Polynomial] = set()
        """What powers of two are made of."""
        self.modified = changed_in(function.tree)

    def pointer(self, node: Node) -> Place | None:
        """Where a pointer expression leads."""
        node = peeled(node)
        if node.get("kind") == "DeclRefExpr":
            return self.pointers.get(referenced(node))
        if node.get("opcode") == "++" and node.get("isPostfix"):
            return self.pointer(inner_nodes(node)[0])
        if node.get("kind") == "ArraySubscriptExpr":
            found = self._element(node)
            inside = found is not None and found[0] in self.rows and len(found[1]) == 1
            return (found[0], (*found[1], constant(0))) if found is not None and inside else None
        if node.get("kind") == "UnaryOperator" and node.get("opcode") == "&":
            target = peeled(inner_nodes(node)[0])
            if target.get("kind") == "DeclRefExpr" and referenced(target) in self.references:
                return self.pointers.get(referenced(target))
            if target.get("kind") == "ArraySubscriptExpr":
                return self._element(target)
        if node.get("kind") == "BinaryOperator" and node.get("opcode") in ("+", "-"):
            left, right = inner_nodes(node)
            found = self.pointer(left)
            if found is not None:
                return self._moved(found, right, back=node["opcode"] == "-")
            return self._moved(self.pointer(right), left) if node["opcode"] == "+" else None
        return None

    def _element(self, subscript: Node) -> Place | None:
        base, index = inner_nodes(subscript)
        return self._moved(self.pointer(base), index)

    def _moved(self, found: Place | None, index: Node, *, back: bool = False) -> Place | None:
        if found is None:
            return None
        position, (*outer, offset) = found
        step = self.polynomial(index)
        if offset is None or step is None:
            return position, (*outer, None)
        return position, (*outer, offset - step if back else offset + step)

    def polynomial(self, node: Node) -> Polynomial | None:
        """What an expression is; ``None`` for what is no polynomial."""
        node = peeled(node)
        kind = node.get("kind")
        if kind == "IntegerLiteral":
            return constant(int(node["value"]))
        if kind == "DeclRefExpr":
            reference = referenced(node)
            if reference in self.values and reference not in self.modified:
                return self.values[reference]
            if node.get("referencedDecl", {}).get("kind") in ("VarDecl", "ParmVarDecl"):
                return variable(symbol(reference))
            return None
        if kind == "UnaryExprOrTypeTraitExpr":
            # Sizes of fills are in bytes, extents in elements: `n * sizeof *to` counts as n.
            return constant(1) if node.get("name") == "sizeof" else None
        if kind in ("ArraySubscriptExpr", "MemberExpr"):
            return self._known_element(node)
        if kind == "UnaryOperator" and node.get("opcode") == "*":
            return self.pointed.get(referenced(peeled(inner_nodes(node)[0])))
        if kind == "UnaryOperator" and node.get("opcode") == "-":
            negated = self.polynomial(inner_nodes(node)[0])
            return None if negated is None else constant(0) - negated
        return self._operation(node) if kind == "BinaryOperator" else None

    def _known_element(self, node: Node) -> Polynomial | None:
        """Of an array of sizes, or of indices, an element."""
        if not self.elements and not self.ranges:
            return None
        element, _ = member_path(node)
        if element.get("kind") != "ArraySubscriptExpr":
            return None
        position, (*_, place) = self._element(element) or (-1, (None,))
        if position in self.elements and place is not None and place.value is not None:
            return variable(f"{self.elements[position]}_{place.value}")
        if position not in self.ranges:
            return None
        # No two elements need be alike.
        name = f"element {position} {node['id']}"
        self.bounds[name] = self.ranges[position]
        return variable(symbol(name))

    def _operation(self, node: Node) -> Polynomial | None:
        left, right = (self.polynomial(child) for child in inner_nodes(node))
        operator = str(node.get("opcode"))
        if left is None or right is None:
            return None
        if operator in ("+", "-", "*"):
            return {"+": left + right, "-": left - right, "*": left * right}[operator]
        if operator == "<<":
            return self._shifted(left, right)
        if operator not in ("/", "%") or moves(left) or moves(right):
            return None
        if left.value is not None:
            by = right.value or 0
            # Some stand for sizes in bytes.
            if left.value < 0 or by <= 0 or any(part.get("name") == "sizeof" for part in walk(node)):
                return None
            return constant(left.value // by if operator == "/" else left.value % by)
        low, high = (p.text() if re.fullmatch(r"\w+", p.text()) else f"({p.text()})" for p in (left, right))
        return variable(f"{low} {operator.replace('/', '//')} {high}")

    def _shifted(self, left: Polynomial, by: Polynomial) -> Polynomial | None:
        """`1 << n`: a power of two."""
        if by.value is not None:
            return left * constant(1 << by.value) if 0 <= by.value < _MOST_SHIFTED else None
        if moves(by):
            return None
        self.exponents.add(by)
        return left * variable(f"2 ** ({by.text()})")

    def declared(self, parameter: Node) -> tuple[Polynomial | None, ...]:
        """Extents as a declaration gives them; ``None`` where it does not, as of a pointer, `@` for no polynomial."""
        found: list[Polynomial | None] = []
        kind = parameter
        while kind:
            inner = inner_nodes(kind)
            if kind.get("kind") == "PointerType":
                found.append(None)
            elif kind.get("kind") == "ConstantArrayType":
                found.append(constant(kind["size"]))
            elif kind.get("kind") in ("VariableArrayType", "IncompleteArrayType"):
                # What is counted in bytes is counted as elements elsewhere.
                known = inner[1:] and all(n.get("name") != "sizeof" for n in walk(inner[1]))
                extent = self.polynomial(inner[1]) if known else None
                if extent is None and any(inner[1:]):
                    extent = variable(symbol(""))
                found.append(extent)
            kind = next((child for child in inner if child.get("kind", "").endswith("Type")), {})
        return tuple(found)
