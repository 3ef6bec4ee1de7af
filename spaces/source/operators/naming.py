"""What names of a function mean: which are taken or declared, which are arrays. May not transform."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import words
from tuner.spaces.source.syntax import Block, Decl, For, Function, If, Opaque, OpaqueStmt, Stmt
from tuner.spaces.source.walks import declared_names, names_in, statements, subtrees, written_names

__all__ = ["RETURN", "declared_as_text", "is_array", "names_known", "require_in_scope"]

RETURN = re.compile(r"return\b(.*);", re.DOTALL)
_CONTROL = re.compile(
    r"(while|do|switch|goto|return|break|continue|asm|__asm__|if|for|case|default)\b|[#{;]|\w+\s*:(?!:)"
)
_REFERENCE = re.compile(r"(?:(?:const|struct)\s+)*[A-Za-z_]\w*(?:\s+const)?\s*&\s*([A-Za-z_]\w*)\s*=[^=]")
_WORD = re.compile(r"\b[A-Za-z_]\w*")


def names_known(function: Function) -> set[str]:
    """Everything that a name could be taken for in a function."""
    taken = names_in(function.body) | written_names(function.body) | declared_names(function.body)
    taken |= {p.name for p in function.params} | {d.name for d in function.outer}
    taken |= {d.name for d in function.defines} | {w for t in function.preamble for w in _WORD.findall(t)}
    for node in subtrees(function.body):
        if isinstance(node, Opaque | OpaqueStmt):
            taken |= set(_WORD.findall(node.text))
    return taken


def declared_as_text(function: Function, *, references: bool = False) -> set[str]:
    """Words of statements that may declare something and could not be read.

    Args:
        function: any.
        references: whether of a reference of C++ its name alone counts.
    """
    found: set[str] = set()
    for text in (n.text.strip() for n in subtrees(function.body) if isinstance(n, OpaqueStmt)):
        plain = _REFERENCE.match(text) if references and function.language != "c" else None
        if plain is not None and "," not in text:
            found.add(plain[1])
        elif not _CONTROL.match(text):
            found |= words(text)
    return found


def is_array(function: Function, name: str) -> bool:
    for param in function.params:
        if param.name == name:
            return param.is_array
    for decl in (*function.outer, *(s for s in statements(function.body) if isinstance(s, Decl))):
        if decl.name == name:
            return bool(decl.dims) or "*" in decl.type
    return False


def require_in_scope(function: Function) -> None:
    """Refuses a function that has a variable's name stand for something else as well, where it is not declared."""
    own = declared_names(function.body)

    def visit(body: Iterable[Stmt], around: frozenset[str]) -> None:
        known = around
        for stmt in body:
            inner: tuple[tuple[tuple[Stmt, ...], frozenset[str]], ...] = ()
            used: set[str]
            match stmt:
                case For(type=kind, var=var):
                    head = known | {var} if kind else known
                    used = names_in(stmt.start) | (names_in((stmt.limit, stmt.step)) - head) | {var} - head
                    inner = ((stmt.body, head),)
                case If():
                    used = names_in(stmt.condition)
                    inner = ((stmt.then, known), (stmt.other, known))
                case Block():
                    used = set()
                    inner = ((stmt.body, known),)
                case Decl(name=name):
                    used = names_in((*stmt.dims, stmt.init)) - {name}
                    missing = (used & own) - known
                    known |= {name}
                case _:
                    used = names_in(stmt) | written_names(stmt)
            if not isinstance(stmt, Decl):
                missing = (used & own) - known
            if missing:
                raise Refused(f"{min(missing)} means two things in {function.name}")
            for part, names in inner:
                visit(part, names)

    visit(function.body, frozenset(p.name for p in function.params))
