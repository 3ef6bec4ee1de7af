"""Constants that other operators reason with: local whole numbers that nothing changes, and sizes in an array.

``int i = y * n + x;`` is how most people write a subscript; only of a constant does the analysis know that it stays as
it is. And it reasons with names and members, not with elements of arrays: ``grid_points[2]`` in the bound of a loop.
May not change what is computed: where a variable changes after all, the compiler refuses; an element is taken only
where nothing in the function changes it, from an array that is as long.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from tuner.spaces.source.changes import changed_names, exposed_names
from tuner.spaces.source.kinds import Refused, is_integer, is_narrow, is_pure
from tuner.spaces.source.operators.base import Args, fresh_name, opener, where_it_applies
from tuner.spaces.source.syntax import Call, Decl, Expr, For, Function, Index, Name, Number
from tuner.spaces.source.walks import (
    map_expressions,
    names_in,
    statements,
    subtrees,
    transform,
    written_names,
)

__all__ = ["OPERATORS"]

_NOT_PLAIN = re.compile(
    r"[*&]|\b(const|constexpr|volatile|static|extern|register|thread_local|_Thread_local|auto)\b"
)


def settle_locals(function: Function, _: Args) -> Function:
    """Makes constants of the local whole numbers that keep the value that they are declared with."""
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


def read_sizes(function: Function, _: Args) -> Function:
    """Puts constants in the place of elements that bounds of loops name."""
    found = _sizes(function)
    if not found:
        raise Refused("no bound of a loop is an element of an array that stays as it is")
    names: dict[Expr, str] = {}
    for element in found:
        names[element] = fresh_name(function, f"{_array(element)}_{_place(element)}", names.values())

    def change(expr: Expr) -> Expr:
        return Name(names[expr]) if isinstance(expr, Index) and expr in names else expr

    kinds = {d.name: d.type for d in function.variables}
    constants = tuple(
        Decl(f"const {kinds[_array(element)].removeprefix('const ')}", names[element], init=element)
        for element in found
    )
    return replace(function, body=(*constants, *map_expressions(function.body, change)))


def _sizes(function: Function) -> list[Index]:
    """Elements with a number for a subscript that bounds name, of arrays of the file that nothing here changes."""
    if any(isinstance(n, Call) and not is_pure(n) for n in subtrees(function.body)):
        return []
    changed = written_names(function.body) | exposed_names(function)
    declared = {s.name for s in statements(function.body) if isinstance(s, Decl)}
    whole = {
        d.name: int(d.dims[0].text)
        for d in function.variables
        if len(d.dims) == 1 and isinstance(d.dims[0], Number) and d.dims[0].text.isdigit()
        if is_integer(d.type) and not is_narrow(d.type) and d.name not in changed | declared
    }
    bounds = [(s.start, s.limit, s.step) for s in statements(function.body) if isinstance(s, For)]
    elements = (
        n for part in bounds for n in subtrees(part) if isinstance(n, Index) and names_in(n) <= whole.keys()
    )
    return [e for e in dict.fromkeys(elements) if -1 < _place(e) < whole[_array(e)]]


def _array(element: Index) -> str:
    return element.base.id if isinstance(element.base, Name) else ""


def _place(element: Index) -> int:
    """Its subscript; -1 for any that is no number."""
    number = (
        element.index.text if isinstance(element.index, Number) and isinstance(element.base, Name) else ""
    )
    return int(number) if number.isdigit() else -1


OPERATORS = (
    opener(
        settle_locals,
        where_it_applies(settle_locals),
        "constants of local whole numbers that nothing changes",
    ),
    opener(read_sizes, where_it_applies(read_sizes), "sizes that a file keeps in an array, as constants"),
)
