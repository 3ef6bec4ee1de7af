"""Rows that are found by their addresses (``double **a``): elements ``a[i][j]`` as those of an array of two dimensions.

Rests on what the tuner gives such a kernel, and asks of an application's call before a winner takes it: no row overlaps
another, and no element lies among the rows' addresses. May not change where a row lies.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tuner.spaces.source.kinds import (
    Refused,
    hidden,
    is_floating,
    is_integer,
    is_pure,
    lasts,
    plain_type,
    types_of,
)
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    argument,
    declarations_where,
    only_declaration,
    opener,
    place_in_body,
    replace_statement,
    where_it_applies,
)
from tuner.spaces.source.operators.opening.pointers import kept_subscript, require_subscripts_only, whole_type
from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Cast,
    Decl,
    Expr,
    Field,
    Function,
    Index,
    Name,
    Opaque,
    OpaqueStmt,
    Param,
    Stmt,
)
from tuner.spaces.source.walks import index_chain, map_expressions, opaque_words, statements, subtrees

__all__ = ["OPERATORS"]

_ASSUMED = ["separate buffers", "elements lie in their rows"]
_TO_ARRAYS = re.compile(r"[\w\s]*\(\s*\*[\w\s]*\)\s*(?:\[[^][]*\]\s*)+")
"""``double (*a)[n]``: rows of a length that is known."""


def heed_rows(function: Function, _: Args) -> Function:
    """Lets analyses take pointers to rows for arrays of so many dimensions. The text stays as it is."""
    found = {name for name, levels in _tables(function).items() if _is_heeded(function, name, levels)}
    if not found - function.rows:
        raise Refused("no elements are known to lie in rows that stay where they are")
    return replace(function, rows=function.rows | found)


def forward_row(function: Function, args: Args) -> Function:
    """Puts an element of the array of rows in the place of one of a local pointer to a row.

    Takes ``pointer``, its name.
    """
    name = argument(args, "pointer")
    decl = only_declaration(function, name)
    if decl is None or decl.dims or decl.type.count("*") != 1 or "volatile" in decl.type:
        raise Refused(f"{name} is not declared once as a plain pointer")
    if lasts(decl):
        raise Refused(f"{name} keeps its value from one call to the next")
    if (
        not isinstance(decl.init, Index)
        or not isinstance(decl.init.base, Name)
        or not is_pure(decl.init.index)
    ):
        raise Refused(f"{name} does not begin as a row")
    rows, index = decl.init.base, decl.init.index
    if _tables(function).get(rows.id) != 2 or name in {p.name for p in function.params}:
        raise Refused(f"{name} does not begin as a row")
    types = types_of(function)
    if plain_type(types.get(rows.id, "")) != plain_type(decl.type):
        raise Refused(f"{name} and {rows.id} point to different types")
    if any(isinstance(n, Assign) and n.target == Name(name) for n in subtrees(function.body)):
        raise Refused(f"{name} changes")
    if hidden(function):
        raise Refused(f"{hidden(function)} is declared again where it means something")
    require_subscripts_only(function, name, types)
    _require_steady(function, rows)
    body, place = place_in_body(function, decl)
    _require_known(function, body[place + 1 :], types)
    whole_type(index, types)
    kept, index = kept_subscript(function, name, index, types)

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Index) and expr.base == Name(name):
            return Index(Index(rows, index), expr.index)
        return expr

    made = replace_statement(function, decl, kept)
    return replace(made, body=map_expressions(made.body, change))


def _levels(param: Param) -> int:
    """How many subscripts an element behind pointers has; 0 for what is an array by itself, and for anything else."""
    if not param.stars or "volatile" in param.text or "&" in param.text:
        return 0
    if "?" in param.suffix and not (_TO_ARRAYS.fullmatch(param.text.strip()) and param.stars == 1):
        return 0
    return param.stars + param.suffix.count("[")


def _tables(function: Function) -> dict[str, int]:
    """What leads to rows: parameters and members that were read once, with the subscripts that an element has."""
    found = {p.name: levels for p in function.params if (levels := _levels(p)) > 1}
    return found | dict.fromkeys(function.tables, 2) | _views(function)


def _views(function: Function) -> dict[str, int]:
    """Local pointers to rows that are all of a parameter's elements, which nothing else in the function leads to."""
    if not function.whole:
        return {}
    given = {p.name for p in function.params if p.stars == 1 and not p.suffix and "volatile" not in p.text}
    found: dict[str, int] = {}
    for decl in statements(function.body):
        if isinstance(decl, Decl) and decl.row_element and "volatile" not in decl.type and not lasts(decl):
            of = decl.init.operand if isinstance(decl.init, Cast) else decl.init
            if isinstance(of, Name) and of.id in given and not _is_hidden(function, of.id):
                alone = sum(node == of for node in subtrees(function.body)) == 1
                found |= {decl.name: 1 + decl.type.count("[")} if alone else {}
    return found


