"""Declarations of variables and parameters, and types made of types, from texts as clang writes types.

May not look at a tree.
"""

from __future__ import annotations

import re

__all__ = ["POINTER", "declaration", "pointer", "reference", "separate"]

POINTER = re.compile(r"\*(?:\s*(?:const|restrict|__restrict))*$|\(\*")
"""The end of the type of a pointer."""
RESTRICT = "__restrict__"
"""The word for a pointer to an object of its own that every dialect of C and C++ has."""
_ARRAY = re.compile(r"[^\[]*\[")


def declaration(kind: str, name: str) -> str:
    """A variable of a type as clang writes types."""
    table = re.search(r"\(\*+(?=\[)", kind)
    if table is not None:
        return f"{kind[: table.end()]}{name}{kind[table.end() :]}"
    found = re.search(r"\(([*&]+)[^()]*\)", kind)
    if found is not None:
        end = found.end() - 1
        space = " " if re.match(r"\w", kind[end - 1]) else ""
        return f"{kind[:end]}{space}{name}{kind[end:]}"
    array = _ARRAY.match(kind)
    if array is not None:
        end = array.end() - 1
        return f"{kind[:end].rstrip()} {name}{kind[end:]}"
    return f"{kind}{'' if kind.endswith(('*', '&')) else ' '}{name}"


def separate(kind: str, name: str, language: str, *, array: bool = False) -> str:
    """A pointer or an array as a parameter to whose object nothing else leads; empty where there is no way to say it.

    Args:
        kind: its type, as clang writes types.
        name: the parameter's.
        language: in C++ there is no way to say it of an array.
        array: whether it is one.
    """
    if not array:
        rows = re.search(r"\(\*+[\w\s]*(?=\))", kind)
        end = len(kind) if rows is None else rows.end()
        if not POINTER.search(kind[:end]):
            return ""
        made = f"{kind[:end]}{'' if kind[end - 1] == '*' else ' '}{RESTRICT}{kind[end:]}"
        return declaration(made, name) if rows is not None else f"{made} {name}"
    written = declaration(kind, name)
    first = re.search(rf"\b{name}\[([^\]]*)\]", written)
    if first is None:
        return ""
    # In C++ no extent may have the word, and a pointer in its place would have lost the extent.
    return "" if language == "c++" else f"{written[: first.start(1)]}{RESTRICT} {written[first.start(1) :]}"


def reference(kind: str, name: str) -> str:
    """A reference to a variable of a type."""
    array = _ARRAY.match(kind)
    if array is None or "<" in kind[: array.end()]:
        return declaration(f"{kind} &", name)
    return f"{kind[: array.end() - 1].rstrip()} (&{name}){kind[array.end() - 1 :]}"


def pointer(kind: str) -> str:
    """The type of a variable's address."""
    found = re.search(r"\(\*", kind)
    if found is not None:
        return f"{kind[: found.end()]}*{kind[found.end() :]}"
    return f"{kind}*" if kind.endswith("*") else f"{kind} *"
