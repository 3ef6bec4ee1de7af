"""What names of a function mean: which are taken or declared, which are arrays. May not transform."""

from __future__ import annotations

import re

from tuner.spaces.source.syntax import Decl, For, Function, Opaque, OpaqueStmt, Stmt
from tuner.spaces.source.walks import names_in, statements, subtrees, written_names

__all__ = ["declared", "is_array", "names_known"]

_WORD = re.compile(r"\b[A-Za-z_]\w*")


def names_known(function: Function) -> set[str]:
    """Everything that a name could be taken for in a function."""
    taken = names_in(function.body) | written_names(function.body) | declared(function.body)
    taken |= {p.name for p in function.params} | {d.name for d in function.outer}
    taken |= {d.name for d in function.defines} | {w for t in function.preamble for w in _WORD.findall(t)}
    for node in subtrees(function.body):
        if isinstance(node, Opaque | OpaqueStmt):
            taken |= set(_WORD.findall(node.text))
    return taken


def declared(body: tuple[Stmt, ...]) -> set[str]:
    found = set()
    for stmt in statements(body):
        if isinstance(stmt, Decl):
            found.add(stmt.name)
        elif isinstance(stmt, For) and stmt.type:
            found.add(stmt.var)
    return found


def is_array(function: Function, name: str) -> bool:
    for param in function.params:
        if param.name == name:
            return param.is_array
    for decl in (*function.outer, *(s for s in statements(function.body) if isinstance(s, Decl))):
        if decl.name == name:
            return bool(decl.dims) or "*" in decl.type
    return False
