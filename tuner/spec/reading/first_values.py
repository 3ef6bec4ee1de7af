"""Which number a variable has where a loop begins: by what stands before it, for first specs.

Read from clang's syntax tree; what is not plain to see stays unsaid.
"""

from __future__ import annotations

import operator
import re

from tuner.spec.reading.loop_variables import Variable, paths
from tuner.spec.reading.signature import Function, Node, walk

__all__ = ["first_value"]

_REACHED = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
_WHOLE = re.compile(r"-?\d+")


def first_value(function: Function, loop: Node, variable: Variable) -> str:
    """The number that a variable has where a loop begins the first time, as text; empty where it is not plain to see.

    It is what the nearest statement before the loop says that names the variable.
    """
    key = variable.node["id"]
    around = next(parents for node, parents in paths(function.tree) if node is loop)
    inside = loop
    for block in around:
        if block.get("kind") == "CompoundStmt":
            before = block["inner"][: next(i for i, child in enumerate(block["inner"]) if child is inside)]
            for statement in reversed(before):
                named = [
                    n for n in walk(statement) if key in (n.get("id"), n.get("referencedDecl", {}).get("id"))
                ]
                if named:
                    return _number(_given(statement, key))
        inside = block
    return ""


def _given(statement: Node, key: str) -> Node:
    """What a statement gives a variable, where it does nothing else with it."""
    inner = statement.get("inner", [])
    if statement.get("kind") == "DeclStmt":
        return next((n["inner"][-1] for n in inner if n.get("id") == key and n.get("init")), {})
    if statement.get("opcode") == "=" and inner[0].get("referencedDecl", {}).get("id") == key:
        value: Node = inner[1]
        return value
    return {}


def _number(node: Node) -> str:
    """The text of a constant, or empty."""
    inner = [child for child in node.get("inner", []) if child]
    kind = node.get("kind")
    if kind in ("IntegerLiteral", "FloatingLiteral"):
        return str(node["value"])
    if kind in ("ImplicitCastExpr", "CStyleCastExpr", "ParenExpr", "ConstantExpr") and len(inner) == 1:
        return _number(inner[0])
    if kind == "UnaryOperator" and node.get("opcode") == "-":
        value = _number(inner[0])
        return f"-{value}" if value and not value.startswith("-") else ""
    if kind == "BinaryOperator" and node.get("opcode") in _REACHED:
        left, right = map(_number, inner)
        if (
            _WHOLE.fullmatch(left)
            and _WHOLE.fullmatch(right)
            and (node["opcode"] != "/" or int(right) > 0 <= int(left))
        ):
            return str(_REACHED[node["opcode"]](int(left), int(right)))
    return ""
