"""What stands behind the names of a kernel's text: macros, other functions of the file, text that cannot be read.

An operator goes by names; what these hide it would not see. May not change a tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tuner.spaces.source.parse import function_nodes, node_text, parse_file
from tuner.spaces.source.syntax import Function, Opaque, OpaqueStmt
from tuner.spaces.source.walks import names_in, subtrees

__all__ = ["behind", "behind_macros", "free_words", "loosely_bound", "opaque_words"]

_WORD = re.compile(r"[A-Za-z_]\w*")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\))?(.*)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER = r"-?\.?\d[\w.]*([eEpP][+-]\d+\w*)?"
_LITERAL = re.compile(r"\.?\b\d(?:[eEpP][+-]|[\w.])*")
_ATOM = re.compile(rf"[\w.]*|{_NUMBER}|\w+[(\[].*[)\]]|\(.*\)", re.DOTALL)


def behind(function: Function, part: Any) -> set[str]:
    """Words of the macros and functions of the file that a part names, and of those that they name."""
    return _reached(
        function, part, (_macros(function.source), _functions(function.source, function.language))
    )


def behind_macros(function: Function, part: Any) -> set[str]:
    """:func:`behind` without functions, which do not see the variables of those that call them."""
    return _reached(function, part, (_macros(function.source),))


def free_words(function: Function, part: Any) -> set[str]:
    """Words of the macros that a part names, and of those that they name, without their own parameters."""
    return _reached(function, part, (_free(function.source),))


def opaque_words(part: Any) -> set[str]:
    """Words of what is only known as text."""
    texts = (n.text for n in subtrees(part) if isinstance(n, Opaque | OpaqueStmt))
    return {word for text in texts for word in _WORD.findall(text)}


def loosely_bound(function: Function, part: Any) -> set[str]:
    """Macros that a part names and that stand for more than one operand: beside an operator they come apart."""
    macros = _texts(function.source)
    return {name for name in names_in(part) if any(not _is_operand(text) for text in macros.get(name, ()))}


def _reached(function: Function, part: Any, meanings: Sequence[Mapping[str, frozenset[str]]]) -> set[str]:
    found: set[str] = set()
    # A kernel that names itself is no news.
    waiting = (names_in(part) | opaque_words(part)) - {function.name}
    done = {function.name}
    while waiting:
        name = waiting.pop()
        done.add(name)
        words = frozenset[str]().union(*(m.get(name, ()) for m in meanings))
        found |= words
        waiting |= words - done
    return found


@lru_cache(maxsize=64)
def _texts(source: str) -> Mapping[str, tuple[str, ...]]:
    """What macros stand for, under any condition."""
    found: dict[str, tuple[str, ...]] = {}
    for match in _MACRO.finditer(_COMMENT.sub(" ", source.replace("\\\n", " "))):
        found[match[1]] = (*found.get(match[1], ()), match[3].strip())
    return found


@lru_cache(maxsize=64)
def _macros(source: str) -> Mapping[str, frozenset[str]]:
    """Words of what macros stand for, under any condition, without their own parameters."""
    found: dict[str, frozenset[str]] = {}
    for name, parameters, text in _MACRO.findall(_COMMENT.sub(" ", source.replace("\\\n", " "))):
        words = frozenset(_WORD.findall(text)) - frozenset(_WORD.findall(parameters))
        found[name] = found.get(name, frozenset()) | words
    return found


@lru_cache(maxsize=64)
def _free(source: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for match in _MACRO.finditer(_COMMENT.sub(" ", source.replace("\\\n", " "))):
        words = frozenset(_WORD.findall(_LITERAL.sub(" ", match[3]))) - set(_WORD.findall(match[2] or ""))
        found[match[1]] = found.get(match[1], frozenset()) | words
    return found


@lru_cache(maxsize=64)
def _functions(source: str, language: str) -> Mapping[str, frozenset[str]]:
    root = parse_file(source.encode(), language)
    return {name: frozenset(_WORD.findall(node_text(node))) for name, node in function_nodes(root)}


def _is_operand(text: str) -> bool:
    """Whether a macro's text holds together beside any operator: a word, a call, or what parentheses enclose."""
    if _ATOM.fullmatch(text) is None:
        return False
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if not depth and char in ")]" and at + 1 < len(text):
            return False
    return not depth
