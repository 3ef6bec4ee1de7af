"""What stands behind the names of a kernel's text: other functions of the file, text that cannot be read.

An operator goes by names; what these hide it would not see. May not change a tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tuner.spaces.source.lexical import words
from tuner.spaces.source.parse import function_nodes, node_text, parse_file
from tuner.spaces.source.syntax import Function
from tuner.spaces.source.walks import names_in, opaque_words

__all__ = ["behind"]


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
