"""Where the address that an expression has, or stands at, may come from.

Sources of an address are texts: ``v:`` what a variable holds, ``o:`` a variable of the function itself, ``g:`` one of
the file or a static one, ``h:`` what one place allocates, ``i:`` what a parameter leads to, ``p:`` the same where that
is ``restrict``, and ``?`` for all that is not known. Read from clang's syntax tree.
"""

from __future__ import annotations

import re

from tuner.spec.reading import known_calls
from tuner.spec.reading.nodes import Node, plain_type
from tuner.spec.reading.trees import CASTS, WRAPPERS, inner_nodes

__all__ = [
    "UNKNOWN",
    "Sources",
    "is_plain_new",
    "is_pointer",
    "is_reference",
]

UNKNOWN = "?"
_REFERENCE = re.compile(r"&(?:$|\))")
_QUALIFIER = re.compile(r"\b(?:const|restrict|__restrict)\b")


def is_pointer(node: Node) -> bool:
    """Whether a variable holds an address."""
    kind = _QUALIFIER.sub("", plain_type(node)).rstrip()
    return kind.endswith("*") or bool(re.search(r"\(\*\s*\)\[", kind) and "&" not in kind)


def is_reference(node: Node) -> bool:
    """Whether a variable is another name of something."""
    return bool(_REFERENCE.search(plain_type(node)))


def is_plain_new(node: Node) -> bool:
    """Whether it is one of C++ that allocates."""
    return not node.get("isPlacement") and node.get("operatorNewDecl", {}).get("kind") == "FunctionDecl"


class Sources:
    """Of the expressions of one function.

    Args:
        language: ``c`` or ``c++``.

    Attributes:
        variables: those of the function, not static, by identity.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self.variables: dict[str, Node] = {}

    def answer(self, call: Node) -> set[str]:
        """What a call returns: not known here."""
        return {UNKNOWN}

    def known(self, call: Node) -> str:
        """The name of a function of the standard library that is called; empty for any other."""
        return ""

    def value(self, node: Node) -> set[str]:
        """Where the address that an expression has as its value may come from."""
        kind, inner = node.get("kind"), inner_nodes(node)
        if "*" not in plain_type(node) or not inner:
            return {UNKNOWN} if "*" in plain_type(node) else set()
        if kind in WRAPPERS:
            return self.value(inner[0])
        if kind in CASTS:
            return self._converted(node, inner[-1])
        if kind == "UnaryOperator" and node.get("opcode") == "&":
            return self.address(inner[0])
        if kind == "UnaryOperator" and node.get("opcode") in ("++", "--"):
            return self._loaded(inner[0])
        if kind == "CompoundAssignOperator":
            return self._loaded(inner[0])
        if kind == "BinaryOperator" and node.get("opcode") in ("+", "-"):
            return self.value(inner[0]) | self.value(inner[1])
        if kind == "BinaryOperator" and node.get("opcode") in (",", "="):
            return self.value(inner[1])
        if kind == "ConditionalOperator":
            return self.value(inner[1]) | self.value(inner[2])
        if kind == "CallExpr":
            return self.answer(node)
        if kind == "CXXNewExpr" and is_plain_new(node):
            return {f"h:{node['id']}"}
        return {UNKNOWN}

    def address(self, node: Node) -> set[str]:
        """Where the address of what an expression names may come from."""
        kind, inner = node.get("kind"), inner_nodes(node)
        if kind == "DeclRefExpr":
            return self.named(node.get("referencedDecl", {}))
        if kind == "StringLiteral":
            return set()
        if kind in WRAPPERS or (kind in CASTS and node.get("castKind") == "NoOp"):
            return self.address(inner[0])
        if kind == "ArraySubscriptExpr":
            return self.value(inner[0]) | self.value(inner[1])
        if kind == "MemberExpr" and inner:
            found = self.value(inner[0]) if node.get("isArrow") else self.address(inner[0])
            # A static member of a class is no part of the object.
            static = self._language == "c++" and "[" in plain_type(node)
            return found | ({UNKNOWN} if static else set())
        if kind == "UnaryOperator" and node.get("opcode") == "*":
            return self.value(inner[0])
        if kind == "CompoundAssignOperator" or (kind, node.get("opcode")) == ("BinaryOperator", "="):
            return self.address(inner[0])
        if kind == "UnaryOperator" and node.get("opcode") in ("++", "--"):
            return self.address(inner[0])
        if kind == "BinaryOperator" and node.get("opcode") == ",":
            return self.address(inner[1])
        if kind == "ConditionalOperator":
            return self.address(inner[1]) | self.address(inner[2])
        if kind == "CallExpr" and self.known(node) in known_calls.CHOOSING:
            return self.address(inner[1]) | self.address(inner[2])
        return self.answer(node) if kind == "CallExpr" else {UNKNOWN}

    def given(self, node: Node) -> set[str]:
        """The addresses that an expression hands on to what it stands in."""
        bound = "bound member" in plain_type(node)
        return self.address(node) if bound or node["valueCategory"] != "prvalue" else self.value(node)

    def is_pointer(self, thing: str) -> bool:
        """Whether an object is a variable that holds an address."""
        return thing.startswith("o:") and is_pointer(self.variables[thing[2:]])

    def named(self, meant: Node) -> set[str]:
        """Where the address of what a name stands for comes from."""
        key = str(meant.get("id", ""))
        if key in self.variables:
            return {f"{'v' if is_reference(self.variables[key]) else 'o'}:{key}"}
        if meant.get("kind") in ("FunctionDecl", "EnumConstantDecl"):
            return set()
        return {f"g:{meant['name']}"} if meant.get("kind") == "VarDecl" else {UNKNOWN}

    def _loaded(self, node: Node) -> set[str]:
        """What an object holds."""
        return {f"v:{each[2:]}" if self.is_pointer(each) else UNKNOWN for each in self.address(node)}

    def _converted(self, node: Node, inner: Node) -> set[str]:
        kind = node.get("castKind")
        if kind == "LValueToRValue":
            return self._loaded(inner)
        if kind == "ArrayToPointerDecay":
            return self.address(inner)
        if kind in ("NullToPointer", "FunctionToPointerDecay", "BuiltinFnToFnPtr"):
            return set()
        return self.value(inner) if kind in ("BitCast", "NoOp") else {UNKNOWN}