def _is_heeded(function: Function, table: str, levels: int) -> bool:
    """Whether what leads to rows is used for its elements alone."""
    if _is_hidden(function, table):
        return False
    name = Name(table)
    uses = sum(1 for node in subtrees(function.body) if node == name)
    chains = [index_chain(node) for node in subtrees(function.body) if isinstance(node, Index)]
    return 0 < uses == sum(1 for base, at in chains if base == name and len(at) == levels)


def _is_hidden(function: Function, name: str) -> bool:
    return name in opaque_words(function.body)


def _require_steady(function: Function, name: Name) -> None:
    """Refuses rows of which the function may change one: it may use elements and begin pointers, nothing else."""
    if _is_hidden(function, name.id):
        raise Refused(f"{name.id} is used in a construct that operators do not know")
    uses = sum(node == name for node in subtrees(function.body))
    known = 0
    for node in subtrees(function.body):
        if isinstance(node, Index) and isinstance(node.base, Index) and node.base.base == name:
            known += 1
        elif isinstance(node, Decl) and isinstance(node.init, Index) and node.init.base == name:
            known += int("*" in node.type and not node.dims)
    if uses != known:
        raise Refused(f"{name.id} is used for more than elements of its rows")


def _require_known(function: Function, part: tuple[Stmt, ...], types: dict[str, str]) -> None:
    """Refuses what may change where rows lie while a pointer to one still leads to the old one."""
    moved = {n.target for n in subtrees(function.body) if isinstance(n, Assign)}
    # Of parameters types say no more than one star.
    types = {n: kind for n, kind in types.items() if n not in _tables(function)}
    given = {p.name for p in function.params if Name(p.name) not in moved} | function.tables
    apart = {name for name in given if not _is_hidden(function, name)}
    apart |= {s.name for s in statements(function.body) if isinstance(s, Decl) and s.dims}
    for node in subtrees(part):
        text = node.text.replace(" ", "") if isinstance(node, Opaque | OpaqueStmt) else ""
        stores = isinstance(node, Assign) and _may_store_address(node.target, apart, types)
        if stores or (isinstance(node, Call) and not is_pure(node)) or (text and text != "return;"):
            raise Refused("what follows may change where rows lie")


def _may_store_address(target: Expr, apart: set[str], types: dict[str, str]) -> bool:
    """Whether an assignment may change a row's address: neither in a buffer of its own nor to a number."""
    base, subscripts = index_chain(target)
    if isinstance(base, Name) and (not subscripts or base.id in apart):
        return False
    kind = types.get(base.id, "") if isinstance(base, Name) else base.type if isinstance(base, Field) else ""
    number = is_floating(kind) or is_integer(kind.replace("*", ""))
    return not number or kind.count("*") != len(subscripts)


_forward_sites = declarations_where(
    lambda decl: "*" in decl.type and not decl.dims and isinstance(decl.init, Index),
    "pointer",
    assumes=[*_ASSUMED, "subscripts fit"],
)


OPERATORS = (
    opener(
        forward_row,
        _forward_sites,
        "an element of an array of rows in the place of one of a local pointer to a row",
        languages=HOST,
    ),
    opener(
        heed_rows,
        where_it_applies(heed_rows, *_ASSUMED),
        "goes by rows that are found by their addresses",
        languages=HOST,
    ),
)
