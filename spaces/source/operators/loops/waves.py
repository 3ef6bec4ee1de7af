"""Wavefronts: several rows of a nest computed together where each element waits for the one before it.

Rows run a few elements behind one another, so that as many chains of waiting run side by side as there are rows. May
not judge what is fast.

Source: Wolfe, "Loop skewing: the wavefront method revisited" (1986).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.spaces.source.kinds import is_unsigned
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    Refused,
    Site,
    analyse,
    argument,
    argument_list,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    keep_promises,
    knowing_members,
    loops_of,
    nest_below,
    parameter,
    perfect_nest,
    replace_statement,
    require_rectangular,
)
from tuner.spaces.source.operators.bounds import add, left_over, subtract, upper_end
from tuner.spaces.source.operators.loop_pragmas import fully_unrolled
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.syntax import Binary, Decl, Expr, For, Function, If, Name, Number, Stmt, Ternary
from tuner.spaces.source.walks import substitute

__all__ = ["OPERATORS"]

_ROWS = (2, 4, 6, 8, 12, 16)
_MOST_LAG = 4


def wavefront(function: Function, args: Args) -> Function:
    """Computes blocks of rows together, each row some elements behind the one above it.

    Takes ``loops``, over rows and over elements of a row; ``lag``: how many elements a row is behind; one of
    ``parameters``: rows.
    """
    keys = argument_list(args, "loops")
    lag = argument(args, "lag", int)
    if len(keys) != 2 or not 1 <= lag <= _MOST_LAG:
        raise Refused("it takes two loops and a lag")
    nest = nest_below(function, keys)
    for loop in nest:
        require_simple_loop(function, loop)
        if is_unsigned(counter_type(function, loop)):
            raise Refused(f"loop {loop.key} counts in an unsigned type")
    require_rectangular(nest)
    outer, inner = nest
    if len(loops_of(inner)) > 1:
        raise Refused(f"loop {inner.key} is not the innermost")
    found = analyse(function, [outer], args)
    if not found.carried_by(inner.key):
        raise Refused(f"the iterations of loop {inner.key} do not wait for one another")
    wave = f"{lag}*{outer.key}+{inner.key}"
    found.check(lambda leaf: (leaf.position[0], wave, outer.key, *leaf.position[4:]))
    made, (rows,) = define(function, args, 1)
    made = replace_statement(made, outer, _emit(made, outer, inner, rows, lag))
    return keep_promises(function, made, "rows behind one another")


def _emit(function: Function, outer: For, inner: For, rows: Expr, lag: int) -> tuple[Stmt, ...]:
    unroll = fully_unrolled(function)
    keys = Keys(function)
    kind, row_kind = counter_type(function, inner), counter_type(function, outer)
    block, wave = (fresh_name(function, f"{f.var}_{what}") for f, what in ((outer, "block"), (inner, "wave")))
    # Where other loops count with the same variable, it would be declared again.
    column = inner.var if inner.type else fresh_name(function, f"{inner.var}_at")
    end = upper_end(inner)
    behind: Expr = Binary("-", rows, Number("1"))
    behind = behind if lag == 1 else Binary("*", Number(str(lag)), behind)
    full, last = add(inner.start, behind), add(end, behind)

    def over(start: Expr, limit: Expr, *, guarded: bool) -> For:
        step: Expr = Name(f"{outer.var}")
        own = subtract(step, Name(block))
        element = Binary("-", Name(wave), own if lag == 1 else Binary("*", Number(str(lag)), own))
        body: tuple[Stmt, ...] = keys.again(substitute(inner.body, inner.var, Name(column)))
        if guarded:
            inside = Binary("&&", Binary(">=", Name(column), inner.start), Binary("<", Name(column), end))
            body = (If(inside, body),)
        body = (Decl(f"const {kind}", column, (), element), *body)
        top = Binary("+", Name(block), rows)
        each = For(keys.new(outer.key), row_kind, outer.var, Name(block), "<", top, Number("1"), body, unroll)
        return For(keys.new(wave), kind, wave, start, "<", limit, Number("1"), (each,))

    late = Ternary(Binary("<", end, full), full, end)
    waves = (
        over(inner.start, full, guarded=True),
        over(full, end, guarded=False),
        over(late, last, guarded=True),
    )
    bottom = upper_end(outer)
    whole = left_over(function, outer, rows, bottom)
    main = For(keys.new(block), row_kind, block, outer.start, "<", whole, rows, waves)
    return (main, keys.over(replace(outer, type=row_kind), whole, bottom))


@for_each_loop
def _wave_sites(function: Function, loop: For) -> Iterator[Site]:
    nest = perfect_nest(loop)
    if len(nest) == 2:
        rows = parameter(function, f"ROWS_{loop.var}", _ROWS, 8)
        for lag in (1, 2):
            yield {"loops": [f.key for f in nest], "lag": lag, "parameters": [rows]}


OPERATORS = (knowing_members(wavefront, _wave_sites, "computes rows together, each behind the one above it"),)
