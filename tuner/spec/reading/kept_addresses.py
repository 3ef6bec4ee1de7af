"""Whether a variable of a function can be reached by more than its name, so that no copy may stand for it.

Read from clang's syntax tree. What a called function keeps of an address that it is given is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tuner.spec.reading.contained_functions import CALLS
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import referenced

__all__ = ["guarded", "is_kept", "is_whole"]

_OF_VALUES = ("==", "!=", "<", ">", "<=", ">=", "&&", "||", "-")


def is_kept(parents: Sequence[Node], own: Collection[str]) -> bool:
    """Whether a pointer or a reference to a variable outlives the use of it that stands in these, innermost first.

    Args:
        parents: around the variable's name.
        own: identities of variables of the loop, which may keep what ends with them.
    """
    if any(parent.get("kind") == "LambdaExpr" for parent in parents):
        return True
    taken = False
    for parent in parents:
        kind, operator = str(parent.get("kind")), parent.get("opcode", "")
        if kind == "MemberExpr" and str(parent.get("type", {}).get("qualType")).endswith("[]"):
            # No copy of a structure has the elements behind it.
            return True
        if kind == "ImplicitCastExpr" and parent.get("castKind") == "LValueToRValue" and not taken:
            return False
        if parent.get("castKind") == "ArrayToPointerDecay" or (kind == "UnaryOperator" and operator == "&"):
            taken = True
        elif kind == "ArraySubscriptExpr" or operator == "*" or parent.get("isArrow"):
            taken = False
        elif kind in ("VarDecl", "BinaryOperator", "UnaryOperator", "CompoundAssignOperator"):
            if kind == "VarDecl" or (operator == "=" and taken):
                return (parent["id"] if kind == "VarDecl" else referenced(parent["inner"][0])) not in own
            if operator in _OF_VALUES or not (taken or operator == ","):
                return False
        elif kind in (*CALLS, "GCCAsmStmt", "UnaryExprOrTypeTraitExpr"):
            return False
        elif kind.endswith("Stmt"):
            return kind == "ReturnStmt"
        elif kind in ("InitListExpr", "CXXConstructExpr", "CompoundLiteralExpr"):
            return True
    return False


def is_whole(parents: Sequence[Node]) -> bool:
    """Whether an array's name stands for the array and not for its first element."""
    for parent in parents:
        if parent.get("kind") != "ParenExpr":
            return parent.get("castKind") != "ArrayToPointerDecay"
    return True


def guarded(function: Function, loop: Node) -> bool:
    """Whether what is thrown in a loop may be caught in its function."""
    return any(
        node.get("kind") == "CXXTryStmt" and any(child is loop for child in walk(node))
        for node in walk(function.tree)
    )
