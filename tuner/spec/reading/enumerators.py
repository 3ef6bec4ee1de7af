"""Numbers in the place of enumerators: a loop that ends at one goes so far. Asks clang for their values."""

from __future__ import annotations

from dataclasses import replace

from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.signature import Function, SourceReader

__all__ = ["with_numbers"]

_PROBE = "tuner_enumerator_probe_"


def with_numbers(function: Function, reader: SourceReader) -> Function:
    """The function with the values of those enumerators that the end of the source can name.

    Args:
        function: with its tree.
        reader: of the source that it is from.
    """
    own = {node["id"] for node in walk(function.tree) if node.get("kind") == "EnumConstantDecl"}
    meant = [_enumerator(node) for node in walk(function.tree)]
    names = sorted({str(each["name"]) for each in meant if each and each["id"] not in own})
    # The sum makes clang say the value, of C and of C++ alike.
    extra = "".join(f"\n\nenum {{ {_PROBE}{i}_ = {name} + 0LL }};" for i, name in enumerate(names))
    # Another name that is spelt nearly so is none.
    asked = reader.with_flags(["-fno-spell-checking"])
    found = {tree["name"]: _value(tree) for tree in asked.answered(_PROBE, extra)[0]} if names else {}
    numbers = {name: value for i, name in enumerate(names) if (value := found.get(f"{_PROBE}{i}_"))}

    def number(node: Node) -> Node:
        meant = _enumerator(node)
        value = numbers.get(meant["name"]) if meant and meant["id"] not in own else None
        return node if value is None else _number(node, value)

    return replace(function, tree=rebuilt(function.tree, number)) if numbers else function


def _enumerator(node: Node) -> Node:
    """What a name stands for, where that is one."""
    meant: Node = node.get("referencedDecl", {}) if node.get("kind") == "DeclRefExpr" else {}
    return meant if meant.get("kind") == "EnumConstantDecl" else {}


def _value(probe: Node) -> str:
    whole = (n["value"] for n in walk(probe) if n.get("kind") == "ConstantExpr" and "value" in n)
    return next(whole, "")


def _number(node: Node, value: str) -> Node:
    literal: Node = {**node, "kind": "IntegerLiteral", "value": value.removeprefix("-")}
    del literal["referencedDecl"]
    negative = value.startswith("-")
    return {**node, "kind": "UnaryOperator", "opcode": "-", "inner": [literal]} if negative else literal
