"""First values for arrays by whose elements a kernel divides: normal ones lie near zero, and results blow up.

Guesses for a first spec only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.spec.reading.frames import Frame
from tuner.spec.reading.nodes import Node
from tuner.spec.reading.trees import inner_nodes, peeled, pointer_of, referenced

__all__ = ["ROOTS", "divided_by", "factors", "initial_values"]

ROOTS = r"(?:__builtin_|native_|half_|__f)?r?(?:sqrt|log|log2|log10)[fl]?"
"""Functions of positive numbers, by name."""

_NAMES = r"-?\s*\w*\(\s*(?:[\w.]+\s*[*+]\s*)*"
"""What may stand between a division and the operand: a function's name, first parts of a product or a sum."""


def initial_values(dtype: str, whole: str, *, divides: bool) -> tuple[str, str]:
    """What to write for an array's values in a spec, and a remark.

    Args:
        dtype: of the elements.
        whole: the end of the range of integers.
        divides: whether something is divided by them, or they are to be positive for another reason.
    """
    if not dtype.startswith(("float", "complex")):
        return f"init: {{randint: [{int(divides)}, {whole}]}}", ""
    if divides and dtype.startswith("float"):
        return "init: {uniform: [0.5, 2]}", "positive: divided by, a root is taken, or else it ends"
    return "init: normal", ""


def factors(node: Node, frame: Frame) -> Iterator[int]:
    """Arguments of whose elements a value is the product or the sum, its roots and functions included."""
    node = peeled(node)
    kind, operator, inner = node.get("kind"), node.get("opcode"), inner_nodes(node)
    parts: list[Node] = []
    if kind == "DeclRefExpr":
        value, frame = frame.made.get(referenced(node), ({}, frame))
        yield from factors(value, frame)
    elif kind == "ArraySubscriptExpr" or (kind, operator) == ("UnaryOperator", "*"):
        found = frame.pointer(pointer_of(node))
        if found is not None:
            yield found[0]
    elif kind == "CallExpr":
        parts = inner[1:]
    elif kind == "BinaryOperator" and operator in ("*", "+"):
        parts = inner
    elif (kind, operator) in (("BinaryOperator", "/"), ("UnaryOperator", "-")):
        parts = inner[:1]
    for part in parts:
        yield from factors(part, frame)


def divided_by(name: str, text: str) -> bool:
    """Whether something is divided by an array's elements, or their roots or logarithms are taken.

    Directly, or by a variable that holds an element.

    Args:
        name: of the array.
        text: of the kernel, without comments.
    """
    element = rf"\b{re.escape(name)}\s*(?:\[[^][]*(?:\[[^][]*\][^][]*)*\]\s*)+"
    holders = [rf"\b{re.escape(m[1])}\b" for m in re.finditer(rf"\b(\w+)\s*=\s*{element}[;,]", text)]
    operand = "|".join([element, *holders])
    return re.search(rf"(?:[/%]=?\s*|\b{ROOTS}\s*(?=\())(?:{_NAMES})*(?:{operand})", text) is not None
