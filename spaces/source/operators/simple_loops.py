"""Loops that count by one between bounds that stay the same, which most operators ask for.

May not transform.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tuner.spaces.source.changes import require_steady_bounds
from tuner.spaces.source.dependence import Order
from tuner.spaces.source.kinds import (
    Refused,
    is_floating,
    is_integer,
    is_narrow,
    is_pure,
    is_unsigned,
    keeps_value,
    types_of,
)
from tuner.spaces.source.operators.base import (
    Args,
    argument,
    body_of,
    counter_type,
    loop_of,
    nest_below,
    require_known,
    require_rectangular,
)
from tuner.spaces.source.operators.naming import is_used_outside
from tuner.spaces.source.scan import Leaf
from tuner.spaces.source.syntax import Call, Cast, Decl, Field, For, Function, Name, Number, Unary
from tuner.spaces.source.walks import names_in, statements, subtrees, written_names
from tuner.spaces.source.widths import holds

__all__ = ["require_own_counter", "require_simple_loop", "simple_loop", "simple_nest", "split_of"]

_OF_FRACTIONS = re.compile(
    r"(?:std::)?(?:sqrt|cbrt|floor|ceil|round|trunc|pow|hypot|exp2?|log(?:2|10)?|fabs|fmin|fmax|fmod)[fl]?"
)
_FRACTION = re.compile(r"\.|^(?!0[xX]).*[eE]")


def require_simple_loop(function: Function, loop: For) -> None:
    """Refuses a loop that does not count upwards by one between bounds that stay the same."""
    require_known(loop, f"loop {loop.key}")
    if not loop.upward or not loop.by_one:
        raise Refused(f"loop {loop.key} does not count upwards by one")
    if not (is_pure(loop.start) and is_pure(loop.limit)):
        raise Refused(f"a bound of loop {loop.key} is no plain expression")
    changed = written_names(loop.body) | {loop.var}
    bounds = (loop.start, loop.limit)
    if not changed.isdisjoint(names_in(bounds)):
        raise Refused(f"a bound of loop {loop.key} changes inside it")
    require_steady_bounds(function, loop)
    require_own_counter(function, loop)
    _require_plain_bounds(function, loop)
    kept = [s.name for s in statements(loop.body) if isinstance(s, Decl) and keeps_value(s)]
    if kept:
        raise Refused(f"{kept[0]} keeps its value from one iteration of loop {loop.key} to the next")


def simple_loop(function: Function, args: Args) -> For:
    """The loop of an edit, none but a simple one."""
    loop = loop_of(function, args)
    require_simple_loop(function, loop)
    return loop


def require_own_counter(function: Function, loop: For) -> None:
    """Refuses a loop that does not count in integers, or whose counter is looked at elsewhere or changes by the way."""
    led_to = any(n == Unary("&", Name(loop.var)) for n in subtrees(loop.body))
    if led_to or loop.var in written_names(loop.body):
        raise Refused(f"{loop.var} may change in loop {loop.key}")
    kind = counter_type(function, loop)
    if not is_integer(kind):
        raise Refused(f"loop {loop.key} does not count in integers")
    if is_narrow(kind):
        raise Refused(f"loop {loop.key} counts in a type that wraps around")
    if not loop.type and is_used_outside(function, loop.var):
        raise Refused(f"{loop.var} is used outside its loops")


def _require_plain_bounds(function: Function, loop: For) -> None:
    """Refuses bounds that are no whole numbers, or that a counter loses its sign beside."""
    types = types_of(function)
    parts = [n for n in subtrees((loop.start, loop.limit)) if isinstance(n, Name | Number | Cast | Field)]
    kinds = [
        types.get(n.id, "") if isinstance(n, Name) else n.type for n in parts if not isinstance(n, Number)
    ]
    numbers = [n.text for n in parts if isinstance(n, Number)]
    calls = [n.function for n in subtrees((loop.start, loop.limit)) if isinstance(n, Call)]
    fractions = any(map(is_floating, kinds)) or any(map(_FRACTION.search, numbers))
    if fractions or any(map(_OF_FRACTIONS.fullmatch, calls)):
        raise Refused(f"a bound of loop {loop.key} is no whole number")
    signless = any(is_unsigned(k) for k in kinds) or any(n[-1] in "uU" for n in numbers)
    if signless and loop.start != Number("0") and not is_unsigned(counter_type(function, loop)):
        raise Refused(f"the counter of loop {loop.key} loses its sign beside a bound")
    if not holds(counter_type(function, loop), loop.start, types):
        raise Refused(f"the counter of loop {loop.key} may not hold where the loop begins")


def simple_nest(function: Function, keys: Sequence[str]) -> list[For]:
    """The :func:`nest_below` of loops that are simple, with bounds of which none depends on another one of them."""
    nest = nest_below(function, keys)
    for loop in nest:
        require_simple_loop(function, loop)
    require_rectangular(nest)
    return nest


def split_of(function: Function, args: Args) -> tuple[For, int, Callable[[Leaf], Order]]:
    """A loop that is split in two, where in its body the second part begins, and the order of the split loop.

    Takes ``loop``; ``at``, how many statements the first part keeps.

    Raises:
        Refused: it is no simple loop, or one of the parts would be empty.
    """
    loop = simple_loop(function, args)
    body = body_of(loop)
    at = argument(args, "at", int)
    if not 0 < at < len(body):
        raise Refused(f"loop {loop.key} cannot be split after {at} of {len(body)} statements")
    split = next(place for place, s in enumerate(loop.body) if s is body[at])

    def order(leaf: Leaf) -> Order:
        place = leaf.position[2]
        return (int(isinstance(place, int) and place >= split), *leaf.position[1:])

    return loop, split, order
