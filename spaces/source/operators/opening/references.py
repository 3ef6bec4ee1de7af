"""Local references to elements (C++) as pointers to them, which other parts of the package follow.

``body &b = a[i]; b.x`` is ``body *b = &a[i]; b->x``. May not read members.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from tuner.spaces.source.expressions import parse_expression
from tuner.spaces.source.kinds import is_pure, plain_type, types_of
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.naming import is_array
from tuner.spaces.source.structures import Structures
from tuner.spaces.source.syntax import Decl, Expr, For, Function, Index, Name, Number, OpaqueStmt, Unary
from tuner.spaces.source.walks import map_expressions, statements, transform

__all__ = ["dereferenced", "references", "with_pointers"]

_REFERENCE = re.compile(
    r"((?:const\s+)?(?:struct\s+)?\w+(?:\s+const)?)\s*&\s*([A-Za-z_]\w*)\s*=\s*([^;{}]+);"
)


def references(function: Function, types: Structures) -> dict[str, Decl]:
    """Pointers that may stand for references, by name: each declared once, to an element of its own type."""
    if function.language not in ("c++", "cuda") or not function.whole:
        # What follows a region may use a reference that is declared in it.
        return {}
    found: dict[str, Decl] = {}
    within = list(statements(function.body))
    known = Counter(s.name for s in (*within, *function.outer) if isinstance(s, Decl))
    known += Counter([s.var for s in within if isinstance(s, For)] + [p.name for p in function.params])
    kinds = types_of(function)
    for stmt in within:
        parts = _REFERENCE.fullmatch(stmt.text.strip()) if isinstance(stmt, OpaqueStmt) else None
        if parts is None:
            continue
        kind, name, value = " ".join(parts[1].split()), parts[2], parse_expression(parts[3])
        known[name] += 1
        match value:
            case Index(base=Name(id=array), index=index) if is_array(function, array) and is_pure(index):
                if plain_type(kind) == "auto":
                    const = "const " if "const" in (*kind.split(), *kinds.get(array, "").split()) else ""
                    kind = f"{const}{plain_type(kinds.get(array, ''))}"
                same = plain_type(kinds.get(array, "")) == plain_type(kind)
                if same and kinds[array].count("*") <= 1 and types.is_known(kind):
                    found[name] = Decl(f"{kind} *", name, (), Unary("&", value))
    pragmas = " ".join(p for s in within if isinstance(s, For) for p in s.pragmas)
    elsewhere = words(pragmas)
    return {name: decl for name, decl in found.items() if known[name] == 1 and name not in elsewhere}


def with_pointers(function: Function, found: dict[str, Decl]) -> Function:
    """The function with these pointers in the place of the references."""

    def change(node: object) -> object:
        parts = _REFERENCE.fullmatch(node.text.strip()) if isinstance(node, OpaqueStmt) else None
        return node if parts is None else found.get(parts[2], node)

    body = map_expressions(function.body, lambda e: dereferenced(e, found))
    return replace(function, body=transform(body, change))


def dereferenced(expr: Expr, found: Collection[str]) -> Expr:
    """What a name of a reference stands for."""
    return Index(expr, Number("0")) if isinstance(expr, Name) and expr.id in found else expr
