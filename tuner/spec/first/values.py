"""First values for arguments of which nothing is known: arrays, also those by whose elements is divided, and scalars.

Guesses for a first spec only. Normal numbers lie near zero, and results blow up where something is divided by them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tuner.core.expressions import parse
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.frames import Frame
from tuner.spec.reading.nodes import Node
from tuner.spec.reading.trees import inner_nodes, peeled, pointer_of, referenced

__all__ = [
    "ROOTS",
    "divided_by",
    "factors",
    "first_value",
    "floating_scalars",
    "holds",
    "initial_values",
    "settled",
    "whole_numbers",
]

_NAME = re.compile(r"\b[A-Za-z_]\w*")
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


def first_value(dtype: str, before: int = 0, named: Sequence[int] = ()) -> str:
    """A number for a scalar of which nothing is known.

    With a factor of one, or ``1 - x`` of one, wrong code gives right results; with two that are alike, code that
    takes one for the other, or that clamps everything between them.

    Args:
        dtype: its type.
        before: how many floating scalars come before it.
        named: of an enumeration the values of its names.
    """
    if named and 1 not in named:
        return str(named[0])
    return str(0.75 + 0.5 * before) if dtype.startswith("float") else "1"


def floating_scalars(parameters: Iterable[tuple[str, CType]]) -> int:
    """How many of some parameters are floating numbers."""
    return sum(not t.pointer and any(d.startswith("float") for d in t.dtypes) for _, t in parameters)


def holds(dtype: str, value: str) -> bool:
    """Whether a number can be of a type; what is no number by itself is not judged.

    >>> holds("int32", "3735928559"), holds("uint32", "3735928559"), holds("int8", "n * n")
    (False, True, True)
    """
    bits = re.fullmatch(r"(u?)int(\d+)", dtype)
    if bits is None or not re.fullmatch(r"-?\d+", value):
        return True
    size = int(bits[2])
    low, high = (0, 1 << size) if bits[1] else (-(1 << (size - 1)), 1 << (size - 1))
    return low <= int(value) < high


def whole_numbers(values: Mapping[str, str]) -> dict[str, int]:
    """Those of some values that are whole numbers."""
    return {name: int(text) for name, text in values.items() if re.fullmatch(r"-?\d+", text)}


def settled(values: Mapping[str, str], sizes: Collection[str], whole: Collection[str]) -> dict[str, str]:
    """First values, those that are expressions in sizes alone; without what has other names.

    Args:
        values: by the names of arguments.
        sizes: names that a spec's expressions may have.
        whole: other arguments that are whole numbers.

    >>> settled({"k": "2 * step + n", "j": "step", "at": "-2.5", "i": "x"}, ["n"], ["step"])
    {'k': '2 * 1 + n', 'j': '1', 'at': '-2.5'}
    """
    known = whole_numbers(values)
    numbers = {name: str(known.get(name, 1)) for name in whole}
    found = {}
    for name, text in values.items():
        names = set(_NAME.findall(text))
        if not names:
            found[name] = text
        elif names <= {*sizes, *numbers}:
            written = _NAME.sub(lambda word: numbers.get(word[0], word[0]), text)
            found[name] = written if names - numbers.keys() else str(parse(written).evaluate({}))
    return found
