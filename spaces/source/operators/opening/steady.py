"""``const`` for local whole numbers that nothing changes, so that other operators may reason with their values.

``int i = y * n + x;`` is how most people write a subscript; only of a constant does the analysis know that it stays as
it is. May not change what is computed: where a variable changes after all, the compiler refuses.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from tuner.spaces.source.changes import changed_names
from tuner.spaces.source.kinds import Refused, is_integer, is_narrow, is_pure
from tuner.spaces.source.operators.base import Args, opener, where_it_applies
from tuner.spaces.source.syntax import Decl, For, Function, Index
from tuner.spaces.source.walks import names_in, statements, subtrees, transform

__all__ = ["OPERATORS"]

_NOT_PLAIN = re.compile(
    r"[*&]|\b(const|constexpr|volatile|static|extern|register|thread_local|_Thread_local|auto)\b"
)


def settle_locals(function: Function, _: Args) -> Function:
    """Makes constants of the local whole numbers that keep the value that they are declared with.

    Args:
        function: to change.
    """
    found = _steady(function)
    if not found:
        raise Refused("no local whole number could be a constant")

    def change(part: Any) -> Any:
        if isinstance(part, Decl) and part.name in found:
            return replace(part, type=f"const {part.type}")
        return part

    return replace(function, body=transform(function.body, change))


def _steady(function: Function) -> set[str]:
    """Locals that subscripts or bounds need, declared once with a value that they keep."""
    within = list(statements(function.body))
    declared = [s for s in within if isinstance(s, Decl)]
    kept = Counter(
        d.name
        for d in declared
        if is_integer(d.type)
        and not (_NOT_PLAIN.search(d.type) or is_narrow(d.type) or d.dims or d.suffix)
        and d.init is not None
        and is_pure(d.init)
    )
    known = Counter(d.name for d in (*declared, *function.outer))
    known += Counter(s.var for s in within if isinstance(s, For) and s.type)
    known += Counter(p.name for p in function.params)
    # Only names tell variables apart here, so of several with one name all have to be plain.
    plain = {name for name, times in kept.items() if times == known[name]}
    return (plain & _counting(function)) - changed_names(function) if plain else plain


def _counting(function: Function) -> set[str]:
    """Names that subscripts and bounds of loops are made of, by way of other variables too."""
    found: set[str] = set()
    for node in subtrees(function.body):
        if isinstance(node, Index):
            found |= names_in(node.index)
        elif isinstance(node, For):
            found |= names_in((node.start, node.limit, node.step))
    made = {s.name: names_in(s.init) for s in statements(function.body) if isinstance(s, Decl) and s.init}
    waiting = list(found)
    while waiting:
        further = made.get(waiting.pop(), set()) - found
        found |= further
        waiting += further
    return found


OPERATORS = (
    opener(
        settle_locals,
        where_it_applies(settle_locals),
        summary="constants of local whole numbers that nothing changes",
    ),
)
