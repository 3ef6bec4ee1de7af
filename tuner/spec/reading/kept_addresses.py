"""Whether a variable of a function can be reached by more than its name, so that no copy may stand for it.

Read from clang's syntax tree. What a called function keeps of an address that it is given is not known. Some functions
of C++ reach nothing but what they are given: operators of small vectors, for example. A loop that calls one keeps
copies of what else its function knows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from tuner.core.errors import BaselineError
from tuner.spec.reading.methods import scopes_of
from tuner.spec.reading.nodes import Node, body_of, named_in, walk
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import referenced

__all__ = ["CALLS", "ContainedFunctions", "guarded", "is_kept", "is_whole"]

_OF_VALUES = ("==", "!=", "<", ">", "<=", ">=", "&&", "||", "-")
CALLS = ("CallExpr", "CXXOperatorCallExpr", "CXXMemberCallExpr")
_DEFINED = ("FunctionDecl", "CXXMethodDecl")
_FAR = ("CXXNewExpr", "CXXDeleteExpr", "LambdaExpr", "GCCAsmStmt", "CXXThrowExpr")
"""What may reach or call anything."""


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


@dataclass(slots=True)
class ContainedFunctions:
    """Answers for the functions of a source.

    Attributes:
        reader: of the source.
        functions: names of those that the file defines: of all others a plain call reaches nothing of the file's.
        own: name of the class whose members are not to be reached; empty for none.
    """

    reader: SourceReader
    functions: Collection[str]
    own: str = ""
    _known: dict[tuple[str, str], bool] = field(default_factory=dict)

    def calls_out(self, tree: Node) -> bool:
        """Whether a part of a function calls one that may reach more than it is given.

        Raises:
            MachineError: there is no clang, or it does not answer.
        """
        return any(node.get("kind") in CALLS and not self._is_contained(node) for node in walk(tree))

    def _is_contained(self, call: Node) -> bool:
        callee: Node = next(iter(call.get("inner", [])), {})
        names = list(named_in(callee))
        if len(names) != 1 or names[0].get("kind") not in _DEFINED:
            return False
        name, kind = str(names[0].get("name")), str(names[0].get("type", {}).get("qualType"))
        operator = name.startswith("operator")
        if names[0]["kind"] == "FunctionDecl" and not operator and name not in self.functions:
            return True
        key = (name, kind)
        if key not in self._known:
            # One that calls itself is none.
            self._known[key] = False
            found = list(self._definitions(name, kind))
            self._known[key] = bool(found) and all(map(self._keeps_inside, found))
        return self._known[key]

    def _definitions(self, name: str, kind: str) -> Iterator[Node]:
        """Those of all functions of a name and type."""
        try:
            trees = list(self.reader.trees(name))
        except BaselineError:
            return
        for node in (each for tree in trees for each in walk(tree)):
            named = node.get("kind") in _DEFINED and node.get("name") == name
            if named and node.get("type", {}).get("qualType") == kind and body_of(node):
                yield node

    def _keeps_inside(self, function: Node) -> bool:
        nodes = list(walk(function))
        kinds = (str(node.get("type", {}).get("qualType")) for node in nodes)
        if self.own and any(re.search(rf"\b{self.own}\b", kind) for kind in kinds):
            return False
        if function.get("virtual") or self.own in scopes_of(function):
            return False
        declared = {node["id"] for node in nodes if node.get("kind") in ("VarDecl", "ParmVarDecl")}
        lasting = any(node.get("kind") == "VarDecl" and "storageClass" in node for node in nodes)
        far = any(node.get("kind") in _FAR for node in nodes)
        variables = (n for n in named_in(function) if n.get("kind") in ("VarDecl", "ParmVarDecl"))
        return (
            not (lasting or far)
            and all(n["id"] in declared for n in variables)
            and not self.calls_out(function)
        )
