"""Functions of a project with the names of the language's own: what the project defines is meant.

Operators know by the name what ``sqrtf``, ``max`` or ``get_global_id`` do. A call of a name to which the kernel's files
or headers give another meaning says so itself (:attr:`tuner.spaces.source.syntax.Call.own`). May not judge calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tuner.spaces.source.kinds import is_known_name
from tuner.spaces.source.lexical import code, words
from tuner.spaces.source.parse import function_nodes, parse_file
from tuner.spaces.source.syntax import Call, Decl, Expr, For, Function, Opaque, OpaqueStmt
from tuner.spaces.source.walks import T, map_expressions, subtrees

__all__ = ["UNKNOWN", "own_names", "with_own_calls", "with_own_names"]

UNKNOWN = "unknown"
"""A function or a variable that may do anything."""

_DIRECTIVE = re.compile(r"^[ \t]*#.*", re.MULTILINE)
_NOT_CALLED = re.compile(r"(?<!std::)\b([A-Za-z_]\w*)\b(?!\s*\()")


def own_names(texts: Iterable[str], language: str) -> dict[str, str]:
    """The names that a project's texts give a meaning of their own, each with :data:`UNKNOWN`."""
    return dict.fromkeys((name for text in texts for name in _of_text(text, language)), UNKNOWN)


@lru_cache(maxsize=256)
def _of_text(text: str, language: str) -> frozenset[str]:
    # Few texts have any, and most of those only call them.
    if not any(map(is_known_name, words(text))):
        return frozenset()
    plain = _DIRECTIVE.sub("", code(text.replace("\\\n", "  ")))
    named = {name for name in _NOT_CALLED.findall(plain) if is_known_name(name)}
    defined = {name.rpartition("::")[2] for name, _ in function_nodes(parse_file(text.encode(), language))}
    return frozenset([*named, *filter(is_known_name, defined)])


def with_own_calls(function: Function, own: Mapping[str, str]) -> Function:
    """The function with its calls of a project's own functions marked; its parameters and variables are its own too."""
    names = _meanings(function, own)
    if not names:
        return function
    return replace(
        function,
        body=_marked(function.body, names),
        outer=_marked(function.outer, names),
        own=tuple(sorted(own.items())),
    )


def with_own_names(expr: Expr, function: Function) -> Expr:
    """An expression that was read by itself, as :func:`with_own_calls` would have it in a function."""
    names = _meanings(function, dict(function.own))
    return _marked(expr, names) if names else expr


def _meanings(function: Function, own: Mapping[str, str]) -> dict[str, str]:
    found = set(filter(is_known_name, words(function.signature))) - {function.name}
    for node in subtrees((function.outer, function.body)):
        match node:
            case Decl(name=name) | For(var=name) if is_known_name(name):
                found.add(name)
            case Opaque(text=text) | OpaqueStmt(text=text):
                found |= {w for w in _NOT_CALLED.findall(code(text)) if is_known_name(w)}
    return {**own, **dict.fromkeys(found, UNKNOWN)}


def _marked(part: T, names: Mapping[str, str]) -> T:
    def mark(expr: Any) -> Any:
        what = names.get(expr.function, "") if isinstance(expr, Call) else ""
        return replace(expr, own=what) if what else expr

    return map_expressions(part, mark)
