"""Nodes of clang's syntax trees that no source has, and trees with such nodes in the place of some of theirs."""

from __future__ import annotations

from collections.abc import Callable

from tuner.spec.reading.nodes import Node

__all__ = ["binary", "integer", "named", "read", "rebuilt", "template_arguments", "with_arguments"]


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """A tree with what stands for each of its nodes; the children of what does are looked at as well."""
    made = change(node)
    inner = made.get("inner")
    return (
        {**made, "inner": [rebuilt(child, change) if child else child for child in inner]} if inner else made
    )


def named(variable: Node, at: Node) -> Node:
    """The name of a variable at the place of another node."""
    return {
        "kind": "DeclRefExpr",
        "type": variable["type"],
        "valueCategory": "lvalue",
        "referencedDecl": {key: variable[key] for key in ("id", "kind", "name", "type")},
        "range": at.get("range", {}),
    }


def read(place: Node) -> Node:
    """The value of a place."""
    kind = {key: place[key] for key in ("type", "range")}
    return {"kind": "ImplicitCastExpr", "castKind": "LValueToRValue", **kind, "inner": [place]}


def integer(value: str, at: Node) -> Node:
    """A whole number at the place of another node."""
    return {"kind": "IntegerLiteral", "value": value, "type": {"qualType": "int"}, "range": at["range"]}


def binary(operator: str, left: Node, right: Node, kind: str = "long") -> Node:
    """An operation on two values."""
    return {
        "kind": "BinaryOperator",
        "opcode": operator,
        "type": {"qualType": kind},
        "range": right["range"],
        "inner": [left, right],
    }


def template_arguments(tree: Node) -> str:
    """What an instance of a template is made with, as the source can write it; empty for what is no type or number."""
    found = []
    for each in (child for child in tree.get("inner", []) if child.get("kind") == "TemplateArgument"):
        text = each.get("type", {}).get("qualType", each.get("value"))
        if text is None:
            return ""
        found.append(str(text))
    return ", ".join(found)


def with_arguments(tree: Node) -> Node:
    """An instance of a template with numbers where its parameters stand."""

    def given(node: Node) -> Node:
        while node.get("kind") == "SubstNonTypeTemplateParmExpr" and node.get("inner"):
            node = node["inner"][-1]
        return node

    return rebuilt(tree, given)
