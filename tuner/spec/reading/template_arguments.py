"""Instances of C++ templates in clang's trees: what they are made with."""

from __future__ import annotations

from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.nodes import Node

__all__ = ["template_arguments", "with_arguments"]


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
