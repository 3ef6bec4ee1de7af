"""Types of what a function writes outside of its own variables, as clang's trees show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tuner.spec.reading.c_types import bare
from tuner.spec.reading.known_calls import TOUCH_NOTHING, known_name
from tuner.spec.reading.nodes import Node, plain_type, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import callee_name, changes, inner_nodes, peeled, referenced

__all__ = ["written_dtype"]

_DTYPES = {"double": "float64", "float": "float32"}
_CALLS = (
    "CallExpr",
    "CXXMemberCallExpr",
    "CXXOperatorCallExpr",
    "CXXConstructExpr",
    "CXXNewExpr",
    "CXXDeleteExpr",
)
_UNKNOWN = ("AtomicExpr", "GCCAsmStmt", "MSAsmStmt", "LambdaExpr")
_INSIDE = ("MemberExpr", "ArraySubscriptExpr")
_WRITING = ("memcpy", "memmove", "memset", "modf", "frexp", "sincos")


def written_dtype(function: Function, lookup: Callable[[str], Function | None]) -> str:
    """The dtype of all numbers that a function, or what it calls, writes to memory that is not its own.

    Empty where they have several types, are no floating numbers, or where something is called that is not known.

    Args:
        function: with its tree.
        lookup: gives other functions by name.
    """
    kinds: set[str] = set()
    seen, waiting = {function.name}, [function]
    for each in waiting:
        own = {n["id"] for n in walk(each.tree) if n.get("kind") in ("VarDecl", "ParmVarDecl") and _is_own(n)}
        for node in walk(each.tree):
            if changes(node):
                target = peeled(inner_nodes(node)[0])
                if _root(target) not in own:
                    kinds.add(_canonical(target))
            elif node.get("kind") in _UNKNOWN:
                return ""
            elif node.get("kind") in _CALLS:
                name = _called(node)
                found = lookup(name) if name else None
                if found is not None and plain_type(found.tree) not in _types(node):
                    # Another function of that name.
                    return ""
                if found is None and name not in seen and not _writes_nothing(node, name):
                    return ""
                if found is not None and name not in seen:
                    waiting.append(found)
                seen.add(name)
    return _DTYPES.get(kinds.pop(), "") if len(kinds) == 1 else ""


def _canonical(node: Node) -> str:
    return bare(plain_type(node))


def _is_own(declared: Node) -> bool:
    """Whether a variable is the function's own memory: no reference, and not kept from call to call."""
    return "&" not in _canonical(declared) and declared.get("storageClass") not in ("static", "extern")


def _root(target: Node) -> str:
    """The variable that something is a part of, at any depth, without a pointer between."""
    while target.get("kind") in _INSIDE and not target.get("isArrow"):
        target = inner_nodes(target)[0]
        if target.get("castKind") not in (None, "ArrayToPointerDecay", "NoOp", "LValueToRValue"):
            return ""
        if target.get("castKind") == "LValueToRValue" and "*" in _canonical(target):
            return ""
        target = peeled(target)
    return referenced(target) if target.get("kind") == "DeclRefExpr" else ""


def _called(node: Node) -> str:
    return callee_name(inner_nodes(node)[0]) if inner_nodes(node) else ""


def _writes_nothing(node: Node, name: str) -> bool:
    if not name or name in _WRITING:
        return False
    callee = inner_nodes(node)[0]
    known = known_name(name, str(next(_types(callee), "")))
    return known in TOUCH_NOTHING and known not in _WRITING


def _types(callee: Node) -> Iterator[str]:
    for node in walk(callee):
        if node.get("kind") == "DeclRefExpr":
            yield plain_type(node)
