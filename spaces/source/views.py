"""Variables that stand for elements and numbers of C++ objects, and what is written in their place where those are.

Which there are is found out elsewhere (:mod:`tuner.spec.reading.container_views`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tuner.spaces.source.fragments import parse_expression
from tuner.spaces.source.lexical import closing
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import Binary, Expr, Name, Number, Opaque
from tuner.spaces.source.walks import names_in

__all__ = ["View", "with_accesses"]


class View(NamedTuple):
    """A variable of a loop's function that stands for something of a container or an object.

    Attributes:
        name: the variable's.
        declared: its declaration, where the loop stands.
        given: what is written there: the number, or what an element's subscript or arguments stand behind; empty for
            what cannot be written there.
        strides: of a pointer to elements, by how many of them each argument moves the element: names or numbers.
        address: whether the element's address is given.
        brackets: whether a subscript stands behind it, no arguments.
    """

    name: str
    declared: str
    given: str
    strides: tuple[str, ...] = ()
    address: bool = False
    brackets: bool = True


def with_accesses(text: str, view: View) -> str:
    """A text with what a variable stands for in its place, as far as that can be written."""
    if not view.strides:
        return re.sub(rf"\b{view.name}\b", view.given, text)
    # What stands in the subscript of another one comes behind it.
    for found in reversed([*re.finditer(rf"(&\s*)?\b{view.name}\s*\[", text)]):
        end = closing(text, found.end() - 1)
        written = _access(text[found.end() : end], view, address=found[1] is not None and view.address)
        if written is None:
            continue
        kept = "" if found[1] is None or view.address else found[1]
        before, behind = text[: found.start()] + kept, text[end + 1 :]
        if view.address and re.search(r"(?:^|[^\w)\]\s])\s*\($", before) and behind.startswith(")"):
            before, behind = before[:-1], behind[1:]
        text = f"{before}{written}{behind}"
    return text


def _access(index: str, view: View, *, address: bool) -> str | None:
    """An element by its subscript or arguments, or its address; ``None`` where the index does not say them."""
    if view.strides == ("1",) and not view.address:
        arguments, rest = [index], ""
    else:
        split = _split(parse_expression(index), view.strides)
        if split is None:
            return None
        *arguments, rest = split
    if rest and not view.address:
        return None
    inside = f"[{arguments[0]}]" if view.brackets else f"({', '.join(arguments)})"
    if not view.address or (address and not rest):
        return view.given + inside
    return f"{'&' if address else ''}{view.given}{inside}[{rest or '0'}]"


def _split(index: Expr, strides: tuple[str, ...]) -> list[str] | None:
    """The arguments that an index was made of, and last what belongs to none."""
    sums: list[Expr | None] = [None] * (len(strides) + 1)
    for negative, term in _terms(index, negative=False):
        if isinstance(term, Opaque):
            return None
        at, left = _of_argument(term, strides)
        if names_in(left) & set(strides):
            return None
        known = sums[at]
        if known is None:
            sums[at] = Binary("-", Number("0"), left) if negative else left
        else:
            sums[at] = Binary("-" if negative else "+", known, left)
    texts = ["0" if each is None else expression_text(each) for each in sums]
    return [*texts[:-1], "" if sums[-1] is None else texts[-1]]


def _terms(expr: Expr, *, negative: bool) -> list[tuple[bool, Expr]]:
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        return [
            *_terms(expr.left, negative=negative),
            *_terms(expr.right, negative=negative != (expr.op == "-")),
        ]
    return [(negative, expr)]


def _of_argument(term: Expr, strides: tuple[str, ...]) -> tuple[int, Expr]:
    """Which argument a term is of, and what of it: the last number is that of none."""
    for at, stride in enumerate(strides):
        factor = Number(stride) if stride.isdigit() else Name(stride)
        if stride == "1":
            continue
        if term == factor:
            return at, Number("1")
        if isinstance(term, Binary) and term.op == "*" and factor in (term.left, term.right):
            return at, term.right if term.left == factor else term.left
    return (strides.index("1") if "1" in strides else len(strides)), term
