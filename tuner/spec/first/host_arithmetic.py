"""Arithmetic of host code on whole numbers as a first spec writes it: simplified, and roundings up as ``ceil``.

Knows nothing of C. May not compile or run anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = [
    "Call",
    "Node",
    "Op",
    "UnknownPart",
    "ceiling",
    "folded",
    "names_of",
    "operation",
    "real",
    "replaced",
    "shown",
    "whole",
]


class UnknownPart(Exception):
    """A part that no spec can say."""


@dataclass(frozen=True, slots=True)
class Op:
    """An operation on whole numbers, or ``/``: one that keeps the fraction."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """``ceil``, ``min`` or ``max``."""

    name: str
    given: tuple[Node, ...]


Node = int | float | str | Op | Call
"""A number, a name, or what is made of them."""


def names_of(node: Node) -> Iterator[str]:
    """The names in an expression."""
    if isinstance(node, str):
        yield node
    for part in _parts(node):
        yield from names_of(part)


def replaced(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The expression with parts changed; ``None`` leaves one alone, but not what it is made of."""
    new = change(node)
    if new is not None:
        return new
    if isinstance(node, Op):
        left, right = replaced(node.left, change), replaced(node.right, change)
        # A division that keeps the fraction does so with other parts, too.
        return operation(node.sign, real(left) if node.sign == "/" else left, right)
    if isinstance(node, Call):
        return folded(Call(node.name, tuple(replaced(part, change) for part in node.given)))
    return node


def shown(node: Node, binding: int = 0) -> str:
    """As a spec has it.

    >>> shown(Call("ceil", (Op("/", Op("*", "n", 2), "BLOCK_X"),)))
    'ceil(n * 2 / BLOCK_X)'
    >>> shown(Op("*", Op("+", "n", 1), 4))
    '(n + 1) * 4'
    """
    if isinstance(node, Call):
        return f"{node.name}({', '.join(map(shown, node.given))})"
    if isinstance(node, Op):
        own = 1 if node.sign in "+-" else 2
        text = f"{shown(node.left, own)} {node.sign} {shown(node.right, own + 1)}"
        return f"({text})" if own < binding else text
    return str(node)


def _parts(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Op):
        return (node.left, node.right)
    return node.given if isinstance(node, Call) else ()


def real(node: Node) -> Node:
    return float(node) if isinstance(node, int) else Op("/", node, 1)


def whole(node: Node) -> Node:
    """What a conversion to a whole number leaves."""
    if isinstance(node, float):
        return int(node)
    if isinstance(node, Op) and node.sign == "/":
        return node.left if node.right == 1 else operation("//", node.left, node.right)
    return node


def _is_real(node: Node) -> bool:
    if isinstance(node, float):
        return True
    if isinstance(node, Op):
        return node.sign == "/" or _is_real(node.left) or _is_real(node.right)
    return isinstance(node, Call) and node.name != "ceil" and any(map(_is_real, node.given))


def operation(sign: str, left: Node, right: Node) -> Node:
    if sign in ("<<", ">>"):
        if not isinstance(right, int) or not 0 <= right < 63:
            raise UnknownPart
        sign, right = "*" if sign == "<<" else "//", 1 << right
    if sign == "/":
        exact = _is_real(left) or _is_real(right)
        left, right = (_plain(left), _plain(right)) if exact else (left, right)
        sign = "/" if exact else "//"
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _computed(sign, left, right)
    if sign == "*" and (isinstance(left, float) or isinstance(right, float)) and 1 in (left, right):
        return real(right if left == 1 else left)
    if (sign in ("*", "/", "//") and right == 1) or (sign in "+-" and right == 0):
        return left if not (sign == "/" and not isinstance(left, float)) else Op("/", left, 1)
    if (sign == "*" and left == 1) or (sign == "+" and left == 0):
        return right
    return _upwards(sign, left, right) or Op(sign, left, right)


def _plain(node: Node) -> Node:
    """Without a mark that it is a fraction, where the operation says so."""
    if isinstance(node, Op) and node.sign == "/" and node.right == 1:
        return node.left
    return int(node) if isinstance(node, float) and node == int(node) else node


def _computed(sign: str, left: float, right: float) -> Node:
    if sign in ("/", "//", "%") and right == 0:
        raise UnknownPart
    if sign == "/":
        return left / right
    if sign == "//":
        # C rounds to zero.
        return int(left / right) if min(left, right) < 0 else int(left // right)
    if sign == "%":
        return int(math.fmod(left, right))
    return left + right if sign == "+" else left - right if sign == "-" else left * right


def _upwards(sign: str, left: Node, right: Node) -> Node | None:
    """``(n + b - 1) / b`` and ``(n - 1) / b + 1`` as what they mean."""
    if sign == "//":
        terms = _terms(left)
        over = terms.pop("", 0)
        if isinstance(right, int) and over >= right - 1 > 0 and terms:
            return ceiling(Op("/", _summed(left, drop=(), plus=over - right + 1), right))
        if not isinstance(right, int) and over >= -1 and terms.get(shown(right)) == 1 and len(terms) > 1:
            return ceiling(Op("/", _summed(left, drop=(right,), plus=over + 1), right))
        if terms == {shown(right): 1} and over >= 0:
            return Call("ceil", (Op("/", over + 1, right),))
    one_more = sign == "+" and right == 1 and isinstance(left, Op) and left.sign == "//"
    if one_more and isinstance(left, Op) and _terms(left.left).get("") == -1:
        return ceiling(Op("/", _summed(left.left, drop=(), plus=0), left.right))
    return None


def _terms(node: Node) -> dict[str, int]:
    """The parts of a sum with their signs; numbers, added up, under an empty name."""
    found = Counter[str]()
    for part, times in _summands(node):
        found["" if isinstance(part, int) else shown(part)] += (
            times * part if isinstance(part, int) else times
        )
    return dict(found)


def _summands(node: Node, sign: int = 1) -> Iterator[tuple[Node, int]]:
    if isinstance(node, Op) and node.sign in ("+", "-"):
        yield from _summands(node.left, sign)
        yield from _summands(node.right, sign if node.sign == "+" else -sign)
    else:
        yield node, sign


def _summed(node: Node, *, drop: tuple[Node, ...], plus: int) -> Node:
    """The sum without one of each part that is to be dropped, and with another number in the place of its own."""
    others = list(drop)
    total: Node = 0
    for part, sign in _summands(node):
        if isinstance(part, int):
            continue
        if sign > 0 and part in others:
            others.remove(part)
            continue
        total = operation("+" if sign > 0 else "-", total, part)
    return operation("+", total, plus)


def ceiling(node: Node) -> Node:
    if isinstance(node, int | float):
        return math.ceil(node)
    if isinstance(node, Op) and node.sign == "/":
        left, right = node.left, node.right
        if isinstance(left, int) and isinstance(right, int) and right:
            return -(-left // right)
        return left if right == 1 else Call("ceil", (node,))
    return Call("ceil", (node,)) if _is_real(node) else node


def folded(call: Call) -> Node:
    if call.name == "ceil":
        return ceiling(call.given[0])
    if all(isinstance(g, int | float) for g in call.given):
        numbers = [g for g in call.given if isinstance(g, int | float)]
        return min(numbers) if call.name == "min" else max(numbers)
    return call
