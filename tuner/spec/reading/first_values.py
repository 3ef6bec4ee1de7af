"""What variables are where a loop begins, and arguments where a function is called, for first specs.

By what stands before in clang's syntax tree; what is not plain to see stays unsaid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.reading.loop_variables import Variable
from tuner.spec.reading.nodes import Node, below, paths, plain_type, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import callee_name, changes, inner_nodes, peeled, referenced

__all__ = ["call_values", "first_value"]

_MOST_STATEMENTS = 32
"""As many are looked for."""


def first_value(function: Function, loop: Node, of: Variable) -> str:
    """What a variable is where a loop begins the first time; empty where it is not plain to see.

    It is what the nearest statements before the loop say that name the variable: a number, or an expression of whole
    numbers of the function that never change.
    """
    reader = _Reader(function)
    value, statement = reader.given(loop, of.node["id"])
    whole = reader.whole(value, statement)
    return _decimal(value) if whole is None else whole.text()


def call_values(function: Function, callers: Iterable[Function]) -> dict[str, str]:
    """What the parameters of a function are in the call that says most of them, by their names.

    Args:
        function: that is called.
        callers: functions that may call it.

    Returns:
        Numbers alone.
    """
    found: list[dict[str, str]] = []
    names = [name for name, _ in function.parameters]
    for caller in callers:
        reader = _Reader(caller)
        for node in walk(caller.tree):
            if node.get("kind") == "CallExpr" and callee_name(inner_nodes(node)[0]) == function.name:
                values = zip(names, map(reader.number, inner_nodes(node)[1:]), strict=False)
                found.append({name: value for name, value in values if value})
    return max(found, key=len, default={})


class _Reader:
    """Reads what the statements of a function give its variables."""

    def __init__(self, function: Function) -> None:
        self._tree = function.tree
        self._left = _MOST_STATEMENTS
        changing = (n for n in walk(function.tree) if changes(n) or n.get("opcode") == "&")
        self._changed = {referenced(peeled(inner_nodes(node)[0])) for node in changing}

    def given(self, place: Node, key: str) -> tuple[Node, Node]:
        """What the nearest statement before another that names a variable gives it, and that statement."""
        self._left -= 1
        around = next(parents for node, parents in paths(self._tree) if node is place)
        inside = place
        for block in around if self._left > 0 else ():
            if block.get("kind") == "CompoundStmt":
                before = block["inner"][
                    : next(i for i, child in enumerate(block["inner"]) if child is inside)
                ]
                for statement in reversed(before):
                    if _may_give(statement, key):
                        return _given(statement, key), statement
            inside = block
        return {}, place

    def number(self, node: Node) -> str:
        """The number that an expression is; empty where it is none that is plain to see."""
        whole = self.whole(node, node)
        value = None if whole is None else whole.value
        return _decimal(node) if value is None else str(value)

    def whole(self, node: Node, statement: Node) -> Polynomial | None:
        """The whole number that an expression of a statement is."""
        node = peeled(node)
        kind, operation, inner = node.get("kind"), node.get("opcode"), inner_nodes(node)
        if kind == "IntegerLiteral":
            return constant(int(node["value"]))
        if kind == "DeclRefExpr":
            value = self.whole(*self.given(statement, referenced(node)))
            other = referenced(node) in self._changed or re.search(r"[*\[]|float|double", plain_type(node))
            return variable(str(node["referencedDecl"]["name"])) if value is None and not other else value
        if kind == "UnaryOperator" and operation == "-":
            value = self.whole(inner[0], statement)
            return None if value is None else constant(0) - value
        if kind != "BinaryOperator":
            return None
        left, right = (self.whole(child, statement) for child in inner)
        if left is None or right is None:
            return None
        if operation in ("+", "-", "*"):
            return {"+": left + right, "-": left - right, "*": left * right}[operation]
        number, by = left.value, right.value
        if operation == "/" and number is not None and by is not None and by > 0 <= number:
            return constant(number // by)
        return None


def _may_give(statement: Node, key: str) -> bool:
    """Whether a statement declares a variable or does more with it than read it."""
    return any(
        key == child.get("id") or (key == referenced(child) and node.get("castKind") != "LValueToRValue")
        for node in ({"inner": [statement]}, *walk(statement))
        for child in below(node)
        if child
    )


def _given(statement: Node, key: str) -> Node:
    """What a statement gives a variable, where it does nothing else with it."""
    inner = statement.get("inner", [])
    if statement.get("kind") == "DeclStmt":
        return next((n["inner"][-1] for n in inner if n.get("id") == key and n.get("init")), {})
    if statement.get("opcode") in ("=", "+=", "-=", "*=") and referenced(inner[0]) == key:
        value: Node = inner[1]
        added = {"kind": "BinaryOperator", "opcode": statement["opcode"][:-1], "inner": inner}
        return value if statement["opcode"] == "=" else added
    return {}


def _decimal(node: Node) -> str:
    """The text of a constant with a decimal point; empty for anything else."""
    node = peeled(node)
    if node.get("kind") == "FloatingLiteral":
        return str(node["value"])
    if node.get("kind") == "UnaryOperator" and node.get("opcode") == "-":
        value = _decimal(inner_nodes(node)[0])
        return f"-{value}" if value and not value.startswith("-") else ""
    return ""
