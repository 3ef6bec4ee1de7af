"""Loops that count downwards, or by more than one, as loops that count upwards by one: most operators ask for those.

May not change the order of iterations.

Source: loop normalisation, Allen and Kennedy, "Optimizing Compilers for Modern Architectures", 2002, 4.2.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.spaces.source.kinds import is_unsigned, types_of
from tuner.spaces.source.operators.base import (
    Args,
    Refused,
    counter_type,
    fresh_name,
    loop_of,
    loops_where,
    opener,
    replace_statement,
)
from tuner.spaces.source.operators.bounds import add, subtract
from tuner.spaces.source.operators.opening.pointers import whole_type
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.syntax import Binary, Expr, For, Function, Name, Number
from tuner.spaces.source.walks import substitute

__all__ = ["OPERATORS"]

_FIT = "subscripts fit"
_MOST = 8
"""Steps that are longer are those of tiles."""


def count_by_one(function: Function, args: Args) -> Function:
    """Counts the iterations of a loop, from 0 and by one, and computes its counter from that.

    Takes ``loop``, which counts downwards or by a number from 2 to 8.
    """
    loop = loop_of(function, args)
    step = _step(loop)
    if step is None:
        raise Refused(f"loop {loop.key} counts upwards by one already, or by no small number")
    # In the same order: what holds for other loops has to hold of what is not the direction.
    require_simple_loop(function, replace(loop, op="<", step=Number("1")))
    kind = counter_type(function, loop)
    if is_unsigned(kind) or loop.pragmas:
        raise Refused(f"loop {loop.key} counts in an unsigned type, or has pragmas")
    for bound in (loop.start, loop.limit):
        whole_type(bound, types_of(function))
    count = fresh_name(function, f"{loop.var}_count")
    far: Expr = Name(count) if step == 1 else Binary("*", Name(count), Number(str(step)))
    value = (
        far
        if loop.upward and loop.start == Number("0")
        else Binary("+" if loop.upward else "-", loop.start, far)
    )
    made = For(
        key=loop.key,
        type=loop.type or kind,
        var=count,
        start=Number("0"),
        op="<",
        limit=_iterations(loop, step),
        step=Number("1"),
        body=substitute(loop.body, loop.var, value),
    )
    return replace_statement(function, loop, [made])


def _step(loop: For) -> int | None:
    """How far a loop goes each time; ``None`` where that is one upwards, or no small number."""
    text = loop.step.text if isinstance(loop.step, Number) else ""
    step = int(text) if text.isdigit() else 0
    return step if 1 <= step <= _MOST and not (loop.upward and step == 1) else None


def _iterations(loop: For, step: int) -> Expr:
    """How many iterations there are, or what is below 1 where there are none."""
    high, low = (loop.limit, loop.start) if loop.upward else (loop.start, loop.limit)
    length = subtract(high, low)
    more = step - 1 + (1 if loop.op in ("<=", ">=") else 0)
    length = add(length, Number(str(more))) if more else length
    return length if step == 1 else Binary("/", length, Number(str(step)))


OPERATORS = (
    opener(
        count_by_one,
        loops_where(lambda _, loop: _step(loop), assumes=[_FIT]),
        "counts the iterations of a loop that goes downwards or by several",
    ),
)
