"""``*p++ = x`` as what is done with ``*p`` and the step behind it: increments inside of expressions by themselves.

May not know what a variable is, nor where a statement stands.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import Assign, Binary, Call, Expr, Name, Number, Opaque, Ternary
from tuner.spaces.source.walks import map_expressions, subtrees

__all__ = ["Stepped", "without_increments"]

_INCREMENT = re.compile(r"(?:(\+\+|--)\s*\(?\s*([A-Za-z_]\w*)\s*\)?|\(?\s*([A-Za-z_]\w*)\s*\)?\s*(\+\+|--))")
_EITHER = ("&&", "||", ",")
"""What may leave out the right-hand side, or orders the sides."""


class Stepped(NamedTuple):
    """An expression without the increments in it, with those before and behind it."""

    before: tuple[Expr, ...]
    expr: Expr
    after: tuple[Expr, ...]


def without_increments(expr: Expr) -> Stepped:
    """An expression with its increments apart; as it is where they cannot be told apart from its value.

    A variable that occurs nowhere else in an expression may be changed before it or behind it as well as inside
    (C17, 6.5.2.4 and 6.5.3.1), if the expression calls nothing that sees it, and is not left out.
    """
    whole = Stepped((), expr, ())
    found = [n for n in subtrees(expr) if isinstance(n, Opaque)]
    steps = [match for n in found if (match := _INCREMENT.fullmatch(n.text.strip()))]
    if not steps or len(steps) < len(found) or any(isinstance(n, Call) for n in subtrees(expr)):
        return whole
    text = expression_text(expr)
    for step in steps:
        if len(re.findall(rf"\b{step[2] or step[3]}\b", text)) > 1:
            return whole
    if any(isinstance(n, Ternary) or (isinstance(n, Binary) and n.op in _EITHER) for n in subtrees(expr)):
        return whole
    before = tuple(_change(step[2], step[1]) for step in steps if step[2])
    after = tuple(_change(step[3], step[4]) for step in steps if step[3])
    return Stepped(before, map_expressions(expr, _plain), after)


def _change(name: str, op: str) -> Expr:
    return Assign(f"{op[0]}=", Name(name), Number("1"))


def _plain(expr: Expr) -> Expr:
    step = _INCREMENT.fullmatch(expr.text.strip()) if isinstance(expr, Opaque) else None
    return expr if step is None else Name(step[2] or step[3])
