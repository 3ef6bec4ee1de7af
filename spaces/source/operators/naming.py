"""What names of a function mean: which are taken or declared, which are arrays, what stands behind them in the text.

May not transform.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import unused, words
from tuner.spaces.source.number_types import number_types
from tuner.spaces.source.parse import function_nodes, node_text, parse_file
from tuner.spaces.source.syntax import Block, Decl, For, Function, If, OpaqueStmt, Stmt
from tuner.spaces.source.walks import (
    declared_names,
    inner_bodies,
    names_in,
    opaque_words,
    operands,
    scoped,
    statements,
    subtrees,
    written_names,
)

__all__ = [
    "RETURN",
    "behind",
    "declared_as_text",
    "fresh_name",
    "is_array",
    "is_used_outside",
    "names_known",
    "names_taken",
    "require_in_scope",
    "words_of_files",
]

RETURN = re.compile(r"return\b(.*);", re.DOTALL)
_CONTROL = re.compile(
    r"(while|do|switch|goto|return|break|continue|asm|__asm__|if|for|case|default)\b|[#{;]|\w+\s*:(?!:)"
)
_REFERENCE = re.compile(r"(?:(?:const|struct)\s+)*[A-Za-z_]\w*(?:\s+const)?\s*&\s*([A-Za-z_]\w*)\s*=[^=]")


def words_of_files(function: Function) -> frozenset[str]:
    """All words of the kernel's files, and macros of headers."""
    return words(function.source) | function.macros | function.words


def names_taken(function: Function) -> set[str]:
    """Identifiers of the file and of what was added."""
    own = names_in(function.body) | written_names(function.body) | {d.name for d in function.defines}
    return own.union(words_of_files(function), *map(words, function.preamble))


def fresh_name(function: Function, stem: str, taken: Iterable[str] = ()) -> str:
    """An identifier that nothing in the file uses."""
    return unused(stem, names_taken(function) | set(taken))


def names_known(function: Function) -> set[str]:
    """Everything that a name could be taken for in a function."""
    taken = names_in(function.body) | written_names(function.body) | opaque_words(function.body)
    taken |= {p.name for p in function.params} | {d.name for d in function.outer}
    taken |= {d.name for d in function.defines}
    # Of types that are not in the tree any more, but in the author's spelling of it.
    return taken.union(number_types(function.file), *map(words, function.preamble))


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
    for stmt, known in scoped(function.body, frozenset(p.name for p in function.params)):
        match stmt:
            case For(type=kind, var=var):
                head = known | {var} if kind else known
                used = names_in(stmt.start) | (names_in((stmt.limit, stmt.step)) - head) | {var} - head
            case If() | Block():
                used = names_in(tuple(operands(stmt)))
            case Decl(name=name):
                used = names_in((*stmt.dims, stmt.init)) - {name}
            case _:
                used = names_in(stmt) | written_names(stmt)
        missing = (used & own) - known
        if missing:
            raise Refused(f"{min(missing)} means two things in {function.name}")


def is_used_outside(function: Function, var: str) -> bool:
    """Whether a function uses a variable outside of loops that count it."""

    def uses(stmt: Stmt) -> bool:
        match stmt:
            case For() if stmt.var == var:
                return var in names_in(stmt.start)
            case For() | If() | Block():
                within = (s for part in inner_bodies(stmt) for s in part)
                return var in names_in(tuple(operands(stmt))) or any(map(uses, within))
            case OpaqueStmt(text=text):
                return re.search(rf"\b{var}\b", text) is not None
        return var in names_in(stmt)

    return var in function.read_after or any(map(uses, function.body))


def behind(function: Function, part: Any) -> set[str]:
    """Words of the functions of the file that a part names, and of those that they name."""
    meanings = _functions(function.source, function.language)
    found: set[str] = set()
    # A kernel that names itself is no news.
    waiting = (names_in(part) | opaque_words(part)) - {function.name}
    done = {function.name}
    while waiting:
        name = waiting.pop()
        done.add(name)
        within = meanings.get(name, frozenset())
        found |= within
        waiting |= within - done
    return found


@lru_cache(maxsize=64)
def _functions(source: str, language: str) -> Mapping[str, frozenset[str]]:
    root = parse_file(source.encode(), language)
    return {name: words(node_text(node)) for name, node in function_nodes(root)}
