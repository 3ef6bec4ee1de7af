"""What stands behind the names of a kernel's text: other functions of the file, text that cannot be read.

An operator goes by names; what these hide it would not see. May not change a tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tuner.spaces.source.parse import function_nodes, node_text, parse_file
from tuner.spaces.source.syntax import Function, Opaque, OpaqueStmt
from tuner.spaces.source.walks import names_in, subtrees

__all__ = ["behind", "opaque_words"]

_WORD = re.compile(r"[A-Za-z_]\w*")


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
        words = meanings.get(name, frozenset())
        found |= words
        waiting |= words - done
    return found


def opaque_words(part: Any) -> set[str]:
    """Words of what is only known as text."""
    texts = (n.text for n in subtrees(part) if isinstance(n, Opaque | OpaqueStmt))
    return {word for text in texts for word in _WORD.findall(text)}


@lru_cache(maxsize=64)
def _functions(source: str, language: str) -> Mapping[str, frozenset[str]]:
    root = parse_file(source.encode(), language)
    return {name: frozenset(_WORD.findall(node_text(node))) for name, node in function_nodes(root)}
