"""A kernel that is ``static`` in its file, made callable for the time of its measuring.

Hot loops are often static functions. For compilers alone the word becomes blanks, with ``inline`` beside it, which in
C would leave no code to call. The files themselves, which are edited and handed back, keep both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from tuner.core.types import Source, Variant
from tuner.spaces.c_declarations import declarations

__all__ = ["exposed", "is_static"]

_WORDS = re.compile(r"\b(?:static|inline|__inline__|__inline)\b")


def exposed(variant: Variant, entry: str) -> Variant:
    """The variant with an entry that others can call; itself where the entry is not static.

    Args:
        variant: the files; only the first one is changed.
        entry: name of a function, with its namespaces where it has some.
    """
    first, *others = variant.files
    text = _exposed(first.text, entry.rpartition("::")[2])
    return (
        variant
        if text == first.text
        else replace(variant, files=(Source(name=first.name, text=text), *others))
    )


def is_static(variant: Variant, entry: str) -> bool:
    """Whether only its own file can call the entry, by the looks of the text."""
    return exposed(variant, entry) is not variant


@lru_cache(maxsize=256)
def _exposed(text: str, name: str) -> str:
    if "static" not in text or name not in text:
        return text
    called = re.compile(rf"\b{re.escape(name)}\s*\(")
    for found in reversed(declarations(text, frozenset(), {})):
        place = called.search(text, found.start, found.end) if name in found.declares else None
        if place is not None:
            head = text[found.start : place.start()]
            if re.search(r"\bstatic\b", head):
                blank = _WORDS.sub(lambda word: " " * len(word[0]), head)
                text = text[: found.start] + blank + text[place.start() :]
    return text
