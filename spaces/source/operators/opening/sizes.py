"""Sizes that a file keeps in an array, read once into constants: ``grid_points[2]`` in the bound of a loop.

Other operators reason with names and members, not with elements of arrays. May take only what nothing in the function
changes, from an array that is as long.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import Refused, is_integer, is_narrow, is_pure
from tuner.spaces.source.operators.base import Args, fresh_name, opener, where_it_applies
from tuner.spaces.source.syntax import Call, Decl, Expr, For, Function, Index, Name, Number
from tuner.spaces.source.walks import map_expressions, names_in, statements, subtrees, written_names

__all__ = ["OPERATORS"]


def read_sizes(function: Function, _: Args) -> Function:
    """Puts constants in the place of elements that bounds of loops name.

    Args:
        function: to change.
    """
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
        read_sizes, where_it_applies(read_sizes), summary="sizes that a file keeps in an array, as constants"
    ),
)
